"""The remote agent: any AG-UI endpoint over HTTP, whatever it is written in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from ag_ui.core import PROTOCOL_VERSION, RunAgentInput
from pydantic import Field, PositiveInt, SecretStr, field_validator, model_validator
from pydantic_core import PydanticSerializationError

from interpose.agents.address import authorization, header_faults, url_faults
from interpose.agui.decoding import NotJson, from_json, kind_of
from interpose.agui.sse import MAX_EVENT_BYTES, SseEvent
from interpose.authoring import Agent, AgentFactory, Settings
from interpose.capability import CREDENTIALS
from interpose.context import AgentContext, LifespanContext
from interpose.errors import InvalidStream, RemoteFailed

if TYPE_CHECKING:
    from interpose.agents.endpoint import Endpoint

MISSING: Final = 'a remote agent needs httpx2: pip install "interpose[remote]"'
_TERMINALS: Final = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_DRAIN: Final = 0.1
"""How many seconds a stream may take to end after its terminal event, to be used again."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RemoteSettings(Settings):
    """Where the agent of ``use = "remote"`` is, and how it is asked."""

    url: str = Field(description="Where a RunAgentInput is POSTed to; http or https.")
    headers: Mapping[str, SecretStr] = Field(
        default_factory=dict, description="Headers to send along. Their values are secrets."
    )
    connect_timeout: Seconds = Field(
        default=10.0, description="Seconds until there must be a connection."
    )
    idle_timeout: Seconds = Field(
        default=300.0, description="Seconds for which the agent may send no byte."
    )
    max_event_bytes: PositiveInt = Field(
        default=MAX_EVENT_BYTES, description="The greatest size of one event."
    )
    max_connections: PositiveInt | None = Field(
        default=None, description="How many runs may be connected at once; others wait."
    )
    ca_file: str | None = Field(
        default=None,
        description="A PEM file of the authorities to trust in place of the system's.",
    )
    trust_env: bool = Field(
        default=False,
        description="Obey the environment: HTTP_PROXY and the like, SSL_CERT_FILE, .netrc.",
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        faults = url_faults(url)
        if faults:
            raise ValueError("; ".join(faults))
        return url

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        faults = header_faults({name: each.get_secret_value() for name, each in headers.items()})
        if faults:
            raise ValueError("; ".join(faults))
        return headers

    @model_validator(mode="after")
    def _check_installed(self) -> Self:
        if find_spec("httpx2") is None:
            raise ValueError(MISSING)
        return self


class RemoteAgent:
    """Relays runs to an endpoint. Its events are raw, for the agent's edge to enforce."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[Any]:
        """Relay one run; closing the iterator closes the connection."""
        log = ctx.log

        def report(text: str) -> None:
            log.warning("{}", text)

        asked = self._endpoint.ask(body_of(run_input), report, _authorization(ctx))
        async with aclosing(asked) as events:
            index = 0
            async for event in events:
                raw = _raw_event(event, index)
                index += 1
                if raw.get("type") in _TERMINALS:
                    try:
                        yield raw
                    finally:
                        await self._end(events, report)
                else:
                    yield raw

    async def _end(self, events: Any, report: Any) -> None:
        from interpose.agents.endpoint import drain

        late = await drain(events, _DRAIN)
        if late:
            report(f"{late} events came after the terminal, and are not relayed")

    async def aclose(self) -> None:
        """Close the pool of connections."""
        await self._endpoint.aclose()


class Remote(AgentFactory[RemoteSettings]):
    """``use = "remote"``: put a chain in front of an agent that is elsewhere."""

    scope = "host"
    optional_requires = (CREDENTIALS,)

    def __call__(self, settings: RemoteSettings, ctx: LifespanContext, /) -> Agent:
        """Make the pool of connections. Raises :class:`UsageError` for a bad ``ca_file``."""
        from interpose.agents.endpoint import Endpoint, Options

        ca_file = settings.ca_file
        options = Options(
            url=settings.url,
            headers=settings.headers,
            connect_timeout=settings.connect_timeout,
            idle_timeout=settings.idle_timeout,
            trust_env=settings.trust_env,
            max_event_bytes=settings.max_event_bytes,
            max_connections=settings.max_connections,
            ca_file=None if ca_file is None else str(ctx.folder / ca_file),
        )
        return RemoteAgent(Endpoint(options, ctx.clock.time))


def body_of(run_input: RunAgentInput) -> bytes:
    """Return an input as it is sent: with the protocol's version, and without activities.

    Activities are for the consumer to show; a producer takes none (AG-UI 1.1, run input). Raises
    :class:`RemoteFailed` when a value cannot be written as JSON.
    """
    sent = run_input.model_copy(
        update={
            "protocol_version": (
                PROTOCOL_VERSION
                if run_input.protocol_version is None
                else run_input.protocol_version
            ),
            "messages": [each for each in run_input.messages if each.role != "activity"],
        }
    )
    try:
        return sent.model_dump_json(by_alias=True).encode()
    except PydanticSerializationError:
        # The reason quotes values, so it is not passed on.
        raise RemoteFailed(
            "The input of the run holds a value that cannot be written as JSON."
        ) from None


def raw_event(data: str) -> Mapping[str, Any]:
    """Return one event as decoded from the wire. Raises :class:`NotJson` if it is no object."""
    value = from_json(data)
    if not isinstance(value, dict):
        raise NotJson(f"it is {kind_of(value)}")
    return value


def _raw_event(event: SseEvent, index: int) -> Mapping[str, Any]:
    try:
        return raw_event(event.data)
    except NotJson as error:
        raise InvalidStream(
            f"Event {index} of the stream is no JSON object: {error.said}.",
            rule="malformed-value",
            index=index,
        ) from None


def _authorization(ctx: AgentContext) -> str | None:
    """Return the authorization header of the run's own credentials, if it has some."""
    credentials = ctx.get(CREDENTIALS)
    if credentials is None:
        return None
    value = authorization(credentials.scheme, credentials.token)
    if value is None:
        raise RemoteFailed("The credentials of the run cannot be sent as an HTTP header.")
    return value
