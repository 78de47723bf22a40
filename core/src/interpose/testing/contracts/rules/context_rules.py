"""Nothing that belongs to a task or a context is held while the consumer has the event."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
from collections.abc import Sequence
from types import AsyncGeneratorType
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.testing.contracts.aftermath import Begun, begun_in, told_of_failure
from interpose.testing.contracts.bench import Bench, settled
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.players import Player, StreamPlayer, players
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.scripts import Script, message
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_KIT: Final = ("_LINES", "_EARS", "_AGENT", "interpose_collector", "decimal_context")
_SCOPES: Final = ("asyncio.Timeout", "asyncio.TaskGroup", "anyio.CancelScope", "anyio.TaskGroup")
_EXPECTED: Final = (
    "between two events nothing is held that belongs to a task or a context: set a context "
    "variable, open a span's scope or a timeout around single steps, and keep the span on self"
)


async def no_held_context(subject: Subject) -> Finding | None:
    """Drive runs in one context, and then each step in another task and context."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            events = message() if isinstance(player, StreamPlayer) else ()
            contexts = _Contexts(subject, image, player)
            for stream in ((), events) if events else ((),):
                said = await contexts.in_one(stream) or await contexts.in_many(stream)
                if said:
                    return Finding(f"{said}{player.said}", _EXPECTED, stream)
        return None
    finally:
        image.restore()


class _Contexts:
    """Drives runs around one agent in contexts of its choice."""

    def __init__(self, subject: Subject, image: StateImage, player: Player) -> None:
        self._subject = subject
        self._image = image
        self._bench = Bench(subject, player)
        self._usual: set[str] = set()

    async def in_one(self, events: Sequence[BaseEvent]) -> str:
        """Say what the consumer sees of the layer's context between two events."""
        self._image.restore()
        with listening() as logged:
            async with self._bench.opened() as opened, begun_in(self._subject) as begun:
                run = opened.run(Script(tuple(events)))
                before = _variables()
                stream = aiter(run)
                said = ""
                while not said and (event := await anext(stream, None)) is not None:
                    name = _changed(before, _variables())
                    if name:
                        moment = event.type.value
                        said = f"the consumer, at {moment}, sees the context variable {name}"
                    said = said or _scope_in(begun)
                await run.aclose()
        self._usual.update(logged)
        return said

    async def in_many(self, events: Sequence[BaseEvent]) -> str:
        """Say what fails when every event is fetched by another task, in another context."""
        self._image.restore()
        with listening() as logged:
            async with self._bench.opened() as opened:
                run = opened.run(Script(tuple(events)))
                stream = aiter(run)
                event: BaseEvent | None = None
                last = False
                while not last:
                    step = asyncio.create_task(_next(stream), context=contextvars.copy_context())
                    if not await settled(step.done):
                        step.cancel()
                        break
                    event = step.result()
                    last = event is None
                await run.aclose()
                error = (await run).error
        told = told_of_failure([line for line in logged if line not in self._usual])
        if told:
            return f"each event was fetched by another task: {told}"
        if isinstance(error, RuntimeError | ValueError | LookupError):
            said = f"{type(error).__name__}: {error}"
            return f"each event was fetched by another task, and the run failed: {said}"
        return ""


async def _next(stream: Any) -> BaseEvent | None:
    return await anext(stream, None)


def _variables() -> dict[contextvars.ContextVar[Any], Any]:
    return {
        variable: value
        for variable, value in contextvars.copy_context().items()
        if variable.name not in _KIT
    }


def _changed(
    before: dict[contextvars.ContextVar[Any], Any], now: dict[contextvars.ContextVar[Any], Any]
) -> str:
    for variable, value in now.items():
        if variable not in before or before[variable] is not value:
            return f"{variable.name!r}, which is {_shown(value)}"
    return ""


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__


def _scope_in(begun: Begun) -> str:
    """Say which scope of a task an open generator holds while it is suspended at a yield."""
    scopes = tuple(filter(None, map(_class_of, _SCOPES)))
    for reference in begun:
        generator = reference()
        if generator is None or generator.ag_frame is None or generator.ag_running:
            continue
        for held in _stack_of(generator):
            if isinstance(held, scopes):
                name = f"{type(held).__module__.partition('.')[0]}.{type(held).__name__}"
                return f"{generator.__qualname__} holds an {name} open while it yields"
    return ""


def _stack_of(generator: AsyncGeneratorType[Any, Any]) -> list[object]:
    """Return what a suspended generator holds: its variables, and what its ``with`` has entered."""
    return [getattr(held, "__self__", held) for held in gc.get_referents(generator)]


def _class_of(name: str) -> type | None:
    """Return a class by its name, if its package has been imported."""
    package, _, attribute = name.partition(".")
    found = getattr(sys.modules.get(package), attribute, None)
    return found if isinstance(found, type) else None


RULES: Final = (
    Rule(
        "no-held-context",
        "Between two events the consumer runs its own code, perhaps in another task. It sees what "
        "was set, and a token or a scope cannot be given back there.",
        no_held_context,
    ),
)
