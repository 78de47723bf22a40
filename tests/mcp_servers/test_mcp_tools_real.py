"""``mcp.tools`` with real servers: whole runs of an agent, and of the built-in loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import RunFinishedCancelledOutcome, RunFinishedEvent, ToolCallResultEvent
from looping import Spy, calls, loop, seen
from mcp_parts import Served, odd_server, python_server, stdio_command
from mcp_shop import Calling, Pass, results
from playing import Played

from interpose import Host, Layer
from interpose.loop import LoopAgent
from interpose_mcp import McpTools

SLOW: Pass = [("c1", "slow", '{"seconds": 600, "key": "k"}')]


def layer(server: dict[str, Any], **settings: Any) -> Layer:
    return Layer(McpTools, {"servers": {"s": server}, **settings})


def play(agent: Calling, server: dict[str, Any], *, runs: int = 1) -> list[Played]:
    """Play runs of an agent with the tools of one server, one after another."""

    async def main() -> list[Played]:
        async with asyncio.timeout(60):
            async with Host([layer(server)], agent=agent) as host:
                return [await seen(host.run("hi")) for _ in range(runs)]

    return asyncio.run(main())


def told(played: Played) -> list[str]:
    return [content for _, content in results(played.events)]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
def test_each_transport_carries_a_run(
    apps: Served, apps_over_sse: Served, transport: str, protocol: str
) -> None:
    command, *args = stdio_command()
    servers: dict[str, dict[str, Any]] = {
        "http": {"url": apps.url},
        "sse": {"url": apps_over_sse.url, "type": "sse"},
        "stdio": {"command": command, "args": args},
    }
    agent = Calling([("c1", "add", '{"a": 1, "b": 2}'), ("c2", "say", '{"parts": ["x", "y"]}')])
    [played] = play(agent, {**servers[transport], "protocol": protocol})

    assert told(played) == ["3", "x\ny"]
    assert played.text == "done"
    assert "mcp__s__refresh" not in agent.offered()
    assert "mcp__s__plan" in agent.offered()


def test_each_run_has_a_session_of_its_own_unless_all_share_one(apps: Served) -> None:
    twice: Pass = [("c1", "count", "{}"), ("c2", "count", "{}")]
    server = {"url": apps.url, "protocol": "legacy"}

    def counts(**more: Any) -> list[list[str]]:
        found = []

        async def main() -> None:
            agent = Calling()
            async with Host([layer({**server, **more})], agent=agent) as host:
                for _ in range(2):
                    agent.inputs, agent.passes = [], (twice,)
                    found.append(sorted(told(await seen(host.run("hi")))))

        asyncio.run(main())
        return found

    assert counts() == [["1", "2"], ["1", "2"]]
    assert counts(session="host") == [["1", "2"], ["3", "4"]]
    apps.until(lambda log: sum(each.get("method") == "DELETE" for each in log) >= 4)
    assert len(apps.requests("initialize")) == 4  # one of each host beside those of runs


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_cancelling_a_run_cancels_the_call_at_the_server(apps: Served, protocol: str) -> None:
    async def main() -> Played:
        agent = Calling(SLOW)
        async with Host([layer({"url": apps.url, "protocol": protocol})], agent=agent) as host:
            run = host.run("hi")
            reading = asyncio.ensure_future(seen(run))
            await apps.awaited(lambda log: any(each.get("what") == "started" for each in log))
            run.cancel("enough")
            played = await reading
            await apps.awaited(lambda log: any(each.get("what") == "cancelled" for each in log))
            return played

    played = asyncio.run(main())
    end = played.events[-1]
    assert isinstance(end, RunFinishedEvent)
    assert isinstance(end.outcome, RunFinishedCancelledOutcome)


def test_a_server_that_dies_in_a_call_fails_the_call_and_the_run_goes_on() -> None:
    with odd_server("dies-in-call") as server:
        [played] = play(
            Calling([("c1", "echo", '{"text": "x"}')]), {"url": server.url, "timeout": 20}
        )

    [event] = [event for event in played.events if isinstance(event, ToolCallResultEvent)]
    assert event.content == "The connection to the MCP server 's' ended during the call."
    assert (event.metadata or {})["ag-ui:tool-result"] == {"error": event.content}
    assert played.text == "done"


def test_all_of_five_hundred_tools_are_there() -> None:
    with odd_server("many") as server:
        agent = Calling()
        play(agent, {"url": server.url})
    assert len(set(agent.offered())) == 500


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_tool_that_a_server_adds_is_there_in_the_next_run(protocol: str) -> None:
    with python_server() as server:

        async def main() -> tuple[list[str], list[str]]:
            agent = Calling([("c1", "grow", "{}")])
            settings = {"url": server.url, "protocol": protocol, "session": "host"}
            async with Host([layer(settings)], agent=agent) as host:
                await seen(host.run("hi"))
                before = agent.offered()
                for _ in range(200):
                    agent.inputs = []
                    agent.passes = ()
                    await seen(host.run("hi"))
                    if "mcp__s__grown" in agent.offered():
                        break
                    await asyncio.sleep(0.05)
                return before, agent.offered()

        before, after = asyncio.run(main())
        listed = len(server.requests("tools/list"))
    assert "mcp__s__grown" not in before
    assert "mcp__s__grown" in after
    assert listed == 2


def test_the_loop_calls_tools_of_a_server_for_node(everything_server: Served) -> None:
    model = Spy(
        calls(
            ("mcp__every__echo", {"message": "hello"}), ("mcp__every__get-sum", {"a": 2, "b": 3})
        ),
        "done",
    )
    layers = [Layer(McpTools, {"servers": {"every": {"url": everything_server.url}}})]
    played = loop(layers, model)

    assert model.told()[0] == "Echo: hello"
    assert "5" in model.told()[1]
    assert played.text == "done"


def test_progress_of_a_server_for_node_is_told(everything_server: Served) -> None:
    work = ("mcp__every__trigger-long-running-operation", {"duration": 0.3, "steps": 3})
    model = Spy(calls(work), "done")

    async def main() -> Played:
        every = Layer(McpTools, {"servers": {"every": {"url": everything_server.url}}})
        async with Host([every], agent=LoopAgent(model)) as host:
            return await seen(host.run("hi"))

    played = asyncio.run(main())
    assert played.types.count("CUSTOM") >= 2
    assert played.types.index("CUSTOM") < played.types.index("TOOL_CALL_RESULT")
