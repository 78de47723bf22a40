"""What one installed distribution says of itself: its entry points, name, version and needs.

An environment has hundreds of distributions, and each of them is looked at: so of most only one
small file is read, and nothing is parsed that nobody asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from importlib_metadata import PathDistribution

if TYPE_CHECKING:
    from importlib_metadata import IDistribution

_ENTRY_POINTS: Final = "entry_points.txt"
_HEADER: Final = re.compile(r"([!-9;-~]*):[ \t]*(.*)")
_NAME: Final = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_VERSION: Final = r"(?:[<>]=?|==|!=)\s*\d+(?:\.\d+)*"
_VERSIONS: Final = re.compile(rf"\s*{_VERSION}(?:\s*,\s*{_VERSION})*\s*\Z")
"""Ranges that mean what they say: no marker, no extra, no form that could be invalid."""


def place_of(raw: IDistribution) -> Path:
    """Return the folder, or the file, that holds the metadata."""
    # Nothing public names the folder of a distribution whose METADATA is missing.
    place = getattr(raw, "_path", None) or raw.locate_file("")
    return place if isinstance(place, Path) else Path(str(place))


def entry_points(
    raw: IDistribution, groups: Collection[str], *, thorough: bool = False
) -> Sequence[tuple[str, str, str]]:
    """Return the group, name and value of the entry points of some groups.

    Raises what reading them raises; for a file that mentions none of the groups, only if
    ``thorough``.
    """
    text = _text(raw, _ENTRY_POINTS) or ""
    if not thorough and not any(group in text for group in groups):
        return ()
    found: list[tuple[str, str, str]] = []
    group: str | None = None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif line and not line.startswith("#") and group is not None:
            name, equals, value = line.partition("=")
            if not equals:  # the library says what is wrong with it
                return [(each.group, each.name, each.value) for each in raw.entry_points]
            if group in groups:
                found.append((group, name.strip(), value.strip()))
    return found


def headers(raw: IDistribution) -> Mapping[str, Sequence[str]]:
    """Return the fields of METADATA by their names in lower case; none when there is no file.

    Raises what reading the file raises.
    """
    text = _text(raw, "METADATA") or raw.read_text("PKG-INFO") or raw.read_text("") or ""
    head = text.partition("\n\n")[0]
    is_folded = head.startswith((" ", "\t")) or "\n " in head or "\n\t" in head
    found: dict[str, list[str]] = {}
    for line in _unfolded(head) if is_folded else head.split("\n"):
        header = _HEADER.match(line)
        if header is None:
            break
        found.setdefault(header[1].lower(), []).append(header[2])
    return found


def _unfolded(head: str) -> Iterator[str]:
    """Yield the lines of the head of a message, those that go on in the next one joined."""
    joined: str | None = None
    for line in head.split("\n"):
        if not line.startswith((" ", "\t")):
            if joined is not None:
                yield joined
            joined = line
        elif joined is not None:
            joined = f"{joined} {line.strip()}"
    if joined is not None:
        yield joined


def needs(raw: IDistribution, found: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the requirements, as they are written. ``found``: the headers."""
    written = found.get("requires-dist")
    if written is None and raw.read_text("requires.txt"):  # the form before METADATA had them
        return raw.requires or ()
    return written or ()


def name_in(requirement: str) -> str:
    """Return the name that a requirement begins with; empty when it begins with none."""
    found = _NAME.match(requirement)
    return found[1] if found else ""


def plain_range(requirement: str) -> str | None:
    """Return the range in a requirement that is a name, or a name and a plain range, else None.

    In the form of :class:`packaging.specifiers.SpecifierSet`, whose import this saves.
    """
    name = _NAME.match(requirement)
    if name is None:
        return None
    rest = requirement[name.end() :]
    if not rest.strip():
        return ""
    if not _VERSIONS.match(rest):
        return None
    return ",".join(sorted({"".join(part.split()) for part in rest.split(",")}))


def _text(raw: IDistribution, name: str) -> str | None:
    """Read a file of the metadata, as ``read_text`` does; for what is in a folder, faster."""
    place = getattr(raw, "_path", None)
    if type(raw) is not PathDistribution or not isinstance(place, Path):
        return raw.read_text(name)
    try:
        with open(f"{place}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - much faster
            text = file.read().decode()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
