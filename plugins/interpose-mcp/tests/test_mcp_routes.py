"""The names under which a model calls the tools of servers, and which tools can be offered."""

from __future__ import annotations

import random
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import Tool

from interpose_mcp.routes import Route, declared, is_name, named, sound

SCHEMA = {"type": "object", "properties": {}}


def tool(name: str, **more: Any) -> Tool:
    return Tool.model_validate({"name": name, "inputSchema": SCHEMA, **more})


def names(listings: dict[str, list[str]], taken: set[str] | None = None) -> dict[str, str]:
    """Return what each name stands for, as ``server/tool``."""
    tools = {server: [tool(name) for name in listed] for server, listed in listings.items()}
    routes = named(tools, taken or set())
    assert [route.name for route in routes.values()] == list(routes)
    return {name: f"{route.server}/{route.tool.name}" for name, route in routes.items()}


def test_a_name_has_the_server_and_the_tool_in_it() -> None:
    assert names({"shop": ["buy", "sell"], "bank": ["buy"]}) == {
        "mcp__shop__buy": "shop/buy",
        "mcp__shop__sell": "shop/sell",
        "mcp__bank__buy": "bank/buy",
    }


def test_what_providers_refuse_becomes_an_underscore() -> None:
    assert names({"my.shop": ["files/read.all now", "über"]}) == {
        "mcp__my_shop__files_read_all_now": "my.shop/files/read.all now",
        "mcp__my_shop___ber": "my.shop/über",
    }


def test_names_that_become_alike_get_numbers() -> None:
    assert names({"a": ["x.y", "x/y", "x_y"]}) == {
        "mcp__a__x_y": "a/x.y",
        "mcp__a__x_y_2": "a/x/y",
        "mcp__a__x_y_3": "a/x_y",
    }


def test_servers_whose_ids_become_alike_get_numbers() -> None:
    assert names({"a.b": ["x"], "a_b": ["x"]}) == {
        "mcp__a_b__x": "a.b/x",
        "mcp__a_b__x_2": "a_b/x",
    }


def test_a_name_that_is_taken_is_not_used() -> None:
    assert names({"a": ["x"]}, {"mcp__a__x", "mcp__a__x_2"}) == {"mcp__a__x_3": "a/x"}


def test_a_long_name_is_cut_and_stays_one_of_its_own() -> None:
    long = "t" * 80
    found = list(names({"a": [f"{long}1", f"{long}2"]}))
    assert found == [f"mcp__a__{'t' * 56}", f"mcp__a__{'t' * 54}_2"]
    assert {len(name) for name in found} == {64}


@given(
    st.dictionaries(
        st.text(string.ascii_letters + "._-", min_size=1, max_size=70),
        st.lists(st.text(max_size=70), max_size=5, unique=True),
        max_size=3,
    ),
    st.randoms(use_true_random=False),
)
def test_every_tool_has_a_valid_name_whatever_the_order_of_its_listing(
    listings: dict[str, list[str]], chance: random.Random
) -> None:
    found = names(listings)
    assert sorted(found.values()) == sorted(
        f"{server}/{name}" for server, listed in listings.items() for name in listed
    )
    assert all(is_name(name) and "." not in name for name in found)
    shuffled = {server: chance.sample(listed, len(listed)) for server, listed in listings.items()}
    assert names(shuffled) == found


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "string"}, "its input schema is not that of an object"),
        (
            {"type": "object", "properties": 3},
            "its input schema is none: 3 is not of type 'object'",
        ),
        ({"type": "object", "required": "a"}, "its input schema is none:"),
        ({"$schema": 5, "type": "object"}, "its input schema"),
    ],
)
def test_a_tool_with_a_broken_schema_is_left_out_alone(schema: Any, fault: str) -> None:
    whole, faults = sound([tool("good"), tool("bad", inputSchema=schema)])
    assert [each.name for each in whole] == ["good"]
    assert list(faults) == ["bad"]
    assert faults["bad"].startswith(fault)


def test_a_tool_that_is_listed_twice_is_offered_once() -> None:
    whole, faults = sound([tool("x", description="first"), tool("x", description="second")])
    assert [each.description for each in whole] == ["first"]
    assert faults == {"x": "the server lists it twice"}


def test_a_declaration_tells_of_the_ui_where_it_is_wanted() -> None:
    route = Route("x", "s", tool("x", _meta={"ui": {"resourceUri": "ui://x"}}))
    assert declared(route).description == ""
    assert declared(route, tell_ui=True).description == "\n[UI Resource: ui://x]"
    assert declared(route).parameters == SCHEMA
