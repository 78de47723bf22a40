"""The client of MCP Apps from npm does what other tests compare the product with."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_parts import Peer, PeerRun, Served, calling, proxied, run_input

PAGE = "ui://clock/app.html"


def server(apps: Served, **more: Any) -> dict[str, Any]:
    return {"type": "http", "url": apps.url, "serverId": "clock", **more}


def outcome(run: PeerRun) -> Any:
    """Return the result of a proxied request."""
    assert run.types == ["RUN_STARTED", "RUN_FINISHED"]
    assert run.inputs == []
    return run.events[-1]["result"]


def test_a_call_of_the_agent_gets_a_result_and_a_page(peer: Peer, apps: Served) -> None:
    script = calling(("c1", "clock", '{"zone":"CET"}'))
    run = peer.run([server(apps)], run_input(), script)
    assert run.error is None
    assert run.types[-3:] == ["TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT", "RUN_FINISHED"]
    [result] = run.of("TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == ("c1", "12:00 CET")
    [activity] = run.of("ACTIVITY_SNAPSHOT")
    assert activity["activityType"] == "mcp-apps"
    assert activity["replace"] is True
    assert activity["content"] == {
        "result": {
            "content": [{"type": "text", "text": "12:00 CET"}],
            "structuredContent": {"result": "12:00 CET"},
            "isError": False,
        },
        "resourceUri": PAGE,
        "serverHash": peer.server_hash(server(apps)),
        "serverId": "clock",
        "toolInput": {"zone": "CET"},
    }


def test_the_agent_is_given_the_tools_with_a_page_that_a_model_may_see(
    peer: Peer, apps: Served
) -> None:
    run = peer.run([server(apps)], run_input(), calling())
    [given] = run.inputs
    assert [tool["name"] for tool in given["tools"]] == ["clock", "plan", "legacy"]
    assert given["tools"][0]["description"] == f"Tell the time.\n[UI Resource: {PAGE}]"


def test_headers_go_to_the_server(peer: Peer, apps: Served) -> None:
    peer.run([server(apps, headers={"x-test-user": "ann"})], run_input(), calling())
    assert {each["headers"].get("x-test-user") for each in apps.requests()} == {"ann"}
    assert [each["status"] for each in apps.requests(method="DELETE")] == [200]


def test_a_request_of_a_page_is_passed_on(peer: Peer, apps: Served) -> None:
    asked = proxied("tools/call", {"name": "refresh", "arguments": {}}, serverId="clock")
    assert outcome(peer.run([server(apps)], asked))["structuredContent"] == {"result": "12:00"}
    asked = proxied("resources/read", {"uri": PAGE}, serverHash=peer.server_hash(server(apps)))
    assert outcome(peer.run([server(apps)], asked))["contents"][0]["uri"] == PAGE


def test_a_method_that_a_page_may_not_ask_for_is_asked_of_nobody(peer: Peer, apps: Served) -> None:
    run = peer.run([server(apps)], proxied("tools/list", serverId="clock"))
    assert outcome(run) == {"error": "Error: MCP method not allowed for UI proxy: tools/list"}
    assert apps.requests() == []


def test_what_went_wrong_is_for_the_operator_alone(peer: Peer, apps: Served) -> None:
    run = peer.run([server(apps)], proxied("tools/call", {"name": "refuse"}, serverId="clock"))
    assert outcome(run) == {"error": "Error: MCP request failed"}
    assert "private: s3cret" in run.said[0]


def test_a_run_that_fails_says_why(peer: Peer) -> None:
    # The port of "discard", where nobody listens.
    away = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
    run = peer.run([away], run_input(), calling(), discoveryFailureMode="throw")
    assert (run.events, run.error) == ([], "MCP tool discovery failed")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("http", "2637fef21d2e2f89aa11b1d288fbe14d"),
        ("sse", "c8a751bcdebf173bef8ced14d6b1cedf"),
    ],
)
def test_a_server_has_a_hash(peer: Peer, kind: str, expected: str) -> None:
    assert peer.server_hash({"type": kind, "url": "http://localhost:3001/mcp"}) == expected
