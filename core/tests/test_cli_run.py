from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import CommandLine

ANSWER = (
    "Your order A-1815 has shipped. We wrote to ada.lovelace@example.com, "
    "and charged card 4111 1111 1111 1111 as agreed.\n"
)
RECORDING = """
    {"type": "RUN_STARTED", "threadId": "old", "runId": "older"}
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "Good "}
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "morning."}
    {"type": "RUN_FINISHED", "threadId": "old", "runId": "older"}
    """
IMPORTS = "from ag_ui.core import *\n"
STARTED = "yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)"
FINISHED = "yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)"
SAYS = 'yield TextMessageChunkEvent(message_id="m", role="assistant", delta="Let me")'


def write_agent(cli: CommandLine, name: str, *lines: str) -> None:
    """Make ``answer`` of the module ``name`` the agent of the folder."""
    body = "".join(f"    {line}\n" for line in lines)
    cli.write(f"{IMPORTS}async def answer(run_input):\n{body}", f"{name}.py")
    cli.write(f'[agent]\nuse = "{name}:answer"\n')


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# What comes out --------------------------------------------------------------------------------


def test_what_the_assistant_says_goes_to_standard_output(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n')
    outcome = cli("run", "Where is my order?")
    assert (outcome.code, outcome.out, outcome.err) == (0, ANSWER, "")


def test_a_setting_that_names_the_agent_is_enough_without_a_file(cli: CommandLine) -> None:
    assert cli("run", "hello", "--set", "agent.use=scripted").out == ANSWER


def test_options_may_stand_before_the_command_and_after_it(cli: CommandLine) -> None:
    based = 'events = [{ type = "RUN_ERROR", message = "based" }]\n'
    cli.write(f'[agent]\nuse = "scripted"\n{based}', "base.toml")
    cli.write('[agent]\nevents = [{ type = "RUN_ERROR", message = "overlaid" }]\n', "over.toml")
    outcome = cli("--config", "base.toml", "run", "hello", "--config", "over.toml")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "error[agent-failed]: overlaid\n"


def test_each_message_ends_with_a_newline_and_only_the_assistants_are_shown(
    cli: CommandLine,
) -> None:
    chunk = "yield TextMessageChunkEvent(message_id={!r}, role={!r}, delta={!r})"
    write_agent(
        cli,
        "several_messages",
        STARTED,
        chunk.format("m1", "user", "an echo"),
        chunk.format("m2", "assistant", "One."),
        chunk.format("m3", "assistant", "Two."),
        FINISHED,
    )
    assert cli("run", "hello").out == "One.\nTwo.\n"


def test_messages_that_come_at_once_do_not_share_a_line(cli: CommandLine) -> None:
    says = "yield TextMessageContentEvent(message_id={!r}, delta={!r})"
    opens = "yield TextMessageStartEvent(message_id={!r}, role='assistant')"
    ends = "yield TextMessageEndEvent(message_id={!r})"
    write_agent(
        cli,
        "at_once",
        STARTED,
        *(opens.format(message) for message in "ab"),
        *(says.format(message, text) for message, text in (("a", "One"), ("b", "Two"), ("a", "."))),
        *(ends.format(message) for message in "ab"),
        FINISHED,
    )
    assert cli("run", "hello").out == "One\nTwo\n.\n"


def test_an_answer_that_comes_whole_in_a_snapshot_is_shown(cli: CommandLine) -> None:
    message = 'AssistantMessage(id="a", content="All at once.")'
    write_agent(
        cli,
        "by_snapshot",
        STARTED,
        f"yield MessagesSnapshotEvent(messages=[*run_input.messages, {message}])",
        FINISHED,
    )
    assert cli("run", "hello").out == "All at once.\n"


def test_json_is_one_wire_event_a_line(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n')
    outcome = cli("run", "hello", "--json", "--thread", "t-7")
    first, *_, last = events(outcome.out)
    assert (first["type"], first["threadId"]) == ("RUN_STARTED", "t-7")
    assert last["type"] == "RUN_FINISHED"
    assert outcome.err == ""


def test_an_input_comes_from_a_file_or_from_standard_input(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n')
    given = {
        "threadId": "t-1",
        "runId": "r-1",
        "messages": [{"id": "m", "role": "user", "content": "hello"}],
    }
    path = cli.write(json.dumps(given), "input.json")
    by_file = cli("run", "--input", path.name, "--json")
    by_pipe = cli("run", "--input", "-", "--json", stdin="\ufeff" + json.dumps(given))
    assert by_file == by_pipe
    assert events(by_file.out)[0]["runId"] == "r-1"


def test_a_recording_plays_in_the_agents_place_with_the_ids_of_this_run(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "remote"\nurl = "http://nowhere.invalid"\n')
    cli.write(RECORDING, "morning.jsonl")
    assert cli("run", "hello", "--replay", "morning.jsonl").out == "Good morning.\n"
    replayed = cli("run", "hello", "--replay", "morning.jsonl", "--thread", "new", "--json")
    assert {event.get("threadId", "new") for event in events(replayed.out)} == {"new"}


def test_a_recording_needs_no_configuration(cli: CommandLine) -> None:
    cli.write(RECORDING, "morning.jsonl")
    assert cli("run", "hello", "--replay", "morning.jsonl").out == "Good morning.\n"


def test_the_config_files_folder_is_importable_and_only_while_the_command_runs(
    cli: CommandLine,
) -> None:
    cli.write(
        f"{IMPORTS}async def answer(run_input):\n    {STARTED}\n    {SAYS}\n    {FINISHED}\n",
        "there/beside.py",
    )
    cli.write('[agent]\nuse = "beside:answer"\n', "there/interpose.toml")
    path = list(sys.path)
    assert cli("run", "hello", "--config", "there/interpose.toml").out == "Let me\n"
    assert sys.path == path


def test_the_only_agent_needs_no_name(cli: CommandLine) -> None:
    cli.write('[agents.billing]\nuse = "scripted"\n')
    assert cli("run", "hello").out == ANSWER
    assert cli("run", "hello", "--agent", "billing").out == ANSWER


def test_layers_log_to_standard_error(cli: CommandLine) -> None:
    cli.write(
        """
        from interpose import Middleware

        class Announce(Middleware):
            def setup(self, ctx):
                ctx.log.info("a run of {}", ctx.agent)
        """,
        "announcing.py",
    )
    cli.write(
        """
        [agent]
        use = "scripted"
        [middleware.announce]
        use = "announcing:Announce"
        """
    )
    outcome = cli("run", "hello")
    assert outcome.out == ANSWER
    assert outcome.err.endswith("INFO    announcing: a run of default\n")
    assert outcome.err.count("\n") == 1


def test_a_run_that_waits_for_somebody_says_for_what(cli: CommandLine) -> None:
    outcome = 'RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i-1", reason="approval", message="Pay?")])'
    write_agent(
        cli,
        "waiting",
        STARTED,
        f"yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id, outcome={outcome})",
    )
    ended = cli("run", "hello")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "The run waits for an answer to i-1: Pay?\n"


# What fails ------------------------------------------------------------------------------------


def test_an_agent_that_raises_before_its_first_event(cli: CommandLine) -> None:
    write_agent(cli, "early", 'raise ValueError("no database")', "yield")
    outcome = cli("run", "hello")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "error[agent-failed]: The agent failed.\n"
        "  ValueError: no database\n"
        f"  at {cli.folder}/early.py:3\n"
        "  fix: --debug shows the traceback.\n"
    )


def test_an_agent_that_raises_in_the_middle_keeps_what_it_said(cli: CommandLine) -> None:
    write_agent(cli, "middle", STARTED, SAYS, 'raise ValueError("no database")')
    outcome = cli("run", "hello")
    assert (outcome.code, outcome.out) == (1, "Let me\n")
    assert outcome.err == (
        "error[agent-failed]: The agent failed.\n"
        "  ValueError: no database\n"
        f"  at {cli.folder}/middle.py:5\n"
        "  fix: --debug shows the traceback.\n"
    )


def test_an_agent_that_just_stops(cli: CommandLine) -> None:
    write_agent(cli, "stopping", STARTED, SAYS)
    outcome = cli("run", "hello")
    assert (outcome.code, outcome.out) == (1, "Let me\n")
    assert outcome.err == (
        "error[truncated-stream]: The agent's stream ended without RUN_FINISHED or RUN_ERROR.\n"
    )


def test_an_agent_that_reports_its_own_error(cli: CommandLine) -> None:
    write_agent(
        cli, "reporting", STARTED, 'yield RunErrorEvent(message="Quota used up.", code="quota")'
    )
    outcome = cli("run", "hello")
    assert (outcome.code, outcome.err) == (1, "error[quota]: Quota used up.\n")


def test_a_layer_that_fails(cli: CommandLine) -> None:
    cli.write(
        """
        from interpose import Middleware

        class Broken(Middleware):
            def on_event(self, ctx, event):
                raise KeyError("colour")
        """,
        "breaking.py",
    )
    cli.write(
        """
        [agent]
        use = "scripted"
        [middleware.broken]
        use = "breaking:Broken"
        """
    )
    outcome = cli("run", "hello")
    assert outcome.code == 1
    assert outcome.err == (
        "error[middleware-failed]: The run could not be completed.\n"
        "  KeyError: 'colour'\n"
        f"  at {cli.folder}/breaking.py:5\n"
        "  fix: --debug shows the traceback.\n"
    )


def test_a_layer_that_refuses_the_run_is_quoted(cli: CommandLine) -> None:
    cli.write(
        """
        from interpose import Middleware, Reject

        class Closed(Middleware):
            def setup(self, ctx):
                raise Reject("closed", "Come back tomorrow.")
        """,
        "closing_time.py",
    )
    cli.write('[agent]\nuse = "scripted"\n[middleware.closed]\nuse = "closing_time:Closed"\n')
    outcome = cli("run", "hello")
    assert (outcome.code, outcome.err) == (1, "error[closed]: Come back tomorrow.\n")


def test_debug_shows_the_traceback_of_a_failed_run(cli: CommandLine) -> None:
    write_agent(cli, "traced", 'raise ValueError("no database")', "yield")
    shown = cli("run", "hello", "--debug").err
    assert "Traceback (most recent call last):" in shown
    assert shown.endswith("  fix: --debug shows the traceback.\n")
    assert "Traceback" not in cli("run", "hello").err


def test_a_secret_in_an_exceptions_text_is_not_shown(cli: CommandLine) -> None:
    cli.write(
        """
        from pydantic import SecretStr
        from interpose import Middleware, Settings

        class KeySettings(Settings):
            key: SecretStr

        class Leaky(Middleware[KeySettings]):
            def setup(self, ctx):
                raise ValueError(f"refused: {self.settings.key.get_secret_value()}")
        """,
        "leaking.py",
    )
    cli.write(
        """
        [agent]
        use = "scripted"
        [middleware.leaky]
        use = "leaking:Leaky"
        key = "swordfish"
        """
    )
    assert "  ValueError: refused: ***\n" in cli("run", "hello").err


def test_a_malformed_recording_is_told_by_its_line(cli: CommandLine) -> None:
    cli.write('{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}\n{"type":\n', "torn.jsonl")
    outcome = cli("run", "hello", "--replay", "torn.jsonl")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "error[invalid-replay]: This is not JSON: Expecting value (column 9).\n"
        "  at torn.jsonl:2\n"
        "  fix: A recording is JSON lines (one event a line), a capture of server-sent events "
        "(`data: {...}`), or one JSON array of events.\n"
    )


def test_a_recording_that_does_not_exist(cli: CommandLine) -> None:
    outcome = cli("run", "hello", "--replay", "lost.jsonl")
    assert outcome.code == 1
    assert outcome.err == (
        "error[invalid-replay]: The recording lost.jsonl does not exist.\n"
        f"  at {cli.folder}/lost.jsonl\n"
        "  fix: Name a file with AG-UI events, relative to the working directory.\n"
    )


def test_a_malformed_input_lists_every_wrong_path(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n')
    cli.write('{"threadId": 3, "messages": [{"role": "user"}]}', "input.json")
    outcome = cli("run", "--input", "input.json")
    assert outcome.code == 1
    assert outcome.err == (
        "error[invalid-input]: The input of a run is malformed.\n"
        "  threadId: Input should be a valid string\n"
        "  runId: Field required\n"
        "  messages[0].id: Field required\n"
        "  messages[0].content: Field required\n"
        "  fix: threadId, runId and messages are required; see RunAgentInput of AG-UI.\n"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            '{"threadId": "t",\n oops',
            (
                "The input is not JSON: Expecting property name enclosed in double quotes.\n"
                "  at standard input:2:2\n"
                "  fix: It is one RunAgentInput: threadId, runId and messages are required.\n"
            ),
        ),
        (
            "[1, 2]",
            (
                "The input is a JSON array, not an object.\n"
                "  at standard input\n"
                "  fix: It is one RunAgentInput: threadId, runId and messages are required.\n"
            ),
        ),
        ("[" * 100_000, "The input is nested too deeply.\n  at standard input\n"),
    ],
)
def test_an_input_that_is_no_json_object(cli: CommandLine, content: str, says: str) -> None:
    cli.write('[agent]\nuse = "scripted"\n')
    outcome = cli("run", "--input", "-", stdin=content)
    assert (outcome.code, outcome.err) == (1, f"error[invalid-input]: {says}")


def test_an_input_file_that_does_not_exist(cli: CommandLine) -> None:
    outcome = cli("run", "--input", "lost.json")
    assert outcome.code == 1
    assert outcome.err == (
        "error[invalid-input]: The input cannot be read: No such file or directory.\n"
        "  at lost.json\n"
        "  fix: Name a file that holds a RunAgentInput as JSON, or - for standard input.\n"
    )


def test_a_configuration_without_an_agent_can_be_planned_but_not_run(cli: CommandLine) -> None:
    cli.write("[host]\nstrict = true\n")
    assert cli("check").code == 0
    outcome = cli("run", "hello")
    assert outcome.code == 1
    assert outcome.err == (
        "1 problem at startup\n\n"
        "error[no-agent]: The configuration names no agent.\n"
        "  at interpose.toml\n"
        "  fix: Add one:\n"
        "       [agent]\n"
        '       use = "scripted"\n'
        '       (or "module:object" for your own), or play a recording with --replay FILE.\n'
    )


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run"], "interpose run: error: one of the arguments TEXT --input is required\n"),
        (
            ["run", "hello", "--input", "-"],
            "interpose run: error: argument --input: not allowed with argument TEXT\n",
        ),
        (["rnu"], "there is no command 'rnu'; did you mean run?"),
        (["run", "hello", "--repla", "x"], "unrecognized arguments"),
        (
            ["run", "--input", "-", "--thread", "t"],
            (
                "error[usage]: --thread stands beside --input, which has a threadId of its own.\n"
                "  fix: Leave --thread out, or change the threadId.\n"
            ),
        ),
        (
            ["run", "hello", "--agent", "bling", "--set", "agents.billing.use=scripted"],
            "error[usage]: There is no agent bling.\n  fix: Did you mean billing?\n",
        ),
    ],
)
def test_a_wrong_command_line_is_2(cli: CommandLine, argv: list[str], says: str) -> None:
    outcome = cli(*argv)
    assert (outcome.code, outcome.out) == (2, "")
    assert says in outcome.err


# Ends from outside -----------------------------------------------------------------------------

PATIENT = f"""
import asyncio, pathlib
{IMPORTS}
from interpose import Middleware

async def answer(run_input):
    {STARTED}
    {SAYS}
    await asyncio.sleep(60)
    pathlib.Path("slept.txt").touch()
    {FINISHED}

class Witness(Middleware):
    def on_end(self, ctx, end):
        pathlib.Path("ended.txt").write_text(type(end.info).__name__)
"""
PATIENT_TOML = """
    [agent]
    use = "patient:answer"
    [middleware.witness]
    use = "patient:Witness"
    """


def start(cli: CommandLine, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - this Python, with this test's arguments
        [sys.executable, "-m", "interpose", *argv],
        cwd=cli.folder,
        # With Python's own buffering, whatever the environment of the tests says.
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_an_interrupt_cancels_the_run_in_good_order(cli: CommandLine) -> None:
    cli.write(PATIENT, "patient.py")
    cli.write(PATIENT_TOML)
    with start(cli, "run", "hello", "--json") as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted: the run was cancelled\n"
    kinds = [event["type"] for event in events("".join(seen) + out)]
    assert kinds[:3] == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    assert kinds[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert events(out)[-1]["outcome"]["type"] == "cancelled"
    assert (cli.folder / "ended.txt").read_text() == "AbortInfo"


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_a_second_interrupt_ends_a_run_that_is_not_willing_to_stop(cli: CommandLine) -> None:
    write_agent(
        cli,
        "unwilling",
        STARTED,
        "import asyncio",
        "while True:",
        "    try:",
        "        await asyncio.sleep(60)",
        "    except asyncio.CancelledError:",
        '        print("no", flush=True)',
    )
    with start(cli, "run", "hello", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "no\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted again: the run was not closed\n"


@pytest.mark.skipif(os.name == "nt", reason="closed pipes are told otherwise")
def test_a_reader_that_goes_away_ends_the_run_quietly(cli: CommandLine) -> None:
    cli.write(PATIENT.replace("sleep(60)", "sleep(0.5)"), "patient.py")
    cli.write(PATIENT_TOML)
    with start(cli, "run", "hello", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=30)
    assert (process.returncode, err) == (141, "")
    assert (cli.folder / "ended.txt").read_text() == "AbortInfo"


@pytest.mark.skipif(os.name == "nt", reason="closed pipes are told otherwise")
@pytest.mark.parametrize("command", ["schema", "demo"])
def test_a_reader_that_was_never_there_is_no_failure(cli: CommandLine, command: str) -> None:
    with start(cli, command) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=30)
    assert (process.returncode, err) == (141, "")


def test_text_is_shown_as_it_comes(cli: CommandLine) -> None:
    cli.write(PATIENT, "patient.py")
    cli.write(PATIENT_TOML)
    with start(cli, "run", "hello") as process:
        assert process.stdout is not None
        try:
            assert process.stdout.read(6) == "Let me"
            assert not (cli.folder / "slept.txt").exists()
        finally:
            process.kill()


def test_a_terminal_cannot_be_steered_by_an_agent(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(
        cli,
        "steering",
        STARTED,
        r'yield TextMessageChunkEvent(message_id="m", role="assistant", delta="a\x1b[2J\tb\n")',
        FINISHED,
    )
    assert cli("run", "hello").out == "a\x1b[2J\tb\n\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli("run", "hello").out == "a\\x1b[2J\tb\n\n"


def test_what_the_output_cannot_encode_is_escaped(cli: CommandLine, tmp_path: Path) -> None:
    write_agent(
        cli,
        "accents",
        STARTED,
        'yield TextMessageChunkEvent(message_id="m", role="assistant", delta="d\\u00e9j\\u00e0")',
        FINISHED,
    )
    done = subprocess.run(
        [sys.executable, "-m", "interpose", "run", "hello"],
        cwd=cli.folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "d\\xe9j\\xe0\n", "")


def test_a_trace_says_what_each_layer_did_and_nothing_of_the_content(cli: CommandLine) -> None:
    cli.write(
        "from interpose import DROP, Middleware, on\n"
        "from ag_ui.core import ToolCallResultEvent\n"
        "class Quiet(Middleware):\n"
        "    @on(ToolCallResultEvent)\n"
        "    def hide(self, ctx, event):\n"
        "        return DROP\n",
        "layers.py",
    )
    cli.write('[agent]\nuse = "scripted"\n[middleware.quiet]\nuse = "layers:Quiet"\n')
    outcome = cli("run", "hello", "--trace")
    assert (outcome.code, outcome.out) == (0, ANSWER)
    head, row = outcome.err.splitlines()
    assert head.split() == ["layer", "in", "out", "dropped", "held", "ms"]
    assert row.split()[:5] == ["quiet", "23", "22", "1", "0"]
    assert "ada" not in outcome.err
