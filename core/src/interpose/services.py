"""What contexts stand on: the runtime implements these, authors never see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from ag_ui.core import BaseEvent, Interrupt, Message, RunAgentInput

from interpose.capability import Capability

if TYPE_CHECKING:
    import asyncio

    from loguru import Logger

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
    request_id: str
    agent: str
    phase: str
    iteration: int
    event_index: int
    provider: str | None
    model: str | None
    input: RunAgentInput
    metadata: dict[str, Any]
    attributes: dict[str, Any]
    clock: Clock

    @property
    def message_id(self) -> str | None: ...
    @property
    def subagent_run_id(self) -> str | None: ...
    @property
    def cancelled(self) -> bool: ...
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
    def rewrite(self, events: AsyncIterator[BaseEvent], /) -> AsyncIterator[BaseEvent]: ...


class LifespanServices(Protocol):
    """What the host gives a :class:`LifespanContext` to stand on."""

    clock: Clock
    folder: Path

    def read(self, part: str, capability: Capability[T], /) -> T: ...
    def find(self, part: str, capability: Capability[T], /) -> T | None: ...
    def offer(self, part: str, capability: Capability[T], value: T, /) -> None: ...
    def start_task(self, part: str, coro: Coroutine[Any, Any, Any], /) -> asyncio.Task[Any]: ...
    def log(self, part: str, /) -> Logger: ...
