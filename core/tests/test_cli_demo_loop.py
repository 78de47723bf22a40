"""``interpose demo --loop``: a model, its tools, a few layers, and a person who is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from threading import Timer

import pytest
from commandline import CommandLine

from interpose.loop import ToolContext, tool
from interpose.startup.discovery import Discovery

ASKED = "Approve? [y]es, [n]o, [e]dit the arguments: "
PAID = "Done: your money is on its way back to you.\n"
KEPT = "I am sorry: I could not pay it back.\n"
STORY = """\
The run
-------
  the user says:    The lamp of order A-1815 came broken. May I have my money back?

Iteration 1
  the model says:   Let me look at that order.
  the model calls:  find_order {"order": "A-1815"}
  usage:            13 tokens in, 8 out
  quota:            1 of 3 tool calls used
  find_order gives: {"order":"A-1815","total":25,"contact":"ada.lovelace@example.com"}

Iteration 2
  the model says:   I found it, and write to ada.lovelace@example.com when it is paid.
  the model calls:  refund {"order": "A-1815", "amount": 25}
  usage:            20 tokens in, 15 out
  currency:         gives refund the argument currency = "EUR"

The run waits for a person: Pay 25 EUR back for order A-1815?
Approve? [y]es, [n]o, [e]dit the arguments: yes (answered by the demo: nobody is at a terminal)

It goes on
  currency:         gives refund the argument currency = "EUR"
  quota:            2 of 3 tool calls used
  refund gives:     paid back 25 EUR for A-1815

Iteration 3
  the model says:   Done: your money is on its way back to you.
  usage:            37 tokens in, 10 out

It took 3 model calls, 2 tool calls, 103 tokens.

What the consumer saw
---------------------
Done: your money is on its way back to you.
"""
# A job in the background is started with Ctrl-C ignored, and its children inherit that.
TERMINAL = """\
import pty, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(pty.spawn(sys.argv[1:]) >> 8)
"""
SECONDS = 60
"""After that a demo that hangs is ended."""


@pytest.fixture
def bare(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """An environment in which nothing but core is installed."""
    monkeypatch.setattr("interpose.cli.demo_loop.discover", lambda: Discovery(()))
    return cli


def test_core_alone_tells_the_whole_story_and_answers_yes_by_itself(bare: CommandLine) -> None:
    outcome = bare("demo", "--loop")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out[outcome.out.index("The run\n") :] == STORY
    assert outcome.out.startswith("The configuration (interpose.toml)\n")
    assert "Not installed here: redact. Try: pip install interpose-redact\n" in outcome.out
    assert "   1. quota  shape, in-house\n" in outcome.out


def test_the_story_is_the_same_every_time_and_ignores_files_and_variables(
    bare: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = bare("demo", "--loop")
    bare.write("[agent\n")
    monkeypatch.setenv("INTERPOSE__NO__SUCH", "1")
    assert bare("demo", "--loop") == plain
    assert [path.name for path in bare.folder.iterdir()] == ["interpose.toml"]


def test_the_configuration_that_is_shown_is_one_that_runs(bare: CommandLine) -> None:
    shown = bare("demo", "--loop").out
    toml = shown.partition("----------------------------------\n")[2].partition("\nNot inst")[0]
    bare.write(toml)
    outcome = bare("run", "My lamp is broken.")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "Let me look at that order."
    asked = "The run waits for an answer to approval:call-2-1: Pay 25 EUR back for order A-1815?"
    assert outcome.err.splitlines()[-1] == asked


def test_a_demo_that_fails_says_why(bare: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def find_order(order: str, ctx: ToolContext) -> None:
        ctx.abort(f"no {order}")

    monkeypatch.setattr("interpose.cli.demo_shop.find_order", find_order)
    outcome = bare("demo", "--loop")
    assert outcome.code == 1
    assert "error[bug]: The demo's run failed." in outcome.err


def at_a_terminal(cli: CommandLine, answers: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run the demo at a pseudo-terminal; returns the exit code and what it showed.

    ``answers``: what is waited for, and what is typed then.
    """
    with subprocess.Popen(  # noqa: S603 - this Python, with this test's arguments
        [sys.executable, "-c", TERMINAL, sys.executable, "-m", "interpose", "demo", "--loop"],
        cwd=cli.folder,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "100"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as shown:
        assert shown.stdin
        assert shown.stdout
        assert shown.stderr
        late = Timer(SECONDS, shown.kill)
        late.start()
        said = b""
        for awaited, typed in answers:
            before = len(said)
            while awaited.encode() not in said[before:]:
                read = os.read(shown.stdout.fileno(), 4096)
                assert read, (awaited, said.decode())
                said += read
            shown.stdin.write(typed.encode())
            shown.stdin.flush()
        said += shown.stdout.read()
        assert shown.stderr.read() == b""
        late.cancel()
    return shown.returncode, said.decode().replace("\r\n", "\n")


posix = pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")


@posix
def test_at_a_terminal_a_yes_lets_the_call_run(cli: CommandLine) -> None:
    code, said = at_a_terminal(cli, [(ASKED, "y\n")])
    assert code == 0
    assert "The run waits for a person: Pay 25 EUR back for order A-1815?\n" in said
    assert "answered by the demo" not in said
    assert "  refund gives:     paid back 25 EUR for A-1815\n" in said
    assert said.endswith(PAID)


@posix
def test_at_a_terminal_a_no_reaches_the_model_with_its_reason(cli: CommandLine) -> None:
    code, said = at_a_terminal(cli, [(ASKED, "maybe\n"), (ASKED, "n\n"), ("(The", "too late\n")])
    assert code == 0
    assert "paid back" not in said
    assert "refund gives:     User declined tool execution. too late\n" in said
    assert "3 model calls, 1 tool call, " in said
    assert said.endswith(KEPT)


@posix
def test_at_a_terminal_the_arguments_can_be_edited_until_they_fit(cli: CommandLine) -> None:
    code, said = at_a_terminal(
        cli,
        [
            (ASKED, "e\n"),
            ("as JSON: ", "[]\n"),
            (ASKED, "e\n"),
            ("as JSON: ", '{"order": "A-1815"}\n'),
            (ASKED, "e\n"),
            ("as JSON: ", '{"order": "A-1815", "amount": 10}\n'),
        ],
    )
    assert code == 0
    assert "That does not do: a JSON object is expected\n" in said
    assert "amount: Field required\n" in said
    assert "  refund gives:     paid back 10 EUR for A-1815\n" in said
    assert said.endswith(PAID)


@posix
@pytest.mark.parametrize(("typed", "code"), [("\x04", 0), ("\x03", 130)], ids=["end", "ctrl-c"])
def test_leaving_the_question_cancels_it_and_the_run_ends_cleanly(
    cli: CommandLine, typed: str, code: int
) -> None:
    ended, said = at_a_terminal(cli, [(ASKED, typed)])
    assert ended == code
    assert "  refund gives:     Tool execution cancelled.\n" in said
    assert said.endswith(KEPT)
    assert "Traceback" not in said


def test_the_demo_needs_nothing_but_core(cli: CommandLine) -> None:
    script = (
        "import sys\n"
        "for name in ('docstring_parser', 'jsonschema', 'referencing'):\n"
        "    sys.modules[name] = None\n"
        "from interpose.cli import main\n"
        "sys.exit(main(['demo', '--loop']))\n"
    )
    done = subprocess.run(  # noqa: S603 - this Python, with this test's script
        [sys.executable, "-c", script],
        cwd=cli.folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(PAID)
