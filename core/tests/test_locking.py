"""Digests of settings, and the difference of two locks: the pure parts of locking."""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, Field, RootModel, SecretStr, model_validator

from interpose import Layer, Middleware, Settings
from interpose.startup.composition import Composition, compose
from interpose.startup.configuration import gather
from interpose.startup.drift import drift
from interpose.startup.files import Source
from interpose.startup.locking import lock_of
from interpose.startup.lockmodel import Lock, LockedAgent, LockedLayer, from_bytes, to_text
from interpose.startup.part import Part
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare
from interpose.startup.settings_digest import SECRET, settings_digests
from interpose.startup.tree import Origin, annotate_table

PATH = ("middleware", "it")


def composed(
    model: type[BaseModel],
    said: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> Composition:
    """Validate what a file says, as startup does."""
    tables = {"middleware": {"it": said}}
    source = Source("a file", annotate_table(tables, lambda _: Origin("a file", 1), folder))
    configuration, problems = gather([source], [], environ=environ or {})
    composition = compose([Part(PATH, model)], configuration)
    assert not (*problems, *composition.problems)
    return composition


def digests(
    model: type[BaseModel],
    said: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> dict[str, str]:
    composition = composed(model, said, environ, folder)
    return settings_digests(composition.settings[PATH], composition.trees[PATH])


# What is digested ------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Inner(Settings):
    depth: int = 1
    name: str = "x"
    tags: frozenset[str] = frozenset()


class Plain(Settings):
    flag: bool = False
    count: int = 0
    ratio: float = 0.0
    text: str = ""
    day: dt.date | None = None
    path: Path = Path()
    colour: Colour = Colour.RED
    names: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    table: dict[str, Any] = Field(default={})
    by_number: dict[int, str] = Field(default={})
    aliased: str = Field(default="", alias="nick")


def test_only_what_was_said_has_a_digest() -> None:
    assert digests(Plain, {}) == {}
    assert list(digests(Plain, {"text": "a", "count": 0})) == ["count", "text"]


def test_tables_are_told_apart_key_by_key() -> None:
    said = {
        "inner": {"depth": 2},
        "table": {"a.b": {"c": 1}, "d": [{"e": 1}]},
        "by_number": {"1": "one"},
        "nick": "n",
    }
    assert list(digests(Plain, said)) == [
        "by_number.1",
        "inner.depth",
        "nick",
        'table."a.b".c',
        "table.d",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"flag": True}, {"flag": False}),
        ({"count": 1}, {"count": 2}),
        ({"text": "1"}, {"text": "01"}),
        ({"names": ["a", "b"]}, {"names": ["b", "a"]}),
        ({"names": ["a", "b"]}, {"names": ["ab"]}),
        ({"words": ["a"]}, {"words": ["a", "b"]}),
        ({"inners": [{"depth": 2}]}, {"inners": [{"depth": 3}]}),
        ({"inner": {"depth": 2}}, {"inner": {"depth": 3}}),
        ({"table": {"a": 1}}, {"table": {"a": "1"}}),
        ({"table": {"a": True}}, {"table": {"a": 1}}),
        ({"day": dt.date(2026, 1, 1)}, {"day": dt.date(2026, 1, 2)}),
        ({"path": "a"}, {"path": "b"}),
    ],
)
def test_another_value_is_another_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert list(digests(Plain, one)) == list(digests(Plain, other))
    assert digests(Plain, one) != digests(Plain, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"words": ["a", "b", "a"]}, {"words": ["b", "a"]}),
        ({"ratio": 1}, {"ratio": 1.0}),
        ({"table": {"a": [{"b": 1, "c": 2}]}}, {"table": {"a": [{"c": 2, "b": 1}]}}),
        ({"table": {"a": 1, "b": {"c": 1, "d": 2}}}, {"table": {"b": {"d": 2, "c": 1}, "a": 1}}),
    ],
)
def test_the_same_value_is_the_same_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert digests(Plain, one) == digests(Plain, other)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", 8, "8"),
        ("ratio", 0.5, "0.5"),
        ("flag", True, "yes"),
        ("flag", False, "0"),
        ("words", ["b", "a"], '["a", "b"]'),
        ("inner", {"depth": 3}, '{"depth": 3}'),
        ("text", "8", "8"),
    ],
)
def test_a_variable_counts_as_the_file_that_says_the_same(
    name: str, value: object, text: str
) -> None:
    environ = {f"INTERPOSE__MIDDLEWARE__IT__{name.upper()}": text}
    assert digests(Plain, {}, environ) == digests(Plain, {name: value})


def test_digests_do_not_change_between_releases() -> None:
    said = {
        "text": "grüße",
        "words": ["b", "a"],
        "ratio": 0.1,
        "day": dt.date(2026, 1, 2),
        "path": "logs/run.txt",
        "colour": "red",
        "inners": [{"depth": 2, "name": "n"}],
    }
    assert digests(Plain, said) == {
        "colour": "4bc9274d8758b867",
        "day": "5dfe28dc54020181",
        "inners": "49c94bc41ec87c6d",
        "path": "8ddb64bdc6dca62e",
        "ratio": "14be4b45f18e0d8c",
        "text": "4cf228653e20c557",
        "words": "0473ef2dc0d324ab",
    }


class Computing(Settings):
    folder: Path = Path()
    made: str = Field(default_factory=lambda: str(object()))
    asked: str = ""

    @model_validator(mode="before")
    @classmethod
    def _on_this_machine(cls, data: Any) -> Any:
        if "folder" in data:
            return {**data, "folder": str(Path.cwd() / data["folder"]), "asked": str(object())}
        return data


def test_what_a_machine_makes_of_a_setting_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = digests(Computing, {"folder": "logs"})
    monkeypatch.chdir(tmp_path)
    assert digests(Computing, {"folder": "logs"}) == here
    assert list(here) == ["folder"]


# Secrets ---------------------------------------------------------------------------------------


class Rule(Settings):
    word: str
    key: SecretStr | None = None


class Keys(RootModel[list[SecretStr]]):
    pass


@dataclass(frozen=True)
class Login:
    user: str
    word: SecretStr


class Keyed(Settings):
    key: SecretStr | None = None
    keys: tuple[SecretStr, ...] = ()
    key_set: frozenset[SecretStr] = frozenset()
    headers: dict[str, SecretStr] = Field(default={})
    by_number: dict[int, SecretStr] = Field(default={})
    named: dict[SecretStr, str] = Field(default={})
    rule: Rule | None = None
    rules: tuple[Rule, ...] = ()
    table: dict[str, Rule] = Field(default={})
    root: Keys = Keys([])
    login: Login | None = None
    either: int | SecretStr = 0
    text: str = ""
    texts: tuple[str, ...] = ()
    other: str = Field(default="", alias="also")
    anything: Any = None
    choice: SecretStr | None = Field(default=None, validation_alias=AliasChoices("pick", "choose"))


ENV = {"$env": "CANARY"}


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (lambda secret: {"key": secret}, {"key"}),
        (lambda secret: {"key": ENV}, {"key"}),
        (lambda secret: {"keys": [secret, "other"]}, {"keys"}),
        (lambda secret: {"keys": [ENV]}, {"keys"}),
        (lambda secret: {"key_set": [secret]}, {"key_set"}),
        (lambda secret: {"headers": {"one": secret}}, {"headers.one"}),
        (lambda secret: {"by_number": {"1": secret}}, {"by_number.1"}),
        (lambda secret: {"named": {secret: "x"}}, {"named"}),
        (lambda secret: {"rule": {"word": "w", "key": secret}}, {"rule.key"}),
        (lambda secret: {"table": {"word": {"word": "w", "key": secret}}}, {"table.word.key"}),
        (lambda secret: {"root": [secret]}, {"root"}),
        (lambda secret: {"login": {"user": "u", "word": secret}}, {"login"}),
        (lambda secret: {"either": secret}, {"either"}),
        (lambda secret: {"either": len(secret)}, {"either"}),
        (lambda secret: {"also": "x", "key": secret}, {"key"}),
        (lambda secret: {"text": ENV}, {"text"}),
        (lambda secret: {"anything": {"deep": ENV}}, {"anything.deep"}),
        (lambda secret: {"pick": secret}, {"pick"}),
        # In a list with other values, the secret is replaced, and the rest has a digest.
        (lambda secret: {"rules": [{"word": "w", "key": secret}]}, set()),
        (lambda secret: {"texts": ["a", ENV]}, set()),
        (lambda secret: {"anything": [1, {"deep": ENV}]}, set()),
    ],
)
def test_a_digest_knows_nothing_of_a_secret(
    said: Callable[[str], dict[str, Any]], names: set[str]
) -> None:
    def digested(secret: str) -> dict[str, str]:
        return digests(Keyed, {**said(secret), "text": "plain", **said(secret)}, {"CANARY": secret})

    first = digested("swordfish")
    assert {name for name, digest in first.items() if digest == SECRET} == names
    assert all(
        digest == SECRET or re.fullmatch("[0-9a-f]{16}", digest) for digest in first.values()
    )
    assert digested("another") == first
    # Also not where a plain setting happens to say the same.
    assert digested("plain") == first


def test_what_stands_beside_a_secret_in_a_list_is_told() -> None:
    one = digests(Keyed, {"rules": [{"word": "a", "key": "swordfish"}]})
    assert digests(Keyed, {"rules": [{"word": "b", "key": "swordfish"}]}) != one
    assert digests(Keyed, {"rules": [{"word": "a", "key": "another"}]}) == one


class Split(Settings):
    """Takes the password out of a URL, and writes it into another setting."""

    url: str = ""
    copy_of: str = ""
    password: SecretStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _split(cls, data: Any) -> Any:
        found = re.search(r":(\w+)@", data["url"])
        return data if found is None else {**data, "password": found[1], "copy_of": found[1]}


def test_a_secret_that_a_validator_takes_out_of_a_setting_hides_that_setting() -> None:
    assert digests(Split, {"url": "db://me:swordfish@host"}) == {"url": SECRET}
    assert digests(Split, {"url": "db://host"})["url"] != SECRET


@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
def test_digests_of_any_plain_settings_are_those_of_any_secret(
    one: str, other: str, texts: list[str]
) -> None:
    said = {"text": "t", "texts": texts, "headers": {"a": ENV}, "rule": {"word": "w", "key": ENV}}
    assert digests(Keyed, said, {"CANARY": one}) == digests(Keyed, said, {"CANARY": other})


# Locks -----------------------------------------------------------------------------------------


class Tag(Middleware[Plain]):
    pass


def test_settings_given_in_code_are_locked_as_in_a_file(tmp_path: Path) -> None:
    def lock(**settings: Any) -> Lock:
        layers = [Layer(Tag, Plain(**settings), id="tag")]
        return lock_of(prepare(Given(folder=tmp_path, layers=layers)))

    letters = frozenset("abcdefgh")
    one = lock(words=letters, path=Path("a") / "b", inner=Inner(tags=letters))
    settings = one.agents["default"].layers[0].settings
    said = {"words": [*letters], "path": "a/b", "inner": {"tags": [*letters]}}
    file = digests(Plain, said)
    assert {name: settings[name] for name in file} == file
    assert (
        settings["inner.depth"]
        != lock(inner=Inner(depth=3)).agents["default"].layers[0].settings["inner.depth"]
    )


def locked(*order: str, **settings: str) -> Lock:
    layers = tuple(
        LockedLayer(
            id=layer,
            middleware=f"{layer}@dist",
            distribution="dist",
            version="1",
            stage="shape",
            on_failure="fail",
            hooks=("on_event",),
            settings=settings,
        )
        for layer in order
    )
    agent = LockedAgent(
        use="scripted",
        distribution="dist",
        version="1",
        settings={},
        points=("EVENTS", "RUN"),
        layers=layers,
        capabilities={},
    )
    return Lock(distributions={"dist": "1"}, host={}, agents={"a": agent}, providers={}, models={})


@given(st.permutations("abcdef"), st.permutations("abcdef"))
def test_the_layers_that_moved_make_one_order_out_of_the_other(one: str, other: str) -> None:
    found = drift(locked(*one), locked(*other))
    if one == other:
        assert found == ()
        return
    [difference] = found
    assert difference.code == "changed-order"
    moved = set(re.split(", | and ", difference.said.partition(" moved")[0]))
    assert [layer for layer in one if layer not in moved] == [
        layer for layer in other if layer not in moved
    ]


@pytest.mark.parametrize(
    ("one", "other", "moved"),
    [
        ("abcde", "eabcd", "e"),
        ("abcde", "bcdea", "a"),
        ("abcde", "acbde", "c"),
        ("abc", "cba", "c and b"),
    ],
)
def test_as_few_layers_as_possible_moved(one: str, other: str, moved: str) -> None:
    [difference] = drift(locked(*one), locked(*other))
    assert difference.said.startswith(f"{moved} moved: ")


def test_an_added_layer_moves_no_other() -> None:
    assert [each.code for each in drift(locked("a", "b"), locked("a", "c", "b"))] == [
        "changed-layers"
    ]


def test_changed_added_and_removed_settings_are_told_in_one_line() -> None:
    [difference] = drift(locked("a", x="1", y="1", z="1"), locked("a", x="2", y="2", w="1"))
    assert str(difference) == "layer a: its settings: x and y changed, w added, z removed"


def test_a_lock_survives_its_text() -> None:
    lock = locked("a", "b", x="1")
    assert from_bytes(to_text(lock).encode(), "it") == lock
    assert from_bytes(to_text(lock).replace("\n", "\r\n").encode("utf-8-sig"), "it") == lock
    assert json.loads(to_text(lock))["schema"] == 1
