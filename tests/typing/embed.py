"""What an application writes: hosts, layers, runs."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_type

from ag_ui.core import BaseEvent, RunAgentInput

from interpose import PRINCIPAL, Host, Layer, Middleware, Plan, RunResult, Settings, encode


class FilterSettings(Settings):
    deny: frozenset[str]


class ToolFilter(Middleware[FilterSettings]): ...


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Echo:
    async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        for event in list[BaseEvent]():
            yield event


def build() -> Host:
    return Host(
        layers=[
            Layer(ToolFilter, FilterSettings(deny=frozenset({"delete_rows"}))),
            Layer(ToolFilter, {"deny": ["delete_rows"]}, id="again", after=["tool-filter"]),
            ToolFilter,
        ],
        agent=Echo(),
        provides=[PRINCIPAL],
    )


async def main() -> None:
    host = Host.from_config("interpose.toml", overlays=["production.toml"], provides=[PRINCIPAL])
    assert_type(host.plan("default"), Plan)
    async with host:
        run = host.run("Hello", provide={PRINCIPAL: User("ada")}, thread_id="t1")
        async for event in run:
            assert_type(event, BaseEvent)
            print(encode(event))
        result = await host.run("And again")
        assert_type(result, RunResult[None])
        assert_type(result.text, str)
        async with host.run("Third time") as third:
            third.cancel("enough")
