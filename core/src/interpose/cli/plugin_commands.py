"""Commands that plugins add: found by their metadata, and imported one at a time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from interpose.cli import common
from interpose.cli.parser import ASKED, COMMANDS, Command
from interpose.cli.terminal import visible
from interpose.errors import Problem, StartupError, described, nearest
from interpose.startup.discovery import COMMANDS_GROUP, CommandEntry, Discovery, discover
from interpose.startup.loading import cause, import_entry

_CONTRACT: Final = (
    "A command has SUMMARY, a str, add_arguments(parser), and main(arguments), which\n"
    "returns an exit code from 0 to 255."
)
_CODES: Final = range(256)


def listed() -> str:
    """Return what ``--help`` says of the commands of plugins; imports none of them."""
    width = max(map(len, COMMANDS)) + 2  # which is where argparse begins its second column
    rows = [
        f"    {entry.name:<{width}} {entry.distribution}"
        for entry in discover().commands
        if entry.name not in COMMANDS
    ]
    return visible("\n".join(["commands of plugins:", *rows])) if rows else ""


def find(name: str, unknown: Callable[[str], NoReturn]) -> Command:
    """Import the command of this name. ``unknown`` is told when nobody has one.

    Raises :class:`StartupError` when there is one that cannot be used.
    """
    discovery = discover()
    entries = _named(discovery, name)
    if not entries:
        lost = discovery.unusable_commands.get(name)
        if lost is not None:
            raise StartupError([replace(lost, severity="error")])
        known = dict.fromkeys([*COMMANDS, *(each.name for each in discovery.commands)])
        unknown(_suggestion(name, tuple(known)))
    if len(entries) > 1:
        raise StartupError([_clash(entries)])
    return _loaded(entries[0])


def name_notes(discovery: Discovery) -> Iterator[Problem]:
    """Yield what ``interpose doctor`` says of the names of commands."""
    for name in dict.fromkeys(entry.name for entry in discovery.commands):
        entries = _named(discovery, name)
        if name in COMMANDS:
            yield from map(_shadowed, entries)
        elif len(entries) > 1:
            yield replace(_clash(entries), severity="warning")


def _named(discovery: Discovery, name: str) -> list[CommandEntry]:
    return [entry for entry in discovery.commands if entry.name == name]


def _suggestion(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    advice = f"did you mean {near}?" if near else f"the commands are {', '.join(known)}"
    return f"there is no command {name!r}; {advice}"


def _clash(entries: Sequence[CommandEntry]) -> Problem:
    owners = [entry.distribution for entry in entries]
    return Problem(
        "ambiguous-command",
        f"The command `{entries[0].name}` belongs to {' and to '.join(map(str, owners))}.",
        tuple(dict.fromkeys(owner.location for owner in owners)),
        "Uninstall one of them: "
        + ", or ".join(f"pip uninstall {owner.name}" for owner in owners)
        + ".",
    )


def _shadowed(entry: CommandEntry) -> Problem:
    owner = entry.distribution
    return Problem(
        "shadowed-command",
        f"{owner} has a command `{entry.name}`, which is one of Interpose itself: that of "
        f"{owner.name} is never run.",
        (owner.location,),
        f"Tell the authors of {owner.name} to give it another name.",
        "warning",
    )


def _loaded(entry: CommandEntry) -> Command:
    value: Any = import_entry(entry)
    if isinstance(value, Problem):
        raise StartupError([replace(value, where=(_place(entry), *value.where))])
    faults = "; ".join(_faults(value))
    if faults:
        raise _refused(entry, f"is no command: {faults}")
    summary: str = value.SUMMARY
    about: str = getattr(value, "ABOUT", "") or summary
    return Command(
        module="",
        summary=summary.replace("%", "%%"),  # argparse formats it
        about=about,
        add=partial(_add, entry, value.add_arguments),
        main=partial(_main, entry, value.main),
    )


def _faults(value: object) -> Iterator[str]:
    lacking = [name for name in ("SUMMARY", "add_arguments", "main") if not hasattr(value, name)]
    if lacking:
        yield f"it lacks {', '.join(lacking)}"
    for name in ("SUMMARY", "ABOUT"):
        found = getattr(value, name, "")
        if not isinstance(found, str):
            yield f"its {name} is {described(found)}"
    for name in ("add_arguments", "main"):
        found = getattr(value, name, None)
        if name not in lacking and not callable(found):
            yield f"its {name} is {described(found)}"


def _add(
    entry: CommandEntry,
    add: Callable[[argparse.ArgumentParser], object],
    parser: argparse.ArgumentParser,
) -> None:
    """Let the command add its arguments; then the host its own, wherever that has a parser."""
    before = common.actions(parser)
    try:
        add(parser)
        own = {action.dest for action in common.actions(parser) if action not in before}
        for below, _ in common.parsers_below(parser):
            own |= {action.dest for action in common.actions(below)}
        common.add_below(parser)
    except (Exception, SystemExit) as error:
        raise _refused(entry, f"cannot add its arguments: {cause(error)}") from error
    taken = sorted(own & {*common.NAMES, ASKED})
    if taken:
        are = "are names" if len(taken) > 1 else "is a name"
        raise _refused(
            entry, f"cannot add its arguments: {' and '.join(taken)} {are} of the host's own"
        )


def _main(
    entry: CommandEntry,
    main: Callable[[argparse.Namespace], object],
    arguments: argparse.Namespace,
) -> int:
    code = main(arguments)
    if isinstance(code, int) and not isinstance(code, bool) and code in _CODES:
        return code
    shown = code if isinstance(code, int) else described(code)
    raise _refused(entry, f"ended with {shown}, which is no exit code")


def _refused(entry: CommandEntry, said: str) -> StartupError:
    owner = entry.distribution.name
    return StartupError(
        [
            Problem(
                "invalid-command",
                f"{entry} {said}.",
                (_place(entry),),
                f"pip install --upgrade {owner}; if it stays, tell the authors of {owner}.\n"
                f"{_CONTRACT}",
            )
        ]
    )


def _place(entry: CommandEntry) -> str:
    return f"entry point `{entry.name} = {entry.value}` of the group {COMMANDS_GROUP}"
