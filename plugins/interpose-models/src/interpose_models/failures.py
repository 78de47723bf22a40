"""What went wrong, by kind: from the exceptions of ``pydantic_ai`` to those of models.

The text is for the operator's log. It holds what the provider says, cut short, without the key;
the original exception is not kept, as its parts hold the request with its headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, cast

import httpx2
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)

from interpose import (
    InvalidModelRequest,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestTooLong,
    Transient,
)

_FILTER_CODES: Final = frozenset(
    {"content_filter", "content_policy_violation", "moderation_blocked"}
)
_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
_LONGEST: Final = 300


def failure_of(error: Exception, name: str, secrets: Sequence[str]) -> ModelFailed | None:
    """Return the failure that an exception stands for, or None if it is no model's.

    ``name``: the provider and its model; ``secrets``: texts that it may not hold.
    """
    found: ModelFailed | None = None
    if isinstance(error, ModelFailed):
        found = error
    elif isinstance(error, ModelAPIError):
        found = _of_provider(error, name, secrets)
    elif isinstance(error, httpx2.TransportError | httpx2.StreamError):
        found = ModelUnavailable(f"{name} broke off: {type(error).__name__}.")
    elif isinstance(error, ContentFilterError):
        found = ModelRefused(f"The content filter of {name} refused the request or the answer.")
    elif isinstance(error, UnexpectedModelBehavior):
        found = ModelUnavailable(f"{name} sent what its protocol does not have.")
    elif isinstance(error, UserError):
        said = _without(str(error), secrets)
        found = InvalidModelRequest(f"{name} cannot be asked for this{said or '.'}")
    return found


def _of_provider(error: ModelAPIError, name: str, secrets: Sequence[str]) -> ModelFailed:
    kind = _kind_of(error)
    said = f"{name} {_what(error, secrets)}"
    if isinstance(error, ModelAuthenticationError):
        # Providers repeat the key in such a text, in part.
        return kind(f"{said}.", hint="Check api_key of the model, and what the account may use.")
    said += _without(_text(error), secrets) or "."
    if issubclass(kind, Transient):
        return kind(said, retry_after=error.retry_after)
    return kind(said)


def _kind_of(error: ModelAPIError) -> type[ModelFailed]:
    kinds = [kind for raised, kind in _KINDS if isinstance(error, raised)]
    otherwise = _kind_of_status(error) if isinstance(error, ModelHTTPError) else ModelUnavailable
    kind = kinds[0] if kinds else otherwise
    refused = {error.provider_error_code, error.provider_error_type} & _FILTER_CODES
    return ModelRefused if kind is InvalidModelRequest and refused else kind


_KINDS: Final[tuple[tuple[type[ModelAPIError], type[ModelFailed]], ...]] = (
    (ModelQuotaExceededError, QuotaExceeded),
    (ModelRateLimitError, RateLimited),
    (ModelContextWindowExceededError, RequestTooLong),
    (ModelRequestRejectedError, InvalidModelRequest),
)


def _kind_of_status(error: ModelHTTPError) -> type[ModelFailed]:
    if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return RequestTooLong
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status_code in _LATER:
        return ModelUnavailable
    return InvalidModelRequest


def _what(error: ModelAPIError, secrets: Sequence[str]) -> str:
    kind = error.provider_error_code or error.provider_error_type or ""
    named = f" ({kind})" if kind and not _tells(kind, secrets) else ""
    if isinstance(error, ModelHTTPError):
        where = " inside its answer" if error.in_stream else ""
        return f"answered with HTTP {error.status_code}{where}{named}"
    if isinstance(error, ModelConnectionError):
        return f"could not be reached or broke off ({type(error).__name__})"
    return f"failed{named}"


def _text(error: ModelAPIError) -> str:
    """Return what the provider says, without the rest of the body."""
    body: Any = error.body
    if not isinstance(body, dict):
        return "" if isinstance(error, ModelHTTPError) else error.message
    inner: Any = cast("dict[str, Any]", body).get("error", body)
    message: Any = cast("dict[str, Any]", inner).get("message") if isinstance(inner, dict) else None
    return message if isinstance(message, str) else ""


def _without(text: str, secrets: Sequence[str]) -> str:
    """Return a text to follow what was said: in one line, cut short, or empty if it is telling."""
    if _tells(text, secrets):
        return ""
    text = " ".join(text.split())
    if not text:
        return ""
    return f": {text if len(text) <= _LONGEST else text[:_LONGEST] + ' …'}"


def _tells(text: str, secrets: Sequence[str]) -> bool:
    return any(secret in text for secret in secrets)
