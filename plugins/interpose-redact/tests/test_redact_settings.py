"""Settings: what is refused, with which words, and that no secret is shown."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from pydantic import ValidationError

from interpose import Covers
from interpose_redact import RedactSettings
from interpose_redact.entities import ENTITIES


def refusal(**settings: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        RedactSettings.model_validate(settings)
    [problem] = caught.value.errors(include_url=False)
    return problem["msg"].removeprefix("Value error, ")


def test_by_default_all_entities_are_replaced_everywhere() -> None:
    settings = RedactSettings()
    assert settings.entities == set(ENTITIES)
    assert {settings.action_of(name) for name in settings.names} == {"replace"}
    assert settings.where == Covers.ALL


@pytest.mark.parametrize("settings", [{"action": "hash"}, {"actions": {"card": "hash"}}])
def test_a_hash_without_a_key_is_refused_and_the_reason_given(settings: dict[str, Any]) -> None:
    assert refusal(**settings) == (
        'the action "hash" needs `key`: without a secret key, a hash of a card or phone number is '
        'reversed by trying all numbers; give it as { "$env" = "REDACT_KEY" }'
    )


def test_a_short_key_is_refused() -> None:
    assert refusal(action="hash", key="short") == "`key` must have at least 16 characters"


def test_a_hash_for_something_that_is_not_looked_for_needs_no_key() -> None:
    RedactSettings.model_validate({"entities": ["ip"], "action": "hash", "actions": {"ip": "mask"}})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"patterns": {"badge": "s3cret("}},
            "the pattern 'badge' is no valid regular expression: missing ) at position 7",
        ),
        (
            {"patterns": {"badge": "(s3cret)*"}},
            "the pattern 'badge' matches the empty text; make at least one character of it mandatory",
        ),
        (
            {"patterns": {"badge": r"(?<=s3cret.*)x"}},
            "the pattern 'badge' has a look-behind without a bound, but text that has left is soon forgotten; replace *, + and {n,} in it by {n,m}",
        ),
        (
            {"patterns": {"Badge": "s3cret"}},
            "the pattern's name 'Badge' must be lower-case words joined by hyphens, and neither 'literal' nor one of email, card, phone, iban, ip, api-key",
        ),
        ({"literals": ["s3cret", " "]}, "literals[1] is empty"),
        (
            {"literals": ["s3cret" * 20], "max_hold": 64},
            "literals[0] has 120 characters, more than max_hold = 64; raise max_hold",
        ),
        (
            {"entities": ["ip"], "actions": {"card": "mask"}},
            "actions.card: nothing is looked for under this name; there are ip",
        ),
        ({"entities": []}, "nothing is looked for: give entities, patterns or literals"),
    ],
)
def test_what_cannot_work_is_refused_and_no_secret_shown(
    settings: dict[str, Any], says: str
) -> None:
    message = refusal(**settings)
    assert message == says
    assert "s3cret" not in message


@pytest.mark.parametrize("name", ["email", "card"])
def test_a_pattern_cannot_take_the_name_of_an_entity(name: str) -> None:
    assert "must be" in refusal(patterns={name: "x"})


def test_an_unknown_entity_is_refused() -> None:
    with pytest.raises(
        ValidationError, match="'email', 'card', 'phone', 'iban', 'ip' or 'api-key'"
    ):
        RedactSettings.model_validate({"entities": ["emial"]})


def test_patterns_literals_and_key_do_not_show() -> None:
    settings = RedactSettings.model_validate(
        {"patterns": {"a": "s3cret"}, "literals": ["s3cret"], "key": "s3cret" * 3}
    )
    assert "s3cret" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_failing_validation_shows_no_secret_in_its_traceback() -> None:
    with pytest.raises(ValidationError) as caught:
        RedactSettings.model_validate({"patterns": {"a": "s3cret("}, "literals": ["s3cret"]})
    assert "s3cret" not in "".join(traceback.format_exception(caught.value)).replace(
        'model_validate({"patterns": {"a": "s3cret("}, "literals": ["s3cret"]})', ""
    )


def test_covers_are_named_as_in_the_readme() -> None:
    settings = RedactSettings.model_validate({"covers": ["text", "tool-args"]})
    assert settings.where == Covers.TEXT | Covers.TOOL_ARGS
