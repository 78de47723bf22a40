"""The middleware: a line when a run starts, one for each event, one when it has ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ag_ui.core import BaseEvent, TokenUsage

from interpose import EndInfo, LifespanContext, Middleware, RunContext, Stage
from interpose_logging.lines import as_json, as_text, stamped
from interpose_logging.logfile import LogFile
from interpose_logging.record import Record, of_end, of_event, of_run, of_start, outcome
from interpose_logging.settings import LoggingSettings
from interpose_logging.tally import Tally

if TYPE_CHECKING:
    from loguru import Logger


class Logging(Middleware[LoggingSettings, LogFile | None]):
    """Log each run: a line at its start, a line at every end, and at DEBUG a line per event.

    The lines say which run, which events, how it ended and how long it took; what was said is
    never in them unless ``content`` asks for it.
    """

    stage = Stage.OBSERVE
    observes_only = True

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: LoggingSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[LogFile | None]:
        """Hold the file open, if there is one."""
        if settings.file is None:
            yield None
            return
        with LogFile.opened(settings.file, ctx.layer_id) as file:
            yield file

    def setup(self, ctx: RunContext, /) -> None:
        """Write the start line.

        In ``setup``, because from here on the host promises exactly one end, whatever happens.
        """
        self.tally = Tally()
        self.about_run = of_run(ctx)
        # Lazy: the argument of a line is only computed if some handler takes its level.
        self.log: Logger = ctx.log.opt(lazy=True)
        content = self.settings.content
        self._write(ctx, "run-started", self.settings.level, lambda: of_start(ctx, content=content))

    def on_event(self, ctx: RunContext, event: BaseEvent, /) -> None:
        """Count the event, and write its line."""
        index = self.tally.events
        self.tally.add_event(event)
        if self.settings.events:
            content = self.settings.content
            self._write(ctx, "event", "DEBUG", lambda: of_event(event, index, content=content))

    def on_usage(self, ctx: RunContext, usage: TokenUsage, /) -> None:  # noqa: ARG002 - a hook
        """Add up the tokens."""
        self.tally.add_usage(usage)

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        """Write the end line."""
        failed = outcome(end.info) == "error"
        level = self.settings.failure_level if failed else self.settings.level
        content = self.settings.content
        self._write(ctx, "run-ended", level, lambda: of_end(end, self.tally, content=content))

    def _write(self, ctx: RunContext, kind: str, level: str, facts: Callable[[], Record]) -> None:
        def line() -> str:
            record = {**self.about_run, **facts()}
            if self.settings.format == "json":
                return as_json(kind, level, ctx.clock.time(), record)
            return as_text(kind, record)

        if self.shared is None:
            self.log.log(level, "{}", line)
        elif self.settings.format == "json":
            self.shared.write(line())
        else:
            self.shared.write(stamped(level, ctx.clock.time(), line()))
