import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ag_ui.core import BaseEvent, RunAgentInput, RunFinishedEvent, RunStartedEvent
from umbra_quota import QUOTA, Ledger, Quota, QuotaProvider

from interpose import Host, Middleware, RunContext, StartupError
from interpose.testing import Check, contract_for


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def ledger(file: Path | None = None, now: Time | None = None, limit: int = 3) -> Ledger:
    opened = Ledger(file, limit=limit, period=100.0, now=now or Time())
    opened.open()
    return opened


@pytest.mark.parametrize(
    "check", contract_for(QUOTA, QuotaProvider, settings={"limit": 5}), ids=str
)
def test_it_keeps_the_contract_of_a_provider(check: Check) -> None:
    check()


def test_units_are_granted_until_the_limit_and_all_or_none_of_them() -> None:
    async def play() -> None:
        quota = ledger()
        first = await quota.take("ada", 2)
        assert (first.granted, first.remaining, first.retry_after) == (True, 1, 0.0)
        second = await quota.take("ada", 2)
        assert (second.granted, second.remaining) == (False, 1)
        assert (await quota.take("ada", 1)).granted
        assert await quota.remaining("ada") == 0
        quota.close()

    asyncio.run(play())


def test_each_subject_has_a_quota_of_its_own() -> None:
    async def play() -> None:
        quota = ledger()
        await quota.take("ada", 3)
        assert (await quota.remaining("ada"), await quota.remaining("eve")) == (0, 3)
        quota.close()

    asyncio.run(play())


def test_a_refusal_says_when_the_next_period_begins() -> None:
    async def play() -> None:
        now = Time(1_000_030.0)
        quota = ledger(now=now)
        await quota.take("ada", 3)
        assert (await quota.take("ada", 1)).retry_after == 70.0
        now.now += 70.0
        assert (await quota.take("ada", 1)).remaining == 2
        quota.close()

    asyncio.run(play())


def test_more_than_the_limit_is_never_granted() -> None:
    async def play() -> None:
        quota = ledger()
        grant = await quota.take("ada", 4)
        assert (grant.granted, grant.remaining, grant.retry_after) == (False, 3, None)
        quota.close()

    asyncio.run(play())


def test_less_than_one_unit_is_a_mistake() -> None:
    async def play() -> None:
        quota = ledger()
        with pytest.raises(ValueError, match="units are counted from 1, and -5 were wanted"):
            await quota.take("ada", -5)
        quota.close()

    asyncio.run(play())


def test_a_file_keeps_the_count_and_a_higher_limit_holds_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        before = ledger(tmp_path / "quota.sqlite")
        await before.take("ada", 3)
        before.close()
        after = ledger(tmp_path / "quota.sqlite", limit=5)
        assert await after.remaining("ada") == 2
        after.close()

    asyncio.run(play())


def test_two_who_share_a_file_never_take_the_same_units(tmp_path: Path) -> None:
    async def play() -> None:
        one, two = (ledger(tmp_path / "quota.sqlite", limit=7) for _ in range(2))
        grants = await asyncio.gather(*(q.take("ada", 1) for _ in range(10) for q in (one, two)))
        assert sum(grant.granted for grant in grants) == 7
        one.close()
        two.close()

    asyncio.run(play())


def test_what_was_closed_while_it_was_about_to_be_opened_stays_closed(tmp_path: Path) -> None:
    late = Ledger(tmp_path / "quota.sqlite", limit=1, period=1.0, now=time.time)
    late.close()
    late.open()
    assert not list(tmp_path.iterdir())


seen: list[Quota] = []


class Reader(Middleware):
    """Somebody who uses the capability."""

    requires = (QUOTA,)

    async def setup(self, ctx: RunContext, /) -> None:
        seen.append(ctx[QUOTA])
        await ctx[QUOTA].take("ada", 1)


async def silent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def host(folder: Path, *lines: str) -> Host:
    """Return a host whose file has a table for the provider."""
    file = folder / "interpose.toml"
    # By its class, so that the tests run without the plugin being installed, too.
    table = ["[providers.quota]", 'use = "umbra_quota:QuotaProvider"', *lines]
    file.write_text("\n".join(table), encoding="utf-8")
    return Host.from_config(file, layers=[Reader], agent=silent, environ={})


def test_the_count_is_kept_beside_the_configuration_and_closed_with_the_host(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        for _ in range(2):
            async with host(tmp_path, "limit = 5", 'file = "quota.sqlite"') as running:
                await running.run("Hello")
        with pytest.raises(RuntimeError, match="not open"):
            await seen.pop().take("ada", 1)

    asyncio.run(play())
    kept = Ledger(tmp_path / "quota.sqlite", limit=5, period=86_400.0, now=time.time)
    kept.open()
    assert asyncio.run(kept.remaining("ada")) == 3
    kept.close()


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    async def left() -> int:
        async with host(tmp_path, "limit = 5") as running:
            await running.run("Hello")
            return await seen.pop().remaining("ada")

    assert [asyncio.run(left()) for _ in range(2)] == [4, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["interpose.toml"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], 'the required setting "limit" is missing'),
        (["limit = 0"], "greater than or equal to 1"),
        (["limit = 1", "period = 0"], "greater than 0"),
        (["limit = 1", "period = inf"], "finite number"),
        (["limit = 1", "perod = 1"], 'Did you mean "period"?'),
    ],
)
def test_settings_that_make_no_sense_are_found_at_startup(
    lines: list[str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StartupError) as caught:
        host(tmp_path, *lines)
    assert said in str(caught.value)


def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    async def play() -> None:
        async with host(tmp_path, "limit = 1", 'file = "nowhere/quota.sqlite"'):
            raise AssertionError("it started")

    with pytest.raises(StartupError, match="quota"):
        asyncio.run(play())
