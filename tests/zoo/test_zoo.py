"""The kit finds every mistake of the zoo with the right check, and raises no false alarm."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from zoo import Bug, Twin

from interpose.testing import ContractViolation, contract

_HOUSES = sorted(path.stem for path in Path(__file__).parent.glob("house_*.py"))
BUGS: Sequence[Bug] = [bug for house in _HOUSES for bug in import_module(house).BUGS]
TWINS: Sequence[Twin] = [twin for house in _HOUSES for twin in import_module(house).TWINS]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.check}-{bug.cls.__name__}")
def test_the_right_check_finds_the_mistake(bug: Bug) -> None:
    checks = {check.name: check for check in contract(bug.cls, **bug.options)}
    with pytest.raises(ContractViolation) as caught:
        checks[bug.check]()
    told = str(caught.value)
    assert "happened:" in told
    assert "expected:" in told
    assert "why it matters:" in told


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.cls.__name__)
def test_no_check_complains_about_a_correct_twin(twin: Twin) -> None:
    report = contract(twin.cls, **twin.options).run()
    assert report, str(report)


def test_the_zoo_is_big_enough_and_says_where_each_mistake_comes_from() -> None:
    assert len({bug.cls for bug in BUGS}) >= 30
    assert len({twin.cls for twin in TWINS}) >= 10
    for bug in BUGS:
        assert bug.reported.strip(), bug.cls
        assert bug.mistake.strip(), bug.cls
