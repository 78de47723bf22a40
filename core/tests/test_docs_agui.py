"""docs/agui.md: its code is run and prints what the page says, and its tables are the code's."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from repository import fenced

import interpose.agui

PAGE = (Path(__file__).parents[2] / "docs" / "agui.md").read_text(encoding="utf-8")
BLOCKS = list(fenced(PAGE))
EXAMPLES = [
    (code, said)
    for (kind, code), (next_kind, said) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True)
    if kind == "python" and next_kind == "text"
]
SOURCES = Path(interpose.agui.__file__).parent


@pytest.mark.parametrize(("code", "said"), EXAMPLES)
def test_an_example_prints_what_the_page_says(code: str, said: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/agui.md", "exec"), {"__name__": "example"})  # noqa: S102
    assert printed.getvalue() == said


def test_every_python_block_is_an_example() -> None:
    assert [code for code, _ in EXAMPLES] == [code for kind, code in BLOCKS if kind == "python"]


def test_the_table_of_rules_is_that_of_the_code() -> None:
    table = PAGE.partition("## Rules")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `([a-z0-9-]+)` \|", table, re.MULTILINE))
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py"))
    given = set(re.findall(r'rule="([a-z0-9-]+)"|_violation\(\s*"([a-z0-9-]+)"', code))
    assert documented == {first or second for first, second in given} | {
        "run-finished",
        "run-errored",
    }


def test_every_public_name_is_on_the_page_or_is_what_another_returns() -> None:
    returned = {
        "CheckedInput",
        "CheckedResume",
        "RecordedEvent",
        "SseEvent",
        "Stripped",
        "TypedEvents",
    }
    constants = {"CHUNKS", "EVENT_CLASSES", "KNOWN_EVENTS"}
    named = set(re.findall(r"\w+", PAGE))
    assert set(interpose.agui.__all__) - named == returned | constants
