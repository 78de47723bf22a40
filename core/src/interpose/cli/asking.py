"""What ``interpose run --input`` names: a ``RunAgentInput`` as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from interpose.errors import InputError


def read_input(name: str) -> dict[str, Any]:
    """Return the JSON object in the file ``name``, or on standard input for ``-``.

    Raises :class:`InputError` naming file, line and column; whether it is a valid input is seen
    when the run is made.
    """
    shown = "standard input" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        value = json.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"The input cannot be read: {error.strerror or error}.",
            where=shown,
            hint="Name a file that holds a RunAgentInput as JSON, or - for standard input.",
        ) from None
    except UnicodeDecodeError:
        raise InputError(
            "The input is not UTF-8 text.", where=shown, hint="Save it as UTF-8."
        ) from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"The input is not JSON: {error.msg}.",
            where=f"{shown}:{error.lineno}:{error.colno}",
            hint="It is one RunAgentInput: threadId, runId and messages are required.",
        ) from None
    except RecursionError:
        raise InputError("The input is nested too deeply.", where=shown) from None
    if not isinstance(value, dict):
        raise InputError(
            f"The input is a JSON {_KINDS[type(value)]}, not an object.",
            where=shown,
            hint="It is one RunAgentInput: threadId, runId and messages are required.",
        )
    return value


_KINDS = {
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
