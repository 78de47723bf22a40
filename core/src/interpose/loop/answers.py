"""Reading the answers of a batch: to approvals, and against the schemas of questions.

What is said of a wrong one names places and rules, never a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ag_ui.core import ResumeEntry
from pydantic import ValidationError

from interpose.agui.decoding import kind_of
from interpose.agui.tracking import quote
from interpose.interrupts import Resolution
from interpose.loop.continuation import (
    APPROVAL_SCHEMA,
    PLAIN_APPROVAL_SCHEMA,
    Answer,
    Question,
)
from interpose.loop.sealing import Sealed
from interpose.loop.tool_schema import JsonSchema
from interpose.loop_errors import ResumeFault, ResumeProblem
from interpose.payloads import ToolCall

Edited: TypeAlias = Callable[[ToolCall, Mapping[str, Any]], Mapping[str, Any]]
"""Validates edited arguments of a call. Raises ValueError."""

_USUAL: Final = (APPROVAL_SCHEMA, PLAIN_APPROVAL_SCHEMA)


class Wrong(ValueError):
    """An answer cannot be taken. The message is safe to show."""

    def __init__(self, message: str, code: ResumeFault = "invalid-payload") -> None:
        super().__init__(message)
        self.message = message
        self.code: ResumeFault = code


@dataclass(slots=True)
class Reading:
    """The answers of one batch, read one by one."""

    sealed: Sealed
    calls: Mapping[str, ToolCall]
    masked: Mapping[str, Mapping[str, object]]
    edited: Edited
    now: float
    _approvals: dict[str, Answer] = field(default_factory=dict)
    _generics: dict[str, Resolution] = field(default_factory=dict)

    def read(self, taken: Sequence[tuple[str, ResumeEntry]]) -> list[ResumeProblem]:
        """Read every entry, and return what is wrong. ``taken``: with their own ids."""
        times = Counter(own for own, _ in taken)
        problems = [
            problem_of(own, "conflict", "it is answered more than once")
            for own, count in times.items()
            if count > 1
        ]
        given = dict(taken)
        missing = []
        for question in self.sealed.continuation.questions:
            own = question.interrupt.id
            if own not in given:
                missing.append(quote(own))
            elif times[own] == 1:
                problems += self._read_one(question, given[own])
        if missing:
            said = f"not answered: {', '.join(missing)}; resolve or cancel all of a pause"
            problems.append(problem_with_batch("incomplete-batch", said))
        return problems

    def _read_one(self, question: Question, entry: ResumeEntry) -> list[ResumeProblem]:
        own = question.interrupt.id
        until = self.sealed.deadlines[own]
        if entry.status != "cancelled" and until is not None and until <= self.now:
            return [problem_of(own, "expired", "it has expired, and can only be cancelled")]
        try:
            if question.kind == "approval" and question.call_id is not None:
                call_id = question.call_id
                call, shown = self.calls.get(call_id), self.masked.get(call_id)
                answer = read_approval(question, entry, call, self.edited, shown)
                self._approvals[call_id] = answer
            else:
                payload = read_generic(question, entry)
                self._generics[own] = Resolution(question.interrupt, entry.status, payload)
        except Wrong as wrong:
            return [problem_of(own, wrong.code, wrong.message)]
        return []

    def answers(self) -> dict[str, Answer]:
        """Return the answers by call id, in call order.

        An expired continuation runs nothing, so that a process may forget then that it was used
        up: calls that needed no answer are cancelled with the others.
        """
        until = self.sealed.continuation.expires_at
        if until is not None and until <= self.now:
            too_late = Answer(approved=False, cancelled=True)
            return {id_: self._approvals.get(id_, too_late) for id_ in self.calls}
        return {id_: self._approvals[id_] for id_ in self.calls if id_ in self._approvals}

    def resolutions(self) -> list[Resolution]:
        """Return the answers to generic questions, in their order."""
        return list(self._generics.values())


def problem_of(interrupt_id: str, code: ResumeFault, said: str) -> ResumeProblem:
    """Return what is wrong with one answer, by the own id of its question."""
    return ResumeProblem(code, f"{quote(interrupt_id)}: {said}", interrupt_id)


def problem_with_batch(code: ResumeFault, said: str) -> ResumeProblem:
    """Return what is wrong with all of a ``resume``."""
    return ResumeProblem(code, said)


def read_approval(
    question: Question,
    entry: ResumeEntry,
    call: ToolCall | None,
    edited: Edited,
    shown: Mapping[str, Any] | None = None,
) -> Answer:
    """Return the answer to an approval: ``true``, ``false`` or an object. Raises :class:`Wrong`.

    Whatever does not say ``approved`` is not one: it fails closed. ``call`` is None when it is
    unknown, and then edited arguments are not looked at. ``shown``: the arguments that the consumer
    saw, where some were masked.
    """
    if entry.status == "cancelled":
        read_cancelled(entry)
        return Answer(approved=False, cancelled=True)
    schema = question.interrupt.response_schema or APPROVAL_SCHEMA
    payload = entry.payload
    if schema not in _USUAL:
        _check_fit(question, schema, payload)
    if isinstance(payload, bool):
        return Answer(approved=payload)
    if not isinstance(payload, Mapping):
        raise Wrong(f"an approval is true, false or an object, not {kind_of(payload)}")
    known = {"approved", "reason", *_properties(schema)}
    unknown = [key for key in payload if key not in known]
    if unknown:
        raise Wrong(f"an approval has no {', '.join(quote(str(key)) for key in unknown[:5])}")
    approved, reason = payload.get("approved"), payload.get("reason")
    if not isinstance(approved, bool):
        raise Wrong("'approved' is not true or false")
    if "reason" in payload and not isinstance(reason, str):
        raise Wrong(f"'reason' is a text, not {kind_of(reason)}")
    arguments = payload.get("editedArgs")
    if "editedArgs" in payload and not isinstance(arguments, Mapping):
        raise Wrong(f"'editedArgs' is an object, not {kind_of(arguments)}")
    if not approved or arguments is None or call is None:
        return Answer(approved, None, reason)
    return Answer(approved, _edit(call, arguments, edited, shown), reason)


def read_generic(question: Question, entry: ResumeEntry) -> Any:
    """Return the answer to a generic question; None when cancelled. Raises :class:`Wrong`."""
    if entry.status == "cancelled":
        return read_cancelled(entry)
    schema = question.interrupt.response_schema
    if schema is not None:
        _check_fit(question, schema, entry.payload)
    return entry.payload


def read_cancelled(entry: ResumeEntry) -> None:
    """Check that a cancelled entry answers nothing. Raises :class:`Wrong`."""
    if entry.payload is not None:
        raise Wrong("a cancelled interrupt takes no payload")


def check_schema(interrupt_id: str, schema: Mapping[str, Any]) -> None:
    """Check that a response schema is JSON Schema, whole in itself. Raises :class:`UsageError`."""
    if schema not in _USUAL:
        JsonSchema(schema, f"the response schema of interrupt {quote(interrupt_id)}")


def _check_fit(question: Question, schema: Mapping[str, Any], payload: Any) -> None:
    faults = JsonSchema(schema, f"the schema of {quote(question.interrupt.id)}").faults(payload)
    if faults is not None:
        raise Wrong(f"the answer does not fit the schema of its question: {faults}")


def _edit(
    call: ToolCall,
    arguments: Mapping[str, Any],
    edited: Edited,
    shown: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    fault: ResumeFault = "invalid-edited-args"
    left = None if shown is None else _mask_left(call.args, shown, arguments)
    if left is not None:
        raise Wrong(
            f"the edited arguments of {quote(call.name)} still have the masked value at"
            f" {_place(left)}; edited arguments replace all of them",
            fault,
        )
    try:
        return edited(call, arguments)
    except ValidationError as error:
        places = [_place(each["loc"]) for each in error.errors(include_input=False)[:5]]
        said = f"the edited arguments do not fit {quote(call.name)}: {', '.join(places)}"
        raise Wrong(said, fault) from None
    except ValueError:
        # Its text may repeat the arguments.
        raise Wrong(f"the edited arguments do not fit {quote(call.name)}", fault) from None


def _mask_left(true: Any, shown: Any, new: Any) -> tuple[str | int, ...] | None:
    """Return where an edit has what the mask showed instead of what was there."""
    if true == shown:
        return None
    keys: Iterable[Any] = ()
    if all(isinstance(each, Mapping) for each in (true, shown, new)):
        keys = [key for key in new if key in true and key in shown]
    elif all(isinstance(each, list) for each in (true, shown, new)):
        keys = range(min(len(true), len(shown), len(new)))
    elif new == shown:
        return ()
    for key in keys:
        left = _mask_left(true[key], shown[key], new[key])
        if left is not None:
            return (key, *left)
    return None


def _properties(schema: Mapping[str, Any]) -> Iterable[str]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else ()


def _place(path: Iterable[str | int]) -> str:
    return quote("/" + "/".join(map(str, path)))
