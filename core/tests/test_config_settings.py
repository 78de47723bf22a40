"""From files, variables and overrides to validated settings; every mistake with its whole message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from interpose.authoring import Settings
from interpose.errors import Problem, render
from interpose.startup.composition import Composition, compose
from interpose.startup.configuration import gather
from interpose.startup.files import Source, read_file
from interpose.startup.hostconfig import settings_parts
from interpose.startup.hostreading import read_host
from interpose.startup.overrides import from_mapping, from_options
from interpose.startup.part import Part
from interpose.startup.secrecy import redact
from interpose.startup.settings_rules import settings_faults


class Redact(Settings):
    entities: list[str] = Field(default=["email"])
    max_hold: int = Field(default=256, description="Characters to hold back.")
    key: SecretStr | None = None


class Remote(Settings):
    url: str
    headers: dict[str, str] = Field(default={})


class Vault(Settings):
    token: SecretStr
    user: SecretStr
    region: str

    @field_validator("token")
    @classmethod
    def check(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith("tok-"):
            raise ValueError(f"{value.get_secret_value()!r} is no token")
        return value


MODELS: dict[str, type[BaseModel]] = {"redact": Redact, "remote": Remote, "vault": Vault}


class Said:
    """What a set of sources comes to: settings of every layer and agent, and the problems."""

    def __init__(
        self,
        folder: Path,
        *texts: str,
        environ: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
        overrides: Mapping[str, Any] | None = None,
        models: Mapping[str, type[BaseModel]] = MODELS,
    ) -> None:
        sources = []
        for name, text in zip(("interpose.toml", "b.toml", "c.toml"), texts, strict=False):
            (folder / name).write_text(text)
            source = read_file(name, folder=folder)
            assert isinstance(source, Source), source
            sources.append(source)
        asked, bad = from_options(options, folder=folder)
        stronger = [*asked]
        if overrides:
            stronger.append(from_mapping(overrides, name="Host(overrides)", folder=folder))
        said, problems = gather(sources, stronger, environ=environ or {})
        config, more = read_host(said)
        agents = [agent.id for agent in config.agents] or ["default"]
        classes = {layer.id: models[layer.use.name] for layer in config.layers}
        parts = settings_parts(config, agents, classes)
        parts += [
            Part(each.path, models[each.use.name])
            for each in config.agents
            if each.use.name in models
        ]
        self.composition: Composition = compose(parts, said)
        found: tuple[Problem, ...] = (*bad, *problems, *more, *self.composition.problems)
        self.problems = render(found)

    def settings(self, *path: str) -> Any:
        assert self.problems == ""
        return self.composition.settings[path]


# --- precedence and merging


def test_sources_win_in_order_and_tables_merge_per_key(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        '[agents.a]\nuse = "remote"\nurl = "file"\nheaders = { x = "file", y = "file", z = "file" }\n',
        '[agents.a.headers]\ny = "overlay"\nz = "overlay"\nw = "overlay"\n',
        environ={
            "INTERPOSE__AGENTS__A__HEADERS__Z": "variable",
            "INTERPOSE__AGENTS__A__HEADERS__W": "v",
        },
        options=("agents.a.headers.w=option",),
    )
    assert said.settings("agents", "a").headers == {
        "x": "file",
        "y": "overlay",
        "z": "variable",
        "w": "option",
    }


def test_overrides_in_code_are_as_strong_as_options(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        "[middleware.redact]\nmax_hold = 1\n",
        environ={"INTERPOSE__MIDDLEWARE__REDACT__MAX_HOLD": "2"},
        overrides={"middleware": {"redact": {"max_hold": 3}}},
    )
    assert said.settings("middleware", "redact").max_hold == 3


def test_lists_are_replaced_and_extended_on_request(tmp_path: Path) -> None:
    base = '[middleware.redact]\nentities = ["email"]\n'
    replaced = Said(tmp_path, base, '[middleware.redact]\nentities = ["card"]\n')
    assert replaced.settings("middleware", "redact").entities == ["card"]
    extended = Said(
        tmp_path,
        base,
        '[middleware.redact]\nentities = { "$append" = ["card"] }\n',
        '[middleware.redact]\nentities = { "$append" = ["iban"] }\n',
    )
    assert extended.settings("middleware", "redact").entities == ["email", "card", "iban"]


def test_an_append_extends_what_a_variable_says_too(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        "[middleware.redact]\n",
        environ={"INTERPOSE__MIDDLEWARE__REDACT__ENTITIES": '["ip"]'},
        options=('middleware.redact.entities={"$append"=["card"]}',),
    )
    assert said.settings("middleware", "redact").entities == ["ip", "card"]


def test_an_append_to_nothing_is_the_list(tmp_path: Path) -> None:
    said = Said(tmp_path, '[middleware.redact]\nentities = { "$append" = ["card"] }\n')
    assert said.settings("middleware", "redact").entities == ["card"]


def test_a_value_of_another_kind_replaces_the_weaker_one_as_a_whole(tmp_path: Path) -> None:
    class Limits(Settings):
        limit: int | dict[str, int]

    said = Said(
        tmp_path,
        '[middleware.l]\nuse = "limits"\nlimit = { a = 1 }\n',
        "[middleware.l]\nlimit = 5\n",
        models={"limits": Limits},
    )
    assert said.settings("middleware", "l").limit == 5


def test_a_variable_says_dashes_and_capitals_as_the_file_spells_them(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        '[agents.a]\nuse = "remote"\nurl = "u"\nheaders = { X-Tenant = "file" }\n',
        environ={"INTERPOSE__AGENTS__A__HEADERS__X_TENANT": "variable"},
    )
    assert said.settings("agents", "a").headers == {"X-Tenant": "variable"}


class Server(Settings):
    url: str = "none"
    tools: tuple[str, ...] = ()
    headers: Mapping[str, SecretStr] = Field(default={})


class Servers(Settings):
    servers: Mapping[str, Server]


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("DOCS__TOOLS", '["one", "two"]', {"tools": ("one", "two")}),
        ("DOCS__HEADERS", '{"X-Key": "1"}', {"headers": {"X-Key": SecretStr("1")}}),
        ("DOCS__HEADERS__KEY", '["1"]', {"headers": {"key": SecretStr('["1"]')}}),
        ("DOCS__HEADERS__KEY", "123", {"headers": {"key": SecretStr("123")}}),
        ("DOCS", '{"tools": ["one"]}', {"tools": ("one",)}),
    ],
)
def test_a_variable_reaches_into_a_table_of_tables(
    variable: str, text: str, said: dict[str, Any], tmp_path: Path
) -> None:
    found = Said(
        tmp_path,
        '[middleware.a]\nuse = "many"\nservers.docs.url = "u"\n',
        environ={f"INTERPOSE__MIDDLEWARE__A__SERVERS__{variable}": text},
        models={"many": Servers},
    )
    server = found.settings("middleware", "a").servers["docs"]
    assert server.model_dump(exclude_unset=True) == {"url": "u", **said}


def test_an_id_may_be_a_word_that_models_use_themselves(tmp_path: Path) -> None:
    ids = ("copy", "json", "model-config", "model-fields", "class", "schema")
    said = Said(
        tmp_path,
        "".join(f'[middleware.{each}]\nuse = "redact"\n' for each in ids),
        environ={"INTERPOSE__MIDDLEWARE__MODEL_CONFIG__MAX_HOLD": "1"},
    )
    assert said.settings("middleware", "model-config").max_hold == 1
    assert said.settings("middleware", "copy").max_hold == 256


def test_an_agents_own_settings_start_from_the_layers(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        "[agents.default]\n[agents.billing]\n"
        '[middleware.redact]\nentities = ["card"]\nmax_hold = 1\n'
        "[agents.billing.middleware.redact]\nmax_hold = 2\n",
        environ={"INTERPOSE__MIDDLEWARE__REDACT__ENTITIES": '["ip"]'},
    )
    assert said.settings("middleware", "redact") == Redact(entities=["ip"], max_hold=1)
    own = said.settings("agents", "billing", "middleware", "redact")
    assert own == Redact(entities=["ip"], max_hold=2)


def test_settings_are_instances_of_the_plugins_class_frozen_and_closed(tmp_path: Path) -> None:
    class Loose(BaseModel):
        x: int = 1

    said = Said(tmp_path, "[middleware.loose]\n", models={"loose": Loose})
    found = said.settings("middleware", "loose")
    assert isinstance(found, Loose)
    with pytest.raises(ValueError, match="frozen"):
        found.x = 2
    wrong = Said(tmp_path, "[middleware.loose]\ny = 1\n", models={"loose": Loose})
    assert 'there is no setting "y"' in wrong.problems


def test_an_instance_from_code_is_kept_unless_another_source_speaks(tmp_path: Path) -> None:
    instance = Redact(max_hold=5, entities=["ip"])
    part = Part(("middleware", "r"), Redact, given=instance)
    code = from_mapping({"middleware": {"r": {}}}, name="Host(layers)", folder=tmp_path)
    said, _ = gather([code], environ={})
    assert compose([part], said).settings[part.path] is instance
    said, _ = gather([code], environ={"INTERPOSE__MIDDLEWARE__R__MAX_HOLD": "6"})
    assert compose([part], said).settings[part.path] == Redact(max_hold=6, entities=["ip"])


# --- references


def test_any_value_may_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://x\n")
    said = Said(
        tmp_path,
        '[agents.a]\nuse = "remote"\nurl = { "$file" = "url" }\n'
        'headers = { authorization = { "$env" = "AUTH" } }\n'
        '[middleware.redact]\nentities = ["email", { "$env" = "MORE" }]\n',
        environ={"AUTH": "Bearer t", "MORE": "card"},
    )
    assert said.settings("agents", "a") == Remote(
        url="https://x", headers={"authorization": "Bearer t"}
    )
    assert said.settings("middleware", "redact").entities == ["email", "card"]


def test_a_relative_file_is_looked_up_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "key").write_text("k\r\n")
    (tmp_path / "conf" / "b.toml").write_text('[middleware.redact]\nkey = { "$file" = "key" }\n')
    source = read_file("conf/b.toml", folder=tmp_path)
    assert isinstance(source, Source)
    said, _ = gather([source], environ={})
    composition = compose([Part(("middleware", "redact"), Redact)], said)
    found = composition.settings["middleware", "redact"]
    assert isinstance(found, Redact)
    assert found.key == SecretStr("k")


def test_a_reference_that_an_overlay_replaces_need_not_exist(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        '[middleware.redact]\nkey = { "$env" = "PRODUCTION_KEY" }\n',
        '[middleware.redact]\nkey = "dev"\n',
    )
    assert said.settings("middleware", "redact").key == SecretStr("dev")


def test_a_layer_that_is_off_needs_neither_its_references_nor_its_settings(tmp_path: Path) -> None:
    said = Said(tmp_path, '[middleware.vault]\nenabled = false\ntoken = { "$env" = "NO" }\n')
    assert said.problems == ""


# --- mistakes


WRONG: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "wrong type in a table": (
        ('[middleware.redact]\nmax_hold = "many"\n',),
        {},
        """\
error[invalid-setting]: middleware.redact.max_hold: it should be a valid integer, unable to parse string as an integer.
  at interpose.toml:2
  fix: max_hold takes int: Characters to hold back.""",
    ),
    "wrong type in a list": (
        ('[middleware.redact]\nentities = [\n  "email",\n  5,\n]\n',),
        {},
        """\
error[invalid-setting]: middleware.redact.entities[1]: it should be a valid string.
  at interpose.toml:4
  fix: entities takes list[str].""",
    ),
    "wrong type in a variable": (
        ("[middleware.redact]\n",),
        {"INTERPOSE__MIDDLEWARE__REDACT__MAX_HOLD": "many"},
        """\
error[invalid-setting]: middleware.redact.max_hold: it should be a valid integer, unable to parse string as an integer.
  at INTERPOSE__MIDDLEWARE__REDACT__MAX_HOLD
  fix: max_hold takes int: Characters to hold back.""",
    ),
    "bad JSON in a variable": (
        ("[middleware.redact]\n",),
        {"INTERPOSE__MIDDLEWARE__REDACT__ENTITIES": "email,card"},
        """\
error[invalid-variable]: INTERPOSE__MIDDLEWARE__REDACT__ENTITIES is not valid JSON: Expecting value (column 1).
  at INTERPOSE__MIDDLEWARE__REDACT__ENTITIES
  fix: Write a list as '["a", "b"]' and a table as '{"key": "value"}', or set one key of the table.""",
    ),
    "unknown variable": (
        ("[middleware.redact]\n",),
        {"INTERPOSE__MIDDLEWARE__REDACT__MAXHOLD": "1"},
        """\
error[unknown-variable]: INTERPOSE__MIDDLEWARE__REDACT__MAXHOLD is not a setting: [middleware.redact] has no key maxhold.
  at INTERPOSE__MIDDLEWARE__REDACT__MAXHOLD
  fix: Did you mean INTERPOSE__MIDDLEWARE__REDACT__MAX_HOLD?""",
    ),
    "misspelt setting": (
        ('[middleware.redact]\nentites = ["email"]\n',),
        {},
        """\
error[unknown-setting]: middleware.redact: there is no setting "entites".
  at interpose.toml:2
  fix: Did you mean "entities"?""",
    ),
    "misspelt key of the host": (
        ("[middleware.redact]\nenabeld = false\n",),
        {},
        """\
error[unknown-setting]: middleware.redact: there is no setting "enabeld".
  at interpose.toml:2
  fix: Did you mean "enabled"?""",
    ),
    "option of the host in the wrong table": (
        ('[middleware.redact]\nafter = ["auth"]\n',),
        {},
        """\
error[unknown-setting]: middleware.redact: there is no setting "after".
  at interpose.toml:2
  fix: The host's options stand in a sub-table: layer = { after = ... }.""",
    ),
    "nested table": (
        (
            '[middleware.vault]\ntoken = "tok-1"\nuser = "u"\nregion = "r"\n[middleware.vault.budget]\nmax = 1\n',
        ),
        {},
        """\
error[unknown-setting]: middleware.vault: there is no setting "budget".
  at interpose.toml:5
  fix: Each layer has a table of its own. If the middleware vault.budget is meant:
       [middleware.budget]
       use = "vault.budget\"""",
    ),
    "unknown setting near none": (
        ("[middleware.redact]\nzzz = 1\n",),
        {},
        """\
error[unknown-setting]: middleware.redact: there is no setting "zzz".
  at interpose.toml:2
  fix: The settings are entities, max_hold, key.""",
    ),
    "wrong type below a table of the operator's own keys": (
        ('[agents.a]\nuse = "remote"\nurl = "u"\nheaders = { accept = 5 }\n',),
        {},
        """\
error[invalid-setting]: agents.a.headers.accept: it should be a valid string.
  at interpose.toml:4
  fix: headers takes dict[str, str].""",
    ),
    "missing key": (
        ('[agents.a]\n# the agent\nuse = "remote"\n',),
        {},
        """\
error[missing-setting]: agents.a: the required setting "url" is missing.
  at interpose.toml:1
  fix: Add url = ... to [agents.a], or set INTERPOSE__AGENTS__A__URL.""",
    ),
    "missing secret beside others, one quoted by its validator": (
        ('[middleware.vault]\ntoken = "hunter2"\nregion = "eu"\n',),
        {},
        """\
error[invalid-setting]: middleware.vault.token: '***' is no token.
  at interpose.toml:2
  fix: token takes secret text.

error[missing-setting]: middleware.vault: the required setting "user" is missing.
  at interpose.toml:1
  fix: Add user = { "$env" = "<VARIABLE>" } to [middleware.vault], or set INTERPOSE__MIDDLEWARE__VAULT__USER.""",
    ),
    "secret from a variable, quoted by its validator": (
        ('[middleware.vault]\nuser = "u"\nregion = "eu"\n',),
        {"INTERPOSE__MIDDLEWARE__VAULT__TOKEN": "hunter2"},
        """\
error[invalid-setting]: middleware.vault.token: '***' is no token.
  at INTERPOSE__MIDDLEWARE__VAULT__TOKEN
  fix: token takes secret text.""",
    ),
    "$env that is not set": (
        ('[agents.a]\nuse = "remote"\nurl = { "$env" = "BILING_URL" }\n',),
        {"BILLING_URL": "https://secret"},
        """\
error[missing-variable]: agents.a.url: the environment variable BILING_URL is not set.
  at interpose.toml:3
  fix: Set BILING_URL, or name BILLING_URL if that is meant.""",
    ),
    "$env of the wrong shape": (
        ('[agents.a]\nuse = "remote"\nurl = { "$env" = "URL", default = "x" }\n',),
        {},
        """\
error[invalid-reference]: agents.a.url: "$env" stands alone in its table, here beside "default".
  at interpose.toml:3
  fix: Write { "$env" = "NAME" }, { "$file" = "path" } or { "$append" = [...] }.""",
    ),
    "$env that is no string": (
        ('[agents.a]\nuse = "remote"\nurl = { "$env" = 5 }\n',),
        {},
        """\
error[invalid-reference]: agents.a.url: "$env" takes the name of a variable, as a string.
  at interpose.toml:3
  fix: Write { "$env" = "NAME" }, { "$file" = "path" } or { "$append" = [...] }.""",
    ),
    "$append to what is no list": (
        (
            "[middleware.redact]\nmax_hold = 1\n",
            '[middleware.redact]\nmax_hold = { "$append" = [2] }\n',
        ),
        {},
        """\
error[invalid-reference]: middleware.redact.max_hold: "$append" extends a list, but interpose.toml:2 says a number.
  at b.toml:2
  fix: Write { "$env" = "NAME" }, { "$file" = "path" } or { "$append" = [...] }.""",
    ),
    "two problems in two files": (
        ('[middleware.redact]\nmax_hold = "many"\n', "[middleware.redact]\n\nentities = 5\n"),
        {},
        """\
error[invalid-setting]: middleware.redact.entities: it should be a valid list.
  at b.toml:3
  fix: entities takes list[str].

error[invalid-setting]: middleware.redact.max_hold: it should be a valid integer, unable to parse string as an integer.
  at interpose.toml:2
  fix: max_hold takes int: Characters to hold back.""",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place_and_remedy(name: str, tmp_path: Path) -> None:
    texts, environ, message = WRONG[name]
    assert Said(tmp_path, *texts, environ=environ).problems == message


def test_a_file_that_a_setting_names_must_exist(tmp_path: Path) -> None:
    said = Said(tmp_path, '[agents.a]\nuse = "remote"\nurl = { "$file" = "secrets/db" }\n')
    assert (
        said.problems
        == f"""\
error[missing-file]: agents.a.url: the file secrets/db does not exist.
  at interpose.toml:3
  fix: Provide {tmp_path}/secrets/db; a relative path starts at the folder of the config file."""
    )


def test_a_missing_reference_hides_no_other_problem_and_causes_none(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        '[middleware.vault]\ntoken = { "$env" = "T" }\nuser = ["u"]\nregion = "eu"\n'
        '[middleware.redact]\nentities = ["a", { "$env" = "E" }]\n',
    )
    assert [line for line in said.problems.splitlines() if line.startswith("error")] == [
        "error[missing-variable]: middleware.vault.token: the environment variable T is not set.",
        "error[missing-variable]: middleware.redact.entities[1]: the environment variable E is not set.",
        "error[invalid-setting]: middleware.vault.user: it should be a valid string.",
    ]


def test_a_list_of_which_an_item_is_missing_is_not_judged(tmp_path: Path) -> None:
    class Two(Settings):
        items: list[str] = Field(min_length=2)

    said = Said(
        tmp_path,
        '[middleware.two]\nitems = [{ "$env" = "B" }, "a", 5]\n',
        models={"two": Two},
    )
    assert said.problems.count("error[") == 1
    assert said.composition.settings == {}


def test_a_part_that_misses_even_an_optional_value_has_no_settings(tmp_path: Path) -> None:
    said = Said(tmp_path, '[middleware.redact]\nkey = { "$env" = "KEY" }\n')
    assert said.problems.count("error[") == 1
    assert said.composition.settings == {}


def test_a_missing_key_is_reported_where_its_table_was_first_written(tmp_path: Path) -> None:
    said = Said(tmp_path, '\n[agents.a]\nuse = "remote"\n', "[agents.a]\nheaders.x = 'y'\n")
    assert "\n  at interpose.toml:2\n" in said.problems


def test_a_union_within_a_union_is_one_problem(tmp_path: Path) -> None:
    class Deep(Settings):
        limit: int | dict[str, int | list[int]]

    said = Said(tmp_path, '[middleware.deep]\nlimit = { a = "x" }\n', models={"deep": Deep})
    assert (
        said.problems
        == """\
error[invalid-setting]: middleware.deep.limit fits none of its forms:
  it should be a valid integer.
  a: it should be a valid integer, unable to parse string as an integer.
  a: it should be a valid list.
  at interpose.toml:2
  fix: limit takes int or dict[str, int or list[int]]."""
    )


def test_a_union_is_one_problem_with_a_line_for_each_form(tmp_path: Path) -> None:
    class Window(Settings):
        seconds: int

    class Rate(Settings):
        limit: int | list[int] | Window

    said = Said(tmp_path, "[middleware.rate]\nlimit = { second = 5 }\n", models={"rate": Rate})
    assert (
        said.problems
        == """\
error[invalid-setting]: middleware.rate.limit fits none of its forms:
  it should be a valid integer.
  it should be a valid list.
  "seconds" is missing.
  there is no "second".
  at interpose.toml:2
  fix: limit takes int or list[int] or Window."""
    )


def test_the_branch_of_a_tagged_union_is_no_part_of_the_path(tmp_path: Path) -> None:
    class Pattern(Settings):
        type: Literal["pattern"]
        regex: str

    class Word(Settings):
        type: Literal["word"]

    class Rules(Settings):
        rules: list[Annotated[Pattern | Word, Field(discriminator="type")]]

    said = Said(
        tmp_path,
        '[middleware.rules]\n[[middleware.rules.rules]]\ntype = "word"\n'
        '[[middleware.rules.rules]]\ntype = "pattern"\nregx = "a"\n',
        models={"rules": Rules},
    )
    assert (
        said.problems
        == """\
error[missing-setting]: middleware.rules.rules[1]: the required setting "regex" is missing.
  at interpose.toml:4
  fix: Add regex = ... there.

error[unknown-setting]: middleware.rules.rules[1]: there is no setting "regx".
  at interpose.toml:6
  fix: Did you mean "regex"?"""
    )


def test_a_check_of_the_whole_table_is_placed_at_its_header(tmp_path: Path) -> None:
    class Either(Settings):
        a: str | None = None

        @model_validator(mode="after")
        def check(self) -> Either:
            raise ValueError("one of a and b must be given")

    said = Said(tmp_path, "\n[middleware.either]\n", models={"either": Either})
    assert (
        said.problems
        == """\
error[invalid-setting]: middleware.either: one of a and b must be given.
  at interpose.toml:2
  fix: Correct the value."""
    )


def test_a_problem_of_a_layer_is_not_repeated_for_each_agent(tmp_path: Path) -> None:
    said = Said(
        tmp_path,
        "[agents.a]\n[agents.b]\n[middleware.vault]\nmax = 1\n"
        '[agents.a.middleware.vault]\nregion = "a"\n[agents.b.middleware.vault]\nregion = "b"\n',
    )
    assert said.problems.count("unknown-setting") == 1
    assert said.problems.count("missing-setting") == 2


def test_a_validator_that_crashes_is_a_problem_that_shows_no_secret(tmp_path: Path) -> None:
    class Crash(Settings):
        key: SecretStr

        @field_validator("key")
        @classmethod
        def check(cls, value: SecretStr) -> SecretStr:
            raise KeyError(value.get_secret_value())

    said = Said(tmp_path, '[middleware.crash]\nkey = "hunter2"\n', models={"crash": Crash})
    assert (
        said.problems
        == """\
error[settings-crashed]: middleware.crash: test_a_validator_that_crashes_is_a_problem_that_shows_no_secret.<locals>.Crash failed with KeyError: '***'.
  at interpose.toml:1
  fix: This is a defect of the plugin: its validators may raise only ValueError."""
    )


def test_a_secret_of_one_part_is_masked_in_the_messages_of_all(tmp_path: Path) -> None:
    class Quote(Settings):
        x: str

        @field_validator("x")
        @classmethod
        def check(cls, value: str) -> str:
            raise ValueError(f"it saw {value!r}")

    said = Said(
        tmp_path,
        '[middleware.quote]\nx = { "$env" = "X" }\n'
        '[middleware.again]\nuse = "quote"\nx = "it\'s \\"hunter2\\""\n',
        environ={"X": 'it\'s "hunter2"'},
        models={"quote": Quote},
    )
    assert said.problems.count("it saw '***'.") == 2
    assert "hunter2" not in said.problems


def test_a_number_set_for_text_is_told_to_be_quoted(tmp_path: Path) -> None:
    said = Said(tmp_path, '[agents.a]\nuse = "remote"\n', options=("agents.a.url=42",))
    assert (
        said.problems
        == """\
error[invalid-setting]: agents.a.url: it should be a valid string.
  at --set agents.a.url
  fix: Quote a value that is text: agents.a.url='"..."'."""
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text("ab'\"\\\n é", min_size=4, max_size=8), min_size=1, max_size=3))
def test_no_quoted_form_of_a_secret_is_left(secrets: list[str]) -> None:
    forms = [(repr(each)[1:-1], json.dumps(each)[1:-1], each) for each in secrets]
    left = redact(" ".join(f"'{one}', \"{two}\", ({three})" for one, two, three in forms), secrets)
    assert not any(form in left for each in forms for form in each)


def test_a_short_secret_is_masked_as_a_word_only() -> None:
    assert redact("it should be 'it'", {"it"}) == "*** should be '***'"
    assert redact("an item of it.", {"it"}) == "an item of ***."


words = st.sampled_from(
    ["middleware", "agents", "agent", "host", "capabilities", "plugins", "a", "B", "use", "enabled",
     "layer", "before", "$env", "$file", "$append", "entities", "max_hold"]
)  # fmt: skip
anything = st.recursive(
    st.text(max_size=3) | st.integers() | st.booleans() | st.just("redact"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
variables = st.builds(
    lambda parts: "INTERPOSE__" + "__".join(parts),
    st.lists(words.map(str.upper) | st.just(""), max_size=5),
)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(words, anything, max_size=4),
    st.dictionaries(words, anything, max_size=4),
    st.dictionaries(variables, st.sampled_from(["", "1", "x", "[1]", "{"]), max_size=3),
)
def test_whatever_is_said_the_answer_is_settings_or_problems(
    base: dict[str, Any], overrides: dict[str, Any], environ: dict[str, str]
) -> None:
    folder = Path("/nowhere")
    weak = from_mapping(base, name="base", folder=folder)
    strong = from_mapping(overrides, name="overrides", folder=folder)
    said, problems = gather([weak], [strong], environ=environ)
    config, more = read_host(said)
    agents = [agent.id for agent in config.agents]
    parts = settings_parts(config, agents, {layer.id: Redact for layer in config.layers})
    composition = compose(parts, said)
    valid = set(composition.settings) == {part.path for part in parts}
    assert valid or composition.problems
    render((*problems, *more, *composition.problems))


# --- what a settings class may be


def test_a_settings_class_that_a_file_could_not_address_is_refused() -> None:
    class Open(BaseModel):
        x: int = 1

    class Bad(Settings):
        use: str = ""
        a__b: int = 1
        rules: list[Open] = Field(default=[])

    name = "test_a_settings_class_that_a_file_could_not_address_is_refused.<locals>."
    assert settings_faults(Bad, "middleware") == [
        f'{name}Bad has a field "use", a key that the host owns',
        f'{name}Bad has a field "a__b"; "__" separates the segments of variables',
        f"{name}Open, nested in {name}Bad, accepts unknown keys; derive it from interpose.Settings",
    ]
    assert settings_faults(Redact, "middleware") == []
