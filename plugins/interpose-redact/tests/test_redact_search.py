"""What is searched for less is found all the same: entities by their heads, many literals as a set."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]
from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose import DROP, PatternTransform, Reject
from interpose.text.patterns import PatternSet
from interpose_redact import Redact, RedactSettings
from interpose_redact.entities import ENTITIES
from interpose_redact.literals import MANY, Literals

OWN = {"patterns": {"badge": r"\b[BC]-[0-9]{2,4}(?:/[a-z]+)?$"}, "literals": ["hunter2", "a-1@"]}
EACH = [
    RedactSettings(),
    RedactSettings.model_validate(OWN),
    *(RedactSettings(entities=frozenset({entity})) for entity in ENTITIES),
]
LAYERS = [(each, PatternSet(Redact.rules(each))) for each in EACH]
PARTS = [
    "bob@example.com", "bob@", "4111 1111 1111 1111", "378282246310005", "+49 30 1234567", "(415) 555-0100",
    "DE89 3704 0044 0532 0130 00", "GB82WEST", "1.2.3.4", "25", "2001:db8::1", "fe80::", "abcdefghijklmnopqrstuv",
    "AKIAIOSFODNN7EXAMPLE", "eyJhbGci.eyJzdWIi.x", "-----END PRIVATE KEY-----", "hunter2", "B-12/ab", "a" * 70,
    "gsk_", "xai-", "hf_", "npm_", "dop_v1_", "glpat-", "whsec_", "github_pat_", "sk_live_", "rk_", "pk_test_",
    "ASIA", "ACCA", "xoxb-", "xapp-", "AIza", "ya29.", "pypi-", "SG.", "-----BEGIN ", "RSA ", "(415", "(030) ",
    "0049", "00", "+1", "0301", "030/", "NO", "FR76", "no9386", "T08:15:00Z", "2026-03-05", "1.5.2", "to ", "(",
]  # fmt: skip
pieces = st.tuples(
    st.sampled_from([*PARTS, *"019afZ@:.-_+()/ \n"]), st.sampled_from([1, 2, 3, 4, 6, 9, 15, 99])
)
texts = st.one_of(
    st.lists(pieces.map(lambda piece: piece[0][: piece[1]]), max_size=9).map("".join),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30),
)


def layer(chosen: RedactSettings, patterns: Any) -> Any:
    redact: Any = Redact()
    redact.settings, redact.shared = chosen, patterns
    redact.setup(None)
    return redact


@given(
    text=texts, start=st.integers(0, 60), final=st.booleans(), which=st.integers(0, len(LAYERS) - 1)
)
@settings(max_examples=600, deadline=None)
def test_a_scan_finds_and_holds_what_the_search_for_all_patterns_does(
    text: str, start: int, which: int, *, final: bool
) -> None:
    redact = layer(*LAYERS[which])
    start = min(start, len(text))
    found = redact.scan(text, start, final)
    wanted = PatternTransform.scan(redact, text, start, final)
    assert (list(found.edits), found.keep_from) == (list(wanted.edits), wanted.keep_from)


LETTERS = "Abcdefghijklmnopqrstuv0123456789abcdefghijklmnopqrstuvwxyz"
WHOLE = {
    "email": ["b+n@mail.example.org"],
    "card": ["4111-1111 11111111", "378282246310005", "3782 822463 10005"],
    "phone": [
        "+49 (0)30/123-45", "0049 30 123456", "(415) 555-0100", "415-555-0100", "(030) 123456", "0301/ 234-56",
    ],
    "iban": ["DE89 3704 0044 0532 0130 00", "no9386011117947"],
    "ip": ["192.168.17.4", "fe80::1", "2001:db8:0:0:0:0:0:1", "::ffff:1.2.3.4", "1::"],
    "api-key": [
        *(f"{head}{LETTERS}" for head in (
            "sk-", "gsk_", "xai-", "hf_", "npm_", "dop_v1_", "glpat-", "whsec_", "gho_", "github_pat_", "sk_live_",
            "rk_test_", "pk_live_", "xoxb-", "xapp-", "AIza", "ya29.", "pypi-",
        )),
        *(f"{head}IOSFODNN7EXAMPLE" for head in ("AKIA", "ASIA", "ABIA", "ACCA")),
        f"SG.{LETTERS}.{LETTERS}", "eyJhbGciOiJ.eyJzdWIiOiJ.x", "-----BEGIN RSA PRIVATE KEY-----x",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("entity", "whole"), [(e, each) for e in WHOLE for each in WHOLE[e]])
@pytest.mark.parametrize("alone", [True, False])
def test_from_its_first_character_on_a_value_is_held_and_found(
    entity: Any, whole: str, *, alone: bool
) -> None:
    """Wherever it is cut, whatever stands before it."""
    chosen = RedactSettings(entities=frozenset({entity})) if alone else RedactSettings()
    redact = layer(chosen, PatternSet(Redact.rules(chosen)))
    for before in ("", "so ", "a", ".", "+", "(", "7") if alone else ("so ",):
        for cut in {*range(1, min(len(whole), 24)), len(whole)}:
            for text in (before + whole[:cut], f"{before}{whole[:cut]} "):
                for final in (False, True):
                    found = redact.scan(text, 0, final)
                    wanted = PatternTransform.scan(redact, text, 0, final)
                    assert found.keep_from == wanted.keep_from, (text, final)
                    assert list(found.edits) == list(wanted.edits), (text, final)


words = st.text(alphabet="ab1", min_size=1, max_size=7)


@given(
    literals=st.lists(words, min_size=1, max_size=12),
    text=st.text(alphabet="ab1 ", max_size=25),
    start=st.integers(0, 8),
)
@settings(max_examples=200, deadline=None)
def test_many_literals_are_found_and_held_as_alternatives_of_an_expression_are(
    literals: list[str], text: str, start: int
) -> None:
    alternatives = "|".join(sorted(map(regex.escape, literals), key=len, reverse=True))
    expression, beyond = regex.compile(alternatives), regex.compile(f"(?:{alternatives})\uffff")
    many = Literals(literals)
    start = min(start, len(text))
    found = many.search(text, start, len(text), timeout=1)
    wanted = expression.search(text, start)
    assert (found and (found[0], found.span())) == (wanted and (wanted[0], wanted.span()))
    begun = beyond.search(text, start, len(text), partial=True)
    assert many.begun(text, start, len(text)) == (begun.start() if begun else len(text))


SECRETS = ["hunter", "hunter2", "open sesame", *(f"secret-{n:04}" for n in range(MANY))]


def left(redact: Any, chunks: list[str]) -> str:
    events = [
        TextMessageStartEvent(message_id="m", role="assistant"),
        *(TextMessageContentEvent(message_id="m", delta=chunk) for chunk in chunks),
        TextMessageEndEvent(message_id="m"),
    ]
    out = ""
    for event in events:
        answer = redact._interpose_text(None, event)
        if answer is not DROP:
            sent = answer if isinstance(answer, list) else [answer]
            out += "".join(getattr(each, "delta", "") for each in sent)
    return out


@given(places=st.lists(st.integers(0, 70), max_size=10))
@settings(max_examples=100, deadline=None)
def test_many_literals_are_replaced_however_the_text_is_cut(places: list[int]) -> None:
    many = RedactSettings.model_validate({"literals": SECRETS, "actions": {"literal": "mask"}})
    text = "say hunter2 or hunter to bob@example.com, secret-0042, not secret-9"
    marks = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    redact = layer(many, PatternSet(Redact.rules(many)))
    said = left(redact, [text[a:b] for a, b in pairwise(marks)])
    assert said == "say ••••••• or •••••• to [email], •••••••••••, not secret-9"


def test_one_of_many_literals_can_be_blocked() -> None:
    many = RedactSettings.model_validate({"literals": SECRETS, "action": "block"})
    redact = layer(many, PatternSet(Redact.rules(many)))
    assert left(redact, ["no secret-", "9"]) == "no secret-9"
    with pytest.raises(Reject):
        left(redact, ["no secret-", "0042"])


def test_no_secret_stands_in_what_many_literals_look_like() -> None:
    many = RedactSettings.model_validate({"literals": SECRETS})
    assert repr(many.many_literals) == f"<{len(SECRETS)} literals>"
    assert "hunter" not in repr(many)
