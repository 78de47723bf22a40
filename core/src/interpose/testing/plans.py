"""Assertions about plans: the order of an application's layers, kept by a test."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any, Final

from interpose.errors import UsageError
from interpose.plan import CapabilityUse, Plan

UPDATE: Final = "INTERPOSE_UPDATE_PLANS"
"""The variable under which :func:`assert_plan` writes the snapshot."""


def assert_order(plan: Plan, *layers: str) -> None:
    """Check that the layers stand in this order, outermost first; others may lie between them.

    Raises ``AssertionError`` with the whole order, :class:`UsageError` for an unknown layer.
    """
    __tracebackhide__ = True  # pytest shows the author's own line, not this one
    order = list(plan.order)
    unknown = [layer for layer in layers if layer not in order]
    if unknown:
        raise UsageError(
            f"the plan has no layer {', '.join(map(repr, unknown))}",
            hint=f"its layers are {', '.join(order) or 'none'}",
        )
    found = [layer for layer in order if layer in layers]
    if found != list(layers):
        raise AssertionError(
            f"expected {_arrow(layers)}; the plan has {_arrow(found)} (in all: {_arrow(order)})"
        )


def assert_plan(plan: Plan, path: str | os.PathLike[str], *, update: bool = False) -> None:
    """Check that a plan is what the snapshot at ``path`` says, and show the difference.

    The snapshot holds what an operator decides about: order, stages, live hooks, capabilities,
    overruled wishes; no versions and no places. ``INTERPOSE_UPDATE_PLANS=1``, or ``update``, writes
    it.
    """
    __tracebackhide__ = True  # pytest shows the author's own line, not this one
    file = Path(path)
    now = json.dumps(_snapshot(plan), indent=2) + "\n"
    if update or os.environ.get(UPDATE):
        file.write_text(now, encoding="utf-8")
        return
    if not file.is_file():
        raise AssertionError(f"there is no snapshot {file}; set {UPDATE}=1 to write it")
    before = file.read_text(encoding="utf-8")
    if before != now:
        difference = difflib.unified_diff(
            before.splitlines(), now.splitlines(), str(file), "the plan now", lineterm="", n=2
        )
        shown = "\n".join(difference)
        raise AssertionError(f"the plan has changed; {UPDATE}=1 accepts it\n{shown}")


def _snapshot(plan: Plan) -> dict[str, Any]:
    return {
        "agent": {"id": plan.agent.ref.id, "use": plan.agent.use, "points": list(plan.points)},
        "layers": [
            {
                "id": layer.id,
                "middleware": layer.middleware,
                "stage": layer.stage,
                "hooks": list(layer.live_hooks),
                "inert": [hook.name for hook in layer.inert_hooks],
                "requires": [_use(use) for use in layer.requires],
                "provides": [_use(use) for use in layer.provides],
                "on_failure": layer.on_failure,
                "rewrites_history": layer.rewrites_history,
            }
            for layer in plan.layers
        ],
        "setup_order": list(plan.setup_order),
        "overruled": [each.wish.said for each in plan.overruled],
    }


def _use(use: CapabilityUse) -> str:
    by = ", ".join(map(str, use.parts)) or "nobody"
    return f"{use.name} {use.version} ({by}{', optional' if use.optional else ''})"


def _arrow(layers: tuple[str, ...] | list[str]) -> str:
    return " > ".join(layers) or "nothing"
