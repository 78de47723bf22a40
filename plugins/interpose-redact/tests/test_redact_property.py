"""However a text is cut, the result is the same and no part of a value has left before."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose import DROP
from interpose.text.patterns import PatternSet
from interpose_redact import Redact, RedactSettings

SETTINGS = RedactSettings.model_validate(
    {
        "patterns": {"badge": r"\b[BC]-[0-9]{2,4}(?:/[a-z]+)?\b", "quoted": r"(['\"])x+\1"},
        "literals": ["hunter2", "hunter", "ä ß"],
        "max_hold": 64,
    }
)
SHARED = PatternSet(Redact.rules(SETTINGS))

PARTS = [
    "bob@example.com", "bob@", "@x.", "co", ".", "4111 1111 1111 1111", "4111", "1111", "1111-", "378282246310005",
    "+49", " 30 ", "1234567", "(415) ", "555-0100", "DE89 3704 0044 0532 0130 00", "DE89", "3704", "GB82WEST",
    "1.2.3.4", "1.2.", "3.4", "25", "5", "2001:db8::1", "fe80", "::", ":", "sk-", "abcdefghijklmnopqrstuv", "ghp_",
    "AKIAIOSFODNN7EXAMPLE", "eyJhbGci", ".eyJzdWIi", "-----BEGIN PRIVATE KEY-----", "-----", "END PRIVATE KEY-----",
    "hunter", "2", "ä ", "ß", "B-12", "/ab", "'", '"', "xx", " ", "\n", "é", "😀", "\uffff", "a" * 70,
]  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=8).map("".join),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40),
)


class Quiet:
    class log:  # noqa: N801 - stands for ctx.log
        warning = staticmethod(lambda *_: None)


def left(chunks: list[str]) -> list[str]:
    """Return what has left after each chunk, and at the end."""
    redact: Any = Redact()
    redact.settings, redact.shared = SETTINGS, SHARED
    redact.setup(None)
    events = [
        TextMessageStartEvent(message_id="m", role="assistant"),
        *(TextMessageContentEvent(message_id="m", delta=chunk) for chunk in chunks),
        TextMessageEndEvent(message_id="m"),
    ]
    so_far, out = "", []
    for event in events:
        answer = redact._interpose_text(Quiet, event)
        if answer is not DROP:
            sent = answer if isinstance(answer, list) else [answer]
            so_far += "".join(getattr(each, "delta", "") for each in sent)
        out.append(so_far)
    return out


@given(text=texts, places=st.lists(st.integers(0, 200), max_size=10))
@settings(max_examples=150, deadline=None)
def test_however_a_text_is_cut_the_result_is_that_of_the_whole(
    text: str, places: list[int]
) -> None:
    marks = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    result = left([text])[-1]
    steps = left([text[a:b] for a, b in pairwise(marks)])
    assert steps[-1] == result
    assert all(result.startswith(step) for step in steps)


@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_character_by_character_what_has_left_begins_the_result(text: str) -> None:
    result = left([text])[-1]
    steps = left(list(text))
    assert steps[-1] == result
    assert all(result.startswith(step) for step in steps)
