"""The bytes that `interpose serve` sends, as plain HTTP brings them: framing and validity.

Each scenario is judged by the rules of this project and by a checker that knows nothing of it.
"""

from __future__ import annotations

import json
import runpy
import signal
from pathlib import Path
from typing import Any

import pytest
from ag_ui_validate.pytest_plugin import validate_agui
from driving import CLIENTS, Server, serving, stop

from interpose.agui import read_capture, typed, violations

SCENARIOS: list[str] = sorted(runpy.run_path(str(CLIENTS / "agent/streams.py"))["STREAMS"])
UNHAPPY = {
    "text": "AGUI105",  # a delta may be empty
    "tool with parts": "AGUI504",  # a result may have parts, since 1.0
    # Calls may name a message that does not exist: the client makes it.
    **dict.fromkeys(("hidden tool", "parallel tools", "subagents"), "AGUI208"),
}
"""What the checker says of streams that AG-UI 1.0 allows."""
OLD: dict[str, Any] = {}
NEW = {"protocolVersion": "1.0"}


def post(server: Server, scenario: str, version: dict[str, Any], agent: str = "") -> Any:
    return server.post(scenario, agent=agent, forwardedProps={"thread": "nobody's"}, **version)


def faults(events: list[Any]) -> list[str]:
    # AGUI902 wants timestamps, and those are the agent's to give.
    report = validate_agui(events, severity_overrides={"AGUI902": "off"})
    return [f"{each.rule}: {each.message}" for each in report.diagnostics]


@pytest.mark.parametrize("version", [NEW, OLD], ids=["1.0", "before 1.0"])
@pytest.mark.parametrize("agent", ["", "filtered", "redacted"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_stream_is_valid(
    server: Server, scenario: str, agent: str, version: dict[str, Any]
) -> None:
    answer = post(server, scenario, version, agent)
    assert answer.status == 200
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert b"\r" not in answer.body
    events, warnings = typed(read_capture(answer.body.decode(), "capture"), "capture")
    assert warnings == ()
    assert [str(each) for each in violations(events)] == []
    expected = UNHAPPY.get(scenario, "-")
    assert [fault for fault in faults(answer.events) if not fault.startswith(expected)] == []
    assert answer.types[0] == "RUN_STARTED"
    assert answer.types.count("RUN_FINISHED") + answer.types.count("RUN_ERROR") == 1


def test_the_checkers_find_what_is_wrong() -> None:
    started = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    opened = {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}
    assert faults([started, opened])
    assert faults([opened])


def test_silence_is_filled_with_comments(server: Server) -> None:
    answer = post(server, "pausing", NEW)
    assert answer.body.count(b": heartbeat\n\n") >= 2
    assert answer.types[-1] == "RUN_FINISHED"


@pytest.mark.parametrize("version", ["1.1", "2.0", "someday"])
def test_a_newer_client_is_answered_in_the_protocol_of_today(server: Server, version: str) -> None:
    answer = server.post("front end tool", protocolVersion=version, notYetKnown={"a": 1})
    assert answer.status == 200
    assert answer.events[0]["protocolVersion"] == "1.0"
    assert answer.events[-1]["outcome"]["pendingToolCallIds"] == ["c1"]


def test_proxies_and_caches_are_told_to_let_the_stream_pass(server: Server) -> None:
    headers = post(server, "text", NEW).headers
    assert "no-cache" in headers["cache-control"]
    assert headers.get("x-accel-buffering") == "no"


def test_the_server_ends_in_good_order(tmp_path: Path) -> None:
    """`serving` looks at how it ended, and at what it logged."""
    with serving(CLIENTS / "agent/interpose.toml", tmp_path / "stderr.txt") as server:
        assert server.post("text").status == 200
        assert stop(server.process, signal.SIGTERM) == 0


@pytest.mark.parametrize("version", ["v1", "v0"])
def test_the_packages_of_the_clients_are_pinned(version: str) -> None:
    """To the byte, and wherever they come from."""
    package = json.loads((CLIENTS / version / "package.json").read_text())
    [wanted] = package["dependencies"].values()
    assert wanted == {"v1": "1.0.0", "v0": "0.0.59"}[version]
    lock = json.loads((CLIENTS / version / "package-lock.json").read_text())
    locked = {name: entry for name, entry in lock["packages"].items() if name}
    assert locked["node_modules/@ag-ui/client"]["version"] == wanted
    assert all("integrity" in entry and "resolved" not in entry for entry in locked.values())
