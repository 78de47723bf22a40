"""How responses are streamed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What is the same for all responses of an application. Times in seconds.

    ``heartbeat``: silence after which a comment keeps the connection alive. ``run_deadline`` and
    ``idle_deadline``: how long a run may take, and be silent; None: any time. ``write_deadline``:
    how long one write may take before the client counts as gone. ``buffer``: the
    characters that are kept for a slow reader.
    """

    heartbeat: float = 15.0
    run_deadline: float | None = None
    idle_deadline: float | None = 300.0
    write_deadline: float = 60.0
    buffer: int = 16_384
