"""The host's half: layers, agents and options as facts, and every mistake with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from interpose.errors import Problem, render
from interpose.startup.configuration import gather
from interpose.startup.files import Source, read_file
from interpose.startup.hostconfig import HostConfig, Named
from interpose.startup.hostmodel import LayerOptions
from interpose.startup.hostreading import read_host
from interpose.startup.overrides import from_options
from interpose.startup.part import LAYER_KEYS


def read(
    folder: Path, *texts: str, environ: dict[str, str] | None = None, options: tuple[str, ...] = ()
) -> tuple[HostConfig, str]:
    """Read texts as interpose.toml and its overlays b.toml, c.toml; return the problems as text."""
    sources = []
    for name, text in zip(("interpose.toml", "b.toml", "c.toml"), texts, strict=False):
        (folder / name).write_text(text)
        source = read_file(name, folder=folder)
        assert isinstance(source, Source), source
        sources.append(source)
    overrides, bad = from_options(options, folder=folder)
    said, problems = gather(sources, overrides, environ=environ or {})
    config, more = read_host(said)
    found: tuple[Problem, ...] = (*bad, *problems, *more)
    return config, render(found)


def test_layers_keep_the_order_of_the_file_and_know_their_places(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        '[middleware.auth]\n[middleware.redact-eu]\nuse = "redact"\nentities = ["email"]\n'
        'layer.after = ["auth"]\nlayer.stage = "content"\n',
    )
    assert problems == ""
    auth, redact = config.layers
    assert auth.use == Named("auth", "interpose.toml:1")
    assert redact.use == Named("redact", "interpose.toml:3")
    assert redact.after == (Named("auth", "interpose.toml:5"),)
    assert (redact.stage, redact.required, redact.deadline) == ("content", True, None)


def test_an_overlay_never_moves_a_layer_and_its_new_layers_come_after(tmp_path: Path) -> None:
    config, _ = read(
        tmp_path, "[middleware.a]\n[middleware.b]\n", "[middleware.c]\n[middleware.b]\n"
    )
    assert [layer.id for layer in config.layers] == ["a", "b", "c"]


def test_the_sub_table_layer_has_the_keys_that_the_hints_know() -> None:
    assert tuple(LayerOptions.model_fields) == LAYER_KEYS


def test_a_variable_switches_a_layer_and_sets_its_options(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        "[middleware.rate-limit]\n",
        environ={
            "INTERPOSE__MIDDLEWARE__RATE_LIMIT__ENABLED": "false",
            "INTERPOSE__MIDDLEWARE__RATE_LIMIT__LAYER__DEADLINE": "2.5",
            "INTERPOSE__MIDDLEWARE__RATE_LIMIT__LAYER__BEFORE": '["a"]',
            "INTERPOSE_PORT": "tcp://10.0.0.1:80",
        },
    )
    assert problems == ""
    [layer] = config.layers
    assert not layer.is_on("default")
    assert layer.enabled_place == "INTERPOSE__MIDDLEWARE__RATE_LIMIT__ENABLED"
    assert layer.deadline == 2.5
    assert layer.before == (Named("a", "INTERPOSE__MIDDLEWARE__RATE_LIMIT__LAYER__BEFORE"),)


def test_an_override_is_stronger_than_a_variable(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        "[server]\nport = 1\nheartbeat = 5\n",
        environ={"INTERPOSE__SERVER__PORT": "2", "INTERPOSE__SERVER__HEARTBEAT": "6"},
        options=("server.port=3",),
    )
    assert problems == ""
    assert (config.server.port, config.server.heartbeat) == (3, 6)


def test_agent_is_short_for_the_default_agent_in_every_source(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        '[agents.default]\nuse = "a"\n',
        '[agent]\nuse = "b"\n',
        environ={"INTERPOSE__AGENT__USE": "c"},
    )
    assert problems == ""
    assert [(agent.id, agent.use.name) for agent in config.agents] == [("default", "c")]
    assert config.agents[0].use.place == "INTERPOSE__AGENT__USE"


def test_an_agent_may_switch_a_layer_and_change_its_settings(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        '[agent]\nuse = "scripted"\n[agents.billing]\n[middleware.redact]\n[middleware.log]\n'
        "[agents.billing.middleware.redact]\nenabled = false\n"
        '[agents.billing.middleware.log]\nlevel = "debug"\n',
    )
    assert problems == ""
    redact, log = config.layers
    assert redact.is_on("default")
    assert not redact.is_on("billing")
    assert log.settings_path("default") == ("middleware", "log")
    assert log.settings_path("billing") == ("agents", "billing", "middleware", "log")


def test_a_variable_alone_can_change_a_layers_settings_for_an_agent(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        "[agents.billing]\n[middleware.log]\n",
        environ={"INTERPOSE__AGENTS__BILLING__MIDDLEWARE__LOG__LEVEL": "debug"},
    )
    assert problems == ""
    assert config.layers[0].settings_path("billing") == ("agents", "billing", "middleware", "log")


def test_a_variable_for_an_agent_is_not_taken_for_what_the_agent_itself_uses(
    tmp_path: Path,
) -> None:
    environ = {"INTERPOSE__AGENT__MIDDLEWARE__R__ENABLED": "false"}
    config, problems = read(tmp_path, '[agent]\nuse = "x"\n[middleware.r]\n', environ=environ)
    assert problems == ""
    assert not config.layers[0].is_on("default")


def test_a_layer_serves_the_agents_that_it_names(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path, '[agents.a]\n[agents.b]\n[middleware.log]\nlayer = { agents = ["b"] }\n'
    )
    assert problems == ""
    assert [agent.id for agent in config.agents if config.layers[0].is_on(agent.id)] == ["b"]


def test_choices_and_plugins_know_their_places(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        '[providers.sql]\n[capabilities]\nkey-value = "sql"\nprincipal = "application"\n'
        '[plugins]\nuse = ["models"]\n',
    )
    assert problems == ""
    assert config.capabilities == {
        "key-value": Named("sql", "interpose.toml:3"),
        "principal": Named("application", "interpose.toml:4"),
    }
    assert config.plugins == (Named("models", "interpose.toml:6"),)


def test_a_bad_option_leaves_the_rest_of_the_layer_to_later_phases(tmp_path: Path) -> None:
    config, problems = read(tmp_path, '[middleware.r]\nuse = "redact"\nlayer = { deadline = -1 }\n')
    assert problems
    assert config.layers[0].use == Named("redact", "interpose.toml:2")


WRONG = {
    "unknown top-level key": (
        "[middlewares.redact]\n",
        """\
error[unknown-table]: [middlewares] is not part of the configuration.
  at interpose.toml:1
  fix: Did you mean [middleware]?""",
    ),
    "unknown top-level value": (
        "debug = true\n",
        """\
error[unknown-table]: debug is not part of the configuration.
  at interpose.toml:1
  fix: The tables are middleware, providers, agents, models, capabilities, plugins, host, server.""",
    ),
    "both default agents": (
        '[agent]\nuse = "a"\n[agents.default]\nuse = "b"\n',
        """\
error[two-default-agents]: [agent] is short for [agents.default], and both are given.
  at interpose.toml:1
  at interpose.toml:3
  fix: Keep one of the two.""",
    ),
    "an id with other characters": (
        "[middleware.Rate_Limit]\n",
        """\
error[invalid-id]: [middleware.Rate_Limit]: "Rate_Limit" is no id. An id begins with a lower-case letter and has lower-case letters and digits, in groups joined by "-".
  at interpose.toml:1
  fix: Write [middleware.rate-limit].""",
    ),
    "a middleware's name for an id": (
        '[middleware."guard.budget"]\n',
        """\
error[invalid-id]: [middleware."guard.budget"]: "guard.budget" is no id. An id begins with a lower-case letter and has lower-case letters and digits, in groups joined by "-".
  at interpose.toml:1
  fix: Write [middleware.budget] with use = "guard.budget".""",
    ),
    "a value where a table is due": (
        "[middleware]\nredact = true\n",
        """\
error[not-a-table]: middleware.redact is a boolean, where a table is due.
  at interpose.toml:2
  fix: Write it as a table: [middleware.redact].""",
    ),
    "a section that is no table": (
        "middleware = 3\n",
        """\
error[not-a-table]: middleware is a number, where a table is due.
  at interpose.toml:1
  fix: Write it as a table: [middleware].""",
    ),
    "a string for a list": (
        '[middleware.a.layer]\nbefore = "b"\n',
        """\
error[invalid-setting]: middleware.a.layer.before: it should be a valid list.
  at interpose.toml:2
  fix: before takes list[str]: Layers that this one is further out than.""",
    ),
    "a misspelt option of the host": (
        '[middleware.a.layer]\nbefor = ["b"]\n',
        """\
error[unknown-setting]: middleware.a.layer: there is no setting "befor".
  at interpose.toml:2
  fix: Did you mean "before"?""",
    ),
    "a choice that is not one": (
        '[middleware.a]\nlayer = { on_failure = "ignore" }\n',
        """\
error[invalid-setting]: middleware.a.layer.on_failure: it should be 'fail' or 'skip'.
  at interpose.toml:2
  fix: on_failure takes 'fail' or 'skip': What a failure of the layer does: fail the run, or take the layer out of it.""",
    ),
    "an agent that is not there": (
        '[agents.billing]\n[middleware.a]\nlayer = { agents = ["biling"] }\n',
        """\
error[unknown-agent]: middleware.a.layer.agents: there is no agent "biling".
  at interpose.toml:3
  fix: Did you mean "billing"?""",
    ),
    "an override of no layer": (
        "[middleware.redact]\n[agents.a.middleware.redatc]\nx = 1\n",
        """\
error[unknown-layer]: [agents.a.middleware.redatc] overrides a layer that is not configured.
  at interpose.toml:2
  fix: Did you mean "redact"?""",
    ),
    "an override that cannot serve": (
        '[agents.a]\n[agents.b]\n[middleware.r]\nlayer.agents = ["b"]\n[agents.a.middleware.r]\nx = 1\n',
        """\
error[layer-not-served]: [agents.a.middleware.r] overrides a layer that does not serve the agent "a".
  at interpose.toml:5
  at interpose.toml:3
  fix: Add "a" to agents in the layer's sub-table, or remove the override.""",
    ),
    "another middleware for one agent": (
        '[middleware.r]\n[agents.a.middleware.r]\nuse = "x"\n',
        """\
error[not-per-agent]: agents.a.middleware.r: "use" is the same for all agents.
  at interpose.toml:3
  fix: Set it in [middleware.r], or add a second layer for this agent.""",
    ),
    "a choice of nobody": (
        '[providers.sql]\n[capabilities]\nkey-value = "sqll"\n',
        """\
error[unknown-provider]: capabilities.key-value: nothing is called "sqll".
  at interpose.toml:3
  fix: Did you mean "sql"?""",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place_and_remedy(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    assert read(tmp_path, text)[1] == message


UNKNOWN = {
    "INTERPOSE__SERVR__PORT": """\
error[unknown-variable]: INTERPOSE__SERVR__PORT is not a setting: there is no table [servr].
  at INTERPOSE__SERVR__PORT
  fix: Did you mean INTERPOSE__SERVER__PORT?""",
    "INTERPOSE__SERVER__PROT": """\
error[unknown-variable]: INTERPOSE__SERVER__PROT is not a setting: [server] has no key prot.
  at INTERPOSE__SERVER__PROT
  fix: Did you mean INTERPOSE__SERVER__PORT?""",
    "INTERPOSE__MIDDLEWARE__RATE_LIMT__PER_MINUTE": """\
error[unknown-variable]: INTERPOSE__MIDDLEWARE__RATE_LIMT__PER_MINUTE is not a setting: [middleware.rate-limt] is not configured, and a variable never adds one.
  at INTERPOSE__MIDDLEWARE__RATE_LIMT__PER_MINUTE
  fix: Did you mean INTERPOSE__MIDDLEWARE__RATE_LIMIT__PER_MINUTE?""",
    "INTERPOSE__MIDDLEWARE__CACHE__TTL": """\
error[unknown-variable]: INTERPOSE__MIDDLEWARE__CACHE__TTL is not a setting: [middleware.cache] is not configured, and a variable never adds one.
  at INTERPOSE__MIDDLEWARE__CACHE__TTL
  fix: Add [middleware.cache] to the config file, or remove the variable.""",
    "INTERPOSE__MIDDLEWARE__RATE_LIMIT": """\
error[unknown-variable]: INTERPOSE__MIDDLEWARE__RATE_LIMIT names the table [middleware.rate-limit], not one of its keys.
  at INTERPOSE__MIDDLEWARE__RATE_LIMIT
  fix: Set one key at a time, as INTERPOSE__MIDDLEWARE__RATE_LIMIT__<KEY>.""",
    "INTERPOSE__AGENTS__A__MIDDLEWARE__RATELIMIT__X": """\
error[unknown-variable]: INTERPOSE__AGENTS__A__MIDDLEWARE__RATELIMIT__X is not a setting: [agents.a.middleware.ratelimit] is not configured, and a variable never adds one.
  at INTERPOSE__AGENTS__A__MIDDLEWARE__RATELIMIT__X
  fix: Did you mean INTERPOSE__AGENTS__A__MIDDLEWARE__RATE_LIMIT__X?""",
    "INTERPOSE__SERVER____PORT": """\
error[unknown-variable]: INTERPOSE__SERVER____PORT is not a setting: nothing stands between two of its __.
  at INTERPOSE__SERVER____PORT
  fix: Name it INTERPOSE__<TABLE>__<ID>__<KEY>.""",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_variable_that_is_no_setting_is_an_error(name: str, tmp_path: Path) -> None:
    text = "[agents.a]\n[middleware.rate-limit]\n"
    assert read(tmp_path, text, environ={name: "1"})[1] == UNKNOWN[name]


def test_two_variables_for_one_setting_are_an_error(tmp_path: Path) -> None:
    environ = {"INTERPOSE__AGENT__USE": "a", "INTERPOSE__AGENTS__DEFAULT__USE": "b"}
    assert (
        read(tmp_path, "[agent]\n", environ=environ)[1]
        == """\
error[ambiguous-variable]: INTERPOSE__AGENTS__DEFAULT__USE and INTERPOSE__AGENT__USE set the same setting.
  at INTERPOSE__AGENTS__DEFAULT__USE
  at INTERPOSE__AGENT__USE
  fix: Keep one of the two."""
    )


def test_a_variable_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    assert (
        read(tmp_path, "[server]\nport = 1\n", environ={"INTERPOSE__SERVER__PORT": "http"})[1]
        == """\
error[invalid-setting]: server.port: it should be a valid integer, unable to parse string as an integer.
  at INTERPOSE__SERVER__PORT
  fix: port takes int: The port to listen on; 0 takes a free one."""
    )


def test_an_option_without_a_value_is_an_error_that_hides_what_it_says(tmp_path: Path) -> None:
    assert (
        read(tmp_path, "", options=("server port=hunter2",))[1]
        == """\
error[invalid-override]: --set takes a dotted key and a value.
  at --set server port
  fix: Write it as --set middleware.<id>.<key>=<value>."""
    )
