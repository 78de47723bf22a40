"""The factory: from settings to a model with a connection of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interpose import LifespanContext, ModelFactory
from interpose_models.settings import ModelsSettings

if TYPE_CHECKING:
    from interpose_models.model import ProviderModel


class Models(ModelFactory[ModelsSettings]):
    """Makes the model that ``name`` says, once for the host; the host closes it."""

    scope = "host"

    def __call__(self, settings: ModelsSettings, ctx: LifespanContext, /) -> ProviderModel:  # noqa: ARG002
        """Return the model.

        Raises :class:`~interpose.UsageError` when the provider is unknown or lacks a package or a
        key. Nothing is sent yet.
        """
        # Here and not above: they bring pydantic_ai, and the provider its own client.
        from interpose_models.model import ProviderModel
        from interpose_models.opening import open_model

        return ProviderModel(open_model(settings), settings)
