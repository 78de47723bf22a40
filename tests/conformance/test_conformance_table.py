"""Each case of the table has a test, and each test has a case."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from conformance import CASES

FOLDER = Path(__file__).parent


def numbers() -> set[int]:
    """Return the numbers in the names of the tests."""
    return {
        int(found[1])
        for path in FOLDER.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and (found := re.match(r"test_case_(\d+)_", node.name))
    }


def test_every_case_has_a_test_that_names_it() -> None:
    assert numbers() == CASES


def test_every_case_is_described() -> None:
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == CASES
