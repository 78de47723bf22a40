"""An agent that a factory made for the whole host is closed when the host stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import pytest
from ag_ui.core import BaseEvent, RunAgentInput
from playing import finished, started

from interpose import Agent, AgentContext, AgentFactory, Host, LifespanContext, NoSettings


class Closable:
    """Says what is done to it."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def run(self, run_input: RunAgentInput, ctx: AgentContext) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            yield finished(run_input)
        finally:
            self.log.append("run")

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.log.append("closed")


class WithoutContext(Closable):
    async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:  # type: ignore[override]
        try:
            yield started(run_input)
            yield finished(run_input)
        finally:
            self.log.append("run")


class Plain(Closable):
    def aclose(self) -> None:  # type: ignore[override]
        self.log.append("closed")


class Fails(Closable):
    async def aclose(self) -> None:
        raise ValueError("no")


class Hangs(Closable):
    async def aclose(self) -> None:
        await asyncio.sleep(60)


def making(agent: object, scope: Literal["run", "host"] = "host") -> Any:
    """Return a factory that makes ``agent``."""

    def make(settings: NoSettings, ctx: LifespanContext) -> Any:
        return agent

    make.scope = scope  # type: ignore[attr-defined]
    return make


def played(agent: object) -> None:
    async def main() -> None:
        overrides = {"host": {"ending_deadline": 0.2}}
        async with Host(agent=agent, overrides=overrides) as host:
            assert (await host.run("hi")).outcome == "success"

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Closable, WithoutContext, Plain])
def test_what_a_factory_made_for_the_host_is_closed_after_the_runs(
    kind: Callable[[list[str]], Closable],
) -> None:
    log: list[str] = []
    played(making(kind(log)))
    assert log == ["run", "closed"]


def test_the_class_of_a_factory_is_no_exception() -> None:
    log: list[str] = []

    class Factory(AgentFactory):
        scope = "host"

        def __call__(self, settings: NoSettings, ctx: LifespanContext, /) -> Agent:
            return Closable(log)

    played(Factory)
    assert log == ["run", "closed"]


def test_an_agent_of_one_run_and_an_agent_that_was_given_are_not_closed() -> None:
    log: list[str] = []
    played(making(Closable(log), "run"))
    played(Closable(log))
    played(WithoutContext(log))
    assert "closed" not in log


def test_closing_that_fails_or_hangs_is_logged_and_bounded(logged: list[str]) -> None:
    played(making(Fails([])))
    played(making(Hangs([])))
    errors = [line for line in logged if line.startswith("ERROR")]
    assert len(errors) == 2
    assert all("did not stop well" in line for line in errors)
    assert "ValueError: no" in errors[0]
    assert "TimeoutError" in errors[1]


@pytest.mark.parametrize("kind", [Closable, Fails, Hangs])
def test_what_is_made_for_wrap_is_closed_with_the_host(
    kind: Callable[[list[str]], Closable], logged: list[str]
) -> None:
    log: list[str] = []

    async def main() -> None:
        async with Host(overrides={"host": {"ending_deadline": 0.2}}) as host:
            wrapped = host.wrap(making(kind(log)))
            run_input = RunAgentInput(thread_id="t", run_id="r", messages=[])
            for _ in range(2):
                assert [event async for event in wrapped.run(run_input)]  # type: ignore[call-arg]

    asyncio.run(main())
    assert log.count("closed") == (kind is Closable)
    assert any("did not stop well" in line for line in logged) is (kind is not Closable)
