"""What a tool gives, as the model and the consumer see it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr
from tooling import run
from typing_extensions import TypedDict

from interpose import UsageError
from interpose.loop.execution import error_result, result_event
from interpose.loop.tools import LoopTool, tool
from interpose.loop_errors import ToolError
from interpose.payloads import ToolResult


class Place(BaseModel):
    name: str
    height: float = Field(0.0, alias="h")


@dataclass
class Point:
    x: int


class Size(Enum):
    S = "s"


def giving(value: Any, **options: Any) -> LoopTool:
    return tool(lambda: value, name="give", **options)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        ('{"a": 1}', '{"a": 1}'),
        (None, "null"),
        (3, "3"),
        ({"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'),
        (Place(name="x", h=0.0), '{"name":"x","h":0.0}'),
        ([Point(1)], '[{"x":1}]'),
        ({Size.S: Size.S}, '{"s":"s"}'),
        (datetime(2024, 1, 1, tzinfo=UTC), '"2024-01-01T00:00:00Z"'),
        (Decimal("1.10"), '"1.10"'),
        (float("nan"), '"NaN"'),
        (SecretStr("pw"), '"**********"'),
        ("half \ud800 pair", "half ? pair"),
    ],
)
def test_a_value_is_written_as_text_or_json(value: Any, content: str) -> None:
    assert run(giving(value)) == ToolResult(content)


def test_a_result_passes_as_it_is() -> None:
    given = ToolResult("c", error="", metadata={"a": 1})
    assert run(giving(given)) == given


class Strange:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [Strange(), {"a": [Strange()]}, [b"\xff"], {Strange(): 1}])
def test_what_cannot_be_written_is_an_error_that_names_the_type(value: Any) -> None:
    with pytest.raises(ToolError, match="cannot be written as JSON") as caught:
        run(giving(value))
    assert "Strange" in caught.value.message or "builtins.list" in caught.value.message


def test_a_circle_is_an_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ToolError, match=r"returned a builtins\.list"):
        run(giving(circle))


@pytest.mark.parametrize(
    "fields", [{"content": 3}, {"error": 3}, {"metadata": {"a": Strange()}}, {"metadata": 3}]
)
def test_a_result_that_could_not_be_sent_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="of a ToolResult is"):
        ToolResult(**{"content": "x", **fields})


def test_a_result_whose_metadata_was_spoilt_later_is_an_error() -> None:
    given = ToolResult("x", metadata={"a": 1})
    given.metadata["a"] = Strange()  # type: ignore[index]
    with pytest.raises(ToolError, match="cannot be written as JSON"):
        run(giving(given))


# Output ---------------------------------------------------------------------------------------


class Row(TypedDict):
    id: int


@pytest.mark.parametrize(
    ("output", "value", "content"),
    [
        (Place, {"name": "x", "h": "2"}, '{"name":"x","h":2.0}'),
        (Place, Place(name="x", h=0.0), '{"name":"x","h":0.0}'),
        (Place, '{"name": "x"}', '{"name":"x","h":0.0}'),
        (list[int], ("1", 2), "[1,2]"),
        (list[Row], [{"id": 1}], '[{"id":1}]'),
        (str, "text", "text"),
        (int | None, None, "null"),
        ({"type": "object", "required": ["a"]}, {"a": 1}, '{"a":1}'),
        ({"type": "object"}, '{"a": 1}', '{"a":1}'),
        ({"type": "string", "maxLength": 9}, "text", "text"),
        ({"type": "array"}, [Point(1)], '[{"x":1}]'),
    ],
)
def test_a_result_that_fits_its_output_is_given(output: Any, value: Any, content: str) -> None:
    assert run(giving(value, output=output)).content == content


@pytest.mark.parametrize(
    ("output", "value", "said"),
    [
        (Place, {"h": "sk-1"}, "name: Field required; h: Input should be a valid number"),
        (Place, "sk-1", "it is a text that is no JSON"),
        (list[int], None, "Input should be a valid list"),
        ({"type": "object", "required": ["a"]}, {"b": "sk-1"}, "a: is required"),
        ({"type": "array"}, {"b": "sk-1"}, '(root): expected type "array"'),
        (Place, ToolResult("{}"), "name: Field required"),
    ],
)
def test_a_result_that_does_not_fit_is_an_error_and_the_operator_sees_it(
    output: Any, value: Any, said: str, logged: list[str]
) -> None:
    with pytest.raises(ToolError) as caught:
        run(giving(value, output=output))
    assert caught.value.message.startswith(
        "The tool 'give' gave a result that does not fit its output: "
    )
    assert said in caught.value.message
    assert "sk-1" not in caught.value.message
    [line] = logged
    assert line.startswith("ERROR the result of the tool give does not fit its output")
    assert ("sk-1" in line) == ("sk-1" in repr(value))


def test_a_failed_result_is_not_checked() -> None:
    failed = ToolResult("nothing", error="nothing")
    assert run(giving(failed, output=Place)) == failed


def test_an_annotated_return_type_is_not_checked() -> None:
    @tool
    def f() -> int:
        return "text"  # type: ignore[return-value]

    assert run(f).content == "text"


def test_an_output_that_is_no_type_is_refused() -> None:
    with pytest.raises(UsageError, match="the output of the tool 'give'"):
        giving(1, output=Strange)
    with pytest.raises(UsageError, match="the output of the tool 'give' is no valid JSON Schema"):
        giving(1, output={"type": "int"})


# Errors ---------------------------------------------------------------------------------------


def test_the_model_sees_the_message_of_a_tool_error_alone() -> None:
    result = error_result("t", ToolError("No such order.", hint="for the operator"))
    assert result == ToolResult("No such order.", "No such order.")


def test_the_model_sees_only_the_class_of_another_error() -> None:
    text = "The tool 't' failed (ConnectionError)."
    assert error_result("t", ConnectionError("postgres://user:pw@host")) == ToolResult(text, text)


def test_the_model_sees_what_is_in_a_group_of_errors() -> None:
    group = ExceptionGroup(
        "x", [KeyError("a"), ExceptionGroup("y", [OSError("pw"), KeyError("b")])]
    )
    assert error_result("t", group).error == "The tool 't' failed (KeyError, OSError)."
    told = ExceptionGroup("x", [ToolError("Say this."), OSError("pw")])
    assert error_result("t", told).error == "Say this."


def test_the_event_of_a_result_is_a_tool_message() -> None:
    event = result_event("c", "m", ToolResult("text"))
    assert (event.tool_call_id, event.message_id, event.content) == ("c", "m", "text")
    assert event.role == "tool"
    assert event.metadata is None


@pytest.mark.parametrize("error", ["failed", ""])
def test_the_event_of_an_error_is_marked(error: str) -> None:
    metadata = {"a": 1, "ag-ui:tool-result": {"b": 2}}
    event = result_event("c", "m", ToolResult("text", error, metadata))
    assert event.metadata == {"a": 1, "ag-ui:tool-result": {"b": 2, "error": error}}
    assert metadata["ag-ui:tool-result"] == {"b": 2}
    assert json.loads(event.model_dump_json(by_alias=True))["metadata"]["a"] == 1


def test_a_result_can_be_sent_whatever_a_tool_raised() -> None:
    result = error_result("t", ToolError("half \ud800 pair"))
    assert result_event("c", "m", result).model_dump_json()
