"""docs/hooks.md is written from the code, and says what the code says."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

from interpose import Middleware
from interpose.startup.hook_rules import HOOKS

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"
TABLE = re.compile(r"(<!-- hooks: [^\n]* -->\n)(.*?)(<!-- end of hooks -->)", re.DOTALL)


def table() -> str:
    """Write the table of hooks from the rules and from the docstrings of Middleware."""
    lines = ["| hook | point | what it is for | how several layers combine |", "|---|---|---|---|"]
    for name, rule in HOOKS.items():
        method = getattr(Middleware, name)
        arguments = ", ".join(list(inspect.signature(method).parameters)[1:])
        purpose = " ".join((inspect.getdoc(method) or "").split("\n\n")[0].split())
        purpose = purpose.replace(" Isolated.", "").replace("``", "`")
        purpose = re.sub(r":class:`(\w+)`", r"`\1`", purpose)
        row = (f"`{name}({arguments})`", rule.point.value, purpose, rule.combines)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_hooks_is_that_of_the_code() -> None:
    page = PAGE.read_text()
    found = TABLE.search(page)
    assert found
    if os.environ.get("INTERPOSE_UPDATE_DOCS"):
        PAGE.write_text(
            page.replace(found[2], table())
            if found[2]
            else page.replace(found[1], found[1] + table())
        )
        return
    assert found[2] == table(), "INTERPOSE_UPDATE_DOCS=1 writes it anew"


def test_every_hook_has_a_docstring_and_the_arguments_that_its_rule_says() -> None:
    for name, rule in HOOKS.items():
        method = getattr(Middleware, name)
        assert inspect.getdoc(method), name
        assert len(inspect.signature(method).parameters) == rule.arguments + 1, name


def test_isolated_hooks_say_so_in_their_docstrings() -> None:
    for name, rule in HOOKS.items():
        said = "Isolated." in (inspect.getdoc(getattr(Middleware, name)) or "")
        assert said == ("isolated" in rule.combines), name


def test_every_public_method_of_the_base_class_is_a_hook_or_made_once() -> None:
    made_once = {"declare", "lifespan"}
    methods = {
        name
        for name, value in vars(Middleware).items()
        if not name.startswith("_") and callable(getattr(value, "__func__", value))
    }
    assert methods - made_once == set(HOOKS)
