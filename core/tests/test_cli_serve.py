"""``interpose serve`` as an operator sees it: a process, its output, its signals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx2
import pytest
from commandline import CommandLine
from serving import body, events_of, types_of

SCRIPTED = '[agent]\nuse = "scripted"\n'
SLOW = """
    import asyncio
    from ag_ui.core import *

    async def agent(run_input):
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        yield TextMessageStartEvent(message_id="m")
        await asyncio.sleep({seconds})
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    """


class Serving:
    """A server process and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.line = process.stdout.readline()
        found = re.search(r"http://\S+:\d+/", self.line)
        assert found, self.line + (process.stderr.read() if process.stderr else "")
        self.url = found[0]

    def stop(self, sent: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(sent)
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


@contextlib.contextmanager
def serving(folder: Path, *argv: str) -> Iterator[Serving]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("INTERPOSE")}
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "interpose", "serve", "--port", "0", *argv],
        cwd=folder,
        env=clean,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(dedent(text), encoding="utf-8")


def test_it_serves_each_agent_says_where_and_stops_at_sigterm(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", SCRIPTED + '[agents.billing]\nuse = "scripted"\n')
    with serving(tmp_path) as server:
        assert server.line == f"Serving {server.url} (Ctrl-C stops)\n"
        assert server.process.stdout is not None
        assert [server.process.stdout.readline() for _ in range(2)] == [
            f"  POST {server.url}agents/billing  billing\n",
            f"  POST {server.url}  default\n",
        ]
        for path in ("", "agents/billing"):
            answer = httpx2.post(server.url + path, json=body(), trust_env=False)
            assert types_of(answer.text)[-1] == "RUN_FINISHED"
        assert server.stop() == (0, "")


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", SCRIPTED)
    with serving(tmp_path) as server:
        assert server.url.startswith("http://127.0.0.1:")
        port = int(server.url.rstrip("/").rpartition(":")[2])
        with socket.socket() as other, pytest.raises(ConnectionRefusedError):
            other.connect(("127.0.0.2", port))


def test_open_runs_end_by_themselves_when_they_can(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", '[agent]\nuse = "slow:agent"\n')
    write(tmp_path, "slow.py", SLOW.format(seconds=1))
    with serving(tmp_path) as server:
        text = stopped_in_the_middle(server, signal.SIGTERM)
        assert types_of(text)[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
        assert "outcome" not in events_of(text)[-1]
        assert server.process.wait(20) == 0


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_open_runs_that_take_too_long_are_cancelled_in_good_order(
    tmp_path: Path, sent: int, code: int
) -> None:
    write(
        tmp_path,
        "interpose.toml",
        '[agent]\nuse = "slow:agent"\n[server]\nshutdown_deadline = 0.5\n',
    )
    write(tmp_path, "slow.py", SLOW.format(seconds=3600))
    with serving(tmp_path) as server:
        text = stopped_in_the_middle(server, sent)
        assert types_of(text)[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
        assert events_of(text)[-1]["outcome"] == {"type": "cancelled"}
        assert server.process.wait(20) == code


def test_a_second_ctrl_c_does_not_wait_for_open_runs(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", '[agent]\nuse = "slow:agent"\n')
    write(tmp_path, "slow.py", SLOW.format(seconds=3600))
    with serving(tmp_path) as server, httpx2.stream("POST", server.url, json=body()) as answer:
        parts = answer.iter_raw()
        next(parts)
        server.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 130


STUBBORN = """
    import asyncio
    from ag_ui.core import *

    async def agent(run_input):
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        while True:
            try:
                await asyncio.sleep(3600)
            except BaseException:
                pass
    """


def test_an_agent_that_ignores_cancellation_does_not_keep_the_server(tmp_path: Path) -> None:
    table = "[server]\nshutdown_deadline = 0.2\n[host]\nending_deadline = 0.2\n"
    write(tmp_path, "interpose.toml", f'[agent]\nuse = "stubborn:agent"\n{table}')
    write(tmp_path, "stubborn.py", STUBBORN)
    with serving(tmp_path) as server, httpx2.stream("POST", server.url, json=body()) as answer:
        next(answer.iter_raw())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 1
        assert server.process.stderr is not None
        assert "the server did not stop in time" in server.process.stderr.read()


def test_a_second_sigterm_while_the_server_stops_changes_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        "slow_end.py",
        """
        import asyncio
        from contextlib import asynccontextmanager
        from interpose import Middleware

        class SlowEnd(Middleware):
            @classmethod
            @asynccontextmanager
            async def lifespan(cls, settings, ctx):
                yield None
                await asyncio.sleep(1)
        """,
    )
    write(
        tmp_path, "interpose.toml", SCRIPTED + '[middleware.slow-end]\nuse = "slow_end:SlowEnd"\n'
    )
    with serving(tmp_path) as server:
        server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(0.7)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0


def test_the_log_says_why_a_run_failed_and_debug_shows_the_traceback(tmp_path: Path) -> None:
    write(
        tmp_path,
        "broken.py",
        """
        from ag_ui.core import *

        async def raising(run_input):
            yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
            raise RuntimeError("the database is away")

        async def invalid(run_input):
            yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
            yield TextMessageContentEvent(message_id="m", delta="x")
        """,
    )
    write(
        tmp_path,
        "interpose.toml",
        '[agents.raising]\nuse = "broken:raising"\n[agents.invalid]\nuse = "broken:invalid"\n',
    )
    with serving(tmp_path, "--debug") as server:
        for agent in ("raising", "invalid"):
            answer = httpx2.post(f"{server.url}agents/{agent}", json=body())
            assert "database" not in answer.text
        _, errors = server.stop()
    assert "run failed: agent-failed (RuntimeError: the database is away)" in errors
    assert 'raise RuntimeError("the database is away")' in errors
    assert "run failed: invalid-stream (InvalidStream: TEXT_MESSAGE_CONTENT" in errors


def stopped_in_the_middle(server: Serving, sent: int) -> str:
    with httpx2.stream("POST", server.url, json=body(), trust_env=False) as answer:
        parts = answer.iter_raw()
        text = next(parts).decode()
        threading.Timer(0.1, server.process.send_signal, [sent]).start()
        return text + b"".join(parts).decode()


def test_a_web_page_from_elsewhere_may_not_call_unless_its_origin_is_named(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", SCRIPTED + '[server]\ncors = ["https://app.example"]\n')
    origins = ["https://evil.example", "https://app.example", "http://localhost:3000", "null"]
    with serving(tmp_path) as server:
        statuses = [
            httpx2.post(server.url, json=body(), headers={"origin": origin}).status_code
            for origin in origins
        ]
    assert statuses == [403, 200, 403, 403]


def test_the_plan_is_shown_only_on_demand(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", SCRIPTED)
    with serving(tmp_path) as server:
        assert httpx2.get(server.url + "plan").status_code == 404
    with serving(tmp_path, "--expose-plan") as server:
        assert httpx2.get(server.url + "plan").json()["agent"]["use"] == "scripted"


def test_the_log_goes_to_standard_error_without_what_clients_sent(tmp_path: Path) -> None:
    write(tmp_path, "interpose.toml", SCRIPTED + "[middleware.logging]\nevents = false\n")
    with serving(tmp_path) as server:
        httpx2.post(server.url, json=body("my secret question", run_id="run-7"))
        httpx2.post(
            server.url, content=b'{"my": "secret"', headers={"content-type": "application/json"}
        )
        code, errors = server.stop()
    assert code == 0
    assert "run_id=run-7" in errors
    assert "secret" not in errors


# What keeps it from serving --------------------------------------------------------------------


def test_a_port_that_is_taken_is_a_clear_error(cli: CommandLine) -> None:
    cli.write(SCRIPTED)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = cli("serve", "--port", str(port))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "1 problem at startup\n\n"
        f"error[cannot-listen]: The server cannot listen on 127.0.0.1 port {port}: "
        "Address already in use.\n"
        "  fix: Choose another with --host and --port, or in the table [server].\n"
        "       Write the address alone, as 127.0.0.1 or ::1.\n"
    )


def test_an_empty_address_is_refused_and_not_every_address(cli: CommandLine) -> None:
    cli.write(SCRIPTED)
    option = cli("serve", "--host", "", "--port", "0")
    cli.write(SCRIPTED + '[server]\nhost = ""\n')
    for outcome in (option, cli("serve", "--port", "0")):
        assert (outcome.code, outcome.out) == (1, "")
        assert "server.host: " in outcome.err
        assert "The address to listen on, as 127.0.0.1 or ::1" in outcome.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--host", "[::1]"], "Write the address alone, as 127.0.0.1 or ::1."),
        (["--host", "127.0.0.1:9000"], "Write the address alone, as 127.0.0.1 or ::1."),
        (["--host", "http://127.0.0.1"], "Write the address alone, as 127.0.0.1 or ::1."),
        (["--port", "http"], "server.port"),
        (["--port", "70000"], "server.port"),
        (["--host", "nowhere.invalid", "--port", "0"], "cannot listen on nowhere.invalid port 0: "),
    ],
)
def test_an_address_that_is_none_is_a_clear_error(
    cli: CommandLine, argv: Sequence[str], said: str
) -> None:
    cli.write(SCRIPTED)
    outcome = cli("serve", *argv)
    assert outcome.code == 1
    assert said in outcome.err
    assert "Traceback" not in outcome.err


def test_an_address_in_brackets_is_a_clear_error(cli: CommandLine) -> None:
    cli.write(SCRIPTED + '[server]\nhost = "[::1]"\n')
    outcome = cli("serve", "--port", "0")
    assert (outcome.code, outcome.out) == (1, "")
    assert "cannot listen on [::1] port 0: " in outcome.err
    assert "Write the address alone, as 127.0.0.1 or ::1." in outcome.err


def test_a_configuration_without_an_agent_is_refused(cli: CommandLine) -> None:
    cli.write("[host]\n")
    outcome = cli("serve", "--port", "0")
    assert outcome.code == 1
    assert "error[no-agent]: " in outcome.err


def test_what_only_an_application_can_provide_is_refused_at_startup(cli: CommandLine) -> None:
    cli.write(
        """
        from interpose import PRINCIPAL, Middleware
        class Guard(Middleware):
            requires = (PRINCIPAL,)
        """,
        "guarded.py",
    )
    cli.write(
        SCRIPTED
        + '[middleware.guard]\nuse = "guarded:Guard"\n[capabilities]\nprincipal = "application"\n'
    )
    outcome = cli("serve", "--port", "0")
    assert outcome.code == 1
    assert "principal" in outcome.err
    assert "error[" in outcome.err


def test_a_lifespan_that_fails_ends_the_command_with_its_problem(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\nfile = "missing.jsonl"\n')
    outcome = cli("serve", "--port", "0")
    assert (outcome.code, outcome.out) == (1, "")
    assert "missing.jsonl" in outcome.err


def test_without_its_extra_it_says_what_to_install(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interpose.cli import serve

    cli.write(SCRIPTED)
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else object())
    outcome = cli("serve")
    assert outcome.code == 2
    assert outcome.err == (
        "error[usage]: interpose serve needs uvicorn, which is not installed.\n"
        '  fix: Install it: pip install "interpose[server]".\n'
    )


def test_what_needs_a_store_is_refused(cli: CommandLine) -> None:
    cli.write(SCRIPTED + '[server]\non_disconnect = "detach"\n')
    outcome = cli("check")
    assert outcome.code == 1
    assert "server.on_disconnect" in outcome.out + outcome.err


def test_the_server_package_says_what_it_lacks() -> None:
    code = dedent(
        """
        import sys
        sys.modules["starlette"] = None
        try:
            import interpose.server
        except ImportError as error:
            print(error)
        """
    )
    ran = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout == (
        'interpose.server needs Starlette. Install it: pip install "interpose[server]"\n'
    )


def test_a_plan_shows_no_secret(tmp_path: Path) -> None:
    write(
        tmp_path,
        "interpose.toml",
        SCRIPTED + '[host]\nsigning_key = "hunter2hunter2"\n[middleware.logging]\n',
    )
    with serving(tmp_path, "--expose-plan") as server:
        plan: dict[str, Any] = httpx2.get(server.url + "plan").json()
    assert "hunter2" not in json.dumps(plan)
