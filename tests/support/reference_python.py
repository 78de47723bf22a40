"""The reference page of the public names, module by module."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from markdown_text import block
from markdown_text import page as make_page
from source_code import definitions, docstring, first, is_overload, paragraphs, parsed, stub

DOORS = (
    "interpose",
    "interpose.agui",
    "interpose.commands",
    "interpose.loop",
    "interpose.server",
    "interpose.testing",
)


def page() -> str:
    """Return the page."""
    return make_page(
        "Public names",
        "Everything that is promised to stay: the names in `__all__` of the public modules, with "
        "their signatures. What is not here is private. "
        "[Compatibility](../../CONTRIBUTING.md#compatibility) says what the promise is.",
        *(part for door in DOORS for part in _door(door)),
    )


def _door(door: str) -> Iterator[str]:
    names: list[str] = sorted(importlib.import_module(door).__all__)
    yield f"## `{door}`"
    yield from paragraphs(docstring(parsed(door)))[:1]
    for name in names:
        if name != "__version__":
            yield f"### `{name}`"
            yield from _name(door, name)


def _name(door: str, name: str) -> Iterator[str]:
    found = definitions(door, name)
    yield from filter(None, [first("\n\n".join(each.said for each in found if each.said))])
    shown = [each for each in found if is_overload(each.statement)] or list(found)
    if shown:
        yield block("\n\n\n".join(stub(each.statement) for each in shown))
