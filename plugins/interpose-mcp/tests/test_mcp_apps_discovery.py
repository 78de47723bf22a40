"""Which tools ``mcp.apps`` gives an agent, under which names, and when there is no run instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Tool
from looping import Spy, calls, loop
from mcp_frames import ANYTHING, UI, Shop, apps, asking, here, listening, play, shown, tool
from mcp_shop import Calling
from playing import Played

from interpose import Host, Layer, MiddlewareError, Reject, StartupError
from interpose.loop import tool as loop_tool
from interpose_mcp import McpApps, server_hash

NOWHERE = {"url": "http://127.0.0.1:9/mcp", "headers": {"authorization": "Bearer t0ken-of-ours"}}
NOWHERE_HASH = server_hash("http", "http://127.0.0.1:9/mcp")
MINE = Tool(name="mine", description="The client's own.", parameters={})


def offered(*layers: Any, **fields: Any) -> list[Tool]:
    """Return the tools that an agent is given."""
    agent = Calling()
    assert play(layers, agent, asking(**fields)).result.error is None
    return list(agent.inputs[0].tools or ())


def names(*tools: dict[str, Any], **settings: Any) -> list[str]:
    """Return the names of the tools of one server that an agent is given."""
    servers = here(*tools)
    servers["shop"].update(settings)
    return [each.name for each in offered(apps(servers))]


def test_tools_come_after_those_of_the_input_under_their_plain_names() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cart = tool("cart", description="Show it.", inputSchema=schema, meta={"ui/resourceUri": UI})
    servers = here(one=Shop(cart), two=Shop(tool("plain"), shown("page", "model")))
    assert offered(apps(servers), tools=[MINE]) == [
        MINE,
        Tool(name="cart", description=f"Show it.\n[UI Resource: {UI}]", parameters=schema),
        Tool(name="plain", description="", parameters=ANYTHING),
        Tool(name="page", description=f"\n[UI Resource: {UI}]", parameters=ANYTHING),
    ]


def test_a_model_is_given_what_is_visible_to_models() -> None:
    listed = [
        tool("absent", meta={"ui": {"resourceUri": UI}}),
        tool("nothing"),
        shown("nobody"),
        tool("a_text", meta={"ui": {"resourceUri": UI, "visibility": "model"}}),
        shown("model", "model"),
        shown("app", "app"),
        shown("both", "app", "model"),
        shown("another", "operator"),
        shown("model_and_another", "operator", "model"),
        tool("no_ui", meta={"ui": {"visibility": ["app"]}}),
    ]
    assert names(*listed) == ["absent", "nothing", "model", "both", "model_and_another"]


def test_a_loop_is_given_the_same() -> None:
    model = Spy("hello")
    loop([apps(here(shown("cart", "model"), shown("pay", "app"), tool("plain")))], model)
    assert model.tools == [["cart", "plain"]]
    assert model.requests[0].tools[0].description == f"\n[UI Resource: {UI}]"


def test_tools_of_all_pages_are_given() -> None:
    pages = [
        {"tools": [tool("one")], "nextCursor": "1"},
        {"tools": [], "nextCursor": "2"},
        {"tools": [tool("two")]},
    ]
    assert [each.name for each in offered(apps(here(shop=Shop(pages=pages))))] == ["one", "two"]


def test_a_server_behind_allow_and_deny_has_fewer_tools() -> None:
    listed = [tool("one"), tool("two"), shown("three", "app")]
    assert names(*listed, allow=["two", "three"]) == ["two"]
    assert names(*listed, deny=["two"]) == ["one"]


def test_names_that_no_model_may_have_are_left_out_and_told_once() -> None:
    good = ["plain", "dotted.name", "a-b_C9", "x" * 64]
    bad = ["with space", "slash/ed", "x" * 65, "", "nüme", "line\nbreak"]
    agent = Calling()
    with listening() as lines:
        play(apps(here(*map(tool, [*bad, *good]))), agent, runs=3)
    assert [each.name for each in agent.inputs[-1].tools or ()] == good
    told = [line for line in lines if "left out" in line]
    assert len(told) == len(bad)
    assert all(line.startswith("WARNING the tool '") for line in told)
    assert all("'shop'" in line and "\n" not in line for line in told)


# Two tools of one name -----------------------------------------------------------------------
def both() -> Any:
    """Return two servers with a tool of the same name."""
    return here(one=Shop(tool("cart")), two=Shop(tool("other"), shown("cart", "model")))


def refused(played: Played) -> MiddlewareError:
    """Return what a run failed with; the consumer is told nothing of it."""
    error = played.result.error
    assert isinstance(error, MiddlewareError)
    assert played.error == ("middleware-contract", "The run could not be completed.")
    return error


def test_a_name_in_two_servers_fails_the_run_before_the_agent() -> None:
    agent = Calling()
    error = refused(play(apps(both()), agent))
    assert error.message == (
        "the MCP servers 'one' and 'two' both have a tool 'cart', and mcp.apps keeps plain names"
    )
    assert error.hint == "add 'cart' to `deny` of one of them"
    assert agent.inputs == []


def test_a_name_in_two_servers_fails_a_loop_before_its_model() -> None:
    model = Spy("hello")
    error = refused(loop([apps(both())], model))
    assert "'one' and 'two' both have a tool 'cart'" in error.message
    assert model.requests == []


def test_the_operator_is_told_of_a_clash() -> None:
    with listening() as lines:
        play(apps(both()), Calling())
    assert any("'one' and 'two' both have a tool 'cart'" in line for line in lines), lines


def test_the_remedy_of_a_clash_helps() -> None:
    servers = both()
    servers["two"]["deny"] = ["cart"]
    assert [each.name for each in offered(apps(servers))] == ["cart", "other"]


def test_names_that_models_do_not_see_do_not_clash() -> None:
    servers = here(one=Shop(tool("cart")), two=Shop(shown("cart", "app")))
    assert [each.name for each in offered(apps(servers))] == ["cart"]


def test_a_tool_of_the_client_by_the_name_of_a_servers_refuses_the_run() -> None:
    agent = Calling()
    played = play(apps(here(tool("mine"))), agent, asking(tools=[MINE]))
    assert isinstance(played.result.error, Reject)
    assert played.result.error.status == 400
    assert played.error == (
        "mcp-tool-clash",
        "The tool 'mine' of the client has the name of a tool of an MCP server.",
    )
    assert agent.inputs == []


def test_a_tool_of_the_client_clashes_in_a_loop_likewise() -> None:
    model = Spy("hello")
    played = loop([apps(here(tool("mine")))], model, asked=asking(tools=[MINE]))
    assert played.error[0] == "mcp-tool-clash"
    assert model.requests == []


def test_a_tool_of_the_loop_by_the_name_of_a_servers_is_the_operators_to_mend() -> None:
    @loop_tool
    def cart() -> str:
        """Be the loop's own."""
        return "own"

    model = Spy(calls("cart"), "hello")
    error = refused(loop([apps(here(tool("cart")))], model, [cart]))
    assert error.message == (
        "the MCP server 'shop' and the agent both have a tool 'cart', "
        "and mcp.apps keeps plain names"
    )
    assert error.hint == "add 'cart' to `deny` of the server 'shop'"
    assert model.requests == []


def test_an_agent_has_one_layer_of_it(tmp_path: Path) -> None:
    servers = here(one=Shop(tool("cart")), two=Shop(tool("other")))
    layers = [
        Layer(McpApps, {"servers": {name: server}}, id=name) for name, server in servers.items()
    ]
    with pytest.raises(StartupError, match="exclude each other"):
        Host(layers, agent=Calling())
    config = tmp_path / "interpose.toml"
    config.write_text(
        "\n".join(
            f'[middleware.{name}]\nuse = "mcp.apps"\nservers.{name}.python = "mcp_frames:at.{name}"\n'
            for name in servers
        )
    )
    with pytest.raises(StartupError, match="exclude each other"):
        Host.from_config(config, agent=Calling())


# Servers that cannot be listed -----------------------------------------------------------------
def told_of(lines: list[str], server: str, digest: str) -> list[str]:
    """Return the lines on a failure of a server, and see that all of them name it."""
    found = [line for line in lines if line.startswith("ERROR")]
    bound = str({"server_id": server, "server_hash": digest})
    assert all(line.endswith(bound) and digest in line.removesuffix(bound) for line in found)
    return found


def test_a_run_goes_on_without_a_server_that_cannot_be_listed() -> None:
    with listening() as lines:
        found = offered(apps({"gone": NOWHERE, **here(tool("plain"))}))
    assert [each.name for each in found] == ["plain"]
    errors = told_of(lines, "gone", NOWHERE_HASH)
    assert any("MCP tool discovery failed (server gone, hash " in line for line in errors)
    assert any("ConnectError" in line for line in errors), "the whole story"
    assert "t0ken-of-ours" not in "".join(lines)


def test_a_run_is_refused_when_a_server_cannot_be_listed_and_that_is_wanted() -> None:
    agent = Calling()
    servers = {"gone": NOWHERE, **here(tool("plain"))}
    with listening() as lines:
        played = play(apps(servers, discovery_failure_mode="throw"), agent)
    assert played.error == ("mcp-discovery-failed", "MCP tool discovery failed")
    assert agent.inputs == []
    assert told_of(lines, "gone", NOWHERE_HASH) != []
    assert "t0ken-of-ours" not in "".join(lines)


@pytest.mark.parametrize("mode", ["continue", "throw"])
def test_a_loop_does_as_it_is_told_when_a_server_cannot_be_listed(mode: str) -> None:
    model = Spy("hello")
    servers = {"gone": NOWHERE, **here(tool("plain"))}
    played = loop([apps(servers, discovery_failure_mode=mode)], model)
    if mode == "continue":
        assert model.tools == [["plain"]]
    else:
        assert played.error == ("mcp-discovery-failed", "MCP tool discovery failed")
        assert model.requests == []


def test_a_listing_that_repeats_a_cursor_is_a_failure() -> None:
    pages = [{"tools": [tool("one")], "nextCursor": "0"}]
    with listening() as lines:
        assert offered(apps(here(shop=Shop(pages=pages)))) == []
    assert any("repeats a cursor" in line for line in lines)
