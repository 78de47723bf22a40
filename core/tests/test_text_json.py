"""Text inside JSON: strings are looked at as what they mean, and leave as they were written."""
# ruff: noqa: FBT001 - scan's signature

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.text.jsontext import JsonLane, escape_at, json_or_text, json_value
from interpose.text.lanes import Holding, Scan, Work

SECRET = "a@b"


def scan(text: str, start: int, final: bool) -> Scan:
    """Replace a@b, and hold what may begin it."""
    edits, at = [], start
    while (found := text.find(SECRET, at)) >= 0:
        at = found + len(SECRET)
        edits.append((found, at, '"gone"'))
    held = next((n for n in (2, 1) if text.endswith(SECRET[:n]) and len(text) - n >= at), 0)
    return Scan(edits, len(text) if final else len(text) - held)


def done(work: Work[Any]) -> Any:
    answer: Any = None
    while True:
        try:
            question = work.send(answer)
        except StopIteration as end:
            return end.value
        answer = scan(*question)


def holding(number_digits: int | None = None) -> Holding:
    return Holding(max_hold=50, look_behind=8, too_long="[removed]", number_digits=number_digits)


def through(chunks: Iterable[str], number_digits: int | None = None) -> str:
    lane = JsonLane(holding(number_digits))
    return "".join(done(lane.feed(chunk)) for chunk in chunks) + str(done(lane.finish()))


@pytest.mark.parametrize(
    ("written", "leaves"),
    [
        ('{"to": "a@b"}', '{"to": "\\"gone\\""}'),
        ('{"to": "a\\u0040b", "x": "\\u00e9\\n"}', '{"to": "\\"gone\\"", "x": "\\u00e9\\n"}'),
        ('{"to": "a\\u0040"}', '{"to": "a\\u0040"}'),
        ('{"a@b": 1}', '{"\\"gone\\"": 1}'),
        ('{"a": ["a", "@b"]}', '{"a": ["a", "@b"]}'),
        (' {"n": -1.5e+3, "t": true, "z": null}', ' {"n": -1.5e+3, "t": true, "z": null}'),
        ("mail a@b", 'mail "gone"'),
        ('{"junk": a@b}', '{"junk": "\\"gone\\""}'),
        ('{"cut": "a@b', '{"cut": "\\"gone\\"'),
        ('{"cut": "\\u00', '{"cut": "\\u00'),
        (
            '{"odd": "\\x\\ud83d\\u0040 \\ud83d\\ude00"}',
            '{"odd": "\\x\\ud83d\\u0040 \\ud83d\\ude00"}',
        ),
        ('"a@b"', '"\\"gone\\""'),
        ("", ""),
        ("  ", "  "),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_string_is_edited_by_its_meaning_and_the_rest_stays(
    written: str, leaves: str, size: int
) -> None:
    chunks = [written[at : at + size] for at in range(0, len(written), size)]
    assert through(chunks) == leaves


def test_a_value_cut_inside_an_escape_does_not_leave() -> None:
    lane = JsonLane(holding())
    assert done(lane.feed('{"to": "a\\u00')) == '{"to": "'
    assert done(lane.feed("40")) == ""
    assert done(lane.feed('b"}')) == '\\"gone\\""}'


def test_a_long_whole_number_is_a_text_where_asked_for() -> None:
    lane = JsonLane(holding(number_digits=14))
    work = lane.feed("[1234567890123, 12345678901234, 12345678901234.5]")
    text, start, _ = next(work)
    assert text == "12345678901234"
    with pytest.raises(StopIteration) as end:
        work.send(Scan([(start, len(text), "[card]")], len(text)))
    assert end.value.value == '[1234567890123, "[card]", 12345678901234.5]'


def test_a_bare_token_that_is_too_long_is_replaced() -> None:
    assert through(["{" + "x" * 60 + "}"]) == '{"[removed]"}'


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["a@b", "xa@b@b", "a", "@b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def edited(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(SECRET, '"gone"')
    if isinstance(value, list):
        return [edited(item) for item in value]
    return {key: edited(item) for key, item in value.items()} if isinstance(value, dict) else value


@given(
    value=st.dictionaries(st.sampled_from("xyz"), values, max_size=3),
    ascii_only=st.booleans(),
    places=st.lists(st.integers(0, 120), max_size=8),
)
@settings(max_examples=300, deadline=None)
def test_arguments_stay_json_and_mean_the_edited_value_however_cut(
    value: Any, ascii_only: bool, places: list[int]
) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only)
    marks = [0, *sorted(min(place, len(written)) for place in places), len(written)]
    chunks = [written[a:b] for a, b in pairwise(marks)]
    leaves = through(chunks)
    assert leaves == through([written])
    assert json.loads(leaves) == edited(value)
    if edited(value) == value:
        assert leaves == written


@given(value=values)
@settings(max_examples=200, deadline=None)
def test_a_json_value_is_edited_in_its_strings_and_is_itself_if_nothing_changes(value: Any) -> None:
    new = done(json_value(holding(), value))
    if edited(value) == value:
        assert new is value
    else:
        assert (
            new == {key: edited(item) for key, item in value.items()}
            if isinstance(value, dict)
            else new == edited(value)
        )


def test_a_tools_result_is_json_only_if_it_parses() -> None:
    assert done(json_or_text(holding(), '{"a": "a\\u0040b"}')) == '{"a": "\\"gone\\""}'
    assert done(json_or_text(holding(), "[see a@b")) == '[see "gone"'
    assert done(json_or_text(holding(), '"a@b"')) == '"\\"gone\\""'


@pytest.mark.parametrize(
    ("text", "final", "result"),
    [
        ("\\", False, None),
        ("\\", True, ("\\", 1)),
        ("\\n", False, ("\n", 2)),
        ("\\u00", False, None),
        ("\\u00", True, ("\\", 1)),
        ("\\u00z", False, ("\\", 1)),
        ("\\u0040", False, ("@", 6)),
        ("\\ud83d", False, None),
        ("\\ud83d\\ude", False, None),
        ("\\ud83d\\ude00", False, ("😀", 12)),
        ("\\ud83dx", False, ("\ud83d", 6)),
        ("\\ud83d\\n", False, ("\ud83d", 6)),
        ("\\ud83d", True, ("\ud83d", 6)),
    ],
)
def test_an_escape_is_read_or_waited_for(
    text: str, final: bool, result: tuple[str, int] | None
) -> None:
    assert escape_at(text, 0, final=final) == result
