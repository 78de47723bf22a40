"""The odd servers are odd in the way they promise, as a client without any guard sees them."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest
from driving import SECONDS
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp_parts import Served, odd_server
from mcp_talk import HELLO, Wire, plain, run, talk, with_wire

PRIVATE = "private: s3cret"
PAGE = "ui://clock/app.html"
CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi"}}
METHODS: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "tools/call": CALL,
    "resources/read": {"uri": PAGE},
}


def seen(server: Served) -> list[tuple[str, str, str | None, int | None]]:
    """Return what was asked and answered, without notifications and streams."""
    return [
        (each["method"], each["path"], each["rpc"], each["status"])
        for each in server.requests()
        if each["method"] != "GET" and not (each["rpc"] or "").startswith("notifications/")
    ]


async def use_all(client: Client) -> list[str]:
    """List, call and read."""
    return [
        str([tool.name for tool in (await client.list_tools()).tools]),
        plain(await client.call_tool("echo", {"text": "hi"}))["content"][0]["text"],
        plain(await client.read_resource(PAGE))["contents"][0]["text"],
    ]


@pytest.mark.parametrize("answers", ["json", "sse"])
def test_a_plain_one_has_a_tool_and_a_page(answers: str) -> None:
    with odd_server("plain", answers=answers) as server:
        assert talk(server.url, use_all) == ["['echo', 'clock']", "hi", "<p>12:00</p>"]
        assert seen(server)[-1] == ("DELETE", "/mcp", None, 200)
        assert talk(sse_client(server.sse_url), use_all)[1] == "hi"


@pytest.mark.parametrize("kind", ["redirect", "redirect-away"])
def test_a_redirect_is_asked_for_once_and_leads_to_an_answer(kind: str) -> None:
    async def use(talking: Wire) -> Any:
        return (await talking.call("tools/call", **CALL))["result"]["content"]

    with odd_server(kind) as server:
        with_wire(server, lambda talking: talking.post("ping"))
        refused = [("POST", "/mcp", "initialize", 307), ("POST", "/mcp", "ping", 307)]
        assert seen(server) == refused
        server.clear()
        assert with_wire(server, use, follow_redirects=True) == [{"type": "text", "text": "hi"}]
        path = "/moved/mcp" if kind == "redirect" else "/mcp"
        first, then = server.requests("tools/call")
        assert (first["status"], then["status"], then["path"]) == (307, 200, path)
        assert (first["port"] == then["port"]) is (kind == "redirect")


def test_a_redirect_may_come_later() -> None:
    async def use(talking: Wire) -> list[int]:
        return [(await talking.post("tools/call", **CALL)).status_code for _ in range(2)]

    with odd_server("redirect-away", after=2) as server:
        assert with_wire(server, use) == [200, 307]


def test_another_origin_is_named_to_a_client_of_sse() -> None:
    async def first_event(server: Served) -> str:
        async with (
            httpx2.AsyncClient(trust_env=False) as client,
            client.stream("GET", server.sse_url) as stream,
        ):
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    return line
        return ""

    with odd_server("changes-origin") as server:
        line = run(lambda: first_event(server))
        assert line.startswith(f"data: {server.other}/messages?")
        assert server.other != server.origin


def test_another_origin_is_named_as_the_place_to_log_in() -> None:
    async def use(talking: Wire) -> httpx2.Response:
        return await talking.post("tools/list")

    with odd_server("changes-origin") as server:
        answer = with_wire(server, use)
        assert answer.status_code == 401
        assert server.other in answer.headers["www-authenticate"]


def test_the_end_of_a_session_is_not_answered() -> None:
    async def use(talking: Wire) -> bool:
        with anyio.move_on_after(0.3) as scope:
            await talking.client.delete(talking.url, headers=talking.headers)
        return scope.cancelled_caught

    with odd_server("stalls-on-delete") as server:
        assert with_wire(server, use)
        assert seen(server)[-1] == ("DELETE", "/mcp", None, None)


@pytest.mark.parametrize("over", ["http", "sse"])
def test_one_dies_when_a_tool_is_called(over: str) -> None:
    async def use(client: Client) -> None:
        await client.call_tool("echo", {})

    with odd_server("dies-in-call") as server:
        target = server.url if over == "http" else sse_client(server.sse_url)
        with pytest.raises((ExceptionGroup, MCPError)):
            talk(target, use)
        assert server.process.wait(SECONDS) == 3


@pytest.mark.parametrize("how", ["clean", "abrupt", "resumable"])
def test_one_drops_the_stream_of_a_call_and_lives_on(how: str) -> None:
    async def use(client: Client) -> list[str]:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("echo", {})
        page = await client.read_resource(PAGE)
        return [caught.value.error.message, plain(page)["contents"][0]["text"]]

    with odd_server("drops-connection", how=how) as server:
        message, page = talk(server.url, use)
        assert message.startswith("SSE stream ended")
        assert page == "<p>12:00</p>"


def test_many_tools_come_on_pages() -> None:
    async def use(talking: Wire) -> list[str]:
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await talking.call("tools/list", **cursor))["result"]
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                return names
            cursor = {"cursor": page["nextCursor"]}

    with odd_server("many") as server:
        assert with_wire(server, use) == [f"tool_{number:03}" for number in range(500)]
        assert len(server.requests("tools/list")) == 10


@pytest.mark.parametrize(
    ("kind", "cursors"),
    [("endless-cursor", ["again", "again", "again"]), ("growing-cursor", ["1", "2", "3"])],
)
def test_a_list_may_have_no_end(kind: str, cursors: list[str]) -> None:
    async def use(talking: Wire) -> tuple[list[str], list[str]]:
        names, found = [], []
        cursor: dict[str, str] = {}
        for _ in range(3):
            page = (await talking.call("tools/list", **cursor))["result"]
            names.append(page["tools"][0]["name"])
            found.append(page["nextCursor"])
            cursor = {"cursor": page["nextCursor"]}
        return names, found

    with odd_server(kind) as server:
        names, found = with_wire(server, use)
        assert found == cursors
        assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("where", "how"), [*((method, "rpc") for method in METHODS), ("tools/call", "http")]
)
def test_errors_have_private_text_where_they_are_to(where: str, how: str) -> None:
    async def use(talking: Wire) -> dict[str, tuple[int, str]]:
        answers = {name: await talking.post(name, **given) for name, given in METHODS.items()}
        return {name: (answer.status_code, answer.text) for name, answer in answers.items()}

    with odd_server("private-errors", where=where, how=how) as server:
        answers = with_wire(server, use)
        assert [name for name, (_, text) in answers.items() if PRIVATE in text] == [where]
        assert answers[where][0] == (200 if how == "rpc" else 500)


@pytest.mark.parametrize(
    ("where", "answers"),
    [("tools/list", "json"), ("tools/call", "sse"), ("resources/read", "json")],
)
def test_an_answer_may_be_huge(where: str, answers: str) -> None:
    async def use(talking: Wire) -> dict[str, Any]:
        return await talking.call(where, **METHODS[where])

    with odd_server("huge", where=where, answers=answers, megabytes=2) as server:
        answer = with_wire(server, use)
        assert len(str(answer["result"])) > 2 * 1024 * 1024
        assert [each["bytes"] for each in server.log("huge")] == [2 * 1024 * 1024]


def test_the_rest_of_a_huge_answer_is_not_sent_to_a_client_that_has_gone() -> None:
    async def use(talking: Wire) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
        async with talking.client.stream(
            "POST", talking.url, json=message, headers=talking.headers
        ) as answer:
            async for _ in answer.aiter_bytes():
                break

    with odd_server("huge", megabytes=64) as server:
        with_wire(server, use)
        log = server.until(lambda log: any(each.get("ended") for each in log))
        [sent] = [each["bytes"] for each in log if each["kind"] == "huge"]
        assert sent < 32 * 1024 * 1024


def test_a_handshake_may_never_be_answered() -> None:
    async def ask(server: Served, method: str) -> bool:
        async with httpx2.AsyncClient(trust_env=False) as client:
            with anyio.move_on_after(0.3) as scope:
                await Wire(client, server.url).post(method, **HELLO)
        return scope.cancelled_caught

    with odd_server("slow-handshake") as server:
        assert run(lambda: ask(server, "initialize"))
        assert run(lambda: ask(server, "server/discover"))


@pytest.mark.parametrize("answers", ["json", "sse"])
def test_an_answer_may_be_no_json(answers: str) -> None:
    async def use(client: Client) -> str:
        await client.list_tools()
        with pytest.raises(MCPError) as caught:
            await client.call_tool("echo", {})
        return caught.value.error.message

    with odd_server("bad-json", answers=answers) as server:
        assert talk(server.url, use).startswith("Failed to parse")


def test_sessions_may_be_forgotten_once() -> None:
    async def use(talking: Wire) -> list[int]:
        statuses = [(await talking.post("ping")).status_code for _ in range(2)]
        del talking.headers["mcp-session-id"]
        await talking.post("initialize", **HELLO)
        return [*statuses, (await talking.post("ping")).status_code]

    with odd_server("no-session-after", after=2) as server:
        assert with_wire(server, use) == [200, 404, 200]


def test_a_ping_may_be_refused() -> None:
    async def use(talking: Wire) -> list[str]:
        return [next(key for key in await talking.call("ping") if key in {"error", "result"})]

    with odd_server("ping-refused") as refusing, odd_server("plain") as server:
        assert with_wire(refusing, use) == ["error"]
        assert with_wire(server, use) == ["result"]


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(AssertionError, match="invalid choice"), odd_server("nothing of the kind"):
        pass


def test_a_server_ends_with_whoever_started_it() -> None:
    with odd_server("stalls-on-delete") as server:
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(SECONDS) == 0
