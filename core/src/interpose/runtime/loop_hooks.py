"""How an agent's loop calls the hooks of its layers: what ``AgentContext.loop`` stands on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import fields, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from ag_ui.core import BaseEvent, Interrupt, TokenUsage, Tool
from pydantic import BaseModel

from interpose.authoring import CallModel, CallStep, CallTool
from interpose.errors import MiddlewareError, described
from interpose.interrupts import Resolutions
from interpose.model import Model, ModelContext
from interpose.payloads import (
    ContinueState,
    InterruptDecision,
    IterationInfo,
    LoopInfo,
    ModelConfig,
    ModelRequest,
    ResolvedTool,
    ToolCall,
    ToolCallInfo,
    ToolPhaseInfo,
    ToolResult,
)
from interpose.runtime.control import COLLECTOR, EndRun
from interpose.runtime.layer import Frame
from interpose.runtime.onion import Around
from interpose.runtime.tool_hooks import decide, refuse_observer, resolve_tool
from interpose.runtime.tool_onion import around_tool
from interpose.services import Configured, Decided, Position, Validate, Wanted

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord

SUBAGENT: ContextVar[Position | None] = ContextVar("interpose_subagent", default=None)
"""Where a subagent is; set in the task of the tool call that runs it, never over a yield."""

_FIELDS: Final = tuple(field.name for field in fields(ModelConfig) if field.name != "persist")
_KINDS: Final[Mapping[str, type]] = {
    "messages": BaseModel,
    "system_prompts": str,
    "tools": Tool,
}
_WANTED: Final[Mapping[str, str]] = {
    "messages": "a tuple of messages of ag_ui.core",
    "system_prompts": "a tuple of texts",
    "tools": "a tuple of ag_ui.core.Tool; a LoopTool has one: its declaration()",
}
_RESOLUTIONS: Final = ("continue", "cancel", "stop")


class LoopHooks:
    """The hooks of one run's layers: a :class:`interpose.services.LoopServices`."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._main = Position()
        self.started = False
        self.unfinished: Callable[[], Sequence[BaseEvent]] | None = None
        self.info: LoopInfo | None = None
        self._spend: Callable[[Sequence[TokenUsage]], None] = _nothing
        self._asked_for: dict[str, str] = {}
        self._by_hook: dict[str, tuple[str, ...]] = {}
        """The ids of the layers that have a hook, outermost first."""

    # Where the loop is -----------------------------------------------------------------------
    @property
    def position(self) -> Position:
        """The position of the loop that asks: the run's own, or a subagent's."""
        return SUBAGENT.get() or self._main

    @position.setter
    def position(self, position: Position) -> None:
        self._main = position

    def enter(self, phase: str, /) -> None:
        """Take note of the phase."""
        self.position.phase = phase

    @contextmanager
    def subagent(self, position: Position, /) -> Iterator[None]:
        """Let hooks see a subagent's position; only in a task of its own."""
        token = SUBAGENT.set(position)
        try:
            yield
        finally:
            SUBAGENT.reset(token)

    @property
    def wanted(self) -> Wanted | None:
        """The structured output that the caller asked for."""
        return self._record.wanted

    @property
    def signing_key(self) -> bytes:
        """The key that signs what comes back."""
        return self._record.program.signing_key

    @property
    def has_lasting_key(self) -> bool:
        """Whether another process, or this one after a restart, has the same key."""
        return self._record.program.has_lasting_key

    def model(self, model: str, /) -> Model:
        """Return a model by its id."""
        record, layer = self._record, self._asked_for.get(model)
        if layer is None or model in record.program.make_models:
            return record.model_of(model)
        known = ", ".join(sorted(record.program.make_models)) or "none"
        error = MiddlewareError(
            f"{layer} asked for the model {model!r}, which is not configured",
            hint=f"add [models.{model}] to the file; the models are {known}",
        )
        record.failures.blame(error)
        raise error

    def context(self, model: str, message_id: str, /) -> ModelContext:
        """Return what the model sees of the run."""
        return ModelContext(self._record, model, message_id)

    def spend_with(self, add: Callable[[Sequence[TokenUsage]], None], /) -> None:
        """Say how what layers' own model calls use is counted; so is what they used before."""
        self._spend = add
        for usage in self._record.side_usage.values():
            add(usage)

    def spend(self, usage: Sequence[TokenUsage], /) -> None:
        """Count what a layer's own model call used."""
        self._spend(usage)

    def abort(self, reason: str, layer: str | None = None, /) -> NoReturn:
        """End the run with the cancelled outcome."""
        self._record.abort(layer or self._record.agent, reason)

    def interrupt(self, *interrupts: Interrupt) -> NoReturn:
        """Pause: a question of a tool's own."""
        self._record.interrupt(self._record.agent, interrupts)

    def restore(self, metadata: Mapping[str, Any], /) -> None:
        """Give the run the metadata of the paused one that it goes on with; that goes first."""
        self._record.metadata.update(metadata)

    def begin(self) -> None:
        """Forget what an earlier attempt's agent said."""
        self.unfinished = self.info = None
        self._record.asked.clear()
        self._spend = _nothing
        self._record.failures.used = tuple

    def farewell(
        self,
        events: Callable[[], Sequence[BaseEvent]],
        usage: Callable[[], Sequence[TokenUsage]],
        /,
    ) -> None:
        """Say what closes the loop's unfinished calls if the run is cut short, and what it used."""
        self.unfinished = events
        self._record.failures.used = usage

    def conclude(self, info: LoopInfo, /) -> None:
        """Say what the loop did; ``on_finish`` sees it."""
        self.info = info

    def told(self) -> LoopInfo | None:
        """Return what the loop did, with what layers' own model calls used."""
        record = self._record
        if self.info is None or not record.side_usage:
            return self.info
        side = {purpose: tuple(usage) for purpose, usage in record.side_usage.items()}
        return replace(self.info, other_usage={**self.info.other_usage, **side})

    def is_a_layers(self, error: BaseException, /) -> bool:
        """Whether a layer failed with it, perhaps inside a subagent: it is no failure of a tool."""
        return self._record.failures.is_blamed(error)

    def report(self, error: BaseException, said: str, /) -> None:
        """Log a failure for the operator."""
        self._record.report(self._record.agent, error, said)

    def _frames(self, hook: str) -> list[Frame]:
        record = self._record
        ids = self._by_hook.get(hook)
        if ids is None:
            layers = record.program.layers
            ids = tuple(layer.id for layer in layers if hook in layer.facts.hooks)
            self._by_hook[hook] = ids
        frames = [record.frames[layer_id] for layer_id in ids]
        return [frame for frame in frames if not frame.skipped]

    async def _observe(self, hook: str, *args: Any) -> None:
        for frame in self._frames(hook):
            await frame.observe(hook, *args)

    # The configuration -----------------------------------------------------------------------
    async def configure(self, base: ModelConfig, /) -> Configured:
        """Ask ``on_config``; after the first time the run has begun for ``on_start``."""
        configured = await self._configure("on_config", base)
        await self.start()
        return configured

    async def configure_output(self, base: ModelConfig, /) -> Configured:
        """Ask ``on_structured_output_config``."""
        return await self._configure("on_structured_output_config", base)

    async def start(self) -> None:
        """Call ``on_start``, once in a run."""
        if not self.started:
            self.started = True
            await self._observe("on_start")

    async def _configure(self, hook: str, base: ModelConfig) -> Configured:
        view = kept = replace(base, persist=False)
        for frame in self._frames(hook):
            try:
                answer = await frame.call(hook, view)
                changes = _changes(frame, hook, answer)
            except Exception as error:
                if not frame.fail(hook, error):
                    raise
                continue
            if changes.get("model", base.model) != base.model:
                self._asked_for[changes["model"]] = f"{hook} of layer {frame.layer.id!r}"
            if changes:
                view = replace(view, **changes)
                kept = replace(kept, **changes) if answer.persist else kept
        return Configured(view, kept)

    # Iterations and model calls --------------------------------------------------------------
    async def iteration(self, info: IterationInfo, /) -> None:
        """Call ``on_iteration``."""
        await self._observe("on_iteration", info)

    def step(self, inner: CallStep, /) -> AsyncIterator[BaseEvent]:
        """Return the iteration inside ``around_step``."""
        return self._around("around_step", inner).stream()

    def call_model(self, request: ModelRequest, inner: CallModel, /) -> AsyncIterator[BaseEvent]:
        """Return the call inside ``around_model_call``."""
        return self._around("around_model_call", inner).stream(request)

    def _around(self, hook: str, inner: Callable[..., AsyncIterator[BaseEvent]]) -> Around:
        return Around(self._record, hook, self._frames(hook), inner, self._asked_for)

    async def usage(self, usage: TokenUsage, /) -> None:
        """Call ``on_usage``."""
        await self._observe("on_usage", usage)

    async def should_continue(self, state: ContinueState, /) -> bool:
        """Ask ``on_should_continue`` of all layers; one False is enough."""
        go_on = True
        for frame in self._frames("on_should_continue"):
            try:
                answer = await frame.call("on_should_continue", state)
                if answer is not None and not isinstance(answer, bool):
                    raise MiddlewareError(
                        f"on_should_continue of layer {frame.layer.id!r} returned a "
                        f"{type(answer).__name__}",
                        hint="return True or False",
                    )
            except Exception as error:
                if not frame.fail("on_should_continue", error):
                    raise
                continue
            go_on = go_on and answer is not False
        return go_on

    # Tools -----------------------------------------------------------------------------------
    async def resolve_tool(self, name: str, /) -> ResolvedTool | None:
        """Ask ``resolve_tool``. Two answers: :class:`MiddlewareError` naming both layers."""
        return await resolve_tool(self._frames("resolve_tool"), name)

    async def decide(self, call: ToolCall, validate: Validate, /) -> Decided:
        """Ask ``on_before_tool_call``: arguments pipe, then the strictest decision wins."""
        return await decide(self._frames("on_before_tool_call"), call, validate)

    async def call_tool(self, call: ToolCall, inner: CallTool, /) -> ToolResult:
        """Execute a call inside ``around_tool_call``."""
        chain: Callable[[ToolCall], Any] = inner
        for frame in reversed(self._frames("around_tool_call")):
            chain = partial(around_tool, frame, chain)
        return cast("ToolResult", await chain(call))

    async def tool_settled(self, info: ToolCallInfo, /) -> None:
        """Call ``on_after_tool_call``."""
        await self._observe("on_after_tool_call", info)

    async def tools_settled(self, info: ToolPhaseInfo, /) -> None:
        """Call ``on_tool_phase_complete``."""
        await self._observe("on_tool_phase_complete", info)

    # Interrupts ------------------------------------------------------------------------------
    def collecting(self) -> AbstractContextManager[list[Interrupt], bool]:
        """Collect what ``ctx.interrupt`` asks in this block, in place of ending the run there."""
        return _Collecting(self._record)

    async def boundary(self) -> Sequence[Interrupt]:
        """Ask ``on_interrupt_boundary`` of all layers, and return their questions as one batch."""
        batch: list[Interrupt] = []
        for frame in self._frames("on_interrupt_boundary"):
            try:
                with self.collecting() as found:
                    await frame.call("on_interrupt_boundary")
            except Exception as error:
                if not frame.fail("on_interrupt_boundary", error):
                    raise
                continue
            batch += found
        return batch

    async def resolution(self, resolutions: Resolutions, /) -> InterruptDecision:
        """Ask ``on_interrupt_resolution`` of all layers; the strictest answer wins."""
        strictest = "continue"
        for frame in self._frames("on_interrupt_resolution"):
            try:
                answer = await frame.call("on_interrupt_resolution", resolutions)
                if answer is not None and answer not in _RESOLUTIONS:
                    raise MiddlewareError(
                        f"on_interrupt_resolution of layer {frame.layer.id!r} returned {answer!r}",
                        hint='return None, "continue", "cancel" or "stop"',
                    )
            except Exception as error:
                if not frame.fail("on_interrupt_resolution", error):
                    raise
                continue
            if answer is not None and _RESOLUTIONS.index(answer) > _RESOLUTIONS.index(strictest):
                strictest = answer
        return cast("InterruptDecision", strictest)


class _Collecting(AbstractContextManager[list[Interrupt], bool]):
    """Gathers questions; the control flow that carried one out of a hook ends here."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._found: list[Interrupt] = []
        self._token: Token[list[Interrupt] | None] | None = None

    def __enter__(self) -> list[Interrupt]:
        self._token = COLLECTOR.set(self._found)
        return self._found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._token is not None:
            COLLECTOR.reset(self._token)
        return isinstance(error, EndRun) and self._record.verdict is None and bool(self._found)


def _nothing(_: Sequence[TokenUsage]) -> None:
    """Count nowhere: the agent keeps no budget."""


def _changes(frame: Frame, hook: str, answer: object) -> dict[str, Any]:
    if answer is None:
        return {}
    if not isinstance(answer, ModelConfig):
        raise MiddlewareError(
            f"{hook} of layer {frame.layer.id!r} returned {described(answer)}",
            hint="return a ModelConfig with what changes, or None",
        )
    refuse_observer(frame, hook)
    given = ((name, getattr(answer, name)) for name in _FIELDS)
    changes = {name: value for name, value in given if value is not None}
    for name, kind in _KINDS.items():
        if name in changes:
            changes[name] = _all(frame, hook, name, kind, changes[name])
    return changes


def _all(frame: Frame, hook: str, name: str, kind: type, given: Any) -> tuple[Any, ...]:
    """Return the items of a field; they are what reaches the model, so a wrong one is named."""
    items = () if isinstance(given, str) else tuple(given)
    wrong = [given] if isinstance(given, str) else [i for i in items if not isinstance(i, kind)]
    if wrong:
        raise MiddlewareError(
            f"{hook} of layer {frame.layer.id!r} gave {name} with {described(wrong[0])}",
            hint=_WANTED[name],
        )
    return items
