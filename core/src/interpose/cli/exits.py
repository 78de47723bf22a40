"""What the exit codes mean."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""All is well."""
PROBLEMS: Final = 1
"""Problems were found, or the run failed."""
USAGE: Final = 2
"""The command line itself was wrong."""
INTERRUPTED: Final = 130
"""Ended by Ctrl-C, as shells report it."""
CLOSED: Final = 141
"""Nobody reads the output any more (a closed pipe), as shells report it."""

EXPLAINED: Final = """\
exit codes:
  0    all is well
  1    problems were found, or the run failed
  2    the command line was wrong
  130  interrupted (Ctrl-C)
  141  the reader of the output went away"""
