"""What a hook, a lifespan and an agent see of the host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ag_ui.core import BaseEvent, Interrupt, Message, RunAgentInput

from interpose.capability import Capability
from interpose.services import Clock, LifespanServices, RunServices

if TYPE_CHECKING:
    import asyncio

    from loguru import Logger

    from interpose.authoring import Point
    from interpose.model import ModelHandle
    from interpose.services import LoopServices

T = TypeVar("T")


class RunContext:
    """One layer's view of one run. Every hook gets it; it is of no use after ``on_end``."""

    __slots__ = ("_run", "attempt", "layer")

    def __init__(self, run: RunServices, layer: str, attempt: int = 1) -> None:
        self._run = run
        self.layer: str = layer
        """The id of the layer that holds this context."""
        self.attempt: int = attempt
        """The pass of the run that this is, from 1; more when a layer further out repeats it."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self._run.thread_id

    @property
    def parent_run_id(self) -> str | None:
        """The run that this one branches from, if the input names one."""
        return self._run.parent_run_id

    @property
    def request_id(self) -> str:
        """An id of this call of ``host.run``; unlike ``run_id`` the client cannot choose it."""
        return self._run.request_id

    @property
    def subagent_run_id(self) -> str | None:
        """The subagent that the event at hand belongs to."""
        return self._run.subagent_run_id

    @property
    def agent(self) -> str:
        """The id of the agent that runs."""
        return self._run.agent

    @property
    def points(self) -> tuple[Point, ...]:
        """Where the agent lets the host in: what depends on that, a layer decides in a run."""
        return self._run.points

    @property
    def phase(self) -> str:
        """Where the run is: ``init``, ``stream``, a phase of the built-in loop, or ``end``."""
        return self._run.phase

    @property
    def iteration(self) -> int:
        """The pass of the built-in loop, from 0."""
        return self._run.iteration

    @property
    def event_index(self) -> int:
        """How many events the agent had sent before the one at hand."""
        return self._run.event_index

    @property
    def message_id(self) -> str | None:
        """The message that the event at hand belongs to."""
        return self._run.message_id

    @property
    def provider(self) -> str | None:
        """The provider of the model being called, in the built-in loop."""
        return self._run.provider

    @property
    def model_id(self) -> str | None:
        """The model being called, its key in ``[models]``, in the built-in loop."""
        return self._run.model

    def model(self, model_id: str, /) -> ModelHandle:
        """Return a model of ``[models.<id>]`` for a call of the layer's own.

        ``await ctx.model("small").complete("Is this safe? ...")``: nothing of it reaches the
        consumer or the layers, its usage is counted apart. :class:`UsageError` for an unknown id.
        """
        return self._run.handle_of(self.layer, model_id)

    @property
    def input(self) -> RunAgentInput:
        """The input of the run, as the layers so far have left it. Never change it in place."""
        return self._run.input

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as this layer receives it, the event at hand included.

        Only for layers that declare ``tracks_state``; else :class:`UsageError`.
        """
        return self._run.messages(self.layer)

    @property
    def state(self) -> Any:
        """The shared state as this layer receives it; as :attr:`messages`."""
        return self._run.state(self.layer)

    @property
    def metadata(self) -> dict[str, Any]:
        """JSON values kept with the run. Not for secrets; no client input lands here by itself."""
        return self._run.metadata

    @property
    def attributes(self) -> dict[str, Any]:
        """Values of any kind, of this run and process; never serialised. Not for secrets."""
        return self._run.attributes

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._run.clock

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        return self._run.cancelled

    async def until_cancelled(self) -> None:
        """Wait until :attr:`cancelled` is so; for a layer that waits for something of its own.

        A cancellation interrupts what runs inside ``call_next``, and nothing else of a layer: one
        that works between two passes stops its work, and returns, when this returns.
        """
        await self._run.until_cancelled()

    @property
    def log(self) -> Logger:
        """A loguru logger bound to run and layer."""
        return self._run.log(self.layer)

    def sleep(self, seconds: float, /) -> Awaitable[None]:
        """Wait, on the host's clock."""
        return self._run.clock.sleep(seconds)

    def __getitem__(self, capability: Capability[T], /) -> T:
        """Return the capability's value; :class:`CapabilityError` when nobody provided it."""
        return self._run.read(self.layer, capability)

    def get(self, capability: Capability[T], /) -> T | None:
        """Return the capability's value, or None when it is absent."""
        return self._run.find(self.layer, capability)

    def provide(self, capability: Capability[T], value: T, /) -> None:
        """Give a run-scope capability its value. Only in ``setup``, only one that is declared."""
        self._run.offer(self.layer, capability, value)

    def finish(self, text: str | None = None) -> NoReturn:
        """End the run as a success, with a message of ``text`` if given. Never returns."""
        self._run.finish(self.layer, text)

    def interrupt(self, *interrupts: Interrupt) -> NoReturn:
        """End the run with the interrupt outcome: it waits for people. Never returns."""
        self._run.interrupt(self.layer, interrupts)

    def abort(self, reason: str) -> NoReturn:
        """End the run with the cancelled outcome. Never returns."""
        self._run.abort(self.layer, reason)

    def emit(self, event: BaseEvent) -> None:
        """Send an event just outside this layer, before the next event that reaches it.

        Not in event hooks: return a list there. A whole event, no chunk: :class:`MiddlewareError`
        otherwise. After the terminal it is dropped with a warning.
        """
        self._run.emit(self.layer, event)

    async def rewrite(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Return what the layers that rewrite history make of an event of this layer's own.

        They lie further in, so what ``around_run`` yields by itself would pass them by: the result
        of a tool, say, that the agent and the consumer are to have redacted. Yield what this
        returns. A whole event, no chunk: :class:`MiddlewareError` otherwise.
        """
        return await self._run.rewrite_of(self.layer, event)

    def defer(self, fn: Callable[..., Awaitable[None] | None], *args: Any) -> None:
        """Call ``fn(*args)`` after all terminal hooks; it never delays the last event."""
        self._run.defer(self.layer, fn, args)

    def __repr__(self) -> str:
        return f"<RunContext run={self.run_id} layer={self.layer} attempt={self.attempt}>"


class LifespanContext:
    """What a lifespan, or a factory of agents or models, sees of the host."""

    __slots__ = ("_host", "layer_id")

    def __init__(self, host: LifespanServices, layer_id: str) -> None:
        self._host = host
        self.layer_id: str = layer_id
        """The id of the layer, provider, agent or model."""

    @property
    def folder(self) -> Path:
        """The folder that relative paths in settings mean: the config file's, else the current."""
        return self._host.folder

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._host.clock

    @property
    def log(self) -> Logger:
        """A loguru logger bound to the part."""
        return self._host.log(self.layer_id)

    def __getitem__(self, capability: Capability[T], /) -> T:
        """Return a host-scope value; :class:`CapabilityError` when nobody provided it."""
        return self._host.read(self.layer_id, capability)

    def get(self, capability: Capability[T], /) -> T | None:
        """Return a host-scope value, or None when it is absent."""
        return self._host.find(self.layer_id, capability)

    def provide(self, capability: Capability[T], value: T, /) -> None:
        """Give a host-scope capability its value, before the lifespan yields."""
        self._host.offer(self.layer_id, capability, value)

    def start_task(self, coro: Coroutine[Any, Any, Any], /) -> asyncio.Task[Any]:
        """Start a task that the host cancels and awaits when the lifespan ends."""
        return self._host.start_task(self.layer_id, coro)


class AgentContext:
    """What an agent sees of the host while it runs."""

    __slots__ = ("_run", "agent")

    def __init__(self, run: RunServices, agent: str) -> None:
        self._run = run
        self.agent: str = agent
        """The agent's id."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self._run.thread_id

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        return self._run.cancelled

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._run.clock

    @property
    def metadata(self) -> Mapping[str, Any]:
        """JSON values kept with the run."""
        return self._run.metadata

    @property
    def log(self) -> Logger:
        """A loguru logger bound to run and agent."""
        return self._run.log(self.agent)

    def sleep(self, seconds: float, /) -> Awaitable[None]:
        """Wait, on the host's clock."""
        return self._run.clock.sleep(seconds)

    def __getitem__(self, capability: Capability[T], /) -> T:
        """Return the capability's value; :class:`CapabilityError` when nobody provided it."""
        return self._run.read(self.agent, capability)

    def get(self, capability: Capability[T], /) -> T | None:
        """Return the capability's value, or None when it is absent."""
        return self._run.find(self.agent, capability)

    def rewrite(self, events: AsyncIterator[BaseEvent], /) -> AsyncIterator[BaseEvent]:
        """Return what the layers that rewrite history make of the events of one model call.

        For an agent that offers :attr:`Point.HISTORY`: fold into the history, and yield, what comes
        out, never what went in. Then the stream, the stored history and the next request agree.
        """
        return self._run.rewrite(events)

    @property
    def loop(self) -> LoopServices:
        """How an agent that offers STEP, MODEL, TOOLS or INTERRUPTS lets the layers in."""
        return self._run.loop
