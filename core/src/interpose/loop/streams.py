"""Streams that a stream plays: closed with it, at once and in order.

An async generator that is only iterated over stays open when the one around it is closed; it would
be finished by the garbage collector, in a task that nobody waits for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class owned(Generic[T]):  # noqa: N801 - used as contextlib.aclosing is
    """Close a stream at the end of the block; one that cannot be closed is left as it is."""

    __slots__ = ("_stream",)

    def __init__(self, stream: AsyncIterator[T]) -> None:
        self._stream = stream

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._stream

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        aclose = getattr(self._stream, "aclose", None)
        if aclose is not None:
            await aclose()
