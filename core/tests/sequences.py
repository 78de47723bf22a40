"""Which hooks a loop calls, in which order, with what leaves between them: a layer that records it.

A :class:`Scenario` says what a run is made of and how it is consumed; :func:`play` gives what was
called and what came, one :class:`Sequence` for each run of the scenario.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import AsyncGeneratorType
from typing import Any, Literal, TypeAlias

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    TokenUsage,
)
from looping import answering, asking

from interpose import (
    AbortInfo,
    CallModel,
    CallRun,
    CallStep,
    CallTool,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    Host,
    IterationInfo,
    Middleware,
    ModelConfig,
    ModelRequest,
    Resolutions,
    Run,
    RunContext,
    RunResult,
    ToolCall,
    ToolCallInfo,
    ToolPhaseInfo,
    ToolResult,
    Trace,
)
from interpose.agui import violations
from interpose.loop import LoopAgent, LoopTool, ScriptedModel
from interpose.model import Ability
from interpose.payloads import ContinueState
from interpose.runtime.direct import play_directly
from interpose.runtime.playing import Play
from interpose.runtime.run import record_of

Act: TypeAlias = Callable[[RunContext, str], None]
"""What a layer does in each of its hooks: the second argument is the name."""
Way: TypeAlias = Literal["iterated", "awaited"]
TERMINAL_HOOKS = ("on_finish", "on_abort", "on_error")


@dataclass(frozen=True, slots=True)
class Note:
    """A hook that was called, or (``layer`` None) an event that the consumer got."""

    layer: str | None
    phase: str
    iteration: int
    what: str

    def __str__(self) -> str:
        if self.layer is None:
            return f"-> {self.what}"
        return f"{self.layer} {self.what}[{self.phase}, {self.iteration}]".strip()


@dataclass(slots=True)
class Sequence:
    """One run. ``complete``: the consumer stayed to its end."""

    notes: list[Note] = field(default_factory=list)
    events: list[BaseEvent] = field(default_factory=list)
    complete: bool = True
    result: RunResult[Any] | None = None

    def hooks(self, layer: str = "") -> list[str]:
        """Return ``hook[phase, iteration]`` of each call; without those for single events."""
        return [
            f"{note.what}[{note.phase}, {note.iteration}]"
            for note in self.notes
            if note.layer == layer and not note.what.startswith("on_event ")
        ]

    def names(self, layer: str = "") -> list[str]:
        """Return the hooks called without what they were called for."""
        return [note.what.split()[0] for note in self.notes if note.layer == layer]

    @property
    def called(self) -> list[str]:
        """Every call of a hook, those for single events included."""
        return [str(note) for note in self.notes if note.layer is not None]

    @property
    def all(self) -> list[str]:
        """Every call and event."""
        return [str(note) for note in self.notes]

    @property
    def types(self) -> list[str]:
        return [event.type.value for event in self.events]


def nothing(ctx: RunContext, hook: str) -> None:
    """Do nothing in a hook."""


def at(phase: str, hook: str, act: Callable[[RunContext], object], iteration: int = 0) -> Act:
    """Act in one hook, at one phase, in one iteration, in a run that answers no interrupts."""

    def do(ctx: RunContext, name: str) -> None:
        if (ctx.phase, name, ctx.iteration) == (phase, hook, iteration) and not ctx.input.resume:
            act(ctx)

    return do


def recorder(  # noqa: C901 - a hook each
    log: Sequence, name: str = "", act: Act = nothing
) -> type[Middleware]:
    """Return a layer that overrides every hook, writes each call down, and changes nothing."""

    def note(ctx: RunContext, hook: str, about: str = "") -> None:
        what = f"{hook} {about}".strip()
        log.notes.append(Note(name, ctx.phase, ctx.iteration, what))
        if about not in ("ends", "fails", "is closed"):
            act(ctx, hook)

    async def around(
        ctx: RunContext, hook: str, stream: Callable[[], AsyncIterator[BaseEvent]]
    ) -> AsyncIterator[BaseEvent]:
        note(ctx, hook, "begins")
        try:
            async for event in stream():
                yield event
        except (GeneratorExit, asyncio.CancelledError):
            note(ctx, hook, "is closed")
            raise
        except BaseException:
            note(ctx, hook, "fails")
            raise
        note(ctx, hook, "ends")

    class Recorder(Middleware):
        def setup(self, ctx: RunContext) -> None:
            note(ctx, "setup")

        def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
            note(ctx, "on_input")

        def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            return around(ctx, "around_run", lambda: call_next(run_input))

        def on_start(self, ctx: RunContext) -> None:
            note(ctx, "on_start")

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            note(ctx, "on_event", event.type.value)

        def on_message(self, ctx: RunContext, message: Any) -> None:
            note(ctx, "on_message", message.role)

        def on_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult | None) -> None:
            note(ctx, "on_tool_call", call.name)

        def on_usage(self, ctx: RunContext, usage: TokenUsage) -> None:
            note(ctx, "on_usage")

        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            note(ctx, "on_finish", info.outcome)

        def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
            note(ctx, "on_abort", info.cause)

        def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
            note(ctx, "on_error", info.code)

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            note(ctx, "on_end")

        def on_config(self, ctx: RunContext, config: ModelConfig) -> None:
            note(ctx, "on_config")

        def on_structured_output_config(self, ctx: RunContext, config: ModelConfig) -> None:
            note(ctx, "on_structured_output_config")

        def on_iteration(self, ctx: RunContext, info: IterationInfo) -> None:
            note(ctx, "on_iteration")

        def around_step(self, ctx: RunContext, call_next: CallStep) -> AsyncIterator[BaseEvent]:
            return around(ctx, "around_step", call_next)

        def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> AsyncIterator[BaseEvent]:
            return around(ctx, "around_model_call", lambda: call_next(request))

        def on_should_continue(self, ctx: RunContext, state: ContinueState) -> bool:
            note(ctx, "on_should_continue")
            return True

        def resolve_tool(self, ctx: RunContext, tool: str) -> None:
            note(ctx, "resolve_tool", tool)

        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            note(ctx, "on_before_tool_call", call.name)

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            note(ctx, "around_tool_call", f"{call.name} begins")
            how = "fails"
            try:
                result = await call_next(call)
                how = "ends"
            except asyncio.CancelledError:
                how = "is cancelled"
                raise
            finally:
                log.notes.append(
                    Note(name, ctx.phase, ctx.iteration, f"around_tool_call {call.name} {how}")
                )
            return result

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            note(ctx, "on_after_tool_call", f"{info.call.name} {info.source}")

        def on_tool_phase_complete(self, ctx: RunContext, info: ToolPhaseInfo) -> None:
            note(ctx, "on_tool_phase_complete")

        def on_interrupt_boundary(self, ctx: RunContext) -> None:
            note(ctx, "on_interrupt_boundary")

        def on_interrupt_resolution(self, ctx: RunContext, resolutions: Resolutions) -> None:
            note(ctx, "on_interrupt_resolution")

    Recorder.__name__ = name.capitalize() or "Recorder"
    return Recorder


def one_layer(log: Sequence, act: Act) -> list[type[Middleware]]:
    """Return the layers of most scenarios."""
    return [recorder(log, act=act)]


Consume: TypeAlias = Callable[[Run[Any], "Take"], Awaitable[None]]
Take: TypeAlias = Callable[[BaseEvent], None]


async def iterate(run: Run[Any], take: Take) -> None:
    """Take every event."""
    async for event in run:
        take(event)


@dataclass(frozen=True)
class Scenario:
    """What a run is made of. ``answers``: what the runs that continue it are told.

    ``leaves``: how the consumer goes; None: it stays to the end.
    """

    name: str
    said: str
    turns: tuple[Any, ...] = ("Hello",)
    tools: tuple[LoopTool, ...] = ()
    act: Act = nothing
    output: Any = None
    native: bool = False
    answers: tuple[Any, ...] = ()
    layers: Callable[[Sequence, Act], Many[type[Middleware]]] = one_layer
    leaves: Consume | None = None
    model: Callable[..., Any] = ScriptedModel
    fails: bool = False
    """Whether it ends with a RUN_ERROR."""


@dataclass(frozen=True)
class Mode:
    """How the host plays a scenario."""

    name: str
    way: Way = "iterated"
    strict: bool = False
    traced: bool = False


MODES = (
    Mode("iterated"),
    Mode("awaited", way="awaited"),
    Mode("strict", strict=True),
    Mode("traced", traced=True),
    Mode("strict, traced and awaited", way="awaited", strict=True, traced=True),
)
PLAIN = MODES[0]


def play(scenario: Scenario, mode: Mode = PLAIN) -> list[Sequence]:
    """Play the runs of a scenario on one host; nothing of them may stay open."""

    async def main() -> list[Sequence]:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, found: complaints.append(found))
        async with asyncio.timeout(20):
            with nothing_left():
                played = await _played(scenario, mode)
                await asyncio.sleep(0)
        assert complaints == []
        return played

    return asyncio.run(main())


async def _played(scenario: Scenario, mode: Mode) -> list[Sequence]:
    log = Sequence()
    abilities = frozenset({Ability.OUTPUT_WITH_TOOLS} if scenario.native else ())
    agent = LoopAgent(scenario.model(*scenario.turns, abilities=abilities), scenario.tools)
    layers = scenario.layers(log, scenario.act)
    played: list[Sequence] = []
    async with Host(layers, agent=agent, strict=mode.strict) as host:
        asked = asking()
        for turn in range(len(scenario.answers) + 1):
            if turn:
                before = played[-1].result
                assert before is not None
                given = scenario.answers[turn - 1]
                payloads = given if isinstance(given, list) else [given]
                asked = answering(Answered(before), *payloads, run_id=f"run-{turn + 1}")  # type: ignore[arg-type]
            log.notes, log.events = [], []
            trace = Trace(content=True) if mode.traced else None
            # Nothing here keeps the run: a consumer that breaks off drops it.
            played.append(
                await _one(
                    host.run(asked, output=scenario.output, trace=trace), scenario, mode, log
                )
            )
    return played


@dataclass
class Answered:
    """As much of a run as its answer needs."""

    result: RunResult[Any]


async def _one(run: Run[Any], scenario: Scenario, mode: Mode, log: Sequence) -> Sequence:
    def take(event: BaseEvent) -> None:
        log.events.append(event)
        name = f" {event.name}" if isinstance(event, CustomEvent) else ""
        log.notes.append(Note(None, "", 0, f"{event.type.value}{name}"))

    result: RunResult[Any] | None = None
    if scenario.leaves is not None:
        await scenario.leaves(run, take)
    else:
        if mode.way == "iterated":
            await iterate(run, take)
        result = await run
    closed = record_of(run).wait_closed()
    del run
    await closed
    return Sequence(log.notes, log.events, scenario.leaves is None, result)


_RUNS = (Play.play_nested.__code__, play_directly.__code__)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that no async generator of the block is open after it, and no task.

    All are kept alive, so that none is closed by being forgotten; but not the one of the run
    itself, which is closed when its consumer drops it.
    """
    kept: list[AsyncGeneratorType[Any, Any]] = []
    before = sys.get_asyncgen_hooks()
    tasks = asyncio.all_tasks()

    def first(generator: AsyncGeneratorType[Any, Any]) -> None:
        if generator.ag_code not in _RUNS:
            kept.append(generator)
        assert before.firstiter is not None
        before.firstiter(generator)

    sys.set_asyncgen_hooks(firstiter=first)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*before)
    left = [each.ag_code.co_qualname for each in kept if each.ag_frame is not None]
    assert not left, f"async generators are open: {left}"
    running = asyncio.all_tasks() - tasks
    assert not running, running


def check(sequence: Sequence, scenario: Scenario, way: Way, layers: Many[str] = ("",)) -> None:
    """Check what holds of every run: one terminal hook, then on_end; one valid stream."""
    for layer in layers:
        names = sequence.names(layer)
        told = [name for name in names if name in TERMINAL_HOOKS]
        assert names.count("setup") == 1, names
        if "setup" in [note.what for note in sequence.notes if note.layer == layer]:
            whole = len(told) == 1 and names[-1] == "on_end" and names.count("on_end") == 1
            refused = not told and names[-1] == "setup"
            assert whole or refused, names
        for hook in ("on_start", "on_input"):
            assert names.count(hook) <= 1, names
    if way == "awaited" or not sequence.complete:
        return
    assert list(violations(sequence.events)) == []
    ends = [
        event for event in sequence.events if isinstance(event, RunFinishedEvent | RunErrorEvent)
    ]
    assert sequence.types.count("RUN_STARTED") == len(ends) == 1
    assert sequence.events[0].type.value == "RUN_STARTED"
    assert isinstance(ends[0], RunErrorEvent) is scenario.fails
