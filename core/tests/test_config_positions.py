"""The scanner agrees with tomllib: everything it finds has a position, and the right one."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.startup.positions import scan
from interpose.startup.tree import KeyPath

Draw = Any

keys = st.one_of(
    st.text("abz09_-", min_size=1, max_size=4),
    st.text("a .\"\\#=[]é'\t", max_size=4),
)
strings = st.text("ab#'\"[]{}=,\\\n é", max_size=12)
scalars = st.one_of(
    strings, st.integers(-999, 999), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.lists(st.dictionaries(keys, inner, max_size=2), min_size=1, max_size=3),
    ),
    max_leaves=6,
)
documents = st.dictionaries(keys, values, max_size=5)


class Writer:
    """Writes a document in a drawn style, and notes the line and column of everything it writes."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.text = ""
        self.places: dict[KeyPath, tuple[int, int]] = {}

    def here(self) -> tuple[int, int]:
        head, _, last = self.text.rpartition("\n")
        return (head.count("\n") + 2 if "\n" in self.text else 1), len(last) + 1

    def choose(self, *options: str) -> str:
        return str(self.draw(st.sampled_from(options)))

    def gap(self) -> None:
        self.text += self.choose("", "", "\n", "# [no] = 'table'\n", "  ")

    def key(self, key: str) -> None:
        bare = key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key)
        quoted = [basic(key)] + ([f"'{key}'"] if "'" not in key and "\n" not in key else [])
        self.text += self.choose(*([key] if bare else []), *quoted)

    def table(self, table: dict[str, Any], path: KeyPath) -> None:
        inside = {k: v for k, v in table.items() if self.stays_inside(v)}
        for key, value in inside.items():
            self.gap()
            self.pair(key, value, path)
            self.text += self.choose("\n", " # comment\n", "\n\n")
        for key, value in table.items():
            if key in inside:
                continue
            items = value if isinstance(value, list) else [value]
            for index, item in enumerate(items):
                self.gap()
                below = (*path, key)
                if isinstance(value, list):
                    self.places.setdefault(below, self.here())
                    below = (*below, index)
                self.places[below] = self.here()
                self.header((*path, key), array=isinstance(value, list))
                self.table(item, below)

    def stays_inside(self, value: Any) -> bool:
        if isinstance(value, dict):
            return bool(self.draw(st.booleans()))
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return bool(self.draw(st.booleans()))
        return True

    def header(self, path: KeyPath, *, array: bool) -> None:
        self.text += "[[" if array else "["
        for index, key in enumerate(step for step in path if isinstance(step, str)):
            self.text += self.choose(".", " . ") if index else self.choose("", " ")
            self.key(key)
        self.text += ("]]" if array else "]") + self.choose("\n", " # [x]\n")

    def pair(self, key: str, value: Any, path: KeyPath) -> None:
        path = (*path, key)
        self.places[path] = self.here()
        self.key(key)
        while isinstance(value, dict) and len(value) == 1 and self.draw(st.booleans()):
            [(key, value)] = value.items()
            path = (*path, key)
            self.text += self.choose(".", " . ")
            self.places[path] = self.here()
            self.key(key)
        self.text += self.choose("=", " = ")
        self.value(value, path)

    def value(self, value: Any, path: KeyPath) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for index, (key, below) in enumerate(value.items()):
                self.text += ", " if index else " "
                self.pair(key, below, path)
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.text += self.choose("", "\n", " # a, ]\n  ")
                self.places[(*path, index)] = self.here()
                self.value(item, (*path, index))
                self.text += self.choose(",", " # x\n,") if index + 1 < len(value) else ""
            self.text += self.choose("]", "\n]", " # ]\n]")
        elif isinstance(value, str):
            self.string(value)
        else:
            self.text += str(value).lower() if isinstance(value, bool) else repr(value)

    def string(self, value: str) -> None:
        forms = [basic(value)]
        if "'" not in value:
            forms += [f"'''{value}'''"] if not value.startswith("\n") else []
            forms += [f"'{value}'"] if "\n" not in value else []
        if "\\" not in value and '"""' not in value and not value.startswith("\n"):
            forms.append(f'"""{value}"""')
        self.text += self.choose(*forms)


def basic(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    found = {path} if path else set()
    if isinstance(value, dict):
        found |= {p for key, below in value.items() for p in paths(below, (*path, key))}
    if isinstance(value, list):
        found |= {p for i, below in enumerate(value) for p in paths(below, (*path, i))}
    return found


@settings(max_examples=50, deadline=None)
@given(documents, st.data())
def test_everything_that_tomllib_finds_is_placed_where_it_was_written(
    document: dict[str, Any], data: st.DataObject
) -> None:
    writer = Writer(data.draw)
    writer.table(document, ())
    if data.draw(st.booleans()):
        writer.text = writer.text.replace("\n", "\r\n")
    assert tomllib.loads(writer.text) == document

    positions = scan(writer.text)

    assert set(positions.known) == paths(document)
    assert positions.known == writer.places


def test_an_implied_table_has_the_place_of_its_own_header_when_that_comes_later() -> None:
    text = "[a.b]\nx = 1\n[a]\ny = 2\n"
    assert scan(text).line(("a",)) == 3
    assert scan(text).line(("a", "b", "x")) == 2


def test_a_path_that_is_not_there_has_the_line_of_the_table_around_it() -> None:
    assert scan("[a]\n[a.b]\nx = 1\n").line(("a", "b", "missing", 0)) == 2
    assert scan("[a]\n").line(("z",)) is None


def test_quotes_at_the_end_of_a_multi_line_string_belong_to_it() -> None:
    text = 'a = """x"""""\nb = \'\'\'y\'\'\'\'\'\nc = ""\nd = """\\""""\ne = 1\n'
    assert tomllib.loads(text)["e"] == 1
    assert [scan(text).line((key,)) for key in "abcde"] == [1, 2, 3, 4, 5]


def test_dates_are_values_like_others() -> None:
    text = "a = 1979-05-27 07:32:00 # when\nb = [1979-05-27, 07:32:00]\nc = 1\n"
    assert scan(text).line(("b", 1)) == 2
    assert scan(text).line(("c",)) == 3


def test_a_text_that_the_scanner_cannot_follow_has_no_positions() -> None:
    assert scan("a = \nb = 1\n").known == {}
