"""A lifespan with a shared value, capabilities of both scopes, a provider."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol, assert_type

from interpose import (
    PRINCIPAL,
    Capability,
    LifespanContext,
    Middleware,
    Principal,
    Provider,
    Reject,
    RunContext,
    Settings,
)


class KeyValue(Protocol):
    def read(self, key: str) -> str | None: ...


STORE = Capability[KeyValue]("acme-store/key-value", version=1)


class Memory:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def read(self, key: str) -> str | None:
        return self.values.get(key)


class StoreSettings(Settings):
    url: str


class Store(Provider[StoreSettings]):
    provides = (STORE,)

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: StoreSettings, ctx: LifespanContext) -> AsyncGenerator[None]:
        ctx.provide(STORE, Memory())
        yield


class Pool:
    size = 4


class Greeting(Middleware[StoreSettings, Pool]):
    requires = (PRINCIPAL,)
    optional_requires = (STORE,)

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: StoreSettings, ctx: LifespanContext) -> AsyncGenerator[Pool]:
        yield Pool()

    def setup(self, ctx: RunContext) -> None:
        assert_type(self.settings, StoreSettings)
        assert_type(self.shared, Pool)
        assert_type(ctx[PRINCIPAL], Principal)
        store = assert_type(ctx.get(STORE), KeyValue | None)
        if store is None or store.read(ctx[PRINCIPAL].subject) is None:
            raise Reject("unknown-user", "Please register first.")
