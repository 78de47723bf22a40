"""What an operator reads who made a mistake: whole messages, as the command line shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import CommandLine

Install = Callable[..., Path]

SCRIPTED = '[agent]\nuse = "scripted"\n'


def wrong(cli: CommandLine, *argv: str) -> str:
    """Return what a command says that must fail, and see that it says the same while running."""
    checked = cli("check", *argv)
    assert (checked.code, checked.err) == (1, "")
    blocks, verdict = checked.out.rstrip("\n").rsplit("\n\n", 1)
    ran = cli("run", "hello", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"{verdict.rstrip('.')}\n\n{blocks}\n"
    return blocks


def test_no_configuration_at_all(cli: CommandLine) -> None:
    assert wrong(cli) == (
        "error[no-config]: There is no interpose.toml here, and no pyproject.toml with "
        "[tool.interpose].\n"
        f"  at {cli.folder}\n"
        "  fix: Name a file with --config or INTERPOSE_CONFIG, or make an interpose.toml:\n"
        "       [agent]\n"
        '       use = "scripted"'
    )


def test_a_named_file_that_is_missing(cli: CommandLine) -> None:
    cli.write(SCRIPTED, "production.toml")
    assert wrong(cli, "--config", "prodution.toml") == (
        "error[missing-config]: The config file prodution.toml does not exist.\n"
        f"  at {cli.folder}/prodution.toml\n"
        '  fix: Did you mean "production.toml"?'
    )


def test_a_file_that_a_variable_names_and_that_is_missing(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERPOSE_CONFIG", "elsewhere.conf")
    assert wrong(cli) == (
        "error[missing-config]: The config file elsewhere.conf does not exist.\n"
        f"  at {cli.folder}/elsewhere.conf\n"
        "  fix: Create it, or name the file that you mean."
    )


def test_toml_that_is_none(cli: CommandLine) -> None:
    cli.write("[agent]\nuse = scripted\n")
    assert wrong(cli) == (
        "error[invalid-toml]: The config file interpose.toml is not valid TOML: Invalid value.\n"
        "  at interpose.toml:2:7\n"
        "  fix: Correct the syntax there; https://toml.io/en/v1.0.0 describes it."
    )


def test_an_unknown_top_level_table(cli: CommandLine) -> None:
    cli.write(f"{SCRIPTED}[middlewares.redact]\n")
    assert wrong(cli) == (
        "error[unknown-table]: [middlewares] is not part of the configuration.\n"
        "  at interpose.toml:3\n"
        "  fix: Did you mean [middleware]?"
    )


def test_a_misspelt_use(cli: CommandLine, install: Install) -> None:
    install("acme-watermark", plugins={"watermark": "acme_watermark"})
    cli.write(f"{SCRIPTED}[middleware.mark]\nuse = 'watermrk'\n")
    assert wrong(cli) == (
        'error[unknown-use]: The middleware "watermrk" is not installed.\n'
        "  at interpose.toml:4\n"
        '  fix: Did you mean "watermark"?'
    )


def test_a_wrong_type_in_a_table_and_in_a_variable(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write(f'{SCRIPTED}delay = "soon"\n')
    monkeypatch.setenv("INTERPOSE__HOST__STRICT", "maybe")
    assert wrong(cli) == (
        "error[invalid-setting]: host.strict: it should be a valid boolean, unable to interpret "
        "input.\n"
        "  at INTERPOSE__HOST__STRICT\n"
        "  fix: strict takes bool: Verify the stream after every layer, and refuse what is "
        "otherwise a warning.\n"
        "\n"
        "error[invalid-setting]: agents.default.delay: it should be a valid number, unable to "
        "parse string as a number.\n"
        "  at interpose.toml:3\n"
        "  fix: delay takes float: Seconds to wait before each event."
    )


def test_unknown_variables(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write(SCRIPTED)
    monkeypatch.setenv("INTERPOSE__AGENT__DELY", "1")
    monkeypatch.setenv("INTERPOSE__MIDLEWARE__X__A", "1")
    monkeypatch.setenv("INTERPOSE_PORT", "80")  # an orchestrator's, none of ours
    assert wrong(cli) == (
        "error[unknown-variable]: INTERPOSE__MIDLEWARE__X__A is not a setting: there is no table "
        "[midleware].\n"
        "  at INTERPOSE__MIDLEWARE__X__A\n"
        "  fix: Did you mean INTERPOSE__MIDDLEWARE__X__A?\n"
        "\n"
        "error[unknown-variable]: INTERPOSE__AGENT__DELY is not a setting: [agents.default] has "
        "no key dely.\n"
        "  at INTERPOSE__AGENT__DELY\n"
        "  fix: Did you mean INTERPOSE__AGENTS__DEFAULT__DELAY?"
    )


def test_problems_in_two_files_at_once(cli: CommandLine) -> None:
    cli.write(f'{SCRIPTED}delay = "soon"\n', "base.toml")
    cli.write("[host]\nstrickt = true\n", "over.toml")
    assert wrong(cli, "--config", "base.toml", "--config", "over.toml") == (
        'error[unknown-setting]: host: there is no setting "strickt".\n'
        "  at over.toml:2\n"
        '  fix: Did you mean "strict"?\n'
        "\n"
        "error[invalid-setting]: agents.default.delay: it should be a valid number, unable to "
        "parse string as a number.\n"
        "  at base.toml:3\n"
        "  fix: delay takes float: Seconds to wait before each event."
    )


def test_a_layer_that_was_nested_by_mistake(cli: CommandLine, install: Install) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_nested"},
        modules={
            "acme_guard_nested": "from interpose import Middleware, hookimpl\n"
            "class Budget(Middleware):\n    pass\n"
            "@hookimpl\ndef interpose_middlewares():\n    return {'budget': Budget}\n"
        },
    )
    cli.write(f"{SCRIPTED}[middleware.guard.budget]\nlimit = 3\n")
    assert wrong(cli) == (
        'error[unknown-use]: plugin "guard" (acme-guard 1.0) has no middleware "guard".\n'
        "  at interpose.toml:3\n"
        "  fix: Each layer has a table of its own. If the middleware guard.budget is meant:\n"
        "       [middleware.budget]\n"
        '       use = "guard.budget"'
    )


def test_an_agent_object_of_a_framework(cli: CommandLine) -> None:
    cli.write(
        """
        class CompiledStateGraph:
            pass

        CompiledStateGraph.__module__ = "langgraph.graph.state"
        graph = CompiledStateGraph()
        """,
        "framework_graphs.py",
    )
    cli.write('[agent]\nuse = "framework_graphs:graph"\n')
    said = wrong(cli)
    assert said.startswith(
        "error[framework-agent]: framework_graphs:graph is a CompiledStateGraph of LangGraph, "
        "which does not speak AG-UI by itself.\n"
        "  at interpose.toml:2\n"
        '  fix: Install "ag-ui-langgraph[fastapi]" and wrap the graph, compiled with a checkpointer, '
        "with one wrapper for each run:\n"
        "       from ag_ui_langgraph import LangGraphAgent\n"
    )
    assert said.endswith('       Then use = "framework_graphs:ag_ui_graph".')


def test_an_option_that_sets_nothing(cli: CommandLine) -> None:
    cli.write(SCRIPTED)
    assert wrong(cli, "--set", "nonsense") == (
        "error[invalid-override]: --set takes a dotted key and a value.\n"
        "  at --set nonsense\n"
        "  fix: Write it as --set middleware.<id>.<key>=<value>."
    )


def test_what_the_application_provides_counts_for_check_and_is_missing_for_run(
    cli: CommandLine,
) -> None:
    cli.write(
        """
        from interpose import PRINCIPAL, Middleware

        class Tenant(Middleware):
            requires = (PRINCIPAL,)
        """,
        "tenant_layers.py",
    )
    cli.write(
        """
        [agent]
        use = "scripted"
        [capabilities]
        principal = "application"
        [middleware.tenant]
        use = "tenant_layers:Tenant"
        """
    )
    assert cli("check").code == 0
    ran = cli("run", "hello")
    assert ran.code == 1
    assert "interpose.toml:4" in ran.err


def test_a_startup_that_fails_only_once_it_runs(cli: CommandLine) -> None:
    cli.write(
        """
        from contextlib import asynccontextmanager
        from interpose import Middleware

        class Pool(Middleware):
            @classmethod
            @asynccontextmanager
            async def lifespan(cls, settings, ctx):
                raise ConnectionError("refused")
                yield
        """,
        "pooling.py",
    )
    cli.write(f'{SCRIPTED}[middleware.pool]\nuse = "pooling:Pool"\n')
    assert cli("check").code == 0
    ran = cli("run", "hello")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "1 problem at startup\n\n"
        "error[failed-start]: layer pool (pooling:Pool) could not start: "
        "ConnectionError: refused.\n"
        "  fix: Correct its settings, or what they point to.\n"
    )


def test_debug_adds_the_traceback_to_a_problem(cli: CommandLine) -> None:
    said = cli("run", "hello", "--debug")
    assert said.code == 1
    assert said.err.startswith("Traceback (most recent call last):\n")
    assert "error[no-config]" in said.err


def test_a_bug_is_one_line_and_asks_for_the_traceback(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_arguments: object) -> int:
        raise TypeError("unexpected\nand long")

    monkeypatch.setattr("interpose.cli.version.main", broken)
    said = cli("version")
    assert (said.code, said.out) == (1, "")
    first, place, fix = said.err.splitlines()
    assert first == ("error[bug]: This is a bug in Interpose or in a plugin: TypeError: unexpected")
    assert place.startswith(f"  at {__file__}:")
    assert fix == "  fix: Run it again with --debug, and report what it shows."
    assert "Traceback" in cli("version", "--debug").err


# What came out when others tried -------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '[agent]\nuse = { "$env" = "SEC" }\n',
        '[agent]\nuse = "scripted"\n[middleware.x]\nuse = { "$env" = "SEC" }\n',
        '[agent]\nuse = "scripted"\n[plugins]\nuse = [{ "$env" = "SEC" }]\n',
        '[agent]\nuse = "scripted"\n[capabilities]\nfoo = { "$env" = "SEC" }\n',
        '[agent]\nuse = "scripted"\n[middleware.x]\nlayer = { agents = [{ "$env" = "SEC" }] }\n',
    ],
)
def test_a_secret_in_a_key_of_the_host_is_not_quoted(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SEC", "hunter2SECRET")
    cli.write(text)
    outcome = cli("check")
    assert outcome.code == 1
    assert "***" in outcome.out
    assert "hunter2" not in outcome.out + outcome.err


def test_a_secret_path_of_a_recording_is_not_quoted(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEC", "hunter2SECRET")
    cli.write('[agent]\nuse = "scripted"\nfile = { "$env" = "SEC" }\n')
    outcome = cli("run", "hello")
    assert outcome.code == 1
    assert "hunter2" not in outcome.out + outcome.err


def test_plugins_are_activated_as_a_whole(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n[plugins]\nuse = ["module:thing", "one.two"]\n')
    outcome = cli("check")
    assert outcome.code == 1
    assert outcome.out.count('[plugins] use names "') == 2


def test_a_value_of_set_that_looks_like_toml_and_is_none_is_no_text(cli: CommandLine) -> None:
    outcome = cli("check", "--set", 'agent.file={"$file":"/nope"}', "--set", "agent.use=scripted")
    assert outcome.code == 1
    assert "its value looks like a table or a list, and is no TOML" in outcome.out


def test_a_broken_file_in_its_usual_place_is_not_called_absent(cli: CommandLine) -> None:
    cli.write("[tool.interpose\n", "pyproject.toml")
    assert "pyproject.toml:1" in cli("check").out
    (cli.folder / "interpose.toml").mkdir()
    assert "interpose.toml" in cli("check").out
    assert "There is no interpose.toml here" not in cli("check").out


def test_an_agent_cannot_steer_the_terminal_by_its_error(cli: CommandLine) -> None:
    cli.write(
        '{"type": "RUN_ERROR", "message": "\\u001b[31mboom\\u0007", "code": "a\\u001b[1mb"}\n',
        "error.jsonl",
    )
    outcome = cli("run", "hello", "--replay", "error.jsonl")
    assert outcome.code == 1
    assert "\x1b" not in outcome.err
    assert "boom" in outcome.err


def test_text_cut_inside_a_character_ends_the_run_as_one_error(cli: CommandLine) -> None:
    lines = [
        '{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}',
        '{"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}',
        '{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "\\ud83d"}',
        '{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "and on"}',
    ]
    cli.write("\n".join(lines), "cut.jsonl")
    outcome = cli("run", "hello", "--json", "--replay", "cut.jsonl")
    assert outcome.code == 1
    assert '"type":"RUN_ERROR"' in outcome.out.splitlines()[-1]
    assert "half a character" in outcome.err
