"""``interpose version``."""

from __future__ import annotations

import argparse
import sys

from interpose._version import __version__
from interpose.cli.exits import OK


def main(_arguments: argparse.Namespace) -> int:
    """Print the versions that a report of a problem should name."""
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"interpose {__version__} (Python {python})")
    return OK
