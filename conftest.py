"""What holds for the tests of all distributions: nothing is left out in silence.

* ``INTERPOSE_REQUIRE_ALL=1`` (as in ``.ci/run``): a test that would be skipped fails.
* Tests marked ``packaging`` build and install the distributions, which takes minutes and an
  index; they run under ``INTERPOSE_PACKAGING=1`` or ``INTERPOSE_REQUIRE_ALL=1``.
* Tests marked ``live`` talk to a server on the internet, and only if somebody asks for that with a
  variable of their own; to leave them out is no failure anywhere.
* ``INTERPOSE_AGAIN=1``: another Python has run all this already. Each property is tried on a fifth
  of the examples; everything else is as ever.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def is_set(variable: str) -> bool:
    """Say whether an environment variable switches something on."""
    return os.environ.get(variable, "") not in ("", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what needs an index, and say how to have it; see also :func:`fewer_examples`."""
    if is_set("INTERPOSE_AGAIN"):
        fewer_examples(items)
    if is_set("INTERPOSE_PACKAGING") or is_set("INTERPOSE_REQUIRE_ALL"):
        return
    reason = "builds and installs the distributions; set INTERPOSE_PACKAGING=1 to run it"
    for item in items:
        if item.get_closest_marker("packaging"):
            item.add_marker(pytest.mark.skip(reason=reason))


def fewer_examples(items: list[pytest.Item]) -> None:
    """Try each property on a fifth of its examples, whether it or the default says how many."""
    from hypothesis import is_hypothesis_test, settings

    settings.register_profile("again", max_examples=settings().max_examples // 5)
    settings.load_profile("again")
    # A parametrized test is many items, and one function.
    functions = {id(test): test for item in items if (test := getattr(item, "obj", None))}
    for test in filter(is_hypothesis_test, functions.values()):
        # There is no public way to change what a test's own @settings says.
        own = test._hypothesis_internal_use_settings  # noqa: SLF001
        if own is not None:
            fewer = settings(own, max_examples=max(own.max_examples // 5, 1))
            test._hypothesis_internal_use_settings = fewer  # noqa: SLF001


def forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure where everything is required."""
    if not is_set("INTERPOSE_REQUIRE_ALL") or not report.skipped or hasattr(report, "wasxfail"):
        return
    if "live" in report.keywords:
        return
    reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"INTERPOSE_REQUIRE_ALL is set, and this was skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See :func:`forbid_skip`."""
    report = yield
    forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Likewise for a module that skips itself."""
    report = yield
    forbid_skip(report)
    return report
