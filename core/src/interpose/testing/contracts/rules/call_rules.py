"""Checks of the discipline of calling: ``call_next``, once, to its end, with what it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.agui import to_json
from interpose.errors import MiddlewareError, Transient, TruncatedStream
from interpose.testing.agents import Part
from interpose.testing.contracts.call_spying import AROUND, MOST_CALLS, Spy, Use, spied
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import calling, play_loop
from interpose.testing.contracts.loop_tools import SECRET
from interpose.testing.contracts.material import cases
from interpose.testing.contracts.playing import Heard, play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import failed, text, tool_call

_NEUTRAL: Final = (*text("Ok."), *tool_call("look_up", {"query": "x"}, result="1"))
_ONCE: Final = "call_next is called once; may_repeat = True is for a class that repeats"


@dataclass(frozen=True, slots=True)
class Scene:
    """What the inner part does. ``well``: nothing goes wrong, and nothing that anybody minds."""

    what: str
    play: Callable[[Subject], Coroutine[Any, Any, Heard]]
    parts: Sequence[Part] = ()
    well: bool = False


async def call_next(subject: Subject) -> Finding | None:
    """Play scenes in which the inner part succeeds and fails; watch how it is called."""
    for scene in _scenes(subject):
        finding = await _seen(subject, scene)
        if finding is not None:
            return await _smaller(subject, scene, finding)
    return None


async def _seen(subject: Subject, scene: Scene) -> Finding | None:
    watched = spied(subject)
    if watched is None:
        return None
    changed, spy = watched
    heard = await _bounded(scene.play(changed), spy)
    return _endless(scene) if heard is None else _judged(scene, heard, spy)


async def _smaller(subject: Subject, scene: Scene, found: Finding) -> Finding:
    """Return what is found with the smallest stream, where it takes no failure to find it."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        return await _seen(subject, _stream(scene.what, list(events), well=scene.well))

    events = [part for part in scene.parts if isinstance(part, BaseEvent)]
    if not events or len(events) < len(scene.parts):
        return found
    return await smallest(events, look) or found


def _judged(scene: Scene, heard: Heard, spy: Spy) -> Finding | None:
    stream = [part for part in scene.parts if isinstance(part, BaseEvent)]
    for use in spy.uses:
        said = _refused(use) or _late(use) or _unawaited(use) or _changed(use)
        said = said or (_lost(use, heard) if scene.well else None)
        if said is not None:
            happened, expected = said
            return Finding(f"{happened} ({scene.what})", expected, stream)
    error = heard.error
    if scene.well and isinstance(error, MiddlewareError | TruncatedStream):
        happened = f"the run failed: {error.message} ({scene.what})"
        return Finding(happened, "each around hook goes on, or gives an outcome itself", stream)
    return None


def _refused(use: Use) -> tuple[str, str] | None:
    for number, called in enumerate(use.calls, start=1):
        if called.refused is not None:
            what = "call_next was called in a way that the host refuses"
            if number > 1:
                what = f"call_next was called {number} times"
            said = f"{what}, in {use.hook}: {called.refused.message}"
            return said, called.refused.hint if number == 1 else _ONCE
    return None


def _late(use: Use) -> tuple[str, str] | None:
    if not use.late:
        return None
    lost = ", ".join(to_json(event)[:160] for event in use.late[:3])
    return (
        f"{use.hook} yielded after the terminal event, and that is lost: {lost}",
        "what is to be seen is yielded before RUN_FINISHED: look for it in the loop",
    )


def _unawaited(use: Use) -> tuple[str, str] | None:
    if use.hook != "around_tool_call" or all(called.begun for called in use.calls):
        return None
    return (
        "call_next(call) was called and never awaited: the tool was not executed",
        "result = await call_next(call), or no call of it",
    )


def _changed(use: Use) -> tuple[str, str] | None:
    if not use.changed:
        return None
    what = "the request" if use.hook == "around_model_call" else "the input"
    return (
        f"{use.hook} changed {what} in place, which every other layer sees",
        "call_next gets a changed copy: model_copy(update={...}), request.replace(...)",
    )


def _lost(use: Use, heard: Heard) -> tuple[str, str] | None:
    """Say that the rest of the inner part was lost, though nothing gave a reason to leave it."""
    if not use.returned or use.hook == "around_tool_call":
        return None
    if use.hook == "around_run" and not isinstance(heard.error, MiddlewareError | TruncatedStream):
        return None
    for called in use.calls:
        if not called.begun:
            return (
                f"{use.hook} called call_next, and never iterated over what it gave",
                "async for event in call_next(...): yield event",
            )
        if not called.ended and called.failed is None:
            return (
                f"{use.hook} left the stream of call_next before its end: what came later is lost",
                "the stream is iterated to its end, or an ending is given in its place",
            )
    return None


def _endless(scene: Scene) -> Finding:
    stream = [part for part in scene.parts if isinstance(part, BaseEvent)]
    return Finding(
        f"call_next was called more than {MOST_CALLS} times, and no end was to be seen "
        f"({scene.what})",
        "a repetition ends after a few attempts, and lets the failure pass then",
        stream,
    )


async def _bounded(playing: Coroutine[Any, Any, Heard], spy: Spy) -> Heard | None:
    """Return what came of it; None once a hook has called on and on."""
    run = asyncio.ensure_future(playing)
    over = asyncio.ensure_future(spy.too_many.wait())
    await asyncio.wait({run, over}, return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    if spy.too_many.is_set():
        run.cancel()
        await asyncio.wait({run}, timeout=1.0)
        return None
    return await run


def _scenes(subject: Subject) -> Iterator[Scene]:
    if "around_run" in subject.facts.hooks:
        yield _stream("a plain stream", [list(_NEUTRAL)], well=True)
        for case in cases(subject):
            yield _stream(case.name, [list(case.events)])
        yield _stream("the agent fails at once", [RuntimeError(SECRET)])
        yield _stream("the agent fails midway", [*text("Well."), RuntimeError(SECRET)])
        yield _stream("the agent fails at once, and may recover", [Transient(SECRET)])
        yield _stream("it may recover, but has sent text", [*text("Well."), Transient(SECRET)])
        yield _stream("the agent sends RUN_ERROR", [*text("Well."), failed("It broke.")])
        yield _stream("the agent sends nothing but its ending", [])
    if subject.uses_loop and set(AROUND[1:]) & set(subject.facts.hooks):
        once = calling("look_up", text="Ok.", query="x")
        yield _loop("a plain loop", [once, "Ok."], well=True)
        yield _loop("the model is unavailable", [{"error": "unavailable"}])
        late = {"text": "Well, well.", "error": "unavailable", "error_after": 1}
        yield _loop("the model breaks off", [late])
        yield _loop("the model refuses", [{"error": "refused"}])
        yield _loop("the model says nothing", [""])
        yield _loop("a tool fails", [calling("refuse", "crash", "flicker"), "Ok."])


def _stream(what: str, parts: list[Any], *, well: bool = False) -> Scene:
    flat = [each for part in parts for each in (part if isinstance(part, list) else [part])]

    async def played(subject: Subject) -> Heard:
        return await play(subject, flat)

    return Scene(what, played, flat, well)


def _loop(what: str, turns: Turns, *, well: bool = False) -> Scene:
    async def played(subject: Subject) -> Heard:
        return (await play_loop(subject, turns)).last

    return Scene(what, played, (), well)


def _spared(subject: Subject) -> str:
    return "" if set(AROUND) & set(subject.facts.hooks) else "it has no around hook"


RULES: Final = (
    Rule(
        "call-next",
        "What call_next gives is the rest of the run. Called twice it does everything twice, left "
        "early it loses what was still to come, and its ending with it.",
        call_next,
        _spared,
    ),
)
