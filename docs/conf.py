"""How Sphinx builds the site: ``python -m sphinx -W -n -b html docs docs/_build/html``."""

# ruff: noqa: INP001 - Sphinx reads files, not a package

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for repository_links

project = "Interpose"
author = "the Interpose authors"
copyright = author  # noqa: A001 - the name that Sphinx asks for
extensions = ["myst_parser", "repository_links"]
exclude_patterns = ["_build"]

myst_heading_anchors = 4  # `page.md#heading`, as on a code host
nitpicky = True

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
