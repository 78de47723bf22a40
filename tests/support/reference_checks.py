"""The page of all checks: what `contract` and its kin look at, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interpose.testing.contracts import catalogue
from interpose.testing.contracts.rules import agent_rules, model_rules, provider_rules

_HEAD = """\
# Checks of the contract

What [`interpose.testing`](../authors/testing.md) looks at, in the order in which it does. A check that does not concern a
middleware is left out. The names are what `excuse` takes; they stay the same within a major version.
"""


def page() -> str:
    """Return the page."""
    parts = (
        ("Middlewares: `contract`", catalogue.RULES),
        ("Providers: `contract_for`", provider_rules.RULES),
        ("Models: `model_contract`", model_rules.RULES),
        ("Agents: `agent_contract`", agent_rules.RULES),
    )
    return "\n".join([_HEAD, *(_part(title, rules) for title, rules in parts)])


def _part(title: str, rules: Iterable[Any]) -> str:
    rows = [f"| `{rule.name}` | {_looks(rule)} | {rule.why} |" for rule in rules]
    head = f"## {title}\n\n| check | what it does | why it matters |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _looks(rule: Any) -> str:
    """Return the first paragraph of what the check itself says."""
    said = (rule.look.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(said.split()).replace("``", "`")
