"""The application's own middleware."""

from dataclasses import replace

from interpose import CallTool, Middleware, RunContext, Settings, Stage, ToolCall, ToolResult


class ShortenSettings(Settings):
    length: int


class Shorten(Middleware[ShortenSettings]):
    """Cut the results of tools before the model reads them."""

    stage = Stage.CALL

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        result = await call_next(call)
        return replace(result, content=result.content[: self.settings.length])
