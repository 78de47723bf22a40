"""The loop: what layers around model and tool calls cost, by call and by whole run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Self

from ag_ui.core import (
    BaseEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from interpose import (
    CallModel,
    CallStep,
    CallTool,
    Host,
    IterationInfo,
    Middleware,
    ModelConfig,
    ModelContext,
    ModelRequest,
    RunContext,
    ToolCall,
    ToolCallInfo,
    ToolResult,
)
from interpose.loop import LoopAgent

from .. import peers
from ..measuring import Ratio, Samples, Timed, compare, processor_time
from ..results import Curve, Plot, Result, Row, Size, Table

SUMMARY: Final = "1 model call, and 6 model + 5 tool calls, with N no-op layers around them"

_LAYERS: Final = (0, 1, 5, 10, 20)
_TEN: Final = 10
_ROUNDS: Final = 40
_OWN_ROUNDS: Final = 25
"""Many short ones: what a layer adds is little beside a run, and the clock drifts."""

_CLOCK: Final = "processor"
"""What the peers' workers measure by, as we do."""

_STEADY: Final = 5
"""From this number on, the difference to a run without layers is larger than the noise."""

_SHARED: Final = (
    "What a layer costs by being in a run at all (the row without a hook) is part of every row, "
    "and is divided among the run's calls."
)
_STREAMING: Final = (
    "In brackets: the peer's own, in the same unit. Our layer around a model call is an async "
    "generator that looks at every event of a stream (here 3); theirs await a whole answer."
)
_UNEQUAL: Final = (
    "In brackets: the peer's own. Ours gives checked AG-UI events for all that happens; the peers "
    "are run by their plain call, without events."
)


# The layers ----------------------------------------------------------------------------------
class AroundModel(Middleware):
    """Looks at every event of a model call, as the documentation shows it."""

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        """Pass on event by event."""
        async for event in call_next(request):
            yield event


class ReturnsModel(Middleware):
    """Lets a model call through without a look at its events."""

    def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        """Pass on the stream."""
        return call_next(request)


class AroundTool(Middleware):
    """Is around a tool call."""

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        """Pass on the result."""
        return await call_next(call)


class AroundStep(Middleware):
    """Looks at every event of an iteration."""

    async def around_step(self, ctx: RunContext, call_next: CallStep) -> AsyncIterator[BaseEvent]:
        """Pass on event by event."""
        async for event in call_next():
            yield event


class OnConfig(Middleware):
    """Looks at what a model call is made with."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> None:
        """Look."""


class OnIteration(Middleware):
    """Looks at the start of an iteration."""

    def on_iteration(self, ctx: RunContext, info: IterationInfo) -> None:
        """Look."""


class BeforeTool(Middleware):
    """Decides about a tool call."""

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
        """Let it run."""


class AfterTool(Middleware):
    """Looks at a settled tool call."""

    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
        """Look."""


class NoHook(Middleware):
    """Overrides nothing: what a layer costs by being there."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of layer; ``of_tools``: whether it is called for tool calls, not for model calls."""

    name: str
    cls: type[Middleware]
    of_tools: bool = False


_MODEL: Final = _Kind("around_model_call", AroundModel)
_TOOL: Final = _Kind("around_tool_call", AroundTool, of_tools=True)
_KINDS: Final = (
    _MODEL,
    _Kind("around_model_call (returns the stream)", ReturnsModel),
    _TOOL,
    _Kind("around_step", AroundStep),
    _Kind("on_config", OnConfig),
    _Kind("on_iteration", OnIteration),
    _Kind("on_before_tool_call", BeforeTool, of_tools=True),
    _Kind("on_after_tool_call", AfterTool, of_tools=True),
    _Kind("no hook", NoHook),
)


# The runs ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Work:
    """A whole run; ``action``: what the peers' workers call it. ``times``: runs at once, ours."""

    name: str
    action: str
    tool_calls: int
    times: int

    def calls(self, *, of_tools: bool) -> int:
        """Return how many calls of a run a layer sees."""
        return self.tool_calls if of_tools else self.tool_calls + 1


_ONE: Final = _Work("1 model call", "model-run", 0, 10)
_SIX: Final = _Work("6 model + 5 tool calls", "loop-run", 5, 2)


class Model:
    """Asks for a tool as often as it is told to, one call at a time, then answers."""

    provider = "benchmark"

    def __init__(self, tool_calls: int) -> None:
        self._tool_calls = tool_calls

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Give the next turn."""
        turn = sum(message.role == "tool" for message in request.messages)
        if turn < self._tool_calls:
            call = f"call-{turn}"
            yield ToolCallStartEvent(tool_call_id=call, tool_call_name="look")
            yield ToolCallArgsEvent(tool_call_id=call, delta='{"place": "here"}')
            yield ToolCallEndEvent(tool_call_id=call)
        else:
            yield TextMessageStartEvent(message_id=ctx.message_id, role="assistant")
            yield TextMessageContentEvent(message_id=ctx.message_id, delta="Done.")
            yield TextMessageEndEvent(message_id=ctx.message_id)


async def look(place: str) -> str:
    """Look at a place."""
    return "nothing"


class _Ours:
    """Our hosts: entered once, on one event loop, and left at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._runner = self._stack.enter_context(asyncio.Runner())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def timed(self, kind: _Kind, layers: int, work: _Work) -> Timed:
        """Return what measures the seconds of one run."""
        several = [type(f"{kind.cls.__name__}{n}", (kind.cls,), {}) for n in range(layers)]
        host = Host(layers=several, agent=LoopAgent(Model(work.tool_calls), [look]))
        self._runner.run(host.__aenter__())
        self._stack.callback(lambda: self._runner.run(host.__aexit__(None, None, None)))
        timed = processor_time(lambda: self._runner.run(_play(host, work.times)))
        return lambda: timed() / work.times


async def _play(host: Host, times: int) -> None:
    for _ in range(times):
        result = await host.run("Look.")
        if result.text != "Done.":
            raise RuntimeError(f"the run gave {result.text!r}")


# The comparison ------------------------------------------------------------------------------
def run(size: Size) -> Result:
    """Measure."""
    if size.quick:
        return _quick()
    with _Ours() as ours:
        tables = [_by_kind(ours, work) for work in (_ONE, _SIX)]
    if not size.peers:
        return Result(tables, _guarded(tables[-1]))
    found = _Found()
    found.figures.update(_guarded(tables[-1]))
    with peers.workers(*(peer.worker for peer in _PEERS)) as (started, left_out):
        found.left_out += left_out
        for peer in _PEERS:
            if peer.worker in started:
                found.versions.update(started[peer.worker].versions)
                _beside(peer, started[peer.worker], found)
    return Result(
        [*tables, *found.tables()], found.figures, found.plots(), found.left_out, found.versions
    )


def _quick() -> Result:
    """Measure what can regress without anybody noticing: ten layers against none."""
    rows: list[Row] = []
    figures: dict[str, Ratio] = {}
    with _Ours() as ours:
        for kind, key in ((_MODEL, "loop-model-layers"), (_TOOL, "loop-tool-layers")):
            variants = {str(n): ours.timed(kind, n, _SIX) for n in (0, _TEN)}
            samples = compare(variants, rounds=9)
            figures[key] = samples.ratio(str(_TEN), "0")
            value = samples.median(str(_TEN)) * 1e6
            rows.append(Row(f"{kind.name}, N = {_TEN}", "N = 0", figures[key], value))
    return Result([Table(f"Runs of {_SIX.name}", "us for a run", rows)], figures)


def _guarded(table: Table) -> dict[str, Ratio]:
    """Return what a quick run measures, too, from the table of the longer runs."""
    ratios = {row.name: row.ratio for row in table.rows}
    return {
        key: ratios[f"{kind.name}, N = {_TEN}"]
        for kind, key in ((_MODEL, "loop-model-layers"), (_TOOL, "loop-tool-layers"))
    }


def _by_kind(ours: _Ours, work: _Work) -> Table:
    """Return what every kind of layer adds to our own run."""
    rows: list[Row] = []
    for kind in _KINDS:
        calls = work.calls(of_tools=kind.of_tools)
        if not calls:
            continue
        samples = compare({str(n): ours.timed(kind, n, work) for n in _LAYERS}, rounds=_OWN_ROUNDS)
        for n in _LAYERS[1:]:
            added = samples.added(str(n), "0") / n / calls * 1e6 if n >= _STEADY else None
            rows.append(Row(f"{kind.name}, N = {n}", "N = 0", samples.ratio(str(n), "0"), added))
    return Table(
        f"Whole runs of {work.name} with N no-op layers, against the same without",
        "us per layer and call",
        rows,
        (_SHARED,),
    )


@dataclass(frozen=True, slots=True)
class _Peer:
    """A peer. ``kinds``: whether a kind of layer is around tools, and what the peer calls it."""

    worker: str
    name: str
    kinds: Mapping[str, str]
    works: Sequence[_Work]
    times: int
    """Runs in one measurement of its worker."""
    figure: str | None = None


_PEERS: Final = (
    _Peer(
        "agent-framework",
        "agent-framework",
        {"model": "ChatMiddleware", "tool": "FunctionMiddleware"},
        (_ONE, _SIX),
        8,
        "call-agent-framework",
    ),
    _Peer(
        "pydantic-ai",
        "pydantic-ai",
        {"model": "wrap_model_request", "tool": "wrap_tool_execute"},
        (_ONE, _SIX),
        3,
        "call-pydantic-ai",
    ),
    _Peer(
        "langchain",
        "LangChain",
        {"model": "awrap_model_call", "tool": "awrap_tool_call"},
        (_ONE, _SIX),
        3,
        "call-langchain",
    ),
    _Peer("fastmcp", "FastMCP", {"tool": "on_call_tool"}, (_SIX,), 8),
)


class _Found:
    """What the peers gave so far."""

    def __init__(self) -> None:
        self.figures: dict[str, Ratio] = {}
        self.left_out: list[str] = []
        self.versions: dict[str, str] = {}
        self._runs: list[Row] = []
        self._calls: list[Row] = []
        self._curves: dict[str, Curve] = {}

    def take(self, peer: _Peer, work: _Work, kind: str, samples: Samples) -> None:
        """Take the measurement of one kind of layer."""
        ours, calls = _of(kind), work.calls(of_tools=kind == "tool")
        ratio = samples.added_ratio((f"ours {_TEN}", "ours 0"), (f"theirs {_TEN}", "theirs 0"))
        added = {
            whose: samples.added(f"{whose} {_TEN}", f"{whose} 0") / _TEN / calls * 1e6
            for whose in ("ours", "theirs")
        }
        against = f"{peer.name} {peer.kinds[kind]} ({added['theirs']:,.1f})"
        self._calls.append(Row(f"{ours.name}, {work.name}", against, ratio, added["ours"]))
        if kind == "model":
            run = samples.ratio("ours 0", "theirs 0")
            against = f"{peer.name} ({samples.median('theirs 0') * 1e6:,.0f})"
            self._runs.append(Row(work.name, against, run, samples.median("ours 0") * 1e6))
        if work is not _SIX:
            return
        if peer.figure is not None and kind == "model":
            self.figures[peer.figure] = ratio
        for whose, name in (("theirs", f"{peer.name} {peer.kinds[kind]}"), ("ours", ours.name)):
            points = [
                (n, samples.added(f"{whose} {n}", f"{whose} 0") / n / calls * 1e6)
                for n in _LAYERS
                if n >= _STEADY
            ]
            self._curves.setdefault(name, Curve(name, points))

    def tables(self) -> Sequence[Table]:
        """Return the tables."""
        return (
            Table(
                f"What a no-op layer adds to a call, N = {_TEN}, against the peers'",
                "us per layer and call",
                self._calls,
                (_STREAMING, "FastMCP has no model: its run is five tool calls in process."),
            ),
            Table(
                "Whole runs without layers, against the peers'",
                "us for a run",
                self._runs,
                (_UNEQUAL,),
            ),
        )

    def plots(self) -> Sequence[Plot]:
        """Return the plot of cost against N."""
        title = "A no-op layer around a call"
        unit = "us per layer and call"
        curves = list(self._curves.values())
        return (Plot("loop", title, "layers", unit, curves, logarithmic=True),) if curves else ()


def _beside(peer: _Peer, worker: peers.Worker, found: _Found) -> None:
    """Measure a peer beside ours, in the same rounds."""

    def theirs(work: _Work, kind: str, layers: int) -> Timed:
        def timed() -> float:
            times = peer.times
            return (
                worker.time(work.action, layers=layers, kind=kind, times=times, clock=_CLOCK)
                / times
            )

        return timed

    for work in peer.works:
        for kind in peer.kinds:
            if not work.calls(of_tools=kind == "tool"):
                continue
            with _Ours() as ours:
                variants: dict[str, Timed] = {}
                for n in _LAYERS:
                    variants[f"ours {n}"] = ours.timed(_of(kind), n, work)
                    variants[f"theirs {n}"] = theirs(work, kind, n)
                try:
                    found.take(peer, work, kind, compare(variants, rounds=_ROUNDS))
                except peers.Unavailable as error:
                    found.left_out.append(str(error))
                    return


def _of(kind: str) -> _Kind:
    return _TOOL if kind == "tool" else _MODEL
