"""Finding the calls of a paused run in the client's history, and telling whether they are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ag_ui.core import AssistantMessage, Message, ToolMessage

from interpose.agui.decoding import from_json
from interpose.agui.tracking import quote
from interpose.loop.sealing import Sealed, SealedCall, call_of, digest
from interpose.payloads import ToolCall, ToolResult

NOT_HERE: Final = (
    "its arguments were masked for the consumer, and only the process that asked has the true ones"
)


@dataclass(slots=True)
class Found:
    """The calls of a continuation, those that could be had again, and why others could not.

    ``masked``: the arguments that the consumer saw of calls of which it did not see all.
    ``unknown``: ids of those of which this process does not have the true ones; such a call has the
    masked arguments, and must not run.
    """

    calls: tuple[ToolCall, ...] = ()
    shown: tuple[tuple[str, str, str], ...] = ()
    masked: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def find_calls(
    sealed: Sealed,
    messages: Sequence[Message],
    remembered: Sequence[ToolCall] | None,
    done: Mapping[str, ToolResult],
) -> Found:
    """Look for the calls of a token in a client's messages.

    They are in the last assistant message that has one of them, as the consumer saw them.
    ``remembered``: the true calls, where this process has them. A result that the client has is
    not trusted as an execution: it may be there for a call that the client runs, and for one in
    ``done``, since a failed try has sent it. The message may have no other call without a result.
    """
    found = Found()
    if not sealed.calls:
        return found
    ids = {call.id for call in sealed.calls}
    at, message = _message(messages, ids)
    if message is None:
        found.problems.append("the conversation does not have the tool calls that were asked about")
        return found
    written = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()]
    by_id = {call[0]: call for call in written}
    answered = {each.tool_call_id for each in messages[at:] if isinstance(each, ToolMessage)}
    if len(by_id) != len(written):
        found.problems.append("the conversation has a tool call twice")
    if any(id_ not in ids and id_ not in answered for id_ in by_id):
        found.problems.append("the conversation has a further tool call without a result")
    true = {call.id: call for call in remembered or ()}
    for call in sealed.calls:
        said = _fault(call, by_id.get(call.id), answered - done.keys())
        if said is not None:
            found.problems.append(f"the tool call {quote(call.id)}: {said}")
            continue
        shown = by_id[call.id]
        found.shown += (shown,)
        if not call.masked:
            found.calls += (call_of(call, *shown[1:]),)
            continue
        found.masked[call.id] = _readable(shown[2])
        if call.id not in true and not call.clients:
            found.unknown.add(call.id)
        as_shown = ToolCall(call.id, shown[1], found.masked[call.id], call.effect)
        found.calls += (true.get(call.id, as_shown),)
    return found


def _fault(
    call: SealedCall,
    shown: tuple[str, str, str] | None,
    answered: set[str],
) -> str | None:
    if shown is None:
        return "it is missing in the conversation"
    if digest(*shown) != call.digest:
        return "it is not what was asked about"
    if call.id in answered and not call.clients:
        return "the conversation has a result of it that this agent did not give"
    return None


def _message(messages: Sequence[Message], ids: set[str]) -> tuple[int, AssistantMessage | None]:
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage) and any(
            call.id in ids for call in message.tool_calls or ()
        ):
            return at, message
    return 0, None


def _readable(arguments: str) -> Mapping[str, Any]:
    try:
        read = from_json(arguments)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
