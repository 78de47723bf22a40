"""Capabilities: typed, named values that one part provides and others require."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from interpose.errors import UsageError

T = TypeVar("T")
Scope = Literal["host", "run"]

_ID = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_NAME = re.compile(rf"(?:{_ID}/)?{_ID}\Z")


class Capability(Generic[T]):
    """The name under which a value is provided and required.

    Two declarations are the same capability when name and major ``version`` agree, so two
    distributions can agree without importing each other. ``T`` is what a reader gets; when it is
    a Protocol, ``provide`` checks that the value has its members.

    * ``name``: ``"distribution/name"``. A name without ``/`` belongs to Interpose, or to the
      application itself.
    * ``scope``: ``"host"`` values are made once, in a lifespan; ``"run"`` values once per run, in
      ``setup``.
    * ``single``: no more than one part may provide it.
    * ``ordered``: its provider must be further out than those that require it.

    Example: ``STORE = Capability[KeyValue]("acme-store/key-value", version=1)``
    """

    def __init__(
        self,
        name: str,
        *,
        version: int = 1,
        scope: Scope = "host",
        single: bool = True,
        ordered: bool = False,
    ) -> None:
        if not _NAME.match(name):
            raise UsageError(
                f"{name!r} is not a capability's name",
                hint='use "distribution/name", lower case with hyphens: "acme-store/key-value"',
            )
        if scope not in ("host", "run"):
            raise UsageError(f"capability {name!r} has scope {scope!r}", hint='use "host" or "run"')
        self.name: Final = name
        self.version: Final = version
        self.scope: Final[Scope] = scope
        self.single: Final = single
        self.ordered: Final = ordered

    @property
    def value_type(self) -> Any:
        """``T`` of ``Capability[T](...)``; None where it was not written down."""
        args = getattr(getattr(self, "__orig_class__", None), "__args__", (None,))
        return None if isinstance(args[0], TypeVar) else args[0]

    def missing_members(self, value: object) -> tuple[str, ...]:
        """Return the members of ``T`` that ``value`` lacks; empty when ``T`` is no Protocol."""
        from typing_extensions import get_protocol_members, is_protocol

        kind = self.value_type
        if kind is None or not isinstance(kind, type) or not is_protocol(kind):
            return ()
        return tuple(sorted(m for m in get_protocol_members(kind) if not hasattr(value, m)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Capability):
            return NotImplemented
        return (self.name, self.version) == (other.name, other.version)

    def __hash__(self) -> int:
        return hash((self.name, self.version))

    def __repr__(self) -> str:
        return f"Capability({self.name!r}, version={self.version}, scope={self.scope!r})"


class Principal(Protocol):
    """Who the run is for; the application gives it: ``host.run(…, provide={PRINCIPAL: user})``."""

    @property
    def subject(self) -> str:
        """The identity's stable id."""

    @property
    def tenant(self) -> str | None:
        """The customer or organisation that the subject acts for."""

    @property
    def roles(self) -> frozenset[str]:
        """The roles that the application gave it."""

    @property
    def claims(self) -> Mapping[str, Any]:
        """Further verified statements about it, as from a token."""


class Credentials(Protocol):
    """What to present to a service on behalf of the run's principal. Never put it in metadata."""

    @property
    def scheme(self) -> str:
        """The HTTP authentication scheme, as ``"Bearer"``."""

    @property
    def token(self) -> str:
        """The secret itself."""


PRINCIPAL: Final = Capability[Principal]("principal", scope="run")
"""Who the run is for."""
CREDENTIALS: Final = Capability[Credentials]("credentials", scope="run")
"""What the run may show to others in the user's name."""
