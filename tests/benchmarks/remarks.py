"""What people add to the figures: why a target is missed, or what the limit is where it is not.

By the keys of :mod:`benchmarks.targets`, a sentence or two each. A page says them below the table
of targets. A test wants one for each target that the kept record misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REMARKS: Final[Mapping[str, str]] = {}
