"""The reference page of the command line, from the grammar of its parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from markdown_text import block, code, table
from markdown_text import page as make_page

from interpose.cli import common, parser
from interpose.cli.exits import EXPLAINED


def page() -> str:
    """Return the page."""
    return make_page(
        "Command line",
        block("interpose [--config FILE] [--set KEY=VALUE] [--debug] COMMAND ...", "text"),
        "`python -m interpose` is the same. `interpose COMMAND --help` shows what is below.",
        table(
            ["command", "what it does"],
            [
                (f"[`{name}`](#{anchor(name)})", command.summary)
                for name, command in parser.COMMANDS.items()
            ],
        ),
        "Plugins may [add commands](../plugins.md#commands): `interpose --help` lists those of what "
        "is installed.",
        "## For every command",
        "These may stand before the command or after it.",
        _options(_common()),
        "## Exit codes",
        table(["code", "meaning"], _exits()),
        *(part for name in parser.COMMANDS for part in _command(name)),
    )


def anchor(command: str) -> str:
    """Return the anchor of a command's heading."""
    return f"interpose-{command}"


def _command(name: str) -> Iterator[str]:
    command = parser.COMMANDS[name]
    grammar = argparse.ArgumentParser(add_help=False)
    command.add(grammar)
    actions = grammar._actions
    yield f"## `interpose {name}`"
    yield block(" ".join(["interpose", name, *_usage(grammar)]), "text")
    yield _about(command.about)
    if actions:
        yield _options(actions)


def _about(text: str) -> str:
    """Write what is said about a command; indented lines are a list of words and meanings."""
    listed = re.findall(r"^  (\S+) +(.+)$", text, re.MULTILINE)
    told = " ".join(re.sub(r"^  .*$", "", text, flags=re.MULTILINE).split())
    return "\n".join([told, "", *(f"- {code(word)}: {meaning}" for word, meaning in listed)])


def _common() -> list[argparse.Action]:
    grammar = argparse.ArgumentParser(add_help=False)
    common.add(grammar)
    return grammar._actions


def _usage(grammar: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the arguments; those of which only one may be given stand together."""
    groups = {
        id(action): group
        for group in grammar._mutually_exclusive_groups
        for action in group._group_actions
    }
    done: set[int] = set()
    for action in grammar._actions:
        group = groups.get(id(action))
        if group is None:
            said = _form(action)
            yield f"[{said}]" if _is_optional(action) else said
        elif id(group) not in done:
            done.add(id(group))
            said = " | ".join(map(_form, group._group_actions))
            yield f"({said})" if group.required else f"[{said}]"


def _is_optional(action: argparse.Action) -> bool:
    return action.nargs in ("?", "*") if not action.option_strings else not action.required


def _form(action: argparse.Action) -> str:
    value = _value(action)
    return " ".join(filter(None, [*action.option_strings[:1], value]))


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        optional = action.option_strings and action.nargs == "?"
        return f"[{action.metavar}]" if optional else str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _options(actions: list[argparse.Action]) -> str:
    return table(
        ["argument", "meaning"],
        [(code(_form(action)), _help(action)) for action in actions],
    )


def _help(action: argparse.Action) -> str:
    said = (action.help or "").replace("%%", "%")
    if action.default not in (None, False, argparse.SUPPRESS, []) and "default" not in said:
        said += f" (default: {action.default})"
    return re.sub(r"(?<![`\w])(--[a-z][a-z-]*(?:[ =][\w.=-]+\b)?)", r"`\1`", said)


def _exits() -> Iterator[tuple[str, str]]:
    for line in EXPLAINED.splitlines()[1:]:
        number, _, meaning = line.strip().partition(" ")
        yield code(number), meaning.strip()
