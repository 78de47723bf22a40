"""What runs inside the server: the agent, the layers that count, and the census of the process.

`interpose serve` finds this module beside its configuration. The clients import it too, to know
what they are to get.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from types import AsyncGeneratorType
from typing import Any, Final

from ag_ui.core import PROTOCOL_VERSION, RunAgentInput

from interpose import EndInfo, Middleware, RunContext
from interpose.agui import EVENT_CLASSES

WORDS: Final = ("Order A-1815 ", "went to ada.love", "lace@exam", "ple.com, ", "as agreed. ")
"""What the agent says again and again: an address that is cut in pieces."""
SECRET: Final = "the password is hunter2"
TALLIES: Final[defaultdict[str, Counter[str]]] = defaultdict(Counter)
"""By layer: how many runs began and ended, which terminal hooks were called, what was wrong."""

FAULTS: Final = ("memory", "tasks", "generators", "handles", "hooks", "text")
"""What can be broken on purpose, to see the benchmark find it."""
BROKEN: Final = frozenset(os.environ.get("LOAD_FAULTS", "").split(",")) & set(FAULTS)
_KEPT: Final[list[Any]] = []


def said(deltas: int) -> str:
    """Return what the consumer is to read when the agent speaks ``deltas`` pieces."""
    words = "".join(WORDS[number % len(WORDS)] for number in range(deltas))
    return words.replace("ada.lovelace@example.com", "[email]")


def event(kind: str, **fields: Any) -> Any:
    """Return an event by the name of its type."""
    return EVENT_CLASSES[kind](**fields)


async def agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Call two tools, then say something every few milliseconds, or fail halfway.

    The input's forwardedProps tell: ``deltas``, ``interval`` (seconds), ``raises``.
    """
    asked: dict[str, Any] = run_input.forwarded_props or {}
    ids = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    if BROKEN:
        _break(run_input)
    yield event("RUN_STARTED", **ids, protocol_version=PROTOCOL_VERSION)
    for call, tool in (("c1", "lookup"), ("c2", "delete_everything")):
        yield event("TOOL_CALL_START", tool_call_id=call, tool_call_name=tool)
        yield event("TOOL_CALL_ARGS", tool_call_id=call, delta='{"to": "ada.lovelace@example.com"}')
        yield event("TOOL_CALL_END", tool_call_id=call)
        yield event("TOOL_CALL_RESULT", tool_call_id=call, message_id=f"r-{call}", content="ok")
    yield event("TEXT_MESSAGE_START", message_id="m1", role="assistant")
    for number in range(asked["deltas"]):
        await asyncio.sleep(asked["interval"])
        if asked["raises"] and number == asked["deltas"] // 2:
            raise RuntimeError(SECRET)
        if "text" in BROKEN and number == 1 and run_input.run_id.endswith("7"):
            continue
        yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta=WORDS[number % len(WORDS)])
    yield event("TEXT_MESSAGE_END", message_id="m1")
    yield event("RUN_FINISHED", **ids)


class Tally(Middleware):
    """Counts each run's beginning and its terminal hooks."""

    def setup(self, ctx: RunContext) -> None:
        """Count a run that begins."""
        self.called: list[str] = []
        self.tally = TALLIES[ctx.layer]
        self.tally["begun"] += 1

    def on_finish(self, ctx: RunContext, info: Any) -> None:
        """Count a success."""
        self._terminal("finish")

    def on_abort(self, ctx: RunContext, info: Any) -> None:
        """Count a run whose client went away."""
        self._terminal("abort")

    def on_error(self, ctx: RunContext, info: Any) -> None:
        """Count a failure."""
        self._terminal("error")
        if "hooks" in BROKEN:
            self._terminal("error")

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        """Count the end, and whether exactly one terminal hook came before it."""
        if self.called != [end.kind]:
            self.tally["wrong"] += 1
        self.called.append("end")
        self.tally["ended"] += 1

    def _terminal(self, kind: str) -> None:
        if self.called:
            self.tally["wrong"] += 1
        self.called.append(kind)
        self.tally[kind] += 1


async def census(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Tell what the process holds at this moment."""
    ids = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    yield event("RUN_STARTED", **ids)
    gc.collect()
    held = gc.get_objects()
    generators = [each for each in held if isinstance(each, AsyncGeneratorType)]
    tasks = Counter(_name(task) for task in asyncio.all_tasks())
    live = Counter(each.__qualname__ for each in generators if each.ag_frame is not None)
    found: dict[str, Any] = {
        "tasks": tasks,
        "generators": live,
        "tallies": TALLIES,
        "objects": len(held),
    }
    del held, generators
    found["blocks"] = sys.getallocatedblocks()
    found["collected"] = sum(each["collected"] for each in gc.get_stats())
    yield event("CUSTOM", name="census", value=found)
    yield event("RUN_FINISHED", **ids)


def _name(task: asyncio.Task[Any]) -> str:
    """Name a task by its coroutine: its own name has numbers and ids in it."""
    return str(getattr(task.get_coro(), "__qualname__", task.get_coro()))


def _break(run_input: RunAgentInput) -> None:
    """Leak what is to be leaked on purpose."""
    if "memory" in BROKEN:
        _KEPT.append(run_input.model_copy(deep=True))
        _KEPT.append("x" * 500_000 + run_input.run_id)
    if "tasks" in BROKEN:
        _KEPT.append(asyncio.create_task(asyncio.Event().wait()))
    if "generators" in BROKEN:
        left = _endless()
        _KEPT.append((left, asyncio.ensure_future(anext(left))))
    if "handles" in BROKEN:
        _KEPT.append(os.open(os.devnull, os.O_RDONLY))


async def _endless() -> AsyncIterator[None]:
    while True:
        yield
