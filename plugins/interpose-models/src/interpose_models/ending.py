"""How an answer ended: its reason and its usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ag_ui.core import TokenUsage
from pydantic_ai.messages import ModelResponse, ToolCallPart

from interpose import FinishReason, ModelFinished, ModelRefused, ModelUnavailable

_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
}


def finished(response: ModelResponse, provider: str, *, needs_reason: bool) -> ModelFinished:
    """Return the last event of a call.

    Raises ModelUnavailable for an answer that was cut off without an error, and ModelRefused for
    one that the content filter took away whole.
    """
    reason = response.finish_reason
    if needs_reason and not _says_why(response):
        raise ModelUnavailable(f"The answer of {provider} broke off: it says no reason to end.")
    if reason == "content_filter" and not any(part.has_content() for part in response.parts):
        raise ModelRefused(f"The content filter of {provider} refused the request or the answer.")
    if reason == "stop" and any(isinstance(part, ToolCallPart) for part in response.parts):
        reason = "tool_call"  # not every protocol tells the two apart
    return ModelFinished(
        finish_reason=_REASONS.get(reason) if reason else None, usage=usage(response, provider)
    )


def _says_why(response: ModelResponse) -> bool:
    """Say whether the provider itself ended the answer.

    Where a server of the chat protocol says nothing, the library takes it for a ``stop``.
    """
    if response.finish_reason is None or response.state == "incomplete":
        return False
    return response.finish_reason != "stop" or "finish_reason" in (response.provider_details or {})


def usage(response: ModelResponse, provider: str) -> tuple[TokenUsage, ...]:
    """Return what the call cost, or nothing if the provider does not say.

    Parts of a total (reasoning, cache) are left out when they are 0: the library does not tell
    that from unknown.
    """
    told = response.usage
    if not told.input_tokens and not told.output_tokens:
        return ()
    details = told.details
    return (
        TokenUsage(
            provider=provider,
            model=response.model_name,
            input_tokens=told.input_tokens,
            output_tokens=told.output_tokens,
            total_tokens=told.input_tokens + told.output_tokens,
            reasoning_tokens=details.get("reasoning_tokens") or details.get("thoughts_tokens"),
            cached_input_tokens=told.cache_read_tokens or None,
            cache_write_input_tokens=told.cache_write_tokens or None,
        ),
    )
