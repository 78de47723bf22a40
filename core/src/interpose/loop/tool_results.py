"""What a tool gave, as the model sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ag_ui.core import ToolCallResultEvent
from pydantic_core import to_json

from interpose.loop.tool_context import ToolContext
from interpose.loop.tool_texts import LIMIT, shortened
from interpose.loop_errors import ToolError
from interpose.payloads import ToolResult

if TYPE_CHECKING:
    from interpose.loop.tools import LoopTool

MARKER: Final = "ag-ui:tool-result"
"""Where ``metadata`` of a result says that it is an error."""


def result_of(tool: LoopTool, value: Any, ctx: ToolContext) -> ToolResult:
    """Return what a function gave as a result; :class:`ToolError` when it cannot be one.

    A text stays as it is, a :class:`ToolResult` too; the rest is written as JSON.
    """
    if isinstance(value, ToolResult):
        return _checked(tool, value, ctx)
    if tool.output is not None:
        value = _fitting(tool, value, ctx)
    return ToolResult(_written(tool, value))


def error_result(tool_name: str, error: Exception) -> ToolResult:
    """Return the result of a call that failed.

    The message of a :class:`ToolError`; of any other exception its class alone, as its text may
    hold what is not the model's to know.
    """
    if isinstance(error, ToolError):
        text = _encodable(str(error.message))
    else:
        leaves = list(_leaves(error))
        told = [leaf.message for leaf in leaves if isinstance(leaf, ToolError)]
        kinds = ", ".join(dict.fromkeys(type(leaf).__name__ for leaf in leaves))
        text = _encodable("\n".join(told)) or f"The tool {tool_name!r} failed ({kinds})."
    return ToolResult(text, text)


def result_event(call_id: str, message_id: str, result: ToolResult) -> ToolCallResultEvent:
    """Return the event of a result; an error, even an empty one, is marked in its metadata."""
    metadata = dict(result.metadata)
    if result.error is not None:
        marker = metadata.get(MARKER)
        known = dict(marker) if isinstance(marker, Mapping) else {}
        metadata[MARKER] = {**known, "error": result.error}
    return ToolCallResultEvent(
        message_id=message_id,
        tool_call_id=call_id,
        content=result.content,
        role="tool",
        metadata=metadata or None,
    )


def _checked(tool: LoopTool, result: ToolResult, ctx: ToolContext) -> ToolResult:
    if tool.output is not None and result.error is None:
        _fitting(tool, result.content, ctx)
    if result.metadata:
        _written(tool, dict(result.metadata))
    error = None if result.error is None else _encodable(result.error)
    return ToolResult(_encodable(result.content), error, result.metadata)


def _fitting(tool: LoopTool, value: Any, ctx: ToolContext) -> Any:
    if tool.output is None:
        return value
    try:
        return tool.output.checked(value)
    except Exception as error:
        fault = shortened(str(error), LIMIT) if type(error) is ValueError else type(error).__name__
        ctx.log.error(  # noqa: TRY400 - the trace is pydantic's own
            "the result of the tool {} does not fit its output: {}; it was {}",
            tool.name,
            fault,
            shortened(_shown(value), LIMIT),
        )
        raise ToolError(
            f"The tool {tool.name!r} gave a result that does not fit its output: {fault}"
        ) from error


def _written(tool: LoopTool, value: Any) -> str:
    if isinstance(value, str):
        return _encodable(str(value))
    refused: list[type] = []

    def refuse(part: Any) -> Any:
        refused.append(type(part))
        raise TypeError

    try:
        return to_json(value, inf_nan_mode="strings", fallback=refuse).decode()
    except (ValueError, TypeError, RecursionError) as error:
        kind = refused[0] if refused else type(value)
        raise ToolError(
            f"The tool {tool.name!r} returned a {kind.__module__}.{kind.__qualname__}, "
            "which cannot be written as JSON."
        ) from error


def _encodable(text: str) -> str:
    """Return a text that can go over the wire: a file's name may hold half a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__
        return f"a {type(value).__name__} without repr ({type(error).__name__})"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
