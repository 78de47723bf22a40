"""The model: one request to a provider as a stream of AG-UI events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from ag_ui.core import BaseEvent
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import StreamedResponse

from interpose import Ability, ModelContext, ModelFailed, ModelRequest
from interpose_models.asking import call_settings, parameters, takes_output_natively
from interpose_models.ending import finished
from interpose_models.failures import failure_of
from interpose_models.history import history
from interpose_models.opening import OpenedModel
from interpose_models.settings import ModelsSettings
from interpose_models.translation import Translation


class ProviderModel:
    """A model of a provider; see :class:`interpose.Model`.

    ``provider``: the vendor's id (``openai``), ``name``: the model as the operator named it.
    """

    def __init__(self, opened: OpenedModel, settings: ModelsSettings) -> None:
        self._model = opened.model
        self._client = opened.client
        self._secrets = opened.secrets
        self._settings = settings
        self.provider: str = opened.model.system
        self.name: str = settings.model
        native = takes_output_natively(opened.model)
        self.abilities = frozenset({Ability.OUTPUT_WITH_TOOLS}) if native else frozenset[Ability]()

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play one call; closing the stream closes the connection."""
        failure: ModelFailed | None = None
        translation = Translation(ctx.message_id)
        try:
            async with model_request_stream(
                self._model,
                history(request.messages, request.system_prompts, ctx.log.warning),
                model_settings=call_settings(request.settings, self._settings, self._model),
                model_request_parameters=parameters(request, self._model),
                instrument=False,
            ) as answer:
                try:
                    async for part in answer:
                        for event in translation.push(part):
                            yield event
                except GeneratorExit:
                    await _abandon(answer)
                    raise
            response = answer.get()
            last = finished(
                response, self.provider, needs_reason=self._settings.needs_finish_reason
            )
            for event in translation.close(response.parts):
                yield event
            yield last
        except Exception as error:
            failure = failure_of(error, self._settings.name, self._secrets)
            if failure is None:
                raise
        if failure is not None:
            # Out here, so that the original, which holds the request, is no context of it.
            raise failure
        for kind in sorted(translation.left_out):
            ctx.log.warning("The model sent a part ({}) that AG-UI has no place for.", kind)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _abandon(answer: StreamedResponse) -> None:
    """Close the connection, and let every generator of the libraries below find its end.

    Nobody else would: they iterate each other without closing each other.
    """
    with suppress(Exception):  # of the closed connection; nobody waits for this answer
        await answer.cancel()
        async for _ in answer:
            pass
