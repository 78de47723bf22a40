"""Numbered cases of a chat loop: aborts, failures, what is deferred, and who provides what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunFinishedEvent,
    TextMessageContentEvent,
    UserMessage,
)
from looping import Spy, calls, loop, seen, within
from playing import say

from interpose import (
    AbortInfo,
    Capability,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    IterationInfo,
    Middleware,
    ModelConfig,
    ModelFailed,
    Result,
    RunContext,
    Stage,
    StartupError,
    on,
)
from interpose.loop import LoopAgent, ToolContext, tool


def reasons(log: list[Any]) -> type[Middleware]:
    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            log.append(info)

        def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
            log.append(info)

        def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
            log.append(info)

    return Ends


def test_case_43_an_abort_in_an_event_hook_reaches_on_abort_with_its_reason() -> None:
    """on_abort hears the reason, and on_finish is not called; the stream ends as cancelled."""
    ends: list[Any] = []

    class Stops(Middleware):
        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            ctx.abort("x")

    played = loop([reasons(ends), Stops], Spy("one two"))

    assert [(type(each), each.reason) for each in ends] == [(AbortInfo, "x")]
    assert played.result.outcome == "cancelled"
    assert played.types[-1] == "RUN_FINISHED"


def test_case_44_an_abort_in_on_start_calls_no_model() -> None:
    """on_abort is called, and the model is never asked."""
    ends: list[Any] = []
    model = Spy("Hello")

    class Stops(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            ctx.abort("not today")

    played = loop([reasons(ends), Stops], model)

    assert [type(each) for each in ends] == [AbortInfo]
    assert not model.requests
    assert played.result.outcome == "cancelled"
    assert played.types == ["RUN_STARTED", "RUN_FINISHED"]


def test_case_45_an_abort_while_a_tool_runs_cancels_the_tool_and_ends_the_run() -> None:
    """The tool's own code is cancelled, and its call is closed with a result."""
    log: list[str] = []

    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait for ever."""
        await ctx.progress("waiting")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("tool cancelled")
            raise
        return "never"

    class Stops(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            if event.type.value == "CUSTOM":
                ctx.abort("enough")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(end.kind)

    played = loop([Stops], Spy(calls("wait"), "done"), [wait])

    assert log == ["tool cancelled", "abort"]
    assert played.result.outcome == "cancelled"


class Broken:
    """A model that fails with an exception nobody foresaw."""

    async def stream(self, request: Any, ctx: Any, /) -> AsyncIterator[BaseEvent]:
        if request:
            raise OSError("socket 17 of 10.0.0.3 is gone")
        yield BaseEvent  # type: ignore[misc]


def test_case_47_a_failing_model_calls_on_error_once_and_gives_one_run_error() -> None:
    """on_error once with the original exception, on_finish never; the consumer sees a safe text."""
    ends: list[Any] = []

    played = loop([reasons(ends)], Broken())

    assert [type(each) for each in ends] == [ErrorInfo]
    assert isinstance(ends[0].error, OSError)
    assert played.types.count("RUN_ERROR") == 1
    assert "10.0.0.3" not in played.error[1]
    assert played.result.outcome == "error"


@pytest.mark.parametrize("way", ["abort", "error"])
def test_case_51_a_failing_terminal_hook_keeps_the_others_and_the_cause(way: str) -> None:
    """on_abort or on_error of one layer raises: the other layer's runs, the outcome stays."""
    ends: list[Any] = []

    class Breaks(Middleware):
        def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
            raise RuntimeError("in on_abort")

        def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
            raise RuntimeError("in on_error")

    class Stops(Middleware):
        def on_iteration(self, ctx: RunContext, info: IterationInfo) -> None:
            if way == "abort":
                ctx.abort("why")

    model = Spy({"error": "quota"})
    played = loop([reasons(ends), Breaks, Stops], model)

    if way == "abort":
        assert ends[0].reason == "why"
        assert played.result.outcome == "cancelled"
    else:
        assert isinstance(ends[0].error, ModelFailed)
        assert played.error[0] == "model-quota"


def test_case_52_failing_deferred_work_leaves_a_success_and_the_rest_runs() -> None:
    """Of several deferred functions one raises: the run succeeded, the others are called, in order."""
    log: list[str] = []

    def fails() -> None:
        log.append("fails")
        raise RuntimeError("deferred")

    async def works(name: str) -> None:
        log.append(name)

    class Defers(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            ctx.defer(works, "one")
            ctx.defer(fails)
            ctx.defer(works, "two")

    played = loop([Defers], Spy("Hello"))

    assert played.result.outcome == "success"
    assert log == ["one", "fails", "two"]


class Silent:
    """A model that answers and does not say what it used."""

    async def stream(self, request: Any, ctx: Any, /) -> AsyncIterator[BaseEvent]:
        for event in say("Hello", message=ctx.message_id):
            yield event


def test_case_53_without_usage_on_usage_is_not_called() -> None:
    """A model that reports no usage: no on_usage, and none in the terminal."""
    used: list[Any] = []

    class Counts(Middleware):
        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            used.append(usage)

    played = loop([Counts], Silent())

    assert not used
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.usage is None


# -- providers ----------------------------------------------------------------------------------

PLACE = Capability[str]("test/place", scope="run")


class Provides(Middleware):
    stage = Stage.CALL
    provides = (PLACE,)

    def setup(self, ctx: RunContext) -> None:
        ctx.attributes["log"].append("provider")
        ctx.provide(PLACE, "here")


class Consumes(Middleware):
    stage = Stage.EDGE
    requires = (PLACE,)

    def setup(self, ctx: RunContext) -> None:
        ctx.attributes["log"].append(f"consumer {ctx[PLACE]}")

    def on_config(self, ctx: RunContext, config: ModelConfig) -> None:
        ctx.attributes["log"].append("config")


def test_case_63_a_missing_provider_is_said_at_startup() -> None:
    """A layer requires what nobody provides: the host does not start, and names both."""
    with pytest.raises(StartupError) as caught:
        loop([Consumes], Spy("Hello"))

    assert "test/place" in str(caught.value)
    assert "consumes" in str(caught.value)


def test_case_64_who_declares_a_capability_has_to_provide_it() -> None:
    """setup does not provide what the class promises: the run fails, naming layer and capability."""

    class Promises(Middleware):
        provides = (PLACE,)

    model = Spy("Hello")
    played = loop([Promises], model)

    assert played.result.outcome == "error"
    assert "promises" in str(played.result.error)
    assert "test/place" in str(played.result.error)
    assert not model.requests


def test_case_66_providers_are_set_up_first_and_before_the_configuration() -> None:
    """A provider's setup comes before its consumer's though it stands further in; then on_config."""
    log: list[str] = []

    loop([Consumes, Provides], Spy("Hello"), run={"attributes": {"log": log}})

    assert log[:3] == ["provider", "consumer here", "config"]


def test_case_75_a_failing_on_finish_fails_nothing_after_the_terminal() -> None:
    """The outcome was handed over: a hook that raises then is logged, and the result stays."""

    class Saves(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            raise RuntimeError("the database is gone")

    async def use(host: Any) -> str:
        played = await seen(host.run([UserMessage(id="u", content="hi")]))
        return str(played.result.outcome)

    assert within([Saves], LoopAgent(Spy("Hello")), use) == "success"
