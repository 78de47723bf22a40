"""Which files are read, and what is said of one that cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.errors import Problem, render
from interpose.startup.files import Source, find_files, read_file, read_files
from interpose.startup.merging import merge
from interpose.startup.overrides import from_mapping, from_options
from interpose.startup.tree import Array, Origin, Table, annotate_table, at, leaves, plain


def refusal(name: str, folder: Path) -> str:
    found = read_file(name, folder=folder)
    assert isinstance(found, Problem)
    return render([found]).replace(str(folder), "FOLDER")


def test_named_files_are_the_only_ones_read_the_first_is_the_base(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_text("")
    environ = {"INTERPOSE_CONFIG": os.pathsep.join(["c.toml", "d.toml"])}
    assert find_files(["a", "b"], environ=environ, folder=tmp_path) == ("a", "b")
    assert find_files(environ=environ, folder=tmp_path) == ("c.toml", "d.toml")
    assert find_files(environ={}, folder=tmp_path) == ("interpose.toml",)


def test_a_pyproject_is_read_only_when_it_is_meant_for_us(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    assert find_files(environ={}, folder=tmp_path) == ()
    project.write_text("[tool.other]\n")
    assert find_files(environ={}, folder=tmp_path) == ()
    project.write_text("not = toml = at all")
    assert find_files(environ={}, folder=tmp_path) == ()
    project.write_text("[tool.interpose.server]\n")
    assert find_files(environ={}, folder=tmp_path) == ("pyproject.toml",)
    (tmp_path / "interpose.toml").write_text("")
    assert find_files(environ={}, folder=tmp_path) == ("interpose.toml",)


def test_lines_in_a_pyproject_are_those_of_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.interpose.middleware.redact]\nmax_hold = 1\n'
    )
    source = read_file("pyproject.toml", folder=tmp_path)
    assert isinstance(source, Source)
    assert plain(source.tree) == {"middleware": {"redact": {"max_hold": 1}}}
    value = at(source.tree, ("middleware", "redact", "max_hold"))
    assert value is not None
    assert str(value.origin) == "pyproject.toml:4"


def test_a_byte_order_mark_and_windows_line_ends_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_bytes(b"\xef\xbb\xbf[server]\r\n# x\r\nport = 1\r\n")
    source = read_file("interpose.toml", folder=tmp_path)
    assert isinstance(source, Source)
    value = at(source.tree, ("server", "port"))
    assert value is not None
    assert str(value.origin) == "interpose.toml:3"


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    assert (
        refusal("prod.toml", tmp_path)
        == """\
error[missing-config]: The config file prod.toml does not exist.
  at FOLDER/prod.toml
  fix: Create it, or name the file that you mean."""
    )


def test_a_missing_file_with_a_similar_name_beside_it_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_text("")
    assert 'fix: Did you mean "interpose.toml"?' in refusal("interpsoe.toml", tmp_path)


def test_a_syntax_error_has_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_text("[server]\nport 8000\n")
    assert (
        refusal("interpose.toml", tmp_path)
        == """\
error[invalid-toml]: The config file interpose.toml is not valid TOML: Expected '=' after a key in a key/value pair.
  at interpose.toml:2:6
  fix: Correct the syntax there; https://toml.io/en/v1.0.0 describes it."""
    )


def test_a_syntax_error_at_the_end_has_the_last_line(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_text("a = 1\nb = [1")
    assert "\n  at interpose.toml:2:7\n" in refusal("interpose.toml", tmp_path)


def test_a_file_that_is_not_utf_8_has_the_line_of_the_byte(tmp_path: Path) -> None:
    (tmp_path / "interpose.toml").write_bytes(b"[server]\nhost = 'caf\xe9'\n")
    assert (
        refusal("interpose.toml", tmp_path)
        == """\
error[invalid-toml]: The config file interpose.toml is not UTF-8: byte 0xe9 cannot be decoded.
  at interpose.toml:2
  fix: Save the file as UTF-8."""
    )


def test_a_folder_is_no_config_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert (
        refusal("conf", tmp_path)
        == """\
error[unreadable-config]: The config file conf cannot be read: Is a directory.
  at conf
  fix: Name a readable TOML file."""
    )


def test_a_pyproject_that_is_named_must_have_our_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    assert (
        refusal("pyproject.toml", tmp_path)
        == """\
error[missing-config]: pyproject.toml has no table [tool.interpose].
  at pyproject.toml
  fix: Add [tool.interpose.middleware.<id>] tables, or name an interpose.toml."""
    )


def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text("")
    sources, problems = read_files(["no.toml", "good.toml", "never.toml"], folder=tmp_path)
    assert [source.name for source in sources] == ["good.toml"]
    assert [problem.where for problem in problems] == [
        (str(tmp_path / "no.toml"),),
        (str(tmp_path / "never.toml"),),
    ]


@pytest.mark.parametrize(
    ("option", "tree"),
    [
        ("a.b=1", {"a": {"b": 1}}),
        ("a.b=[1, 2]", {"a": {"b": [1, 2]}}),
        ("a.b=true", {"a": {"b": True}}),
        ("a.b=text with = signs", {"a": {"b": "text with = signs"}}),
        ("a.b='42'", {"a": {"b": "42"}}),
        ("a.b=", {"a": {"b": ""}}),
        ('a."b.c"=x', {"a": {"b.c": "x"}}),
        ("a.b=1\nc = 2", {"a": {"b": "1\nc = 2"}}),
        ("a.b=1 # x", {"a": {"b": 1}}),
    ],
)
def test_an_option_is_toml_where_it_can_be_and_else_text(
    option: str, tree: dict[str, Any], tmp_path: Path
) -> None:
    sources, problems = from_options([option], folder=tmp_path)
    assert not problems
    assert plain(sources[0].tree) == tree


def test_a_key_that_is_no_key_is_refused(tmp_path: Path) -> None:
    options = ["a", "a..b=1", "=1", "a\nb=1", "a b=1"]
    sources, problems = from_options(options, folder=tmp_path)
    assert not sources
    assert len(problems) == len(options)


def test_no_value_stands_in_a_repr(tmp_path: Path) -> None:
    source = from_mapping({"a": {"key": "hunter2", "list": ["hunter2"]}}, name="x", folder=tmp_path)
    assert "hunter2" not in repr(source)


names = st.sampled_from("abc")
trees = st.dictionaries(
    names,
    st.recursive(
        st.integers() | st.lists(st.integers(), max_size=2),
        lambda inner: st.dictionaries(names, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def annotated(tree: dict[str, Any], source: str) -> Table:
    return annotate_table(tree, lambda _: Origin(source), Path())


@settings(max_examples=100, deadline=None)
@given(st.lists(trees, min_size=1, max_size=3))
def test_each_merged_value_is_the_strongest_said_and_knows_who_said_it(
    said: list[dict[str, Any]],
) -> None:
    sources = [annotated(tree, str(index)) for index, tree in enumerate(said)]
    merged = merge(sources)
    assert plain(merged) == by_hand(said)
    for path, node in leaves(merged):
        own = at(sources[int(node.origin.source)], path)
        assert own == node
        stronger = sources[int(node.origin.source) + 1 :]
        assert all(at(other, path) is None for other in stronger)


def by_hand(said: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for tree in said:
        for key, value in tree.items():
            weak = result.get(key)
            both = isinstance(weak, dict) and isinstance(value, dict)
            result[key] = by_hand([weak, value]) if both else value  # type: ignore[list-item]
    return result


@settings(max_examples=60, deadline=None)
@given(trees, trees)
def test_what_is_mentioned_again_keeps_its_place(
    base: dict[str, Any], overlay: dict[str, Any]
) -> None:
    merged = merge([annotated(base, "base"), annotated(overlay, "overlay")])
    assert isinstance(merged, Table)
    assert list(merged.entries)[: len(base)] == list(base)


def test_the_items_of_an_extended_list_know_their_sources() -> None:
    base, overlay = annotated({"x": [1]}, "base"), annotated({"x": {"$append": [2]}}, "overlay")
    merged = at(merge([base, overlay]), ("x",))
    assert isinstance(merged, Array)
    assert [item.origin.source for item in merged.items] == ["base", "overlay"]


def test_reading_files_imports_no_pydantic() -> None:
    code = (
        "import sys, interpose.startup.files, interpose.startup.configuration, "
        "interpose.startup.overrides, interpose.startup.references\n"
        "assert not {'pydantic', 'pydantic_settings', 'ag_ui'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code
