"""What a plugin is written with: settings, middlewares, providers, factories, layers."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    overload,
    runtime_checkable,
)

from ag_ui.core import BaseEvent, Message, RunAgentInput, TokenUsage
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeVar

from interpose.capability import Capability, Scope
from interpose.context import AgentContext, LifespanContext, RunContext
from interpose.errors import UsageError
from interpose.events import Returned
from interpose.interrupts import Resolutions
from interpose.payloads import (
    AbortInfo,
    ContinueState,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    InterruptDecision,
    IterationInfo,
    ModelConfig,
    ModelRequest,
    ResolvedTool,
    ToolCall,
    ToolCallInfo,
    ToolDecision,
    ToolPhaseInfo,
    ToolResult,
)

MaybeNone: TypeAlias = "Awaitable[None] | None"
OnFailure = Literal["fail", "skip"]
Form = Literal["expanded", "raw"]


class Settings(BaseModel):
    """Base of a plugin's settings: a frozen pydantic model that refuses unknown keys.

    Use :class:`pydantic.SecretStr` for secrets. Nested models must refuse unknown keys, too. The
    string below a field describes it in ``interpose schema``, as ``Field(description=...)`` does.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class NoSettings(Settings):
    """The settings of what has none."""


class Stage(enum.StrEnum):
    """Where a layer stands by default, outermost first."""

    EDGE = "edge"
    """Authentication and limits."""
    OBSERVE = "observe"
    """Logs, traces and metrics."""
    SHAPE = "shape"
    """What the consumer sees: filters, prefixes, throttling."""
    CONTENT = "content"
    """What is true: redaction, guards on text."""
    CALL = "call"
    """Around model and tool calls: retry, cache, budget."""


class Point(enum.StrEnum):
    """A place where an agent lets the host in."""

    RUN = "RUN"
    EVENTS = "EVENTS"
    STEP = "STEP"
    MODEL = "MODEL"
    TOOLS = "TOOLS"
    INTERRUPTS = "INTERRUPTS"
    HISTORY = "HISTORY"


S = TypeVar("S", bound=BaseModel, default=NoSettings)
Shared = TypeVar("Shared", default=None)
M_co = TypeVar("M_co", bound="Middleware[Any, Any]", covariant=True)


class CallRun(Protocol):
    """``call_next`` of ``around_run``: the rest of the run, as a stream of events."""

    def __call__(
        self, run_input: RunAgentInput, /, *, continues: bool = False
    ) -> AsyncIterator[BaseEvent]:
        """Go on with ``run_input``. ``continues=True`` joins a further pass to the same run."""


class CallStep(Protocol):
    """``call_next`` of ``around_step``."""

    def __call__(self) -> AsyncIterator[BaseEvent]:
        """Run the iteration."""


class CallModel(Protocol):
    """``call_next`` of ``around_model_call``."""

    def __call__(self, request: ModelRequest, /) -> AsyncIterator[BaseEvent]:
        """Call the model with ``request``."""


class CallTool(Protocol):
    """``call_next`` of ``around_tool_call``."""

    def __call__(self, call: ToolCall, /) -> Awaitable[ToolResult]:
        """Execute ``call``."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a layer needs, offers and promises; see the attributes of :class:`Middleware`."""

    stage: Stage | None = None
    requires: tuple[Capability[Any], ...] = ()
    optional_requires: tuple[Capability[Any], ...] = ()
    provides: tuple[Capability[Any], ...] = ()
    conflicts: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    essential: tuple[Point, ...] = ()
    rewrites_history: bool = False
    observes_only: bool = False
    may_repeat: bool = False
    may_continue: bool = False
    tracks_state: bool = False
    on_failure: OnFailure | None = None
    form: Form = "expanded"


class Middleware(Generic[S, Shared]):
    """Base of a middleware: override the hooks you need, each ``def`` or ``async def``.

    The host makes a fresh instance, without arguments, for each attempt of each run, so
    ``self.anything`` belongs to that run alone. What is not overridden is not in the chain and
    costs nothing. ``docs/hooks.md`` tells when each hook is called, in which order, and how the
    answers of several layers combine.
    """

    settings: S
    """The validated settings of the layer, frozen."""
    shared: Shared
    """What ``lifespan`` yielded; it serves many runs at once: immutable or locked."""

    stage: ClassVar[Stage | None] = None
    """Where the layer stands by default; ``content`` if it rewrites history, else ``shape``."""
    requires: ClassVar[tuple[Capability[Any], ...]] = ()
    """Capabilities without which the layer cannot work."""
    optional_requires: ClassVar[tuple[Capability[Any], ...]] = ()
    """Capabilities that the layer uses when somebody provides them."""
    provides: ClassVar[tuple[Capability[Any], ...]] = ()
    """Capabilities that ``lifespan`` (host scope) or ``setup`` (run scope) gives a value."""
    conflicts: ClassVar[tuple[str, ...]] = ()
    """Middlewares (``redact``, ``guard.budget``) that cannot be active beside this one."""
    before: ClassVar[tuple[str, ...]] = ()
    """A wish: stand further out than these middlewares (or ``cap:<name>``), where they exist."""
    after: ClassVar[tuple[str, ...]] = ()
    """A wish: stand further in than these."""
    essential: ClassVar[tuple[Point, ...]] = ()
    """Points without which the layer would be a false promise: the host refuses to start it."""
    rewrites_history: ClassVar[bool] = False
    """What it makes of the events is what is stored and what the model sees next."""
    observes_only: ClassVar[bool] = False
    """It alters neither events nor input; any other return is an error."""
    may_repeat: ClassVar[bool] = False
    """``call_next`` may be called again, as a retry."""
    may_continue: ClassVar[bool] = False
    """``call_next(..., continues=True)`` may join a further pass to the same run."""
    tracks_state: ClassVar[bool] = False
    """``ctx.messages`` and ``ctx.state`` are kept for this layer."""
    on_failure: ClassVar[OnFailure | None] = None
    """``fail``: its failure ends the run; ``skip``: it is taken out of the run. Default: ``fail``,
    and ``skip`` in stage ``observe``."""
    form: ClassVar[Form] = "expanded"
    """``raw``: see chunk events as the agent sent them; such a layer only observes or rewrites."""

    @classmethod
    def declare(cls, settings: S, /) -> Declaration:
        """Return what the layer needs under these settings; by default the class attributes.

        Pure. Called once, after the settings are valid and before the order is resolved.
        """
        return Declaration(
            **{name: getattr(cls, name) for name in Declaration.__dataclass_fields__}
        )

    @classmethod
    def lifespan(cls, settings: S, ctx: LifespanContext, /) -> AbstractAsyncContextManager[Shared]:
        """Make what outlives a run; once per layer and distinct settings.

        Override it as an ``@asynccontextmanager``; what it yields is ``self.shared``.
        """
        return _no_lifespan()

    # The run -------------------------------------------------------------------------------
    def setup(self, ctx: RunContext, /) -> MaybeNone:
        """Prepare one attempt; refuse the run here, with :class:`Reject`."""

    def on_input(
        self, ctx: RunContext, run_input: RunAgentInput, /
    ) -> Awaitable[RunAgentInput | None] | RunAgentInput | None:
        """Look at the input, or return another one; once, after all setups."""

    def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        """Wrap the run: an async generator around ``call_next(run_input)``."""
        return call_next(run_input)

    def on_start(self, ctx: RunContext, /) -> MaybeNone:
        """Act when the run begins. Isolated."""

    def on_event(self, ctx: RunContext, event: BaseEvent, /) -> Awaitable[Returned] | Returned:
        """Handle each event that no ``@on`` method of the class took."""

    def on_message(self, ctx: RunContext, message: Message, /) -> MaybeNone:
        """Look at a whole message, as the events that reach this layer built it. Isolated."""

    def on_tool_call(
        self, ctx: RunContext, call: ToolCall, result: ToolResult | None, /
    ) -> MaybeNone:
        """Look at a whole tool call and its result, likewise. Isolated."""

    def on_usage(self, ctx: RunContext, usage: TokenUsage, /) -> MaybeNone:
        """Look at the usage that a model call reports. Isolated."""

    def on_finish(self, ctx: RunContext, info: FinishInfo, /) -> MaybeNone:
        """Act after a success or an interrupt. Isolated."""

    def on_abort(self, ctx: RunContext, info: AbortInfo, /) -> MaybeNone:
        """Act after a cancellation, an abort, or when the consumer is gone. Isolated."""

    def on_error(self, ctx: RunContext, info: ErrorInfo, /) -> MaybeNone:
        """Act after a failure. Isolated."""

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> MaybeNone:
        """Act after exactly one of the three above. Isolated."""

    # The loop's iterations and model calls --------------------------------------------------
    def on_config(
        self, ctx: RunContext, config: ModelConfig, /
    ) -> Awaitable[ModelConfig | None] | ModelConfig | None:
        """Change what a model call is made with."""

    def on_structured_output_config(
        self, ctx: RunContext, config: ModelConfig, /
    ) -> Awaitable[ModelConfig | None] | ModelConfig | None:
        """Change what a separate structured-output call is made with."""

    def on_iteration(self, ctx: RunContext, info: IterationInfo, /) -> MaybeNone:
        """Act at the start of an iteration. Isolated."""

    def around_step(self, ctx: RunContext, call_next: CallStep, /) -> AsyncIterator[BaseEvent]:
        """Wrap an iteration: an async generator around ``call_next()``."""
        return call_next()

    def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel, /
    ) -> AsyncIterator[BaseEvent]:
        """Wrap a model call: an async generator around ``call_next(request)``."""
        return call_next(request)

    def on_should_continue(
        self, ctx: RunContext, state: ContinueState, /
    ) -> Awaitable[bool] | bool:
        """Return False to end the run normally before another iteration."""
        return True

    # Tools ----------------------------------------------------------------------------------
    def resolve_tool(
        self, ctx: RunContext, name: str, /
    ) -> Awaitable[ResolvedTool | None] | ResolvedTool | None:
        """Return the tool of a call that names no static tool, or None: not mine."""

    def on_before_tool_call(
        self, ctx: RunContext, call: ToolCall, /
    ) -> Awaitable[ToolDecision | None] | ToolDecision | None:
        """Decide about a call whose arguments are valid; None lets it run."""

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool, /
    ) -> ToolResult:
        """Wrap a tool call: a coroutine around ``await call_next(call)``."""
        return await call_next(call)

    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo, /) -> MaybeNone:
        """Look at a settled call. Isolated."""

    def on_tool_phase_complete(self, ctx: RunContext, info: ToolPhaseInfo, /) -> MaybeNone:
        """Look at all settled calls of an iteration. Isolated."""

    # Interrupts -----------------------------------------------------------------------------
    def on_interrupt_boundary(self, ctx: RunContext, /) -> MaybeNone:
        """Pause the run here, with ``ctx.interrupt``."""

    def on_interrupt_resolution(
        self, ctx: RunContext, resolutions: Resolutions, /
    ) -> Awaitable[InterruptDecision | None] | InterruptDecision | None:
        """Decide how a run goes on whose interrupts were answered."""


@asynccontextmanager
async def _no_lifespan() -> AsyncGenerator[Any]:
    yield None


class Provider(Generic[S]):
    """Offers host-scope capabilities; it has no hooks.

    Override ``lifespan`` as an ``@asynccontextmanager`` that calls ``ctx.provide(CAP, value)``
    for each capability in ``provides``, yields, and cleans up.
    """

    provides: ClassVar[tuple[Capability[Any], ...]] = ()
    requires: ClassVar[tuple[Capability[Any], ...]] = ()
    optional_requires: ClassVar[tuple[Capability[Any], ...]] = ()

    @classmethod
    def lifespan(cls, settings: S, ctx: LifespanContext, /) -> AbstractAsyncContextManager[Any]:
        """Start, provide, yield, stop."""
        raise NotImplementedError(f"{cls.__qualname__} has no lifespan")


@runtime_checkable
class Agent(Protocol):
    """Anything that answers a ``RunAgentInput`` with AG-UI events.

    ``run(run_input)`` is fine, too. ``points`` (default RUN and EVENTS) says where it lets the
    host in.
    """

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play one run: RUN_STARTED first, RUN_FINISHED or RUN_ERROR last."""


class AgentFactory(Generic[S]):
    """Makes agents from settings: ``[agents.<id>] use = "..."``.

    ``scope``: ``"run"`` makes one agent per run, ``"host"`` one per host. If an agent of host scope
    has ``aclose()`` (``async def`` or ``def``), the host calls it when it stops, after the last
    run, within the ending deadline. An agent object that was not made by a factory is not closed.
    """

    scope: ClassVar[Scope] = "run"
    points: ClassVar[tuple[Point, ...]] = (Point.RUN, Point.EVENTS)
    requires: ClassVar[tuple[Capability[Any], ...]] = ()
    optional_requires: ClassVar[tuple[Capability[Any], ...]] = ()
    provides: ClassVar[tuple[Capability[Any], ...]] = ()

    def __call__(self, settings: S, ctx: LifespanContext, /) -> Agent:
        """Return an agent."""
        raise NotImplementedError(f"{type(self).__qualname__} makes no agent")


RunFunction: TypeAlias = Callable[[RunContext, RunAgentInput, CallRun], AsyncIterator[BaseEvent]]


@overload
def middleware(function: RunFunction, /) -> type[Middleware]: ...
@overload
def middleware(
    *,
    id: str | None = None,
    stage: Stage | None = None,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    requires: Sequence[Capability[Any]] = (),
    essential: Sequence[Point] = (),
) -> Callable[[RunFunction], type[Middleware]]: ...
def middleware(
    function: RunFunction | None = None,
    /,
    *,
    id: str | None = None,  # noqa: A002 - the field's word
    stage: Stage | None = None,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    requires: Sequence[Capability[Any]] = (),
    essential: Sequence[Point] = (),
) -> Any:
    """Turn an async generator ``(ctx, run_input, call_next)`` into a middleware.

    For small things; locals are per run. What needs settings or shared values is a class.
    The id is the function's name, in kebab case, unless given.
    """

    def build(fn: RunFunction, /) -> type[Middleware]:
        _check_run_function(fn)

        def around_run(
            self: Middleware, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
        ) -> AsyncIterator[BaseEvent]:
            return fn(ctx, run_input, call_next)

        name = getattr(fn, "__name__", "middleware")
        return type(
            name,
            (Middleware,),
            {
                "__doc__": fn.__doc__,
                "__module__": fn.__module__,
                "__qualname__": getattr(fn, "__qualname__", name),
                "__interpose_id__": id or kebab(name),
                "__interpose_function__": staticmethod(fn),
                "stage": stage,
                "before": _names("before", before),
                "after": _names("after", after),
                "requires": tuple(requires),
                "essential": tuple(essential),
                "around_run": around_run,
            },
        )

    return build if function is None else build(function)


def _check_run_function(fn: Any) -> None:
    try:
        fits = callable(fn) and bool(inspect.signature(fn).bind(1, 2, 3))
    except TypeError:
        fits = False
    if isinstance(fn, type) or inspect.iscoroutinefunction(fn) or not fits:
        raise UsageError(
            f"@middleware takes an async generator function of three arguments, not {fn!r}",
            hint="write `async def name(ctx, run_input, call_next):` with a yield in it",
        )


def _names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise UsageError(f"{argument} is a single name", hint=f'write {argument}=["{names}"]')
    return tuple(names)


class Layer:
    """One configured occurrence of a middleware, in code.

    The keyword arguments are those of a layer's table in the file. ``before`` and ``after`` name
    layers; ``deadline``: seconds of the layer's own suspended time.
    """

    __slots__ = (
        "after",
        "agents",
        "before",
        "deadline",
        "enabled",
        "id",
        "on_failure",
        "required",
        "settings",
        "stage",
        "use",
    )

    def __init__(
        self,
        use: type[Middleware[S, Any]],
        settings: S | Mapping[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's word
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        stage: Stage | None = None,
        on_failure: OnFailure | None = None,
        deadline: float | None = None,
        agents: Sequence[str] | None = None,
        enabled: bool = True,
        required: bool = True,
    ) -> None:
        self.use: type[Middleware[Any, Any]] = use
        self.settings: BaseModel | Mapping[str, Any] | None = settings
        self.id: str = id or middleware_id(use)
        self.before: tuple[str, ...] = tuple(before)
        self.after: tuple[str, ...] = tuple(after)
        self.stage: Stage | None = stage
        self.on_failure: OnFailure | None = on_failure
        self.deadline: float | None = deadline
        self.agents: tuple[str, ...] | None = None if agents is None else tuple(agents)
        self.enabled: bool = enabled
        self.required: bool = required

    @classmethod
    def of(cls, what: Layer | type[Middleware[Any, Any]], /) -> Self | Layer:
        """Return ``what`` as a layer."""
        return what if isinstance(what, Layer) else cls(what)

    def __repr__(self) -> str:
        return f"Layer({self.use.__qualname__}, id={self.id!r})"


def kebab(name: str) -> str:
    """Return a Python name as an id: ``TenantGuard`` and ``tenant_guard`` are ``tenant-guard``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def middleware_id(use: type[Middleware[Any, Any]]) -> str:
    """Return the id that a middleware has when nobody gives it another one."""
    return str(getattr(use, "__interpose_id__", None) or kebab(getattr(use, "__name__", "layer")))
