"""Opening a provider: its model in ``pydantic_ai``, on an HTTP client that is ours."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from interpose import UsageError
from interpose_models.settings import ModelsSettings

_OWN_CLIENT: Final = frozenset({"cohere", "groq", "huggingface"})
"""Providers whose libraries take no client of httpx2; they keep the one that they make."""

_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")

_TELLING: Final = 8
"""How much of a key already gives it away."""


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model, the client that it speaks through, and the texts that no message may hold."""

    model: Model
    client: httpx2.AsyncClient
    secrets: tuple[str, ...]


def open_model(settings: ModelsSettings) -> OpenedModel:
    """Return the model that the settings name.

    Redirects are not followed: the key is for the address that the operator gave.
    """
    client = httpx2.AsyncClient(
        timeout=httpx2.Timeout(
            settings.timeout, connect=settings.connect_timeout, pool=settings.connect_timeout
        ),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        trust_env=settings.trust_env,
        follow_redirects=False,
    )
    model = infer_model(settings.name, lambda provider: _provider(provider, settings, client))
    return OpenedModel(model, client, tuple(_secrets(model, settings)))


def _provider(name: str, settings: ModelsSettings, client: httpx2.AsyncClient) -> Provider[Any]:
    try:
        provider = infer_provider_class(name)
    except ImportError as error:
        raise UsageError(
            f"The provider {name} lacks a package: {error}",
            hint=f'Install what it needs: pip install "pydantic-ai-slim[{name}]".',
        ) from None
    except ValueError:
        raise UsageError(
            f"There is no provider {name}.", hint="The part of `name` before the colon says which."
        ) from None
    takes = inspect.signature(provider).parameters
    given: dict[str, Any] = {}
    if settings.api_key is not None:
        given["api_key"] = settings.api_key.get_secret_value()
    if settings.base_url is not None:
        given["base_url"] = settings.base_url
    for key in given:
        if key not in takes:
            raise UsageError(f"The provider {name} takes no {key}.", hint=f"Leave out `{key}`.")
    if "http_client" in takes and name not in _OWN_CLIENT:
        given["http_client"] = client
    try:
        return provider(**given)
    except UserError as error:
        # Its text tells how to call another library; the variables in it are the provider's own.
        variables = " or ".join(dict.fromkeys(_VARIABLE.findall(str(error))))
        raise UsageError(
            f"The provider {name} lacks a key, or an address.",
            hint=f"Set api_key or base_url of this model, or {variables or 'its own variables'}.",
        ) from None


def _secrets(model: Model, settings: ModelsSettings) -> Iterator[str]:
    """Yield what gives a secret away: the beginning of a key, which providers like to show."""
    keys = [getattr(getattr(model, "client", None), "api_key", None)]
    given = [settings.api_key, *(settings.settings.extra_headers or {}).values()]
    keys += [secret.get_secret_value() for secret in given if secret is not None]
    for key in keys:
        # What is shorter is no secret but a placeholder, for servers that want any key at all.
        if isinstance(key, str) and len(key) >= _TELLING:
            yield key[:_TELLING]
