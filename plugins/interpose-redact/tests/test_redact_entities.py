"""What is found, what is not, and what it becomes."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent

from interpose import DROP, Reject
from interpose.text.patterns import PatternSet
from interpose_redact import Redact, RedactSettings
from interpose_redact.entities import ENTITIES, PATTERNS

KEY = "0123456789abcdef"


def layer(**settings: Any) -> Redact:
    redact = Redact()
    redact.settings = RedactSettings.model_validate(settings)
    redact.shared = PatternSet(Redact.rules(redact.settings))
    redact.setup(None)  # type: ignore[arg-type]
    return redact


def heard(redact: Any, *chunks: str) -> str:
    """Return what a consumer hears of a message that comes in these chunks."""
    events = [
        TextMessageStartEvent(message_id="m", role="assistant"),
        *(TextMessageContentEvent(message_id="m", delta=chunk) for chunk in chunks),
        TextMessageEndEvent(message_id="m"),
    ]
    out = []
    for event in events:
        answer = redact._interpose_text(None, event)
        if answer is not DROP:
            out += answer if isinstance(answer, list) else [answer]
    return "".join(getattr(event, "delta", "") for event in out)


ALL = layer()

FOUND = {
    "email": [
        "bob@example.com",
        "Bob.O_Neil+news@mail.example.co.uk",
        "jürgen@müller.example",
        "a@xn--e1afmkfd.xn--p1ai",
    ],
    "card": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111\u00a01111\u00a01111\u00a01111",
        "378282246310005",
        "3782 822463 10005",
        "30569309025904",
        "6011111111111117",
        "4222222222222",
        "6304000000000000000",
    ],
    "phone": [
        "+49 30 1234567",
        "+1 (415) 555-0100",
        "+442079460958",
        "0049 30 1234567",
        "(415) 555-0100",
        "415-555-0100",
        "030 1234567",
        "0171-1234567",
        "(030) 1234567",
    ],
    "iban": [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "de89 3704 0044 0532 0130 00",
        "GB82WEST12345698765432",
        "NO9386011117947",
        "MT84MALT011000012345MTLCAST001S",
    ],
    "ip": [
        "1.2.3.4",
        "192.168.100.200",
        "2001:db8::1",
        "fe80::1",
        "::1",
        "::ffff:1.2.3.4",
        "2001:db8::",
        "1:2:3:4:5:6:7:8",
    ],
    "api-key": [
        "sk-abcdefghijklmnopqrstuvwx",
        "sk-proj-abcd_efgh-ijklmnopqrstuvwx",
        "sk-ant-api03-abcdefghijklmnopqrstuvwx",
        "ghp_" + "a1" * 18,
        "github_pat_" + "A1_" * 10,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghijkl",
        "AIza" + "b" * 35,
        "sk_live_abcdefghijkl1234",
        "hf_" + "a" * 34,
        "SG." + "a" * 22 + "." + "b" * 43,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nxyz\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
}
CASES = [(name, value) for name, values in FOUND.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES)
@pytest.mark.parametrize(
    "around", ["see {} ok", "({}).", "<b>{}</b>", '"{}"', "{}", "is:{}!", "**{}**"]
)
def test_an_entity_is_found_in_any_place(name: str, value: str, around: str) -> None:
    text = around.format(value)
    assert heard(ALL, text) == around.format(f"[{name}]")
    assert heard(ALL, *text) == around.format(f"[{name}]")


@pytest.mark.parametrize(("name", "value"), CASES)
def test_nothing_of_an_entity_leaves_before_it_is_whole(name: str, value: str) -> None:
    redact: Any = layer()
    redact._interpose_text(None, TextMessageStartEvent(message_id="m", role="assistant"))
    left = ""
    for sign in f"see {value}":
        answer = redact._interpose_text(None, TextMessageContentEvent(message_id="m", delta=sign))
        left += "" if answer is DROP else answer.delta
    assert left in {"see ", f"see [{name}]"}


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",  # check digit
        "41111111111111111111",  # 20 digits
        "1700000000000",  # a time
        "1700000000000000",
        "DE89370400440532013001",  # check digits
        "US89370400440532013000",  # no IBAN country
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "12:34:56",
        "aa:bb:cc:dd:ee:ff",
        "std::vector<int>",
        "a :: b",
        "2024-01-02 and 02-03-2024 at 12:30",
        "3.14159265358979",
        "sk-short",
        "eyJhbGciOi.foo.bar",
        "@handle and bob@localhost",
        "order 4155550100",
        "1,234,567.89",
        "-----BEGIN PUBLIC KEY-----",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert heard(ALL, text) == text
    assert heard(ALL, *text) == text


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1.2.3.4.", "[ip]."),
        ("1.2.3.45", "[ip]"),
        ("4111 1111 1111 1111 5 items", "[card] 5 items"),
        ("2 4111 1111 1111 1111", "2 [card]"),
        ("bob@example.com.", "[email]."),
        ("a@b.co,c@d.co", "[email],[email]"),
        ("fe80::1: up", "[ip]: up"),
        ("DE89 3704 0044 0532 0130 00 AND MORE", "[iban] AND MORE"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "[api-key]"),
    ],
)
def test_an_entity_ends_where_it_ends(text: str, result: str) -> None:
    assert heard(ALL, text) == result
    assert heard(ALL, *text) == result


def test_a_private_key_too_long_to_hold_goes_with_all_that_follows() -> None:
    class Quiet:
        class log:  # noqa: N801 - stands for ctx.log
            warning = staticmethod(lambda *_: None)

    redact: Any = layer(max_hold=200)
    text = (
        "key: -----BEGIN PRIVATE KEY-----\n" + "MIIEabcd\n" * 100 + "-----END PRIVATE KEY----- bye"
    )
    answer = redact._interpose_text(Quiet, TextMessageContentEvent(message_id="m", delta=text))
    assert answer.delta == "key: [removed]"


def test_only_the_entities_that_are_asked_for_are_looked_for() -> None:
    redact = layer(entities=["ip"])
    assert heard(redact, "bob@example.com 1.2.3.4") == "bob@example.com [ip]"


def test_own_patterns_and_literals_are_found_across_chunks() -> None:
    redact = layer(
        patterns={"badge": r"(?i)(B|C)-[0-9]{6}"}, literals=["hunter2", "hunter2!", "a.b"]
    )
    assert heard(redact, "b-12", "3456 or hun", "ter", "2! a", ".b axb") == (
        "[badge] or [literal] [literal] axb"
    )


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("bob@example.com", "•••@•••••••.•••"),
        ("4111 1111-1111 1111", "•••• ••••-•••• ••••"),
        ("+49 (30) 1234567", "+•• (••) •••••••"),
        ("1.2.3.4", "•.•.•.•"),
        ("sk-abcdefghijklmnopqrst_v", "•" * 25),
        ("p@ss word", "•••• ••••"),
    ],
)
def test_a_mask_keeps_the_form_of_an_entity_and_nothing_else(text: str, masked: str) -> None:
    assert heard(layer(action="mask", literals=["p@ss word"]), text) == masked


def test_a_mask_is_not_found_again() -> None:
    redact = layer(action="mask")
    for _, value in CASES:
        once = heard(redact, value)
        assert heard(redact, once) == once


def test_a_hash_tells_values_apart_and_not_how_they_are_written() -> None:
    redact = layer(action="hash", key=KEY)
    one = heard(redact, "4111 1111 1111 1111")
    assert one == heard(redact, "4111-1111-1111-1111") != heard(redact, "4222222222222")
    assert one != heard(layer(action="hash", key=KEY[::-1]), "4111111111111111")
    assert one.startswith("[card:")
    assert len(one) == len("[card:]") + 16
    assert heard(redact, "Bob@X.com") == heard(redact, "bob@x.com")


def test_a_block_ends_the_run_before_anything_of_the_value_has_left() -> None:
    redact: Any = layer(actions={"card": "block"})
    left = ""
    signs = "to bob@x.com: 4111 1111 1111 1111"
    for sign in signs:
        answer = redact._interpose_text(None, TextMessageContentEvent(message_id="m", delta=sign))
        left += "" if answer is DROP else answer.delta
    with pytest.raises(Reject) as caught:
        redact._interpose_text(None, TextMessageContentEvent(message_id="m", delta="!"))
    assert left == "to [email]: "
    assert caught.value.code == "blocked-content"
    assert caught.value.status == 422
    assert "4111" not in str(caught.value)


def test_overlapping_entities_are_replaced_together_as_the_longest() -> None:
    redact = layer(patterns={"ticket": "T-bob@x"})
    assert heard(redact, "T-bob@x.com") == "[email]"
    assert heard(redact, *"T-bob@x.com") == "[email]"


def test_every_entity_has_patterns_without_groups_that_a_chunk_can_end_in() -> None:
    assert set(PATTERNS) == set(ENTITIES)
    assert all(pattern.match.groups == 0 for pattern in ALL.shared.patterns)
