"""What is checked: a project folder, a wheel, or an installed distribution."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from interpose.cli.plugin_check.papers import Papers, read_papers
from interpose.errors import Problem, UsageError, nearest
from interpose.startup.discovery import canonical

Kind = Literal["project", "wheel", "installed"]


@dataclass(frozen=True, slots=True)
class Target:
    """What the command line names, before anything of it is read."""

    kind: Kind
    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """A distribution whose files can be read.

    ``root``: the folder that its modules are imported from. ``files``: its files, relative to
    ``root``, without its papers. ``wheel``: the file, where there is one.
    """

    papers: Papers
    root: Path
    files: tuple[PurePosixPath, ...]
    wheel: Path | None = None

    @property
    def tops(self) -> tuple[str, ...]:
        """The top-level packages and modules that it brings, sorted."""
        found = {file.parts[0] if len(file.parts) > 1 else file.name for file in self.files}
        return tuple(sorted({name.partition(".")[0] for name in found if _is_importable(name)}))

    def sources(self) -> Iterator[tuple[PurePosixPath, str]]:
        """Yield each Python file with its text; one that is not UTF-8 as far as it goes."""
        for file in self.files:
            if file.suffix == ".py":
                yield file, (self.root / file).read_text(encoding="utf-8", errors="replace")

    def has_module(self, module: str) -> bool:
        """Say whether a module, by its dotted name, is among the files."""
        base = PurePosixPath(*module.split("."))
        candidates = {base.with_suffix(".py"), base / "__init__.py"}
        compiled = (
            file.suffix in (".so", ".pyd") and file.parent == base.parent
            for file in self.files
            if file.name.partition(".")[0] == base.name
        )
        return not candidates.isdisjoint(self.files) or any(compiled)


def find_target(given: str) -> Target:
    """Say what the command line means. Raises :class:`UsageError` when it means nothing."""
    path = Path(given)
    if path.is_dir():
        if (path / "pyproject.toml").is_file() or (path / "setup.py").is_file():
            return Target("project", given, path.resolve())
        if path.name != given:
            raise UsageError(
                f"{given} is a folder without a pyproject.toml.",
                hint="Name the folder of the plugin's project, a wheel, or a distribution.",
            )
    if path.is_file():
        if path.suffix == ".whl":
            return Target("wheel", given, path.resolve())
        raise UsageError(
            f"{given} is a file, and no wheel.",
            hint="Name a .whl file, the folder of a project, or an installed distribution.",
        )
    if path.suffix == ".whl" or path.name != given:
        raise UsageError(f"There is no {given}.", hint="Check the path.")
    return Target("installed", given, _dist_info(given))


def installed_distributions() -> Mapping[str, Path]:
    """Return the ``.dist-info`` folder of each installed distribution, by its canonical name."""
    known: dict[str, Path] = {}
    for entry in sys.path:
        for folder in sorted(Path(entry or ".").glob("*.dist-info")):
            known.setdefault(canonical(folder.name.partition("-")[0]), folder.resolve())
    return known


def _dist_info(name: str) -> Path:
    known = installed_distributions()
    found = known.get(canonical(name))
    if found is not None:
        return found
    near = nearest(canonical(name), known)
    raise UsageError(
        f"No distribution {name} is installed here, and there is no such folder.",
        hint=f"Did you mean {near}?" if near else "Name a project's folder or a wheel.",
    )


def unpacked(wheel: Path, folder: Path) -> Subject | Problem:
    """Unpack a wheel into ``folder`` and read its papers, or say what is wrong with it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [PurePosixPath(name) for name in archive.namelist() if name[-1:] != "/"]
            outside = [name for name in names if name.is_absolute() or ".." in name.parts]
            if outside:
                return _bad_wheel(wheel, f"it has a file outside of itself: {outside[0]}")
            archive.extractall(folder)
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        return _bad_wheel(wheel, f"it cannot be unpacked ({type(error).__name__}: {error})")
    infos = sorted({name.parts[0] for name in names if name.parts[0].endswith(".dist-info")})
    if len(infos) != 1:
        return _bad_wheel(wheel, f"it has {len(infos)} .dist-info folders, and one is due")
    papers = read_papers(folder / infos[0])
    if isinstance(papers, str):
        return _bad_wheel(wheel, papers)
    return Subject(papers, folder, tuple(_own(names)), wheel)


def installed(info: Path) -> Subject | Problem:
    """Read an installed distribution where it is, also one that is editable."""
    papers = read_papers(info)
    if isinstance(papers, str):
        return Problem(
            "plugin-wheel", f"{papers}.", (str(info),), "Install the distribution again."
        )
    recorded = tuple(_own(_recorded(info)))
    if any(file.suffix == ".py" for file in recorded):
        return Subject(papers, info.parent, recorded)
    # An editable install records a link to its sources; the finder knows where that leads.
    root, files = _linked({entry.module.partition(".")[0] for entry in papers.entries})
    return Subject(papers, root or info.parent, files)


def _recorded(info: Path) -> Iterator[PurePosixPath]:
    record = info / "RECORD"
    lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    for line in lines:
        name = line.rsplit(",", 2)[0].strip('"')
        if name and not name.startswith(("..", "/")):
            yield PurePosixPath(name)


def _linked(tops: Iterable[str]) -> tuple[Path | None, tuple[PurePosixPath, ...]]:
    roots: list[Path] = []
    files: list[PurePosixPath] = []
    for top in sorted(tops):
        origin = _origin(top)
        if origin is None:
            continue
        is_package = origin.name == "__init__.py"
        root = origin.parents[1] if is_package else origin.parent
        roots.append(root)
        inside = sorted(origin.parent.rglob("*")) if is_package else [origin]
        files += (PurePosixPath(p.relative_to(root).as_posix()) for p in inside if p.is_file())
    return (roots[0] if roots else None), tuple(_own(files))


def _origin(top: str) -> Path | None:
    """Find a top-level module's file. A name without a dot is found without importing anything."""
    finders: list[Any] = [
        PathFinder,
        *(finder for finder in sys.meta_path if finder is not PathFinder),
    ]
    for finder in finders:
        spec = finder.find_spec(top, None)
        if spec is not None and spec.origin and Path(spec.origin).is_file():
            return Path(spec.origin).resolve()
    return None


def _own(names: Iterable[PurePosixPath]) -> Iterator[PurePosixPath]:
    for name in names:
        first = name.parts[0]
        if not first.endswith((".dist-info", ".data", ".pth")) and "__pycache__" not in name.parts:
            yield name


def _is_importable(name: str) -> bool:
    stem, dot, _ = name.partition(".")
    return stem.isidentifier() and (not dot or name.endswith((".py", ".so", ".pyd")))


def _bad_wheel(wheel: Path, why: str) -> Problem:
    return Problem(
        "plugin-wheel", f"{wheel.name} is no sound wheel: {why}.", (wheel.name,), "Build it again."
    )


def modules_of(files: Sequence[PurePosixPath], top: str) -> tuple[PurePosixPath, ...]:
    """Return the files of one top-level package or module."""
    return tuple(f for f in files if f.parts[0] == top or f.name.partition(".")[0] == top)
