"""Which tools are hidden."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from interpose import Settings


class ToolFilterSettings(Settings):
    """Exactly one of ``allow`` and ``deny``: names of tools, exact and case-sensitive.

    An empty list counts as given: ``allow = []`` hides every call, ``deny = []`` hides none.
    """

    allow: frozenset[str] | None = None
    """Only calls of these tools are shown."""
    deny: frozenset[str] | None = None
    """Calls of these tools are hidden."""
    drop_raw: bool = False
    """Drop RAW events, and the ``rawEvent`` of all others: either may repeat a hidden call."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.allow is None) == (self.deny is None):
            given = "neither is" if self.allow is None else "both are"
            raise ValueError(
                f"give exactly one of `allow` and `deny`; {given} given "
                "(an empty list counts as given)"
            )
        return self

    def hides(self, name: str | None) -> bool:
        """Tell whether calls of the tool ``name`` are hidden.

        None stands for a call whose tool was never told: ``allow`` hides it, because it lists all
        that may be seen; ``deny`` shows it.
        """
        if self.allow is not None:
            return name not in self.allow
        return self.deny is not None and name in self.deny
