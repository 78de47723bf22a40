"""What a contract finds, in short; and tests in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from interpose.testing import Contract


def failures(contract: Contract) -> dict[str, str]:
    """Return what each failed check says happened."""
    told = {}
    for result in contract.run().failures:
        told[result.name] = result.said.splitlines()[1].partition("happened: ")[2]
    return told


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in a loop of its own."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))  # type: ignore[arg-type]

    return run
