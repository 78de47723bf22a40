"""``mcp.apps`` beside the client of MCP Apps from npm: the same server, the same runs, the same events.

What is different on purpose is in ``KNOWN``, one test each.
"""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from mcp_frames import apps as layer
from mcp_frames import listening, play
from mcp_parts import Peer, Served, calling, odd_server, proxied, run_input
from mcp_plain import Plain
from mcp_serving import Log
from mcp_shop import Calling, Pass
from serving import listening as listening_server
from serving import run_async

from interpose import Host
from interpose_mcp import server_hash

KNOWN = {
    "thread": "npm gives the events of a proxied run the run's id as their threadId",
    "log": "npm sends notifications/message on to the server",
    "visibility": "npm calls any tool for a frame, whoever it is for",
    "unlisted": "npm calls a tool for a frame that the server does not list",
    "texts": "npm repeats whatever a frame sends as it is",
    "plain tools": "npm offers tools with a UI alone",
    "continues": "npm ends the run after the calls",
    "plain calls": "npm leaves calls of tools without a UI open",
    "errors": "npm tells the model what a server says in an error",
    "marker": "npm marks neither failed results nor results that are errors",
    "role": "npm gives a result no role",
    "invalid arguments": "npm tells the model what its JSON parser says",
}
PAGE = "ui://clock/app.html"


def ours(server: Served, asked: Mapping[str, Any], calls: Pass = (), **settings: Any) -> Any:
    """Return the events of a run with ``mcp.apps``, as they go over the wire, and the inputs."""
    agent = Calling(calls) if calls else Calling()
    servers = {"clock": {"url": server.url, **settings}}
    played = play(layer(servers), agent, RunAgentInput.model_validate(asked))
    told = [
        event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in played.events
    ]
    given = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in agent.inputs
    ]
    return told, given


def theirs(peer: Peer, server: Served, asked: Mapping[str, Any], calls: Pass = ()) -> Any:
    """Return the same of the middleware from npm."""
    config = {"type": "http", "url": server.url, "serverId": "clock"}
    run = peer.run([config], asked, calling(*calls))
    assert run.error is None
    return run.events, run.inputs


def result(events: Sequence[Mapping[str, Any]]) -> Any:
    """Return what a frame is answered."""
    started, finished = events
    assert (started["type"], finished["type"]) == ("RUN_STARTED", "RUN_FINISHED")
    return finished["result"]


def both(peer: Peer, server: Served, asked: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what a frame is answered by us and by npm, as JSON texts."""
    mine, their = ours(server, asked), theirs(peer, server, asked)
    assert mine[1] == their[1] == [], "no agent ran"
    found = [json.dumps(result(events)) for events, _ in (mine, their)]
    return found[0], found[1]


# The same -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "refresh", "arguments": {}}),
        ("tools/call", {"name": "refresh"}),
        ("tools/call", {"name": "clock", "arguments": {"zone": "CET \u00e9 \u65e5 \U0001f550"}}),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
        ("tools/call", {"name": "say", "arguments": {"parts": ["one", "two", ""]}}),
        ("tools/call", {"name": "say", "arguments": {"parts": []}}),
        ("tools/call", {"name": "legacy", "arguments": {}}),
        ("tools/call", {"name": "unwell", "arguments": {}}),
        ("tools/call", {"name": "broken", "arguments": {}}),
        ("tools/call", {"name": "add", "arguments": {"a": "one"}}),
        ("tools/call", {"name": "refuse", "arguments": {}}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "refresh", "arguments": "{}"}),
        ("tools/call", {}),
        ("resources/read", {"uri": PAGE}),
        ("resources/read", {"uri": "notes://today"}),
        ("resources/read", {"uri": "ui://gone"}),
        ("resources/read", {}),
        ("ping", {}),
        ("ping", None),
        ("notifications/message", {"level": "info", "data": "hello"}),
        ("tools/list", {}),
        ("resources/list", None),
        ("initialize", {}),
        ("", {}),
    ],
)
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_frame_is_answered_the_same(
    peer: Peer, apps: Served, method: str, params: Any, protocol: str
) -> None:
    asked = proxied(method, params, serverId="clock")
    mine = json.dumps(result(ours(apps, asked, protocol=protocol)[0]))
    assert mine == json.dumps(result(theirs(peer, apps, asked)[0]))


@pytest.mark.parametrize(
    "named",
    [
        {"serverId": "gone"},
        {"serverId": "gone", "serverHash": "beef"},
        {"serverHash": "beef"},
        {"serverId": "\u65e5"},
        {"serverId": "", "serverHash": ""},
    ],
)
def test_an_unknown_server_is_told_the_same(
    peer: Peer, apps: Served, named: dict[str, str]
) -> None:
    mine, their = both(peer, apps, proxied("ping", {}, **named))
    assert mine == their
    assert "Unknown server: " in mine
    assert apps.requests() == []


@pytest.mark.parametrize("named", [{}, {"serverId": "gone"}])
def test_a_server_is_found_by_its_hash_by_both(
    peer: Peer, apps: Served, named: dict[str, str]
) -> None:
    asked = proxied("ping", {}, serverHash=server_hash("http", apps.url), **named)
    assert both(peer, apps, asked) == ("{}", "{}")


@pytest.mark.parametrize(
    "request_",
    [{}, [], "ping", 1, True, {"serverId": None, "method": "ping"}, {"serverId": 7}],
)
def test_what_is_no_request_names_no_server_for_both(
    peer: Peer, apps: Served, request_: Any
) -> None:
    asked = run_input(forwardedProps={"__proxiedMCPRequest": request_})
    mine, their = both(peer, apps, asked)
    assert mine == their
    assert apps.requests() == []


@pytest.mark.parametrize("nothing", [None, False, 0, ""])
def test_without_a_request_both_run_the_agent(peer: Peer, apps: Served, nothing: Any) -> None:
    asked = run_input(forwardedProps={"__proxiedMCPRequest": nothing})
    assert len(ours(apps, asked)[1]) == len(theirs(peer, apps, asked)[1]) == 1


class Talkative(Plain):
    """A server that says more than the protocol asks for, and nothing where it may."""

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        said = super().result(method, params)
        if method not in {"tools/call", "resources/read"}:
            return said
        structured = {"structuredContent": {"null": None, "n": 1.0, "deep": [{"a": [None]}]}}
        extra = structured if method == "tools/call" else {}
        return {
            "_meta": {"x.example/a": None},
            **said,
            **extra,
            "vendor": {"b": [1, None], "a": ""},
        }


@pytest.mark.parametrize(
    "asked", [("tools/call", {"name": "echo"}), ("resources/read", {"uri": PAGE})]
)
def test_all_that_a_server_says_in_a_result_is_kept_by_both(peer: Peer, asked: Any) -> None:
    request = proxied(*asked, serverId="clock")

    async def main() -> None:
        async with listening_server(Talkative(Namespace(answers="json"), Log()).app()) as url:
            config = {"type": "http", "url": f"{url}mcp", "serverId": "clock"}
            their = await asyncio.to_thread(peer.run, [config], request, calling())
            servers = {"clock": {"url": config["url"]}}
            async with Host([layer(servers)], agent=Calling()) as host:
                mine = (await host.run(RunAgentInput.model_validate(request))).result
            assert mine["vendor"] == {"b": [1, None], "a": ""}
            assert json.dumps(mine, sort_keys=True) == json.dumps(
                result(their.events), sort_keys=True
            ).replace('"n": 1,', '"n": 1.0,')

    run_async(main)


def test_a_tool_with_a_ui_is_answered_and_shown_the_same(peer: Peer, apps: Served) -> None:
    calls: Pass = [("c1", "clock", '{"zone":"CET"}'), ("c2", "plan", '{"title":"tea"}')]
    mine, their = (
        shown(ours(apps, run_input(), calls)[0]),
        shown(theirs(peer, apps, run_input(), calls)[0]),
    )
    assert len(mine) == 4
    assert mine == their
    raw = [[json.dumps(each["content"]["result"]) for each in told[1::2]] for told in (mine, their)]
    assert raw[0] == raw[1]


def shown(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return results and activities without their own ids, which are new each time."""
    found = [each for each in events if each["type"] in {"TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT"}]
    assert len({each["messageId"] for each in found}) == len(found)
    unlike = {"messageId", "timestamp", "role", "metadata"}
    return [{key: value for key, value in each.items() if key not in unlike} for each in found]


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:3001/mcp",
        "https://example.org/mcp?a=1&b=%20#x",
        "https://m\u00fcller.example/\u65e5\u672c/\U0001f550",
        "http://example.org/\"quoted\"/'single'",
        "http://example.org/back\\slash",
        "http://example.org/<&>/\u2028\u2029\u00a0",
        "http://example.org/control\x07\ttab\x7f",
        "http://EXAMPLE.org:80/../a",
    ],
)
def test_a_server_has_the_same_hash(peer: Peer, kind: str, url: str) -> None:
    assert server_hash(kind, url) == peer.server_hash({"type": kind, "url": url})


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("http", "2637fef21d2e2f89aa11b1d288fbe14d"),
        ("sse", "c8a751bcdebf173bef8ced14d6b1cedf"),
    ],
)
def test_the_hash_is_that_of_the_documentation(kind: str, digest: str) -> None:
    assert server_hash(kind, "http://localhost:3001/mcp") == digest


# What is different ---------------------------------------------------------------------------
def test_thread(peer: Peer, apps: Served) -> None:
    asked = proxied("ping", {}, serverId="clock")
    mine, their = ours(apps, asked)[0], theirs(peer, apps, asked)[0]
    assert [(each["threadId"], each["runId"]) for each in mine] == [("t1", "r1")] * 2
    assert [(each["threadId"], each["runId"]) for each in their] == [("r1", "r1")] * 2


def test_log(peer: Peer, apps: Served) -> None:
    asked = proxied("notifications/message", {"level": "info", "data": "x"}, serverId="clock")
    theirs(peer, apps, asked)
    assert apps.requests("notifications/message") != []
    apps.clear()
    ours(apps, asked)
    assert apps.requests() == []


@pytest.mark.parametrize("name", ["plan", "hide"])
def test_visibility(peer: Peer, apps: Served, name: str) -> None:
    asked = proxied("tools/call", {"name": name, "arguments": {"title": "x"}}, serverId="clock")
    mine, their = both(peer, apps, asked)
    assert json.loads(mine) == {"error": "Error: MCP tool unavailable to this app"}
    assert "content" in json.loads(their)


def test_unlisted(peer: Peer, apps: Served) -> None:
    asked = proxied("tools/call", {"name": "gone", "arguments": {}}, serverId="clock")
    mine, their = both(peer, apps, asked)
    assert json.loads(mine) == {"error": "Error: MCP tool unavailable to this app"}
    assert mine != their
    [call] = apps.requests("tools/call")
    assert call["params"]["name"] == "gone"


@pytest.mark.parametrize(
    ("method", "mine", "their"),
    [
        ("a\nb", "a\\nb", "a\nb"),
        ("x" * 300, "x" * 200 + "…", "x" * 300),
        ({"a": [1]}, '{"a":[1]}', "[object Object]"),
        (["a", "b"], '["a","b"]', "a,b"),
        (None, "undefined", "null"),
    ],
)
def test_texts(peer: Peer, apps: Served, method: Any, mine: str, their: str) -> None:
    asked = proxied(method, {}, serverId="clock")
    found = [json.loads(each)["error"] for each in both(peer, apps, asked)]
    error = "Error: MCP method not allowed for UI proxy: "
    assert found == [error + mine, error + their]


def test_plain_tools(peer: Peer, apps: Served) -> None:
    mine, their = (
        {tool["name"]: tool for tool in given[0]["tools"]}
        for _, given in (ours(apps, run_input()), theirs(peer, apps, run_input()))
    )
    assert list(their) == ["clock", "plan", "legacy"]
    assert {name: mine[name] for name in their} == their
    assert {"add", "say", "slow"} <= set(mine)
    assert not {"refresh", "hide"} & set(mine)


def test_continues(peer: Peer, apps: Served) -> None:
    calls: Pass = [("c1", "clock", "{}")]
    mine, their = ours(apps, run_input(), calls), theirs(peer, apps, run_input(), calls)
    assert (len(mine[1]), len(their[1])) == (2, 1)
    for events, _ in (mine, their):
        kinds = [each["type"] for each in events]
        assert kinds.count("RUN_STARTED") == kinds.count("RUN_FINISHED") == 1


def test_plain_calls(peer: Peer, apps: Served) -> None:
    calls: Pass = [("c1", "add", '{"a": 1, "b": 2}')]
    assert [each["content"] for each in shown(ours(apps, run_input(), calls)[0])] == ["3"]
    assert shown(theirs(peer, apps, run_input(), calls)[0]) == []


def test_errors(peer: Peer) -> None:
    calls: Pass = [("c1", "clock", "{}")]
    with odd_server("private-errors") as server, listening() as lines:
        [mine] = answers(ours(server, run_input(), calls)[0])
        [their] = answers(theirs(peer, server, run_input(), calls)[0])
    assert json.loads(mine["content"]) == {
        "error": "The MCP server 'clock' answered with an error (-32603)."
    }
    assert "private: s3cret" in their["content"]
    assert "private: s3cret" in "".join(lines)


def test_marker(peer: Peer, apps: Served) -> None:
    calls: Pass = [("c1", "clock", '{"zone": []}')]
    [mine] = answers(ours(apps, run_input(), calls)[0])
    [their] = answers(theirs(peer, apps, run_input(), calls)[0])
    assert mine["content"] == their["content"]
    assert mine["metadata"] == {"ag-ui:tool-result": {"error": mine["content"]}}
    assert "metadata" not in their


def test_role(peer: Peer, apps: Served) -> None:
    calls: Pass = [("c1", "clock", "{}")]
    [mine] = answers(ours(apps, run_input(), calls)[0])
    [their] = answers(theirs(peer, apps, run_input(), calls)[0])
    assert (mine["role"], their.get("role")) == ("tool", None)


def test_invalid_arguments(peer: Peer, apps: Served) -> None:
    calls: Pass = [("c1", "clock", "{not json")]
    [mine] = answers(ours(apps, run_input(), calls)[0])
    [their] = answers(theirs(peer, apps, run_input(), calls)[0])
    assert json.loads(mine["content"]) == {"error": "The arguments are not JSON."}
    assert json.loads(their["content"])["error"].startswith("SyntaxError")


def answers(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in events if each["type"] == "TOOL_CALL_RESULT"]


def test_each_difference_has_its_test() -> None:
    tests = {f"test_{name.replace(' ', '_')}" for name in KNOWN}
    assert tests <= set(globals())
