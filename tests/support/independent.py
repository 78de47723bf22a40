"""What a checker of AG-UI streams that is not ours says of a stream (``ag-ui-validate``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ag_ui.core import BaseEvent
from ag_ui_validate import ValidatorOptions, create_validator

from interpose.agui import to_json

DIFFERENT: Mapping[str, str] = {
    "AGUI104": "a message that has ended may be opened again: it goes on",
    "AGUI205": "likewise a tool call",
    "AGUI207": "a result may answer a call of an earlier run",
    "AGUI302": "a patch that does not fit changes nothing, and the run goes on",
}
"""Rules that it takes more strictly than the protocol, and what the protocol says."""


def complaints(events: Iterable[BaseEvent | str], *, strict: bool = False) -> list[str]:
    """Return what it finds wrong, one line each, without those of :data:`DIFFERENT`.

    ``events``: as models, or as JSON. ``strict``: with those.
    """
    validator = create_validator(ValidatorOptions())
    for event in events:
        validator.feed(event if isinstance(event, str) else to_json(event))
    validator.finalize()
    report = validator.report()
    if report.internal_errors:
        raise RuntimeError("\n".join(report.internal_errors))
    return [
        f"event {found.event_index}: {found.rule} {found.message}"
        for found in report.diagnostics
        if found.severity == "error" and (strict or found.rule not in DIFFERENT)
    ]
