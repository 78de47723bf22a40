"""No numbered case of the loop is silently missing: each has a test, or a reason not to have one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

CASES = [
    1,
    2,
    *range(5, 15),
    *range(16, 25),
    *range(27, 31),
    33,
    34,
    *range(36, 39),
    42,
    43,
    44,
    45,
]
CASES += [47, *range(51, 55), 56, 57, 60, 62, 63, 64, 66, 67, 69, 71, 73, 75, 76, *range(78, 85)]
AROUND = [*range(1, 7), *range(8, 11), 12, 13, 16, 17, 19, 20, 22, *range(24, 32), 33, 34]
AROUND += [*range(37, 41), 42, 43, *range(45, 49)]

WANTED = [
    *(f"case {number}" for number in CASES),
    *(f"around {number}" for number in AROUND),
    *(f"around {letter}" for letter in "abcdefghijklmn"),
    *(f"d{number}" for number in (*range(1, 15), *range(21, 26))),
    *(f"a{number}" for number in range(1, 9)),
    *("b9", "b11"),
    *(f"f{number}" for number in range(31, 37)),
    *(f"g{number}" for number in range(37, 40)),
    "h5",
]

ELSEWHERE = {
    "case 67": "A lock store for layers: it is no part of the loop.",
    "case 78": "A guard on text is a text transform, with tests of its own.",
    "case 79": "Tracing is a middleware of its own, not the loop's.",
    "case 80": "Memory is a middleware of its own, not the loop's.",
    "case 81": "A sandbox and its file events are no part of the loop.",
    "case 82": "A store of runs: the loop keeps none.",
    "case 84": "What becomes of a sandbox after an abort is no part of the loop.",
    "around 19": "A tool that searches a catalogue: we ship none; layers show and resolve tools.",
    "around 20": "How such a search ranks is that tool's business.",
    "around 25": "No snapshot is stored: a pause is sealed, and tested with the resume module.",
    "around 26": "Versions of stored turns: the loop has no store.",
    "around 27": "How a store writes metadata: the loop has no store; a pause refuses what is no JSON.",
    "around 29": "Statuses in a store: the loop has no store.",
    "around 42": "Leases of workers: the loop has no workers.",
    "around 43": "Waking a waiting parent from a store: subagents run inside their run.",
    "around i": "A lease for a run that is not a worker's: the loop has no workers.",
}

LISTED = re.compile(r"test_(?:h5_)?(case|around)_((?:\d+_)+|[a-n]_)")
SINGLE = re.compile(r"test_([abdfgh])(\d+)_")


def each_test() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(HERE.glob("test_loop_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path.name, node


def named(test: str) -> Iterator[str]:
    """Yield the cases that a test's name says."""
    listed, single = LISTED.match(test), SINGLE.match(test)
    if listed is not None:
        kind, numbers = listed.groups()
        yield from (f"{kind} {each}" for each in numbers.strip("_").split("_"))
    if single is not None:
        yield "".join(single.groups())


def test_every_case_has_a_test_or_a_reason() -> None:
    found = {case for _, node in each_test() for case in named(node.name)}

    assert sorted(set(WANTED) - found - ELSEWHERE.keys()) == []
    assert sorted(ELSEWHERE.keys() & found) == []
    assert sorted(ELSEWHERE.keys() - set(WANTED)) == []
    assert sorted(found - set(WANTED)) == []


def test_the_test_of_a_case_says_in_a_line_what_is_to_be_seen() -> None:
    bare = [
        f"{file}: {node.name}"
        for file, node in each_test()
        if any(named(node.name)) and len((ast.get_docstring(node) or "").splitlines()) != 1
    ]

    assert bare == []


def test_names_are_read_as_they_are_meant() -> None:
    assert list(named("test_around_5_6_the_result")) == ["around 5", "around 6"]
    assert list(named("test_around_38_39_a_retried_call")) == ["around 38", "around 39"]
    assert list(named("test_h5_around_h_a_subagent")) == ["around h", "h5"]
    assert list(named("test_case_83_a_lazy_tool")) == ["case 83"]
    assert list(named("test_d8_a_change")) == ["d8"]
    assert list(named("test_asking_around_a_tool")) == []
