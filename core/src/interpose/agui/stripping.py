"""Enforcement: what AG-UI does not describe is removed with a warning, what is broken is fatal.

Works on raw data, before validation: the models refuse an unknown event, role or part outright,
while the protocol wants it dropped so that an older host can relay a newer agent.

Rules: AG-UI 1.1, processing, "Enforcement". Never is a malformed value repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ag_ui.core import BaseEvent, EventType, RunAgentInput
from pydantic import BaseModel, ValidationError

from interpose.agui.catalogue import EVENT_CLASSES, KNOWN_EVENTS
from interpose.agui.compat import Compatibility
from interpose.agui.foreign import FREE_FORM, with_json
from interpose.agui.malformed import faults
from interpose.agui.shapes import DROP, Report, join, record_of
from interpose.errors import InputError, InvalidStream

PLAIN_EVENTS: Final = KNOWN_EVENTS - FREE_FORM.keys()
"""The classes whose events a :class:`Stripper` admits as they are, unless they have extras."""

_MOST_WARNINGS = 100
_OWNER = "subagent_run_id"


class Stripped(NamedTuple):
    """The outcome of :func:`strip`; ``event`` is None when the whole event was unknown."""

    event: BaseEvent | None
    warnings: tuple[str, ...]


class CheckedInput(NamedTuple):
    """The outcome of :func:`check_input`."""

    input: RunAgentInput
    warnings: tuple[str, ...]


def strip(raw: Mapping[str, Any]) -> Stripped:
    """Turn one event as decoded from the wire into its model.

    Keys may be spelled ``messageId`` or ``message_id``. Unknown events, properties and union
    members go, each with a warning that names its path. A null on an optional field is read as
    the absent key it should have been, with a warning.

    Raises InvalidStream (rule ``malformed-value``) naming path and reason, never the value.
    """
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise _malformed("An event", ("type: Field required, a string",))
    model = EVENT_CLASSES.get(kind)
    if model is None:
        return Stripped(None, (f"dropped an event of unknown type: {join('', kind)}",))
    report = Report()
    value = record_of(model).strip(raw, "", report)
    if value is DROP:
        return Stripped(None, (f"{_name(kind)}: dropped, a required part is of unknown kind",))
    if report.nulls:
        _refuse_null_owners(kind, report)
    try:
        event = model.model_validate(value, strict=True)
    except ValidationError as error:
        raise _malformed(_name(kind), faults(error, value, report.removed)) from None
    return Stripped(event, _warnings(_name(kind), report))


def check_input(data: Mapping[str, Any] | RunAgentInput) -> CheckedInput:
    """Validate the input of a run, removing what AG-UI does not describe.

    What older clients write is read as 1.0 writes it (see :class:`Compatibility`). Nothing given
    is changed in place, and a ``RunAgentInput`` is taken as it is. Raises InputError listing
    every field that is wrong, by path and without values.
    """
    if data.__class__ is RunAgentInput and not data.__pydantic_extra__:
        return CheckedInput(data, ())
    if isinstance(data, BaseModel):
        data = _shallow(data)
    if not isinstance(data, Mapping):
        raise InputError(
            f"The input of a run must be a JSON object, not {type(data).__name__}.",
            hint="Pass a RunAgentInput: threadId, runId and messages are required.",
        )
    compatibility = Compatibility()
    report = Report()
    value = record_of(RunAgentInput).strip(compatibility.convert_input(data), "", report)
    try:
        checked = RunAgentInput.model_validate(value, strict=True)
    except ValidationError as error:
        wrong = "\n".join(faults(error, value, report.removed))
        raise InputError(
            f"The input of a run is malformed.\n{wrong}",
            hint="threadId, runId and messages are required; see RunAgentInput of AG-UI.",
        ) from None
    older = tuple(f"the input: {warning}" for warning in compatibility.warnings)
    return CheckedInput(checked, (*older, *_warnings("the input", report)))


class Stripper:
    """Enforcement for one stream: admits typed events at once, raw ones through :func:`strip`.

    ``warnings`` collects each distinct warning once, at most 100 of them, so that a producer that
    sends the same unknown property with every token is reported once.

    A typed event of a known class without top-level extras passes as the same object; what its
    nested objects carry beyond the protocol is not looked for, they came through a validator. Only
    objects in a free-form value, such as a state, become the JSON that they would be on the wire.

    ``compatibility``: converts raw events of older versions first; its warnings are collected here.
    """

    __slots__ = ("_compatibility", "_seen", "warnings")

    def __init__(self, compatibility: Compatibility | None = None) -> None:
        self.warnings: list[str] = []
        self._seen: set[str] = set()
        self._compatibility = compatibility

    def admit(self, event: BaseEvent | Mapping[str, Any]) -> BaseEvent | None:
        """Return the event to pass on, or None if it is unknown.

        Raises InvalidStream when a known value is malformed, or when it is no event at all.
        """
        if event.__class__ in KNOWN_EVENTS and not event.__pydantic_extra__:
            return with_json(event) if event.__class__ in FREE_FORM else event
        if isinstance(event, BaseModel):
            event = _shallow(event)
        elif not isinstance(event, Mapping):
            raise InvalidStream(
                f"A stream holds events, not {type(event).__name__}.", rule="malformed-value"
            )
        older = self._compatibility
        if older is not None:
            event = older.convert(event)
            if older.warnings:
                self._collect(older.warnings)
                older.warnings.clear()
        stripped, warnings = strip(event)
        self._collect(warnings)
        if stripped is not None and stripped.__class__ in FREE_FORM:
            return with_json(stripped)
        return stripped

    def _collect(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            if warning not in self._seen and len(self._seen) < _MOST_WARNINGS:
                self._seen.add(warning)
                self.warnings.append(warning)


def _shallow(model: BaseModel) -> dict[str, Any]:
    """Return a model's own fields as raw data, nested values as they are, None as absent."""
    fields = type(model).model_fields
    raw = {
        info.alias or name: value
        for name, info in fields.items()
        if (value := getattr(model, name)) is not None or info.is_required()
    }
    return {**(model.__pydantic_extra__ or {}), **raw}


def _refuse_null_owners(kind: str, report: Report) -> None:
    """Refuse the one null without tolerance: absent, it would move content between owners."""
    owners = [f"{path}: null; leave the key out" for path, key in report.nulls if key == _OWNER]
    if owners:
        raise _malformed(_name(kind), tuple(owners))


def _name(kind: str) -> str:
    # An EventType member is a string too, but does not print as one.
    return kind.value if isinstance(kind, EventType) else kind


def _malformed(what: str, wrong: tuple[str, ...]) -> InvalidStream:
    return InvalidStream(f"{what} is malformed: {', '.join(wrong)}", rule="malformed-value")


def _warnings(what: str, report: Report) -> tuple[str, ...]:
    if not report.removed and not report.nulls:
        return ()
    return (
        *(f"{what}: removed {path}, which AG-UI does not describe" for path in report.removed),
        *(f"{what}: read null as absent at {path}" for path, _ in report.nulls),
    )
