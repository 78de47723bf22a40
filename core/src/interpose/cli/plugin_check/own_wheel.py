"""The running Interpose as a wheel, so that a clean environment has exactly this one.

It is packed from the installed files, editable or not: an index may not have this version, and a
build would need what builds it.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import interpose
from interpose._version import __version__

_WHEEL = """\
Wheel-Version: 1.0
Generator: interpose check-plugin
Root-Is-Purelib: true
Tag: py3-none-any
"""
_LEFT_OUT = {"RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json"}


def pack(folder: Path) -> Path | str:
    """Write the wheel into ``folder``; without metadata here, return what to ask an index for."""
    info = _dist_info()
    if info is None:
        return f"interpose=={__version__}"
    wheel = folder / f"interpose-{__version__}-py3-none-any.whl"
    name = f"interpose-{__version__}.dist-info"
    record: list[str] = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for target, content in (
            *_package(),
            *_papers(info, name),
            (f"{name}/WHEEL", _WHEEL.encode()),
        ):
            archive.writestr(target, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{target},sha256={digest.decode()},{len(content)}\n")
        archive.writestr(f"{name}/RECORD", "".join([*record, f"{name}/RECORD,,\n"]))
    return wheel


def _package() -> Iterator[tuple[str, bytes]]:
    package = Path(interpose.__file__).parent
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"interpose/{path.relative_to(package).as_posix()}", path.read_bytes()


def _papers(info: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(info.rglob("*")):
        relative = path.relative_to(info).as_posix()
        if path.is_file() and relative not in _LEFT_OUT:
            yield f"{name}/{relative}", path.read_bytes()


def _dist_info() -> Path | None:
    name = f"interpose-{__version__}.dist-info"
    found = (Path(entry or ".") / name for entry in sys.path)
    return next((info for info in found if (info / "METADATA").is_file()), None)
