"""The body of a request: bounded, JSON, and an AG-UI input."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from interpose.errors import InputError, Reject

BODY_DEADLINE: Final = 30.0
"""Seconds that a client may take to send its request."""


async def read_input(request: Request, most: int) -> Mapping[str, Any]:
    """Return the decoded body. ``most``: bytes it may have.

    Raises :class:`Reject` (408, 413, 415) or :class:`InputError`; neither repeats what was sent.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise Reject("media-type", "Send the input as application/json.", status=415)
    try:
        async with asyncio.timeout(BODY_DEADLINE):
            body = await _body(request, most)
    except TimeoutError:
        raise Reject("request-timeout", "The request took too long.", status=408) from None
    try:
        # Keys alone: the cache is the process's, and would keep the values of many requests.
        data = from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        if "recursion" in str(error):
            raise InputError("The body is nested too deeply.") from None
        raise InputError(f"The body is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(
            f"The input of a run must be a JSON object, not {_kind(data)}.",
            hint="Send a RunAgentInput: threadId, runId and messages are required.",
        )
    return data


async def _body(request: Request, most: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
    except ClientDisconnect:
        raise Reject("client-gone", "The client went away.", status=400) from None
    return b"".join(parts)


def _too_large(most: int) -> Reject:
    return Reject("too-large", f"The request is larger than {most} bytes.", status=413)


def _kind(data: object) -> str:
    if isinstance(data, list):
        return "an array"
    return "null" if data is None else f"a {type(data).__name__}"
