"""What a frame asks of its server: who is asked, what it may ask for, and what it is answered."""

from __future__ import annotations

from typing import Any

import pytest
from looping import Spy, loop
from mcp_frames import (
    PRIVATE,
    UI,
    Shop,
    answered,
    apps,
    asking,
    here,
    listening,
    play,
    proxied,
    raw,
    says,
    shown,
    tool,
)
from mcp_shop import Calling, bounded

from interpose import Host
from interpose_mcp import server_hash

FAILED = {"error": "Error: MCP request failed"}
UNAVAILABLE = {"error": "Error: MCP tool unavailable to this app"}
SHOP_HASH = server_hash("python", "shop")
BOUND = str({"server_id": "shop", "server_hash": SHOP_HASH})


def deep(levels: int) -> dict[str, Any]:
    """Return an object in an object, and so on."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def counter(**more: Any) -> Shop:
    """Return a server with tools for models, for frames and for both."""
    return Shop(shown("pay", "app"), shown("cart", "model"), shown("both", "model", "app"), **more)


def call(name: str = "pay", **params: Any) -> dict[str, Any]:
    """Return a request to call a tool, as a frame sends it."""
    return {"serverId": "shop", "method": "tools/call", "params": {"name": name, **params}}


# Answers -------------------------------------------------------------------------------------
def test_a_frame_calls_a_tool_of_its_server() -> None:
    shop = counter()
    assert answered(here(shop=shop), **call(arguments={"n": 1})) == raw("pay {'n': 1}")
    assert shop.called == [("pay", {"n": 1})]


def test_the_tools_are_listed_anew_before_a_call_in_the_same_session() -> None:
    shop = counter()
    answered(here(shop=shop), **call())
    assert shop.asked[-2:] == ["tools/list", "tools/call"]
    sessions = [method for method in shop.asked if method in {"initialize", "server/discover"}]
    assert len(sessions) == 1, shop.asked


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
def test_a_call_needs_no_arguments(arguments: dict[str, Any]) -> None:
    assert answered(here(shop=counter()), **call(**arguments))["content"][0]["text"] == "pay {}"


def test_a_result_that_is_an_error_is_a_result() -> None:
    asked = call(arguments={"unwell": "no"})
    assert answered(here(shop=counter()), **asked) == raw("no", error=True)


def test_a_frame_reads_a_resource_with_all_that_is_said_of_it() -> None:
    asked = {"serverId": "shop", "method": "resources/read", "params": {"uri": UI}}
    found = answered(here(shop=counter()), **asked)
    assert found["contents"] == [
        {
            "uri": UI,
            "mimeType": "text/html;profile=mcp-app",
            "text": "<p>cart</p>",
            "_meta": {"ui": {"csp": {"connectDomains": ["https://shop.example"]}}},
        }
    ]
    assert "resultType" not in found


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": {}}])
def test_a_ping_is_answered_in_each_protocol(protocol: str, params: dict[str, Any]) -> None:
    shop = counter()
    servers = here(shop=shop)
    servers["shop"]["protocol"] = protocol
    assert answered(servers, serverId="shop", method="ping", **params) == {}
    # The newer protocol has no ping: that there is a session says the same.
    assert ("ping" in shop.asked) is (protocol == "legacy")
    assert shop.asked != []


def test_what_a_frame_logs_stays_here() -> None:
    shop = counter()
    params = {"level": "info", "data": "line\nbreak"}
    with listening() as lines:
        asked = {"serverId": "shop", "method": "notifications/message", "params": params}
        assert answered(here(shop=shop), **asked) == {"success": True}
    assert shop.asked == []
    [line] = [line for line in lines if "a frame of the MCP server shop logs" in line]
    assert line.startswith("DEBUG")
    assert "\n" not in line
    assert line.endswith(BOUND)


def test_a_frame_is_answered_without_a_loop_or_its_model() -> None:
    model = Spy("hello")
    played = loop([apps(here(shop=counter()))], model, asked=proxied(**call()))
    assert played.types == ["RUN_STARTED", "RUN_FINISHED"]
    assert played.result.error is None
    assert model.requests == []


@pytest.mark.parametrize("nothing", [None, False, "", 0])
def test_without_a_request_the_agent_runs(nothing: Any) -> None:
    played = play(
        apps(here(shop=counter())),
        Calling(),
        asking(forwardedProps={"__proxiedMCPRequest": nothing}),
    )
    assert played.text == "done"


# Which server --------------------------------------------------------------------------------
def two() -> dict[str, Any]:
    return here(shop=counter(), other=Shop(shown("pay", "app")))


def test_the_id_of_a_server_counts_more_than_a_hash() -> None:
    other = server_hash("python", "other")
    asked = {**call(arguments={}), "serverId": "shop", "serverHash": other}
    shop, second = counter(), Shop()
    assert "content" in answered(here(shop=shop, other=second), **asked)
    assert second.asked == []


@pytest.mark.parametrize("id_", [{}, {"serverId": "gone"}, {"serverId": None}, {"serverId": 7}])
def test_without_an_id_that_is_known_the_hash_counts(id_: dict[str, Any]) -> None:
    asked = {"method": "ping", "serverHash": SHOP_HASH, **id_}
    assert answered(two(), **asked) == {}


def test_a_hash_that_two_servers_have_means_none_but_their_ids_do() -> None:
    shops: dict[str, Any] = {
        name: {"url": "http://127.0.0.1:9/mcp", "timeout": 5} for name in ("one", "two")
    }
    digest = server_hash("http", "http://127.0.0.1:9/mcp")
    with listening() as lines:
        asked = {"serverHash": digest, "method": "ping"}
        assert answered(shops, **asked) == {"error": f"Unknown server: {digest}"}
    assert not any("connecting" in line for line in lines)
    with listening() as lines:
        assert answered(shops, serverId="two", **asked) == FAILED
    assert any("connecting" in line and "server two" in line for line in lines)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({}, "undefined"),
        ({"serverId": "gone"}, "gone"),
        ({"serverHash": "beef"}, "beef"),
        ({"serverId": "gone", "serverHash": "beef"}, "gone"),
        ({"serverId": 7}, "7"),
        ({"serverId": ["shop"]}, '["shop"]'),
        ({"serverHash": {"a": 1}}, '{"a":1}'),
        ({"serverId": "two\nlines\u202e"}, "two\\nlines\\u202e"),
        ({"serverId": "x" * 1000}, "x" * 200 + "…"),
        ({"serverId": "\ud800"}, "\\ud800"),
        ({"serverId": 10**5000}, "(int)"),
        ({"serverId": deep(100_000)}, "(dict)"),
    ],
)
def test_a_server_that_is_not_there_is_unknown(named: dict[str, Any], told: str) -> None:
    shop = counter()
    asked = {"method": "ping", **named}
    assert answered(here(shop=shop), **asked) == {"error": f"Unknown server: {told}"}
    assert shop.asked == []


# What is allowed -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("tools/list", "tools/list"),
        ("resources/list", "resources/list"),
        ("initialize", "initialize"),
        ("TOOLS/CALL", "TOOLS/CALL"),
        ("ping ", "ping "),
        ("ping\nERROR forged", "ping\\nERROR forged"),
        ("\x1b[31m", "\\x1b[31m"),
        ("", ""),
        ("m" * 100_000, "m" * 200 + "…"),
        (None, "undefined"),
        (7, "7"),
        (["ping"], '["ping"]'),
        ({"method": "ping"}, '{"method":"ping"}'),
    ],
)
def test_a_method_that_is_not_allowed_is_refused_before_anybody_is_asked(
    method: Any, told: str
) -> None:
    shop = counter()
    with listening() as lines:
        error = f"Error: MCP method not allowed for UI proxy: {told}"
        assert answered(here(shop=shop), serverId="shop", method=method) == {"error": error}
    assert shop.asked == []
    assert all("\n" not in line and "\x1b" not in line for line in lines)


def test_a_request_without_a_method_is_refused() -> None:
    error = "Error: MCP method not allowed for UI proxy: undefined"
    assert answered(here(shop=counter()), serverId="shop") == {"error": error}


@pytest.mark.parametrize("request_", [{}, [], "ping", 1, True, ["serverId", "shop"]])
def test_a_request_that_is_no_object_names_no_server_and_the_agent_does_not_run(
    request_: Any,
) -> None:
    agent, shop = Calling(), counter()
    asked = asking(forwardedProps={"__proxiedMCPRequest": request_})
    played = play(apps(here(shop=shop)), agent, asked)
    assert played.events[-1].model_dump()["result"] == {"error": "Unknown server: undefined"}
    assert agent.inputs == []
    assert shop.asked == []


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        ("tools/call", None, "the name of the tool is no text"),
        ("tools/call", [], "the params are no object"),
        ("tools/call", "pay", "the params are no object"),
        ("tools/call", 5, "the params are no object"),
        ("tools/call", {}, "the name of the tool is no text"),
        ("tools/call", {"name": 5}, "the name of the tool is no text"),
        ("tools/call", {"name": ["pay"]}, "the name of the tool is no text"),
        ("tools/call", {"name": "pay", "arguments": []}, "the arguments are no object"),
        ("tools/call", {"name": "pay", "arguments": "{}"}, "the arguments are no object"),
        ("resources/read", {}, "the uri of the resource is no text"),
        ("resources/read", {"uri": {"a": 1}}, "the uri of the resource is no text"),
        ("ping", ["now"], "the params are no object"),
        ("notifications/message", "hello", "the params are no object"),
    ],
)
def test_a_malformed_request_fails_before_anybody_is_asked(
    method: str, params: Any, why: str
) -> None:
    shop = counter()
    with listening() as lines:
        asked = {"serverId": "shop", "method": method, "params": params}
        assert answered(here(shop=shop), **asked) == FAILED
    assert shop.asked == []
    [line] = [line for line in lines if "MCP proxy request failed" in line]
    assert f"({method}) (server shop, hash {SHOP_HASH}): Malformed: {why}" in line
    assert line.endswith(BOUND)


@pytest.mark.parametrize("size", [1, 1_000_000])
@pytest.mark.parametrize("levels", [0, 100])
def test_large_and_nested_arguments_get_an_answer(size: int, levels: int) -> None:
    shop = counter(call=lambda name, arguments: echo_length(arguments))
    asked = call(arguments={"text": "x" * size, "deep": deep(levels)})
    assert answered(here(shop=shop), **asked)["content"][0]["text"] == str(size)


def echo_length(arguments: Any) -> Any:
    return says(str(len(arguments["text"])))


def test_arguments_nested_beyond_all_bounds_fail_alone() -> None:
    shop = counter()
    assert answered(here(shop=shop), **call(arguments={"deep": deep(5_000)})) == FAILED
    assert shop.called == []


# Which tools ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "meta",
    [
        {"ui": {"visibility": ["model"]}},
        {"ui": {"visibility": []}},
        {"ui": {"visibility": "app"}},
        {"ui": {"visibility": ["app", "operator"]}},
        {"ui": {"visibility": ["app", 1]}},
        {"ui": {"visibility": {"app": True}}},
        {"ui": {"visibility": None}},
        {"ui": "app"},
        {"ui": ["app"]},
    ],
)
def test_a_tool_that_is_not_clearly_for_frames_is_not_called(meta: Any) -> None:
    shop = Shop(tool("pay", meta=meta), tool("other"))
    with listening() as lines:
        assert answered(here(shop=shop), **call()) == UNAVAILABLE
    assert shop.called == []
    assert any(line.startswith("WARNING MCP tool unavailable") for line in lines)


@pytest.mark.parametrize(
    "meta", [None, {}, {"ui": {}}, {"ui": {"visibility": ["app"]}}, {"ui/resourceUri": UI}]
)
def test_a_tool_that_is_for_frames_is_called_with_and_without_ui(meta: Any) -> None:
    assert "content" in answered(here(tool("pay", meta=meta)), **call())


@pytest.mark.parametrize("name", ["gone", "", "PAY", "pay ", "p" * 100_000, "pay\n", "\ud800"])
def test_a_tool_that_is_not_listed_is_unavailable(name: str) -> None:
    shop = counter()
    assert answered(here(shop=shop), **call(name)) == UNAVAILABLE
    assert shop.called == []


def test_a_tool_that_is_listed_twice_is_unavailable() -> None:
    pages = [
        {"tools": [shown("pay", "app")], "nextCursor": "1"},
        {"tools": [shown("pay", "app")]},
    ]
    shop = Shop(pages=pages)
    assert answered(here(shop=shop), **call()) == UNAVAILABLE
    assert shop.called == []


def test_a_tool_on_a_later_page_is_found() -> None:
    pages = [
        {"tools": [tool("one")], "nextCursor": "1"},
        {"tools": [tool("two")], "nextCursor": "2"},
        {"tools": [shown("pay", "app")]},
    ]
    shop = Shop(pages=pages)
    assert "content" in answered(here(shop=shop), **call())
    assert shop.asked.count("tools/list") == 3


def test_a_listing_that_repeats_a_cursor_fails() -> None:
    shop = Shop(pages=[{"tools": [shown("pay", "app")], "nextCursor": "0"}])
    with listening() as lines:
        assert answered(here(shop=shop), **call()) == FAILED
    assert shop.called == []
    assert any("repeats a cursor" in line for line in lines)


def test_what_the_server_says_now_counts_and_not_what_a_run_was_told() -> None:
    shop, found = Shop(tool("pay")), []
    servers = here(shop=shop)

    async def work() -> None:
        async with Host([apps(servers)], agent=Calling()) as host:
            await host.run(asking())
            found.append((await host.run(proxied(**call()))).result)
            shop.pages = [{"tools": [shown("pay", "model")]}]
            found.append((await host.run(proxied(**call()))).result)

    bounded(work)
    assert "content" in found[0]
    assert found[1] == UNAVAILABLE


@pytest.mark.parametrize("lists", [{"deny": ["pay"]}, {"allow": ["both"]}, {"allow": []}])
def test_allow_and_deny_hold_for_frames_before_anybody_is_asked(lists: dict[str, Any]) -> None:
    shop = counter()
    servers = here(shop=shop)
    servers["shop"].update(lists)
    assert answered(servers, **call()) == UNAVAILABLE
    assert shop.asked == []


# Failures ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "asked",
    [
        call(arguments={"refuse": 1}),
        {"serverId": "shop", "method": "resources/read", "params": {"uri": "ui://gone"}},
    ],
)
def test_a_failure_is_told_to_the_operator_and_not_to_the_frame(asked: dict[str, Any]) -> None:
    with listening() as lines:
        assert answered(here(shop=counter()), **asked) == FAILED
    errors = [line for line in lines if line.startswith("ERROR")]
    assert any(PRIVATE in line for line in errors)
    assert any(f"MCP proxy request failed ({asked['method']})" in line for line in errors)
    assert all(line.endswith(BOUND) and SHOP_HASH in line.removesuffix(BOUND) for line in errors)


def test_what_goes_wrong_on_our_side_is_for_the_operator_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError(PRIVATE)

    monkeypatch.setattr("interpose_mcp.proxied.plain", fails)
    with listening() as lines:
        assert answered(here(shop=counter()), **call()) == FAILED
    [line] = [line for line in lines if PRIVATE in line]
    assert line.startswith("ERROR MCP proxy request failed (tools/call) (server shop, hash ")
    assert line.endswith(BOUND)


def test_a_server_that_cannot_be_reached_is_a_failure_like_any_other() -> None:
    server = {"url": "http://127.0.0.1:9/mcp", "headers": {"x-key": "t0ken-of-ours"}}
    with listening() as lines:
        assert answered({"shop": server}, **call()) == FAILED
    assert any("ConnectError" in line for line in lines)
    assert "t0ken-of-ours" not in "".join(lines)
