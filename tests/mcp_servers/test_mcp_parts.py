"""The servers that the tests of MCP talk to are what they promise, as the plain SDK sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from driving import SECONDS
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp_parts import Served, everything, python_server, stdio_command
from mcp_talk import Wire, plain, run, talk, texts, with_wire

# The Python server.


def test_the_tools_say_who_sees_them(apps: Served) -> None:
    listed = talk(apps.url, lambda client: client.list_tools())
    meta = {tool.name: tool.meta for tool in listed.tools}
    page = {"resourceUri": "ui://clock/app.html"}
    assert meta == {
        "clock": {"ui": {**page, "visibility": ["model", "app"]}},
        "refresh": {"ui": {**page, "visibility": ["app"]}},
        "plan": {"ui": {**page, "visibility": ["model"]}},
        "hide": {"ui": {**page, "visibility": []}},
        "legacy": {"ui/resourceUri": "ui://clock/legacy.html"},
        **dict.fromkeys(["add", "say", "broken", "unwell", "refuse", "slow", "progressing"]),
        **dict.fromkeys(["whoami", "count", "where", "grow"]),
    }


def test_results_have_the_shapes_of_the_sdk(apps: Served) -> None:
    async def use(client: Client) -> list[dict[str, Any]]:
        return [
            plain(await client.call_tool(name, given))
            for name, given in (
                ("clock", {"zone": "CET"}),
                ("add", {"a": 1, "b": 2}),
                ("say", {"parts": ["one", "two"]}),
                ("broken", {}),
                ("unwell", {}),
            )
        ]

    def text(*said: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": each} for each in said]

    assert talk(apps.url, use) == [
        {
            "content": text("12:00 CET"),
            "structuredContent": {"result": "12:00 CET"},
            "isError": False,
        },
        {"content": text("3"), "structuredContent": {"result": 3}, "isError": False},
        {"content": text("one", "two"), "isError": False},
        {"content": text("Error executing tool broken"), "isError": True},
        {"content": text("not today"), "isError": True},
    ]


def test_a_tool_may_be_refused_by_the_protocol(apps: Served) -> None:
    async def use(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("refuse", {})
        return caught.value.error.message

    assert talk(apps.url, use) == "private: s3cret"


def test_the_page_says_what_it_may_do(apps: Served) -> None:
    async def use(client: Client) -> list[dict[str, Any]]:
        return [
            plain(await client.read_resource(uri))["contents"][0]
            for uri in ("ui://clock/app.html", "notes://today")
        ]

    page, notes = talk(apps.url, use)
    assert page["mimeType"] == "text/html;profile=mcp-app"
    assert page["_meta"]["ui"]["csp"] == {"connectDomains": ["https://time.example"]}
    assert notes == {"uri": "notes://today", "mimeType": "text/plain", "text": "Nothing today."}


@pytest.mark.parametrize("transport", ["apps", "apps_over_sse"])
def test_a_cancelled_call_is_noted(transport: str, request: pytest.FixtureRequest) -> None:
    server: Served = request.getfixturevalue(transport)
    target = server.url if transport == "apps" else sse_client(server.url)

    async def use(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "slow", {"seconds": SECONDS, "key": "k"})
            await server.awaited(lambda log: [each for each in log if each["kind"] == "tool"])
            group.cancel_scope.cancel()

    talk(target, use)
    server.until(lambda log: [each for each in log if each.get("what") == "cancelled"])
    noted = [(each["tool"], each["key"], each["what"]) for each in server.log("tool")]
    assert noted == [("slow", "k", "started"), ("slow", "k", "cancelled")]
    assert server.requests("notifications/cancelled") != []


def test_a_call_to_the_end_is_noted_too(apps: Served) -> None:
    assert texts(apps, ("slow", {"seconds": 0, "key": "k"})) == ["slept k"]
    assert [each["what"] for each in apps.log("tool")] == ["started", "ended"]


def test_progress_is_reported(apps: Served) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    talk(
        apps.url,
        lambda client: client.call_tool("progressing", {"steps": 2}, progress_callback=note),
    )
    assert told == [(1.0, 2.0, "step 1"), (2.0, 2.0, "step 2")]


def test_calls_of_a_session_are_counted_and_the_session_is_ended(apps: Served) -> None:
    assert texts(apps, ("count", {}), ("count", {})) == ["1", "2"]
    assert texts(apps, ("count", {})) == ["1"]
    [first, second] = apps.requests(method="DELETE")
    assert first["status"] == second["status"] == 200
    assert first["headers"]["mcp-session-id"] != second["headers"]["mcp-session-id"]


def test_a_server_knows_its_caller_by_headers(apps: Served) -> None:
    async def use(talking: Wire) -> list[str]:
        said = []
        for headers in ({}, {"authorization": "Bearer t0ken"}, {"x-test-user": "ann"}):
            talking.headers.update(headers)
            answer = await talking.call("tools/call", name="whoami")
            said.append(answer["result"]["content"][0]["text"])
        return said

    assert with_wire(apps, use) == ["", "Bearer", "ann"]
    assert apps.requests("tools/call")[-1]["headers"]["authorization"] == "Bearer t0ken"


def test_a_list_that_grows_is_announced() -> None:
    async def use(client: Client) -> list[str]:
        await client.call_tool("grow", {"name": "later"})
        with anyio.fail_after(SECONDS):
            await announced.wait()
        return [tool.name for tool in (await client.list_tools()).tools]

    announced = anyio.Event()

    async def note(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            announced.set()

    with python_server() as server:
        assert "later" in talk(server.url, use, message_handler=note)


def test_the_same_server_speaks_over_standard_input_and_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command, *parts = stdio_command("--log", str(log))

    async def use(client: Client) -> str:
        result = await client.call_tool("clock", {})
        return str(plain(result)["content"][0]["text"])

    target = stdio_client(StdioServerParameters(command=command, args=parts))
    assert talk(target, use) == "12:00 UTC"
    noted = [json.loads(line)["rpc"] for line in log.read_text().splitlines()]
    assert "tools/call" in noted


def test_without_a_session_the_newest_protocol_is_spoken(apps: Served) -> None:
    async def session() -> str:
        async with Client(apps.url) as client:
            return str(plain(await client.call_tool("where", {}))["content"][0]["text"])

    assert run(session) == ""
    assert [each["rpc"] for each in apps.requests()][:1] == ["server/discover"]
    assert apps.requests(method="DELETE") == []


# The servers from npm.


def test_everything_has_many_tools_and_listens_on_this_machine_alone(
    everything_server: Served,
) -> None:
    listed = talk(everything_server.url, lambda client: client.list_tools())
    assert {"echo", "get-sum", "trigger-long-running-operation"} <= {
        tool.name for tool in listed.tools
    }
    port = int(everything_server.origin.rpartition(":")[2])
    assert listening(everything_server.process_id, port) == ["127.0.0.1"]


def listening(process: int, port: int) -> list[str]:
    """Return the addresses that a port is open on, as Linux has it."""
    found = []
    for name in ("tcp", "tcp6"):
        table = Path(f"/proc/{process}/net/{name}")
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            local, state = line.split()[1], line.split()[3]
            address, _, number = local.partition(":")
            if state == "0A" and int(number, 16) == port:
                found.append("127.0.0.1" if address == "0100007F" else address)
    return found


def test_everything_speaks_sse_too(node_parts: None) -> None:
    with everything("sse") as server:
        listed = talk(sse_client(server.url), lambda client: client.list_tools())
    assert "echo" in {tool.name for tool in listed.tools}


def test_the_example_has_a_page_in_the_way_of_now_and_before(example_server: Served) -> None:
    async def use(client: Client) -> tuple[dict[str, Any], str]:
        [tool] = (await client.list_tools()).tools
        page = await client.read_resource("ui://get-time/mcp-app.html")
        return tool.meta or {}, plain(page)["contents"][0]["mimeType"]

    meta, mime = talk(example_server.url, use)
    uri = "ui://get-time/mcp-app.html"
    assert meta == {"ui": {"resourceUri": uri}, "ui/resourceUri": uri}
    assert mime == "text/html;profile=mcp-app"
