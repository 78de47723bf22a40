"""How a line is written. Nothing in a value can end a line, forge one, or steer a terminal."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from interpose_logging.record import Record

_BARE: Final = re.compile(r"[A-Za-z0-9_.:/@+-]+")


def as_text(kind: str, record: Record) -> str:
    """Write ``kind key=value …``; values that are not plain words are JSON, in ASCII."""
    words = [kind.replace("-", " ")]
    words += [f"{key}={_value(value)}" for key, value in record.items() if value is not None]
    return " ".join(words)


def as_json(kind: str, level: str, seconds: float, record: Record) -> str:
    """Write one JSON object, in ASCII; ``seconds`` since the epoch become ``time``."""
    return _dump({"time": _moment(seconds), "level": level, "kind": kind, **record})


def stamped(level: str, seconds: float, line: str) -> str:
    """Put time and level before a text line, for where no log handler does."""
    return f"{_moment(seconds)} {level} {line}"


def _value(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value):
        return value
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
