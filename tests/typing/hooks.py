"""Every kind of hook, sync and async, with the author's own names of parameters."""

from collections.abc import AsyncIterator

from ag_ui.core import BaseEvent, Message, RunAgentInput, TextMessageContentEvent

from interpose import (
    AbortInfo,
    CallModel,
    CallRun,
    CallStep,
    CallTool,
    Deny,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    Middleware,
    ModelConfig,
    ModelRequest,
    Reject,
    Returned,
    RunContext,
    Skip,
    ToolCall,
    ToolResult,
    on,
)


class Everything(Middleware):
    seen: int

    async def setup(self, ctx: RunContext) -> None:
        self.seen = 0
        if ctx.thread_id == "blocked":
            raise Reject("blocked", "This conversation is closed.", status=403)

    def on_input(self, ctx: RunContext, given: RunAgentInput) -> RunAgentInput | None:
        return given.model_copy(update={"state": {}}) if given.state is None else None

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event

    @on(TextMessageContentEvent)
    async def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Returned:
        self.seen += len(event.delta)
        return [event, event.model_copy(update={"delta": "!"})]

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Returned:
        return None

    async def on_message(self, ctx: RunContext, message: Message) -> None:
        ctx.log.debug("{}", message.role)

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        return ModelConfig(model="small")

    async def around_step(self, ctx: RunContext, call_next: CallStep) -> AsyncIterator[BaseEvent]:
        async for event in call_next():
            yield event

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(request.replace(model="small")):
            yield event

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Deny | Skip | None:
        return Deny("not today") if call.name == "delete_rows" else None

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        return await call_next(call)

    async def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
        ctx.log.info("{} {}", info.outcome, info.duration)

    def on_abort(self, ctx: RunContext, info: AbortInfo) -> None: ...

    def on_error(self, ctx: RunContext, info: ErrorInfo) -> None: ...

    def on_end(self, ctx: RunContext, end: EndInfo) -> None: ...
