"""Telling the failures of the middleware itself from those that pass through it."""

from __future__ import annotations

import re

from interpose.errors import MiddlewareError, RunError
from interpose.testing.contracts.playing import Heard
from interpose.testing.contracts.subject import Subject


def own_failure(subject: Subject, heard: Heard) -> str:
    """Say which hook of the middleware failed, and how; ``""`` if none did.

    What it raises on purpose, as a refusal or another :class:`RunError`, is none.
    """
    layer = subject.layer_id
    error = heard.error
    told = f" of layer {layer!r}"
    notes = [note for note in getattr(error, "__notes__", ()) if note.endswith(told)]
    if notes and (isinstance(error, MiddlewareError) or not isinstance(error, RunError)):
        where = notes[0].removesuffix(told).removeprefix("in ")
        said = getattr(error, "message", None) or str(error)
        return f"{where} raised {type(error).__name__}: {said}"
    if isinstance(error, MiddlewareError) and f"layer {layer!r}" in error.message:
        return error.message
    for line in heard.logged:
        if line.startswith(f"ERROR {layer}: ") and " failed" in line:
            said = line.removeprefix(f"ERROR {layer}: ")
            return re.sub(rf", in \w+{re.escape(told)}", "", said)
    return ""
