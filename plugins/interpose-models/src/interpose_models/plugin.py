"""What the entry point names: the hooks of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interpose import ModelFactory, hookimpl
from interpose_models.factory import Models


@hookimpl
def interpose_models() -> Mapping[str, type[ModelFactory[Any]]]:
    """Offer ``use = "models"``."""
    return {"models": Models}
