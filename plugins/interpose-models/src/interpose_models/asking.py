"""What a request asks for beside its messages: tools, output and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ag_ui.core import Tool
from pydantic import ValidationError
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import DEFAULT_PROMPTED_OUTPUT_TEMPLATE
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from interpose import InvalidModelRequest, ModelRequest
from interpose_models.settings import CallSettings, ModelsSettings


def parameters(request: ModelRequest, model: Model) -> ModelRequestParameters:
    """Return the tools, and the output that the answer has to fit.

    An object is asked for natively where the provider can, else in words, with its JSON mode where
    it has one. Another schema is asked for in words alone: providers know objects.
    """
    tools = [_tool(each) for each in request.tools]
    schema = request.output_schema
    if schema is None:
        return ModelRequestParameters(function_tools=tools)
    if schema.get("type") != "object":
        asked = DEFAULT_PROMPTED_OUTPUT_TEMPLATE.replace("a JSON object", "JSON")
        said = InstructionPart(content=asked.format(schema=json.dumps(schema)))
        return ModelRequestParameters(function_tools=tools, instruction_parts=[said])
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if takes_output_natively(model) else "prompted",
        output_object=OutputObjectDefinition(
            json_schema=dict(schema), name=_name_of(schema), description=schema.get("description")
        ),
    )


def takes_output_natively(model: Model) -> bool:
    """Say whether the provider itself keeps an answer to a schema."""
    return bool(model.profile.get("supports_json_schema_output", False))


def _tool(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=tool.parameters or {"type": "object", "properties": {}},
    )


def _name_of(schema: Mapping[str, Any]) -> str:
    title = schema.get("title")
    if not isinstance(title, str):
        return "output"
    kept = "".join(char if char.isascii() and char.isalnum() else "_" for char in title)
    return kept[:64] or "output"


def call_settings(
    asked: Mapping[str, Any], settings: ModelsSettings, model: Model
) -> ModelSettings:
    """Return what a call is made with: the operator's settings, and the request's over them.

    Raises InvalidModelRequest for a setting that neither every provider nor this one knows.
    """
    generic = {name: value for name, value in asked.items() if name in CallSettings.model_fields}
    own = {name: value for name, value in asked.items() if name not in generic}
    for name in own:
        if not name.startswith(settings.prefixes):
            raise InvalidModelRequest(f"There is no setting {name!r} of a call of {settings.name}.")
    try:
        given = CallSettings.model_validate(generic)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InvalidModelRequest(f"The settings of the call do not fit. {wrong}") from None
    merged = {**_told(settings.settings), **settings.provider_settings, **_told(given), **own}
    if "max_retries" not in model.unsupported_settings:
        merged["max_retries"] = settings.max_retries
    return cast("ModelSettings", merged)


def _told(settings: CallSettings) -> dict[str, Any]:
    told = settings.model_dump(exclude_none=True)
    if settings.extra_headers is not None:
        headers = settings.extra_headers.items()
        told["extra_headers"] = {name: value.get_secret_value() for name, value in headers}
    return told
