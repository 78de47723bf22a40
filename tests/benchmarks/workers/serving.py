"""What every worker in Python does: say that it is ready, and do what its input asks for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version  # noqa: TID251 - there is nothing else in a peer's environment
from typing import Any


def serve(actions: Mapping[str, Callable[..., float]], *distributions: str) -> None:
    """Answer each line of input with the seconds of an action, until the input ends.

    :param actions: by name; each returns the seconds that it took.
    :param distributions: whose versions are told.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what a package prints is no answer
    _say(answers, {"ready": True, "versions": {each: version(each) for each in distributions}})
    for line in sys.stdin:
        arguments: dict[str, Any] = json.loads(line)
        try:
            answer: dict[str, Any] = {"seconds": actions[arguments.pop("do")](**arguments)}
        except Exception as error:  # noqa: BLE001 - the harness tells it
            answer = {"error": f"{type(error).__name__}: {error}"}
        _say(answers, answer)


def _say(answers: Any, said: dict[str, Any]) -> None:
    answers.write(json.dumps(said) + "\n")
    answers.flush()
