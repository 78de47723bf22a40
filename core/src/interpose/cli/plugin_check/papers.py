"""What a distribution says about itself: the files of its ``.dist-info`` folder.

:mod:`interpose.startup.discovery` reads what is installed, for the host. Here one distribution is
looked at that need not be installed, and more closely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from interpose.startup.discovery import COMMANDS_GROUP, GROUP, OFFERS_GROUP, canonical


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry point as it is written; ``value`` is without its extras."""

    group: str
    name: str
    value: str

    @property
    def module(self) -> str:
        """The module that it names."""
        return self.value.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Papers:
    """The metadata of one distribution. ``folder``: its ``.dist-info``.

    ``unreadable``: why an entry point file or a requirement could not be read.
    """

    folder: Path
    name: str
    version: str
    fields: Message = field(repr=False)
    entries: tuple[Entry, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def canonical(self) -> str:
        """The name in the form in which names compare."""
        return canonical(self.name)

    @property
    def readme(self) -> str:
        """The long description."""
        return str(self.fields.get_payload() or "").strip() or self.one("Description")

    @property
    def plugins(self) -> tuple[Entry, ...]:
        """Its plugins."""
        return tuple(entry for entry in self.entries if entry.group == GROUP)

    @property
    def offers(self) -> tuple[Entry, ...]:
        """The static index of what its plugins provide."""
        return tuple(entry for entry in self.entries if entry.group == OFFERS_GROUP)

    @property
    def commands(self) -> tuple[Entry, ...]:
        """What it adds to the command line."""
        return tuple(entry for entry in self.entries if entry.group == COMMANDS_GROUP)

    def one(self, name: str) -> str:
        """Return a field that occurs once; "" when it does not."""
        return str(self.fields.get(name) or "").strip()

    def all(self, name: str) -> tuple[str, ...]:
        """Return a field that may be repeated."""
        return tuple(str(value).strip() for value in self.fields.get_all(name) or ())


def read_papers(folder: Path) -> Papers | str:
    """Read a ``.dist-info`` folder, or say why it is none."""
    try:
        text = (folder / "METADATA").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"{folder.name} has no METADATA that can be read ({type(error).__name__})"
    fields = HeaderParser().parsestr(text)
    name, version = fields.get("Name"), fields.get("Version")
    if not name or not version:
        return f"{folder.name}/METADATA has no {'Version' if name else 'Name'}"
    unreadable: list[str] = []
    entries = tuple(_entries(folder / "entry_points.txt", unreadable))
    requirements = tuple(_requirements(fields.get_all("Requires-Dist") or (), unreadable))
    return Papers(
        folder, name.strip(), version.strip(), fields, entries, requirements, tuple(unreadable)
    )


def _entries(file: Path, unreadable: list[str]) -> Iterator[Entry]:
    """Read each line, also two with one name, of which a reader of INI files keeps the last."""
    group = ""
    for number, line in enumerate(_lines(file, unreadable), 1):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
            continue
        name, is_entry, value = line.partition("=")
        if line and not line.startswith(("#", ";")) and not (is_entry and group):
            unreadable.append(f"line {number} of entry_points.txt is no entry point")
        elif is_entry and group in (GROUP, OFFERS_GROUP, COMMANDS_GROUP):
            yield Entry(group, name.strip(), value.partition("[")[0].replace(" ", ""))


def _lines(file: Path, unreadable: list[str]) -> list[str]:
    if not file.is_file():
        return []
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        unreadable.append(f"entry_points.txt cannot be read ({type(error).__name__})")
        return []
    return [line.strip() for line in text.splitlines()]


def _requirements(given: list[str] | tuple[()], unreadable: list[str]) -> Iterator[Requirement]:
    for text in given:
        try:
            yield Requirement(text)
        except InvalidRequirement:
            unreadable.append(f"the requirement {text!r} cannot be read")
