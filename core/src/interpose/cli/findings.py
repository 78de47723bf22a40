"""What ``interpose verify`` finds, as text that is printed at once or as one JSON document."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any, Final

from interpose.cli.terminal import paint, visible
from interpose.errors import Problem, render

_MOST: Final = 1000
"""How many violations, and how many warnings, the JSON document lists; the rest is counted."""


class Findings:
    """Takes what is found as it is found, and says at the end what it comes to.

    ``name``: what is verified, for the verdict. A violation ``index`` counts events from 0.
    """

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._counts = {"violations": 0, "warnings": 0}
        self._listed: dict[str, list[dict[str, Any]]] = {"violations": [], "warnings": []}
        self._failure: Problem | None = None
        self.events = 0

    @property
    def ok(self) -> bool:
        """Whether nothing but warnings was found."""
        return self._failure is None and not self._counts["violations"]

    def violation(self, rule: str, message: str, index: int | None, where: str) -> None:
        """Take a violation of ``rule``; without an index it is one of the stream as a whole."""
        place = (where,) if where else ()
        self._take("violations", {"index": index, "rule": rule, "message": message, "where": where})
        self._print(Problem(rule, _at_event(index, message), place))

    def warning(self, message: str, index: int, where: str) -> None:
        """Take something that a reader of AG-UI 1.0 removes or converts."""
        self._take("warnings", {"index": index, "message": message, "where": where})
        self._print(
            Problem(
                "tolerated", _at_event(index, message), (where,) if where else (), "", "warning"
            )
        )

    def failure(self, problem: Problem) -> None:
        """Take what kept the stream from being read to its end."""
        self._failure = problem
        self._print(problem)

    def end(self) -> None:
        """Say what it comes to."""
        if self._as_json:
            left_out = {
                kind: count - len(self._listed[kind]) for kind, count in self._counts.items()
            }
            failure = None if self._failure is None else asdict(self._failure)
            told = {"ok": self.ok, "events": self.events, **self._listed, "omitted": left_out}
            print(json.dumps({**told, "failure": failure}, indent=2, ensure_ascii=False))
            return
        counts = [_count(self.events, "event")]
        counts += [_count(n, kind[:-1]) for kind, n in self._counts.items() if n]
        print(f"{'ok: ' if self.ok else ''}{self._name}: {', '.join(counts)}")

    def _take(self, kind: str, found: dict[str, Any]) -> None:
        self._counts[kind] += 1
        if self._as_json and len(self._listed[kind]) < _MOST:
            self._listed[kind].append(found)

    def _print(self, problem: Problem) -> None:
        if not self._as_json:
            print(paint(visible(render([problem])), sys.stdout), end="\n\n", flush=True)


def _at_event(index: int | None, message: str) -> str:
    return message if index is None else f"event {index}: {message}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
