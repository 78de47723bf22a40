"""The grammar of the command line.

Imports nothing but argparse, so that the help of a command is instant. What plugins add is looked
for only where a word is no command of Interpose itself, or where the list of all is wanted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from interpose._version import __version__
from interpose.cli import common
from interpose.cli.exits import EXPLAINED

_ABOUT: Final = "Run AI agents through middleware: ordered, configured and explained at startup."
_START: Final = """\
start here:
  interpose demo           see a chain at work, offline
  interpose plugins        what is installed, and how to switch it on
  interpose check          is the configuration right?
  interpose run "hello"    run the agent of interpose.toml"""
_HELP: Final = ("-h", "--help")

ASKED: Final = "interpose_command"
"""The attribute with the :class:`Command` that was asked for."""


class Command(NamedTuple):
    """One command: the module that does it, a line and a paragraph about it, its arguments.

    ``main``: what does it, for a command of a plugin, which has been imported already.
    """

    module: str
    summary: str
    about: str
    add: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int] | None = None


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ``interpose_command`` says who does it. Exits as argparse does.

    Raises :class:`StartupError` when it asks for a command of a plugin that cannot be used.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    first = _first(words)
    parser = argparse.ArgumentParser(
        prog="interpose",
        description=_ABOUT,
        epilog=_epilog(lists_all=first in _HELP),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"interpose {__version__}")
    common.add(parser, common.BEFORE)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    known = COMMANDS
    if not (first is None or first in COMMANDS or first in _HELP):
        from interpose.cli.plugin_commands import find

        known = COMMANDS | {first: find(first, parser.error)}
    for name, command in known.items():
        sub = commands.add_parser(
            name,
            help=command.summary,
            description=command.about,
            epilog=EXPLAINED,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        common.add(sub)
        command.add(sub)
        sub.set_defaults(**{ASKED: command})
        if command.main is None:
            sub.set_defaults(command=name)
    return common.joined(parser.parse_args(words))


def _first(words: Sequence[str]) -> str | None:
    """Return the word that names the command, or asks for the help of all; None: neither does."""
    rest = iter(words)
    for word in rest:
        if word in common.TAKE_VALUES:
            next(rest, None)
        elif word == "--version":
            break
        elif word in _HELP or not word.startswith("-"):
            return word
    return None


def _epilog(*, lists_all: bool) -> str:
    added = ""
    if lists_all:
        from interpose.cli.plugin_commands import listed

        added = listed()
    return "\n\n".join(filter(None, [added, _START, EXPLAINED]))


def _json(parser: argparse.ArgumentParser, of: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print {of} as JSON")


def _agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent", metavar="ID", help="which agent (default: `default`, or the only one)"
    )


def _run(parser: argparse.ArgumentParser) -> None:
    asked: Any = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("text", nargs="?", metavar="TEXT", help="what the user says")
    asked.add_argument(
        "--input", metavar="FILE", help="a whole RunAgentInput as JSON; - is standard input"
    )
    _agent(parser)
    parser.add_argument(
        "--replay",
        metavar="FILE",
        help="play recorded events (JSON lines, SSE or a JSON array) in the agent's place",
    )
    parser.add_argument("--thread", metavar="ID", help="the conversation (default: a new one)")
    parser.add_argument(
        "--trace",
        action="store_true",
        help="say on standard error what each layer did to the events; never their content",
    )
    _json(parser, "one AG-UI event a line,")


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", metavar="PORT", help="the port to listen on (default: 8000; 0: a free one)"
    )
    parser.add_argument(
        "--expose-plan", action="store_true", help="show the plan as JSON at GET /plan"
    )


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="FILE|URL",
        help="a recording (JSON lines, SSE or a JSON array; - is standard input), or an endpoint",
    )
    asked: Any = parser.add_argument_group("for an endpoint")
    said = asked.add_mutually_exclusive_group()
    said.add_argument("text", nargs="?", metavar="TEXT", help="what the user says (default: hello)")
    said.add_argument(
        "--input", metavar="FILE", help="a whole RunAgentInput as JSON; - is standard input"
    )
    asked.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="send a header"
    )
    asked.add_argument(
        "--header-env",
        metavar="NAME=VARIABLE",
        action="append",
        default=[],
        help="send a header whose value is in a variable, so that no list of processes shows it",
    )
    asked.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="how long the whole stream may take (default: 60)",
    )
    _json(parser, "what is found")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError
    return seconds


_seconds.__name__ = "number of seconds"  # what argparse calls it: "invalid number of seconds value"


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "agent",
        nargs="?",
        metavar="AGENT",
        help="which agent (default: `default`, or the only one)",
    )
    parser.add_argument(
        "--format", choices=("text", "json", "mermaid"), default="text", help="how to write it"
    )


def _why(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a layer")
    parser.add_argument("b", metavar="B", help="another layer")
    _agent(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--locked",
        metavar="FILE",
        nargs="?",
        const="",
        help="also report what differs from a lock that `interpose lock` wrote "
        "(default: interpose.lock beside the first config file)",
    )
    _json(parser, "the problems")


def _lock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the lock to write (default: interpose.lock beside the first config file)",
    )


def _new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the name of the distribution, as interpose-word-mask"
    )
    parser.add_argument(
        "--kind",
        choices=("stream", "loop", "provider", "agent", "several", "local"),
        default="stream",
        help="what it is (default: stream)",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="where to write it (default: a new folder NAME; for local: here)",
    )


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loop",
        action="store_true",
        help="show the agent loop instead: a model, tools, and a call that a person approves",
    )


def _check_plugin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="PATH|WHEEL|DISTRIBUTION",
        help="the folder of a project, a .whl file, or the name of what is installed",
    )
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="load it with what is installed here, which needs no index",
    )
    parser.add_argument("--strict", action="store_true", help="take warnings for errors")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="how long loading the plugin may take (default: 60)",
    )
    _json(parser, "the checks")


def _nothing(_parser: argparse.ArgumentParser) -> None:
    """Take no arguments of its own."""


COMMANDS: Final = {
    "demo": Command(
        "demo",
        "see a chain at work, offline",
        "Switch on the first plugins that are installed, show their plan, and play a scripted\n"
        "run through them. Needs no file and no network, and ignores those of this folder.",
        _demo,
    ),
    "run": Command(
        "run",
        "run an agent through its layers",
        "Run an agent through its layers. What the assistant says goes to standard output,\n"
        "logs and failures go to standard error. Ctrl-C cancels the run in good order.",
        _run,
    ),
    "serve": Command(
        "serve",
        "serve the agents over HTTP",
        "Serve the agents as AG-UI endpoints: POST / and POST /agents/<id> take an input as JSON\n"
        "and answer with server-sent events. On loopback only, unless --host or [server] says\n"
        "otherwise. SIGTERM and Ctrl-C let open runs end, then stop; Ctrl-C again does not wait.",
        _serve,
    ),
    "verify": Command(
        "verify",
        "find what breaks the rules of AG-UI in a recording or at an endpoint",
        "Find every violation of the rules of AG-UI, with the number of the event and the rule:\n"
        "in a recording, or in what an endpoint streams when it is asked. Content that AG-UI\n"
        "does not describe is a warning. Needs no configuration.",
        _verify,
    ),
    "plugins": Command(
        "plugins",
        "list what is installed, and how to switch it on",
        "List every installed plugin; for one that is not active, the TOML that switches it on.\n"
        "Imports none of them.",
        lambda parser: _json(parser, "the list"),
    ),
    "plan": Command(
        "plan",
        "show the layers in order, and why",
        "Show the layers of an agent in order, outermost first: why each sits there, what it\n"
        "sees, what it needs, and where its settings came from.",
        _plan,
    ),
    "why": Command(
        "plan",
        "explain the order of two layers",
        "Explain why one layer is outside another: each edge between them, who declared it,\n"
        "and what each of the two sees.",
        _why,
    ),
    "new": Command(
        "new",
        "begin a plugin that installs, passes its tests and works",
        "Write a plugin to start from: settings, tests that go through the contract, a README, a\n"
        "file and a recording to try it on. The kinds:\n"
        "  stream    changes text in the stream, also where chunks cut it\n"
        "  loop      decides about tool calls of the built-in loop, and wraps them\n"
        "  provider  provides a capability that middlewares of others can require\n"
        "  agent     an agent with settings\n"
        "  several   two middlewares and a provider that they share\n"
        "  local     one file in an application, used by module:Class, without a package",
        _new,
    ),
    "check": Command(
        "check",
        "find every mistake in the configuration",
        "Go through all of startup, but start nothing. Shows every problem at once; with --locked\n"
        "also every difference from a lock: versions, order, settings, points, capabilities.",
        _check,
    ),
    "lock": Command(
        "lock",
        "write down what runs, for `check --locked`",
        "Write what the configuration comes to: each distribution with its version, the layers in\n"
        "order, the points, and a digest of each setting that is given; never of a secret. Keep\n"
        "the file in version control: `interpose check --locked` fails when what would run\n"
        "differs from it. Writes nothing while there are problems, or when nothing changed.",
        _lock,
    ),
    "config": Command(
        "settings",
        "show each setting and where it came from",
        "Show each setting in force and where its value came from. Secrets are masked.",
        lambda parser: _json(parser, "the settings"),
    ),
    "schema": Command(
        "settings",
        "print the JSON Schema of the config file",
        "Print the JSON Schema of the config file, for editors: with the settings of the\n"
        "plugins that are active.",
        _nothing,
    ),
    "doctor": Command(
        "doctor",
        "look for damage in the installation",
        "Look for damaged distributions, for plugins that are installed twice, and for plugins\n"
        "that are built for another version of Interpose. Imports none of them.",
        lambda parser: _json(parser, "the findings"),
    ),
    "check-plugin": Command(
        "check_plugin",
        "check a plugin before it is published",
        "Build a plugin's wheel, read it, install it into a clean environment and load it there:\n"
        "entry points, offers, package, range, imports, README, licence, hooks, settings and what\n"
        "it does when it is imported. The plugin runs in processes of their own. --set gives it\n"
        "settings for the plan.",
        _check_plugin,
    ),
    "version": Command(
        "version",
        "print the versions of Interpose and Python",
        "Print the versions of Interpose and of the Python that runs it.",
        _nothing,
    ),
}
"""Every command, in the order in which ``--help`` lists them."""
