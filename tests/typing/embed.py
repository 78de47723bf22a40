"""What an application writes: hosts, layers, runs."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_type

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic import BaseModel
from typing_extensions import TypedDict

from interpose import PRINCIPAL, Host, Layer, Middleware, Plan, Run, RunResult, Settings, encode


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


class City(BaseModel):
    name: str


@dataclass
class Town:
    name: str


class Place(TypedDict):
    name: str


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
        city = await host.run("Which city?", output=City)
        assert_type(city, RunResult[City])
        assert_type(city.output, City | None)
        town = host.run("Which town?", output=Town)
        assert_type(town, Run[Town])
        assert_type((await town).output, Town | None)
        place = await host.run("Which place?", output=Place)
        assert_type(place.output, Place | None)
        assert_type(result.output, None)
