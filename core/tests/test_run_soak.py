"""Hundreds of runs at once through layers that keep state: nothing of one appears in another."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    Message,
    RunAgentInput,
    RunFinishedInterruptOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)
from playing import finished, say, started

from interpose import (
    PRINCIPAL,
    CallRun,
    Capability,
    Covers,
    EndInfo,
    Host,
    LifespanContext,
    Middleware,
    Run,
    RunContext,
    RunResult,
    Scan,
    TextTransform,
    ToolCall,
    ToolResult,
    on,
)

RUNS = 300
TOKEN = re.compile(r"tok\d{4}")
TENANT = Capability[str]("app/tenant", scope="run")
ENDS = ("success", "interrupt", "error", "cancelled")


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict)


class Books:
    """What one layer of one host has written down about all runs, under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.entries: dict[str, list[Any]] = {}

    def add(self, run_id: str, *entry: Any) -> None:
        with self._lock:
            self.entries.setdefault(run_id, []).append(entry)


BOOKS = Capability[Books]("app/books")


class Keeps(Middleware[Any, None]):
    """Base of the layers here: writes into the application's books."""

    requires: ClassVar[tuple[Capability[Any], ...]] = (BOOKS,)

    def write(self, ctx: RunContext, *entry: Any) -> None:
        ctx[BOOKS].add(ctx.run_id, ctx.layer, *entry)


class Tenancy(Keeps):
    requires = (BOOKS, PRINCIPAL)
    provides = (TENANT,)

    async def setup(self, ctx: RunContext) -> None:
        subject = ctx[PRINCIPAL].subject
        await asyncio.sleep(0)
        ctx.provide(TENANT, f"tenant of {subject}")


class Counts(Keeps):
    """Counts in ``self``, in both bags of the run, and in a value that all runs share."""

    requires = (BOOKS, TENANT)

    def setup(self, ctx: RunContext) -> None:
        assert not vars(self).keys() - {"settings", "shared"}
        self.deltas: list[str] = []
        ctx.metadata["tenant"] = ctx[TENANT]
        ctx.attributes["deltas"] = self.deltas

    @on(TextMessageContentEvent)
    async def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        self.deltas.append(event.delta)
        await asyncio.sleep(0)
        assert ctx.attributes["deltas"] is self.deltas

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.write(ctx, "".join(self.deltas), ctx.attempt, dict(ctx.metadata), repr(end))


class Masks(TextTransform[Any, None]):
    """Replaces the secret of this run, which crosses chunks; of other runs it knows nothing."""

    requires = (TENANT,)
    covers = Covers.TEXT | Covers.TOOL_RESULTS

    def setup(self, ctx: RunContext) -> None:
        self.secret = f"secret of {ctx[TENANT].removeprefix('tenant of ')}"

    def scan(self, text: str, start: int, final: bool) -> Scan:  # noqa: FBT001 - the contract
        edits = [
            (found.start(), found.end(), "***")
            for found in re.finditer(re.escape(self.secret), text)
            if found.start() >= start
        ]
        held = next(
            (at for at in range(start, len(text)) if self.secret.startswith(text[at:])), len(text)
        )
        return Scan(edits, len(text) if final else held)


class Follows(Keeps):
    tracks_state = True

    def on_message(self, ctx: RunContext, message: Message) -> None:
        self.write(ctx, "message", message.content)

    def on_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult | None) -> None:
        self.write(ctx, "call", dict(call.args), result and result.content)

    def on_usage(self, ctx: RunContext, usage: TokenUsage) -> None:
        self.write(ctx, "usage", usage.input_tokens)

    async def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        texts = [str(message.content) for message in ctx.messages if message.content]
        self.write(ctx, "end", texts, ctx.state, ctx.input.messages[0].content)
        ctx.defer(self.late, ctx, end.kind)

    async def late(self, ctx: RunContext, kind: str) -> None:
        await asyncio.sleep(0)
        self.write(ctx, "deferred", kind, ctx.metadata["tenant"])


class Retries(Keeps):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            held = [event async for event in call_next(run_input)]
        except ConnectionError as error:
            self.write(ctx, "retried", str(error))
            held = [event async for event in call_next(run_input)]
        for event in held:
            await asyncio.sleep(0)
            yield event


class Pools(Keeps):
    """Has a value of its own lifespan, of which all runs take in turn."""

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[Any]:
        yield asyncio.Lock()

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        lock: Any = self.shared
        async with lock:
            await asyncio.sleep(0)
        async for event in call_next(run_input):
            yield event


def end_of(token: str) -> str:
    return ENDS[int(token[3:]) % 4]


def is_retried(token: str) -> bool:
    return int(token[3:]) % 3 == 0


def events_of(token: str) -> list[BaseEvent]:
    """Return what is said about a token, under ids that are the same in all runs."""
    parts = (f"hello {token}, ", "your secr", f"et of {token[:5]}", f"{token[5:]} is safe")
    return [
        StateSnapshotEvent(snapshot={"who": token, "steps": []}),
        *say(*parts),
        ToolCallStartEvent(tool_call_id="call", tool_call_name="look"),
        ToolCallArgsEvent(tool_call_id="call", delta=f'{{"key": "{token}"}}'),
        ToolCallEndEvent(tool_call_id="call"),
        ToolCallResultEvent(
            message_id="result", tool_call_id="call", content=f"found: secret of {token}"
        ),
        StateDeltaEvent.model_validate(
            {"delta": [{"op": "add", "path": "/steps/-", "value": f"after {token}"}]}
        ),
    ]


def agent_for(runs: Mapping[str, Run]) -> Callable[[RunAgentInput], AsyncIterator[BaseEvent]]:
    tried: set[str] = set()

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        token = str(run_input.messages[0].content)
        pause = random.Random(token)  # noqa: S311 - repeatable, not secret
        yield started(run_input)
        if is_retried(token) and token not in tried:
            tried.add(token)
            raise ConnectionError(f"no line for {token}")
        for event in events_of(token):
            await asyncio.sleep(pause.choice([0, 0, 0.001]))
            yield event
        if end_of(token) == "error":
            raise ValueError(f"agent of {token}")
        if end_of(token) == "cancelled":
            cancel = runs[run_input.run_id].cancel
            asyncio.get_running_loop().call_soon(cancel, f"enough of {token}")
            await asyncio.sleep(3600)
        usage = [TokenUsage(input_tokens=int(token[3:]))]
        end = finished(run_input).model_copy(update={"result": {"of": token}, "usage": usage})
        if end_of(token) == "interrupt":
            asked = [Interrupt(id="i", reason=f"for {token}")]
            outcome = RunFinishedInterruptOutcome(interrupts=asked)
            end = end.model_copy(update={"outcome": outcome})
        yield end

    return agent


@dataclass(frozen=True)
class Seen:
    token: str
    run_id: str
    events: list[BaseEvent]
    result: RunResult


async def play(host: Host, runs: dict[str, Run], index: int, common: Mapping[str, Any]) -> Seen:
    token = f"tok{index:04d}"
    run_input = RunAgentInput(
        thread_id=f"thread-{index // 2}",  # two runs at once in each conversation
        run_id=f"run-{index}",
        messages=[UserMessage(id="u", content=token)],
        state={},
    )
    run = host.run(run_input, provide={PRINCIPAL: User(token)}, metadata=common, attributes=common)
    runs[run.run_id] = run
    events = [event async for event in run]
    return Seen(token, run.run_id, events, await run)


@pytest.fixture(scope="module")
def soaked() -> tuple[list[Seen], Books, Mapping[str, Any]]:
    """Play all runs at once on one host."""
    books, common = Books(), {"application": "soak"}
    runs: dict[str, Run] = {}

    async def main() -> list[Seen]:
        async with Host(
            [Counts, Follows, Pools, Retries, Masks, Tenancy],
            agent=agent_for(runs),
            provide={BOOKS: books},
            provides=[PRINCIPAL],
        ) as host:
            return await asyncio.gather(*(play(host, runs, index, common) for index in range(RUNS)))

    return asyncio.run(main()), books, common


Soaked = tuple[list[Seen], Books, Mapping[str, Any]]


def test_no_event_and_no_result_of_a_run_names_another_run(soaked: Soaked) -> None:
    for seen in soaked[0]:
        for event in seen.events:
            assert set(TOKEN.findall(event.model_dump_json())) <= {seen.token}
        assert set(TOKEN.findall(repr(seen.result) + repr(seen.result.error))) == {seen.token}


def test_no_layer_writes_down_anything_of_another_run(soaked: Soaked) -> None:
    seen, books, _ = soaked
    assert len(books.entries) == RUNS
    for each in seen:
        assert set(TOKEN.findall(repr(books.entries[each.run_id]))) == {each.token}


def test_bags_given_to_every_run_are_copied_for_each(soaked: Soaked) -> None:
    assert soaked[2] == {"application": "soak"}


def test_every_result_is_exactly_its_own(soaked: Soaked) -> None:
    for seen in soaked[0]:
        token, result = seen.token, seen.result
        assert result.outcome == end_of(token)
        state = {"who": token, "steps": [f"after {token}"]}
        if end_of(token) == "error":  # what the failed attempts gave was held back
            assert (result.text, str(result.error)) == ("", f"agent of {token}")
            continue
        assert result.text == f"hello {token}, your *** is safe"
        assert result.state == state
        assert [str(message.content) for message in result.messages if message.content] == [
            token,
            f"hello {token}, your *** is safe",
            "found: ***",
        ]
        if end_of(token) != "cancelled":
            assert result.result == {"of": token}
            assert [usage.input_tokens for usage in result.usage] == [int(token[3:])]
        assert [each.reason for each in result.interrupts] == (
            [f"for {token}"] if end_of(token) == "interrupt" else []
        )


def test_each_layer_has_seen_the_whole_of_its_own_run_and_no_more(soaked: Soaked) -> None:
    seen, books, _ = soaked
    for each in seen:
        token, entries = each.token, books.entries[each.run_id]
        masked = f"hello {token}, your *** is safe"
        failed = end_of(token) == "error"
        by_layer: dict[str, list[Any]] = {}
        for layer, *entry in entries:
            by_layer.setdefault(layer, []).append(entry)
        [counted] = by_layer["counts"]
        assert counted[:3] == [
            "" if failed else masked,
            1,
            {"application": "soak", "tenant": f"tenant of {token}"},
        ]
        kinds = [entry[0] for entry in by_layer["follows"]]
        usage = ["usage"] if end_of(token) in ("success", "interrupt") else []
        assert kinds == (
            ["end", "deferred"] if failed else ["message", "call", *usage, "end", "deferred"]
        )
        if not failed:
            assert ["message", masked] in by_layer["follows"]
            assert ["call", {"key": token}, "found: ***"] in by_layer["follows"]
        assert ("retries" in by_layer) == is_retried(token)
