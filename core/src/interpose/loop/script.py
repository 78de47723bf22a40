"""What a scripted model says: turns, from code or from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from ag_ui.core import TokenUsage
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from interpose.errors import UsageError
from interpose.loop_errors import (
    InvalidModelRequest,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestTooLong,
)
from interpose.model import FinishReason

Kind: TypeAlias = Literal["rate-limited", "quota", "too-long", "refused", "invalid", "unavailable"]

_ERRORS: Final[Mapping[str, type[ModelFailed]]] = {
    "quota": QuotaExceeded,
    "too-long": RequestTooLong,
    "refused": ModelRefused,
    "invalid": InvalidModelRequest,
    "unavailable": ModelUnavailable,
}


class _Scripted(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Scripted):
    """A tool call of the model. ``args``: an object, or the very text that it writes.

    ``executed_by_provider``: what the provider's own tool gave; the loop does not run it.
    """

    name: str
    args: dict[str, Any] | str = {}
    id: str | None = None
    executed_by_provider: str | None = None

    @property
    def text(self) -> str:
        """The arguments as the model writes them."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


class Turn(_Scripted):
    """What the model does in one call: it thinks, speaks, then calls tools; or it fails.

    ``error``: the kind of failure, after ``error_after`` pieces of text. ``delay``: seconds before
    each piece. ``retry``: what it does when the same request comes again in the same run.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: TokenUsage | None = None
    finish_reason: FinishReason | None = None
    delay: Annotated[float, Field(ge=0, le=3600)] = 0.0
    error: Kind | None = None
    error_after: Annotated[int, Field(ge=0)] = 0
    retry_after: Annotated[float, Field(ge=0)] | None = None
    retry: Turn | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.retry_after is not None and self.error != "rate-limited":
            raise ValueError('retry_after belongs to error = "rate-limited"')
        return self

    def failure(self) -> ModelFailed | None:
        """Return the exception that the turn ends with."""
        if self.error is None:
            return None
        if self.error == "rate-limited":
            return RateLimited("the script says so", retry_after=self.retry_after)
        return _ERRORS[self.error]("the script says so")


_TURNS: Final[TypeAdapter[tuple[Turn, ...]]] = TypeAdapter(tuple[Turn, ...])


def turns_of(values: Sequence[Turn | str | Mapping[str, Any]], place: str) -> tuple[Turn, ...]:
    """Return turns; a text is a turn that says it. Raises :class:`UsageError` naming ``place``."""
    plain = [{"text": value} if isinstance(value, str) else value for value in values]
    try:
        return _TURNS.validate_python(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{place} is no script: turn {at}: {first['msg']}",
            hint='a turn is a text, or {"text": …, "calls": [{"name": …, "args": …}]}',
        ) from None


def read_script(path: Path, name: str) -> tuple[Turn, ...]:
    """Return the turns of a JSON file. ``name`` is for messages. Raises :class:`UsageError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the script {name} cannot be read: {error.strerror}",
            hint="give the path of a JSON file, relative to the config file",
        ) from None
    except ValueError as error:
        raise UsageError(
            f"the script {name} is no JSON: {error}", hint='a list of turns, as in ["Hello!"]'
        ) from None
    if not isinstance(found, list):
        raise UsageError(f"the script {name} is no list of turns", hint='as in ["Hello!"]')
    return turns_of(found, name)
