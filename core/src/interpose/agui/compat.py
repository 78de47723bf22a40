"""The compatibility boundary: what was written before AG-UI 1.0 is read as 1.0 writes it.

Converted, each kind with one warning: ``THINKING_*`` events, ``binary`` content parts, and nulls
where 1.0 leaves a key out. A null that carries meaning (``CUSTOM.value``, a state, a patch's
value) stays, and a null ``subagentRunId`` stays an error: it would move content between owners.

Rules: AG-UI 1.1, processing, "Compatibility boundary": innermost, before anything else looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from interpose.agui import legacy

_SPANS: Final = frozenset({"THINKING_START", "THINKING_END"})
_OPENERS: Final = frozenset({"THINKING_START", "THINKING_TEXT_MESSAGE_START"})
_CLOSERS: Final = frozenset({"THINKING_END", "THINKING_TEXT_MESSAGE_END"})


class Compatibility:
    """Converts the raw events of one stream, or the raw input of a run, from older versions.

    ``warnings``: one for each kind of what was converted, however often it came. Nothing given is
    ever changed in place; what has the form of 1.0 is returned as the same object.

    ``THINKING_*`` events have no ids, so each span and each message in it gets one from ``mint``
    (default: a random one).

    Example::

        compatibility = Compatibility()
        event = strip(compatibility.convert(raw)).event
    """

    __slots__ = ("_ids", "_mint", "_seen", "warnings")

    def __init__(self, mint: Callable[[], str] | None = None) -> None:
        self.warnings: list[str] = []
        self._seen: set[str] = set()
        self._ids: dict[tuple[Any, bool], str] = {}
        self._mint = mint or _random_id

    def convert(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return one event, as decoded from the wire, in the form of AG-UI 1.0.

        Never raises: what is malformed is left for enforcement to refuse.
        """
        kind = raw.get("type")
        if kind.__class__ is str and kind not in legacy.CHANGED and None not in raw.values():
            return raw  # nearly every event of a stream
        if not isinstance(kind, str):
            return raw
        if kind in legacy.RENAMED:
            raw = self._reasoning(kind, raw)
        elif kind == "RUN_STARTED":
            self._ids.clear()
        return legacy.event(raw, self._note)

    def convert_input(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the input of a run, as decoded from the wire, in the form of AG-UI 1.0."""
        converted: Mapping[str, Any] = legacy.run_input(raw, self._note)
        return converted

    def _reasoning(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a THINKING_* event as the REASONING_* event that it became."""
        self._note("thinking", "read THINKING_* events as REASONING_* events, with ids made up")
        converted = {key: value for key, value in raw.items() if key != "title"}
        if raw.get("title") is not None:
            self._note(
                "thinking title", "lost the title of THINKING_START: 1.0 has no place for it"
            )
        owner = raw.get("subagentRunId", raw.get("subagent_run_id"))
        place = (owner if isinstance(owner, str) else None, kind in _SPANS)
        if kind in _OPENERS or place not in self._ids:
            self._ids[place] = self._mint()
        converted |= {"type": legacy.RENAMED[kind], "messageId": self._ids[place]}
        if kind == "THINKING_TEXT_MESSAGE_START":
            converted["role"] = "reasoning"
        if kind in _CLOSERS:
            del self._ids[place]
        return converted

    def _note(self, kind: str, said: str) -> None:
        if kind not in self._seen:
            self._seen.add(kind)
            self.warnings.append(said)


def _random_id() -> str:
    return str(uuid4())
