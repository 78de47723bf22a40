"""The host's half of the configuration, as models: what may stand in its own keys and tables."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, RootModel, SecretStr

Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Use: TypeAlias = Annotated[str, Field(min_length=1)]


class _HostOwned(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class LayerOptions(_HostOwned):
    """The sub-table ``layer`` of ``[middleware.<id>]``."""

    required: bool = True
    """Whether the host refuses to start when the middleware cannot be loaded."""
    before: list[str] = []
    """Layers that this one is further out than."""
    after: list[str] = []
    """Layers that this one is further in than."""
    stage: Literal["edge", "observe", "shape", "content", "call"] | None = None
    """The stage to sort the layer into, instead of the middleware's own."""
    on_failure: Literal["fail", "skip"] | None = None
    """What a failure of the layer does: fail the run, or take the layer out of it."""
    deadline: Seconds | None = None
    """Seconds that the layer itself may take for each hook call or event."""
    agents: list[str] | None = None
    """The agents that the layer serves; without it, all."""


class LayerTable(_HostOwned):
    """The host's keys of ``[middleware.<id>]``."""

    use: Use | None = None
    """The middleware: id, plugin.name, id@distribution or module:attr. Default: the table's key."""
    enabled: bool = True
    """Whether the layer takes part."""
    layer: LayerOptions = LayerOptions()
    """Where the layer stands, and what its failure means."""


class OverrideTable(_HostOwned):
    """The host's keys of ``[agents.<id>.middleware.<layer>]``."""

    enabled: bool | None = None
    """Whether the layer takes part in this agent's runs."""
    use: Any = Field(default=None, exclude=True, json_schema_extra={"not": {}})
    layer: Any = Field(default=None, exclude=True, json_schema_extra={"not": {}})


class UseTable(_HostOwned):
    """The host's keys of ``[agents.<id>]``, ``[providers.<id>]`` and ``[models.<id>]``."""

    use: Use | None = None
    """The agent, provider or model, in the forms of a layer's ``use``. Default: the table's key."""


class PluginsTable(_HostOwned):
    """``[plugins]``: what is active without a layer of its own."""

    use: list[Use] = []
    """Plugins to activate for their models, agents or hooks alone."""


class CapabilityTable(RootModel[dict[str, str]]):
    """``[capabilities]``: who provides one, where two could; ``"application"`` is the app."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class HostTable(_HostOwned):
    """``[host]``: how the host itself behaves."""

    strict: bool = False
    """Verify the stream after every layer, and refuse what is otherwise a warning."""
    startup_deadline: Seconds = 30.0
    """Seconds that each lifespan may take to start."""
    ending_deadline: Seconds = 10.0
    """Seconds that ending a run, or stopping a lifespan, may take."""
    max_concurrent: PositiveInt | None = None
    """Runs at once; without it, any number."""
    signing_key: Annotated[SecretStr, Field(min_length=1)] | None = None
    """The key that signs what leaves the host and comes back."""


class ServerTable(_HostOwned):
    """``[server]``: how ``interpose serve`` listens."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address to listen on, as 127.0.0.1 or ::1; 0.0.0.0 is every address of the machine."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """The port to listen on; 0 takes a free one."""
    heartbeat: Seconds = 15.0
    """Seconds of silence after which a comment keeps the connection alive."""
    cors: list[str] = []
    """Origins that browsers may call from."""
    run_deadline: Seconds | None = None
    """Seconds that a run may take; without it, any time."""
    idle_deadline: Seconds = 300.0
    """Seconds that a run may be silent."""
    write_deadline: Seconds = 60.0
    """Seconds that a client may leave what was written unread, before it counts as gone."""
    shutdown_deadline: Seconds = 20.0
    """Seconds that open runs have to end when the server stops; then they are cancelled."""
    max_body: PositiveInt = 8_388_608
    """Bytes that a request may have."""
    on_disconnect: Literal["cancel"] = "cancel"
    """What becomes of a run whose client has gone. To let it go on would need a store."""
    expose_plan: bool = False
    """Whether the server shows the plan."""
