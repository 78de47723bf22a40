"""Wherever a setting holds a secret, no message that quotes it shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, Field, RootModel, SecretBytes, SecretStr, TypeAdapter

from interpose.startup.secrecy import held_secrets, known_secrets
from interpose.startup.tree import Origin, annotate_table


class Rule(BaseModel):
    word: SecretStr
    note: str = ""


class Keys(RootModel[list[SecretStr]]):
    pass


@dataclass
class Login:
    user: str
    password: SecretStr


class Aliased(BaseModel):
    token: SecretStr = Field(validation_alias=AliasChoices("token", "api_token"))


FORMS: list[tuple[Any, Any]] = [
    (SecretStr, "hush-1"),
    (SecretStr | None, "hush-1"),
    (Annotated[SecretStr, Field(min_length=1)], "hush-1"),
    (SecretBytes, "hush-1"),
    (list[SecretStr], ["hush-1", "hush-2"]),
    (dict[str, SecretStr], {"a": "hush-1"}),
    (dict[SecretStr, int], {"hush-1": 1}),
    (Rule, {"word": "hush-1", "note": "plain"}),
    (list[Rule], [{"word": "hush-1"}]),
    (dict[str, Rule], {"word": {"word": "hush-1", "note": "plain"}}),
    (dict[str, list[Rule]], {"note": [{"word": "hush-1"}]}),
    (dict[str, Rule] | None, {"note": {"word": "hush-1"}}),
    (Keys, ["hush-1"]),
    (dict[str, Keys], {"root": ["hush-1"]}),
    (Login, {"user": "ada", "password": "hush-1"}),
    (list[Login], [{"user": "ada", "password": "hush-1"}]),
    (Aliased, {"api_token": "hush-1"}),
]


def below(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {text for pair in value.items() for each in pair for text in below(each)}
    if isinstance(value, list):
        return {text for each in value for text in below(each)}
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize(("kind", "said"), FORMS, ids=str)
def test_a_secret_is_known_before_and_after_it_is_valid(kind: Any, said: Any) -> None:
    tree = annotate_table({"setting": said}, lambda _: Origin("interpose.toml:1"), Path())
    hushed = {text for text in below(said) if text.startswith("hush")}
    assert hushed <= known_secrets(kind, tree.entries["setting"])
    assert set(held_secrets(TypeAdapter(kind).validate_python(said))) == hushed


def test_what_is_no_secret_is_not_taken_for_one() -> None:
    said = {"stripe": {"word": "hush-1", "note": "plain"}}
    tree = annotate_table({"setting": said}, lambda _: Origin("interpose.toml:1"), Path())
    assert known_secrets(dict[str, Rule], tree.entries["setting"]) == {"hush-1"}
    headers = annotate_table({"authorization": "hush-1"}, lambda _: Origin("x"), Path())
    assert known_secrets(dict[str, SecretStr], headers) == {"hush-1"}
