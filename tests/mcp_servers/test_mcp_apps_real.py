"""``mcp.apps`` with real servers: what they see of it, and what becomes of odd ones."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, RunFinishedEvent
from driving import SECONDS
from looping import Spy, loop, seen
from looping import calls as turn
from mcp_frames import activities, listening
from mcp_frames import apps as layer
from mcp_parts import Served, odd_server, proxied, run_input, stdio_command
from mcp_shop import Calling, Pass, results
from mcp_tools import CLOCK, LEGACY, PAGE
from playing import Played

from interpose import Host
from interpose_mcp import server_hash

PRIVATE = "private: s3cret"
FAILED = {"error": "Error: MCP request failed"}
SECRET = "Bearer t0ken-of-ours"
ECHO = proxied("tools/call", {"name": "echo", "arguments": {"text": "hi"}}, serverId="s")
READ = proxied("resources/read", {"uri": "ui://clock/app.html"}, serverId="s")


def play(
    servers: dict[str, Any], *asked: dict[str, Any], agent: Calling | None = None
) -> list[Played]:
    """Play runs in one host, one after another."""

    async def main() -> list[Played]:
        async with asyncio.timeout(60):
            async with Host([layer(servers)], agent=agent or Calling(), strict=True) as host:
                return [await seen(host.run(RunAgentInput.model_validate(each))) for each in asked]

    return asyncio.run(main())


def answer(servers: dict[str, Any], asked: dict[str, Any]) -> Any:
    """Return what a frame is answered."""
    agent = Calling()
    [played] = play(servers, asked, agent=agent)
    assert agent.inputs == []
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent), played.result.error
    return last.result


def rpc(server: Served) -> list[str]:
    """Return what a server was asked for, in order, without what keeps a session."""
    return [
        each["rpc"]
        for each in server.requests()
        if each["rpc"] in {"tools/list", "tools/call", "resources/read", "ping"}
    ]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
def test_each_transport_carries_a_run_and_what_its_frame_asks(
    apps: Served, apps_over_sse: Served, transport: str, protocol: str
) -> None:
    command, *args = stdio_command()
    each: dict[str, dict[str, Any]] = {
        "http": {"url": apps.url},
        "sse": {"url": apps_over_sse.url, "type": "sse"},
        "stdio": {"command": command, "args": args},
    }
    server = each[transport]
    servers = {"s": {**server, "protocol": protocol}}
    agent = Calling([("c1", "clock", '{"zone": "CET"}'), ("c2", "add", '{"a": 1, "b": 2}')])
    [played] = play(servers, run_input(), agent=agent)
    assert results(played.events) == [("c1", "12:00 CET"), ("c2", "3")]
    [activity] = activities(played.events)
    assert activity.content == {
        "result": {
            "content": [{"type": "text", "text": "12:00 CET"}],
            "structuredContent": {"result": "12:00 CET"},
            "isError": False,
        },
        "resourceUri": CLOCK,
        "serverHash": server_hash(transport, server.get("url", "s")),
        "serverId": "s",
        "toolInput": {"zone": "CET"},
    }
    asked = {"serverHash": activity.content["serverHash"], "serverId": "s"}
    called = answer(servers, proxied("tools/call", {"name": "refresh"}, **asked))
    assert called["structuredContent"] == {"result": "12:00"}
    [page] = answer(servers, proxied("resources/read", {"uri": CLOCK}, **asked))["contents"]
    assert page["text"] == PAGE
    assert page["_meta"]["ui"]["csp"] == {"connectDomains": ["https://time.example"]}
    assert answer(servers, proxied("ping", {}, **asked)) == {}


def test_an_agent_is_offered_what_models_may_see(apps: Served) -> None:
    agent = Calling()
    play({"s": {"url": apps.url}}, run_input(), agent=agent)
    tools = {tool.name: tool.description for tool in agent.inputs[0].tools or ()}
    assert not {"refresh", "hide"} & set(tools)
    assert tools["clock"] == f"Tell the time.\n[UI Resource: {CLOCK}]"
    assert tools["legacy"] == f"Name a page in the way of before.\n[UI Resource: {LEGACY}]"
    assert tools["add"] == "Add two numbers."


def test_a_loop_calls_and_shows_a_tool_of_a_real_server(apps: Served) -> None:
    model = Spy(turn(("clock", {"zone": "CET"}), "refresh"), "done")
    played = loop([layer({"s": {"url": apps.url}})], model)
    assert model.told()[0] == "12:00 CET"
    assert len(activities(played.events)) == 1
    assert [each["params"]["name"] for each in apps.requests("tools/call")] == ["clock"]


@pytest.mark.parametrize(
    "asked",
    [
        proxied("tools/list", {}, serverId="s"),
        proxied("sampling/createMessage", {}, serverId="s"),
        proxied("notifications/message", {"data": "x"}, serverId="s"),
        proxied("tools/call", {"name": "deny_me"}, serverId="s"),
        proxied("tools/call", {"name": 5}, serverId="s"),
        proxied("ping", {}, serverId="gone"),
    ],
)
def test_what_is_refused_makes_no_request(apps: Served, asked: dict[str, Any]) -> None:
    answer({"s": {"url": apps.url, "deny": ["deny_me"]}}, asked)
    assert apps.requests() == []


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_server_is_told_that_its_pages_can_be_shown(apps: Served, protocol: str) -> None:
    answer({"s": {"url": apps.url, "protocol": protocol}}, proxied("ping", {}, serverId="s"))
    first, *_ = apps.requests()
    told = json.dumps(first["params"])
    assert first["rpc"] == {"auto": "server/discover", "legacy": "initialize"}[protocol]
    page = '{"mimeTypes": ["text/html;profile=mcp-app"]}'
    assert f'"extensions": {{"io.modelcontextprotocol/ui": {page}}}' in told


def test_a_frame_has_one_session_which_is_ended(apps: Served) -> None:
    asked = proxied("tools/call", {"name": "refresh", "arguments": {}}, serverId="s")
    answer({"s": {"url": apps.url, "protocol": "legacy"}}, asked)
    assert rpc(apps) == ["tools/list", "tools/call"]
    apps.until(lambda log: any(each.get("method") == "DELETE" for each in log))
    sessions = {each["headers"].get("mcp-session-id") for each in apps.requests() if each["rpc"]}
    assert len(sessions - {None}) == 1
    assert [each["status"] for each in apps.requests(method="DELETE")] == [200]


def test_all_pages_are_listed_in_one_session_before_a_call() -> None:
    with odd_server("many") as server:
        asked = proxied("tools/call", {"name": "tool_499", "arguments": {}}, serverId="s")
        assert answer({"s": {"url": server.url}}, asked)["content"][0]["text"] == "tool_499"
        assert rpc(server) == [*["tools/list"] * 10, "tools/call"]
        used = {
            each["headers"]["mcp-session-id"]
            for each in server.requests()
            if each["rpc"] in {"tools/list", "tools/call"}
        }
        assert len(used) == 1


@pytest.mark.parametrize("kind", ["endless-cursor", "growing-cursor"])
def test_a_listing_without_end_fails(kind: str) -> None:
    with odd_server(kind) as server, listening() as lines:
        assert answer({"s": {"url": server.url}}, ECHO) == FAILED
        assert server.requests("tools/call") == []
    assert any("the listing" in line and "ERROR" in line for line in lines)


def test_servers_of_one_address_are_told_apart_by_their_ids(apps: Served) -> None:
    servers = {name: {"url": apps.url, "headers": {"x-test-user": name}} for name in ("ann", "bob")}
    digest = server_hash("http", apps.url)
    who = {"name": "whoami", "arguments": {}}
    asked = proxied("tools/call", who, serverHash=digest)
    assert answer(servers, asked) == {"error": f"Unknown server: {digest}"}
    assert apps.requests() == []
    for name in ("ann", "bob"):
        asked = proxied("tools/call", who, serverHash=digest, serverId=name)
        assert answer(servers, asked)["content"][0]["text"] == name


def test_headers_go_with_every_request_and_nowhere_else(apps: Served) -> None:
    servers = {"s": {"url": apps.url, "headers": {"authorization": SECRET}}}
    calls: Pass = [("c1", "clock", "{}"), ("c2", "refuse", "{}"), ("c3", "whoami", "{}")]
    fails = proxied("tools/call", {"name": "refuse"}, serverId="s")
    with listening() as lines:
        run = run_input()
        agent = Calling(calls)
        played = play(servers, run, fails, agent=agent)
    assert {each["headers"].get("authorization") for each in apps.requests()} == {SECRET}
    told = "".join(event.model_dump_json() for each in played for event in each.events)
    for text in ("".join(lines), told, str(agent.inputs)):
        assert "t0ken-of-ours" not in text
    assert server_hash("http", apps.url) in told


@pytest.mark.parametrize("how", ["rpc", "http"])
@pytest.mark.parametrize(
    ("where", "asked"), [("tools/list", ECHO), ("tools/call", ECHO), ("resources/read", READ)]
)
def test_private_text_of_a_server_is_for_the_operator(
    where: str, how: str, asked: dict[str, Any]
) -> None:
    with odd_server("private-errors", where=where, how=how) as server:
        with listening() as lines:
            assert answer({"s": {"url": server.url}}, asked) == FAILED
        digest = server_hash("http", server.url)
        errors = [line for line in lines if line.startswith("ERROR")]
        assert any("MCP proxy request failed" in line for line in errors)
        assert all("server s" in line and digest in line for line in errors)
        assert how == "http" or any(PRIVATE in line for line in errors)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("redirect", {}),
        ("redirect-away", {}),
        ("redirect-away", {"after": 2}),
        ("changes-origin", {}),
        ("drops-connection", {"how": "abrupt"}),
        ("huge", {"megabytes": 8}),
        ("bad-json", {}),
    ],
)
def test_an_odd_server_is_a_failure_for_its_frame_and_no_other(
    apps: Served, kind: str, options: dict[str, Any]
) -> None:
    good = proxied("tools/call", {"name": "refresh"}, serverId="good")
    with odd_server(kind, **options) as server:
        servers = {"s": {"url": server.url}, "good": {"url": apps.url}}
        odd, fine = play(servers, ECHO, good)
        assert odd.events[-1].model_dump()["result"] == FAILED
        assert fine.events[-1].model_dump()["result"]["isError"] is False
        away = [each for each in server.requests() if f":{each['port']}" in server.other]
        assert away == [], "nothing goes to another origin"


def test_a_server_that_dies_in_a_call_is_a_failure() -> None:
    with odd_server("dies-in-call") as server, listening() as lines:
        assert answer({"s": {"url": server.url}}, ECHO) == FAILED
        assert server.process.wait(SECONDS) == 3
    assert any("MCP proxy request failed (tools/call)" in line for line in lines)


def test_a_session_that_will_not_end_delays_no_answer() -> None:
    with odd_server("stalls-on-delete") as server:

        async def main() -> tuple[Any, float]:
            servers = {"s": {"url": server.url, "protocol": "legacy"}}
            async with Host([layer(servers)], agent=Calling(), strict=True) as host:
                async for event in host.run(RunAgentInput.model_validate(ECHO)):
                    if isinstance(event, RunFinishedEvent):
                        return event.result, time.monotonic()
            raise AssertionError("no RUN_FINISHED")

        found, finished = asyncio.run(asyncio.wait_for(main(), 60))
        assert found["content"][0]["text"] == "hi"
        [ending] = server.requests(method="DELETE")
        assert ending["at"] > finished


def test_the_example_from_npm_is_listed_called_and_read(example_server: Served) -> None:
    name = "get-time"
    agent = Calling([("c1", name, "{}")])
    run = run_input()
    servers = {"s": {"url": example_server.url}}
    [played] = play(servers, run, agent=agent)
    [activity] = activities(played.events)
    uri = activity.content["resourceUri"]
    assert uri.startswith("ui://")
    [page] = answer(servers, proxied("resources/read", {"uri": uri}, serverId="s"))["contents"]
    assert page["mimeType"] == "text/html;profile=mcp-app"
    asked = proxied("tools/call", {"name": name, "arguments": {}}, serverId="s")
    told = answer(servers, asked)
    assert json.loads(json.dumps(told)) == told
    assert told["content"][0]["type"] == "text"
