"""``interpose check-plugin``: whether a plugin is fit to be published."""

from __future__ import annotations

import argparse

from interpose.cli.exits import OK, PROBLEMS
from interpose.cli.plugin_check.checking import LOADING, Wishes, check_plugin
from interpose.cli.plugin_check.report import as_json, as_text, has_failed
from interpose.cli.plugin_check.subject import find_target


def main(arguments: argparse.Namespace) -> int:
    """Make every check, and print what each one found."""
    wishes = Wishes(not arguments.no_install, arguments.set, arguments.timeout or LOADING)
    checked = check_plugin(find_target(arguments.target), wishes)
    write = as_json if arguments.json else as_text
    print(write(checked, strict=arguments.strict))
    return PROBLEMS if has_failed(checked, strict=arguments.strict) else OK
