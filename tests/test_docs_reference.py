"""The reference pages are what the code says: tests/support/reference.py writes them."""

import ast
import importlib
import os
import re

import pytest
import reference
import reference_python
from source_code import class_named, definitions, docstring, fields, methods, parsed

from interpose.startup.hostmodel import HostTable, LayerOptions, ServerTable

UPDATE = bool(os.environ.get("INTERPOSE_UPDATE_DOCS"))


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_written_from_the_code(name: str) -> None:
    page = reference.FOLDER / name
    current = reference.written(name)
    if UPDATE:
        page.write_text(current, encoding="utf-8")
    found = page.read_text(encoding="utf-8") if page.exists() else ""
    assert found == current, "INTERPOSE_UPDATE_DOCS=1 writes it anew"


def test_every_page_of_the_folder_is_written_from_the_code() -> None:
    found = {path.name for path in reference.FOLDER.glob("*.md")}
    assert found == {*reference.PAGES, "index.md"}


def text(name: str) -> str:
    return (reference.FOLDER / name).read_text(encoding="utf-8")


def meanings(page: str) -> list[str]:
    """Return the cells below each "meaning" of the tables of a page."""
    found = []
    for table in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in table.splitlines()
        )
        if "meaning" in head:
            found += [row[head.index("meaning")] for row in rows]
    return found


@pytest.mark.parametrize("name", ["configuration.md", "cli.md", "plan-json.md", "hooks.md"])
def test_no_meaning_is_left_out(name: str) -> None:
    assert meanings(text(name))
    assert "" not in meanings(text(name))


def test_every_public_name_is_explained_there() -> None:
    for door in reference_python.DOORS:
        for name in importlib.import_module(door).__all__:
            if name == "__version__":
                continue
            found = definitions(door, name)
            assert any(each.said for each in found) or not found, f"{door}.{name}"


def test_each_key_of_the_host_is_there_with_its_variable() -> None:
    page = text("configuration.md")
    for model, table in (
        (HostTable, "HOST"),
        (ServerTable, "SERVER"),
        (LayerOptions, "MIDDLEWARE__<ID>__LAYER"),
    ):
        for key in model.model_fields:
            assert f"`INTERPOSE__{table}__{key.upper()}`" in page


def test_what_is_read_from_the_source_is_what_stands_there() -> None:
    node = class_named("interpose", "Capability")
    assert docstring(node)
    assert [each.name for each in fields(class_named("interpose", "Deny"))] == ["reason"]
    names = {each.name for each in methods(class_named("interpose", "RunContext"))}
    assert {"provide", "__getitem__"} <= names
    assert "__init__" not in names
    with pytest.raises(LookupError):
        parsed("interpose.nothing")
    assert isinstance(definitions("interpose", "Host")[0].statement, ast.ClassDef)
