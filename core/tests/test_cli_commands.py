"""Commands that distributions of others add to the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import CommandLine

Install = Callable[..., Path]

GREET = """
SUMMARY = "greet somebody"
ABOUT = "Greet somebody, politely."

def add_arguments(parser):
    parser.add_argument("name", metavar="NAME", help="who it is")
    parser.add_argument("--loud", action="store_true")

def main(arguments):
    said = f"hello {arguments.name}"
    print(said.upper() if arguments.loud else said)
    return 3
"""

TELL = """
import json

SUMMARY = "tell what was given"

def add_arguments(parser):
    below = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "show"):
        below.add_parser(name, help=f"{name} everything").add_argument("--id")

def main(arguments):
    given = {name: getattr(arguments, name) for name in ("command", "config", "set", "debug")}
    print(json.dumps(given))
    return 0
"""


@pytest.fixture
def greet(install: Install) -> None:
    install("acme-greet", "1.2", commands={"greet": "acme_greet"}, modules={"acme_greet": GREET})


@pytest.fixture
def tell(install: Install) -> None:
    install("acme-tell", commands={"tell": "acme_tell"}, modules={"acme_tell": TELL})


def failing(install: Install, source: str, value: str = "acme_bad", **given: object) -> None:
    install("acme-bad", commands={"bad": value}, modules={"acme_bad": source}, **given)


# It is a command like any other -----------------------------------------------------------------


@pytest.mark.usefixtures("greet")
def test_a_command_of_a_plugin_gets_its_arguments_and_gives_the_exit_code(cli: CommandLine) -> None:
    outcome = cli("greet", "ada", "--loud")
    assert (outcome.code, outcome.out, outcome.err) == (3, "HELLO ADA\n", "")


def test_a_command_may_be_an_object_in_a_module(cli: CommandLine, install: Install) -> None:
    source = """
        class Command:
            SUMMARY = "x"
            def add_arguments(self, parser): ...
            def main(self, arguments):
                print("from an object")
                return 0

        class Holder:
            command = Command()
    """.replace("\n        ", "\n")
    install("acme-x", commands={"x": "acme_x:Holder.command"}, modules={"acme_x": source})
    assert cli("x").out == "from an object\n"


@pytest.mark.usefixtures("greet")
def test_its_help_has_what_it_says_and_what_every_command_takes(cli: CommandLine) -> None:
    outcome = cli("greet", "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("usage: interpose greet ")
    for said in (
        "\nGreet somebody, politely.\n",
        "NAME  ",
        "exit codes:",
        "--config FILE",
        "--set KEY=VALUE",
        "--debug",
    ):
        assert said in outcome.out


@pytest.mark.usefixtures("tell")
def test_its_help_has_the_summary_where_it_says_no_more(cli: CommandLine) -> None:
    assert "\ntell what was given\n" in cli("tell", "--help").out


@pytest.mark.usefixtures("tell")
def test_what_every_command_takes_may_stand_before_within_and_after_it(cli: CommandLine) -> None:
    words = "--config a.toml --set a=1 tell --config b.toml --debug list --config c.toml --set c=3"
    given = json.loads(cli(*words.split()).out)
    assert given == {
        "command": "list",
        "config": ["a.toml", "b.toml", "c.toml"],
        "set": ["a=1", "c=3"],
        "debug": True,
    }
    bare = {"command": "show", "config": [], "set": [], "debug": False}
    assert json.loads(cli("tell", "show").out) == bare


@pytest.mark.usefixtures("tell")
def test_a_value_before_it_is_not_taken_for_the_command(cli: CommandLine) -> None:
    assert json.loads(cli("--config", "run", "tell", "list").out)["config"] == ["run"]
    assert json.loads(cli("--config=run", "tell", "list").out)["config"] == ["run"]


@pytest.mark.usefixtures("greet")
def test_arguments_that_it_does_not_take_are_a_mistake_of_the_command_line(
    cli: CommandLine,
) -> None:
    outcome = cli("greet")
    assert (outcome.code, outcome.out) == (2, "")
    assert "interpose greet: error: the following arguments are required: NAME" in outcome.err


@pytest.mark.usefixtures("greet")
def test_the_program_runs_it_in_a_process_of_its_own(cli: CommandLine, site: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interpose", "greet", "ada"],
        cwd=cli.folder,
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello ada\n", "")


# It is found ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("greet")
def test_the_help_lists_commands_of_plugins_with_their_distributions_and_imports_none(
    cli: CommandLine, install: Install
) -> None:
    install("acme-other", "2.0", commands={"greet": "acme_gone", "a-long-name-of-a-command": "x"})
    outcome = cli("--help")
    assert outcome.code == 0
    assert (
        "\ncommands of plugins:\n"
        "    a-long-name-of-a-command acme-other 2.0\n"
        "    greet          acme-greet 1.2\n"
        "    greet          acme-other 2.0\n"
    ) in outcome.out
    assert "acme_greet" not in sys.modules


def test_the_help_has_no_such_heading_where_there_are_none(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, site: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(site)])
    assert "commands of plugins" not in cli("--help").out


@pytest.mark.usefixtures("greet")
def test_the_list_of_plugins_has_their_commands(cli: CommandLine, install: Install) -> None:
    install("acme-tint", plugins={"tint": "acme_never"}, commands={"tint": "a", "paint": "b"})
    install("acme-plain", plugins={"plain": "acme_never"})
    assert "tint  acme-tint 1.0\n  commands paint, tint\n  not active" in cli("plugins").out
    assert "plain  acme-plain 1.0\n  not active" in cli("plugins").out
    listed = {each["id"]: each for each in json.loads(cli("plugins", "--json").out)}
    assert listed["tint"]["commands"] == ["paint", "tint"]
    assert listed["plain"]["commands"] == []


def test_a_built_in_command_looks_for_none(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib_metadata.distributions", pytest.fail)
    cli.write('[agent]\nuse = "scripted"\n')
    assert cli("check").code == 0
    assert cli("check", "--help").code == 0
    assert cli("--set", "agent.delay=0", "version").code == 0
    assert cli("--version", "greet").code == 0


@pytest.mark.parametrize(
    ("word", "meant"), [("chek", "check"), ("gret", "greet"), ("doctro", "doctor")]
)
@pytest.mark.usefixtures("greet")
def test_a_misspelt_command_is_suggested(cli: CommandLine, word: str, meant: str) -> None:
    outcome = cli(word, "x")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("usage: interpose ")
    assert outcome.err.endswith(
        f"interpose: error: there is no command {word!r}; did you mean {meant}?\n"
    )


@pytest.mark.usefixtures("greet")
def test_a_word_that_means_nothing_is_answered_with_what_there_is(cli: CommandLine) -> None:
    outcome = cli("xyzzy")
    assert outcome.code == 2
    assert "there is no command 'xyzzy'; the commands are demo, run, " in outcome.err
    assert "version, " in outcome.err
    assert "greet" in outcome.err


def test_damage_elsewhere_disturbs_no_command(cli: CommandLine, install: Install) -> None:
    install("torn", metadata="", commands={"torn": "torn"})
    broken = install("broken", entry_points="[x]\n")
    (broken / "entry_points.txt").write_bytes(b"[interpose.commands]\nlost = \xff\xfe\n")
    install("acme-greet", commands={"greet": "acme_greet"}, modules={"acme_greet": GREET})
    assert cli("greet", "ada").out == "hello ada\n"
    assert "greet  " in cli("--help").out
    assert "torn" not in cli("--help").out
    assert "there is no command 'lost'" in cli("lost").err
    outcome = cli("torn")
    assert (outcome.code, outcome.out) == (1, "")
    assert "error[damaged-distribution]: torn-1.0.dist-info has no readable METADATA" in outcome.err


# Who may have a name ----------------------------------------------------------------------------


def test_a_built_in_command_wins_and_doctor_tells(cli: CommandLine, install: Install) -> None:
    install("acme-greedy", commands={"version": "acme_never"})
    assert cli("version").out.startswith("interpose ")
    assert "acme-greedy" not in cli("--help").out
    outcome = cli("doctor")
    assert outcome.code == 1
    assert (
        "warning[shadowed-command]: acme-greedy 1.0 has a command `version`, which is one of "
        "Interpose itself: that of acme-greedy is never run.\n"
    ) in outcome.out
    assert "  fix: Tell the authors of acme-greedy to give it another name" in outcome.out


@pytest.mark.usefixtures("greet")
def test_one_name_of_two_distributions_is_an_error_that_names_both(
    cli: CommandLine, install: Install, site: Path
) -> None:
    install("acme-welcome", "2.0", commands={"greet": "acme_never"})
    outcome = cli("greet", "ada")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "1 problem at startup\n\n"
        "error[ambiguous-command]: The command `greet` belongs to acme-greet 1.2 and to "
        "acme-welcome 2.0.\n"
        f"  at {site}\n"
        "  fix: Uninstall one of them: pip uninstall acme-greet, or pip uninstall acme-welcome.\n"
    )
    doctor = cli("doctor")
    assert doctor.code == 1
    assert "warning[ambiguous-command]: The command `greet` belongs to " in doctor.out


@pytest.mark.parametrize(
    ("entry_points", "name", "said"),
    [
        ("Greet = a", "Greet", 'the command "Greet", which is not an id (lower case, digits'),
        ("greet = a\ngreet = b", "greet", 'the command "greet", which names both a and b'),
    ],
)
def test_an_entry_point_that_cannot_be_a_command_is_told(
    cli: CommandLine, install: Install, entry_points: str, name: str, said: str
) -> None:
    install("acme-odd", entry_points=f"[interpose.commands]\n{entry_points}\n")
    outcome = cli(name)
    assert (outcome.code, outcome.out) == (1, "")
    assert f"error[invalid-command]: acme-odd 1.0 declares {said}" in outcome.err
    assert f"warning[invalid-command]: acme-odd 1.0 declares {said}" in cli("doctor").out


# It cannot be used ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value", "said"),
    [
        ("1 / 0", "acme_bad", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(5)", "acme_bad", "it called sys.exit(5)"),
        ("import acme_absent", "acme_bad", "ModuleNotFoundError: No module named 'acme_absent'"),
        ("", "acme_lost", "ModuleNotFoundError: No module named 'acme_lost'"),
        ("", "acme_bad:command", "AttributeError: module 'acme_bad' has no attribute 'command'"),
    ],
)
def test_a_command_that_cannot_be_imported_is_told(
    cli: CommandLine, install: Install, source: str, value: str, said: str
) -> None:
    failing(install, source, value)
    outcome = cli("bad", "--whatever")
    assert (outcome.code, outcome.out) == (1, "")
    assert (
        f'error[failed-import]: command "bad" (acme-bad 1.0) cannot be imported: {said}.\n'
        f"  at entry point `bad = {value}` of the group interpose.commands\n"
    ) in outcome.err
    assert "  fix: " in outcome.err
    assert "config" not in outcome.err
    assert "Traceback" not in outcome.err


NONE = "SUMMARY = 'x'\ndef add_arguments(parser): ...\ndef main(arguments): return None\n"
ADDING = "SUMMARY = 'x'\ndef main(arguments): return 0\ndef add_arguments(parser):\n    "


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "is no command: it lacks SUMMARY, add_arguments, main."),
        (
            "SUMMARY = 1\nABOUT = 2\nmain = 3\ndef add_arguments(parser): ...",
            "is no command: its SUMMARY is an int; its ABOUT is an int; its main is an int.",
        ),
        (f"{ADDING}1 / 0", "cannot add its arguments: ZeroDivisionError: division by zero."),
        (f"{ADDING}parser.exit(3)", "cannot add its arguments: it called sys.exit(3)."),
        (
            f"{ADDING}parser.add_argument('--config')",
            (
                "cannot add its arguments: ArgumentError: argument --config: "
                "conflicting option string: --config."
            ),
        ),
        (
            f"{ADDING}parser.add_subparsers().add_parser('x').add_argument('--debug')",
            (
                "cannot add its arguments: ArgumentError: argument --debug: "
                "conflicting option string: --debug."
            ),
        ),
        (
            f"{ADDING}parser.add_argument('set')\n    parser.add_argument('debug')",
            "cannot add its arguments: debug and set are names of the host's own.",
        ),
        (
            f"{ADDING}parser.add_subparsers().add_parser('x').add_argument('config')",
            "cannot add its arguments: config is a name of the host's own.",
        ),
        (NONE, "ended with None, which is no exit code."),
        (NONE.replace("None", "True"), "ended with True, which is no exit code."),
        (NONE.replace("None", "256"), "ended with 256, which is no exit code."),
    ],
)
def test_what_is_no_command_is_told(
    cli: CommandLine, install: Install, source: str, said: str
) -> None:
    failing(install, source)
    outcome = cli("bad")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "1 problem at startup\n\n"
        f'error[invalid-command]: command "bad" (acme-bad 1.0) {said}\n'
        "  at entry point `bad = acme_bad` of the group interpose.commands\n"
        "  fix: pip install --upgrade acme-bad; if it stays, tell the authors of acme-bad.\n"
        "       A command has SUMMARY, a str, add_arguments(parser), and main(arguments), which\n"
        "       returns an exit code from 0 to 255.\n"
    )


def test_a_command_for_another_version_is_not_imported(cli: CommandLine, install: Install) -> None:
    failing(install, "raise AssertionError", requires=["interpose>=99"])
    for words in ("bad", "doctor"):
        outcome = cli(words)
        assert outcome.code == 1
        assert (
            'error[incompatible-plugin]: command "bad" (acme-bad 1.0) is built for another version'
        ) in outcome.err + outcome.out


def test_debug_adds_the_traceback_of_an_import_that_fails(
    cli: CommandLine, install: Install
) -> None:
    failing(install, "1 / 0")
    assert "Traceback" in cli("bad", "--debug").err
    assert "Traceback" in cli("--debug", "bad").err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("UsageError('wrong', hint='right')", 2, "error[usage]: wrong\n  fix: right\n"),
        ("InputError('wrong')", 1, "error[invalid-input]: wrong\n"),
        ("StartupError([Problem('x', 'wrong')])", 1, "1 problem at startup\n\nerror[x]: wrong\n"),
        ("ValueError('wrong')", 1, "error[bug]: This is a bug in Interpose or in a plugin: Value"),
        ("KeyboardInterrupt", 130, ""),
        ("BrokenPipeError", 141, ""),
    ],
)
def test_what_a_command_raises_ends_it_as_it_ends_those_of_interpose(
    cli: CommandLine, install: Install, raised: str, code: int, said: str
) -> None:
    names = "InputError, Problem, StartupError, UsageError"
    failing(
        install, f"from interpose import {names}\n{NONE.replace('return None', f'raise {raised}')}"
    )
    outcome = cli("bad")
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(said)
    assert "Traceback" not in outcome.err
