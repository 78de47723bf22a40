"""Checks of what is in a wheel: its entry points, its static index, its one package."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from interpose.cli.parser import COMMANDS
from interpose.cli.plugin_check.papers import Entry
from interpose.cli.plugin_check.results import Check, checked
from interpose.cli.plugin_check.subject import Subject, modules_of
from interpose.errors import Problem, nearest
from interpose.startup.class_checks import CORE_CAPABILITIES
from interpose.startup.discovery import COMMANDS_GROUP, GROUP, HOST, ID, OFFERS_GROUP
from interpose.startup.uses import FIRST_PARTY

_ENTRIES: Final = f"[project.entry-points.{GROUP}]"
_COMMANDS: Final = f'[project.entry-points."{COMMANDS_GROUP}"]'
_OFFERS: Final = f'[project.entry-points."{OFFERS_GROUP}"]'
_OFFER: Final = "capability."
_ID: Final = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_CAPABILITY: Final = re.compile(rf"(?:{_ID}/)?{_ID}\Z")
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")

BUILT_IN: Final = frozenset({"application", "loop", "remote", "scripted"})
"""Ids that mean something of Interpose's own."""

_COMMON: Final = """\
    agent agents api app common config core docs example examples extension extractor
    filters guard helpers hooks layer layers lib main middleware middlewares model models
    plugin plugins provider providers redact scripts settings src test tests tools utils"""
GENERIC: Final = frozenset(_COMMON.split())
"""Names that two distributions may well choose for their package."""


def content_checks(subject: Subject) -> Iterator[Check]:
    """Make all of them."""
    entries = (*subject.papers.plugins, *subject.papers.commands)
    said = ", ".join(f"{entry.name} = {entry.value}" for entry in entries)
    yield checked("entry-points", said, _entry_points(subject))
    offers = ", ".join(entry.name.removeprefix(_OFFER) for entry in subject.papers.offers)
    yield checked("offers", offers or "none", _offers(subject))
    yield checked("package", ", ".join(subject.tops), _package(subject))
    yield checked("typed", "py.typed", _typed(subject))


def _entry_points(subject: Subject) -> Iterator[Problem]:
    where = (_ENTRIES,)
    plugins = subject.papers.plugins
    if not plugins:
        yield Problem(
            "plugin-entry-points",
            f'It has no entry point of the group "{GROUP}", so there is no plugin in it.',
            where,
            f'{_ENTRIES}\nmy-plugin = "my_package:MyMiddleware"',
        )
    yield from _twice(plugins, "plugin", where)
    for entry in plugins:
        yield from _id(entry, subject)
        yield from _value(entry, subject, "plugin", where)
    commands = subject.papers.commands
    yield from _twice(commands, "command", (_COMMANDS,))
    for entry in commands:
        yield from _command(entry)
        yield from _value(entry, subject, "command", (_COMMANDS,))


def _twice(entries: Iterable[Entry], kind: str, where: tuple[str]) -> Iterator[Problem]:
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            yield Problem(
                "plugin-entry-points", f'The {kind} "{name}" is declared twice.', where, "Keep one."
            )


def _command(entry: Entry) -> Iterator[Problem]:
    where = (_COMMANDS,)
    if not ID.match(entry.name):
        yield Problem(
            "plugin-entry-points",
            f'"{entry.name}" is no name of a command.',
            where,
            f'Use lower-case words, digits and single hyphens, as in "{_as_id(entry.name)}".',
        )
    elif entry.name in COMMANDS:
        yield Problem(
            "plugin-entry-points",
            f'The command "{entry.name}" is one of Interpose itself, which is the one that is run.',
            where,
            "Choose another name.",
        )


def _id(entry: Entry, subject: Subject) -> Iterator[Problem]:
    where = (_ENTRIES,)
    if not ID.match(entry.name):
        yield Problem(
            "plugin-entry-points",
            f'"{entry.name}" is no id: it is looked up in files and variables.',
            where,
            f'Use lower-case words, digits and single hyphens, as in "{_as_id(entry.name)}".',
        )
    elif entry.name in BUILT_IN:
        yield Problem(
            "plugin-entry-points",
            f'The id "{entry.name}" means something of Interpose itself.',
            where,
            "Choose another.",
        )
    elif entry.name in FIRST_PARTY and subject.papers.canonical != f"interpose-{entry.name}":
        yield Problem(
            "plugin-entry-points",
            f'The id "{entry.name}" is that of interpose-{entry.name}: who installs both has to '
            "write which one is meant.",
            where,
            "Choose another.",
            "warning",
        )


def _as_id(name: str) -> str:
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
    joined = "-".join(words)
    return joined if ID.match(joined) else "my-plugin"


def _value(entry: Entry, subject: Subject, kind: str, where: tuple[str]) -> Iterator[Problem]:
    module, colon, attribute = entry.value.partition(":")
    if not _DOTTED.match(module) or (colon and not _DOTTED.match(attribute)):
        yield Problem(
            "plugin-entry-points",
            f'The {kind} "{entry.name}" names {entry.value!r}, which is no module and no object.',
            where,
            'Write "package.module" or "package.module:object".',
        )
    elif not subject.has_module(module):
        near = nearest(module, _modules(subject))
        yield Problem(
            "plugin-entry-points",
            f'The {kind} "{entry.name}" names the module {module}, which is not in the wheel.',
            where,
            f"Did you mean {near}?"
            if near
            else "Add the module to the wheel, or correct the name.",
        )


def _modules(subject: Subject) -> Iterator[str]:
    for file in subject.files:
        if file.suffix == ".py":
            path = file.parent if file.name == "__init__.py" else file.with_suffix("")
            yield ".".join(path.parts)


def _offers(subject: Subject) -> Iterator[Problem]:
    where = (_OFFERS,)
    values = {entry.value for entry in subject.papers.plugins}
    for entry in subject.papers.offers:
        name = entry.name.removeprefix(_OFFER)
        if not entry.name.startswith(_OFFER) or not _CAPABILITY.match(name):
            yield Problem(
                "plugin-offers",
                f'"{entry.name}" offers nothing: the name of an offer is capability.<name>.',
                where,
                f'Write "capability.{subject.papers.canonical}/name".',
            )
        elif "/" not in name and name not in CORE_CAPABILITIES:
            yield Problem(
                "plugin-offers",
                f'The capability "{name}" has a name that belongs to Interpose.',
                where,
                f'Call it "{subject.papers.canonical}/{name}".',
            )
        if entry.value not in values:
            near = nearest(entry.value, values)
            yield Problem(
                "plugin-offers",
                f'"{entry.name}" is offered by {entry.value}, and no plugin has that value.',
                where,
                f'Write the plugin\'s own value: "{near}".'
                if near
                else "Write the plugin's own value.",
            )


def _package(subject: Subject) -> Iterator[Problem]:
    tops = subject.tops
    wanted = subject.papers.canonical.replace("-", "_")
    if not tops:
        yield Problem(
            "plugin-package",
            "There is no module in it.",
            (_name_of(subject),),
            "Tell the build backend what to pack.",
        )
    for top in tops:
        files = modules_of(subject.files, top)
        where = (str(files[0]),)
        if top == HOST:
            yield Problem(
                "plugin-package",
                "It has files in the package interpose, which is not its own.",
                where,
                f"Move them to a package of its own, as {wanted}.",
            )
        elif top in GENERIC and top != wanted:
            yield Problem(
                "plugin-package",
                f"It brings a top-level {top}, a name that other distributions choose, too: who is "
                "installed last overwrites the other.",
                where,
                f"Leave it out of the wheel, or move it into {wanted}.",
            )
        elif top in sys.stdlib_module_names:
            yield Problem(
                "plugin-package",
                f"Its package {top} hides that of Python.",
                where,
                f"Call it {wanted}.",
            )
        elif _is_namespace(files, top):
            yield Problem(
                "plugin-package",
                f"{top} has no __init__.py: it is a namespace package, which others may add to.",
                where,
                f"Add {top}/__init__.py.",
            )
    own = [top for top in tops if top == wanted or top not in {*GENERIC, HOST}]
    if len(own) > 1:
        yield Problem(
            "plugin-package",
            f"It has {len(own)} top-level packages ({', '.join(own)}), and a plugin has one.",
            (_name_of(subject),),
            f"Move them into {wanted if wanted in own else own[0]}.",
        )
    elif own and own[0] != wanted:
        yield Problem(
            "plugin-package",
            f"Its package is {own[0]}: only a name like the distribution's is sure to be free.",
            (_name_of(subject),),
            f"Call it {wanted}.",
            "warning",
        )


def _is_namespace(files: tuple[PurePosixPath, ...], top: str) -> bool:
    is_folder = any(len(file.parts) > 1 for file in files)
    return is_folder and PurePosixPath(top, "__init__.py") not in files


def _typed(subject: Subject) -> Iterator[Problem]:
    for file in subject.files:
        if len(file.parts) == 1 and file.suffix == ".py" and file.stem not in GENERIC:
            yield Problem(
                "plugin-typed",
                f"{file} stands alone, and only a package can say that it is typed.",
                (str(file),),
                f"Make it {file.stem}/__init__.py, with an empty file py.typed beside it.",
                "warning",
            )
    packages = {file.parts[0] for file in subject.files if file.name == "__init__.py"} - GENERIC
    for package in sorted(packages):
        if PurePosixPath(package, "py.typed") not in subject.files:
            yield Problem(
                "plugin-typed",
                f"{package} has no py.typed, so type checkers take all of it for Any.",
                (package,),
                f"Add an empty file {package}/py.typed.",
                "warning",
            )


def _name_of(subject: Subject) -> str:
    return subject.wheel.name if subject.wheel else str(subject.root)
