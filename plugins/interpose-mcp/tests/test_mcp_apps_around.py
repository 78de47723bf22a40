"""Other layers hold for what frames ask, too; and a server of Interpose serves it like any run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunAgentInput, RunFinishedEvent
from looping import Spy, calls, loop
from mcp_frames import Shop, activities, answered, apps, here, play, proxied, raw, says, shown, tool
from mcp_shop import Calling
from serving import body, events_of, run_async, served

from interpose import CallRun, Host, Layer, Middleware, Reject, RunContext, on
from interpose_redact import Redact

CARD = "4111 1111 1111 1111"
PAY = {"serverId": "shop", "method": "tools/call", "params": {"name": "pay", "arguments": {}}}
NOWHERE = {"gone": {"url": "http://127.0.0.1:9/mcp"}}


def pays(text: str = "paid") -> Shop:
    """Return a server with a tool for frames."""
    return Shop(shown("pay", "app"), shown("cart", "model"), call=lambda *_: says(text))


class Locked(Middleware):
    """Lets nobody in."""

    def setup(self, ctx: RunContext) -> None:
        raise Reject("unauthenticated", "Log in first.", status=401)


def limit(most: int) -> type[Middleware[Any, Any]]:
    """Return a layer that lets so many runs in."""
    runs: list[str] = []

    class Limit(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            if len(runs) == most:
                raise Reject("limit", "That is enough.", status=429)
            runs.append(ctx.run_id)
            async for event in call_next(run_input):
                yield event

    return Limit


def test_what_a_loop_shows_is_redacted() -> None:
    model = Spy(calls(("cart", {"to": "bob@example.com"})), "done")
    shop = pays(f"paid with {CARD}")
    played = loop([Layer(Redact), apps(here(shop=shop))], model)
    [activity] = activities(played.events)
    assert activity.content["result"] == raw("paid with [card]")
    assert activity.content["toolInput"] == {"to": "[email]"}
    assert model.told() == ["paid with [card]"]
    assert not any("4111" in event.model_dump_json() for event in played.events)


@pytest.mark.parametrize("strict", [True, False])
def test_what_any_other_agent_shows_is_redacted(*, strict: bool) -> None:
    agent = Calling([("c1", "cart", '{"to": "bob@example.com"}')])
    shop = pays(f"paid with {CARD}")
    played = play([Layer(Redact), apps(here(shop=shop))], agent, strict=strict)
    [activity] = activities(played.events)
    assert activity.content["result"] == raw("paid with [card]")
    assert activity.content["toolInput"] == {"to": "[email]"}
    assert agent.inputs[1].messages[-1].content == "paid with [card]"
    assert not any("4111" in event.model_dump_json() for event in played.events)


def test_what_a_frame_is_answered_is_redacted() -> None:
    shop = pays(f"paid with {CARD}")
    assert answered(here(shop=shop), Layer(Redact), **PAY) == raw("paid with [card]")


def test_whoever_is_not_let_in_asks_nobody() -> None:
    shop = pays()
    played = play([Layer(Locked), apps(here(shop=shop))], Calling(), proxied(**PAY))
    assert played.error == ("unauthenticated", "Log in first.")
    assert shop.asked == []


def test_what_frames_ask_counts_in_a_limit() -> None:
    shop = pays()
    played = play([Layer(limit(2)), apps(here(shop=shop))], Calling(), proxied(**PAY), runs=3)
    assert played.error == ("limit", "That is enough.")
    assert shop.called == [("pay", {})] * 2


def test_a_layer_sees_and_changes_what_a_frame_is_answered() -> None:
    class Marks(Middleware):
        @on(RunFinishedEvent)
        def finished(self, ctx: RunContext, event: RunFinishedEvent) -> RunFinishedEvent:
            return event.model_copy(update={"result": {**(event.result or {}), "seen": True}})

    assert answered(here(shop=pays()), Layer(Marks), **PAY) == {**raw("paid"), "seen": True}


def serve(layer: Layer, agent: Any, check: Callable[[Any], None], **fields: Any) -> None:
    """Serve an agent, send it one request, and check the response."""

    async def main() -> None:
        async with Host([layer], agent=agent) as host, served(host) as (client, _):
            check(await client.post("/", json=body(**fields)))

    run_async(main)


def test_a_frame_is_answered_over_http() -> None:
    agent = Calling()

    def check(response: Any) -> None:
        assert response.status_code == 200
        first, last = events_of(response.text)
        ids = {"threadId": "thread-1", "runId": "run-1"}
        assert {"type": "RUN_STARTED", **ids}.items() <= first.items()
        assert {"type": "RUN_FINISHED", **ids, "result": raw("paid")}.items() <= last.items()

    props = {"__proxiedMCPRequest": PAY}
    serve(apps(here(shop=pays())), agent, check, forwardedProps=props)
    assert agent.inputs == []


def test_a_call_is_shown_over_http() -> None:
    def check(response: Any) -> None:
        kinds = [event["type"] for event in events_of(response.text)]
        assert kinds.count("RUN_STARTED") == kinds.count("RUN_FINISHED") == 1
        assert kinds.index("ACTIVITY_SNAPSHOT") == kinds.index("TOOL_CALL_RESULT") + 1
        [shown_] = [e for e in events_of(response.text) if e["type"] == "ACTIVITY_SNAPSHOT"]
        assert set(shown_["content"]) == {
            "result",
            "resourceUri",
            "serverHash",
            "serverId",
            "toolInput",
        }
        assert shown_["replace"] is True

    serve(apps(here(shop=pays())), Calling([("c1", "cart", "{}")]), check)


@pytest.mark.parametrize(
    ("servers", "status", "message"),
    [
        (NOWHERE, 503, "MCP tool discovery failed"),
        (
            {"shop": {"python": "mcp_frames:at.shop"}},
            400,
            "The tool 'mine' of the client has the name of a tool",
        ),
    ],
)
def test_a_run_that_is_refused_has_a_status_of_http(
    servers: dict[str, Any], status: int, message: str
) -> None:
    def check(response: Any) -> None:
        assert response.status_code == status
        assert message in response.text
        assert "gone" not in response.text

    here(tool("mine"))
    agent = Calling()
    mine = {"name": "mine", "description": "", "parameters": {}}
    layer = apps(servers, discovery_failure_mode="throw")
    serve(layer, agent, check, tools=[mine])
    assert agent.inputs == []
