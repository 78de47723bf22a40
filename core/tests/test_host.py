"""The host: lifespans, capabilities, wrapping, threads, several at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    TextMessageContentEvent,
    UserMessage,
)
from playing import agent_of, finished, play, say, started

from interpose import (
    PRINCIPAL,
    AgentFactory,
    Capability,
    CapabilityError,
    Host,
    InputError,
    Layer,
    LifespanContext,
    Middleware,
    Point,
    Provider,
    Reject,
    RunContext,
    Settings,
    StartupError,
    UsageError,
    on,
)


class Store(Protocol):
    def get(self, key: str) -> str | None: ...


STORE = Capability[Store]("app/store", version=1)
TENANT = Capability[str]("app/tenant", scope="run")


class Memory:
    def get(self, key: str) -> str | None:
        return f"value of {key}"


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict)


class UsesStore(Middleware):
    requires = (STORE,)

    @on(TextMessageContentEvent)
    def see(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        return event.model_copy(update={"delta": ctx[STORE].get("k")})


def test_the_application_provides_a_host_capability() -> None:
    assert play([UsesStore], provide={STORE: Memory()}).text == "value of k"


def test_a_capability_that_nobody_provides_is_refused_at_startup() -> None:
    with pytest.raises(StartupError, match="app/store") as caught:
        Host([UsesStore], agent=agent_of())
    assert caught.value.problems[0].code == "missing-capability"


def test_a_value_that_lacks_the_protocols_members_is_refused() -> None:
    with pytest.raises(StartupError, match="gives app/store an object that lacks get"):
        Host([UsesStore], agent=agent_of(), provide={STORE: object()})


def test_a_layer_provides_to_others_in_its_lifespan_whatever_the_order() -> None:
    trace: list[str] = []

    class Gives(Middleware):
        provides = (STORE,)

        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            trace.append("gives up")
            ctx.provide(STORE, Memory())
            yield None
            trace.append("gives down")

    class Takes(UsesStore):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            trace.append(f"takes up {ctx[STORE].get('x')}")
            yield None
            trace.append("takes down")

    assert play([Takes, Gives]).text == "value of k"
    assert trace == ["gives up", "takes up value of x", "takes down", "gives down"]


def test_a_lifespan_that_forgets_to_provide_is_an_error_and_what_started_is_stopped() -> None:
    trace: list[str] = []

    class First(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            trace.append("up")
            yield None
            trace.append("down")

    class Forgets(Middleware):
        provides = (STORE,)

    with pytest.raises(StartupError, match="started without providing app/store"):
        play([First, Forgets])
    assert trace == ["up", "down"]


def test_a_failing_lifespan_tears_down_what_started_and_shows_no_secret() -> None:
    trace: list[str] = []

    class Keyed(Settings):
        key: str

    class First(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            yield None
            trace.append("down")

    from pydantic import SecretStr

    class Secretive(Settings):
        token: SecretStr

    class Fails(Middleware[Secretive]):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Secretive, ctx: LifespanContext) -> AsyncGenerator[None]:
            raise ConnectionError(f"cannot log in with {settings.token.get_secret_value()}")
            yield None

    with pytest.raises(StartupError) as caught:
        play([First, Layer(Fails, {"token": "hunter2-secret"})])
    assert trace == ["down"]
    assert "hunter2" not in str(caught.value)
    assert "could not start: ConnectionError: cannot log in with ***" in str(caught.value)


def test_shared_values_are_made_once_and_reach_every_run() -> None:
    made: list[int] = []

    class Counter:
        def __init__(self) -> None:
            self.runs = 0

    class Counts(Middleware[Any, Counter]):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[Counter]:
            made.append(1)
            yield Counter()

        def setup(self, ctx: RunContext) -> None:
            self.shared.runs += 1
            made.append(self.shared.runs)

    async def main() -> None:
        async with Host([Counts], agent=agent_of()) as host:
            await host.run("a")
            await host.run("b")

    asyncio.run(main())
    assert made == [1, 1, 2]


def test_tasks_of_a_lifespan_end_with_it() -> None:
    trace: list[str] = []

    async def tick() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            trace.append("tick cancelled")

    class Ticks(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            ctx.start_task(tick())
            await asyncio.sleep(0)
            yield None
            trace.append("down")

    play([Ticks])
    assert trace == ["tick cancelled", "down"]


class Tenancy(Middleware):
    requires = (PRINCIPAL,)
    provides = (TENANT,)

    def setup(self, ctx: RunContext) -> None:
        tenant = ctx[PRINCIPAL].tenant
        if tenant is None:
            raise Reject("no-tenant", "You belong to no customer.")
        ctx.provide(TENANT, tenant)


class ShowsTenant(Middleware):
    requires = (TENANT,)

    def setup(self, ctx: RunContext) -> None:
        self.tenant = ctx[TENANT]

    @on(TextMessageContentEvent)
    def show(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        return event.model_copy(update={"delta": f"{self.tenant}: {event.delta}"})


@pytest.mark.parametrize("layers", [[Tenancy, ShowsTenant], [ShowsTenant, Tenancy]])
def test_run_scope_values_are_set_up_before_those_who_need_them(layers: list[Any]) -> None:
    user = User("ada", tenant="acme")
    played = play(layers, provides=[PRINCIPAL], run_provide={PRINCIPAL: user})
    assert played.text == "acme: hello"


def test_reject_in_setup_refuses_the_run_before_the_agent_is_asked() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        raise AssertionError("asked")
        yield started(run_input)

    played = play([Tenancy], agent, provides=[PRINCIPAL], run_provide={PRINCIPAL: User("bob")})
    assert played.error == ("no-tenant", "You belong to no customer.")


def test_a_run_that_omits_a_promised_value_is_refused() -> None:
    with pytest.raises(CapabilityError, match="this run lacks principal"):
        play([Tenancy], provides=[PRINCIPAL])
    with pytest.raises(CapabilityError, match="lacks claims, roles, subject, tenant"):
        play([Tenancy], provides=[PRINCIPAL], run_provide={PRINCIPAL: "ada"})
    with pytest.raises(CapabilityError, match="was not promised at startup"):
        play([], run_provide={PRINCIPAL: User("ada")})


def test_a_setup_that_forgets_to_provide_fails_the_run_and_is_named() -> None:
    class Forgets(Middleware):
        provides = (TENANT,)

    played = play([Forgets])
    assert "setup of layer 'forgets' did not provide app/tenant" in str(played.result.error)


def test_strict_refuses_to_read_what_was_not_declared() -> None:
    class Nosy(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            ctx.get(STORE)

    assert play([Nosy], provide={STORE: Memory()}).result.outcome == "success"
    played = play([Nosy], provide={STORE: Memory()}, strict=True)
    assert "without declaring it" in str(played.result.error)


def test_wrap_gives_an_agent_again_with_the_layers_around_it() -> None:
    class Upper(Middleware):
        @on(TextMessageContentEvent)
        def up(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return event.model_copy(update={"delta": event.delta.upper()})

    async def main() -> None:
        host = Host([Upper])
        wrapped = host.wrap(agent_of(*say("hello")))
        run_input = RunAgentInput(thread_id="t", run_id="r", messages=[])
        async with host:
            run: Any = wrapped.run
            events = [event async for event in run(run_input)]
            assert events[2].delta == "HELLO"
            alone = await host.run("hi")
            assert isinstance(alone.error, StartupError)
            assert "no agent of its own" in str(alone.error)
            twice = Host([Upper], agent=wrapped)
            async with twice:
                assert (await twice.run("hi")).text == "HELLO"

    asyncio.run(main())


def test_wrap_refuses_an_agent_that_lacks_an_essential_point() -> None:
    class Guard(Middleware):
        essential = (Point.TOOLS,)

        def on_before_tool_call(self, ctx: RunContext, call: Any) -> None:
            """Decide nothing."""

    with pytest.raises(StartupError, match="TOOLS"):
        Host([Guard], agent=agent_of())


def test_a_host_factory_makes_one_agent_and_a_run_factory_one_per_run() -> None:
    made: list[str] = []

    def factory(kind: str) -> type[AgentFactory]:
        class Makes(AgentFactory):
            scope = kind  # type: ignore[assignment]

            def __call__(self, settings: Any, ctx: LifespanContext) -> Any:
                made.append(kind)

                class Made:
                    async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
                        yield started(run_input)
                        yield finished(run_input)

                return Made()

        return Makes

    async def main() -> None:
        agents = {"one": factory("host"), "many": factory("run")}
        async with Host(agents=agents) as host:
            for agent in ("one", "one", "many", "many"):
                assert (await host.run("hi", agent=agent)).outcome == "success"

    asyncio.run(main())
    assert made == ["host", "run", "run"]


def test_the_host_is_for_threads_too() -> None:
    texts: list[str] = []
    with Host([], agent=agent_of(*say("hello"))).sync() as host:

        def work() -> None:
            texts.append(host.run("hi").result().text)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        types = [event.type.value for event in host.run("again")]
    assert texts == ["hello"] * 4
    assert types[0] == "RUN_STARTED"
    assert types[-1] == "RUN_FINISHED"


def test_two_hosts_in_one_process_do_not_mix() -> None:
    async def main() -> None:
        first = Host([UsesStore], agent=agent_of(*say("x")), provide={STORE: Memory()})

        class Other:
            def get(self, key: str) -> str:
                return "other"

        second = Host([UsesStore], agent=agent_of(*say("x")), provide={STORE: Other()})
        async with first, second:
            a, b = await asyncio.gather(first.run("a"), second.run("b"))
            assert (a.text, b.text) == ("value of k", "other")
        async with first:
            assert (await first.run("a")).text == "value of k"

    asyncio.run(main())


def test_what_a_run_may_start_from() -> None:
    seen: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        seen.append(run_input)
        yield started(run_input)
        yield finished(run_input)

    async def main() -> None:
        async with Host(agent=agent) as host:
            await host.run("hi", thread_id="t1")
            await host.run([UserMessage(id="u", content="hello")])
            await host.run({"threadId": "t2", "runId": "r2", "messages": [], "novel": 1})
            with pytest.raises(InputError, match="threadId"):
                host.run({"messages": []})
            with pytest.raises(InputError, match="cannot start from a int"):
                host.run(7)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="has no agent 'other'"):
                host.run("hi", agent="other")

    asyncio.run(main())
    assert [run_input.thread_id for run_input in seen][::2] == ["t1", "t2"]
    assert seen[0].messages[0].content == "hi"


def test_a_host_must_be_entered_and_can_be_entered_once_at_a_time() -> None:
    async def main() -> None:
        host = Host(agent=agent_of())
        with pytest.raises(UsageError, match="has not been entered"):
            host.run("hi")
        async with host:
            with pytest.raises(UsageError, match="entered already"):
                await host.__aenter__()

    asyncio.run(main())


def test_more_runs_than_allowed_at_once_are_rejected() -> None:
    async def main() -> None:
        async def waits(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
            yield started(run_input)
            await asyncio.sleep(0.05)
            yield finished(run_input)

        overrides = {"host": {"max_concurrent": 1}}
        async with Host(agent=waits, overrides=overrides) as host:
            first, second = await asyncio.gather(host.run("a"), host.run("b"))
            assert first.outcome == "success"
            assert isinstance(second.error, Reject)
            assert (second.error.code, second.error.status) == ("busy", 503)
            assert (await host.run("c")).outcome == "success"

    asyncio.run(main())


def test_code_layers_come_after_the_files_and_files_and_variables_may_set_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Prefix(Settings):
        text: str = "default"

    class Prefixes(Middleware[Prefix]):
        @on(TextMessageContentEvent)
        def add(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return event.model_copy(update={"delta": f"{self.settings.text} {event.delta}"})

    module = tmp_path / "in_house_layers.py"
    module.write_text(
        "from interpose import Middleware\n"
        "class FromFile(Middleware):\n"
        "    def on_start(self, ctx): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = tmp_path / "interpose.toml"
    config.write_text('[middleware.from-file]\nuse = "in_house_layers:FromFile"\n')

    async def main() -> None:
        host = Host.from_config(
            config,
            layers=[Layer(Prefixes, Prefix(text="code"), id="prefix")],
            agent=agent_of(*say("hello")),
            environ={"INTERPOSE__MIDDLEWARE__PREFIX__TEXT": "variable"},
        )
        assert host.plan().order == ("from-file", "prefix")
        async with host:
            assert (await host.run("hi")).text == "variable hello"

    asyncio.run(main())


def test_a_provider_starts_before_the_layers_and_is_named_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "in_house_provider.py"
    module.write_text(
        "from contextlib import asynccontextmanager\n"
        "from interpose import Provider, Settings\n"
        "from test_store_capability import STORE\n"
        "class Config(Settings):\n    url: str\n"
        "class Sql(Provider[Config]):\n"
        "    provides = (STORE,)\n"
        "    @classmethod\n    @asynccontextmanager\n"
        "    async def lifespan(cls, settings, ctx):\n"
        "        class Db:\n            def get(self, key): return settings.url\n"
        "        ctx.provide(STORE, Db())\n        yield\n"
    )
    import sys
    import types

    shared = types.ModuleType("test_store_capability")
    shared.STORE = STORE  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "test_store_capability", shared)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = tmp_path / "interpose.toml"
    config.write_text(
        '[providers.sql]\nuse = "in_house_provider:Sql"\nurl = { "$env" = "DB_URL" }\n'
    )

    async def main() -> None:
        host = Host.from_config(
            config,
            layers=[UsesStore],
            agent=agent_of(*say("x")),
            environ={"DB_URL": "sqlite://"},
        )
        [use] = host.plan().layers[0].requires
        assert [str(part) for part in use.parts] == ["provider sql"]
        async with host:
            assert (await host.run("hi")).text == "sqlite://"

    asyncio.run(main())
    assert issubclass(Provider, object)
