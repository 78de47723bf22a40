"""Streams of events, bounded and watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Final, Self, cast

import httpx2

EVENTS: Final = "text/event-stream"
_BLANK_LINES: Final = (b"\n\n", b"\r\r", b"\r\n\r\n")


def kind_of(response: httpx2.Response) -> str:
    """Return the media type of a response."""
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


class Events(httpx2.AsyncByteStream):
    """The body of a response that is a stream of events, none larger than ``most`` bytes.

    ``ended`` is called once, when it is over, with what went wrong. ``silence_ends_it``: a stream
    on which nothing comes any more ends in good order, so that it is asked for again.
    """

    def __init__(
        self,
        response: httpx2.Response,
        most: int,
        first: Endpoint | None = None,
        *,
        ended: Callable[[BaseException | None], None],
        silence_ends_it: bool = False,
    ) -> None:
        self._response = response
        self._stream = cast("httpx2.AsyncByteStream", response.stream)
        self._most = most
        self._first = first
        self._told_end: Callable[[BaseException | None], None] | None = ended
        self._silence_ends_it = silence_ends_it

    async def __aiter__(self) -> AsyncIterator[bytes]:
        open_event = b""
        size = 0
        try:
            async for chunk in self._stream:
                if self._first is not None:
                    self._first.feed(chunk)
                open_event, size = _open(open_event + chunk, size + len(chunk))
                if size > self._most:
                    raise httpx2.ReadError(f"an event is larger than {self._most} bytes")
                yield chunk
        except httpx2.ReadTimeout as error:
            if not self._silence_ends_it:
                self._end(error)
                raise
        except Exception as error:
            self._end(error)
            raise

    async def aclose(self) -> None:
        """Close it."""
        self._end(None)
        await self._stream.aclose()

    def _end(self, error: BaseException | None) -> None:
        tell, self._told_end = self._told_end, None
        if tell is not None:
            tell(error)


def _open(tail: bytes, size: int) -> tuple[bytes, int]:
    """Return the last bytes of a stream, and how many belong to the event that is not complete."""
    ends = [tail.rfind(blank) + len(blank) for blank in _BLANK_LINES if blank in tail]
    if ends:
        size = len(tail) - max(ends)
        tail = tail[max(ends) :]
    return tail[-3:], size


class Endpoint:
    """Finds the endpoint that the first event of a server names, and lets ``check`` see it."""

    def __init__(self, check: Callable[[str], None]) -> None:
        self._check: Callable[[str], None] | None = check
        self._text = b""

    def feed(self, chunk: bytes) -> None:
        """Take a part of the stream. Raises what ``check`` raises."""
        if self._check is None:
            return
        self._text += chunk
        lines = self._text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        named = [line[5:].strip() for line in lines[:-1] if line.startswith(b"data:")]
        if named:
            check, self._check, self._text = self._check, None, b""
            check(named[0].decode(errors="replace"))


class Watched:
    """A stream of messages of the SDK that tells when it is over."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, if the stream knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        return await self._stream.receive()

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        return await self._stream.__aexit__(kind, error, trace)
