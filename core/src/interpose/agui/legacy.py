"""What producers and clients before AG-UI 1.0 wrote, and how 1.0 writes the same.

Pure rewriting of raw data, copy-on-write. :class:`interpose.agui.Compatibility` decides what is
looked at and says it once.

Rules: AG-UI 1.0, migration; the deprecated shapes are those of the 0.x models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Raw = Mapping[str, Any]
Note = Callable[[str, str], None]
"""Takes note of a kind of deviation, by a key and by what is said about it."""

RENAMED: Final[Mapping[str, str]] = {
    "THINKING_START": "REASONING_START",
    "THINKING_END": "REASONING_END",
    "THINKING_TEXT_MESSAGE_START": "REASONING_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT": "REASONING_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END": "REASONING_MESSAGE_END",
}

_EVERY_EVENT: Final = ("rawEvent", "raw_event")
_NULLS: Final[Mapping[str, tuple[str, ...]]] = {
    "RUN_FINISHED": ("result", "outcome"),
    "SUBAGENT_FINISHED": ("result", "outcome"),
    "TOOL_CALL_START": ("parentMessageId", "parent_message_id"),
    "TOOL_CALL_CHUNK": ("parentMessageId", "parent_message_id"),
}
_WITH_PARTS: Final = frozenset({"MESSAGES_SNAPSHOT", "RUN_STARTED", "TOOL_CALL_RESULT"})
CHANGED: Final = _WITH_PARTS | RENAMED.keys()
"""The types of events that may have an older form without a null at the top."""

_MEDIA: Final = ("image", "audio", "video")
_MEDIA_PARTS: Final = frozenset({*_MEDIA, "document"})


def event(raw: Raw, note: Note) -> Raw:
    """Return an event in the form of 1.0; the same object when it has it already."""
    kind = raw["type"]
    if None in raw.values():
        raw = without_nulls(raw, (*_EVERY_EVENT, *_NULLS.get(kind, ())), note)
    if kind not in _WITH_PARTS:
        return raw
    if kind == "RUN_STARTED":
        return _changed(raw, "input", lambda given: run_input(given, note))
    if kind == "MESSAGES_SNAPSHOT":
        return _changed(raw, "messages", lambda given: _messages(given, note))
    return _changed(raw, "content", lambda given: _parts(given, note))


def run_input(raw: Any, note: Note) -> Any:
    """Return the input of a run in the form of 1.0."""
    if not isinstance(raw, Mapping):
        return raw
    raw = without_nulls(raw, ("forwardedProps", "forwarded_props"), note)
    raw = _changed(raw, "messages", lambda given: _messages(given, note))
    raw = _changed(raw, "tools", lambda given: _each(given, ("parameters",), note))
    return _changed(raw, "resume", lambda given: _each(given, ("payload",), note))


def without_nulls(raw: Raw, keys: Sequence[str], note: Note) -> Raw:
    """Return ``raw`` without those of ``keys`` that are null: absent is never written as null."""
    nulls = [key for key in keys if key in raw and raw[key] is None]
    if not nulls:
        return raw
    for key in nulls:
        note(f"null {key}", f"read {key}: null as absent, as AG-UI before 1.0 meant it")
    return {key: value for key, value in raw.items() if key not in nulls}


def _messages(messages: Any, note: Note) -> Any:
    return _mapped(
        messages,
        lambda message: (
            _changed(message, "content", lambda given: _parts(given, note))
            if isinstance(message, Mapping)
            else message
        ),
    )


def _parts(parts: Any, note: Note) -> Any:
    return _mapped(parts, lambda part: _part(part, note))


def _part(part: Any, note: Note) -> Any:
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind == "binary":
        return _media(part, note)
    if isinstance(kind, str) and kind in _MEDIA_PARTS:
        return without_nulls(part, ("metadata",), note)
    return part


def _media(part: Raw, note: Note) -> Raw:
    """Return the media part that a ``binary`` part is; itself when it names nothing to show.

    Enforcement removes what is left, as any part of an unknown kind, with its path.
    """
    mime = part.get("mimeType", part.get("mime_type"))
    found = next((key for key in ("data", "url", "id") if _is_text(part.get(key))), None)
    if found is None or (found == "data" and not _is_text(mime)):
        return part
    note("binary", "read binary content parts as image, audio, video or document parts")
    source = {"type": "file" if found == "id" else found, "value": part[found]}
    if _is_text(mime):
        source["mimeType"] = mime
    family = mime.partition("/")[0].lower() if _is_text(mime) else ""
    media: dict[str, Any] = {"type": family if family in _MEDIA else "document", "source": source}
    if _is_text(part.get("filename")):
        media["metadata"] = {"filename": part["filename"]}
    return media


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _each(items: Any, keys: Sequence[str], note: Note) -> Any:
    return _mapped(
        items, lambda item: without_nulls(item, keys, note) if isinstance(item, Mapping) else item
    )


def _mapped(items: Any, change: Callable[[Any], Any]) -> Any:
    """Return the list with each item changed; the same one when none did."""
    if not isinstance(items, list):
        return items
    changed = [change(item) for item in items]
    return (
        changed if any(new is not old for new, old in zip(changed, items, strict=True)) else items
    )


def _changed(raw: Raw, key: str, change: Callable[[Any], Any]) -> Raw:
    """Return ``raw`` with one value changed; the same object when it did not."""
    if key not in raw:
        return raw
    value = change(raw[key])
    return raw if value is raw[key] else {**raw, key: value}
