"""Mistakes that the type checkers have to see: each line marked `# refused` is an error."""

from ag_ui.core import BaseEvent, TextMessageContentEvent, ToolCallStartEvent

from interpose import PRINCIPAL, Capability, Layer, Middleware, Result, RunContext, Settings, on

NUMBER = Capability[int]("acme/number", scope="run")


class Limits(Settings):
    per_minute: int


class Wrong(Middleware[Limits]):
    @on(TextMessageContentEvent)  # refused
    def start(self, ctx: RunContext, event: ToolCallStartEvent) -> Result:
        return event

    @on(ToolCallStartEvent)  # refused
    def rest(self, ctx: RunContext, event: ToolCallStartEvent) -> str:
        return event.tool_call_id

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        ctx.provide(NUMBER, "one")  # refused
        self.settings.per_hour  # refused
        subject: int = ctx[PRINCIPAL].subject  # refused
        return [event][:subject]


LAYER = Layer(Wrong, Settings())  # refused
