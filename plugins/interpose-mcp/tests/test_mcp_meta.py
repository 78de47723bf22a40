"""What a tool's ``_meta`` says about its UI, and about who may use it."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import Tool

from interpose_mcp.meta import is_for_app, is_for_model, resource_uri, visibility_of

NESTED = {"ui": {"resourceUri": "ui://a"}}


def tool(meta: Any) -> Tool:
    return Tool.model_validate({"name": "t", "inputSchema": {"type": "object"}, "_meta": meta})


@pytest.mark.parametrize(
    ("meta", "uri"),
    [
        (None, None),
        ({}, None),
        (NESTED, "ui://a"),
        ({"ui/resourceUri": "ui://b"}, "ui://b"),
        ({**NESTED, "ui/resourceUri": "ui://b"}, "ui://a"),
        ({"ui": {}, "ui/resourceUri": "ui://b"}, "ui://b"),
        ({"ui": "ui://a", "ui/resourceUri": "ui://b"}, "ui://b"),
        ({"ui": {"resourceUri": 1}}, None),
        ({"ui": {"resourceUri": None}, "ui/resourceUri": None}, None),
        ({"ui/resourceUri": ["ui://b"]}, None),
    ],
)
def test_the_ui_resource_is_nested_or_in_the_older_flat_key(meta: Any, uri: str | None) -> None:
    assert resource_uri(tool(meta)) == uri


@pytest.mark.parametrize(
    ("visibility", "model", "app"),
    [
        ([], False, False),
        ("model", False, False),
        ("app", False, False),
        (["model"], True, False),
        (["app"], False, True),
        (["model", "app"], True, True),
        (["app", "model"], True, True),
        (["operator"], False, False),
        (["model", "operator"], True, False),
        (["app", "operator"], False, False),
        (["app", 1], False, False),
        (["app", ["model"]], False, False),
        (None, False, False),
        ({"app": True}, False, False),
        (True, False, False),
    ],
)
def test_visibility_is_a_list_of_roles_and_what_is_unclear_is_for_no_frame(
    visibility: Any, *, model: bool, app: bool
) -> None:
    found = tool({"ui": {"visibility": visibility}})
    assert (is_for_model(found), is_for_app(found)) == (model, app)


@pytest.mark.parametrize("meta", [None, {}, {"other": 1}, NESTED, {"ui/resourceUri": "ui://b"}])
def test_without_a_word_on_visibility_a_tool_is_for_both(meta: Any) -> None:
    assert is_for_model(tool(meta))
    assert is_for_app(tool(meta))


@pytest.mark.parametrize("ui", [None, "model", ["app"], 1, False])
def test_a_ui_that_is_no_object_keeps_a_tool_from_frames_alone(ui: Any) -> None:
    assert is_for_model(tool({"ui": ui}))
    assert not is_for_app(tool({"ui": ui}))


@pytest.mark.parametrize(
    ("visibility", "told"),
    [
        (["model", "app"], "model, app"),
        (["app"], "app"),
        (["model"], "model"),
        ([], "nobody"),
    ],
)
def test_people_are_told_who_may_use_a_tool(visibility: Any, told: str) -> None:
    assert visibility_of(tool({"ui": {"visibility": visibility}})) == told
