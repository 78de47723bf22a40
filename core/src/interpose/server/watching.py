"""What happens while nothing happens: heartbeats, and deadlines for a run and for its silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interpose.errors import RunDeadlineExceeded
from interpose.server.relay import Relay

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord
    from interpose.server.options import Options

HEARTBEAT: Final = b": heartbeat\n\n"
_SHORTEST: Final = 0.001


class Watch:
    """Looks after one response. ``started``: its headers are sent, so comments may be."""

    __slots__ = ("_options", "_record", "_relay", "started")

    def __init__(self, record: RunRecord, relay: Relay, options: Options) -> None:
        self._record = record
        self._relay = relay
        self._options = options
        self.started = False

    async def watch(self) -> None:
        """Go on until cancelled, or until a deadline has ended the run."""
        clock, relay, options = self._record.clock, self._relay, self._options
        begun = now = clock.monotonic()
        commented = begun
        while True:
            if not relay.room.is_set():
                relay.pushed_at = now  # the run waits for its reader, it is not silent
            commented = max(commented, relay.taken_at)
            due = [commented + options.heartbeat]
            if options.idle_deadline is not None:
                due.append(relay.pushed_at + options.idle_deadline)
            if options.run_deadline is not None:
                due.append(begun + options.run_deadline)
            await clock.sleep(max(min(due) - now, _SHORTEST))
            now = clock.monotonic()
            if self._expired(now - begun, now - relay.pushed_at):
                return
            if now - max(commented, relay.taken_at) >= options.heartbeat:
                commented = now
                if self.started:
                    relay.comment(HEARTBEAT)

    def _expired(self, running: float, silent: float) -> bool:
        run, idle = self._options.run_deadline, self._options.idle_deadline
        if run is not None and running >= run:
            error = RunDeadlineExceeded(f"The run took longer than {run:g} s.")
        elif idle is not None and silent >= idle and self._relay.room.is_set():
            error = RunDeadlineExceeded(f"The run was silent for {idle:g} s.")
        else:
            return False
        self._record.fail(error)
        return True
