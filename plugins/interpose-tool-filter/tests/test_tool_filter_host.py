"""The filter in a host: chunks, whole runs, several runs at once, and its place in the plan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from interpose import Host, Layer, Stage, StartupError
from interpose_tool_filter import ToolFilter

Agent = Callable[[RunAgentInput], AsyncIterator[BaseEvent]]


def started(run_input: RunAgentInput) -> RunStartedEvent:
    return RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def finished(run_input: RunAgentInput) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def filtered(agent: Agent, *, strict: bool = True) -> Host:
    return Host(layers=[Layer(ToolFilter, {"deny": ["secret-tool"]})], agent=agent, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_a_hidden_call_in_chunks_goes_with_the_end_that_expansion_gives_it(*, strict: bool) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield ToolCallChunkEvent(tool_call_id="hidden-1", tool_call_name="secret-tool", delta="{")
        yield ToolCallChunkEvent(delta="}")
        yield TextMessageChunkEvent(message_id="m1", delta="hi")
        yield ToolCallChunkEvent(tool_call_id="c2", tool_call_name="search", delta="{}")
        yield finished(run_input)

    async def main() -> list[BaseEvent]:
        host = filtered(agent, strict=strict)
        async with host:
            return [event async for event in host.run("hi")]

    events = asyncio.run(main())
    assert [event.type.value for event in events] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "RUN_FINISHED",
    ]
    assert "hidden-1" not in str(events)


def test_runs_at_the_same_time_share_no_ids() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        name = "secret-tool" if run_input.run_id == "hides" else "search"
        yield started(run_input)
        yield ToolCallStartEvent(tool_call_id="c1", tool_call_name=name)
        await asyncio.sleep(0)
        yield ToolCallEndEvent(tool_call_id="c1")
        yield finished(run_input)

    async def main() -> dict[str, int]:
        host = filtered(agent)

        async def count(run_id: str) -> int:
            run_input = RunAgentInput(thread_id="t1", run_id=run_id, messages=[])
            return len([event async for event in host.run(run_input)])

        async with host:
            hides, shows = await asyncio.gather(count("hides"), count("shows"))
        return {"hides": hides, "shows": shows}

    assert asyncio.run(main()) == {"hides": 2, "shows": 4}


def test_the_installed_plugin_is_configured_by_a_file(tmp_path: Path) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield ToolCallStartEvent(tool_call_id="c1", tool_call_name="search")
        yield ToolCallEndEvent(tool_call_id="c1")
        yield finished(run_input)

    async def main() -> int:
        host = Host.from_config(path, agent=agent, environ={})
        async with host:
            [layer] = host.plan().layers
            assert (layer.id, layer.stage) == ("tool-filter", Stage.SHAPE)
            return len([event async for event in host.run("hi")])

    path = tmp_path / "interpose.toml"
    path.write_text("[middleware.tool-filter]\nallow = []\n", encoding="utf-8")
    assert asyncio.run(main()) == 2
    path.write_text("[middleware.tool-filter]\ndeny = []\n", encoding="utf-8")
    assert asyncio.run(main()) == 4


def test_a_layer_without_a_list_is_a_startup_error() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)

    async def main() -> None:
        async with Host(layers=[ToolFilter], agent=agent):
            pass

    with pytest.raises(StartupError, match="give exactly one of `allow` and `deny`; neither is"):
        asyncio.run(main())
