"""The plugin for pytest: opt-in, lazy, and readable when something fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pydantic", "ag_ui", "loguru", "asyncio"}
PLUGIN = "interpose.testing.pytest_plugin"

CONTRACT = """
import pytest
from ag_ui.core import TextMessageContentEvent
from interpose import Middleware, on
from interpose.testing import contract


class Shout(Middleware):
    @on(TextMessageContentEvent)
    def content(self, ctx, event):
        return event.model_copy(update={"delta": event.delta.replace("at ", "AT ")})


@pytest.mark.parametrize("check", contract(Shout), ids=str)
def test_contract(check):
    check()
"""

ORDER = """
from interpose import Middleware
from interpose.testing import make_host, scripted


class First(Middleware): ...


class Second(Middleware): ...


def test_order(plan_snapshot):
    plan_snapshot(make_host([First, Second], agent=scripted("hi")).plan())


def test_two(plan_snapshot):
    plan_snapshot(make_host([First], agent=scripted("hi")).plan(), "small")
    plan_snapshot(make_host([First, Second], agent=scripted("hi")).plan(), "big")
"""

SWAPPED = ("[First, Second]", "[Second, First]")

CLOCK = """
import asyncio
from interpose import Layer, Middleware
from interpose.testing import make_host, scripted


class Slow(Middleware):
    async def setup(self, ctx):
        await ctx.sleep(60)


def test_clock(fake_clock):
    async def main():
        layers = [Layer(Slow, deadline=5)]
        async with make_host(layers, agent=scripted("hi"), clock=fake_clock) as host:
            run = asyncio.ensure_future(host.run("hi"))
            await fake_clock.advance(5)
            return await run

    assert asyncio.run(main()).error.code == "deadline-exceeded"
"""


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(f'pytest_plugins = ["{PLUGIN}"]\n')
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "--color=no"]
    return subprocess.run(  # noqa: S603 - this Python, with this test's arguments
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_clock_drives_deadlines_for_those_who_ask_for_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_clock.py").write_text(CLOCK)
    assert "fixture 'fake_clock' not found" in run(tmp_path).stdout
    assert "1 passed" in run(tmp_path, "-p", PLUGIN).stdout


def test_to_load_it_costs_nothing() -> None:
    script = f"import pytest, sys; before = set(sys.modules); import {PLUGIN}; print(*set(sys.modules) - before)"
    done = subprocess.run(  # noqa: S603 - this Python, with this test's script
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    names = set(done.stdout.split())
    assert PLUGIN in names
    assert not {name.partition(".")[0] for name in names} & (HEAVY - {"asyncio"})
    assert "interpose.testing.clocks" not in names


def test_snapshots_of_plans_stand_beside_their_test_and_tell_what_has_changed(folder: Path) -> None:
    test = folder / "test_app.py"
    test.write_text(ORDER)
    missing = run(folder)
    assert "there is no snapshot" in missing.stdout
    assert "2 failed" in missing.stdout
    assert "2 passed" in run(folder, "--interpose-update-plans").stdout
    files = sorted(path.name for path in folder.glob("*.json"))
    assert files == [
        "test_app.test_order.plan.json",
        "test_app.test_two.big.plan.json",
        "test_app.test_two.small.plan.json",
    ]
    written = json.loads((folder / files[0]).read_text())
    assert [layer["id"] for layer in written["layers"]] == ["first", "second"]
    test.write_text(ORDER.replace(*SWAPPED, 1))
    changed = run(folder).stdout
    assert "1 failed, 1 passed" in changed
    assert "the plan has changed" in changed
    assert '-      "id": "first",' in changed
    assert "interpose/testing" not in changed  # no frame of the kit


def test_a_breach_of_the_contract_is_told_without_the_kit_s_own_frames(folder: Path) -> None:
    (folder / "test_shout.py").write_text(CONTRACT)
    done = run(folder, "-k", "text-split")
    told = done.stdout
    assert "Shout breaks its contract: text-split" in told
    assert "the smallest stream that shows it:" in told
    assert "interpose/testing" not in told
