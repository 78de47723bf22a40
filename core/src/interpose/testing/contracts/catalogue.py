"""All checks of a middleware's contract, in the order in which they are run."""

from __future__ import annotations

from typing import Final

from interpose.testing.contracts import stream_rules
from interpose.testing.contracts.rule import Rule

RULES: Final[tuple[Rule, ...]] = (*stream_rules.RULES,)
