"""The contract of providers finds mistakes, and lets correct ones pass."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest
from contracting import failures
from pydantic import SecretStr

from interpose import (
    Capability,
    LifespanContext,
    Middleware,
    Provider,
    RunContext,
    Settings,
    UsageError,
)
from interpose.testing import (
    contract_for,
)


class Store(Protocol):
    async def put(self, key: str, value: str) -> None: ...

    async def get(self, key: str) -> str | None: ...


STORE = Capability[Store]("test-store/store", version=1)


class Memory:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def put(self, key: str, value: str) -> None:
        self.kept[key] = value

    async def get(self, key: str) -> str | None:
        return self.kept.get(key)


class StoreSettings(Settings):
    size: int = 10
    """Values that are kept."""
    token: SecretStr | None = None
    """The key of the store."""


class MemoryStore(Provider[StoreSettings]):
    provides = (STORE,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        ctx.provide(STORE, Memory())
        ctx.start_task(asyncio.Event().wait())
        yield


async def keeps_what_is_put(store: Store) -> None:
    """What is put is there."""
    await store.put("a", "1")
    assert await store.get("a") == "1"


async def has_nothing_at_first(store: Store) -> None:
    assert await store.get("a") is None


BEHAVIOUR = (keeps_what_is_put, has_nothing_at_first)


@pytest.mark.parametrize(
    "check", contract_for(STORE, MemoryStore, settings={"token": "k" * 20}, behaviour=BEHAVIOUR)
)
def test_a_correct_provider_passes(check: Callable[[], None]) -> None:
    check()


class LayerStore(Middleware[StoreSettings]):
    provides = (STORE,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        ctx.provide(STORE, Memory())
        yield


RUN_STORE = Capability[Store]("test-store/of-run", scope="run")


class RunStore(Middleware):
    provides = (RUN_STORE,)

    def setup(self, ctx: RunContext, /) -> None:
        ctx.provide(RUN_STORE, Memory())


def test_a_middleware_that_provides_passes_too() -> None:
    assert not failures(contract_for(STORE, LayerStore, behaviour=BEHAVIOUR))
    assert not failures(contract_for(RUN_STORE, RunStore, behaviour=BEHAVIOUR))


def test_a_behaviour_is_a_check_of_its_own_with_a_fresh_provider() -> None:
    contract = contract_for(STORE, MemoryStore, behaviour=BEHAVIOUR)
    names = [check.name for check in contract]
    assert names[5:7] == ["keeps-what-is-put", "has-nothing-at-first"]
    assert contract[5].why == "What is put is there."
    assert contract.run()


class Forgetful(Memory):
    async def put(self, key: str, value: str) -> None:
        self.kept = {}


class ForgetfulStore(MemoryStore):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        ctx.provide(STORE, Forgetful())
        yield


def test_a_behaviour_that_does_not_hold_is_told_with_what_it_asserts() -> None:
    def says(_store: Store) -> None:
        raise AssertionError("1 is missing")

    found = failures(contract_for(STORE, ForgetfulStore, behaviour=[keeps_what_is_put, says]))
    assert found.keys() == {"keeps-what-is-put", "says"}
    assert found["says"] == "AssertionError: 1 is missing"


class NoMethods:
    async def put(self, key: str) -> None: ...

    async def get(self, key: str) -> str | None: ...


class OneArgument(MemoryStore):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        store: Any = NoMethods()
        ctx.provide(STORE, store)
        yield


class LeavesATask(MemoryStore):
    """Begins a task that is nobody's."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        ctx.provide(STORE, Memory())
        cls.task = asyncio.ensure_future(asyncio.Event().wait())
        yield

    task: asyncio.Future[Any]


class LeavesAThread(MemoryStore):
    """Its thread ends when it is told, and nobody tells it when the start is cut short."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait, name="flusher", daemon=True)
        thread.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ctx.provide(STORE, Memory())
        yield
        stop.set()
        thread.join()


class FailsAtTheEnd(MemoryStore):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        connection: dict[str, Any] = {}
        ctx.provide(STORE, Memory())
        yield
        connection.pop("socket").close()


_OPEN: list[str] = []


class OnlyOne(MemoryStore):
    """Keeps its connection in the process."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        if _OPEN:
            raise RuntimeError("there is a pool already")
        _OPEN.append("pool")
        try:
            ctx.provide(STORE, Memory())
            yield
        finally:
            _OPEN.clear()


class Talks(MemoryStore):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        if settings.token is not None:
            ctx.log.info("connecting with {}", settings.token.get_secret_value())
        ctx.provide(STORE, Memory())
        yield


class Unprovided(MemoryStore):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: StoreSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        yield


@pytest.mark.parametrize(
    ("provider", "check", "said"),
    [
        (
            OneArgument,
            "provides",
            (
                "what it provides as test-store/store is no Store: put cannot be called as the Protocol "
                "says: too many positional arguments"
            ),
        ),
        (
            LeavesATask,
            "stops-cleanly",
            "after the host has stopped, the task Event.wait is still running",
        ),
        (
            LeavesAThread,
            "stops-when-cancelled",
            "the thread flusher is still running",
        ),
        (
            FailsAtTheEnd,
            "stops-cleanly",
            (
                "after the host has stopped, the host reports: ERROR provider contract-subject "
                "(contract-subject) did not stop well: KeyError: 'socket'"
            ),
        ),
        (
            OnlyOne,
            "two-hosts",
            (
                "beside another host it does not start: provider contract-subject (contract-subject) "
                "could not start: RuntimeError: there is a pool already."
            ),
        ),
        (Talks, "secrets-hidden", "a secret of the settings stands in a logged line"),
        (
            Unprovided,
            "provides",
            (
                "a host with it does not start: provider contract-subject (contract-subject) started "
                "without providing test-store/store."
            ),
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_provider_with_a_mistake_is_found(
    provider: type[Provider[Any]], check: str, said: str
) -> None:
    found = failures(contract_for(STORE, provider))
    assert said in found[check]


class Queue(Provider):
    """Needs a store, and begins a task before it asks for it."""

    requires = (STORE,)
    provides = (Capability("test-store/queue"),)

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: Any, ctx: LifespanContext, /) -> AsyncGenerator[None]:
        task = asyncio.ensure_future(asyncio.Event().wait())
        await ctx[STORE].put("queue", "")
        try:
            ctx.provide(cls.provides[0], object())
            yield
        finally:
            task.cancel()


def test_a_provider_whose_requirement_fails_leaves_nothing() -> None:
    found = failures(contract_for(Queue.provides[0], Queue, provide={STORE: Memory()}))
    assert found == {
        "fails-cleanly": "when what it requires fails, the task Event.wait is still running"
    }


def test_a_provider_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="MemoryStore does not provide test-store/of-run"):
        contract_for(RUN_STORE, MemoryStore)
    with pytest.raises(UsageError, match="takes a Provider or a Middleware class, not"):
        contract_for(STORE, Memory)  # type: ignore[arg-type]


def test_two_behaviours_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="'keeps-what-is-put' is taken"):
        contract_for(STORE, MemoryStore, behaviour=[keeps_what_is_put, keeps_what_is_put])
