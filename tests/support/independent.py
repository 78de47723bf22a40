"""What a checker of AG-UI streams that is not ours says of a stream (``ag-ui-validate``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ag_ui.core import BaseEvent
from ag_ui_validate import ValidatorOptions, create_validator

from interpose.agui import to_json

CONTENT: frozenset[str] = frozenset({"AGUI204"})
"""Rules about what a model wrote rather than about the stream: arguments that are no JSON."""

DIFFERENT: Mapping[str, str] = {
    "AGUI104": "a message that has ended may be opened again: it goes on",
    "AGUI205": "likewise a tool call",
    "AGUI207": "a result may answer a call of an earlier run",
    "AGUI302": "a patch that does not fit changes nothing, and the run goes on",
}
"""Rules that it takes more strictly than the protocol, and what the protocol says."""

_CONSEQUENCES: Mapping[str, frozenset[str]] = {
    "AGUI104": frozenset({"AGUI101", "AGUI102"}),
    "AGUI205": frozenset({"AGUI201", "AGUI202"}),
}
"""What it finds in the rest of a message or call that it did not let open again."""


def complaints(
    events: Iterable[BaseEvent | str], *, strict: bool = False, without: Collection[str] = ()
) -> list[str]:
    """Return what it finds wrong, one line each, without those of :data:`DIFFERENT`.

    ``events``: as models, or as JSON. ``strict``: with those; ``without``: rules to leave out.
    """
    validator = create_validator(ValidatorOptions())
    for event in events:
        validator.feed(event if isinstance(event, str) else to_json(event))
    validator.finalize()
    report = validator.report()
    if report.internal_errors:
        raise RuntimeError("\n".join(report.internal_errors))
    different = set() if strict else DIFFERENT.keys() & {each.rule for each in report.diagnostics}
    left_out = {*without, *different}.union(*(_CONSEQUENCES.get(rule, ()) for rule in different))
    return [
        f"event {found.event_index}: {found.rule} {found.message}"
        for found in report.diagnostics
        if found.severity == "error" and found.rule not in left_out
    ]
