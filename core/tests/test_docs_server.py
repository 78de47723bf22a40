"""docs/server.md: its code serves, and its tables are the code's."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets
from repository import fenced
from serving import body, listening, run_async, types_of, until

from interpose.agui import violations
from interpose.startup.hostmodel import ServerTable

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
CODE = {info.partition(" ")[2]: code for info, code in fenced(PAGE) if info.startswith("python ")}
SLOW = """
import asyncio
from ag_ui.core import *

closed = []

async def agent(run_input):
    try:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        if run_input.messages[-1].content == "wait":
            await asyncio.sleep(3600)
        yield TextMessageChunkEvent(message_id="m", role="assistant", delta="hello")
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    finally:
        closed.append(run_input.run_id)
"""


@asynccontextmanager
async def page_app(
    name: str, folder: Path, patch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, Any]]:
    """Serve an application of the page, with an agent that can wait."""
    module = Path(name).stem
    (folder / name).write_text(CODE[name])
    (folder / "page_agent.py").write_text(SLOW)
    (folder / "interpose.toml").write_text('[agent]\nuse = "page_agent:agent"\n')
    patch.chdir(folder)
    patch.syspath_prepend(str(folder))
    for each in (module, "page_agent"):
        sys.modules.pop(each, None)
    app = importlib.import_module(module).app
    async with listening(app) as url:
        yield url, sys.modules["page_agent"]
    for each in (module, "page_agent"):
        sys.modules.pop(each, None)


Play = Callable[[str, Any], Coroutine[Any, Any, None]]


def play(name: str, folder: Path, patch: pytest.MonkeyPatch, test: Play) -> None:
    async def whole() -> None:
        async with page_app(name, folder, patch) as (url, agent):
            await test(url, agent)

    run_async(whole)


def test_the_route_of_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(url: str, _agent: Any) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            answer = await client.post("/chat/thread-7", json={"question": "hi"})
            assert (await client.post("/chat/thread-7", json={"question": 5})).status_code == 422
        assert types_of(answer.text)[-1] == "RUN_FINISHED"
        assert '"threadId":"thread-7"' in answer.text

    play("chat.py", tmp_path, monkeypatch, test)


async def one_run(socket: websockets.ClientConnection) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in {"RUN_FINISHED", "RUN_ERROR"}:
        events.append(json.loads(await socket.recv()))
    return events


def test_the_websocket_of_the_page_serves_run_after_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(url: str, _agent: Any) -> None:
        async with websockets.connect(url.replace("http", "ws"), proxy=None) as socket:
            for run_id in ("run-1", "run-2"):
                await socket.send(json.dumps(body(run_id=run_id)))
                events = await one_run(socket)
                assert [event["type"] for event in events][-1] == "RUN_FINISHED"
                assert events[0]["runId"] == run_id
                assert list(violations(_typed(events))) == []

    play("socket_server.py", tmp_path, monkeypatch, test)


def test_a_websocket_that_closes_cancels_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(url: str, agent: Any) -> None:
        async with websockets.connect(url.replace("http", "ws"), proxy=None) as socket:
            await socket.send(json.dumps(body("wait")))
            assert json.loads(await socket.recv())["type"] == "RUN_STARTED"
            assert agent.closed == []
        await until(lambda: agent.closed == ["run-1"])

    play("socket_server.py", tmp_path, monkeypatch, test)


def test_a_word_of_the_client_stops_its_run_and_the_socket_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(url: str, _agent: Any) -> None:
        async with websockets.connect(url.replace("http", "ws"), proxy=None) as socket:
            await socket.send(json.dumps(body("wait")))
            await socket.recv()
            await socket.send("stop")
            events = [{"type": "RUN_STARTED"}, *await one_run(socket)]
            assert events[-1]["outcome"] == {"type": "cancelled"}
            await socket.send(json.dumps(body(run_id="run-2")))
            assert (await one_run(socket))[-1]["type"] == "RUN_FINISHED"

    play("socket_server.py", tmp_path, monkeypatch, test)


@pytest.mark.parametrize("sent", ["no JSON", "{}"])
def test_what_is_no_input_closes_the_websocket_with_a_reason(
    sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(url: str, _agent: Any) -> None:
        async with websockets.connect(url.replace("http", "ws"), proxy=None) as socket:
            await socket.send(sent)
            with pytest.raises(websockets.ConnectionClosed):
                async with asyncio.timeout(5):
                    await socket.recv()
            assert (socket.close_code, socket.close_reason) == (1007, "no AG-UI input")

    play("socket_server.py", tmp_path, monkeypatch, test)


def test_every_block_of_code_is_tried() -> None:
    assert set(CODE) == {"chat.py", "socket_server.py"}
    others = [info for info, _ in fenced(PAGE) if not info.startswith("python ")]
    assert others == ["nginx"]


def test_the_table_of_settings_is_the_code() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (`.+?`|none) \|", PAGE, re.MULTILINE))
    said = {
        name: "none" if (default := field.get_default()) is None else f"`{json.dumps(default)}`"
        for name, field in ServerTable.model_fields.items()
    }
    assert rows == said


def _typed(events: list[dict[str, Any]]) -> list[Any]:
    from interpose.agui import strip

    return [strip(event).event for event in events]
