"""How the events of a run are shown: as the assistant's text, or one event a line."""

from __future__ import annotations

import sys

from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose.agui.encoding import to_json
from interpose.cli.terminal import visible
from interpose.runtime.run import RunResult
from interpose.runtime.tracing import Trace


class JsonLines:
    """Writes each event in wire form, one a line. ``error``: the RUN_ERROR, if one came."""

    def __init__(self) -> None:
        self.error: RunErrorEvent | None = None

    def __call__(self, event: BaseEvent) -> None:
        """Write one event."""
        if isinstance(event, RunErrorEvent):
            self.error = event
        print(to_json(event), flush=True)

    def end(self, result: RunResult) -> None:
        """Do nothing: every event has been written."""


class Text:
    """Writes what the assistant says, as it comes; each message ends with a newline."""

    def __init__(self) -> None:
        self.error: RunErrorEvent | None = None
        self._terminal = sys.stdout.isatty()
        self._spoken: set[str] = set()
        self._open = ""
        """The message whose line is not ended yet."""

    def __call__(self, event: BaseEvent) -> None:
        """Write what one event adds to the text."""
        match event:
            case TextMessageStartEvent(role="assistant"):
                self._spoken.add(event.message_id)
            case TextMessageContentEvent() if event.message_id in self._spoken:
                self._write(event.message_id, event.delta)
            case TextMessageEndEvent() if event.message_id == self._open:
                self._end_line()
            case RunErrorEvent():
                self.error = event
            case _:
                pass

    def end(self, result: RunResult) -> None:
        """Write the answer of an agent that streamed none, but sent it whole in a snapshot."""
        self._end_line()
        if not self._spoken and result.text:
            self._write("snapshot", result.text)
            self._end_line()

    def _write(self, message: str, text: str) -> None:
        if self._open != message:
            self._end_line()
        self._open = message
        print(visible(text) if self._terminal else text, end="", flush=True)

    def _end_line(self) -> None:
        if self._open:
            print(flush=True)
        self._open = ""


def trace_text(trace: Trace) -> str:
    """Write a trace as a table: a line per layer, outermost first."""
    head = ("layer", "in", "out", "dropped", "held", "ms")
    rows = [
        (row.layer, *map(str, (row.received, row.sent, row.dropped, row.held)), _ms(row.seconds))
        for row in trace.layers.values()
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    )


def _ms(seconds: float) -> str:
    return f"{max(seconds, 0.0) * 1000:.1f}"
