"""The reference pages that are written from the code, and how they are kept true to it.

``INTERPOSE_UPDATE_DOCS=1 pytest tests/test_docs_reference.py`` writes those that differ.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping

import reference_checks
import reference_cli
import reference_configuration
import reference_hooks
import reference_plan
import reference_python
from repository import ROOT

FOLDER = ROOT / "docs/reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "checks.md": reference_checks.page,
    "cli.md": reference_cli.page,
    "configuration.md": reference_configuration.page,
    "hooks.md": reference_hooks.page,
    "hookspecs.md": reference_hooks.hookspecs_page,
    "plan-json.md": reference_plan.page,
    "python.md": reference_python.page,
}
HEAD = "<!-- Written from the code: INTERPOSE_UPDATE_DOCS=1 pytest tests/test_docs_reference.py -->\n\n"


def written(name: str) -> str:
    """Write a page from the code, its blocks of Python formatted as all code here is."""
    page = HEAD + PAGES[name]().strip() + "\n"
    formatted = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", FOLDER / name, "-"],
        input=page,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return formatted.stdout
