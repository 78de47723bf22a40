"""Where a remote agent is, and the headers it is sent: what may stand there, and what may not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_OURS: Final = frozenset(
    {"accept", "accept-encoding", "content-length", "content-type", "host", "transfer-encoding"}
    | {"connection", "expect", "keep-alive", "te", "trailer", "upgrade"}
)


def url_faults(url: str) -> tuple[str, ...]:
    """Say why ``url`` cannot be a remote agent's; each a clause about "the URL", without values."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return ("it has a space or a character beyond ASCII; write it percent-encoded",)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ("it is no URL: its host or port is malformed",)
    faults: list[str] = []
    if parts.scheme not in {"http", "https"}:
        faults.append("it must begin with http:// or https://")
    elif not parts.hostname:
        faults.append("it names no host")
    if port == 0:
        faults.append("0 is no port to connect to")
    if parts.username is not None or parts.password is not None:
        faults.append("it holds a user or a password; send an authorization header instead")
    if "#" in url:
        faults.append("it has a fragment (#), which is never sent")
    return tuple(faults)


def header_faults(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Say which headers cannot be sent. No value is ever repeated."""
    faults = [f"{name!r} is no name of a header" for name in headers if not _NAME.fullmatch(name)]
    faults += [f"{name} is set by the agent itself" for name in headers if name.lower() in _OURS]
    faults += [f"{name} is given twice; case does not matter" for name in _twice(headers)]
    faults += [
        f"the value of {name} {_why(value)}"
        for name, value in headers.items()
        if not _VALUE.fullmatch(value)
    ]
    return tuple(faults)


def authorization(scheme: str, token: str) -> str | None:
    """Return the value of an authorization header, or None if these cannot make one."""
    value = f"{scheme} {token}"
    return value if _NAME.fullmatch(scheme) and token and _VALUE.fullmatch(value) else None


def _twice(names: Iterable[str]) -> Iterable[str]:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            yield name
        seen.add(name.lower())


def _why(value: str) -> str:
    if not value:
        return "is empty"
    if value != value.strip():
        return "begins or ends with a space or a newline"
    return "holds a newline, another control character or one beyond ASCII"
