"""The check that operators reach every setting through its variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from interpose.errors import StartupError
from interpose.startup.environment import variable_name, variable_segment
from interpose.startup.tree import KeyPath, shown
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.settings_rules import same, without_settings
from interpose.testing.contracts.setting_forms import HasSettings, as_table, as_text, fields, leaves

_EXPECTED: Final = "the settings that the same value in a file gives"


async def environment(subject: HasSettings) -> Finding | None:
    """Set each setting through its variable, by the way that the host takes."""
    clash = _clash(subject.settings, subject.path)
    if clash is not None:
        return clash
    texts: dict[KeyPath, str] = {}
    for path, value in leaves(subject.settings):
        try:
            texts[path] = as_text(value)
        except ValueError:
            return Finding(
                f"{shown(path)} is a {type(value).__name__}, which has no form as text or JSON",
                "types that a file and a variable can hold",
            )
    expected = _read(subject, as_table(subject.settings), {})
    if isinstance(expected, str):
        return None  # not even as a file: the check of defaults tells
    together = _read(subject, {}, {_name(subject, path): text for path, text in texts.items()})
    if isinstance(together, BaseModel) and not list(_different(expected, together)):
        return None
    found = (_one_by_one(subject, expected, path, text) for path, text in texts.items())
    return next(filter(None, found), None)


def _one_by_one(
    subject: HasSettings, expected: BaseModel, path: KeyPath, text: str
) -> Finding | None:
    name = _name(subject, path)
    found = _read(subject, as_table(subject.settings, without=path), {name: text})
    if isinstance(found, str):
        return Finding(f"{name} is refused: {found}", _EXPECTED)
    for changed, before, after in _different(expected, found):
        return Finding(
            f"with {name} set, {shown(changed)} is {_kind(after)}, not {_kind(before)}"
            f"{_note(before, after)}",
            _EXPECTED,
        )
    return None


def _clash(settings: BaseModel, path: KeyPath) -> Finding | None:
    taken: dict[str, KeyPath] = {}
    for each in _paths(settings, ()):
        name = variable_name((*path, *each))
        other = taken.setdefault(name, each)
        if other != each:
            return Finding(
                f"{shown(other)} and {shown(each)} have one variable: {name}",
                "names that differ in more than case and hyphens",
            )
        if not variable_segment(each[-1]).replace("_", "").isalnum():
            return Finding(
                f"{shown(each)} makes {name}, which no shell can set",
                "keys of letters, digits and single underscores",
            )
    return None


def _paths(settings: BaseModel, path: KeyPath) -> Iterator[KeyPath]:
    for key, _, value in fields(settings):
        yield (*path, key)
        if isinstance(value, BaseModel):
            yield from _paths(value, (*path, key))


def _name(subject: HasSettings, path: KeyPath) -> str:
    return variable_name((*subject.path, *path))


def _read(
    subject: HasSettings, table: Mapping[str, Any], environ: Mapping[str, str]
) -> BaseModel | str:
    """Return the settings, or what the host says against them."""
    try:
        return subject.start_up(table, environ)
    except StartupError as error:
        return "; ".join(problem.message for problem in error.problems)


def _different(before: BaseModel, after: BaseModel) -> Iterator[tuple[KeyPath, Any, Any]]:
    others = dict(leaves(after))
    for path, value in leaves(before):
        if path not in others or not same(value, others[path]):
            yield path, value, others.get(path)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _note(before: Any, after: Any) -> str:
    return " of another value" if type(before) is type(after) else ""


RULES: Final[tuple[Rule[HasSettings], ...]] = (
    Rule(
        "settings-environment",
        "Containers and CI set everything through variables; a setting that cannot be said as "
        "text is out of their reach.",
        environment,
        without_settings,
    ),
)
