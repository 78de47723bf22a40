"""Checks that the static index ``interpose.offers`` says what a plugin's parts really provide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from interpose.authoring import Middleware
from interpose.capability import Capability
from interpose.cli.plugin_check.results import Check, checked
from interpose.errors import Problem, nearest
from interpose.startup.contributions import Contribution, RegisteredPart
from interpose.startup.inspection import settings_class
from interpose.startup.loading import cause

_WHERE = ('[project.entry-points."interpose.offers"]',)


def offer_check(contributions: Iterable[Contribution]) -> Check:
    """Compare offers and parts, for each plugin."""
    found = tuple(contributions)
    provided = sorted({name for each in found for name in _provided(each)[0]})
    return checked("offers-true", ", ".join(provided) or "nothing is provided", _problems(found))


def _problems(contributions: Iterable[Contribution]) -> Iterator[Problem]:
    for each in contributions:
        provided, unknown = _provided(each)
        offered = set(each.entry.offers)
        for name in sorted(offered - provided.keys()):
            yield _untrue(each, name, provided, unknown)
        for name in sorted(provided.keys() - offered):
            yield Problem(
                "plugin-offers",
                f"{provided[name]} provides {name}, and no offer says so: an operator who lacks it "
                f"is not told of this plugin.",
                _WHERE,
                f'"capability.{name}" = "{each.entry.value}"',
                # The host knows its own capabilities; of others nobody but the index tells.
                "error" if "/" in name else "warning",
            )


def _untrue(each: Contribution, name: str, provided: Mapping[str, str], unknown: str) -> Problem:
    near = nearest(name, provided)
    if unknown:
        return Problem(
            "plugin-offers",
            f'"{name}" is offered, and {unknown} depends on its settings: this cannot be checked.',
            _WHERE,
            "Let a test of yours check it.",
            "note",
        )
    return Problem(
        "plugin-offers",
        f'"{name}" is offered, and no part of the plugin "{each.entry.id}" provides it.',
        _WHERE,
        f'Did you mean "capability.{near}"?' if near else "Remove it, or provide it.",
    )


def _provided(each: Contribution) -> tuple[dict[str, str], str]:
    """Return each capability with the part that provides it, and a part that does not tell yet."""
    found: dict[str, str] = {}
    unknown = ""
    for part in each.parts.values():
        capabilities: Iterable[Capability[Any]] = part.target.provides
        if _decides(part.target):
            declared = _declared(part)
            if declared is None:
                unknown = f"what {part.name} provides"
            else:
                capabilities = (*capabilities, *declared)
        for capability in capabilities:
            found.setdefault(capability.name, f"The {part.kind} {part.name}")
    return found, unknown


def _decides(target: Any) -> bool:
    """Say whether a middleware's declaration depends on its settings."""
    if not (isinstance(target, type) and issubclass(target, Middleware)):
        return False
    return target.declare.__func__ is not Middleware.declare.__func__  # type: ignore[attr-defined]


def _declared(part: RegisteredPart) -> tuple[Capability[Any], ...] | None:
    """Return what it declares with the settings' defaults; None when it needs settings."""
    try:
        declared: Any = part.target.declare(settings_class(part.target)())
        return tuple(item for item in declared.provides if isinstance(item, Capability))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        cause(error)
        return None
