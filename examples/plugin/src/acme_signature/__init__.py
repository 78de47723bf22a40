"""Sign each message of the assistant."""

from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent

from interpose import Middleware, Result, RunContext, Settings, Stage, on


class SignatureSettings(Settings):
    text: str
    """What is added at the end of a message."""
    first_only: bool = False
    """Only at the end of a run's first message."""


class Signature(Middleware[SignatureSettings]):
    """Add a text at the end of each message, or of the run's first."""

    stage = Stage.SHAPE

    def setup(self, ctx: RunContext) -> None:
        self.signed = 0  # this run's own: each run has an instance of its own

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        self.signed += 1
        if self.settings.first_only and self.signed > 1:
            return event
        words = f" {self.settings.text}"
        signed = TextMessageContentEvent(
            message_id=event.message_id, subagent_run_id=event.subagent_run_id, delta=words
        )
        return [signed, event]
