"""What ran it: facts about machine and Python that explain figures, and none that identify."""

from __future__ import annotations

import os
import platform
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import importlib_metadata

_OURS = ("interpose", "interpose-redact", "ag-ui-protocol", "pydantic", "regex", "starlette")
_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """``memory``: GiB. ``optimised``: whether Python was built so; None where it cannot tell."""

    system: str
    processor: str
    processors: int
    memory: float | None
    python: str
    optimised: bool | None


def machine() -> Machine:
    """Look at this machine, and at the Python that runs this."""
    return Machine(
        system=f"{platform.system()} {_release()}, {platform.machine()}",
        processor=_processor(),
        processors=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        memory=_memory(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        optimised=_optimised(),
    )


def versions() -> dict[str, str]:
    """Return the versions of Interpose and of what it stands on, as far as they are installed."""
    found = {}
    for name in _OURS:
        try:
            found[name] = importlib_metadata.version(name)
        except importlib_metadata.PackageNotFoundError:
            continue
    return found


def _release() -> str:
    """Return the version of the system alone: what follows it tells who built it."""
    numbers = re.match(r"[0-9]+(?:\.[0-9]+)*", platform.release())
    return numbers[0] if numbers else ""


def _processor() -> str:
    try:
        told = re.search(r"^model name\s*:\s*(.+)$", _CPU_INFO.read_text("utf-8"), re.MULTILINE)
    except OSError:
        told = None
    return told[1].strip() if told else platform.processor() or "not told"


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _optimised() -> bool | None:
    options = sysconfig.get_config_var("CONFIG_ARGS")
    return None if options is None else "--enable-optimizations" in options
