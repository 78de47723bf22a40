"""What contexts stand on: the runtime implements these, authors never see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar

from ag_ui.core import BaseEvent, Interrupt, Message, RunAgentInput, TokenUsage

from interpose.capability import Capability
from interpose.payloads import (
    Abort,
    Ask,
    ContinueState,
    Deny,
    InterruptDecision,
    IterationInfo,
    LoopInfo,
    ModelConfig,
    ModelRequest,
    ResolvedTool,
    Skip,
    ToolCall,
    ToolCallInfo,
    ToolPhaseInfo,
    ToolResult,
)

if TYPE_CHECKING:
    import asyncio

    from loguru import Logger

    from interpose.authoring import CallModel, CallStep, CallTool, Point
    from interpose.interrupts import Resolutions
    from interpose.model import Model, ModelContext, ModelHandle

Validate: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Checks the arguments of a call, and returns them as they are to be given to the tool."""

T = TypeVar("T")


class Clock(Protocol):
    """Time, as the host sees it. Tests give one they can drive. Unit: seconds."""

    def monotonic(self) -> float:
        """Return a time that never goes back; only differences mean something."""

    def time(self) -> float:
        """Return seconds since the epoch (UTC)."""

    def sleep(self, seconds: float, /) -> Awaitable[None]:
        """Wait."""


class RunServices(Protocol):
    """What the runtime gives a :class:`RunContext` to stand on."""

    run_id: str
    thread_id: str
    parent_run_id: str | None
    agent: str
    event_index: int
    input: RunAgentInput
    metadata: dict[str, Any]
    attributes: dict[str, Any]
    clock: Clock

    @property
    def request_id(self) -> str: ...
    @property
    def points(self) -> tuple[Point, ...]: ...
    @property
    def phase(self) -> str: ...
    @property
    def iteration(self) -> int: ...
    @property
    def provider(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def subagent_run_id(self) -> str | None: ...
    @property
    def cancelled(self) -> bool: ...
    async def until_cancelled(self) -> None: ...
    def read(self, layer: str, capability: Capability[T], /) -> T: ...
    def find(self, layer: str, capability: Capability[T], /) -> T | None: ...
    def offer(self, layer: str, capability: Capability[T], value: T, /) -> None: ...
    def finish(self, layer: str, text: str | None, /) -> NoReturn: ...
    def interrupt(self, layer: str, interrupts: tuple[Interrupt, ...], /) -> NoReturn: ...
    def abort(self, layer: str, reason: str, /) -> NoReturn: ...
    def emit(self, layer: str, event: BaseEvent, /) -> None: ...
    def defer(
        self, layer: str, fn: Callable[..., Awaitable[None] | None], args: tuple[Any, ...], /
    ) -> None: ...
    def messages(self, layer: str, /) -> tuple[Message, ...]: ...
    def state(self, layer: str, /) -> Any: ...
    def log(self, layer: str, /) -> Logger: ...
    async def rewrite_of(self, layer: str, event: BaseEvent, /) -> Sequence[BaseEvent]: ...
    def rewrite(self, events: AsyncIterator[BaseEvent], /) -> AsyncIterator[BaseEvent]: ...
    def handle_of(self, layer: str, model: str, /) -> ModelHandle: ...
    @property
    def loop(self) -> LoopServices: ...


@dataclass(slots=True)
class Position:
    """Where a loop is: its own, or that of a subagent in a tool call."""

    phase: str = "init"
    iteration: int = 0
    message_id: str | None = None
    provider: str | None = None
    model: str | None = None
    subagent_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Configured:
    """What ``on_config`` made of a base: ``view`` for the call at hand, ``base`` for all later."""

    view: ModelConfig
    base: ModelConfig


@dataclass(frozen=True, slots=True)
class Decided:
    """What the layers made of a call: its final arguments, the strictest decision, whose it is."""

    call: ToolCall
    decision: Skip | Deny | Ask | Abort | None = None
    layer: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The structured output that ``host.run(output=...)`` asked for.

    ``schema``: JSON Schema; ``read``: from JSON text to the value, or ``ValidationError``.
    """

    name: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]
    plain: Callable[[Any, Any], Any]
    """From the value, and the JSON that it was read from, to JSON that reads as the same value."""


class LoopServices(Protocol):
    """How an agent lets the layers into its loop: one entry for each hook of these points.

    ``inner`` is the agent's own part, innermost. What a stream entry yields is what the agent
    goes on with. ``BaseException`` that is no ``Exception`` passes: it ends the run.
    """

    position: Position

    @property
    def wanted(self) -> Wanted | None: ...
    @property
    def signing_key(self) -> bytes: ...
    @property
    def has_lasting_key(self) -> bool: ...
    def model(self, model: str, /) -> Model: ...
    def context(self, model: str, message_id: str, /) -> ModelContext: ...
    def enter(self, phase: str, /) -> None: ...
    async def configure(self, base: ModelConfig, /) -> Configured: ...
    async def configure_output(self, base: ModelConfig, /) -> Configured: ...
    async def iteration(self, info: IterationInfo, /) -> None: ...
    def step(self, inner: CallStep, /) -> AsyncIterator[BaseEvent]: ...
    def call_model(
        self, request: ModelRequest, inner: CallModel, /
    ) -> AsyncIterator[BaseEvent]: ...
    async def usage(self, usage: TokenUsage, /) -> None: ...
    async def resolve_tool(self, name: str, /) -> ResolvedTool | None: ...
    async def decide(self, call: ToolCall, validate: Validate, /) -> Decided: ...
    async def call_tool(self, call: ToolCall, inner: CallTool, /) -> ToolResult: ...
    async def tool_settled(self, info: ToolCallInfo, /) -> None: ...
    async def tools_settled(self, info: ToolPhaseInfo, /) -> None: ...
    async def boundary(self) -> Sequence[Interrupt]: ...
    async def resolution(self, resolutions: Resolutions, /) -> InterruptDecision: ...
    async def should_continue(self, state: ContinueState, /) -> bool: ...
    def collecting(self) -> AbstractContextManager[list[Interrupt], bool]: ...
    def subagent(self, position: Position, /) -> AbstractContextManager[None]: ...
    def spend_with(self, add: Callable[[Sequence[TokenUsage]], None], /) -> None: ...
    def abort(self, reason: str, layer: str | None = None, /) -> NoReturn: ...
    def interrupt(self, *interrupts: Interrupt) -> NoReturn: ...
    def restore(self, metadata: Mapping[str, Any], /) -> None: ...
    def farewell(
        self,
        events: Callable[[], Sequence[BaseEvent]],
        usage: Callable[[], Sequence[TokenUsage]],
        /,
    ) -> None: ...
    def conclude(self, info: LoopInfo, /) -> None: ...
    def report(self, error: BaseException, said: str, /) -> None: ...
    def is_a_layers(self, error: BaseException, /) -> bool: ...


class LifespanServices(Protocol):
    """What the host gives a :class:`LifespanContext` to stand on."""

    clock: Clock
    folder: Path

    def read(self, part: str, capability: Capability[T], /) -> T: ...
    def find(self, part: str, capability: Capability[T], /) -> T | None: ...
    def offer(self, part: str, capability: Capability[T], value: T, /) -> None: ...
    def start_task(self, part: str, coro: Coroutine[Any, Any, Any], /) -> asyncio.Task[Any]: ...
    def log(self, part: str, /) -> Logger: ...
