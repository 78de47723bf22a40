"""The settings of ``[models.<id>] use = "models"``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from interpose import Settings

EXTRAS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
"""The extra that brings a provider; its name is that of the package that it brings."""

_OF_THEIR_OWN: Final = frozenset(
    {"anthropic", "bedrock", "cohere", "google", "groq", "huggingface", "mistral", "xai"}
)
"""Providers whose protocol is not one of OpenAI's."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*:\S+")


class CallSettings(Settings):
    """What a call may ask of any provider; one that has no such thing ignores it.

    ``timeout`` and the like are not here: they belong to the connection.
    """

    temperature: Annotated[float, Field(ge=0)] | None = None
    """How freely the model chooses its words."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Choose among the likeliest tokens that make up this share."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Choose among this many of the likeliest tokens."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that the answer may have."""
    stop_sequences: list[str] | None = None
    """Texts at which the answer ends."""
    seed: int | None = None
    """Makes the choice repeatable, as far as the provider can."""
    presence_penalty: float | None = None
    """Against words that were said before."""
    frequency_penalty: float | None = None
    """Against words that were said often."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may call several tools."""
    tool_choice: Literal["auto", "none", "required"] | list[str] | None = None
    """Whether the model may or must call a tool, or which ones it may call."""
    thinking: bool | Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """Whether, or how much, the model thinks before it answers."""
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    """How the provider ranks the call."""
    extra_headers: Mapping[str, SecretStr] | None = None
    """Headers to send along; their values are secrets."""
    extra_body: Mapping[str, Any] | None = None
    """Keys to add to the request's body."""


class ModelsSettings(Settings):
    """Which model, where, and what every call of it asks for. README.md explains each key."""

    name: str
    """The provider and its model, as in ``openai:gpt-5-mini``."""
    api_key: SecretStr | None = None
    """The key; without it, what the provider's own variable holds."""
    base_url: str | None = None
    """Where the provider's API is served; without it, where the provider serves it."""
    settings: CallSettings = CallSettings()
    """What every call asks for; a request's own settings win."""
    provider_settings: Mapping[str, Any] = Field(default_factory=dict)
    """Likewise, for settings of this provider alone, such as ``openai_reasoning_effort``."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 300
    """How long the provider may be silent, in seconds."""
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 10
    """How long connecting may take, in seconds."""
    max_retries: Annotated[int, Field(ge=0, le=10)] = 0
    """How often the provider's client itself repeats a failed request."""
    trust_env: bool = False
    """Use proxies and certificates that environment variables name."""
    needs_finish_reason: bool = True
    """Take an answer that ends without a reason as cut off."""

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("`name` is a provider and its model, as in openai:gpt-5-mini")
        extra = EXTRAS.get(name.partition(":")[0])
        if extra is not None and find_spec(extra) is None:
            raise ValueError(
                f'this provider needs the package {extra}: pip install "interpose-models[{extra}]"'
            )
        return name

    @field_validator("base_url")
    @classmethod
    def _base_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("`base_url` begins with http:// or https:// and names a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("`base_url` holds no name and no password; use `api_key`")
        return url

    @model_validator(mode="after")
    def _provider_settings(self) -> Self:
        for key in self.provider_settings:
            if not key.startswith(self.prefixes):
                begins = " or ".join(self.prefixes)
                raise ValueError(f"provider_settings.{key} does not begin with {begins}")
        return self

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What a setting of this provider alone begins with."""
        family = self.provider.partition("-")[0]
        own = f"{family}_"
        return (own,) if family in _OF_THEIR_OWN or own == "openai_" else (own, "openai_")

    @property
    def provider(self) -> str:
        """The provider's part of the name."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """The model's part of the name."""
        return self.name.partition(":")[2]
