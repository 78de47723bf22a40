"""The tool calls of an iteration: found, decided, asked about, executed, committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ag_ui.core import BaseEvent, Interrupt, Tool

from interpose.context import AgentContext
from interpose.errors import MiddlewareError, Reject
from interpose.loop.batch import Batch, Pending, Rewritten, Send, Settled
from interpose.loop.catalogue import ToolSet
from interpose.loop.execution import ToolContext, error_result, execute, result_event
from interpose.loop.history import EDITED
from interpose.loop.limits import Budget, Spending, tightest
from interpose.loop.modelcall import WrittenCall
from interpose.loop.settings import LoopParts
from interpose.loop.streams import owned
from interpose.loop.tools import LoopTool
from interpose.loop_errors import ToolError
from interpose.payloads import (
    Abort,
    Ask,
    Deny,
    Skip,
    ToolCall,
    ToolCallInfo,
    ToolPhaseInfo,
    ToolResult,
)
from interpose.services import Decided

_NOT_EXECUTED: Final = "The call was not executed: the run ended before."
_CUT_SHORT: Final = "The run ended before this call did; it may have had its effect all the same."


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question to people, and the call it is about; None: about no call."""

    interrupt: Interrupt | None
    item: Pending | None = None
    text: str = ""
    """What is asked of an approval that has no interrupt of its own yet."""


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """Why the loop stopped. All empty: the model is done.

    ``limit`` names what cut it short, ``clients`` the calls that the client is to run, ``waiting``
    what people are asked, ``open`` the calls that are executed once they have answered.
    """

    limit: str | None = None
    clients: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    open: tuple[Pending, ...] = ()
    answered: bool = False
    """The model had given its answer already when people were asked."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """What the call of an agent needs: the run it works for, its budget, where its events go."""

    ctx: AgentContext
    spending: Spending
    budget: Budget
    origin: str
    taken: set[str]
    send: Callable[[BaseEvent], None]


class Calls:
    """Runs the tool calls of a conversation. ``outcome``: what the last batch came to.

    ``origin``: the run that idempotency keys count from. ``unanswered``: calls of this run that the
    loop is to answer, so far without a result. ``taken``: ids that are not free. ``executed``: how
    many the last batch executed.
    """

    def __init__(
        self,
        parts: LoopParts,
        ctx: AgentContext,
        tools: ToolSet,
        spending: Spending,
        *,
        origin: str,
        taken: set[str],
    ) -> None:
        self.parts = parts
        self.ctx = ctx
        self.hooks = ctx.loop
        self.tools = tools
        self.spending = spending
        self.origin = origin
        self.taken = taken
        self.unanswered: dict[str, None] = {}
        self._begun: set[str] = set()
        self.on_result: Callable[[str, ToolResult], None] | None = None
        self.outcome: LoopEnd | None = None
        self.executed = 0

    def closing(self, call_id: str) -> ToolResult:
        """Return what is said of a call that the run leaves without a result."""
        return _refused(_CUT_SHORT if call_id in self._begun else _NOT_EXECUTED)

    async def prepared(self, written: WrittenCall, shown: Sequence[Tool]) -> Pending:
        """Find the tool of a call, and read its arguments; what is wrong becomes its result."""
        raw = ToolCall(written.id, written.name, {})
        try:
            tool = await self.tools.find(written.name, shown, self.hooks)
            raw = ToolCall(written.id, written.name, tool.parse(written.text), tool.effect)
            args = raw.args if tool.run is None else tool.validate(raw.args)
        except (ToolError, ValueError) as error:
            item = Pending(raw, raw)
            item.settle(_failed(error), "invalid", reason=_text(error))
            return item
        return Pending(replace(raw, args=args), raw, tool)

    async def reopened(self, call: ToolCall) -> Pending:
        """Return a call that an earlier run left open, as if the model had just written it."""
        try:
            tool = await self.tools.find(call.name, self.tools.known(call.name), self.hooks)
            if tool.run is None and not self.tools.has(call.name):
                raise ToolError(f"Unknown tool: {call.name}.")  # it was here when the run paused
            args = call.args if tool.run is None else tool.validate(call.args)
        except (ToolError, ValueError) as error:
            item = Pending(call, call)
            item.settle(_failed(error), "invalid", reason=_text(error))
            return item
        return Pending(replace(call, args=args, effect=tool.effect), call, tool)

    async def execute(self, items: Sequence[Pending]) -> AsyncIterator[BaseEvent]:
        """Yield the events of a batch of calls, once every call is decided."""
        hooks = self.hooks
        self.outcome = None
        hooks.enter("before_tools")
        waiting = [Waiting(each) for each in await hooks.boundary()]
        for item in items:
            if item.result is None and not item.is_clients:
                waiting += await self._decide(item)
        if waiting:
            async with owned(self.invalid(items)) as stream:
                async for event in stream:
                    yield event
            self.outcome = LoopEnd(waiting=tuple(waiting), open=open_calls(items))
            return
        limit = self._cut(items)
        batch = Batch(
            [item for item in items if not item.is_clients],
            self._execute_one,
            self._commit,
            self._rewritten,
            self.parts.concurrency,
        )
        async with owned(batch.events()) as stream:
            async for event in stream:
                yield event
        hooks.enter("after_tools")
        await hooks.tools_settled(ToolPhaseInfo(hooks.position.iteration, tuple(batch.infos)))
        self.executed = sum(info.source == "executed" for info in batch.infos)
        clients = tuple(item.call.id for item in items if item.is_clients)
        again = [Waiting(interrupt, item) for item, interrupt in batch.asked]
        open_again = tuple(dict.fromkeys(id(item) for item, _ in batch.asked))
        again += (Waiting(each) for each in await hooks.boundary())
        if again:
            left = tuple(item for item in items if id(item) in open_again or item.is_clients)
            self.outcome = LoopEnd(waiting=tuple(again), open=left)
        elif clients:
            self.outcome = LoopEnd(clients=clients)
        elif limit is not None:
            self.outcome = LoopEnd(limit=limit)

    async def _decide(self, item: Pending) -> Sequence[Waiting]:
        """Let the layers decide about a call; returns what people are to be asked, if so."""
        decided: Decided | None = None
        with self.hooks.collecting() as asked:
            if item.tool is not None:
                decided = await self.hooks.decide(item.call, item.tool.validate)
        if asked or decided is None:
            return [Waiting(each, item) for each in asked]
        item.call = decided.call
        text = self._decided(item, decided)
        return () if text is None else [Waiting(None, item, text)]

    def _decided(self, item: Pending, decided: Decided) -> str | None:
        """Do what the layers decided; returns what a person is asked, if that is it."""
        decision = decided.decision
        if isinstance(decision, Abort):
            self.hooks.abort(decision.reason, decided.layer)
        if isinstance(decision, Deny):
            item.settle(_refused(decision.reason), "denied", decided.layer, decision.reason)
            return None
        if isinstance(decision, Ask) and not item.approved:
            return decision.message
        if isinstance(decision, Skip):
            source = "cached" if decision.cached else "skipped"
            item.settle(decision.result, source, decided.layer)  # type: ignore[arg-type]
            return None
        if item.approved or item.tool is None:
            return None
        return item.tool.question(item.call.args)

    def _cut(self, items: Sequence[Pending]) -> str | None:
        """Refuse the calls that no budget is left for; returns the name of the limit."""
        parts = self.parts
        left = self.spending.calls_left(parts.until.most_calls, parts.budget)
        over = self.spending.over(parts.budget)
        if over is not None:
            left = 0
        if left is None:
            return None
        name = over or _limit_of_calls(parts, self.spending)
        limit = None
        for item in items:
            if item.result is None and not item.is_clients:
                if left <= 0:
                    text = f"The call was not executed: {name} is used up."
                    item.settle(_refused(text), "denied", reason=name)
                    limit = name
                left -= 1
        return limit

    async def _execute_one(self, item: Pending, send: Send) -> Settled:
        """Execute one call in a task of its own; whatever it raises becomes a value here."""
        hooks, tool, clock = self.hooks, item.tool, self.ctx.clock
        if tool is None:
            return Settled(_refused("There is no such tool."), 0.0, "invalid")
        started = clock.monotonic()
        self.spending.tool_calls += 1
        own: list[BaseException] = []
        context = ToolContext(
            item.call,
            self.ctx,
            origin=self.origin,
            send=send,
            interrupt=hooks.interrupt,
            abort=hooks.abort,
            resolutions=item.resolutions,
        )
        ran = done = False

        async def inner(call: ToolCall, /) -> ToolResult:
            nonlocal ran, done
            ran = True
            self._begun.add(item.call.id)
            try:
                given = await self._run(tool, call, context, send)
            except Exception as error:
                inside = isinstance(error, MiddlewareError) and _is_agent(tool)
                if not inside and not hooks.is_a_layers(error):
                    own.append(error)
                raise
            done = True
            return given

        result: ToolResult | None = None
        with hooks.collecting() as asked:
            try:
                result = await hooks.call_tool(item.call, inner)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - sorted out there
                result = self._as_result(item.call, error, own)
        seconds = clock.monotonic() - started
        if asked and done:
            raise MiddlewareError(
                f"people were to be asked about the call of {tool.name!r} after it was executed; "
                "going on would execute it again",
                hint="ask before call_next, or in on_before_tool_call",
            )
        if asked:
            return Settled(None, seconds, asked=asked)
        if result is not None and item.edited is not None:
            result = replace(result, metadata={**result.metadata, EDITED: dict(item.call.args)})
        if result is not None and self.on_result is not None:
            self.on_result(item.call.id, result)
        return Settled(result, seconds, "executed" if ran else "skipped")

    async def _run(
        self,
        tool: LoopTool,
        call: ToolCall,
        context: ToolContext,
        send: Send,
    ) -> ToolResult:
        delegate = getattr(tool.run, "delegate", None)
        if delegate is not None:  # an agent: it has budgets, and as much time as it needs

            def forward(event: BaseEvent) -> None:
                send(Rewritten(event))  # in the agent's own loop

            parts = self.parts
            budget = tightest(parts.budget, Budget(tool_calls=parts.until.most_calls))
            job = Delegation(self.ctx, self.spending, budget, self.origin, self.taken, forward)
            return await delegate(call, job, tool.timeout)  # type: ignore[no-any-return]
        timeout = self.parts.tool_timeout if tool.timeout is None else tool.timeout
        return await execute(tool, call, context, timeout=timeout)

    def _as_result(
        self, call: ToolCall, error: BaseException, own: Sequence[BaseException]
    ) -> ToolResult:
        """Return what the model is told of a failed call, or raise what is no failure of a tool.

        ``own``: what the tool itself raised. A refusal ends the run, as a layer's failure does.
        """
        if isinstance(error, ToolError):
            return error_result(call.name, error)
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise error
            self.hooks.report(error, f"the tool {call.name!r} cancelled itself")
            return _refused(f"The tool {call.name!r} was cancelled.")
        if not isinstance(error, Exception) or isinstance(error, Reject):
            raise error
        if not any(error is each for each in own):
            raise error
        self.hooks.report(error, f"the tool {call.name!r} failed")
        return error_result(call.name, error)

    async def _commit(self, info: ToolCallInfo) -> AsyncIterator[BaseEvent]:
        await self.hooks.tool_settled(info)
        self.unanswered.pop(info.call.id, None)
        result = result_event(info.call.id, f"{info.call.id}-result", info.result)
        async with owned(self._rewritten(result)) as stream:
            async for event in stream:
                yield event

    async def invalid(self, items: Sequence[Pending]) -> AsyncIterator[BaseEvent]:
        """Commit the calls that could not be executed, before people are asked about the rest."""
        for item in items:
            if item.source == "invalid" and item.result is not None:
                async with owned(self._commit(_info(item, item.result))) as stream:
                    async for event in stream:
                        yield event

    def _rewritten(self, event: BaseEvent) -> AsyncIterator[BaseEvent]:
        """Pass an event of a tool through the layers inside the history cut."""
        return self.ctx.rewrite(only(event))


def _is_agent(tool: LoopTool) -> bool:
    return hasattr(tool.run, "delegate")


async def only(event: BaseEvent) -> AsyncIterator[BaseEvent]:
    """Return a stream of one event."""
    yield event


def open_calls(items: Sequence[Pending]) -> tuple[Pending, ...]:
    """Return the calls that can still be executed once people have answered."""
    return tuple(item for item in items if item.source != "invalid")


def _info(item: Pending, result: ToolResult) -> ToolCallInfo:
    return ToolCallInfo(item.call, False, result, 0.0, item.source, item.decided_by, item.reason)


def _refused(text: str) -> ToolResult:
    return ToolResult(text, text)


def _text(error: Exception) -> str:
    return error.message if isinstance(error, ToolError) else str(error)


def _failed(error: Exception) -> ToolResult:
    return _refused(_text(error))


def _limit_of_calls(parts: LoopParts, spending: Spending) -> str:
    budget = parts.budget
    most = parts.until.most_calls
    if most is not None and spending.tool_calls >= most:
        return f"max_tool_calls({most})"
    if budget is not None and budget.tool_calls is not None:
        return f"budget.tool_calls({budget.tool_calls})"
    return f"max_tool_calls({most})"
