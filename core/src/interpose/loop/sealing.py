"""The signed token in the id of an interrupt: what another process needs to go on with a run.

An id is ``<own id>~<token>``; all interrupts of one pause have the same token,
``base64url(zlib(JSON)) + "." + base64url(HMAC-SHA256[:20])``. The code covers the text of the
first part, and is compared as text before anything is decoded: what is not ours costs one hash.

A token is signed, not encrypted. It therefore has no argument of a tool call, and neither message
nor metadata of a question: a layer may have masked them for the consumer. Of each call it has a
digest of what the consumer *saw*, and whether that was all of it; and the arguments that a person
gave an approved call, which the client itself had sent.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ag_ui.core import Interrupt

from interpose.agui.decoding import NotJson, from_json
from interpose.errors import UsageError
from interpose.loop.continuation import (
    APPROVAL_SCHEMA,
    PLAIN_APPROVAL_SCHEMA,
    Continuation,
    Question,
)
from interpose.payloads import ToolCall

SEPARATOR: Final = "~"
LONGEST_ID: Final = 16 * 1024
"""Characters of a sealed id."""
LARGEST: Final = 64 * 1024
"""Bytes of a token's JSON."""

_DOMAIN: Final = b"interpose.continuation.1\0"
"""What the code is for, and of which layout; another layout takes another number."""
_CODE_BYTES: Final = 20
_DIGEST_BYTES: Final = 24
_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "edits": APPROVAL_SCHEMA,
    "plain": PLAIN_APPROVAL_SCHEMA,
}


class Forged(ValueError):
    """A token is not one of this key, or not whole."""


@dataclass(frozen=True, slots=True)
class SealedCall:
    """A tool call as a token has it.

    ``masked``: the consumer did not see it as it is. ``clients``: the client runs it.
    """

    id: str
    effect: Any
    digest: str
    masked: bool
    clients: bool


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a token says. The ``calls`` and ``shown`` of its continuation are empty.

    ``deadlines``: by own id, when an answer comes too late (seconds since the epoch).
    """

    key: str
    continuation: Continuation
    calls: tuple[SealedCall, ...]
    deadlines: Mapping[str, float | None]


def seal(continuation: Continuation, key: bytes) -> str:
    """Return a token. Raises :class:`UsageError` when it would be larger than it may be."""
    _check_key(key)
    written = {
        "n": secrets.token_urlsafe(9),  # the same question asked twice is two pauses
        "agent": continuation.agent,
        "thread": continuation.thread_id,
        "run": continuation.run_id,
        "origin": continuation.origin,
        "calls": [
            [call.id, call.effect, digest(*shown), *_flags(continuation, call, shown)]
            for call, shown in zip(continuation.calls, continuation.shown, strict=True)
        ],
        "questions": [
            _question(question, deadline(question.interrupt, continuation.expires_at))
            for question in continuation.questions
        ],
        "metadata": dict(continuation.metadata),
        "counts": dict(continuation.counts),
        "issued": continuation.issued_at,
        "expires": continuation.expires_at,
        "approved": {
            id_: None if args is None else dict(args) for id_, args in continuation.approved.items()
        },
    }
    try:
        data = canonical(written).encode()
    except (TypeError, ValueError, RecursionError):
        raise UsageError(
            "The metadata of a run that pauses, or a response schema, is not JSON.",
            hint="keep what is not JSON in ctx.attributes",
        ) from None
    body = _encode(zlib.compress(data, 9))
    token = f"{body}.{_code(body, key)}"
    longest = max((len(each.interrupt.id) for each in continuation.questions), default=0)
    if len(data) > LARGEST or longest + len(SEPARATOR) + len(token) > LONGEST_ID:
        raise UsageError(
            f"A run cannot pause: the ids of its interrupts would be longer than {LONGEST_ID}"
            f" characters. Of the {len(data)} that they carry, before compression,"
            f" {len(canonical(dict(continuation.metadata)))} are its metadata.",
            hint="keep less in ctx.metadata, and the response schemas small",
        )
    return token


def unseal(token: str, key: bytes) -> Sealed:
    """Return what a token says. Raises :class:`Forged`; a hostile token costs one hash."""
    _check_key(key)
    body, dot, code = token.rpartition(".")
    if not dot or len(token) > LONGEST_ID or not token.isascii():
        raise Forged
    if not hmac.compare_digest(code.encode(), _code(body, key).encode()):
        raise Forged
    try:
        inflating = zlib.decompressobj()
        data = inflating.decompress(urlsafe_b64decode(body + "=" * (-len(body) % 4)), LARGEST)
        if not inflating.eof:  # more than LARGEST, or cut
            raise Forged
        return _read(json.loads(data), code)
    except (zlib.error, binascii.Error, ValueError, LookupError, TypeError, RecursionError):
        raise Forged from None


def digest(call_id: str, name: str, arguments: str) -> str:
    """Return the digest of a call as a consumer has it; how its JSON is spaced does not matter.

    Clients parse the arguments and write them again.
    """
    try:
        arguments = canonical(_arguments(arguments))
    except (ValueError, RecursionError):
        arguments = f"not JSON: {arguments}"
    hashed = hashlib.sha256(canonical([call_id, name, arguments]).encode()).digest()
    return _encode(hashed[:_DIGEST_BYTES])


def is_masked(call: ToolCall, shown: tuple[str, str, str]) -> bool:
    """Tell whether a call cannot be had again from what the consumer saw of it."""
    try:
        return call.name != shown[1] or canonical(dict(call.args)) != canonical(
            _arguments(shown[2])
        )
    except (TypeError, ValueError, RecursionError):
        return True


def call_of(sealed: SealedCall, name: str, arguments: str) -> ToolCall:
    """Return a call from what the consumer has of it, which fits its digest."""
    return ToolCall(sealed.id, name, _arguments(arguments), sealed.effect)


def deadline(interrupt: Interrupt, expires_at: float | None) -> float | None:
    """Return the earlier of an interrupt's own end and its continuation's, as epoch seconds."""
    try:
        own = datetime.fromisoformat(interrupt.expires_at or "")
    except ValueError:
        return expires_at
    moment = (own if own.tzinfo else own.replace(tzinfo=UTC)).timestamp()
    return moment if expires_at is None else min(moment, expires_at)


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: ASCII, keys in order."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _flags(
    continuation: Continuation, call: ToolCall, shown: tuple[str, str, str]
) -> tuple[int, int]:
    return int(is_masked(call, shown)), int(call.id in continuation.clients)


def _question(question: Question, until: float | None) -> dict[str, Any]:
    interrupt = question.interrupt
    schema: Any = interrupt.response_schema
    for name, known in _SCHEMAS.items():
        if schema == known:
            schema = name
    written = {
        "id": interrupt.id,
        "kind": question.kind,
        "reason": interrupt.reason,
        "schema": schema,
        "call": question.call_id,
        "tool": interrupt.tool_call_id,
        "said": interrupt.expires_at,
        "until": until,
        "subagent": interrupt.subagent_run_id,
    }
    return {name: value for name, value in written.items() if value is not None}


def _read(written: Any, code: str) -> Sealed:
    questions = tuple(_read_question(each) for each in written["questions"])
    continuation = Continuation(
        agent=written["agent"],
        thread_id=written["thread"],
        run_id=written["run"],
        origin=written["origin"],
        calls=(),
        shown=(),
        questions=questions,
        metadata=written["metadata"],
        counts=written["counts"],
        issued_at=written["issued"],
        expires_at=written["expires"],
        clients=frozenset(id_ for id_, *_, clients in written["calls"] if clients),
        approved=written.get("approved", {}),  # an earlier version wrote none
    )
    calls = tuple(
        SealedCall(id_, effect, hashed, bool(masked), bool(clients))
        for id_, effect, hashed, masked, clients in written["calls"]
    )
    deadlines = {each["id"]: each.get("until") for each in written["questions"]}
    return Sealed(code, continuation, calls, deadlines)


def _read_question(written: Any) -> Question:
    schema = written.get("schema")
    interrupt = Interrupt(
        id=written["id"],
        reason=written["reason"],
        tool_call_id=written.get("tool"),
        response_schema=dict(_SCHEMAS[schema]) if isinstance(schema, str) else schema,
        expires_at=written.get("said"),
        subagent_run_id=written.get("subagent"),
    )
    return Question(interrupt, written["kind"], written.get("call"))


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; models write none as an empty text or null, too."""
    read = from_json(text) if text.strip() else None
    if read is None:
        return {}
    if not isinstance(read, dict):
        raise NotJson("it is no object")
    return read


def _code(body: str, key: bytes) -> str:
    return _encode(hmac.digest(key, _DOMAIN + body.encode(), "sha256")[:_CODE_BYTES])


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _check_key(key: bytes) -> None:
    if not key:
        raise UsageError("the signing key is empty")
