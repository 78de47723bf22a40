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

    It is to be opened, and closed, which can be done at any time and from any thread: a start that
    is cancelled closes it while another thread still opens it.
    """

    def __init__(
        self, file: Path | None, *, limit: int, period: float, now: Callable[[], float]
    ) -> None:
        self._limit = limit
        self._period = period
        self._now = now
        # SQLite waits for disks and for other processes, so each call has a thread of its own.
        self._lock = Lock()
        self._file = file or ":memory:"
        self._database: sqlite3.Connection | None = None
        self._closed = False

    def open(self) -> None:
        """Open the database, and make its table where there is none."""
        with self._lock:
            if self._closed:
                return
            self._database = sqlite3.connect(
                self._file, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            self._database.execute(_TABLE)

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
            self._closed = True
            if self._database is not None:
                self._database.close()
                self._database = None

    def _take(self, subject: str, units: int) -> Granted:
        with self._transaction() as database:
            now = self._now()
            used, ends = self._used(database, subject, now)
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
        with self._transaction() as database:
            used, _ = self._used(database, subject, self._now())
            return max(self._limit - used, 0)

    def _used(self, database: sqlite3.Connection, subject: str, now: float) -> tuple[int, float]:
        """Return the units that are used, and the end of the period that they count for."""
        found: tuple[int, float] | None = database.execute(
            "SELECT units, ends FROM used WHERE subject = ? AND ends > ?", (subject, now)
        ).fetchone()
        return found or (0, (now // self._period + 1) * self._period)

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Read and write as one: two runs, or two processes, never take the same units."""
        with self._lock:
            database = self._database
            if database is None:
                raise RuntimeError("the ledger is not open: the host that opens it has stopped")
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
