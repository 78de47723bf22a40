"""What editors and ``interpose config`` are told: the schema of a file, and each value's origin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr

from interpose.authoring import Settings
from interpose.startup.composition import compose
from interpose.startup.configuration import gather
from interpose.startup.files import Source, read_file
from interpose.startup.overrides import from_options
from interpose.startup.part import Part
from interpose.startup.provenance import Setting, origins
from interpose.startup.schema import config_schema


class Window(Settings):
    seconds: int = 60
    token: SecretStr | None = None


class Rate(Settings):
    """Limit how often a consumer may run."""

    keys: list[str] = Field(description="What to count by.")
    window: Window = Window()
    salt: SecretStr
    pepper: SecretStr = SecretStr("grind")
    url: str = "u"
    windows: dict[str, Window] = Field(default={})
    check: Callable[[], int] | None = None


PARTS = [
    Part(("middleware", "rate-limit"), Rate, title="guard.rate"),
    Part(("middleware", "rate-free"), Rate, title="guard.rate"),
    Part(
        ("agents", "billing", "middleware", "rate-limit"),
        Rate,
        base=("middleware", "rate-limit"),
        title="guard.rate",
    ),
    Part(("agents", "billing"), Window, title="remote"),
]


def test_tables_are_described_by_id_and_models_named_after_their_middleware() -> None:
    schema = config_schema(PARTS)
    middleware = schema["properties"]["middleware"]["properties"]
    assert middleware == {
        "rate-limit": {"$ref": "#/$defs/GuardRate"},
        "rate-free": {"$ref": "#/$defs/GuardRate"},
    }
    assert schema["properties"]["agents"]["properties"] == {"billing": {"$ref": "#/$defs/Remote"}}
    assert schema["$defs"]["GuardRate"]["description"] == "Limit how often a consumer may run."


def test_the_hosts_keys_stand_beside_the_plugins() -> None:
    definitions = config_schema(PARTS)["$defs"]
    own = {"keys", "window", "salt", "pepper", "url", "windows", "check"}
    assert set(definitions["GuardRate"]["properties"]) == {"use", "enabled", "layer", *own}
    assert set(definitions["Remote"]["properties"]) == {"use", "middleware", "seconds", "token"}
    override = definitions["Remote"]["properties"]["middleware"]["properties"]["rate-limit"]
    assert override == {"$ref": "#/$defs/GuardRateOverride"}
    assert set(definitions["GuardRateOverride"]["properties"]) == {"enabled", *own}


def test_the_schema_is_of_one_file_so_it_requires_nothing_and_allows_references() -> None:
    rate = config_schema(PARTS)["$defs"]["GuardRate"]
    assert "required" not in rate
    assert rate["additionalProperties"] is False
    assert rate["properties"]["keys"]["description"] == "What to count by."
    forms = rate["properties"]["keys"]["anyOf"]
    assert forms[0]["type"] == "array"
    assert forms[1] == {"$ref": "#/$defs/Reference"}
    assert list(forms[2]["properties"]) == ["$append"]


def test_an_inactive_plugins_layer_may_have_any_setting() -> None:
    schema = config_schema([])
    assert schema["properties"]["middleware"]["additionalProperties"] == {
        "$ref": "#/$defs/LayerTable"
    }
    assert schema["$defs"]["LayerTable"]["additionalProperties"] is True
    assert schema["additionalProperties"] is False


def test_every_reference_of_the_schema_leads_somewhere() -> None:
    schema = config_schema(PARTS)

    def refs(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if "$ref" in node else set()
            return own.union(*(refs(value) for value in node.values()))
        return set().union(*map(refs, node)) if isinstance(node, list) else set()

    assert refs(schema) <= {f"#/$defs/{name}" for name in schema["$defs"]}


def test_each_value_has_its_origin_and_no_secret_is_shown(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_text(
        '[middleware.rate-limit]\nkeys = ["a"]\nsalt = "hunter2"\nurl = { "$env" = "URL" }\n'
        "[middleware.rate-limit.window]\nseconds = 1\n"
        '[middleware.rate-limit.windows.night]\ntoken = "hunter5"\n'
    )
    source = read_file("interpose.toml", folder=tmp_path)
    assert isinstance(source, Source)
    options, _ = from_options(["middleware.rate-limit.window.token=hunter3"], folder=tmp_path)
    said, _ = gather(
        [source],
        options,
        environ={
            "URL": "https://hunter4",
            "INTERPOSE__MIDDLEWARE__RATE_LIMIT__WINDOW__SECONDS": "2",
        },
    )
    parts = PARTS[:1]
    composition = compose(parts, said)
    path = "middleware.rate-limit."
    assert origins(parts, composition) == [
        Setting(f"{path}keys", '["a"]', "interpose.toml:2"),
        Setting(f"{path}window.seconds", "2", "INTERPOSE__MIDDLEWARE__RATE_LIMIT__WINDOW__SECONDS"),
        Setting(f"{path}window.token", "***", "--set middleware.rate-limit.window.token"),
        Setting(f"{path}salt", "***", "interpose.toml:3"),
        Setting(f"{path}pepper", "***", "default"),
        Setting(f"{path}url", "***", "interpose.toml:4"),
        Setting(f"{path}windows.night.seconds", "60", "default"),
        Setting(f"{path}windows.night.token", "***", "interpose.toml:8"),
        Setting(f"{path}check", "null", "default"),
    ]
    assert "hunter" not in repr(composition)


def test_a_set_is_shown_in_the_same_order_by_every_process() -> None:
    class Words(Settings):
        words: frozenset[str] = frozenset({"cc", "a", "b", "dd"})

    said, _ = gather([], [], environ={})
    parts = [Part(("middleware", "mask"), Words)]
    [setting] = origins(parts, compose(parts, said))
    assert setting.value == '["a", "b", "cc", "dd"]'


def test_the_string_below_a_setting_describes_it() -> None:
    class Words(Settings):
        words: int = 3
        """How many words a line may have."""

    schema = config_schema([Part(("middleware", "mask"), Words, title="mask")])
    assert (
        schema["$defs"]["Mask"]["properties"]["words"]["description"]
        == "How many words a line may have."
    )
