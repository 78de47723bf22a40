import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from acme_limits import QUOTA, Limits, LimitsSettings
from ag_ui.core import BaseEvent, RunAgentInput, RunErrorEvent, RunFinishedEvent, RunStartedEvent

from interpose import (
    PRINCIPAL,
    AgentFailed,
    CallRun,
    Host,
    Layer,
    Middleware,
    Reject,
    RunContext,
    Stage,
    StartupError,
)
from interpose.testing import Check, contract


@dataclass(frozen=True)
class Answer:
    granted: bool
    retry_after: float | None = 0.0


@dataclass
class Purse:
    """A quota that this test provides."""

    units: int
    retry_after: float | None = 60.0
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def take(self, subject: str, units: int, /) -> Answer:
        self.asked.append((subject, units))
        if units > self.units:
            return Answer(granted=False, retry_after=self.retry_after)
        self.units -= units
        return Answer(granted=True)


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])


started: list[str] = []


async def silent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    started.append(run_input.run_id)
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def play(purse: Purse, *users: User | None, **settings: object) -> list[BaseException | None]:
    """Have a run for each user; return what each failed with."""

    async def each() -> list[BaseException | None]:
        host = Host(
            layers=[Layer(Limits, settings)],
            agent=silent,
            provide={QUOTA: purse},
            provides=[PRINCIPAL] if any(users) else [],
            strict=True,
        )
        async with host:
            return [
                (await host.run("Hello", provide={PRINCIPAL: user} if user else {})).error
                for user in users
            ]

    started.clear()
    return asyncio.run(each())


# A quota that never ends, so that the checks can have as many runs as they like.
PLENTY = {QUOTA: Purse(units=1_000_000)}


@pytest.mark.parametrize("check", contract(Limits, provide=PLENTY), ids=str)
def test_it_keeps_the_contract_of_a_middleware(check: Check) -> None:
    check()


def test_a_run_takes_its_units_and_one_that_there_are_none_for_is_refused() -> None:
    purse = Purse(units=5)
    errors = play(purse, None, None, None, cost=2)
    assert errors[:2] == [None, None]
    refused = errors[2]
    assert isinstance(refused, Reject)
    assert (refused.code, str(refused.problem.message)) == ("quota", LimitsSettings().message)
    assert (refused.status, refused.retry_after) == (429, 60.0)
    assert purse.asked == [("everyone", 2)] * 3
    assert len(started) == 2  # the agent never heard of the third


def test_a_refusal_that_no_waiting_helps_names_no_time() -> None:
    [refused] = play(Purse(units=1, retry_after=None), None, cost=2, message="Too much.")
    assert isinstance(refused, Reject)
    assert (str(refused.problem.message), refused.retry_after) == ("Too much.", None)


@pytest.mark.parametrize(
    ("per", "asked"),
    [
        (
            "user",
            ['["user", "acme", "ada"]', '["user", "acme", "bob"]', '["user", "other", "ada"]'],
        ),
        ("tenant", ['["tenant", "acme"]', '["tenant", "acme"]', '["tenant", "other"]']),
        ("everyone", ["everyone", "everyone", "everyone"]),
    ],
)
def test_the_quota_is_that_of_the_user_of_the_tenant_or_of_all(per: str, asked: list[str]) -> None:
    purse = Purse(units=9)
    users = (User("ada", "acme"), User("bob", "acme"), User("ada", "other"))
    assert play(purse, *users, per=per) == [None, None, None]
    assert purse.asked == [(subject, 1) for subject in asked]


def test_a_user_without_a_tenant_is_refused_where_tenants_have_the_quota() -> None:
    purse = Purse(units=9)
    [refused] = play(purse, User("ada"), per="tenant")
    assert isinstance(refused, Reject)
    assert (refused.code, purse.asked, started) == ("tenant", [], [])


@pytest.mark.parametrize(("per", "missing"), [("everyone", []), ("user", ["principal"])])
def test_a_user_is_required_only_where_the_quota_depends_on_one(
    per: str, missing: list[str]
) -> None:
    layers = [Layer(Limits, {"per": per})]
    provide = {QUOTA: Purse(units=1)}
    if not missing:
        assert Host(layers=layers, agent=silent, provide=provide).plan().order == ("limits",)
        return
    with pytest.raises(StartupError) as caught:
        Host(layers=layers, agent=silent, provide=provide)
    assert [problem.code for problem in caught.value.problems] == ["missing-capability"]
    assert "requires the capability principal" in str(caught.value)


def test_without_a_quota_the_host_does_not_start() -> None:
    with pytest.raises(StartupError, match="requires the capability umbra-quota/quota"):
        Host(layers=[Limits], agent=silent)


class Again(Middleware):
    """A layer that has a failed run a second time."""

    stage = Stage.EDGE
    before = ("limits",)
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except AgentFailed:
            async for event in call_next(run_input):
                yield event


def test_another_attempt_of_a_run_takes_nothing() -> None:
    attempts: list[str] = []

    async def failing_once(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        attempts.append(run_input.run_id)
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        if len(attempts) == 1:
            yield RunErrorEvent(message="the model is busy")
            return
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

    async def run() -> BaseException | None:
        async with Host(layers=[Again, Limits], agent=failing_once, provide={QUOTA: purse}) as host:
            return (await host.run("Hello")).error

    purse = Purse(units=9)
    assert asyncio.run(run()) is None
    assert (len(attempts), purse.asked) == (2, [("everyone", 1)])
