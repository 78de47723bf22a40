"""``mcp.apps`` with a server on the internet: discovery, a tool, a tool with a UI, and the UI.

    INTERPOSE_MCP_LIVE_TEST=1 python -m pytest tests/mcp_servers/test_mcp_live.py

``INTERPOSE_MCP_LIVE_URL`` names another server than Excalidraw's. What is done with it is done with
servers of this machine in every run of the tests, too.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, RunFinishedEvent, Tool, ToolCallResultEvent
from looping import seen
from mcp_frames import activities
from mcp_frames import apps as layer
from mcp_parts import Served, proxied, run_input
from mcp_shop import Calling
from playing import Played

from interpose import Host
from interpose_mcp import server_hash

EXCALIDRAW = "https://mcp.excalidraw.com/mcp"
ELEMENTS = [
    {"type": "rectangle", "id": "r1", "x": 100, "y": 100, "width": 200, "height": 80},
    {"type": "text", "id": "t1", "x": 120, "y": 125, "text": "hello", "fontSize": 20},
]
ARGUMENTS: dict[str, dict[str, Any]] = {"create_view": {"elements": json.dumps(ELEMENTS)}}
"""What tools are called with that need something."""
PREREQUISITES = ("read_me", "whoami")
"""Tools without a UI that are called first, where a server has one of them."""


async def play(host: Host, run: dict[str, Any]) -> Played:
    """Play a run that ends well."""
    played = await seen(host.run(RunAgentInput.model_validate(run)))
    assert played.result.error is None, played.result.error
    return played


def chosen(tools: Sequence[Tool]) -> list[str]:
    """Return the tools to call: one that comes first, if there is one, and one with a UI."""
    first = [tool.name for tool in tools if tool.name in PREREQUISITES]
    with_ui = [tool for tool in tools if "[UI Resource: " in tool.description]
    known = [
        tool.name
        for tool in with_ui
        if tool.name in ARGUMENTS or not (tool.parameters or {}).get("required")
    ]
    assert known, f"no tool with a UI that we can call among {[tool.name for tool in tools]}"
    return [*first[:1], known[0]]


def check(url: str) -> None:
    """Do with a server what an agent and a frame do."""
    servers = {"live": {"url": url, "timeout": 60, "connect_timeout": 30}}
    apps_of_it = layer(servers, discovery_failure_mode="throw")

    async def main() -> None:
        agent = Calling()
        async with asyncio.timeout(120), Host([apps_of_it], agent=agent, strict=True) as host:
            await play(host, run_input())
            names = chosen(agent.inputs[0].tools or ())
            # Each call is a pass of its own: a model reads the one result before the next call.
            agent.passes = tuple(
                [(name, name, json.dumps(ARGUMENTS.get(name, {})))] for name in names
            )
            agent.inputs.clear()
            content = shown(await play(host, run_input()), names)
            assert content["serverHash"] == server_hash("http", url)
            for named in ({"serverId": "live"}, {"serverHash": content["serverHash"]}):
                await read(host, content["resourceUri"], named)

    asyncio.run(main())


def shown(played: Played, names: Sequence[str]) -> dict[str, Any]:
    """Check a run in which these tools are called, and return what a frame is given."""
    answers = [event for event in played.events if isinstance(event, ToolCallResultEvent)]
    assert [event.tool_call_id for event in answers] == list(names)
    assert [event.metadata for event in answers] == [None] * len(names), "no failure"
    assert all(event.content for event in answers)
    kinds = played.types
    assert kinds.count("RUN_STARTED") == kinds.count("RUN_FINISHED") == 1
    [activity] = activities(played.events)
    assert played.events[played.events.index(activity) - 1] is answers[-1]
    content = dict(activity.content)
    assert content["serverId"] == "live"
    assert content["toolInput"] == ARGUMENTS.get(names[-1], {})
    assert content["result"]["content"]
    return content


async def read(host: Host, uri: str, named: dict[str, str]) -> None:
    """Read the UI as a frame's host does."""
    played = await play(host, proxied("resources/read", {"uri": uri}, **named))
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    [page] = (last.result or {})["contents"]
    assert (page["uri"], page["mimeType"]) == (uri, "text/html;profile=mcp-app")
    assert "<" in page["text"]


@pytest.mark.live
@pytest.mark.skipif(
    os.environ.get("INTERPOSE_MCP_LIVE_TEST", "") in {"", "0"},
    reason="talks to a server on the internet; set INTERPOSE_MCP_LIVE_TEST=1 to run it",
)
def test_a_server_on_the_internet() -> None:
    check(os.environ.get("INTERPOSE_MCP_LIVE_URL") or EXCALIDRAW)


def test_the_same_with_the_example_from_npm(example_server: Served) -> None:
    check(example_server.url)


def test_the_same_with_a_tool_that_comes_first(apps: Served) -> None:
    check(apps.url)
    called = [each["params"]["name"] for each in apps.requests("tools/call")]
    assert called == ["whoami", "clock"]
