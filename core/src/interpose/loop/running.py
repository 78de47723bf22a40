"""One run of the loop: one RUN_STARTED, the conversation, one terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TokenUsage,
    aggregate_token_usage,
)

from interpose.context import AgentContext
from interpose.interrupts import Resolutions
from interpose.loop.batch import Pending
from interpose.loop.calls import LoopEnd, Waiting, only
from interpose.loop.continuation import Answer as PersonsAnswer
from interpose.loop.continuation import Continuation, Question, Resumed, approval
from interpose.loop.conversation import Conversation
from interpose.loop.execution import result_event
from interpose.loop.limits import Spending
from interpose.loop.settings import LoopParts
from interpose.loop.streams import owned
from interpose.loop.structured import PURPOSE, StructuredOutput
from interpose.loop_errors import InvalidResume
from interpose.payloads import InterruptDecision, LoopInfo, ToolCall, ToolResult

LIMIT: Final = "interpose:limit"
"""Metadata of the RUN_FINISHED of a run that a limit cut short: the name of the limit."""

_CANCELLED: Final = "Tool execution cancelled."
_DECLINED: Final = "User declined tool execution."


class LoopRun:
    """Plays one run of a loop."""

    def __init__(self, parts: LoopParts, run_input: RunAgentInput, ctx: AgentContext) -> None:
        self._parts = parts
        self._input = run_input
        self._ctx = ctx
        self._hooks = ctx.loop
        self._spending = Spending(ctx.clock, ctx.clock.monotonic())
        self._resumed: Resumed | None = None
        self._conversation = Conversation(
            parts,
            ctx,
            run_input.messages,
            client_tools=run_input.tools or (),
            spending=self._spending,
            origin=run_input.run_id,
        )
        self._committed = False
        self._output: StructuredOutput | None = None

    async def events(self) -> AsyncIterator[BaseEvent]:
        """Yield the events of the run."""
        conversation, hooks = self._conversation, self._hooks
        await conversation.begin()
        resumed = self._resume()
        hooks.spend_with(self._spending.add)
        try:
            yield RunStartedEvent(
                thread_id=self._input.thread_id,
                run_id=self._input.run_id,
                parent_run_id=self._input.parent_run_id,
                protocol_version=PROTOCOL_VERSION,
            )
            hooks.farewell(self._unfinished, self._used)
            if hooks.wanted is not None:
                self._output = StructuredOutput(conversation, hooks.wanted)
            go_on = True
            if resumed is not None:
                async with owned(self._continued(resumed)) as stream:
                    async for event in stream:
                        conversation.transcript.apply(event)
                        yield event
                go_on = conversation.end is None
            if go_on and not self._skips_the_loop:
                async with owned(conversation.play()) as stream:
                    async for event in stream:
                        yield event
            end = conversation.end or LoopEnd()
            if self._output is not None and not (end.waiting or end.clients):
                async with owned(self._output.play()) as stream:
                    async for event in stream:
                        yield event
            finished = [each async for each in self._ctx.rewrite(only(self._finished(end)))]
            self._commit()
            for last in finished:
                yield last
        finally:
            self._release()

    @property
    def _skips_the_loop(self) -> bool:
        """Whether there is nothing to do but the structured call: no tools, a schema apart."""
        output = self._output
        if output is None or output.is_native:
            return False
        return not self._conversation.view().tools

    # Going on after an interrupt -------------------------------------------------------------
    def _resume(self) -> Resumed | None:
        """Take the answers to a paused run's questions. Raises :class:`InvalidResume`."""
        entries = self._input.resume or ()
        if not entries:
            return None
        continuations = self._parts.continuations
        try:
            resumed = continuations.resume(
                entries,
                agent=self._ctx.agent,
                thread_id=self._input.thread_id,
                messages=self._input.messages,
                key=self._hooks.signing_key,
                now=self._ctx.clock.time(),
                edited=self._edited,
            )
        except InvalidResume as error:
            unknown = any(each.code == "unknown-interrupt" for each in error.problems)
            if unknown and not self._hooks.has_lasting_key:
                self._ctx.log.warning(
                    "an answer was refused that may be to a question of another process, or of "
                    "this one before a restart: [host] signing_key is not set"
                )
            raise
        if resumed is None:
            return None
        self._continuing(resumed)
        continuations.claim(resumed)
        self._resumed = resumed
        return resumed

    def _continuing(self, resumed: Resumed) -> None:
        """Go on from where the paused run stood."""
        continuation = resumed.continuation
        conversation = self._conversation
        conversation.calls.origin = continuation.origin
        self._hooks.restore(continuation.metadata)
        counts = continuation.counts
        self._spending.model_calls = counts.get("model_calls", 0)
        self._spending.tool_calls = counts.get("tool_calls", 0)
        self._spending.tokens = counts.get("tokens", 0)
        self._spending.before = float(counts.get("seconds", 0))
        conversation.iterations = counts.get("iterations", 0)
        self._hooks.position.iteration = max(0, conversation.iterations - 1)
        conversation.calls.on_result = self._remember

    def _edited(self, call: ToolCall, args: Mapping[str, Any]) -> Mapping[str, Any]:
        tool = next((tool for tool in self._parts.tools if tool.name == call.name), None)
        return args if tool is None else tool.validate(args)

    def _remember(self, call_id: str, result: ToolResult) -> None:
        resumed = self._resumed
        if resumed is not None and any(c.id == call_id for c in resumed.continuation.calls):
            self._parts.continuations.remember(resumed, call_id, result)

    async def _continued(self, resumed: Resumed) -> AsyncIterator[BaseEvent]:
        """Let the layers look at the answers, then execute what was waiting."""
        conversation = self._conversation
        decision: InterruptDecision = "continue"
        if len(resumed.resolutions):
            decision = await self._hooks.resolution(resumed.resolutions)
        if decision == "stop":
            conversation.end = LoopEnd()
            return
        items = [await self._item(call, resumed, decision) for call in resumed.continuation.calls]
        answered = {m.tool_call_id for m in self._input.messages if m.role == "tool"}
        items = [item for item in items if not (item.is_clients and item.call.id in answered)]
        for item in items:
            conversation.calls.unanswered[item.call.id] = None
        if not items:
            if resumed.continuation.counts.get("answered"):
                conversation.end = LoopEnd()
            return
        async with owned(conversation.calls.execute(items)) as stream:
            async for event in stream:
                yield event
        conversation.end = conversation.calls.outcome

    async def _item(self, call: ToolCall, resumed: Resumed, decision: InterruptDecision) -> Pending:
        """Return a call of the paused run with what people said of it."""
        item = await self._conversation.calls.reopened(call)
        item.resolutions = _own(call.id, resumed)
        answer: PersonsAnswer | None = resumed.answers.get(call.id)
        done = resumed.done.get(call.id)
        if done is not None:
            item.settle(done, "executed")
        elif item.result is not None or item.is_clients:
            pass
        elif decision == "cancel" or (answer is not None and answer.cancelled):
            item.settle(ToolResult(_CANCELLED, _CANCELLED), "denied", reason=_CANCELLED)
        elif answer is not None and not answer.approved:
            said = f"{_DECLINED} {answer.reason or ''}".strip()
            item.settle(ToolResult(said, said), "denied", reason=answer.reason or _DECLINED)
        elif answer is not None:
            _approve(item, answer.args)
        elif call.id in resumed.continuation.approved:
            _approve(item, resumed.continuation.approved[call.id])
        return item

    # The end ---------------------------------------------------------------------------------
    def _finished(self, end: LoopEnd) -> RunFinishedEvent:
        conversation = self._conversation
        output = self._output
        text = "" if conversation.answer is None else conversation.answer.content
        reason = None if conversation.answer is None else conversation.answer.finish_reason
        side = tuple(conversation.side_usage)
        self._hooks.conclude(
            LoopInfo(
                iterations=conversation.iterations,
                tool_calls=self._spending.tool_calls,
                finish_reason=reason,
                content=text,
                usage=tuple(conversation.usage),
                other_usage={PURPOSE: side} if side else {},
                output=None if output is None else output.value,
                limit=end.limit,
            )
        )
        outcome: RunFinishedInterruptOutcome | RunFinishedSuccessOutcome | None = None
        if end.waiting:
            outcome = RunFinishedInterruptOutcome(interrupts=list(self._pause(end)))
        elif end.clients:
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=list(end.clients))
        return RunFinishedEvent(
            thread_id=self._input.thread_id,
            run_id=self._input.run_id,
            outcome=outcome,
            result=None if output is None or end.waiting else output.value,
            usage=list(self._used()) or None,
            metadata=None if end.limit is None else {LIMIT: end.limit},
        )

    def _pause(self, end: LoopEnd) -> Sequence[Interrupt]:
        """Write down what it takes to go on, and return the questions with it in their ids."""
        now = self._ctx.clock.time()
        shown = {
            call.id: (call.id, call.function.name, call.function.arguments)
            for message in self._conversation.transcript.messages
            for call in getattr(message, "tool_calls", None) or ()
        }
        conversation, spending = self._conversation, self._spending
        if not self._hooks.has_lasting_key:
            self._ctx.log.warning(
                "the run waits for people, who can answer this process alone, and not after a "
                "restart: [host] signing_key is not set"
            )
        continuation = Continuation(
            agent=self._ctx.agent,
            thread_id=self._input.thread_id,
            run_id=self._input.run_id,
            origin=conversation.calls.origin,
            calls=tuple(item.raw for item in end.open),
            shown=tuple(
                shown.get(item.call.id, (item.call.id, item.call.name, "")) for item in end.open
            ),
            clients=frozenset(item.call.id for item in end.open if item.is_clients),
            questions=tuple(self._question(each, now) for each in end.waiting),
            metadata=dict(self._ctx.metadata),
            counts={
                "iterations": conversation.iterations,
                "model_calls": spending.model_calls,
                "tool_calls": spending.tool_calls,
                "tokens": spending.tokens,
                "seconds": int(spending.seconds),
                "answered": int(end.answered),
            },
            issued_at=now,
            expires_at=now + self._parts.answer_within,
            approved={item.call.id: item.edited for item in end.open if item.approved},
        )
        return self._parts.continuations.pause(continuation, key=self._hooks.signing_key)

    def _question(self, waiting: Waiting, now: float) -> Question:
        item = waiting.item
        if waiting.interrupt is not None:
            call_id = None if item is None else item.call.id
            return Question(waiting.interrupt, "generic", call_id)
        if item is None:
            raise TypeError("a question is about an interrupt or a call")
        expires = datetime.fromtimestamp(now, UTC) + timedelta(seconds=self._parts.answer_within)
        return approval(item.call, waiting.text, expires_at=expires)

    def _commit(self) -> None:
        """Use up the answers: the run has come to a safe boundary."""
        if self._resumed is not None:
            self._committed = True
            self._parts.continuations.commit(self._resumed)

    def _release(self) -> None:
        if self._resumed is not None and not self._committed:
            self._parts.continuations.release(self._resumed)

    def _used(self) -> Sequence[TokenUsage]:
        usage: list[TokenUsage] = self._spending.usage
        return aggregate_token_usage(usage) if usage else ()

    def _unfinished(self) -> Sequence[BaseEvent]:
        """Return results for the calls that have none, so that the next turn is valid."""
        # What was waiting for people may be tried again: those calls stay open.
        waiting = () if self._resumed is None else self._resumed.continuation.calls
        kept = {call.id for call in waiting}
        calls = self._conversation.calls
        return [
            result_event(call_id, f"{call_id}-result", calls.closing(call_id))
            for call_id in calls.unanswered
            if call_id not in kept
        ]


def _approve(item: Pending, args: Mapping[str, Any] | None) -> None:
    """Let a call run that a person has approved; ``args``: those that the person gave it."""
    item.approved = True
    if args is None or item.tool is None:
        return
    try:  # a tool that a layer resolves is known only now
        item.edited = item.tool.validate(args)
    except ValueError as error:
        item.settle(ToolResult(str(error), str(error)), "invalid", reason=str(error))
    else:
        item.call = replace(item.call, args=item.edited)


def _own(call_id: str, resumed: Resumed) -> Resolutions:
    """Return the answers to the questions that a call itself had asked."""
    asked = {
        each.interrupt.id for each in resumed.continuation.questions if each.call_id == call_id
    }
    return Resolutions([each for each in resumed.resolutions if each.interrupt.id in asked])
