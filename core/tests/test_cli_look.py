"""The commands that look at a configuration or at the installation, and start nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import CommandLine

from interpose import __version__

Install = Callable[..., Path]

LAYERS = """
    from pydantic import SecretStr
    from interpose import Middleware, Settings, Stage

    class KeySettings(Settings):
        key: SecretStr
        size: int = 3

    class Gate(Middleware[KeySettings]):
        stage = Stage.EDGE
        before = ("tint",)

    class Tint(Middleware):
        def on_event(self, ctx, event):
            return event
    """
TOML = """
    [agent]
    use = "scripted"

    [middleware.tint]
    use = "looking_layers:Tint"

    [middleware.gate]
    use = "looking_layers:Gate"
    key = "swordfish"
    """


@pytest.fixture
def layered(cli: CommandLine) -> CommandLine:
    cli.write(LAYERS, "looking_layers.py")
    cli.write(TOML)
    return cli


# plan and why ----------------------------------------------------------------------------------


def test_a_plan_is_text_json_or_a_chart(layered: CommandLine) -> None:
    text = layered("plan")
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("Plan for agent default (scripted)\n")
    assert text.out.index("1. gate") < text.out.index("2. tint")
    assert "\x1b" not in text.out
    plan = json.loads(layered("plan", "--format", "json").out)
    assert [layer["id"] for layer in plan["layers"]] == ["gate", "tint"]
    assert layered("plan", "default", "--format", "mermaid").out.startswith("flowchart TB\n")


def test_a_plan_is_coloured_only_on_a_terminal_without_no_color(
    layered: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[1mgate" in layered("plan").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in layered("plan").out
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in layered("plan").out


def test_problems_are_coloured_only_on_a_terminal(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli("plan").err.startswith("1 problem at startup\n\nerror[no-config]: ")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "\x1b[1;31merror[no-config]\x1b[0m: " in cli("plan").err


def test_a_plan_of_an_agent_that_is_not_there(layered: CommandLine) -> None:
    outcome = layered("plan", "defalt")
    assert outcome.code == 2
    assert outcome.err == "error[usage]: There is no agent defalt.\n  fix: Did you mean default?\n"


def test_why_explains_two_layers(layered: CommandLine) -> None:
    outcome = layered("why", "tint", "gate")
    assert outcome.code == 0
    assert outcome.out.startswith("gate (1.) is outside tint (2.)\n")
    missing = layered("why", "tint", "gat")
    assert missing.code == 2
    assert missing.err == (
        "error[usage]: the plan for agent default has no layer gat\n  fix: did you mean gate?\n"
    )


# check -----------------------------------------------------------------------------------------


def test_check_says_ok_and_what_it_looked_at(layered: CommandLine) -> None:
    outcome = layered("check")
    assert outcome.code == 0
    assert outcome.out == "ok: interpose.toml: agent default with 2 layers\n"
    assert outcome.err == ""


def test_check_shows_warnings_and_is_still_ok(cli: CommandLine) -> None:
    cli.write(
        """
        [agent]
        use = "scripted"
        [middleware.lost]
        use = "lost_layers:Lost"
        layer = { required = false }
        """
    )
    outcome = cli("check")
    assert outcome.code == 0
    assert outcome.out.startswith("warning[failed-import]: lost_layers:Lost cannot be imported")
    assert outcome.out.endswith("\n\nok: interpose.toml: agent default with 0 layers\n")
    report = json.loads(cli("check", "--json").out)
    assert report["ok"] is True
    assert [problem["severity"] for problem in report["problems"]] == ["warning"]


def test_check_writes_problems_as_json(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n[middlewares]\n')
    outcome = cli("check", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out) == {
        "ok": False,
        "problems": [
            {
                "code": "unknown-table",
                "message": "[middlewares] is not part of the configuration.",
                "where": ["interpose.toml:3"],
                "hint": "Did you mean [middleware]?",
                "severity": "error",
            }
        ],
    }


# config and schema -----------------------------------------------------------------------------


def test_config_shows_each_value_with_its_origin_and_no_secret(
    layered: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERPOSE__MIDDLEWARE__GATE__SIZE", "5")
    layered.write("[host]\nstrict = true\n", "over.toml")
    argv = ("--config", "interpose.toml", "--config", "over.toml", "--set", "agent.delay=0.5")
    outcome = layered("config", *argv)
    assert outcome.code == 0
    lines = {line.split(" = ")[0]: line.split(" = ")[1] for line in outcome.out.splitlines()}
    assert lines["middleware.gate.key"].split() == ["***", "#", "interpose.toml:9"]
    assert lines["middleware.gate.size"].split() == [
        "5",
        "#",
        "INTERPOSE__MIDDLEWARE__GATE__SIZE",
    ]
    assert lines["host.strict"].split() == ["true", "#", "over.toml:2"]
    assert lines["agents.default.delay"].split("#")[1] == " --set agent.delay"
    assert lines["host.ending_deadline"].split() == ["10.0", "#", "default"]
    assert "swordfish" not in outcome.out
    as_json = layered("config", "--json", *argv).out
    assert "swordfish" not in as_json
    told = {each["path"]: (each["value"], each["origin"]) for each in json.loads(as_json)}
    assert told["host.strict"] == (True, "over.toml:2")
    assert told["agents.default.use"] == ("scripted", "interpose.toml:2")
    assert told["middleware.gate.key"] == ("***", "interpose.toml:9")


def test_the_schema_describes_the_active_plugins(layered: CommandLine) -> None:
    schema = json.loads(layered("schema").out)
    assert set(schema["properties"]["middleware"]["properties"]) == {"tint", "gate"}


def test_a_schema_comes_before_the_first_file(cli: CommandLine) -> None:
    outcome = cli("schema")
    assert outcome.code == 0
    assert "host" in json.loads(outcome.out)["properties"]


# plugins and doctor ----------------------------------------------------------------------------


def test_plugins_lists_what_is_installed_and_how_to_switch_it_on(
    cli: CommandLine, install: Install
) -> None:
    install("acme-tint", "1.2", plugins={"tint": "acme_never_imported"})
    install(
        "acme-store",
        plugins={"store": "acme_never_imported:store"},
        offers={"capability.key-value": "acme_never_imported:store"},
    )
    cli.write('[agent]\nuse = "scripted"\n[middleware.blue]\nuse = "tint"\n')
    outcome = cli("plugins")
    assert (outcome.code, outcome.err) == (0, "")
    assert "tint  acme-tint 1.2\n  active\n" in outcome.out + "\n"
    assert (
        "store  acme-store 1.0\n"
        "  offers key-value\n"
        "  not active; to switch it on:\n"
        "    [providers.store]"
    ) in outcome.out
    listed = {plugin["id"]: plugin for plugin in json.loads(cli("plugins", "--json").out)}
    assert (listed["tint"]["active"], listed["store"]["active"]) == (True, False)
    assert listed["store"]["toml"] == "[providers.store]"
    assert "acme_never_imported" not in sys.modules


def test_a_layer_that_is_switched_off_does_not_make_its_plugin_active(
    cli: CommandLine, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-tint", plugins={"tint": "acme_never_imported"})
    cli.write("[middleware.tint]\n")

    def active() -> bool:
        listed = json.loads(cli("plugins", "--json").out)
        return next(bool(each["active"]) for each in listed if each["id"] == "tint")

    assert active()
    monkeypatch.setenv("INTERPOSE__MIDDLEWARE__TINT__ENABLED", "false")
    assert not active()
    monkeypatch.delenv("INTERPOSE__MIDDLEWARE__TINT__ENABLED")
    cli.write("[middleware.tint]\nenabled = false\n")
    assert not active()


def test_plugins_without_a_configuration_are_all_inactive(
    cli: CommandLine, install: Install
) -> None:
    install("acme-tint", plugins={"tint": "acme_never_imported"})
    assert not any(plugin["active"] for plugin in json.loads(cli("plugins", "--json").out))


def test_plugins_says_why_one_cannot_be_used(cli: CommandLine, install: Install) -> None:
    install("acme-old", plugins={"old": "acme_never_imported"}, requires=["interpose>=99"])
    assert (
        'cannot be used: plugin "old" (acme-old 1.0) is built for another version of Interpose'
    ) in cli("plugins").out


def test_plugins_cannot_tell_with_a_file_that_cannot_be_read(cli: CommandLine) -> None:
    cli.write("[agent")
    outcome = cli("plugins")
    assert (outcome.code, outcome.out) == (1, "")
    assert "error[invalid-toml]" in outcome.err


def test_doctor_reports_damage_duplicates_and_plugins_for_another_version(
    cli: CommandLine, install: Install
) -> None:
    install("torn", metadata="")
    install("acme-old", plugins={"old": "acme_never_imported"}, requires=["interpose>=99"])
    install("acme-tint", plugins={"tint": "acme_never_imported"})
    install("other-tint", plugins={"tint": "acme_never_imported"})
    outcome = cli("doctor")
    assert (outcome.code, outcome.err) == (1, "")
    for said in (
        "warning[damaged-distribution]: torn-1.0.dist-info has no readable METADATA",
        "error[incompatible-plugin]: ",
        'warning[ambiguous-plugin]: The id "tint" belongs to acme-tint 1.0 and to other-tint 1.0.',
        "\n\n3 problems; ",
    ):
        assert said in outcome.out
    report = json.loads(cli("doctor", "--json").out)
    assert report["ok"] is False
    assert [finding["code"] for finding in report["findings"]] == [
        "damaged-distribution",
        "ambiguous-plugin",
        "incompatible-plugin",
    ]
    assert "acme_never_imported" not in sys.modules


def test_doctor_finds_nothing_wrong_in_a_sound_installation(
    cli: CommandLine, install: Install
) -> None:
    install("acme-tint", plugins={"tint": "acme_never_imported"})
    outcome = cli("doctor")
    assert outcome.code == 0, outcome.out
    assert outcome.out.splitlines()[-1].startswith("ok: ")


# The program -----------------------------------------------------------------------------------


def test_the_version_is_told_in_two_ways(cli: CommandLine) -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    assert cli("version").out == f"interpose {__version__} (Python {python})\n"
    assert cli("--version").out == f"interpose {__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["demo", "run", "plugins", "plan", "why", "check", "config", "schema", "doctor", "version"],
)
def test_every_command_has_a_help_text_with_the_exit_codes(cli: CommandLine, command: str) -> None:
    assert f"\n    {command}  " in cli("--help").out
    outcome = cli(command, "--help")
    assert outcome.code == 0
    for said in ("exit codes:", "--config FILE", "--set KEY=VALUE", "--debug"):
        assert said in outcome.out


def test_no_command_is_a_usage_error(cli: CommandLine) -> None:
    outcome = cli()
    assert (outcome.code, outcome.out) == (2, "")
    assert "the following arguments are required: COMMAND" in outcome.err
