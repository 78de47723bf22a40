"""Taking each part of a plugin through startup, to a plan, as a file that names it would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from interpose.capability import Capability
from interpose.cli.plugin_check.results import Check, checked
from interpose.cli.plugin_check.setting_checks import required
from interpose.errors import Problem, StartupError
from interpose.startup.built_in import built_in_parts
from interpose.startup.contributions import Contribution, RegisteredPart
from interpose.startup.discovery import Discovery
from interpose.startup.inspection import settings_class
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare
from interpose.startup.registration import SECTIONS

_UNSET: Final = frozenset({"missing-setting", "invalid-setting"})


def plan_check(
    contributions: Iterable[Contribution],
    discovery: Discovery,
    options: Sequence[str],
    tell: Callable[[str, str], None],
) -> Check:
    """Make a plan for each part alone. ``options``: what ``--set`` gives."""
    planned: list[str] = []
    left_out: list[str] = []
    problems: list[Problem] = []
    parts = {_path(part): part for each in contributions for part in each.parts.values()}
    for table, part in parts.items():
        tell("plan", f'making a plan with the {part.kind} "{part.name}"')
        others = tuple(f"{other}." for other in parts if other != table)
        own = [option for option in options if not option.startswith(others)]
        found = tuple(_plan(part, discovery, own))
        if found and all(problem.code in _UNSET for problem in found) and not _set(table, own):
            left_out.append(f"{part.name} needs settings, as --set {table}.{_first(part)}=...")
            continue
        problems += found
        if not found:
            planned.append(part.name)
    if left_out and not (planned or problems):
        return Check("plan", skipped="; ".join(left_out))
    return checked("plan", "; ".join([", ".join(planned) or "none", *left_out]), problems)


def _plan(part: RegisteredPart, discovery: Discovery, options: Sequence[str]) -> Iterator[Problem]:
    first = _prepare(part, discovery, options, {"use": "scripted"})
    if any(problem.code == "essential-point" for problem in first):
        # Only the loop has all points.
        first = _prepare(part, discovery, options, {"use": "loop", "model": "scripted"})
    yield from first


def _prepare(
    part: RegisteredPart, discovery: Discovery, options: Sequence[str], agent: Mapping[str, Any]
) -> tuple[Problem, ...]:
    tables: dict[str, Any] = {"agents": {"default": dict(agent)}}
    tables.setdefault(SECTIONS[part.kind], {})[_table(part)] = {"use": part.use}
    needs = _needs(part)
    given = Given(
        folder=Path.cwd(),
        overrides=tables,
        options=options,
        provide={each: _stand_in(each) for each in needs if each.scope == "host"},
        provides=[each for each in needs if each.scope == "run"],
        discover=lambda: discovery,
        built_in=built_in_parts(),
    )
    try:
        prepare(given)
    except StartupError as error:
        return tuple(problem for problem in error.problems if problem.severity == "error")
    return ()


def _needs(part: RegisteredPart) -> tuple[Capability[Any], ...]:
    """Return what a part requires; what a middleware declares may depend on its settings."""
    said = part.target
    if part.kind == "middleware":
        # Settings without defaults, or code that fails: what the class itself says has to do.
        with suppress(Exception):
            said = part.target.declare(settings_class(part.target)())
    return (*said.requires, *said.optional_requires)


def _path(part: RegisteredPart) -> str:
    return f"{SECTIONS[part.kind]}.{_table(part)}"


def _table(part: RegisteredPart) -> str:
    return "default" if part.kind == "agent" else part.name.replace(".", "-")


def _set(table: str, options: Sequence[str]) -> bool:
    return any(option.startswith(f"{table}.") for option in options)


def _first(part: RegisteredPart) -> str:
    return next(iter(required(part)), "<setting>")


class _Anything:
    """Stands for a capability that somebody else provides; a plan never reads it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def _stand_in(capability: Capability[Any]) -> object:
    """Return a value that has every member which the capability's Protocol asks for."""
    missing = capability.missing_members(_Anything())
    return type("StandIn", (_Anything,), dict.fromkeys(missing))()
