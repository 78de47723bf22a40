"""docs/hooks.md and the code say the same."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from interpose import Middleware
from interpose.startup.inspection import HOOKS

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"


def test_every_hook_is_documented_with_its_signature_and_point() -> None:
    rows = re.findall(r"^\| `(\w+)\(([^)]*)\)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    documented = {name: (tuple(args.split(", ")), point) for name, args, point in rows}
    expected = {
        name: (
            tuple(inspect.signature(getattr(Middleware, name)).parameters)[1:],
            point.value,
        )
        for name, (point, _) in HOOKS.items()
    }
    assert documented == expected


def test_the_number_of_arguments_that_hooks_get_is_that_of_the_base_class() -> None:
    for name, (_, count) in HOOKS.items():
        assert len(inspect.signature(getattr(Middleware, name)).parameters) == count + 1, name


def test_every_public_method_of_the_base_class_is_a_hook_or_made_once() -> None:
    made_once = {"declare", "lifespan"}
    methods = {
        name
        for name, value in vars(Middleware).items()
        if not name.startswith("_") and callable(getattr(value, "__func__", value))
    }
    assert methods - made_once == set(HOOKS)
