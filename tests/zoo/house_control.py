"""The house of control flow: retries, fallbacks, footers, and what becomes of failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
)
from zoo import Bug, Twin

from interpose import (
    CallModel,
    CallRun,
    CallStep,
    CallTool,
    ErrorInfo,
    FinishInfo,
    Middleware,
    ModelRequest,
    Reject,
    RunContext,
    Settings,
    Stage,
    ToolCall,
    ToolResult,
    Transient,
)
from interpose.loop_errors import ModelFailed


# call-next ---------------------------------------------------------------------------------
class SourcesFooter(Middleware):
    """Say at the end which tools the answer stands on."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        used: list[str] = []
        async for event in call_next(run_input):
            name = getattr(event, "tool_call_name", None)
            if name:
                used.append(name)
            yield event
        if used:
            yield TextMessageStartEvent(message_id="sources", role="assistant")
            yield TextMessageContentEvent(message_id="sources", delta=", ".join(used))
            yield TextMessageEndEvent(message_id="sources")


class HopefulRetry(Middleware):
    """Try a failed model call a second time."""

    stage = Stage.CALL

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        failure: Exception | None = None
        for _ in range(2):
            try:
                async for event in call_next(request):
                    yield event
                return
            except ModelFailed as error:
                failure = failure or error
            except Exception as error:  # noqa: BLE001 - part of the mistake
                failure = failure or error
        if failure is not None:
            raise failure


class PatientRetry(Middleware):
    """Wait for a busy agent, as long as it takes."""

    stage = Stage.CALL
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        pause = 1.0
        while True:
            seen = 0
            try:
                async for event in call_next(run_input):
                    seen += 1
                    yield event
                return
            except Transient as error:
                if seen > 1:
                    raise
                await ctx.sleep(error.retry_after or pause)
                pause = min(pause * 2, 30.0)


class OneMessagePerStep(Middleware):
    """Keep a chatty model to one message an iteration."""

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(request):
            yield event
            if isinstance(event, TextMessageEndEvent):
                break


# control-flow ------------------------------------------------------------------------------
class CalmTools(Middleware):
    """Let the model hear of whatever goes wrong with a tool, so that it can go on."""

    stage = Stage.CALL

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        try:
            return await call_next(call)
        except Exception as error:  # noqa: BLE001 - the mistake: a refusal is no failure of a tool
            ctx.log.warning("{} failed: {}", call.name, type(error).__name__)
            said = f"The tool {call.name} is not available now."
            return ToolResult(said, error=said)


class StubbornStep(Middleware):
    """Do an iteration again when something goes wrong in it."""

    stage = Stage.CALL
    may_repeat = True

    async def around_step(self, ctx: RunContext, call_next: CallStep) -> AsyncIterator[BaseEvent]:
        for last in (False, True):
            held: list[BaseEvent] = []
            try:
                async for event in call_next():
                    held.append(event)  # noqa: PERF401 - a failure comes in between
            except GeneratorExit:
                raise
            except BaseException:
                if last:
                    raise
                continue
            for event in held:
                yield event
            return


class PlainOutcome(Middleware):
    """Send the ending without what older clients do not know."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> BaseEvent:
        if isinstance(event, RunFinishedEvent):
            return event.model_copy(update={"outcome": None})
        return event


# exceptions --------------------------------------------------------------------------------
class Apologies(Middleware):
    """Tell the user what went wrong, in place of an error page."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Reject:
            raise
        except Exception as error:
            raise Reject("failed", f"Sorry, this did not work: {error}", status=500) from error


class Cleanup(Middleware):
    """Give a lease back after each model call."""

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(request):
                yield event
        finally:
            ctx.attributes["leases"] = ctx.attributes.get("leases", 0) + 1
            return  # noqa: B012 - the mistake


class ToolFallback(Middleware):
    """Answer in place of a tool that is down."""

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        try:
            return await call_next(call)
        except Reject:
            raise
        except Exception:  # noqa: BLE001
            return ToolResult(f"{call.name} has no result at the moment.")


# unusual-payloads --------------------------------------------------------------------------
class Costs(Middleware[Any, Any]):
    """Add up what the model calls of a run cost."""

    stage = Stage.OBSERVE
    price = 0.000_002

    def setup(self, ctx: RunContext) -> None:
        self.cost = 0.0

    def on_usage(self, ctx: RunContext, usage: TokenUsage) -> None:
        self.cost += usage.total_tokens * self.price  # type: ignore[operator]

    def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
        ctx.log.info("the run cost {}", self.cost)


class ErrorCodes(Middleware):
    """Log the provider's code of each failure."""

    stage = Stage.OBSERVE

    def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
        ctx.log.error("code {}", info.error.agent_code)  # type: ignore[attr-defined]


BUGS = (
    Bug(
        cls=SourcesFooter,
        check="call-next",
        mistake="what it yields after the loop comes after RUN_FINISHED, and is dropped",
        reported="CopilotKit#5812 (a closing part appended after the terminal event)",
    ),
    Bug(
        cls=HopefulRetry,
        check="call-next",
        mistake="it repeats without saying may_repeat, and swallows that this is refused",
        reported="fastmcp#3855, #4126 (a retry that sees wrapped or swallowed exceptions)",
    ),
    Bug(
        cls=PatientRetry,
        check="call-next",
        mistake="it repeats for ever",
        reported="agents-flex (failures count as transient unless listed, with no bound)",
    ),
    Bug(
        cls=OneMessagePerStep,
        check="call-next",
        mistake="it leaves the model's stream, and tool calls and usage are lost",
        reported="deepagentsjs#150 (an order of layers that loses part of an answer)",
    ),
    Bug(
        cls=CalmTools,
        check="control-flow",
        mistake="a layer's refusal becomes an error of a tool, and the run goes on",
        reported="agent-framework#7522 (a failure of a layer became a tool error)",
    ),
    Bug(
        cls=StubbornStep,
        check="control-flow",
        mistake="it catches what ends the run, and runs the step again",
        reported="langchain PR #38722 (a retry that swallowed interrupts)",
    ),
    Bug(
        cls=PlainOutcome,
        check="control-flow",
        mistake="it makes the ending anew, and the outcome is lost: a pause looks like a success",
        reported="ag-ui#2327, #2417 (a cancelled run that cannot be told from a success)",
    ),
    Bug(
        cls=Apologies,
        check="exceptions",
        mistake="the text of any exception is shown to the consumer",
        reported="fastmcp#3855 (exceptions of the inside reach the outside)",
    ),
    Bug(
        cls=Cleanup,
        check="exceptions",
        mistake="return in finally swallows the failure, and the answer counts as whole",
        reported="agno#9486 (a failed stream that ends as a success)",
    ),
    Bug(
        cls=ToolFallback,
        check="exceptions",
        mistake="the result in place of a failed call does not say that it failed",
        reported="agent-framework#7522 (a failure turned into an ordinary result)",
    ),
    Bug(
        cls=Costs,
        check="unusual-payloads",
        mistake="usage need not have numbers",
        reported="CopilotKit#3552 (an optional field that is None ends the stream)",
    ),
    Bug(
        cls=ErrorCodes,
        check="unusual-payloads",
        mistake="only the exception of an agent's RUN_ERROR has a code of the agent",
        reported="CopilotKit#3552 (an optional field that is None ends the stream)",
    ),
)


# Twins -------------------------------------------------------------------------------------
# Twins -------------------------------------------------------------------------------------
class RunRetrySettings(Settings):
    attempts: int = 3
    """How often a run is tried."""


class RunRetry(Middleware[RunRetrySettings]):
    """Repeat a run that failed in a way that may pass, before anything of it was seen."""

    stage = Stage.CALL
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        for attempt in range(1, self.settings.attempts + 1):
            seen = 0
            try:
                async for event in call_next(run_input):
                    seen += event.type.value != "RUN_STARTED"
                    yield event
                return
            except Transient as error:
                if seen or attempt == self.settings.attempts:
                    raise
                await ctx.sleep(error.retry_after or 2**attempt)


class FallbackSettings(Settings):
    backup: str = "backup"
    """The model that is asked then, a key of [models]."""


class ModelFallback(Middleware[FallbackSettings]):
    """Ask another model when the first one is not there."""

    stage = Stage.CALL
    may_repeat = True

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        seen = False
        try:
            async for event in call_next(request):
                seen = True
                yield event
            return
        except Transient:
            if seen:
                raise
        async for event in call_next(request.replace(model=self.settings.backup)):
            yield event


class FriendlyEnding(Middleware):
    """End a failed run with a sentence; who refuses a run is heard."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Reject:
            raise
        except Exception as error:  # noqa: BLE001 - that is its job
            ctx.log.warning("the run failed: {}", type(error).__name__)
            yield TextMessageStartEvent(message_id="sorry", role="assistant")
            yield TextMessageContentEvent(message_id="sorry", delta="Please try again later.")
            yield TextMessageEndEvent(message_id="sorry")
            yield RunFinishedEvent(thread_id=ctx.thread_id, run_id=ctx.run_id)


TWINS = (
    Twin(cls=RunRetry, does="repeats a run before anything of it was seen"),
    Twin(cls=ModelFallback, does="asks another model"),
    Twin(
        cls=FriendlyEnding,
        does="ends a failed run with a sentence",
        excuse={"exceptions": "a failed run ends as a success on purpose"},
    ),
)
