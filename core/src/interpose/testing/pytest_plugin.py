"""Fixtures for pytest: a clock, and snapshots of plans. Switched on by who wants it.

In a ``conftest.py``: ``pytest_plugins = ["interpose.testing.pytest_plugin"]``; or on the command
line: ``-p interpose.testing.pytest_plugin``. Nothing of Interpose is imported before a fixture is
used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

import pytest

if TYPE_CHECKING:
    from interpose.plan import Plan
    from interpose.testing.clocks import FakeClock

UPDATE: Final = "--interpose-update-plans"
"""The option under which ``plan_snapshot`` writes what it compares with."""


class PlanSnapshot(Protocol):
    """What the fixture ``plan_snapshot`` gives."""

    def __call__(self, plan: Plan, name: str = "", /) -> None:
        """Compare a plan; ``name`` tells several of one test apart."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("interpose").addoption(
        UPDATE, action="store_true", help="write the snapshots of plans anew, beside their tests"
    )


@pytest.fixture
def fake_clock() -> FakeClock:
    """Return a clock that stands until the test moves it: ``make_host(..., clock=fake_clock)``."""
    from interpose.testing.clocks import FakeClock

    return FakeClock()


@pytest.fixture
def plan_snapshot(request: pytest.FixtureRequest) -> PlanSnapshot:
    """Return a function that compares a plan with the test's own file, beside its module.

    ``plan_snapshot(host.plan())`` in ``test_order`` of ``test_app.py`` compares with
    ``test_app.test_order.plan.json``. ``--interpose-update-plans`` writes it.
    """
    update = bool(request.config.getoption(UPDATE))
    test = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")

    def check(plan: Plan, name: str = "", /) -> None:
        __tracebackhide__ = True  # pytest shows the author's own line, not this one
        from interpose.testing.plans import assert_plan

        words = (request.path.stem, test, name, "plan.json")
        assert_plan(plan, request.path.with_name(".".join(filter(None, words))), update=update)

    return check
