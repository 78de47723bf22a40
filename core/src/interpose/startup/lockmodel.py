"""The lock file: what a configuration comes to, to be kept in version control and compared.

It is JSON, because Python writes it without help and every tool reads it. Lists that have an order
keep it (layers stand outermost first), everything else is sorted, so that a lock has one text and
a review shows what changed, line by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interpose.errors import Problem

LOCK_SCHEMA: Final = 1
"""Version of the lock's form; it grows with every change of it."""

IN_HOUSE: Final = "in-house code"
"""The distribution of what is used as ``module:attr``. Nothing says its version."""

Digests: TypeAlias = Mapping[str, str]
"""Digests of settings by their path; see :mod:`interpose.startup.settings_digest`."""


class _Locked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LockedPart(_Locked):
    """A provider or a model. ``version`` is None for in-house code."""

    use: str
    distribution: str
    version: str | None
    settings: Digests


class LockedLayer(_Locked):
    """One layer. ``hooks``: those that the host calls for this agent."""

    id: str
    middleware: str
    distribution: str
    version: str | None
    stage: str
    on_failure: str
    hooks: tuple[str, ...]
    settings: Digests


class LockedAgent(LockedPart):
    """An agent, its points, its layers, and who provides each capability that is asked for."""

    points: tuple[str, ...]
    layers: tuple[LockedLayer, ...]
    capabilities: Mapping[str, tuple[str, ...]]


class Lock(_Locked):
    """A whole host. ``distributions``: every active one, with its version; by name."""

    schema_: Literal[1] = Field(default=LOCK_SCHEMA, alias="schema")
    distributions: Mapping[str, str]
    host: Digests
    agents: Mapping[str, LockedAgent]
    providers: Mapping[str, LockedPart]
    models: Mapping[str, LockedPart]


def to_text(lock: Lock) -> str:
    """Write a lock, with a newline at its end."""
    data = lock.model_dump(mode="json", by_alias=True)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def from_bytes(content: bytes, name: str) -> Lock | Problem:
    """Read a lock, or say why it is none; ``name`` is the file's, as people know it."""
    try:
        data = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except UnicodeDecodeError:
        return invalid_lock(name, "it is not UTF-8 text")
    except json.JSONDecodeError as error:
        return invalid_lock(f"{name}:{error.lineno}:{error.colno}", f"it is not JSON: {error.msg}")
    except (ValueError, RecursionError) as error:
        return invalid_lock(name, f"it is not JSON: {error}")
    schema = data.get("schema") if isinstance(data, dict) else None
    if isinstance(schema, int) and schema > LOCK_SCHEMA:
        return Problem(
            "newer-lock",
            f"The lock has the form {schema}; this Interpose reads the form {LOCK_SCHEMA}.",
            (name,),
            "Use the version of Interpose that wrote it, or write it anew: interpose lock.",
        )
    try:
        return Lock.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        return invalid_lock(name, f"{where}: {first['msg']}")


def invalid_lock(where: str, reason: str) -> Problem:
    """Say that a file is no lock."""
    return Problem(
        "invalid-lock",
        f"The lock cannot be read: {reason}.",
        (where,),
        "Restore it from version control, or write it anew: interpose lock.",
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice, as a merge may leave it: one of them would win in silence."""
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f'"{twice}" stands twice in a table')
    return data
