"""The models of the loops that a contract plays: scripts, and each request is on record."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.authoring import NoSettings
from interpose.context import LifespanContext
from interpose.loop.script import Turn, turns_of
from interpose.loop.scripted import ScriptedModel
from interpose.model import Model, ModelContext, ModelFactory
from interpose.payloads import ModelRequest
from interpose.testing.contracts.loop_tools import MOST
from interpose.testing.contracts.subject import Subject

Cut = Callable[[Sequence[BaseEvent]], Sequence[BaseEvent]]
"""Cuts the texts of a model call into other pieces."""

Turns = Sequence[Turn | str | Mapping[str, Any]]

_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
_MOST: Final = 5
_AT_HAND: ContextVar[KitModel | None] = ContextVar("_AT_HAND", default=None)
"""The model of the loop that is being played."""


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
        if len(self.requests) > MOST:
            return
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


class _AtHand:
    """The model of the loop that is being played; one that says Yes where there is none."""

    provider = "scripted"

    def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play the call."""
        return (_AT_HAND.get() or KitModel(["Yes."])).stream(request, ctx)


class StandIn(ModelFactory[NoSettings]):
    """Stands in for each model of the file that the middleware may name."""

    def __call__(self, settings: NoSettings, ctx: LifespanContext, /) -> Model:
        """Return the model."""
        del settings, ctx
        return _AtHand()


def stand_ins(subject: Subject) -> dict[str, Any]:
    """Return ``[models]`` with each word of the settings that could be the id of a model."""
    ids = [word for word in subject.words if _ID.fullmatch(word)][:_MOST]
    return {name: {"use": f"{StandIn.__module__}:{StandIn.__qualname__}"} for name in ids}


def at_hand(model: KitModel) -> None:
    """Let the models of the file be this one, in this task."""
    _AT_HAND.set(model)
