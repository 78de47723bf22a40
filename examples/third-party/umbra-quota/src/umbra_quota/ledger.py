"""Counting: which subject has used how much, in SQLite."""

import asyncio
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

_TABLE = """
CREATE TABLE IF NOT EXISTS used (
    subject TEXT PRIMARY KEY,
    units INTEGER NOT NULL,
    ends REAL NOT NULL  -- of the period that they were used in: seconds since the epoch
)
"""
_BUSY = 10.0  # seconds to wait for another process that is writing


@dataclass(frozen=True, slots=True)
class Granted:
    """What :meth:`Ledger.take` answers; a ``Grant``."""

    granted: bool
    remaining: int
    retry_after: float | None


class Ledger:
    """A :class:`~umbra_quota.Quota` in a file that processes can share, or in memory.

    Periods follow each other without a gap since the epoch, so that with a period of a day all
    begin at midnight UTC. ``now`` returns seconds since the epoch, ``period`` is in seconds.
    """

    def __init__(
        self, file: Path | None, *, limit: int, period: float, now: Callable[[], float]
    ) -> None:
        self._limit = limit
        self._period = period
        self._now = now
        # SQLite waits for disks and for other processes, so each call has a thread of its own.
        self._lock = Lock()
        self._database = sqlite3.connect(
            file or ":memory:", timeout=_BUSY, isolation_level=None, check_same_thread=False
        )
        try:
            self._database.execute(_TABLE)
        except sqlite3.Error:
            self._database.close()
            raise

    async def take(self, subject: str, units: int, /) -> Granted:
        """Take units of a subject's quota, if it has so many left."""
        if units < 1:
            raise ValueError(f"units are counted from 1, and {units} were wanted")
        return await asyncio.to_thread(self._take, subject, units)

    async def remaining(self, subject: str, /) -> int:
        """Return the units that a subject has left in this period."""
        return await asyncio.to_thread(self._remaining, subject)

    def close(self) -> None:
        """Close the database, after the calls that are under way."""
        with self._lock:
            self._database.close()

    def _take(self, subject: str, units: int) -> Granted:
        with self._transaction() as database:
            now = self._now()
            used, ends = self._used(subject, now)
            left = max(self._limit - used, 0)
            if units > self._limit:
                return Granted(granted=False, remaining=left, retry_after=None)
            if units > left:
                return Granted(granted=False, remaining=left, retry_after=ends - now)
            database.execute("DELETE FROM used WHERE ends <= ?", (now,))
            database.execute(
                "INSERT INTO used VALUES (?, ?, ?)"
                " ON CONFLICT (subject) DO UPDATE SET units = excluded.units",
                (subject, used + units, ends),
            )
            return Granted(granted=True, remaining=left - units, retry_after=0.0)

    def _remaining(self, subject: str) -> int:
        with self._transaction():
            used, _ = self._used(subject, self._now())
            return max(self._limit - used, 0)

    def _used(self, subject: str, now: float) -> tuple[int, float]:
        """Return the units that are used, and the end of the period that they count for."""
        found: tuple[int, float] | None = self._database.execute(
            "SELECT units, ends FROM used WHERE subject = ? AND ends > ?", (subject, now)
        ).fetchone()
        return found or (0, (now // self._period + 1) * self._period)

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Read and write as one: two runs, or two processes, never take the same units."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
