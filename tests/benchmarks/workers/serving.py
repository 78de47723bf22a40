"""What every worker in Python does: say that it is ready, and do what its input asks for."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib.metadata import version  # noqa: TID251 - a peer's environment has nothing else
from typing import Any, Final, TextIO

TOOL_CALLS: Final = 5
"""How many tool calls a loop-run has; with one model call more than that."""

Clock = Callable[[], float]
Action = Callable[..., Coroutine[Any, Any, float]]

_CLOCKS: Final[Mapping[str, Clock]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,  # of all threads: a peer may use several
}


def serve(actions: Mapping[str, Action], *distributions: str) -> None:
    """Answer each line of input with the seconds of an action, until the input ends.

    What is asked for the first time is done once before it is measured.

    :param actions: by name, each with the keyword ``clock`` beside the arguments that it is asked
        for with; all of them run in one event loop.
    :param distributions: whose versions are told.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what a package prints is no answer
    _say(answers, {"ready": True, "versions": {each: version(each) for each in distributions}})
    known: set[str] = set()
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            arguments: dict[str, Any] = json.loads(line)
            try:
                action = actions[arguments.pop("do")]
                arguments["clock"] = _CLOCKS[arguments.pop("clock", "wall")]
                if line not in known:
                    runner.run(action(**arguments))
                    known.add(line)
                answer: dict[str, Any] = {"seconds": runner.run(action(**arguments))}
            except Exception as error:  # noqa: BLE001 - the harness tells it
                answer = {"error": f"{type(error).__name__}: {error}"}
            _say(answers, answer)


async def timed(run: Callable[[], Awaitable[object]], times: int, clock: Clock) -> float:
    """Return the seconds of some runs, one after the other, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        since = clock()
        for _ in range(times):
            await run()
        return clock() - since
    finally:
        gc.enable()


def expect(found: object, wanted: object) -> None:
    """Refuse to measure what did not do its work."""
    if found != wanted:
        raise ValueError(f"{found!r} instead of {wanted!r}")


def _say(answers: TextIO, said: dict[str, Any]) -> None:
    answers.write(json.dumps(said) + "\n")
    answers.flush()
