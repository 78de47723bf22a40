"""The token in an interrupt's id: whatever is not exactly what was signed is refused."""

from __future__ import annotations

import random
import string
import tracemalloc
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from ag_ui.core import Interrupt, ResumeEntry
from hypothesis import given
from hypothesis import strategies as st
from pausing import KEY, LATER, NOW, SEND, ask, paused, refused, resumed, shown, yes

from interpose.errors import UsageError
from interpose.loop.resume import Continuations
from interpose.loop.sealing import LARGEST, LONGEST_ID, Forged, _code, digest, is_masked, unseal
from interpose.payloads import ToolCall

SENT = Continuations().pause(paused(questions=(ask(),)), key=KEY)[0]
TOKEN = SENT.id.partition("~")[2]
ALPHABET = string.ascii_letters + string.digits + "-_.=~+/ é\x00\ud800"
UNKNOWN = "unknown-interrupt"


def noise(size: int) -> str:
    chance = random.Random(2)  # noqa: S311 - repeatable
    return "".join(chance.choices(string.ascii_letters, k=size))


def codes(id_: str, key: bytes = KEY, now: float = NOW) -> set[str]:
    entry = ResumeEntry(interrupt_id=id_, status="resolved", payload=True)
    return {code for code, _ in refused(Continuations(), [entry], key=key, now=now)}


def signed(body: bytes) -> str:
    text = urlsafe_b64encode(body).rstrip(b"=").decode()
    return f"ask:1~{text}.{_code(text, KEY)}"


def test_the_token_as_it_was_sent_is_taken() -> None:
    assert resumed(Continuations(), [yes(SENT)]).continuation.run_id == "r1"


def test_every_change_of_one_character_is_refused() -> None:
    chance = random.Random(1)  # noqa: S311 - repeatable
    for at in range(len(TOKEN)):
        for other in chance.sample([c for c in ALPHABET if c != TOKEN[at]], 4):
            assert codes(f"ask:1~{TOKEN[:at]}{other}{TOKEN[at + 1 :]}") == {UNKNOWN}


def test_every_last_character_but_the_right_one_is_refused() -> None:
    # Base64 has unused bits there: several texts decode to the same bytes.
    others = [c for c in ALPHABET if c != TOKEN[-1]]

    assert all(codes(f"ask:1~{TOKEN[:-1]}{other}") == {UNKNOWN} for other in others)


def test_every_cut_is_refused() -> None:
    assert all(codes(f"ask:1~{TOKEN[:at]}") == {UNKNOWN} for at in range(len(TOKEN)))


@given(st.text(max_size=200))
def test_any_other_token_is_refused(token: str) -> None:
    assert UNKNOWN in codes(f"ask:1~{token}")


@given(st.text(max_size=40).filter(lambda own: own != "ask:1"))
def test_another_question_cannot_borrow_a_token(own: str) -> None:
    assert codes(f"{own}~{TOKEN}") == {UNKNOWN, "incomplete-batch"}


def test_another_key_refuses_it() -> None:
    assert codes(SENT.id, key=b"K" * 32) == {UNKNOWN}


def test_an_empty_key_signs_nothing() -> None:
    with pytest.raises(UsageError, match="signing key is empty"):
        Continuations().pause(paused(), key=b"")
    with pytest.raises(UsageError, match="signing key is empty"):
        unseal(TOKEN, b"")


def test_parts_of_two_tokens_make_none() -> None:
    other = Continuations().pause(paused(questions=(ask(),)), key=KEY)[0].id.partition("~")[2]
    body, _, code = TOKEN.partition(".")
    other_body, _, other_code = other.partition(".")

    assert codes(f"ask:1~{body}.{other_code}") == {UNKNOWN}
    assert codes(f"ask:1~{other_body}.{code}") == {UNKNOWN}


def test_the_same_question_asked_twice_is_two_pauses() -> None:
    memory, continuation = Continuations(), paused(questions=(ask(),))
    one, two = (memory.pause(continuation, key=KEY)[0] for _ in range(2))
    first = resumed(memory, [yes(one)])
    memory.claim(first)
    memory.commit(first)

    assert one.id != two.id
    assert resumed(memory, [yes(two)]).token != first.token


# -- what hostile ids cost ----------------------------------------------------------------------


def test_a_bomb_is_refused_even_with_the_right_signature() -> None:
    bomb = signed(zlib.compress(b"[" * 50_000_000, 9)[: LONGEST_ID // 2])
    tracemalloc.start()
    try:
        assert codes(bomb) == {UNKNOWN}
        assert tracemalloc.get_traced_memory()[1] < 8 * LARGEST
    finally:
        tracemalloc.stop()


def padded(size: int, filling: str = " ") -> bytes:
    """What a right token says, and more."""
    body = TOKEN.partition(".")[0]
    data = zlib.decompress(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return zlib.compress(b'{"pad":"' + filling.encode() + b'",' + data[1:].ljust(size))


def test_what_is_signed_and_within_the_limits_is_read() -> None:
    assert codes(signed(padded(0)), now=LATER) == {"expired"}
    assert codes(signed(padded(LARGEST // 2)), now=LATER) == {"expired"}


@pytest.mark.parametrize(
    "body",
    [
        padded(LARGEST),
        padded(0, noise(LONGEST_ID)),
        padded(0)[:-1],
        b"",
        b"no zlib",
        zlib.compress(b"no json"),
        zlib.compress(b"[]"),
        zlib.compress(b"{}"),
        zlib.compress(b"[" * 20_000),
        zlib.compress(b'"\xff"'),
        zlib.compress(b"{}")[:-1],
        zlib.compress(b"x" * (LARGEST + 1)),
    ],
)
def test_what_another_version_signed_is_refused(body: bytes) -> None:
    assert codes(signed(body)) == {UNKNOWN}


def test_an_id_that_is_too_long_is_not_looked_into() -> None:
    text = "A" * LONGEST_ID
    with pytest.raises(Forged):
        unseal(f"{text}.{_code(text, KEY)}", KEY)
    assert codes("x" * 1_000_000 + "~" + "y" * 1_000_000) == {UNKNOWN}


# -- what is too large to ask -------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"note": noise(20_000)}},
        {"metadata": {"note": "a" * LARGEST}},
        {"questions": (ask(noise(LONGEST_ID)),)},
        {"questions": (ask(response_schema={"enum": [noise(20_000)]}),)},
    ],
)
def test_what_is_too_large_is_said_when_the_run_pauses(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Continuations().pause(paused(**changes), key=KEY)

    assert "metadata" in caught.value.message
    assert "keep less in ctx.metadata" in caught.value.hint


@given(st.integers(0, LONGEST_ID))
def test_what_can_be_sent_can_be_answered(size: int) -> None:
    sent: tuple[Interrupt, ...]
    try:
        sent = Continuations().pause(
            paused(questions=(ask(),), metadata={"n": noise(size)}), key=KEY
        )
    except UsageError:
        assert size > LONGEST_ID // 2
        return
    assert len(sent[0].id) <= LONGEST_ID
    assert resumed(Continuations(), [yes(sent[0])]).continuation.metadata == {"n": noise(size)}


# -- what the consumer saw ----------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.text(), JSON_VALUES, max_size=4)


@given(ARGUMENTS, ARGUMENTS)
def test_a_call_is_masked_when_its_arguments_are_not_those_shown(
    true: dict[str, Any], other: dict[str, Any]
) -> None:
    call = ToolCall("c1", "send", true)
    seen = shown(ToolCall("c1", "send", other))

    assert not is_masked(call, shown(call))
    assert is_masked(call, seen) is (digest(*seen) != digest(*shown(call)))


@pytest.mark.parametrize("text", ["", "  ", "[", "[]", "null", "NaN", '{"a": NaN}', "[" * 9000])
def test_arguments_that_are_no_object_are_never_taken_for_some(text: str) -> None:
    assert is_masked(SEND, ("c1", "send", text))
    assert is_masked(ToolCall("c1", "send", {}), ("c1", "send", text)) is (
        text.strip() not in ("", "null")
    )
    assert digest("c1", "send", text)


def test_arguments_that_are_no_json_are_kept_here() -> None:
    assert is_masked(ToolCall("c1", "send", {"at": object()}), ("c1", "send", "{}"))


def test_a_token_has_no_argument_and_no_secret_of_a_masked_one() -> None:
    sent = Continuations().pause(paused(shown=(shown(SEND, to="[M]"), ("c2", "look", ""))), key=KEY)
    sealed = unseal(sent[0].id.rpartition("~")[2], KEY)

    assert "ada@" not in repr(sealed)
    assert [(call.id, call.masked, call.effect) for call in sealed.calls] == [
        ("c1", True, "write"),
        ("c2", False, "read"),
    ]
    assert sealed.continuation.issued_at == NOW
