"""No check of the contract complains about a middleware that this repository shows or ships."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from interpose import Capability, Middleware
from interpose.testing import contract
from interpose_logging import Logging
from interpose_redact import Redact
from interpose_tool_filter import ToolFilter

_ROOT = Path(__file__).parents[2]
_SHORT = {"settings-documented": "an example on a page, which the page explains"}
_KEY = "a key of sixteen or more"

_SETTINGS: list[tuple[type[Middleware[Any, Any]], dict[str, Any]]] = [
    (Redact, {}),
    (Redact, {"action": "mask", "literals": ["Bluebird", "Blue"], "max_hold": 64}),
    (Redact, {"action": "hash", "key": _KEY, "entities": ["email", "card"]}),
    (Redact, {"action": "block"}),
    (
        Redact,
        {"patterns": {"order": r"A-\d{4}"}, "covers": ["text", "tool-args"], "keep_raw": True},
    ),
    (ToolFilter, {"deny": ["lookup_order"]}),
    (ToolFilter, {"allow": ["lookup_order"], "drop_raw": True}),
    (ToolFilter, {"allow": []}),
    (Logging, {}),
    (Logging, {"content": True, "format": "json"}),
    (Logging, {"events": False, "level": "DEBUG"}),
]


@pytest.mark.parametrize(("cls", "settings"), _SETTINGS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_plugin_of_this_repository_keeps_its_contract(
    cls: type[Middleware[Any, Any]], settings: Mapping[str, Any]
) -> None:
    report = contract(cls, settings=settings, samples=["order A-1815", "Bluebird"]).run()
    assert report, str(report)


_EXAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    ("plugin/src/acme_signature/__init__.py", "Signature", {"text": "Yours, Acme"}),
    (
        "plugin/src/acme_signature/__init__.py",
        "Signature",
        {"text": "Yours, Acme", "first_only": True},
    ),
    ("embed/app.py", "TenantGuard", {"tenants": ["acme"]}),
    ("loop/layers.py", "Shorten", {"length": 32}),
]


@pytest.mark.parametrize(("file", "name", "settings"), _EXAMPLES)
def test_an_example_keeps_its_contract(file: str, name: str, settings: Mapping[str, Any]) -> None:
    cls = getattr(_module(_ROOT / "examples" / file), name)
    report = contract(cls, settings=settings, excuse=_SHORT).run()
    assert report, str(report)


def test_the_middlewares_of_the_page_about_plugins_keep_their_contract() -> None:
    page = (_ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    source = next(block for block in blocks if "class Guard(" in block)
    made = _executed(source)
    verdicts: Capability[Any] = made["VERDICTS"]
    listed = made["Listed"](frozenset({"eve"}))
    report = contract(
        made["Guard"], settings={"subject": "ada"}, provide={verdicts: listed}, excuse=_SHORT
    ).run()
    assert report, str(report)
    report = contract(made["Audit"]).run()
    assert report, str(report)


def _module(path: Path) -> Any:
    name = f"first_party_{path.parent.name}_{path.stem}".replace("-", "_")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _executed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "first_party_page"}
    exec(compile(source, "docs/plugins.md", "exec"), names)  # noqa: S102 - our own page
    return names
