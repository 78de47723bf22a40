"""The loop itself: iterations of a model call and its tools, until there is an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    Message,
    StepFinishedEvent,
    StepStartedEvent,
    TokenUsage,
    Tool,
)

from interpose.agui import Expander, Transcript
from interpose.context import AgentContext
from interpose.errors import MiddlewareError
from interpose.loop.batch import Pending
from interpose.loop.calls import Calls, LoopEnd, Waiting, open_calls
from interpose.loop.catalogue import ToolSet, check_names
from interpose.loop.history import requestable
from interpose.loop.ids import ids_of
from interpose.loop.limits import LoopState, Spending
from interpose.loop.modelcall import Answer, checked, is_finished
from interpose.loop.settings import LoopParts
from interpose.loop.streams import owned
from interpose.model import Model
from interpose.payloads import (
    ContinueState,
    IterationInfo,
    ModelConfig,
    ModelRequest,
)


class Conversation:
    """Plays iterations over one history. ``end``: set when they are over.

    ``calls`` runs its tools. ``origin``: the run that idempotency keys count from.
    ``taken``: ids that the run has already, for a subagent.
    """

    def __init__(
        self,
        parts: LoopParts,
        ctx: AgentContext,
        messages: Sequence[Message],
        *,
        client_tools: Sequence[Tool] = (),
        spending: Spending,
        origin: str,
        taken: set[str] | None = None,
    ) -> None:
        self.parts = parts
        self.ctx = ctx
        self.hooks = ctx.loop
        self.spending = spending
        self.transcript = Transcript(messages)
        self.tools = ToolSet(parts.tools, client_tools)
        self.tools.disclose_again(messages)
        self._taken = ids_of(messages) if taken is None else taken
        self.calls = Calls(parts, ctx, self.tools, spending, origin=origin, taken=self._taken)
        self.iterations = 0
        self.answer: Answer | None = None
        self.usage: list[TokenUsage] = []
        self.side_usage: list[TokenUsage] = []
        """What calls for structured output used; ``usage`` is the loop's own."""
        self.announce: Callable[[AsyncIterator[BaseEvent]], AsyncIterator[BaseEvent]] = _as_it_is
        self.end: LoopEnd | None = None
        self._kept = ModelConfig(
            model=parts.model, system_prompts=parts.instructions, settings=dict(parts.settings)
        )
        self._compacted = 0
        self._last_calls = 0
        self._outcome: LoopEnd | None = None
        self._ran = False
        self._counts = True
        self._over_with = False
        """Whether the iteration has been played to its end."""
        self._sent: ModelRequest | None = None
        self._position = self.hooks.position

    # Configuration ---------------------------------------------------------------------------
    def view(self) -> ModelConfig:
        """Return what the next call is made with, before layers change it."""
        kept = self._kept
        later = self.transcript.messages[self._compacted :]
        messages = requestable((*(kept.messages or ()), *later))
        declared = self.tools.declared
        if kept.tools is not None:
            known = {tool.name for tool in kept.tools}
            added = (t for t in declared if t.name in self.tools.disclosed and t.name not in known)
            declared = (*kept.tools, *added)
        schema = kept.output_schema
        return replace(kept, messages=messages, tools=declared, output_schema=schema)

    def keep(self, before: ModelConfig, base: ModelConfig) -> None:
        """Keep what layers asked to persist."""
        changed = {
            name: getattr(base, name)
            for name in ("model", "system_prompts", "settings", "tools", "output_schema")
            if getattr(base, name) is not getattr(before, name)
        }
        if base.messages is not before.messages:
            changed["messages"] = base.messages
            self._compacted = len(self.transcript.messages)
        if changed:
            self._kept = replace(self._kept, **changed)

    async def begin(self) -> None:
        """Ask the layers for the configuration of the run."""
        before = self.view()
        configured = await self.hooks.configure(before)
        self.keep(before, configured.base)

    def want(self, schema: Mapping[str, Any]) -> None:
        """Ask for structured output in every call."""
        self._kept = replace(self._kept, output_schema=schema)

    # Iterations ------------------------------------------------------------------------------
    async def play(self) -> AsyncIterator[BaseEvent]:
        """Yield the events of the iterations that are still to come."""
        while self.end is None:
            if self.iterations and not await self.hooks.should_continue(self._state_for_hooks()):
                self.end = LoopEnd(limit="on_should_continue")
                return
            limit = self.parts.until.limit(self._state()) or self._over()
            if limit is not None:
                self.end = LoopEnd(limit=limit)
                return
            self._ran, self._counts, self._outcome = False, True, None
            self._over_with = False
            self._enter_iteration(None)
            async with owned(self._folded(self.hooks.step(self._iteration))) as stream:
                async for event in stream:
                    yield event
            # A pause before the model is no iteration: the run that goes on makes it.
            self.iterations += self._counts
            if self._ran and not self._over_with:
                raise MiddlewareError(
                    "a layer's around_step ended before the iteration inside it had",
                    hint="iterate over call_next() to its end, or end the run: ctx.finish",
                )
            # A layer that answered in the step's place has given the answer.
            self.end = self._outcome if self._ran else LoopEnd()

    async def _folded(self, events: AsyncIterator[BaseEvent]) -> AsyncIterator[BaseEvent]:
        expander = Expander()
        async with owned(events) as stream:
            async for given in stream:
                for event in expander.push(given):
                    self.transcript.apply(event)
                    yield event
        for event in expander.close():
            self.transcript.apply(event)
            yield event

    async def _iteration(self) -> AsyncIterator[BaseEvent]:
        self._ran, self._counts, self._outcome = True, True, None
        index, message_id = self.iterations, str(uuid4())
        self._enter_iteration(message_id)
        step = f"iteration-{index + 1}"
        yield StepStartedEvent(step_name=step)
        await self.hooks.iteration(IterationInfo(index, message_id))
        async with owned(self._model_and_tools(message_id)) as stream:
            async for event in stream:
                yield event
        yield StepFinishedEvent(step_name=step)
        self._over_with = True

    def _enter_iteration(self, message_id: str | None) -> None:
        """Say where the loop is; ``around_step`` sees its own iteration, too."""
        self._position.iteration = self.iterations
        self._position.message_id = message_id
        self.hooks.enter("before_model")

    async def _model_and_tools(self, message_id: str) -> AsyncIterator[BaseEvent]:
        hooks = self.hooks
        before = self.view()
        configured = await hooks.configure(before)
        self.keep(before, configured.base)
        request = request_of(configured.view)
        asked = await hooks.boundary()
        if asked:
            self._outcome, self._counts = _asking(asked), False
            return
        hooks.enter("model_stream")
        self._last_calls = 0
        async with owned(self.announce(self.call(request, message_id))) as stream:
            async for event in stream:
                yield event
        answer = self.answer
        if answer is None:
            return
        hooks.enter("after_model")
        shown = () if self._sent is None else self._sent.tools
        items = [await self.calls.prepared(call, shown) for call in answer.calls]
        asked = await hooks.boundary()
        if asked:
            async with owned(self.calls.invalid(items)) as stream:
                async for event in stream:
                    yield event
            self._outcome = _asking(asked, items)
        elif not items:
            self._outcome = LoopEnd()
        else:
            async with owned(self.calls.execute(items)) as stream:
                async for event in stream:
                    yield event
            self._last_calls = self.calls.executed
            self._outcome = self.calls.outcome

    def _state(self) -> LoopState:
        reason = None if self.answer is None else self.answer.finish_reason
        return LoopState(
            iterations=self.iterations,
            tool_calls=self.spending.tool_calls,
            last_tool_calls=self._last_calls,
            finish_reason=reason,
            usage=tuple(self.usage),
        )

    def _state_for_hooks(self) -> ContinueState:
        state = self._state()
        return ContinueState(
            iteration=state.iterations - 1,
            finish_reason=state.finish_reason,
            tool_calls=state.tool_calls,
            last_tool_calls=state.last_tool_calls,
            usage=state.usage,
        )

    def _over(self) -> str | None:
        return self.spending.over(self.parts.budget)

    # Model calls -----------------------------------------------------------------------------
    def model(self, model: str) -> Model:
        """Return a model by its id: one the agent was given, or one of the file."""
        return self.parts.models.get(model) or self.hooks.model(model)

    async def call(self, request: ModelRequest, message_id: str) -> AsyncIterator[BaseEvent]:
        """Yield the events of one model call; ``answer`` is then what it came to."""
        hooks = self.hooks
        used: list[TokenUsage] = []
        self._sent = request

        def inner(request: ModelRequest, /) -> AsyncIterator[BaseEvent]:
            return self._innermost(request, message_id, used)

        answer = Answer(message_id, self._taken)
        try:
            async with owned(
                self.ctx.rewrite(answer.read(hooks.call_model(request, inner)))
            ) as stream:
                async for event in stream:
                    kind = event.type.value
                    if kind == "TEXT_MESSAGE_START":
                        answer.content = ""
                    elif kind == "TEXT_MESSAGE_CONTENT":
                        answer.content += event.delta  # type: ignore[attr-defined]
                    elif kind == "TOOL_CALL_END":
                        self.calls.unanswered[event.tool_call_id] = None  # type: ignore[attr-defined]
                    elif kind == "TOOL_CALL_RESULT":
                        self.calls.unanswered.pop(event.tool_call_id, None)  # type: ignore[attr-defined]
                    yield event
        except Exception:
            await self._count(used)
            raise
        self.answer = answer
        await self._count(used)

    async def _count(self, used: Sequence[TokenUsage]) -> None:
        self.usage += used
        self.spending.add(used)
        for each in used:
            await self.hooks.usage(each)

    async def _innermost(
        self, request: ModelRequest, message_id: str, used: list[TokenUsage]
    ) -> AsyncIterator[BaseEvent]:
        check_names(request.tools)
        model = self.model(request.model)
        provider = getattr(model, "provider", None)
        self._position.model, self._position.provider = request.model, provider
        self._sent = request
        self.spending.model_calls += 1
        stream = model.stream(request, self.hooks.context(request.model, message_id))
        expander = Expander()
        try:
            async with owned(checked(stream, request.model)) as events:
                async for given in events:
                    if is_finished(given):
                        used += given.usage
                        for part in expander.close():
                            yield part
                        yield given
                    else:
                        for part in expander.push(given):
                            yield part
            for part in expander.close():
                yield part
        finally:
            aclose = getattr(stream, "aclose", None)
            if aclose is not None:
                await aclose()


def _as_it_is(events: AsyncIterator[BaseEvent]) -> AsyncIterator[BaseEvent]:
    return events


def request_of(view: ModelConfig) -> ModelRequest:
    """Return the request of a configuration. Raises :class:`MiddlewareError` for a name twice."""
    tools = tuple(view.tools or ())
    check_names(tools)
    return ModelRequest(
        model=view.model or "",
        messages=tuple(view.messages or ()),
        system_prompts=tuple(view.system_prompts or ()),
        tools=tools,
        settings=dict(view.settings or {}),
        output_schema=view.output_schema,
    )


def _asking(asked: Sequence[Interrupt], items: Sequence[Pending] | None = None) -> LoopEnd:
    waiting = tuple(Waiting(each) for each in asked)
    answered = items is not None and not items
    return LoopEnd(waiting=waiting, open=open_calls(items or ()), answered=answered)
