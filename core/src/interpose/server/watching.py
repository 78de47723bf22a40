"""What happens while nothing happens: heartbeats, and deadlines for a run, its silence, a write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from interpose.errors import RunDeadlineExceeded
from interpose.server.relay import Relay

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord
    from interpose.server.options import Options

HEARTBEAT: Final = ": heartbeat\n\n"
_SHORTEST: Final = 0.001


class Watch:
    """Looks after one response. ``started``: its headers are sent, so comments may be.

    ``patience`` is around the writes. It is not set to a time for each of them, which would cost
    more than most writes do; whoever watches lets it run out.
    """

    __slots__ = ("_options", "_record", "_relay", "patience", "started")

    def __init__(self, record: RunRecord, relay: Relay, options: Options) -> None:
        self._record = record
        self._relay = relay
        self._options = options
        self.patience = asyncio.timeout(None)
        self.started = False

    async def watch(self) -> None:
        """Go on until cancelled, or until nobody has read for too long."""
        clock, relay, options = self._record.clock, self._relay, self._options
        begun = now = clock.monotonic()
        commented = begun
        ended = False
        while True:
            if relay.behind:
                relay.said_at = now  # nobody has read what the run has said
            commented = max(commented, relay.taken_at)
            writing_since = relay.taken_at if relay.writing else now
            due = [commented + options.heartbeat, writing_since + options.write_deadline]
            if options.idle_deadline is not None and not ended:
                due.append(relay.said_at + options.idle_deadline)
            if options.run_deadline is not None and not ended:
                due.append(begun + options.run_deadline)
            await clock.sleep(max(min(due) - now, _SHORTEST))
            now = clock.monotonic()
            if relay.writing and now - relay.taken_at >= options.write_deadline:
                self.patience.reschedule(asyncio.get_running_loop().time())
                return
            ended = ended or self._expired(now - begun, now - relay.said_at)
            if now - max(commented, relay.taken_at) >= options.heartbeat:
                commented = now
                if self.started:
                    relay.comment(HEARTBEAT)

    def _expired(self, running: float, silent: float) -> bool:
        run, idle = self._options.run_deadline, self._options.idle_deadline
        if run is not None and running >= run:
            error = RunDeadlineExceeded(f"The run took longer than {run:g} s.")
        elif idle is not None and silent >= idle and not self._relay.behind:
            error = RunDeadlineExceeded(f"The run was silent for {idle:g} s.")
        else:
            return False
        self._record.fail(error)
        return True
