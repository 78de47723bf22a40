r"""The events that streams consist of, framed without the model's own serializer.

The serializer of ``ag_ui``'s models is a Python function around pydantic's, and takes at least five
times as long as the text needs. Most events hold nothing but strings, and those are written here,
to the same bytes, by a function for each class that is generated from the model when it is first
needed. That of TEXT_MESSAGE_END::

    def write(_event):
        _fields = _event.__dict__
        if _event.__pydantic_extra__ or [*_fields] != _names:
            return None
        type, timestamp, raw_event, metadata, subagent_run_id, message_id = _fields.values()
        if (
            type is not _kind
            or raw_event is not None
            or metadata is not None
            or message_id.__class__ is not str
        ):
            return None
        _frame = 'data: {"type":"TEXT_MESSAGE_END"'
        if timestamp is not None:
            if timestamp.__class__ is not int or not _lowest <= timestamp <= _highest:
                return None
            _frame += f',"timestamp":{timestamp}'
        if subagent_run_id is not None:
            if subagent_run_id.__class__ is not str:
                return None
            _frame += f',"subagentRunId":{_quoted(subagent_run_id)}'
        return f'{_frame},"messageId":{_quoted(message_id)}}}\n\n'

None says that only the model itself can write it: a value that is not of its field's exact type, an
opaque value, a nested model, an extra field, fields in an order of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from ag_ui.core import BaseEvent
from pydantic.fields import FieldInfo

from interpose.agui.catalogue import KNOWN_EVENTS

Writer = Callable[[BaseEvent], "str | None"]

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1


def _not_plain(_event: BaseEvent) -> str | None:
    return None


def _at_first(event: BaseEvent) -> str | None:
    kind = event.__class__
    write = WRITERS[kind] = _compiled(kind)
    return write(event)


WRITERS: Final[dict[type[BaseEvent], Writer]] = dict.fromkeys(KNOWN_EVENTS, _at_first)
r"""By class, what returns ``data: {...}\n\n`` as the SDK's encoder does, or None.

It passes on a lone surrogate, which no JSON can hold: encoding the text finds it. An event that was
never initialised is an AttributeError.
"""


def _compiled(event: type[BaseEvent]) -> Writer:
    """Generate the writer of a class; one that always has opaque values or models is not plain."""
    fields = dict(event.model_fields)
    kind = fields.pop("type").default
    # No name here can be that of a field, which never begins with an underscore.
    names: dict[str, Any] = {
        "_kind": kind,
        "_names": [*event.model_fields],
        "_quoted": encode_basestring,
        "_lowest": _LOWEST,
        "_highest": _HIGHEST,
    }
    checks, lines, parts = ["type is not _kind"], list[str](), list[str]()
    for name, field in fields.items():
        check, part = _field(name, field, names)
        if field.is_required() or field.default is not None:
            if not part:
                return _not_plain
            checks.append(check)
            parts.append(part)
        elif not part:
            checks.append(f"{name} is not None")
        else:
            if parts:
                lines.append(f"    _frame += f'{''.join(parts)}'")
                parts.clear()
            lines += [
                f"    if {name} is not None:",
                f"        if {check}:",
                "            return None",
                f"        _frame += f'{part}'",
            ]
    source = [
        "def write(_event):",
        "    _fields = _event.__dict__",
        # Pydantic writes fields in the order of the instance's own dictionary.
        "    if _event.__pydantic_extra__ or [*_fields] != _names:",
        "        return None",
        f"    {', '.join(event.model_fields)} = _fields.values()",
        f"    if {' or '.join(checks)}:",
        "        return None",
        f"""    _frame = 'data: {{"type":"{kind.value}"'""",
        *lines,
        f"    return f'{{_frame}}{''.join(parts)}}}}}\\n\\n'",
    ]
    exec(compile("\n".join(source), f"<writer of {kind.value}>", "exec"), names)  # noqa: S102
    write: Writer = names["write"]
    return write


def _field(name: str, field: FieldInfo, names: dict[str, Any]) -> tuple[str, str]:
    """Return what is refused of a field's value, and what writes it, inside an f-string.

    Both are empty for a field that may hold anything.
    """
    key = f',"{field.serialization_alias}":'
    kinds = [each for each in _alternatives(field.annotation) if each is not NoneType]
    if str in kinds:
        return f"{name}.__class__ is not str", f"{key}{{_quoted({name})}}"
    if kinds == [int]:
        refused = f"{name}.__class__ is not int or not _lowest <= {name} <= _highest"
        return refused, f"{key}{{{name}}}"
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        names[f"_known_{name}"] = frozenset(get_args(kinds[0]))
        refused = f"{name}.__class__ is not str or {name} not in _known_{name}"
        return refused, f"{key}{{_quoted({name})}}"
    return "", ""


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    is_union = get_origin(annotation) in {Union, UnionType}
    return get_args(annotation) if is_union else (annotation,)
