"""Assertions about streams, and one call that plays a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ag_ui.core import BaseEvent, ToolCallArgsEvent

from interpose.agui import CHUNKS, Expander, Verifier, to_json
from interpose.authoring import Layer, Middleware
from interpose.capability import Capability
from interpose.errors import InvalidStream, TruncatedStream
from interpose.runtime.inputs import Asked
from interpose.runtime.run import RunResult
from interpose.testing.agents import scripted
from interpose.testing.hosts import make_host

T = TypeVar("T")


def assert_valid_stream(events: Iterable[BaseEvent]) -> None:
    """Check that events are one whole run by the rules of AG-UI, chunks or not.

    Raises ``AssertionError`` with the rule, the event and the events before it.
    """
    __tracebackhide__ = True  # pytest shows the author's own line, not this one
    seen: list[BaseEvent] = []
    expander, verifier = Expander(), Verifier()
    try:
        for event in events:
            seen.append(event)
            for whole in expander.push(event) if event.__class__ in CHUNKS else (event,):
                verifier.check(whole)
        verifier.finish()
    except (InvalidStream, TruncatedStream) as error:
        listed = "\n".join(f"  {index}: {to_json(each)}" for index, each in enumerate(seen[-10:]))
        raise AssertionError(f"{error.message}\nthe last events:\n{listed}") from None


@dataclass(frozen=True, slots=True)
class Played:
    """A run as its consumer saw it: ``events``; and what it came to: ``result``."""

    events: tuple[BaseEvent, ...]
    result: RunResult[Any]

    @property
    def types(self) -> list[str]:
        """The types of the events, as ``TEXT_MESSAGE_START``."""
        return [event.type.value for event in self.events]

    @property
    def text(self) -> str:
        """All text of all messages, in the order in which it came."""
        return "".join(
            str(getattr(event, "delta", "")) for event in self.events if "TEXT" in event.type.value
        )

    @property
    def args(self) -> dict[str, str]:
        """The arguments of each tool call, as text, by the call's id."""
        found: dict[str, str] = {}
        for event in self.events:
            if isinstance(event, ToolCallArgsEvent):
                found[event.tool_call_id] = found.get(event.tool_call_id, "") + event.delta
        return found


def play(
    layers: Sequence[Layer | type[Middleware[Any, Any]]],
    agent: object = None,
    asked: Asked = "hi",
    *,
    provide: Mapping[Capability[Any], Any] | None = None,
    **options: Any,
) -> Played:
    """Play one run through ``layers`` and return what came of it; for tests that are not async.

    ``agent``: default ``scripted("Hello.")``. ``options`` are those of :func:`make_host`.
    """

    async def main() -> Played:
        given = scripted("Hello.") if agent is None else agent
        async with make_host(layers, agent=given, provide=provide, **options) as host:
            values = host.run_values
            run = host.run(asked, provide=values)
            events = tuple([event async for event in run])
            return Played(events, await run)

    return run_to_end(main())


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where a loop runs already: then in a thread of its own."""
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - the public one raises
        return asyncio.run(work)
    done: list[T] = []
    failed: list[BaseException] = []

    def target() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=target, name="interpose.testing")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
