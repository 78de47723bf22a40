"""Executing calls: threads, async tools, generators, timeouts, cancellation, control flow."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    RunErrorEvent,
    StateSnapshotEvent,
    StepStartedEvent,
    TextMessageChunkEvent,
    ToolCallResultEvent,
)
from tooling import Calls, ControlFlow, DrivenClock, run, until

from interpose import Capability, CapabilityError, UsageError
from interpose.loop import execution
from interpose.loop.execution import ToolContext, ToolTimeout, execute
from interpose.loop.tools import LoopTool, client_tool, tool
from interpose.loop_errors import ToolError
from interpose.payloads import ToolCall, ToolResult

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


# Kinds of functions ---------------------------------------------------------------------------


def test_a_sync_tool_runs_in_a_thread_with_the_callers_context() -> None:
    @tool
    def where() -> str:
        return f"{threading.current_thread() is threading.main_thread()} {WHO.get()}"

    async def main() -> None:
        WHO.set("ada")
        assert (await Calls().execute(where)).content == "False ada"

    asyncio.run(main())


def test_a_sync_tool_does_not_block_the_others() -> None:
    arrived = threading.Barrier(2, timeout=5)

    @tool
    def meet(name: str) -> str:
        arrived.wait()
        return name

    async def main() -> None:
        calls = Calls()
        both = await asyncio.gather(
            calls.execute(meet, {"name": "a"}), calls.execute(meet, {"name": "b"})
        )
        assert [each.content for each in both] == ["a", "b"]

    asyncio.run(main())


def test_an_async_tool_runs_on_the_loop_with_the_callers_context() -> None:
    @tool
    async def where() -> str:
        await asyncio.sleep(0)
        return f"{threading.current_thread() is threading.main_thread()} {WHO.get()}"

    async def main() -> None:
        WHO.set("ada")
        assert (await Calls().execute(where)).content == "True ada"

    asyncio.run(main())


async def fetch(text: str) -> str:
    return text


class Fetcher:
    async def __call__(self, text: str) -> str:
        return text

    async def method(self, text: str) -> str:
        return text


@functools.wraps(fetch)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return fetch(*args, **kwargs)


@pytest.mark.parametrize(
    "function",
    [fetch, functools.partial(fetch), Fetcher(), Fetcher().method, wrapped],
    ids=["function", "partial", "object", "method", "wrapper"],
)
def test_whatever_gives_an_awaitable_is_awaited(function: Callable[..., Any]) -> None:
    assert run(tool(function, name="fetch"), {"text": "x"}).content == "x"


async def stream(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each


def count(n: int) -> Iterator[int]:
    yield from range(n)


def reduce(n: int) -> Generator[int, None, str]:
    yield from range(n)
    return "done"


@functools.wraps(stream)
def wrapped_stream(*args: Any, **kwargs: Any) -> Any:
    return stream(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "result"),
    [(stream, "2"), (count, "2"), (reduce, "done"), (wrapped_stream, "2")],
)
def test_a_generator_reports_each_value_and_gives_the_last(
    function: Callable[..., Any], result: str
) -> None:
    async def main() -> None:
        calls = Calls()
        found = await calls.execute(tool(function, name="t"), {"n": 3})
        assert found == ToolResult(result)
        assert [event.name for event in calls.events if isinstance(event, CustomEvent)] == (
            ["tool.progress"] * 3
        )
        assert calls.progress == [{"toolCallId": "call-1", "value": n} for n in range(3)]

    asyncio.run(main())


@pytest.mark.parametrize("function", [stream, count])
def test_a_generator_without_values_gives_null(function: Callable[..., Any]) -> None:
    assert run(tool(function), {"n": 0}) == ToolResult("null")


def test_a_result_that_a_generator_yields_is_no_progress() -> None:
    async def steps() -> AsyncIterator[Any]:
        yield "half"
        yield ToolResult("whole")

    async def main() -> None:
        calls = Calls()
        assert await calls.execute(tool(steps)) == ToolResult("whole")
        assert [each["value"] for each in calls.progress] == ["half"]

    asyncio.run(main())


def test_an_async_generator_that_never_waits_lets_others_run() -> None:
    turns: list[str] = []

    async def busy() -> AsyncIterator[int]:
        for each in range(3):
            turns.append("tool")
            yield each

    async def other() -> None:
        while True:
            turns.append("other")
            await asyncio.sleep(0)

    async def main() -> None:
        beside = asyncio.create_task(other())
        await Calls().execute(tool(busy))
        beside.cancel()

    asyncio.run(main())
    assert "tool tool" not in " ".join(turns)


@pytest.mark.parametrize("is_async", [True, False])
def test_progress_that_is_no_json_fails_the_call_and_closes_the_generator(is_async: bool) -> None:  # noqa: FBT001
    closed = threading.Event()

    async def slow() -> AsyncIterator[object]:
        try:
            yield object()
        finally:
            closed.set()

    def quick() -> Iterator[object]:
        try:
            yield object()
        finally:
            closed.set()

    with pytest.raises(UsageError, match="reports an object as progress"):
        run(tool(slow if is_async else quick, name="t"))
    assert closed.is_set()


def test_a_clients_tool_cannot_be_executed() -> None:
    with pytest.raises(UsageError, match="run by the client"):
        run(client_tool("c", "C.", {}))


def test_arguments_that_do_not_validate_any_more_are_an_error_for_the_model() -> None:
    async def main() -> None:
        made = tool(fetch)
        call = ToolCall("c", "fetch", {"text": 3})
        with pytest.raises(ToolError, match="text: Input should be a valid string"):
            await execute(made, call, Calls().context(call), timeout=None)

    asyncio.run(main())


def test_two_calls_of_one_tool_share_nothing() -> None:
    @tool
    async def walk(name: str, ctx: ToolContext) -> AsyncIterator[str]:
        for step in range(3):
            await asyncio.sleep(0)
            yield f"{name}{step} {ctx.call_id}"

    async def main() -> None:
        one, two = Calls(), Calls()
        found = await asyncio.gather(
            one.execute(walk, {"name": "a"}, call_id="1"),
            two.execute(walk, {"name": "b"}, call_id="2"),
        )
        assert [each.content for each in found] == ["a2 1", "b2 2"]
        assert [each["value"] for each in one.progress] == ["a0 1", "a1 1", "a2 1"]
        assert [each["toolCallId"] for each in two.progress] == ["2"] * 3

    asyncio.run(main())


# Failures -------------------------------------------------------------------------------------


class Mine(Exception):
    pass


def failing(error: BaseException, kind: str) -> LoopTool:
    """Return a tool that raises ``error``."""

    def sync() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    async def agen() -> AsyncIterator[int]:
        yield 1
        raise error

    def gen() -> Iterator[int]:
        yield 1
        raise error

    kinds: dict[str, Callable[..., Any]] = {
        "sync": sync,
        "async": coroutine,
        "agen": agen,
        "gen": gen,
    }
    return tool(kinds[kind], name="t")


KINDS = pytest.mark.parametrize("kind", ["sync", "async", "agen", "gen"])


@KINDS
@pytest.mark.parametrize(
    "error", [Mine("x"), ToolError("x"), TimeoutError(), ExceptionGroup("g", [Mine("x")])]
)
def test_the_tools_own_exception_is_raised(kind: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        run(failing(error, kind), seconds=5)
    assert caught.value is error


def test_a_stop_iteration_is_a_failure_and_no_hang() -> None:
    for kind in ("sync", "async"):
        with pytest.raises(RuntimeError):
            run(failing(StopIteration(3), kind))


@KINDS
def test_the_hosts_control_flow_passes_unchanged(kind: str) -> None:
    error = ControlFlow()
    with pytest.raises(ControlFlow) as caught:
        run(failing(error, kind), seconds=5)
    assert caught.value is error


@KINDS
def test_control_flow_in_a_group_wins(kind: str) -> None:
    error = ControlFlow()
    group = BaseExceptionGroup("a", [Mine(), BaseExceptionGroup("b", [Mine(), error])])
    with pytest.raises(ControlFlow) as caught:
        run(failing(group, kind))
    assert caught.value is error


def test_control_flow_out_of_a_task_group_wins() -> None:
    @tool
    async def many(ctx: ToolContext) -> None:
        async def ask() -> None:
            ctx.abort("enough")

        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            group.create_task(ask())

    with pytest.raises(ControlFlow, match="enough"):
        run(many)


def test_a_cancellation_of_the_tools_own_making_is_a_failure() -> None:
    @tool
    async def careless() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    with pytest.raises(ToolError, match="was cancelled by itself"):
        run(careless)
    with pytest.raises(ToolError, match="was cancelled by itself"):
        run(failing(BaseExceptionGroup("g", [asyncio.CancelledError()]), "async"))
    with pytest.raises(ExceptionGroup) as caught:
        run(failing(BaseExceptionGroup("g", [asyncio.CancelledError(), Mine()]), "async"))
    assert [type(each) for each in caught.value.exceptions] == [Mine]


def test_a_sync_tool_cannot_end_the_process() -> None:
    @tool
    def leave() -> None:
        sys.exit(3)

    with pytest.raises(ToolError, match="tried to end the process"):
        run(leave)


# Timeouts -------------------------------------------------------------------------------------


def test_a_timeout_is_by_the_clock_of_the_host() -> None:
    async def main() -> None:
        clock = DrivenClock()
        cleaned: list[str] = []

        @tool
        async def slow() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append("yes")

        task = asyncio.create_task(Calls(clock).execute(slow, seconds=10))
        await until(lambda: clock.sleepers)
        clock.advance(9.9)
        await asyncio.sleep(0.01)
        assert not task.done()
        clock.advance(0.1)
        with pytest.raises(ToolTimeout) as caught:
            await task
        assert caught.value.message == (
            "The tool 'slow' took longer than 10 s and was given up. "
            "It may have had its effect all the same."
        )
        assert caught.value.code == "tool-timeout"
        assert cleaned == ["yes"]

    asyncio.run(main())


def test_a_tool_that_reads_has_no_effect_to_worry_about() -> None:
    async def slow() -> None:
        await asyncio.sleep(60)

    with pytest.raises(ToolTimeout) as caught:
        run(tool(slow, effect="read"), seconds=0.01)
    assert caught.value.message.endswith("was given up.")


def test_a_tool_in_time_leaves_no_timer() -> None:
    async def main() -> None:
        clock = DrivenClock()
        await Calls(clock).execute(tool(fetch), {"text": "x"}, seconds=10)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_clock_that_fails_is_no_timeout() -> None:
    class Broken(DrivenClock):
        async def sleep(self, seconds: float, /) -> None:
            raise OSError("no time")

    async def main() -> None:
        async def slow() -> None:
            await asyncio.sleep(60)

        with pytest.raises(OSError, match="no time"):
            await Calls(Broken()).execute(tool(slow), seconds=10)

    asyncio.run(main())


def test_a_thread_that_is_late_is_dropped_and_logged(logged: list[str]) -> None:
    go, seen = threading.Event(), threading.Event()

    @tool
    def hang(ctx: ToolContext) -> str:
        ctx.progress("started")
        go.wait(5)
        assert ctx.cancelled
        ctx.progress("late")
        seen.set()
        return "late"

    async def main() -> None:
        clock, calls = DrivenClock(), Calls()
        calls.services.clock = clock
        task = asyncio.create_task(calls.execute(hang, seconds=1))
        await until(lambda: calls.events)
        clock.advance(1)
        with pytest.raises(ToolTimeout):
            await task
        go.set()
        await until(lambda: len(logged) == 2)
        assert [each["value"] for each in calls.progress] == ["started"]

    asyncio.run(main())
    assert logged == [
        "WARNING CUSTOM came after the end of its tool call\n",
        "WARNING the tool hang gave a result after it was given up; it is dropped\n",
    ]


def test_a_generator_in_a_thread_that_is_late_is_closed() -> None:
    go, closed = threading.Event(), threading.Event()

    @tool
    def hang() -> Iterator[int]:
        try:
            go.wait(5)
            while True:
                time.sleep(0.001)
                yield 1
        finally:
            closed.set()

    async def main() -> None:
        calls = Calls()
        with pytest.raises(ToolTimeout):
            await calls.execute(hang, seconds=0.01)
        go.set()
        await asyncio.to_thread(closed.wait, 5)
        assert closed.is_set()
        assert calls.events == []

    asyncio.run(main())


def test_a_thread_that_hangs_does_not_keep_the_loop_from_closing() -> None:
    never = threading.Event()

    @tool
    def hang() -> None:
        never.wait(60)

    before = time.monotonic()
    with pytest.raises(ToolTimeout):
        run(hang, seconds=0.01)
    assert time.monotonic() - before < 5
    never.set()


def test_a_tool_that_ignores_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    monkeypatch.setattr(execution, "CLEANUP", 0.01)

    async def main() -> None:
        go = asyncio.Event()

        @tool
        async def stubborn() -> str:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        with pytest.raises(ToolTimeout):
            await Calls().execute(stubborn, seconds=0.01)
        go.set()
        await until(lambda: len(logged) == 2)

    asyncio.run(main())
    assert logged == [
        "ERROR the tool stubborn ignores its cancellation, and is left behind\n",
        "WARNING the tool stubborn gave a result after it was given up; it is dropped\n",
    ]


def test_a_tool_that_ends_the_run_while_it_is_given_up_ends_the_run() -> None:
    @tool
    async def last_word(ctx: ToolContext) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ctx.abort("after all")

    with pytest.raises(ControlFlow, match="after all"):
        run(last_word, seconds=0.01)


# Cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_cancelling_closes_the_generator_before_it_passes(seconds: float | None) -> None:
    async def main() -> None:
        closed: list[str] = []

        @tool
        async def endless() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
                    await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                closed.append("yes")

        calls = Calls()
        task = asyncio.create_task(calls.execute(endless, seconds=seconds))
        await until(lambda: calls.events)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == ["yes"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_cancelling_does_not_wait_for_a_thread(logged: list[str]) -> None:
    go = threading.Event()

    @tool
    def hang(ctx: ToolContext) -> None:
        ctx.progress(1)
        go.wait(5)
        raise Mine

    async def main() -> None:
        calls = Calls()
        task = asyncio.create_task(calls.execute(hang))
        await until(lambda: calls.events)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await until(lambda: logged)

    asyncio.run(main())
    assert logged == ["WARNING the tool hang gave Mine after it was given up; it is dropped\n"]


def test_a_failure_in_the_moment_of_a_cancellation_is_logged_and_not_left_unseen(
    logged: list[str],
) -> None:
    unseen: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unseen.append(what))
        go = asyncio.Event()
        waiting: list[int] = []

        @tool
        async def fail() -> None:
            waiting.append(1)
            await go.wait()
            raise Mine

        task = asyncio.create_task(Calls().execute(fail))
        await until(lambda: waiting)
        work = next(each for each in asyncio.all_tasks() if each.get_name() == "tool fail")
        go.set()
        work.add_done_callback(lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()
    assert unseen == []
    assert logged == ["WARNING the tool fail gave Mine after it was given up; it is dropped\n"]


def test_an_outer_timeout_of_the_caller_passes_as_its_own() -> None:
    async def main() -> None:
        async def slow() -> None:
            await asyncio.sleep(60)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Calls().execute(tool(slow), seconds=60)

    asyncio.run(main())


# The context ----------------------------------------------------------------------------------

STORE = Capability[str]("store")
OTHER = Capability[str]("other")


def test_a_context_tells_of_its_call_and_its_run() -> None:
    async def main() -> None:
        calls = Calls()
        calls.services.given[STORE] = "db"
        ctx = calls.context(ToolCall("c", "t", {"a": 1}))
        assert (ctx.call_id, ctx.name, ctx.run_id, ctx.thread_id) == ("c", "t", "run-1", "thread-1")
        assert ctx.idempotency_key == "run-0:c"
        assert ctx.metadata == {"plan": "pro"}
        with pytest.raises(TypeError):
            ctx.metadata["plan"] = "free"  # type: ignore[index]
        assert (ctx[STORE], ctx.get(OTHER)) == ("db", None)
        with pytest.raises(CapabilityError):
            ctx[OTHER]
        assert not ctx.cancelled
        calls.services.cancelled = True
        assert ctx.cancelled
        assert repr(ctx) == "<ToolContext run=run-1 tool=t call=c>"
        await ctx.sleep(0)
        assert ctx.clock is calls.services.clock

    asyncio.run(main())


@pytest.mark.parametrize("is_async", [True, False])
def test_events_of_a_tool_come_in_order_and_before_its_result(is_async: bool) -> None:  # noqa: FBT001
    events = [StateSnapshotEvent(snapshot=n) for n in range(50)]

    def sync(ctx: ToolContext) -> None:
        for event in events:
            ctx.emit(event)

    async def coroutine(ctx: ToolContext) -> None:
        for event in events:
            ctx.emit(event)
            await ctx.progress(1)

    async def main() -> None:
        calls = Calls()
        await calls.execute(tool(coroutine if is_async else sync, name="t"))
        assert [event for event in calls.events if event in events] == events

    asyncio.run(main())


@pytest.mark.parametrize(
    "event",
    [
        RunErrorEvent(message="x"),
        StepStartedEvent(step_name="x"),
        TextMessageChunkEvent(message_id="m", delta="x"),
        ToolCallResultEvent(message_id="m", tool_call_id="call-1", content="x"),
        "text",
    ],
)
def test_what_is_not_a_tools_to_send_is_refused(event: BaseEvent) -> None:
    @tool
    def send(ctx: ToolContext) -> None:
        ctx.emit(event)

    with pytest.raises(UsageError, match="the tool 'send' emits "):
        run(send)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_can_ask_people_or_end_the_run_from_anywhere(is_async: bool) -> None:  # noqa: FBT001
    question = Interrupt(id="i", reason="r")

    def sync(ctx: ToolContext, ends: bool) -> None:  # noqa: FBT001
        ctx.abort("enough") if ends else ctx.interrupt(question)

    async def coroutine(ctx: ToolContext, ends: bool) -> None:  # noqa: FBT001
        sync(ctx, ends)

    async def main() -> None:
        calls = Calls()
        made = tool(coroutine if is_async else sync, name="t")
        with pytest.raises(ControlFlow, match="interrupted"):
            await calls.execute(made, {"ends": False})
        with pytest.raises(ControlFlow, match="enough"):
            await calls.execute(made, {"ends": True})
        assert (calls.asked, calls.aborted) == ([question], ["enough"])

    asyncio.run(main())


def test_what_goes_wrong_with_an_event_goes_wrong_in_the_tool() -> None:
    async def main() -> None:
        calls = Calls()

        @tool
        def send(ctx: ToolContext) -> str:
            try:
                ctx.progress(1)
            except Mine:
                return "seen"
            return "not seen"

        def refuse(event: BaseEvent) -> None:
            raise Mine

        call = ToolCall("c", "send", {})
        ctx = calls.context(call)
        ctx._send = refuse
        assert (await execute(send, call, ctx, timeout=None)).content == "seen"

    asyncio.run(main())


def test_a_tool_with_a_loop_of_its_own_can_still_report() -> None:
    @tool
    def inner(ctx: ToolContext) -> str:
        async def work() -> str:
            await ctx.progress("from within")
            return "done"

        return asyncio.run(work())

    async def main() -> None:
        calls = Calls()
        assert (await calls.execute(inner)).content == "done"
        assert [each["value"] for each in calls.progress] == ["from within"]

    asyncio.run(main())
