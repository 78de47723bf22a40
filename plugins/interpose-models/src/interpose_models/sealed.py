"""What a provider wants back unread: signatures, ids of reasoning, thought signatures of calls.

They travel as AG-UI's encrypted values, in the JSON that ``pydantic_ai`` itself writes for
reasoning, so that a conversation may pass from one host to the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic_ai.messages import BaseToolCallPart, ThinkingPart

_TYPES: Final[Mapping[str, type]] = {
    "id": str,
    "signature": str,
    "provider_name": str,
    "provider_details": dict,
    "canonical_system": str,
}


def seal_thinking(part: ThinkingPart, canonical_system: str | None) -> str | None:
    """Return the value that belongs to reasoning, if the provider gave any."""
    if part.id is None and part.signature is None and part.provider_details is None:
        return None
    return _seal(
        id=part.id,
        signature=part.signature,
        provider_name=part.provider_name,
        provider_details=part.provider_details,
        canonical_system=canonical_system,
    )


def seal_call(part: BaseToolCallPart[Any]) -> str | None:
    """Return the value that belongs to a tool call, if the provider gave any."""
    if part.provider_details is None:
        return None
    return _seal(provider_name=part.provider_name, provider_details=part.provider_details)


def _seal(**fields: Any) -> str:
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def unseal(value: str | None) -> dict[str, Any]:
    """Return the fields of a value, without what is not of the type that it should be.

    Values come from the consumer: one that another producer made is no value of ours.
    """
    try:
        fields: Any = json.loads(value) if value else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(fields, dict):
        return {}
    given = cast("dict[str, Any]", fields)
    return {name: given[name] for name, kind in _TYPES.items() if isinstance(given.get(name), kind)}
