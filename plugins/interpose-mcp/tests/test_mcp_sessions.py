"""Sessions with programs and with servers in this process, and those of one run."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from loguru import logger
from mcp import MCPError
from mcp.server import MCPServer
from mcp_frames import Shop
from mcp_frames import tool as listed

from interpose.testing.clocks import FakeClock
from interpose_mcp.calling import RunSessions, outcome_of, parsed
from interpose_mcp.failures import ConnectFailed, McpFailure, scrubbed
from interpose_mcp.hub import Hub
from interpose_mcp.session import Session
from interpose_mcp.settings import ServerSettings
from interpose_mcp.target import Target

SECRET = "t0p-s3cret-value"
MODES = pytest.mark.parametrize("protocol", ["auto", "legacy"])
SESSIONS = pytest.mark.parametrize("session", ["run", "host"])
PROGRAM = """
import os
from mcp.server import MCPServer

server = MCPServer("program")
open("pid", "w").write(str(os.getpid()))

@server.tool()
def env() -> str:
    return " ".join(sorted(os.environ))

@server.tool()
def secret() -> str:
    return os.environ["KEY"]

@server.tool()
def cwd() -> str:
    return os.getcwd()

@server.tool()
def die() -> str:
    os._exit(3)

"""
RUN = 'server.run("stdio")\n'
RUBBISH = "print('hello', flush=True)\nos.write(1, b'\\xff\\xfe{}\\n[1]\\n')\n"
STUBBORN = "import time\ntime.sleep(60)\n"  # it does not end with its standard input
DEAF = """
import os, signal, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("pid", "w").write(str(os.getpid()))
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.1)
"""


@pytest.fixture
def log() -> Iterator[list[str]]:
    texts: list[str] = []
    logger.enable("interpose_mcp")  # another test may have silenced it
    sink = logger.add(lambda text: texts.append(str(text)), format="{level} {message}")
    yield texts
    logger.remove(sink)


def program(folder: Path, text: str, **settings: Any) -> Target:
    """Return a target that is a program with this text, in this folder."""
    (folder / "program.py").write_text(text)
    told = {"command": sys.executable, "args": ["program.py"], **settings}
    return Target("s", ServerSettings.model_validate(told), folder)


def here(server: Any, **settings: Any) -> Target:
    """Return a target that is a server in this process."""
    told = ServerSettings.model_validate({"python": "not:imported", **settings})
    return Target("s", told, Path(), server=server)


@asynccontextmanager
async def run_with(target: Target) -> AsyncIterator[RunSessions]:
    """Hold the sessions of a run."""
    hub = Hub({"s": target}, max_age=300, clock=FakeClock(), log=logger)
    deferred: list[Callable[[], Awaitable[None]]] = []
    try:
        yield RunSessions(hub, deferred.append)
        for work in deferred:
            await work()
    finally:
        await hub.close()


def clean(main: Callable[[], Awaitable[None]]) -> None:
    """Do something with an event loop, and find that no task and no failure is left of it."""
    unheard: list[Any] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        async with asyncio.timeout(45):
            await main()
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(work())
    gc.collect()
    assert unheard == []


def text(result: Any) -> str:
    return outcome_of(result).result.content


def is_running(folder: Path) -> bool:
    """Tell whether the program that left its id is there."""
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


# Programs ------------------------------------------------------------------------------------
def test_a_program_sees_its_own_variables_and_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-others")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program.py").write_text(PROGRAM + RUN)
    target = program(tmp_path, "", cwd="inner", env={"KEY": SECRET})

    async def main() -> None:
        async with run_with(target) as run:
            variables = text(await run.call("s", "env", {})).split()
            assert {"KEY", "PATH"} <= set(variables)
            harmless = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "KEY", "LC_CTYPE"}
            assert set(variables) <= harmless
            assert text(await run.call("s", "secret", {})) == SECRET
            assert text(await run.call("s", "cwd", {})) == str((tmp_path / "inner").resolve())

    clean(main)
    assert not is_running(tmp_path / "inner")


@SESSIONS
def test_a_program_ends_with_the_run_or_with_the_host(tmp_path: Path, session: str) -> None:
    async def main() -> None:
        target = program(tmp_path, PROGRAM + RUN, session=session)
        hub = Hub({"s": target}, max_age=300, clock=FakeClock(), log=logger)
        deferred: list[Callable[[], Awaitable[None]]] = []
        run = RunSessions(hub, deferred.append)
        await run.call("s", "cwd", {})
        assert is_running(tmp_path)
        for work in deferred:
            await work()
        assert is_running(tmp_path) is (session == "host")
        await hub.close()
        assert not is_running(tmp_path)

    clean(main)


@MODES
def test_a_program_that_is_not_there_is_told_of(
    tmp_path: Path, log: list[str], protocol: str
) -> None:
    settings = {"command": "no-such-program", "protocol": protocol}
    target = Target("s", ServerSettings.model_validate(settings), tmp_path)

    async def main() -> None:
        async with run_with(target) as run:
            with pytest.raises(ConnectFailed, match="'s' could not be reached"):
                await run.session("s")

    clean(main)
    assert any("No such file or directory" in line and "no-such-program" in line for line in log)


@MODES
@pytest.mark.parametrize("begins", ["raise SystemExit(3)\n", "", RUBBISH])
def test_a_program_that_ends_at_once_is_told_of_at_once(
    tmp_path: Path, begins: str, protocol: str
) -> None:
    async def main() -> None:
        target = program(tmp_path, "import os\n" + begins, protocol=protocol, connect_timeout=30)
        async with run_with(target) as run:
            with pytest.raises(ConnectFailed, match="'s' could not be reached"):
                await run.session("s")

    begun = time.monotonic()
    clean(main)
    assert time.monotonic() - begun < 20


@MODES
def test_rubbish_of_a_program_is_passed_over(tmp_path: Path, protocol: str) -> None:
    async def main() -> None:
        target = program(tmp_path, PROGRAM + RUBBISH + RUN, protocol=protocol)
        async with run_with(target) as run:
            assert text(await run.call("s", "cwd", {})) == str(tmp_path)

    clean(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_program_that_does_not_end_is_ended(tmp_path: Path, *, cancelled: bool) -> None:
    async def main() -> None:
        target = program(tmp_path, PROGRAM + STUBBORN, connect_timeout=30 if cancelled else 3)
        async with run_with(target) as run:
            opening = asyncio.create_task(run.session("s"))
            while not (tmp_path / "pid").exists():  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.01)
            if cancelled:
                opening.cancel()
            begun = time.monotonic()
            await asyncio.wait([opening])
            assert time.monotonic() - begun < 4.5
        if not cancelled:
            with pytest.raises(ConnectFailed, match="could not be reached within 3 s"):
                opening.result()
        assert not is_running(tmp_path)

    clean(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_program_that_ignores_its_end_is_ended_before_its_host(
    tmp_path: Path, *, cancelled: bool
) -> None:
    async def main() -> None:
        # Cancelled or not, the limit is reached before the program is gone.
        async with run_with(program(tmp_path, DEAF, connect_timeout=3)) as run:
            opening = asyncio.create_task(run.session("s"))
            while not (tmp_path / "pid").exists():  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.01)
            if cancelled:
                opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        assert not is_running(tmp_path)

    clean(main)


def test_a_program_that_ignores_its_end_is_ended_when_no_host_knows_it(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ConnectFailed, match="could not be reached within 3 s"):
            await Session.open(program(tmp_path, DEAF, connect_timeout=3), logger)
        assert not is_running(tmp_path)

    clean(main)


def test_a_program_that_dies_in_a_call_fails_it_and_the_next_starts_another(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with run_with(program(tmp_path, PROGRAM + RUN)) as run:
            first = await run.session("s")
            with pytest.raises(McpFailure, match="ended during the call") as caught:
                await run.call("s", "die", {})
            assert caught.value.executed
            assert not first.is_open
            assert text(await run.call("s", "cwd", {})) == str(tmp_path)

    clean(main)
    assert not is_running(tmp_path)


def test_a_listing_is_read_anew_when_the_program_has_died(tmp_path: Path) -> None:
    async def main() -> None:
        target = program(tmp_path, PROGRAM + RUN, session="host")
        hub = Hub({"s": target}, max_age=300, clock=FakeClock(), log=logger)
        assert len(await hub.tools("s")) == 4
        (tmp_path / "program.py").write_text("import os\n" + PROGRAM.partition("@")[0] + RUN)
        with pytest.raises(McpFailure):
            await (await hub.session("s")).call("die", {})
        assert await hub.tools("s") == ()
        await hub.close()

    clean(main)


# Servers in this process ---------------------------------------------------------------------
class Tools:
    """A server in this process whose tools tell what happened to them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun = asyncio.Event()
        self.server = MCPServer("here", log_level="CRITICAL")
        for tool in (self.say, self.broken, self.slow):
            self.server.tool()(tool)

    def say(self, text: str) -> str:
        """Say it."""
        return text

    def broken(self) -> str:
        """Fail unexpectedly."""
        raise ValueError(f"private {SECRET}")

    async def slow(self) -> str:
        """Take very long."""
        self.begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.done.append("cancelled")
            raise
        return "late"


@MODES
@SESSIONS
def test_a_server_in_this_process_is_called(protocol: str, session: str) -> None:
    async def main() -> None:
        async with run_with(here(Tools().server, protocol=protocol, session=session)) as run:
            assert text(await run.call("s", "say", {"text": "hi"})) == "hi"
            result = await run.call("s", "broken", {})
            assert result.is_error
            assert SECRET not in text(result)
            await (await run.session("s")).ping()

    clean(main)


@MODES
def test_a_call_in_this_process_is_cancelled_with_its_caller(protocol: str) -> None:
    async def main() -> None:
        tools = Tools()
        async with run_with(here(tools.server, protocol=protocol)) as run:
            call = asyncio.create_task(run.call("s", "slow", {}))
            await tools.begun.wait()
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
            while not tools.done:  # noqa: ASYNC110 - the server sets no event
                await asyncio.sleep(0.01)
            assert text(await run.call("s", "say", {"text": "hi"})) == "hi"

    clean(main)


@MODES
def test_a_call_in_this_process_ends_in_its_time(protocol: str) -> None:
    async def main() -> None:
        tools = Tools()
        async with run_with(here(tools.server, protocol=protocol, timeout=0.2)) as run:
            with pytest.raises(McpFailure, match=r"took longer than 0\.2 s") as caught:
                await run.call("s", "slow", {})
            assert caught.value.executed
            while not tools.done:  # noqa: ASYNC110 - the server sets no event
                await asyncio.sleep(0.01)

    clean(main)


@MODES
def test_what_a_server_does_not_know_is_refused_in_our_own_words(protocol: str) -> None:
    async def main() -> None:
        async with run_with(here(Tools().server, protocol=protocol)) as run:
            with pytest.raises(McpFailure, match="'s'") as caught:
                await (await run.session("s")).read_resource("no://such")
            assert "no://such" not in caught.value.message

    clean(main)


@MODES
def test_a_session_that_has_ended_says_so(protocol: str) -> None:
    async def main() -> None:
        session = await Session.open(here(Tools().server, protocol=protocol), logger)
        assert session.is_open
        assert session.server.startswith("here")
        await session.close()
        with pytest.raises(McpFailure, match="has ended") as caught:
            await session.call("say", {"text": "hi"})
        assert not caught.value.executed

    clean(main)


@MODES
def test_a_caller_that_is_cancelled_at_any_moment_leaves_nothing(protocol: str) -> None:
    async def main() -> None:
        for turns in range(40):
            tools = Tools()
            async with run_with(here(tools.server, protocol=protocol)) as run:
                call = asyncio.create_task(run.call("s", "say", {"text": "hi"}))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])

    clean(main)


@MODES
def test_a_host_that_ends_at_any_moment_leaves_nothing(protocol: str) -> None:
    async def main() -> None:
        for turns in range(40):
            tools = Tools()
            target = here(tools.server, protocol=protocol, session="host")
            hub = Hub({"s": target}, max_age=300, clock=FakeClock(), log=logger)
            run = RunSessions(hub, lambda _: None)
            work = [
                asyncio.create_task(run.call("s", "say", {"text": "hi"})),
                asyncio.create_task(hub.tools("s")),
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            await hub.close()
            await asyncio.wait(work)
            for each in work:
                assert each.cancelled() or isinstance(each.exception(), McpFailure | None)

    clean(main)


def test_an_error_of_a_server_is_no_timeout_whatever_its_code() -> None:
    def busy(*_: object) -> Any:
        raise MCPError(-32001, "Too busy")

    async def main() -> None:
        async with run_with(here(Shop(listed("buy"), call=busy).server())) as run:
            with pytest.raises(McpFailure, match=r"answered with an error \(-32001\)") as caught:
                await run.call("s", "buy", {})
            assert caught.value.executed

    clean(main)


# What others log -----------------------------------------------------------------------------
class Kept(logging.Handler):
    """Keeps what is logged, and all that a handler of its own mind could show of it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.texts.append(f"{self.format(record)} {vars(record)}")


def test_no_part_of_a_secret_is_in_what_the_sdk_logs_of_rubbish(
    tmp_path: Path, log: list[str]
) -> None:
    secrets = {name: f"{name}-begins-{'x' * 200}-{name}-ends" for name in ("one", "two")}
    shout = "import os\nprint('not json', os.environ['KEY'], flush=True)\n"
    kept, root = Kept(), logging.getLogger()

    async def main() -> None:
        targets = []
        for name, secret in secrets.items():
            (tmp_path / name).mkdir()
            targets.append(program(tmp_path / name, shout, env={"KEY": secret}))
        opening = [Session.open(target, logger) for target in targets]
        for failed in await asyncio.gather(*opening, return_exceptions=True):
            assert isinstance(failed, ConnectFailed)

    root.addHandler(kept)
    try:
        clean(main)
    finally:
        root.removeHandler(kept)
    told = [text for text in kept.texts if "Failed to parse" in text]
    assert len(told) == 2
    assert all("ValidationError: Invalid JSON" in text for text in told)
    assert [text for text in [*kept.texts, *log] if "begins" in text or "ends" in text] == []
    assert [record for record in kept.records if record.exc_info] == []


@pytest.mark.parametrize("spelled", [str, repr, ascii])
def test_a_secret_is_masked_however_it_is_spelled(spelled: Callable[[str], str]) -> None:
    secret = 'a "quoted"\ts\u00e9cret\\'
    assert scrubbed(f"so {spelled(secret)}", [secret]).strip("'\"so ") == "***"


# What a model wrote --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("written", "found"), [("", {}), (" \n", {}), ("{}", {}), ('{"a": [1]}', {"a": [1]})]
)
def test_arguments_are_an_object(written: str, found: dict[str, Any]) -> None:
    assert parsed(written) == found


@pytest.mark.parametrize(
    "written",
    ["[", "null", "[]", '"a"', '{"a": NaN}', '{"a": -Infinity}', "[" * 100_000, "1" * 5_000],
)
def test_other_arguments_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="The arguments are not"):
        parsed(written)
