"""Checks of what a distribution says about itself: its name, range, README, licence, Pythons."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from interpose._version import __version__
from interpose.cli.plugin_check.papers import Papers
from interpose.cli.plugin_check.results import Check, checked
from interpose.errors import Problem
from interpose.startup.discovery import HOST, canonical

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_SHORTEST: Final = 200
"""Characters of a README that says something."""
_LOWER: Final = frozenset({">=", ">", "~=", "=="})
_UPPER: Final = frozenset({"<", "<=", "~=", "=="})


def paper_checks(papers: Papers) -> Iterator[Check]:
    """Make all of them."""
    yield checked("name", f"{papers.name} {papers.version}", _name(papers))
    yield checked("range", str(_core(papers)[0]) if _core(papers) else "", _range(papers))
    yield checked("python", papers.one("Requires-Python"), _python(papers))
    yield checked("readme", f"{len(papers.readme)} characters", _readme(papers))
    yield checked("licence", _licence(papers), _licence_problems(papers))


def admits_interpose(papers: Papers) -> bool:
    """Say whether the declared range has the running version in it."""
    return _declared(papers).contains(__version__, prereleases=True)


def admits_python(papers: Papers) -> bool:
    """Say whether it may be installed on this Python. What cannot be read admits all."""
    try:
        declared = SpecifierSet(papers.one("Requires-Python"))
    except InvalidSpecifier:
        return True
    return declared.contains(platform.python_version(), prereleases=True)


def _declared(papers: Papers) -> SpecifierSet:
    always = [each for each in _core(papers) if each.marker is None]
    return SpecifierSet(",".join(str(each.specifier) for each in always if str(each.specifier)))


def _name(papers: Papers) -> Iterator[Problem]:
    where = ("[project] name",)
    if not _NAME.match(papers.name):
        yield Problem(
            "plugin-name",
            f"{papers.name!r} is no name of a distribution.",
            where,
            "Use a-z, 0-9 and -.",
        )
    elif papers.canonical == HOST:
        yield Problem("plugin-name", "The name interpose is taken.", where, "Choose another name.")
    elif papers.name != papers.canonical:
        yield Problem(
            "plugin-name",
            f"The name {papers.name} is not in its canonical form: names that differ in -, _, . or "
            "case are one, and capabilities and messages use the canonical one.",
            where,
            f'name = "{papers.canonical}"',
            "warning",
        )
    try:
        Version(papers.version)
    except InvalidVersion:
        yield Problem(
            "plugin-name",
            f"The version {papers.version!r} is none that pip understands.",
            ("[project] version",),
            'Write it as "1.2.3".',
        )
    for reason in papers.unreadable:
        yield Problem(
            "plugin-wheel",
            f"In the metadata, {reason}.",
            (papers.folder.name,),
            "Correct pyproject.toml.",
        )


def _core(papers: Papers) -> list[Requirement]:
    return [each for each in papers.requirements if canonical(each.name) == HOST]


def _range(papers: Papers) -> Iterator[Problem]:
    where = ("[project] dependencies",)
    release = Version(__version__).release
    advice = f'"interpose>={release[0]}.{release[1]},<{release[0] + 1}"'
    always = [each for each in _core(papers) if each.marker is None]
    if not always:
        yield Problem(
            "plugin-range",
            "It does not depend on interpose, so it may meet any version of it"
            + (": the requirement has a condition." if _core(papers) else "."),
            where,
            f"dependencies = [{advice}]",
        )
        return
    declared = _declared(papers)
    operators = {each.operator for each in declared}
    pinned = any(each.operator in ("==", "===") and "*" not in each.version for each in declared)
    if pinned:
        yield Problem(
            "plugin-range",
            f"It pins interpose{declared}: two plugins with different pins exclude each other.",
            where,
            f"Declare a range: {advice}.",
        )
        return
    missing = [
        bound
        for bound, those in (("lower", _LOWER), ("upper", _UPPER))
        if operators.isdisjoint(those)
    ]
    if missing:
        yield Problem(
            "plugin-range",
            f"interpose{declared} has no {' and no '.join(missing)} bound: only a range that ends "
            "before the next major version is one that the plugin can keep.",
            where,
            f"Declare a range: {advice}.",
        )
    if not admits_interpose(papers):
        yield Problem(
            "plugin-range",
            f"It is for another version of Interpose: required {declared}, running {__version__}.",
            where,
            f"Check it with a version in that range, or declare {advice}.",
        )


def _python(papers: Papers) -> Iterator[Problem]:
    where = ("[project] requires-python",)
    given = papers.one("Requires-Python")
    if not given:
        yield Problem(
            "plugin-python",
            "It does not say which Pythons it runs on, so pip installs it on any.",
            where,
            'requires-python = ">=3.11"',
        )
        return
    if not admits_python(papers):
        yield Problem(
            "plugin-python",
            f"It is not for this Python: required {given}, running {platform.python_version()}.",
            where,
            "Check it with a Python in that range.",
        )


def _readme(papers: Papers) -> Iterator[Problem]:
    where = ("[project] readme",)
    if not papers.readme:
        yield Problem(
            "plugin-readme",
            "It has no README in its metadata: its page on an index would be empty.",
            where,
            'readme = "README.md"',
        )
        return
    if len(papers.readme) < _SHORTEST:
        yield Problem(
            "plugin-readme",
            f"Its README has {len(papers.readme)} characters: it cannot say what the plugin does, "
            "how to switch it on, its settings, and what it changes.",
            where,
            "Write these four.",
        )
    if not papers.one("Description-Content-Type"):
        yield Problem(
            "plugin-readme",
            "Its README has no content type, so an index takes it for reStructuredText.",
            where,
            'Name the file, as in readme = "README.md"; its suffix says what it is.',
            "warning",
        )


def _licence(papers: Papers) -> str:
    classifiers = (c for c in papers.all("Classifier") if c.startswith("License ::"))
    return (
        papers.one("License-Expression")
        or next((c.rpartition(":: ")[2] for c in classifiers), "")
        or next(iter(papers.one("License").splitlines()), "")
        or ", ".join(papers.all("License-File"))
    )


def _licence_problems(papers: Papers) -> Iterator[Problem]:
    where = ("[project] license",)
    if not _licence(papers):
        yield Problem(
            "plugin-licence",
            "It has no licence, so nobody may use it.",
            where,
            'license = "MIT" (or another SPDX expression), and a file LICENSE.',
        )
        return
    files = papers.all("License-File")
    lost = [name for name in files if not _has_file(papers, name)]
    if lost:
        yield Problem(
            "plugin-licence",
            f"The licence file {lost[0]} is not in the wheel.",
            where,
            "Add the file.",
        )
    if not files:
        yield Problem(
            "plugin-licence",
            "Its licence has a name, and its text is not in the wheel.",
            ("[project] license-files",),
            'license-files = ["LICENSE"]',
            "warning",
        )


def _has_file(papers: Papers, name: str) -> bool:
    return any(
        (papers.folder / place / name).is_file() for place in ("licenses", "license_files", ".")
    )
