"""The example of the authoring guide: a middleware with settings and two event hooks."""

from ag_ui.core import (
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose import DROP, Middleware, Result, RunContext, Settings, Stage, on


class FilterSettings(Settings):
    allow: frozenset[str] | None = None
    deny: frozenset[str] | None = None


class ToolFilter(Middleware[FilterSettings]):
    """Hide tool calls from the consumer. Not a security control."""

    stage = Stage.SHAPE

    def setup(self, ctx: RunContext) -> None:
        self.hidden: set[str] = set()

    @on(ToolCallStartEvent)
    def start(self, ctx: RunContext, event: ToolCallStartEvent) -> Result:
        if event.tool_call_name not in (self.settings.deny or ()):
            return event
        self.hidden.add(event.tool_call_id)
        return DROP

    @on(ToolCallArgsEvent, ToolCallEndEvent, ToolCallResultEvent)
    def rest(
        self, ctx: RunContext, event: ToolCallArgsEvent | ToolCallEndEvent | ToolCallResultEvent
    ) -> Result:
        return DROP if event.tool_call_id in self.hidden else event
