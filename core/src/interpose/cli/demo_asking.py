"""Asking whoever watches the demo about a tool call; without a terminal the answer is yes."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import Interrupt, ResumeEntry

from interpose.cli.exits import INTERRUPTED, OK
from interpose.loop.continuation import TOOL

_ASKED: Final = "Approve? [y]es, [n]o, [e]dit the arguments: "
_BY_DEFAULT: Final = "yes (answered by the demo: nobody is at a terminal)"

_LOOK_UP: Final = 0.1
"""Seconds after which a waiting demo looks whether it was interrupted."""

Validate = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Checks edited arguments; raises ValueError."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question, as a resume entry, and the exit code that it leads to."""

    entry: ResumeEntry
    code: int = OK


def ask(interrupt: Interrupt, validate: Validate) -> Answered:
    """Ask about an approval. The end of the input, or Ctrl-C, cancels it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"{_ASKED}{_BY_DEFAULT}")
        return Answered(_resolved(interrupt, {"approved": True}))
    try:
        payload = _asked(_arguments(interrupt), validate)
    except (EOFError, KeyboardInterrupt) as left:
        print()
        entry = ResumeEntry(interrupt_id=interrupt.id, status="cancelled")
        return Answered(entry, OK if isinstance(left, EOFError) else INTERRUPTED)
    return Answered(_resolved(interrupt, payload))


def _asked(arguments: Mapping[str, Any], validate: Validate) -> dict[str, Any]:
    while True:
        word = _line(_ASKED).strip().lower()
        if word in ("y", "yes", ""):
            return {"approved": True}
        if word in ("n", "no"):
            reason = _line("Why not? (The model reads it.) ").strip()
            return {"approved": False, **({"reason": reason} if reason else {})}
        if word in ("e", "edit"):
            edited = _edited(arguments, validate)
            if edited is not None:
                return {"approved": True, "editedArgs": edited}


def _edited(arguments: Mapping[str, Any], validate: Validate) -> Mapping[str, Any] | None:
    print(f"Now: {json.dumps(arguments, ensure_ascii=False)}")
    text = _line("The arguments instead, as JSON: ")
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("a JSON object is expected")  # noqa: TRY004 - told like the others
        validate(found)
    except ValueError as error:
        print(f"That does not do: {error}")
        return None
    return found


def _line(prompt: str) -> str:
    """Return a line that is typed, without its end. Raises EOFError when there is none.

    ``input`` alone may miss a Ctrl-C that comes just as it begins to wait, so the wait is ours.
    """
    if sys.platform == "win32":  # consoles cannot be waited for there
        return input(prompt)
    print(prompt, end="", flush=True)
    while not select.select([sys.stdin], [], [], _LOOK_UP)[0]:
        pass
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _arguments(interrupt: Interrupt) -> Mapping[str, Any]:
    shown = (interrupt.metadata or {}).get(TOOL, {})
    return dict(shown.get("arguments", {}))


def _resolved(interrupt: Interrupt, payload: Mapping[str, Any]) -> ResumeEntry:
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=dict(payload))
