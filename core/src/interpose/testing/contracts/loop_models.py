"""The models of the loops that a contract plays: scripts, and each request is on record."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.authoring import Settings
from interpose.context import LifespanContext
from interpose.loop.script import Turn, turns_of
from interpose.loop.scripted import ScriptedModel
from interpose.model import Model, ModelContext, ModelFactory
from interpose.payloads import ModelRequest
from interpose.testing.contracts.subject import Subject

Cut = Callable[[Sequence[BaseEvent]], Sequence[BaseEvent]]
"""Cuts the texts of a model call into other pieces."""

Turns = Sequence[Turn | str | Mapping[str, Any]]

_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
_MOST: Final = 5
_STAGES: Final[dict[str, KitModel]] = {}
"""The models of the loops that are being played, by a key of their own."""


class KitModel(ScriptedModel):
    """Plays a script, and remembers what it was asked. After its last turn it says "Done."."""

    def __init__(self, turns: Turns, *, cut: Cut | None = None) -> None:
        self.turns = turns_of(turns, "the script of a contract")
        super().__init__(*self.turns, *(["Done."] * 20))
        self.requests: list[ModelRequest] = []
        self._cut = cut

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play the turn that is next in the conversation."""
        self.requests.append(request)
        if self._cut is None:
            async for event in super().stream(request, ctx):
                yield event
            return
        events: list[BaseEvent] = []
        failure: Exception | None = None
        source = super().stream(request, ctx)
        while failure is None:
            try:
                events.append(await anext(source))
            except StopAsyncIteration:
                break
            except Exception as error:  # noqa: BLE001 - raised again, once its pieces are out
                failure = error
        for event in self._cut(events):
            yield event
        if failure is not None:
            raise failure


class StandInSettings(Settings):
    """What ``[models.<id>]`` of a contract says."""

    stage: str = ""


class StandIn(ModelFactory[StandInSettings]):
    """Stands in for each model of the file that the middleware may name: the same script."""

    def __call__(self, settings: StandInSettings, ctx: LifespanContext, /) -> Model:  # noqa: ARG002 - given to every factory
        """Return the model of the loop that is being played; one that says Yes without one."""
        return _STAGES.get(settings.stage) or KitModel(["Yes."])


def stand_ins(subject: Subject, stage: str = "") -> dict[str, Any]:
    """Return ``[models]`` with each word of the settings that could be the id of a model."""
    ids = [word for word in subject.words if _ID.fullmatch(word)][:_MOST]
    use = f"{StandIn.__module__}:{StandIn.__qualname__}"
    return {name: {"use": use, "stage": stage} for name in ids}


def enter_stage(key: str, model: KitModel) -> None:
    """Let the models of the file be this one, for hosts that name the stage."""
    _STAGES[key] = model


def leave_stage(key: str) -> None:
    """Forget a stage."""
    _STAGES.pop(key, None)
