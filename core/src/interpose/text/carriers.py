"""What carries text and is whole: messages, inputs, values, errors. Nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ag_ui.core import Context, Interrupt, Message, RunAgentInput, TextPart, ToolMessage
from pydantic import BaseModel

from interpose.text.jsontext import JsonLane, json_or_text, json_value, run_through
from interpose.text.lanes import Holding, Incremental, Work, whole

Kind: TypeAlias = Literal["text", "reasoning", "tool"]
"""The kinds of text that cross events."""

TOOL_RESULT: Final = "ag-ui:tool-result"
"""Where the metadata of a tool's result says that it is an error."""

Reopen: TypeAlias = Callable[[Kind, str], Incremental | None]

Model = TypeVar("Model", bound=BaseModel)


def with_fields(model: Model, **fields: Any) -> Model:
    """Return ``model`` with these fields; itself if it has them already."""
    changed = {name: new for name, new in fields.items() if getattr(model, name) is not new}
    return model.model_copy(update=changed) if changed else model


def message_texts(
    holding: Holding, message: Message, reopen: Reopen = lambda _kind, _ident: None
) -> Work[Message]:
    """Transform a message: its content, the text parts of it, tool calls' arguments, an error.

    ``reopen`` gives the lane of a message or tool call to which more will be added.
    """
    fields: dict[str, Any] = {}
    content = message.content
    if isinstance(content, str):
        lane = reopen("reasoning" if message.role == "reasoning" else "text", message.id)
        if lane is not None:
            fields["content"] = yield from lane.feed(content)
        elif message.role == "tool":
            fields["content"] = yield from json_or_text(holding, content)
        else:
            fields["content"] = yield from whole(holding, content)
    elif isinstance(content, dict):
        fields["content"] = yield from json_value(holding, content)
    elif content is not None:
        fields["content"] = yield from part_texts(holding, content)
    if message.role == "assistant" and message.tool_calls:
        calls = []
        for call in message.tool_calls:
            lane = reopen("tool", call.id)
            written = call.function.arguments
            if lane is not None:
                text = yield from lane.feed(written)
            else:
                text = yield from run_through(JsonLane(holding), written)
            calls.append(with_fields(call, function=with_fields(call.function, arguments=text)))
        fields["tool_calls"] = unless_same(calls, message.tool_calls)
    if message.role == "tool":
        fields |= yield from _error(holding, message)
    return with_fields(message, **fields)


def _error(holding: Holding, message: ToolMessage) -> Work[dict[str, Any]]:
    fields: dict[str, Any] = {
        "metadata": (yield from result_metadata(holding, message.metadata)),
    }
    if message.error:
        fields["error"] = yield from whole(holding, message.error)
    return fields


def result_metadata(
    holding: Holding, metadata: dict[str, Any] | None
) -> Work[dict[str, Any] | None]:
    """Transform the error that the metadata of a tool's result tells; the rest stays."""
    marker = (metadata or {}).get(TOOL_RESULT)
    if metadata is None or not isinstance(marker, dict) or not isinstance(marker.get("error"), str):
        return metadata
    error = marker["error"]
    new = yield from whole(holding, error)
    return metadata if new is error else {**metadata, TOOL_RESULT: {**marker, "error": new}}


def part_texts(holding: Holding, parts: list[Any]) -> Work[list[Any]]:
    """Transform the text parts of a content; media stay."""
    new = []
    for part in parts:
        if isinstance(part, TextPart):
            new.append(with_fields(part, text=(yield from whole(holding, part.text))))
        else:
            new.append(part)
    return unless_same(new, parts)


def input_texts(holding: Holding, run_input: RunAgentInput, *, state: bool) -> Work[RunAgentInput]:
    """Transform an input: messages and context, and the state if ``state``.

    Tools, ``forwardedProps`` and the answers to interrupts stay: they steer the run.
    """
    messages = []
    for message in run_input.messages:
        messages.append((yield from message_texts(holding, message)))  # noqa: PERF401 - yields
    fields: dict[str, Any] = {"messages": unless_same(messages, run_input.messages)}
    if run_input.context:
        entries = []
        for entry in run_input.context:
            entries.append((yield from _context(holding, entry)))  # noqa: PERF401 - yields
        fields["context"] = unless_same(entries, run_input.context)
    if state:
        fields["state"] = yield from json_value(holding, run_input.state)
    return with_fields(run_input, **fields)


def _context(holding: Holding, entry: Context) -> Work[Context]:
    description = yield from whole(holding, entry.description)
    value = yield from json_or_text(holding, entry.value)
    return with_fields(entry, description=description, value=value)


def interrupt_texts(holding: Holding, interrupt: Interrupt) -> Work[Interrupt]:
    """Transform what an interrupt tells people.

    Its metadata, too: an adapter puts there whatever the graph was interrupted with.
    """
    fields: dict[str, Any] = {}
    if interrupt.message is not None:
        fields["message"] = yield from whole(holding, interrupt.message)
    if interrupt.metadata is not None:
        fields["metadata"] = yield from json_value(holding, interrupt.metadata)
    return with_fields(interrupt, **fields)


def unless_same(new: list[Any], old: list[Any]) -> list[Any]:
    """Return ``old`` if ``new`` has the very same items."""
    return old if all(a is b for a, b in zip(new, old, strict=True)) else new
