"""The options that every command takes: before it, after it, and after a word of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

BEFORE: Final = "_before"
BELOW: Final = "_below"
"""What the names end with, where they stand: of two with one name, argparse keeps the later."""

NAMES: Final = ("config", "set", "debug")
TAKE_VALUES: Final = ("--config", "--set")


def add(parser: argparse.ArgumentParser, suffix: str = "") -> None:
    """Add the options to a parser; ``suffix`` to their names."""
    common = parser.add_argument_group("configuration")
    common.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        dest=f"config{suffix}",
        help="the config file; again for overlays over it (default: interpose.toml here)",
    )
    common.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest=f"set{suffix}",
        help="override one setting, as --set middleware.redact.enabled=false; repeatable",
    )
    common.add_argument(
        "--debug",
        action="store_true",
        dest=f"debug{suffix}",
        help="show the traceback of what goes wrong",
    )


def add_below(parser: argparse.ArgumentParser) -> None:
    """Add them to each word that a command takes for a command of its own."""
    for below, suffix in parsers_below(parser):
        add(below, suffix)


def parsers_below(
    parser: argparse.ArgumentParser, suffix: str = ""
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Yield each parser of a word below ``parser``, with the suffix of the names there."""
    for action in actions(parser):
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no other name
            for below in dict.fromkeys(action.choices.values()):  # a word may have aliases
                yield below, suffix + BELOW
                yield from parsers_below(below, suffix + BELOW)


def actions(parser: argparse.ArgumentParser) -> tuple[argparse.Action, ...]:
    """Return the arguments that a parser takes."""
    return tuple(parser._actions)  # noqa: SLF001 - nothing public tells them


def joined(arguments: argparse.Namespace) -> argparse.Namespace:
    """Put together what was given in different places."""
    given = vars(arguments)
    suffixes = [BEFORE, ""]
    while f"debug{suffixes[-1]}{BELOW}" in given:
        suffixes.append(f"{suffixes[-1]}{BELOW}")
    for name in ("config", "set"):
        setattr(arguments, name, [each for suffix in suffixes for each in given[name + suffix]])
    arguments.debug = any(given[f"debug{suffix}"] for suffix in suffixes)
    return arguments
