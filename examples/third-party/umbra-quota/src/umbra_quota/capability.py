"""The capability ``umbra-quota/quota``: what a plugin that requires it may rely on.

Who requires it need not import this: a ``Capability`` of the same name and version, with a Protocol
of the members that are used, is the same capability.
"""

from typing import Protocol

from interpose import Capability


class Grant(Protocol):
    """The answer to somebody who wanted units."""

    @property
    def granted(self) -> bool:
        """Whether the units were given. All of them, or none."""
        ...

    @property
    def remaining(self) -> int:
        """The units that the subject has left in this period."""
        ...

    @property
    def retry_after(self) -> float | None:
        """Seconds until it may be granted; 0 if it was. None: never, it is more than the limit."""
        ...


class Quota(Protocol):
    """A number of units for each subject and period. Safe to use from many runs at once."""

    async def take(self, subject: str, units: int, /) -> Grant:
        """Take units of a subject's quota, if it has so many left."""
        ...

    async def remaining(self, subject: str, /) -> int:
        """Return the units that a subject has left in this period."""
        ...


QUOTA = Capability[Quota]("umbra-quota/quota", version=1)
