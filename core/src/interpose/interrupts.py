"""Pausing a run for people: typed questions, and their answers in the run that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, overload

from ag_ui.core import Interrupt
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypeVar

from interpose.errors import UsageError

P = TypeVar("P", bound=BaseModel, default=BaseModel)
R = TypeVar("R", default=Any)

PAYLOAD = "interpose:payload"
"""Where ``Interrupt.metadata`` has what the question is about."""


class InterruptDefinition(Generic[P, R]):
    """A kind of question: what it is about (``payload``), and what its answer must be.

    ::

        REFUND = InterruptDefinition("refund", payload=Refund, response=Verdict)

        def on_interrupt_boundary(self, ctx):
            ctx.interrupt(REFUND.interrupt("order-7", "Refund 25 EUR?", Refund(amount=25)))

        def on_interrupt_resolution(self, ctx, resolutions):
            verdict = resolutions.get(REFUND, "order-7")

    ``response`` is anything that pydantic can validate. A wrong answer is refused before the run
    goes on.
    """

    def __init__(
        self, reason: str, *, payload: type[P] | None = None, response: type[R] | None = None
    ) -> None:
        if not reason:
            raise UsageError("an interrupt definition needs a reason", hint='as in "refund"')
        self.reason = reason
        self.payload = payload
        self._adapter: TypeAdapter[R] | None = None if response is None else TypeAdapter(response)

    def interrupt(
        self,
        key: str,
        message: str,
        payload: P | None = None,
        *,
        expires_at: datetime | None = None,
    ) -> Interrupt:
        """Return the question. ``key`` tells it from others of its kind in the same run."""
        if not key:
            raise UsageError(f"an interrupt of kind {self.reason!r} has no key")
        if self.payload is not None and not isinstance(payload, self.payload):
            raise UsageError(
                f"an interrupt of kind {self.reason!r} needs a {self.payload.__name__}",
                hint=f"it was given a {type(payload).__name__}",
            )
        if expires_at is not None and expires_at.tzinfo is None:
            raise UsageError("expires_at has no time zone", hint="datetime.now(timezone.utc) + …")
        metadata = None if payload is None else {PAYLOAD: payload.model_dump(mode="json")}
        schema = None if self._adapter is None else self._adapter.json_schema()
        return Interrupt(
            id=f"{self.reason}:{key}",
            reason=self.reason,
            message=message,
            response_schema=schema,
            expires_at=None if expires_at is None else expires_at.isoformat(),
            metadata=metadata,
        )

    def read(self, value: object) -> R:
        """Return an answer as its type. Raises :class:`pydantic.ValidationError`."""
        return value if self._adapter is None else self._adapter.validate_python(value)  # type: ignore[return-value]

    def id(self, key: str) -> str:
        """Return the id of the question with this key."""
        return f"{self.reason}:{key}"


@dataclass(frozen=True, slots=True)
class Resolution:
    """One answered question. ``payload``: the answer; None for a cancelled one."""

    interrupt: Interrupt
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class Resolutions(Sequence[Resolution]):
    """The answers that a run goes on with, in the order of their questions."""

    def __init__(self, items: Sequence[Resolution] = ()) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, index: int) -> Resolution: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Resolution]: ...
    def __getitem__(self, index: int | slice) -> Resolution | Sequence[Resolution]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def get(self, definition: InterruptDefinition[Any, R], key: str) -> R | None:
        """Return the answer to this question; None when it was cancelled, or not asked."""
        for item in self._items:
            if item.interrupt.id == definition.id(key) and item.status == "resolved":
                return definition.read(item.payload)
        return None

    def of(self, definition: InterruptDefinition[Any, R]) -> Iterator[tuple[Resolution, R | None]]:
        """Yield each answered question of this kind with its answer; None for a cancelled one."""
        for item in self._items:
            if item.interrupt.reason == definition.reason:
                done = item.status == "resolved"
                yield item, definition.read(item.payload) if done else None
