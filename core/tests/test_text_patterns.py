"""Patterns across chunks: what leaves never depends on how the text was cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose import DROP, PatternTransform, UsageError
from interpose.text.patterns import PatternSet

EMAIL = r"[a-z]{1,8}@[a-z]{1,8}(?:\.[a-z]{1,4}){1,2}"


class Mask(PatternTransform):
    patterns = (EMAIL, r"\b[0-9]{3}(?:-[0-9]{2})*\b", r"key=\w+", r"foo$", r"(['\"])x+\1")
    replacement = "<>"
    max_hold = 12


def ready(cls: type[PatternTransform[Any]]) -> Any:
    transform = cls()
    transform.shared = PatternSet(cls.rules(None))
    return transform


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, message: str, *args: object) -> None:
        self.lines.append(message.format(*args))


class Ctx:
    def __init__(self) -> None:
        self.log = Log()


def sent(transform: Any, events: Iterable[BaseEvent], ctx: Any = None) -> list[BaseEvent]:
    ctx = ctx or Ctx()
    out: list[BaseEvent] = []
    for event in events:
        answer = transform._interpose_text(ctx, event)
        if answer is not DROP:
            out += answer if isinstance(answer, list) else [answer]
    return out


def message(chunks: Sequence[str]) -> list[BaseEvent]:
    return [
        TextMessageStartEvent(message_id="m", role="assistant"),
        *(TextMessageContentEvent(message_id="m", delta=chunk) for chunk in chunks),
        TextMessageEndEvent(message_id="m"),
    ]


def leaves(chunks: Sequence[str], cls: type[PatternTransform[Any]] = Mask) -> str:
    return "".join(getattr(event, "delta", "") for event in sent(ready(cls), message(chunks)))


def cut(text: str, places: Iterable[int]) -> list[str]:
    marks = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(marks)]


near = st.lists(
    st.sampled_from(
        [
            "a@b.co",
            "bob@",
            "@x",
            ".com",
            "123",
            "-45",
            "key=",
            "sk",
            " ",
            "\n",
            "foo",
            "'",
            '"',
            "xx",
            "é",
            "\uffff",
            "-",
            "zzzzzzzzzzzz",
        ]
    ),
    max_size=12,
).map("".join)
texts = st.one_of(near, st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))


@given(text=texts, places=st.lists(st.integers(0, 60), max_size=12))
@settings(max_examples=600, deadline=None)
def test_the_result_does_not_depend_on_how_the_text_was_cut(text: str, places: list[int]) -> None:
    assert leaves(cut(text, places)) == leaves([text])


@given(text=texts)
@settings(max_examples=300, deadline=None)
def test_what_has_left_is_at_any_time_a_beginning_of_the_result(text: str) -> None:
    final = leaves([text])
    transform, left = ready(Mask), ""
    for event in message(list(text)):
        left += "".join(getattr(e, "delta", "") for e in sent(transform, [event]))
        assert final.startswith(left)
    assert left == final


@given(
    text=st.text(alphabet="ab@.1-", max_size=11), places=st.lists(st.integers(0, 11), max_size=5)
)
@settings(max_examples=300, deadline=None)
def test_short_texts_come_out_as_from_a_plain_search(text: str, places: list[int]) -> None:
    regex = import_module("regex")

    class One(PatternTransform):
        patterns = (EMAIL,)
        replacement = "<>"

    assert leaves(cut(text, places), One) == regex.sub(EMAIL, "<>", text)


@pytest.mark.parametrize(
    ("chunks", "result"),
    [
        (["mail b", "ob@", "x.co", "m now"], "mail <> now"),
        (["a.*b: aac", "c b"], "a.*b: aacc b"),
        (["123-4", "5", "-67."], "<>."),
        (["1234"], "1234"),
        (["123", "4"], "1234"),
        (["foo\n", "bar"], "foo\nbar"),
        (["foo\n"], "<>\n"),
        (["'x", "x'"], "<>"),
        (["'x", 'x"'], "'xx\""),
    ],
)
def test_a_match_is_replaced_as_soon_as_nothing_can_change_it(
    chunks: list[str], result: str
) -> None:
    assert leaves(chunks) == result


def test_a_longer_first_alternative_is_waited_for() -> None:
    class Either(PatternTransform):
        patterns = ("a.*b|c",)
        replacement = "<>"

    assert leaves(["aac", "c", "b!"], Either) == "<>!"
    assert leaves(["ac\uffff", "b!"], Either) == "<>!"  # the sign that is used inside is no trap
    assert leaves(["aac", "c"], Either) == "aa<><>"


def test_negative_look_ahead_waits_for_what_it_looks_at() -> None:
    class Ahead(PatternTransform):
        patterns = ("ab(?!cde)",)
        replacement = "<>"

    assert leaves(["ab", "cd", "e"], Ahead) == "abcde"
    assert leaves(["ab", "cd", "f"], Ahead) == "<>cdf"


def test_only_what_may_become_a_match_is_held() -> None:
    events = sent(ready(Mask), message(["hello wor", "ld bob@x", " ok"])[:2])
    assert [getattr(event, "delta", None) for event in events] == [None, "hello "]


@pytest.mark.parametrize("size", [1, 2, 7, 100, 5000])
def test_a_candidate_that_is_too_long_takes_the_rest_of_its_text_with_it(size: int) -> None:
    text = "see key=" + "s3cret" * 500 + " and more"
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert leaves(chunks) == "see [removed]"


def test_a_candidate_that_is_too_long_is_reported_without_its_text() -> None:
    ctx = Ctx()
    sent(ready(Mask), message(["key=" + "s3cret" * 9]), ctx)
    assert ctx.log.lines == [
        "Mask: removed 1 text(s) from a candidate on that is longer than max_hold = 12"
    ]


def test_overlapping_matches_of_several_patterns_are_replaced_together() -> None:
    class Two(PatternTransform):
        patterns = ("abcd", "cdefgh", "x")

        def replace(self, name: str, text: str, /) -> str | None:
            return f"<{len(text)}>"

    assert leaves(["ab", "cde", "fg", "hxx"], Two) == "<6><1><1>"


def test_a_match_that_replace_refuses_is_searched_again_one_character_further() -> None:
    class Even(PatternTransform):
        patterns = ("[0-9]{2}",)

        def replace(self, name: str, text: str, /) -> str | None:
            return None if int(text) % 2 else "<>"

    assert leaves(["1123412"], Even) == leaves(list("1123412"), Even) == "1<><><>"


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(a", "the pattern 'patterns[0]' is no valid regular expression: missing ) at position 2"),
        ("a*", "the pattern 'patterns[0]' matches the empty text"),
        ("(?r)ab", "the pattern 'patterns[0]' uses (?r)"),
        (r"pw:\K\w+", "the pattern 'patterns[0]' uses (?r)"),
        (r"(?<=pw: *)\w+", "the pattern 'patterns[0]' has a look-behind without a bound"),
        (r"(?<![(\)]{2,})a", "the pattern 'patterns[0]' has a look-behind without a bound"),
    ],
)
def test_a_pattern_that_cannot_be_followed_is_refused_by_name(pattern: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        PatternSet([("patterns[0]", pattern)])
    assert caught.value.message.startswith(says)


@pytest.mark.parametrize("pattern", [r"(?<=a\*[+*]{2,3})b+", r"(?<!(?:ab|c)?)d*e", r"\(?<=a+"])
def test_a_look_behind_with_a_bound_is_accepted(pattern: str) -> None:
    Mask.check_pattern("p", pattern)


def test_patterns_do_not_show_in_a_repr() -> None:
    known = PatternSet([("secret", "hunter2")])
    assert "hunter2" not in repr(known) + repr(known.patterns)


@pytest.mark.parametrize("flags", ["(?x) a b # note", "(?i)AB", "(?V1)ab", "(?i:AB)"])
def test_inline_flags_work_across_chunks(flags: str) -> None:
    class Flagged(PatternTransform):
        patterns = (flags, "zz")
        replacement = "<>"

    assert leaves(["xa", "b zz"], Flagged) == "x<> <>"


@pytest.mark.parametrize("pattern", ["(?:ab){e<=1}", "(?:ab){i,d<=2}", "(?:ab){s}", "a{100000}"])
def test_fuzzy_patterns_and_huge_repeats_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"allows for errors|repeats something"):
        PatternTransform.check_pattern("mine", pattern)


@pytest.mark.parametrize("pattern", [r"a{2,5}", r"\{e<=1\}x", r"a{1000}"])
def test_ordinary_repeats_are_not(pattern: str) -> None:
    PatternTransform.check_pattern("mine", pattern)
