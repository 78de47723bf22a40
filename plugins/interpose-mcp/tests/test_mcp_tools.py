"""Tools of MCP servers for an agent that runs none itself: one run out of several passes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Interrupt,
    RunAgentInput,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    StateSnapshotEvent,
    TokenUsage,
    Tool,
    ToolCallResultEvent,
    UserMessage,
)
from ag_ui.core import ToolCall as WireCall
from looping import seen
from mcp_shop import Calling, Pass, bounded, call_events, gate, log, results, until
from playing import Played, finished, started

from interpose import Host, Layer, Middleware, RunContext, ToolCall, ToolResult
from interpose_mcp import McpTools
from interpose_redact import Redact

SHOP = {"python": "mcp_shop:server"}
ADD: Pass = [("c1", "add", '{"a": 1, "b": 2}')]


def layer(**settings: Any) -> Layer:
    return Layer(McpTools, {"servers": {"shop": SHOP}, **settings})


def play(agent: Any, *layers: Any, asked: Any = "hi", strict: bool = True) -> Played:
    """Play one run, with the servers' tools."""
    played: list[Played] = []

    async def work() -> None:
        given = [*layers] or [layer()]
        async with Host(given, agent=agent, strict=strict) as host:
            played.append(await seen(host.run(asked)))

    bounded(work)
    return played[0]


def end(played: Played) -> RunFinishedEvent:
    event = played.events[-1]
    assert isinstance(event, RunFinishedEvent), (event, played.result.error)
    return event


def asked(**fields: Any) -> RunAgentInput:
    return RunAgentInput(
        thread_id="t",
        run_id="r",
        messages=fields.pop("messages", [UserMessage(id="u", content="hi")]),
        tools=fields.pop("tools", []),
        context=[],
        forwarded_props={},
        state=fields.pop("state", {}),
        **fields,
    )


@pytest.mark.parametrize("strict", [True, False])
def test_a_call_is_answered_and_the_agent_goes_on_in_the_same_run(*, strict: bool) -> None:
    agent = Calling(ADD)
    played = play(agent, strict=strict)

    assert results(played.events) == [("c1", "3")]
    assert played.text == "done"
    assert (played.types.count("RUN_STARTED"), played.types.count("RUN_FINISHED")) == (1, 1)
    assert [message.role for message in agent.inputs[1].messages] == ["user", "assistant", "tool"]
    assert agent.inputs[1].run_id == agent.inputs[0].run_id
    assert agent.offered()[0] == "mcp__shop__add"
    assert end(played).outcome is None


def test_the_tools_are_declared_after_those_of_the_input() -> None:
    agent = Calling()
    mine = Tool(name="mine", description="", parameters={"type": "object"})
    play(agent, asked=asked(tools=[mine]))

    first, add, *rest = list(agent.inputs[0].tools or ())
    assert (first, add.name, add.description) == (mine, "mcp__shop__add", "Add two numbers.")
    assert set((add.parameters or {})["properties"]) == {"a", "b"}
    assert [tool.name for tool in rest] == [
        "mcp__shop__broken",
        "mcp__shop__steps",
        "mcp__shop__wait",
    ]


def test_a_tool_that_is_not_for_models_is_neither_shown_nor_run() -> None:
    agent = Calling([("c1", "mcp__shop__for_frames", "{}")])
    played = play(agent)

    assert not any("frames" in name for name in agent.offered())
    assert results(played.events) == []
    assert "for frames" not in log
    outcome = end(played).outcome
    assert isinstance(outcome, RunFinishedSuccessOutcome | None)
    assert outcome is None or outcome.pending_tool_call_ids == ["c1"]


@pytest.mark.parametrize(
    ("rule", "left"),
    [({"allow": ["add"]}, ["add"]), ({"deny": ["add", "wait"]}, ["broken", "steps"])],
)
def test_allow_and_deny_lists_say_which_tools_exist(rule: Any, left: list[str]) -> None:
    agent = Calling([("c1", "add", '{"a": 1, "b": 2}'), ("c2", "mcp__shop__add", "{}")])
    play(agent, Layer(McpTools, {"servers": {"shop": SHOP | rule}}))
    assert agent.offered() == [f"mcp__shop__{name}" for name in left]
    assert ("add" in left) == any(line.startswith("add") for line in log)


def test_calls_run_side_by_side_and_are_answered_in_their_order() -> None:
    async def work() -> None:
        agent = Calling(
            [
                ("c1", "wait", '{"name": "one"}'),
                ("c2", "wait", '{"name": "two"}'),
                ("c3", *ADD[0][1:]),
            ]
        )
        async with Host([layer()], agent=agent, strict=True) as host:
            run = asyncio.ensure_future(seen(host.run("hi")))
            await until(lambda: {"wait one", "wait two", "add 1 2"} <= set(log))
            gate("two").set()
            await until(lambda: "done two" in log)
            assert "done one" not in log
            gate("one").set()
            played = await run
        assert results(played.events) == [("c1", "one"), ("c2", "two"), ("c3", "3")]

    bounded(work)


def test_progress_becomes_custom_events_before_the_result() -> None:
    played = play(Calling([("c1", "steps", '{"number": 2}')]))

    told = [event.value for event in played.events if isinstance(event, CustomEvent)]
    assert told == [
        {"toolCallId": "c1", "value": {"progress": 1, "total": 2, "message": "step 1"}},
        {"toolCallId": "c1", "value": {"progress": 2, "total": 2, "message": "step 2"}},
    ]
    assert played.types.index("CUSTOM") < played.types.index("TOOL_CALL_RESULT")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("c1", "broken", "{}"), "Error executing tool broken"),
        (("c1", "add", "no JSON"), "The arguments are not JSON."),
        (("c1", "add", "[1]"), "The arguments are not a JSON object."),
    ],
)
def test_a_failure_is_told_to_the_agent_and_marked(call: Any, said: str) -> None:
    agent = Calling([call])
    played = play(agent)

    [event] = [event for event in played.events if isinstance(event, ToolCallResultEvent)]
    assert event.content == said
    assert event.metadata == {"ag-ui:tool-result": {"error": said}}
    assert len(agent.inputs) == 2
    assert "private" not in str(played.events)


def test_a_call_of_the_front_end_is_waited_for_with_our_results_in_the_run() -> None:
    agent = Calling([*ADD, ("front", "open_dialog", "{}")])
    played = play(agent)

    assert results(played.events) == [("c1", "3")]
    assert len(agent.inputs) == 1
    outcome = end(played).outcome
    assert isinstance(outcome, RunFinishedSuccessOutcome)
    assert outcome.pending_tool_call_ids == ["front"]


def test_a_call_that_the_agent_does_not_list_as_pending_is_its_own() -> None:
    def finish(run_input: RunAgentInput) -> RunFinishedEvent:
        outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=["front"])
        return finished(run_input).model_copy(update={"outcome": outcome})

    agent = Calling([*ADD, ("front", "open_dialog", "{}")], finish=finish)
    played = play(agent)

    assert log == []
    assert results(played.events) == []
    outcome = end(played).outcome
    assert isinstance(outcome, RunFinishedSuccessOutcome)
    assert outcome.pending_tool_call_ids == ["front"]


@pytest.mark.parametrize(
    "outcome",
    [
        RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i1", reason="asked")]),
        RunFinishedCancelledOutcome(),
    ],
    ids=["interrupt", "cancelled"],
)
def test_a_run_that_waits_for_people_or_was_cancelled_passes_untouched(outcome: Any) -> None:
    def finish(run_input: RunAgentInput) -> RunFinishedEvent:
        return finished(run_input).model_copy(update={"outcome": outcome})

    agent = Calling(ADD, finish=finish)
    played = play(agent)

    assert end(played).outcome == outcome
    assert (results(played.events), log, len(agent.inputs)) == ([], [], 1)


def test_usage_is_added_up_and_state_carried_on() -> None:
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        number = len(inputs)
        yield started(run_input)
        yield StateSnapshotEvent(snapshot={"passes": number})
        if number < 3:
            for event in call_events(
                [(f"c{number}", "add", '{"a": 1, "b": 1}')],
                [tool.name for tool in run_input.tools or ()],
            ):
                yield event
        usage = [TokenUsage(model="m", input_tokens=10, output_tokens=number)]
        yield finished(run_input).model_copy(update={"usage": usage})

    played = play(agent)

    assert [given.state for given in inputs] == [None, {"passes": 1}, {"passes": 2}]
    [usage] = end(played).usage or []
    assert (usage.input_tokens, usage.output_tokens) == (30, 6)


def test_an_agent_that_never_stops_calling_fails_the_run_after_ten_rounds() -> None:
    agent = Calling(*([(f"c{number}", "add", '{"a": 1, "b": 1}')] for number in range(20)))
    played = play(agent)

    assert played.types[-1] == "RUN_ERROR"
    assert played.error[0] == "middleware-contract"
    assert len(agent.inputs) == 11
    assert len(log) == 10


def test_an_open_call_in_the_clients_history_is_never_executed() -> None:
    call = WireCall(
        id="old", function=FunctionCall(name="mcp__shop__add", arguments='{"a": 1, "b": 1}')
    )
    history = [
        UserMessage(id="u", content="hi"),
        AssistantMessage(id="a", tool_calls=[call]),
        UserMessage(id="u2", content="go on"),
    ]
    played = play(Calling(), asked=asked(messages=history))

    assert (log, results(played.events), played.text) == ([], [], "done")


def test_a_name_that_the_client_has_taken_stays_the_clients() -> None:
    theirs = Tool(name="mcp__shop__add", description="theirs", parameters={"type": "object"})
    agent = Calling([("c1", "mcp__shop__add", "{}")])
    agent.offered = list  # type: ignore[method-assign]
    played = play(agent, asked=asked(tools=[theirs]))

    assert [tool.name for tool in agent.inputs[0].tools or ()][:2] == [
        "mcp__shop__add",
        "mcp__shop__add_2",
    ]
    assert log == []
    assert results(played.events) == []


def test_the_same_server_in_two_layers_gives_two_names() -> None:
    agent = Calling(
        [
            ("c1", "mcp__shop__add", '{"a": 1, "b": 1}'),
            ("c2", "mcp__shop__add_2", '{"a": 2, "b": 2}'),
        ]
    )
    one = Layer(McpTools, {"servers": {"shop": SHOP | {"allow": ["add"]}}}, id="one")
    two = Layer(McpTools, {"servers": {"shop": SHOP | {"allow": ["add"]}}}, id="two")
    played = play(agent, one, two)

    assert agent.offered() == ["mcp__shop__add", "mcp__shop__add_2"]
    assert sorted(results(played.events)) == [("c1", "2"), ("c2", "4")]
    assert played.text == "done"
    assert end(played).outcome is None


def test_a_cancelled_run_cancels_the_call_at_the_server() -> None:
    async def work() -> None:
        agent = Calling([("c1", "wait", '{"name": "one"}')])
        async with Host([layer()], agent=agent) as host:
            run = host.run("hi")
            reading = asyncio.ensure_future(seen(run))
            await until(lambda: "wait one" in log)
            run.cancel("enough")
            played = await reading
            await until(lambda: "cancelled one" in log)
        outcome = end(played).outcome
        assert isinstance(outcome, RunFinishedCancelledOutcome)
        assert results(played.events) == []

    bounded(work)


def test_a_consumer_that_goes_away_ends_the_call() -> None:
    async def work() -> None:
        agent = Calling([("c1", "wait", '{"name": "one"}')])
        async with Host([layer()], agent=agent) as host:
            run = host.run("hi")

            async def read() -> None:
                async for _ in run:
                    pass

            reading = asyncio.ensure_future(read())
            await until(lambda: "wait one" in log)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await until(lambda: "cancelled one" in log)

    bounded(work)


def test_runs_side_by_side_share_no_session_and_no_call() -> None:
    async def work() -> None:
        agents = {name: Calling([(name, "wait", f'{{"name": "{name}"}}')]) for name in "abc"}

        async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
            async for event in agents[run_input.thread_id].run(run_input):
                yield event

        async with Host([layer()], agent=agent) as host:
            runs = {
                name: asyncio.ensure_future(seen(host.run("hi", thread_id=name))) for name in "abc"
            }
            await until(lambda: len([line for line in log if line.startswith("wait")]) == 3)
            for name in "cab":
                gate(name).set()
                assert results((await runs[name]).events) == [(name, name)]

    bounded(work)


@pytest.mark.parametrize("mode", ["continue", "throw"])
def test_a_server_that_cannot_be_listed(mode: str) -> None:
    servers = {"shop": SHOP, "gone": {"command": "no-such-program-anywhere"}}
    agent = Calling(ADD)
    played = play(agent, Layer(McpTools, {"servers": servers, "discovery_failure_mode": mode}))

    if mode == "continue":
        assert results(played.events) == [("c1", "3")]
    else:
        assert agent.inputs == []
        assert played.types == ["RUN_STARTED", "RUN_ERROR"]
        assert played.error == ("mcp-discovery-failed", "MCP tool discovery failed")


def test_layers_outside_see_the_results_and_can_change_them() -> None:
    found: list[str] = []

    class Watches(Middleware):
        def on_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult | None) -> None:
            found.append(f"{call.name} {dict(call.args)} {result and result.content}")

    play(Calling(ADD), Watches, layer())
    assert found == ["mcp__shop__add {'a': 1, 'b': 2} 3"]


def test_a_run_that_waits_for_a_listing_can_be_cancelled() -> None:
    async def work() -> None:
        program = "import sys; sys.stdin.read()"
        silent = {"command": sys.executable, "args": ["-c", program], "connect_timeout": 600}
        agent = Calling()
        async with Host([Layer(McpTools, {"servers": {"silent": silent}})], agent=agent) as host:
            run = host.run("hi")
            reading = asyncio.ensure_future(seen(run))
            await asyncio.sleep(0.2)
            run.cancel("enough")
            played = await reading
        assert isinstance(end(played).outcome, RunFinishedCancelledOutcome)
        assert agent.inputs == []

    bounded(work)


def test_a_layer_that_redacts_masks_results_for_the_agent_and_the_consumer() -> None:
    agent = Calling([("c1", "echo", '{"text": "write to ada@example.com"}')])
    redact = Layer(Redact, {"entities": ["email"]})
    tools = layer(servers={"other": {"python": "mcp_shop:other"}})
    played = play(agent, redact, tools)

    [(_, told)] = results(played.events)
    assert "ada@example.com" not in str(played.events)
    assert "bob@example.com" not in str(played.events)
    assert told == agent.inputs[1].messages[-1].content
    assert told.startswith("ask ")


def test_an_empty_list_of_pending_calls_means_that_none_waits() -> None:
    def finish(run_input: RunAgentInput) -> RunFinishedEvent:
        outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=[])
        return finished(run_input).model_copy(update={"outcome": outcome})

    agent = Calling(ADD, finish=finish)
    played = play(agent)
    assert (results(played.events), log, len(agent.inputs)) == ([], [], 1)


@pytest.mark.parametrize("strict", [True, False])
def test_what_the_agent_or_another_layer_answers_is_in_its_history_once(*, strict: bool) -> None:
    class Own(Calling):
        async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
            async for event in super().run(run_input):
                yield event
                if len(self.inputs) == 1 and event.type.value == "RUN_STARTED":
                    for own in call_events([("own", "database", "{}")]):
                        yield own
                    yield ToolCallResultEvent(message_id="r", tool_call_id="own", content="42")

    agent = Own([*ADD, ("c2", "echo", '{"text": "x"}')], [("c3", "add", '{"a": 3, "b": 4}')])
    outer = Layer(McpTools, {"servers": {"other": {"python": "mcp_shop:other"}}}, id="outer")
    played = play(agent, outer, layer(), strict=strict)

    assert len(results(played.events)) == 4
    answered = [
        message.tool_call_id for message in agent.inputs[2].messages if message.role == "tool"
    ]
    assert sorted(answered) == ["c1", "c2", "c3", "own"]


def test_an_embedded_host_is_silent() -> None:
    program = """
import asyncio
from interpose import Host, Layer
from interpose_mcp import McpTools

async def main():
    servers = {"gone": {"command": "no-such-program-anywhere"}}
    async with Host([Layer(McpTools, {"servers": servers})], agent=agent) as host:
        await host.run("hi")

async def agent(run_input):
    from ag_ui.core import RunFinishedEvent, RunStartedEvent
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

asyncio.run(main())
"""
    done = subprocess.run(  # noqa: S603 - this Python, with the program above
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_secret_that_a_server_sends_back_is_in_no_event() -> None:
    secret = "hunter2-secret"
    program = (
        "import os\n"
        "from mcp.server import MCPServer\n"
        "server = MCPServer('s')\n"
        "@server.tool()\n"
        "def tell() -> dict[str, str]:\n"
        "    'Tell it.'\n"
        "    return {os.environ['TOKEN']: 'the token is ' + os.environ['TOKEN']}\n"
        "server.run()\n"
    )
    servers = {"s": {"command": sys.executable, "args": ["-c", program], "env": {"TOKEN": secret}}}
    agent = Calling([("c1", "tell", "{}")])
    played = play(agent, Layer(McpTools, {"servers": servers}))

    [(_, told)] = results(played.events)
    assert "the token is ***" in told
    assert secret not in str(played.events)
    assert secret not in str(agent.inputs)
