"""The runs of a host that are under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from interpose.errors import Reject, UsageError

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord


class OpenRuns:
    """Counts the runs of one entered host. ``most``: how many there may be; None: any number."""

    __slots__ = ("_claimed", "_most", "_runs", "_stopped")

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._runs: set[RunRecord] = set()
        self._claimed: set[str] = set()
        self._stopped = False

    def claim(self, run_id: str) -> None:
        """Take a run id for a run that is served. Raises :class:`Reject` (409) when it is taken."""
        if run_id in self._claimed:
            raise Reject("run-open", "A run with this runId is open already.", status=409)
        self._claimed.add(run_id)

    def release(self, run_id: str) -> None:
        """Let the id be claimed again."""
        self._claimed.discard(run_id)

    def add(self, run: RunRecord) -> None:
        """Count a run that begins. Raises :class:`Reject` (503) when the host is full."""
        if self._most is not None and len(self._runs) >= self._most:
            raise Reject("busy", "Too many runs at once; try again.", status=503, retry_after=1)
        self._runs.add(run)

    def discard(self, run: RunRecord) -> None:
        """No longer count a run."""
        self._runs.discard(run)

    def check(self) -> None:
        """Raise :class:`UsageError` when the host has been left."""
        if self._stopped:
            raise UsageError(
                "the host of this run has been left",
                hint="iterate over the run, or await it, inside `async with host:`",
            )

    def stop(self) -> None:
        """Let no further run begin."""
        self._stopped = True

    def __iter__(self) -> Iterator[RunRecord]:
        return iter(tuple(self._runs))

    def __len__(self) -> int:
        return len(self._runs)
