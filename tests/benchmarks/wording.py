"""How a figure is written, for a terminal and for a page."""

from __future__ import annotations

import math

from .measuring import Ratio
from .targets import Target

_DIGITS = 3


def number(value: float) -> str:
    """Write three significant digits, and all that stand before the point: 0.0123, 1.05, 12,300."""
    if not math.isfinite(value):
        return str(value)
    size = math.floor(math.log10(abs(value))) if value else 0
    decimals = max(0, _DIGITS - 1 - size)
    return f"{value:,.{decimals}f}"


def quartiles(ratio: Ratio) -> str:
    """Write the median and, in parentheses, the quartiles."""
    return f"{number(ratio.median)} ({number(ratio.low)} to {number(ratio.high)})"


def verdict(target: Target, found: Ratio) -> str:
    """Say whether a target is met, and by how much it is missed."""
    if target.is_met(found):
        return "met"
    return f"MISSED by {abs(found.median - target.limit) / target.limit:.0%}"
