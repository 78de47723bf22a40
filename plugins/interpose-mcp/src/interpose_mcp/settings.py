"""The settings of ``mcp.tools`` and ``mcp.apps``: a table of servers, keyed by server id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

import httpx2
from pydantic import Field, SecretStr, field_validator, model_validator

from interpose import Settings

Seconds = Annotated[float, Field(gt=0, le=3600)]

_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SERVER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_THE_PROTOCOL: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class ServerSettings(Settings):
    """One server: exactly one of ``url``, ``command`` and ``python`` says where it is."""

    url: str | None = None
    """The address of a server that speaks HTTP."""
    type: Literal["http", "sse"] = "http"
    """How the server at ``url`` speaks: streamable HTTP, or the older HTTP with SSE."""
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Headers of every request to ``url``; their values are secrets."""
    trust_env: bool = False
    """Use proxies and certificates that environment variables name."""
    command: str | None = None
    """The program of a server that speaks over standard input and output."""
    args: tuple[str, ...] = ()
    """Its arguments. Anybody on the machine can read them: secrets belong in ``env``."""
    env: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Its variables, beside the harmless ones that it inherits; their values are secrets."""
    cwd: str | None = None
    """Its working directory, seen from the config file's folder."""
    python: str | None = None
    """``module:attr`` of an MCP server object in this process."""
    allow: frozenset[str] | None = None
    """Only these of the server's tools exist, by their own names."""
    deny: frozenset[str] | None = None
    """These of the server's tools do not exist."""
    session: Literal["run", "host"] = "run"
    """``run``: each run has a session of its own; ``host``: all runs share one."""
    protocol: Literal["auto", "legacy"] = "auto"
    """``legacy``: begin with ``initialize``, without asking for a newer protocol first."""
    connect_timeout: Seconds = 10
    """How long connecting may take, in seconds."""
    timeout: Seconds = 60
    """How long one request may take, in seconds."""
    max_response_bytes: Annotated[int, Field(ge=1024)] = 4 * 1024 * 1024
    """How large one response over HTTP may be."""  # the SDK allows SSE events of 1 MiB at most

    @field_validator("url")
    @classmethod
    def _url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.isprintable() or " " in url or "\\" in url:
            raise ValueError(
                "`url` holds a space, a backslash or a control character; write %20 or the like"
            )
        try:
            parts, sent = urlsplit(url), httpx2.URL(url)
            named = bool(parts.hostname) and parts.port != 0
        except (ValueError, httpx2.InvalidURL):
            raise ValueError("`url` is not an address, as https://example.org/mcp") from None
        if parts.scheme not in {"http", "https"} or not named or not sent.host:
            raise ValueError("`url` begins with http:// or https:// and names a host")
        if "@" in parts.netloc:
            raise ValueError("`url` holds no name and no password; use `headers`")
        if "#" in url:
            raise ValueError("`url` has no fragment (#...)")
        return url

    @field_validator("headers")
    @classmethod
    def _headers(cls, headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a header")
            if name.lower() in _OF_THE_PROTOCOL:
                raise ValueError(f"the header {name} is the protocol's own, and cannot be set")
            text = value.get_secret_value()
            if not text.isascii() or not text.isprintable() or text != text.strip():
                raise ValueError(
                    f"the value of the header {name} is not printable ASCII, or has spaces around"
                )
        folded = [name.lower() for name in headers]
        twice = sorted({name for name in folded if folded.count(name) > 1})
        if twice:
            raise ValueError(f"the header {twice[0]} is there twice, in different spellings")
        return headers

    @field_validator("command")
    @classmethod
    def _command(cls, command: str | None) -> str | None:
        if command is not None and (not command.strip() or "\0" in command):
            raise ValueError("`command` names a program")
        return command

    @field_validator("args")
    @classmethod
    def _args(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in arg for arg in args):
            raise ValueError("no program can be given an argument with a NUL in it")
        return args

    @field_validator("env")
    @classmethod
    def _env(cls, env: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        for name, value in env.items():
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} is not the name of a variable")
            if "\0" in value.get_secret_value():
                raise ValueError(f"the value of the variable {name} has a NUL in it")
        return env

    @field_validator("python")
    @classmethod
    def _python(cls, python: str | None) -> str | None:
        if python is not None and not _REFERENCE.fullmatch(python):
            raise ValueError("`python` names an object as module:attr, as in shop.tools:server")
        return python

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = [name for name in ("url", "command", "python") if getattr(self, name) is not None]
        if len(places) != 1:
            given = " and ".join(f"`{name}`" for name in places) or "none"
            raise ValueError(f"give exactly one of `url`, `command` and `python`; given: {given}")
        belongs = {
            "url": ("type", "headers", "trust_env", "max_response_bytes"),
            "command": ("args", "env", "cwd"),
            "python": (),
        }
        for place, names in belongs.items():
            for name in names:
                if place != places[0] and getattr(self, name) != self._default(name):
                    raise ValueError(f"`{name}` belongs to `{place}`, which is not given")
        if self.allow is not None and self.deny is not None:
            raise ValueError("give at most one of `allow` and `deny`")
        return self

    @classmethod
    def _default(cls, name: str) -> object:
        return cls.model_fields[name].get_default(call_default_factory=True)

    @property
    def transport(self) -> Literal["http", "sse", "stdio", "python"]:
        """How the server is reached."""
        if self.url is not None:
            return self.type
        return "stdio" if self.command is not None else "python"

    def allows(self, tool: str) -> bool:
        """Tell whether a tool of this name exists, for the model and for everybody else."""
        if self.allow is not None:
            return tool in self.allow
        return self.deny is None or tool not in self.deny


class McpSettings(Settings):
    """What both middlewares are told."""

    servers: Annotated[Mapping[str, ServerSettings], Field(min_length=1)]
    """The servers, by their ids."""
    discovery_failure_mode: Literal["continue", "throw"] = "continue"
    """When a server cannot be listed: go on without its tools, or fail the run."""
    max_age: Annotated[float, Field(ge=0, le=86_400)] = 300
    """How long a listing is kept when its server does not tell of changes, in seconds."""

    @field_validator("servers")
    @classmethod
    def _ids(cls, servers: Mapping[str, ServerSettings]) -> Mapping[str, ServerSettings]:
        for server in servers:
            if not _SERVER.fullmatch(server):
                raise ValueError(
                    f"{server!r} is not a server's id: it has letters, digits, `.`, `_` and `-`"
                )
        return servers


class McpToolsSettings(McpSettings):
    """The settings of ``mcp.tools``."""


class McpAppsSettings(McpSettings):
    """The settings of ``mcp.apps``."""
