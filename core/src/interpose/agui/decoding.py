"""JSON as the wire has it: strict, and whatever is wrong with it is one kind of error."""

from __future__ import annotations

import json
from typing import Any, NoReturn


class NotJson(ValueError):
    """A text is not JSON. ``reason`` never repeats a value; line and column count from 1."""

    def __init__(self, reason: str, line: int = 1, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column

    @property
    def said(self) -> str:
        """The reason, with the column where there is one."""
        return self.reason if self.column is None else f"{self.reason} (column {self.column})"


def from_json(text: str) -> Any:
    """Return the value of a JSON text. Raises :class:`NotJson`, also for NaN and Infinity."""
    try:
        return decoder().decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.lineno, error.colno) from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except _NoConstant as error:
        raise NotJson(str(error)) from None
    except ValueError:
        # Python's own limit on the digits of an integer.
        raise NotJson("it has a number that is too long") from None


def decoder() -> json.JSONDecoder:
    """Return a decoder of strict JSON."""
    return json.JSONDecoder(parse_constant=_no_constant)


def kind_of(value: Any) -> str:
    """Name the JSON type of a decoded value: ``an array``, ``null``."""
    return _KINDS.get(type(value), type(value).__name__)


class _NoConstant(ValueError):
    pass


def _no_constant(name: str) -> NoReturn:
    raise _NoConstant(f"it has no {name}")


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
