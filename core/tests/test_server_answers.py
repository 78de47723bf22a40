"""What a client gets: streams, and refusals before there is a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    RunFinishedEvent,
    StateSnapshotEvent,
    TextMessageStartEvent,
)
from playing import Agent, agent_of, finished, say, started
from serving import body, events_of, run_async, served, server, types_of
from starlette.exceptions import HTTPException
from starlette.requests import Request

from interpose import PRINCIPAL, Host, Middleware, Reject, RunContext, UsageError
from interpose.agui import violations
from interpose.server import asgi, response

SPOKEN = [
    "RUN_STARTED",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "RUN_FINISHED",
]


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])


def test_a_run_is_answered_as_server_sent_events_framed_with_lf() -> None:
    async def test() -> None:
        async with served(Host(agent=agent_of(*say("a", "b")))) as (client, _):
            answer = await client.post("/", json=body())
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"].startswith("no-cache")
        assert answer.headers["x-accel-buffering"] == "no"
        assert "content-length" not in answer.headers
        assert b"\r" not in answer.content
        assert answer.content.endswith(b"\n\n")
        assert types_of(answer.text) == SPOKEN
        assert events_of(answer.text)[0]["runId"] == "run-1"

    run_async(test)


def test_each_agent_has_its_route_and_an_unknown_one_is_not_found() -> None:
    async def test() -> None:
        agents = {"default": agent_of(*say("first")), "billing": agent_of(*say("second"))}
        async with served(Host(agents=agents)) as (client, _):
            default = await client.post("/", json=body())
            billing = await client.post("/agents/billing", json=body())
            slashed = await client.post("/agents/billing/", json=body())
            unknown = await client.post("/agents/nobody", json=body())
            nowhere_either = await client.post("/healthz/", json=body())
            nowhere = await client.post("/elsewhere", json=body())
        assert "first" in default.text
        assert "second" in billing.text
        assert "second" in slashed.text
        assert nowhere_either.status_code == 404
        assert (unknown.status_code, unknown.json()["code"]) == (404, "no-agent")
        assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not-found")

    run_async(test)


def test_the_only_agent_answers_at_the_root_whatever_its_name() -> None:
    async def test() -> None:
        async with served(Host(agents={"billing": agent_of(*say("hi"))})) as (client, _):
            assert types_of((await client.post("/", json=body())).text)[-1] == "RUN_FINISHED"

    run_async(test)


SECRET = "hunter2-do-not-repeat"


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{}", {"content-type": "text/plain"}, 415, "media-type"),
        (b"{}", {}, 415, "media-type"),
        (b"{", {"content-type": "application/json"}, 400, "invalid-input"),
        (b'{"a": NaN}', {"content-type": "application/json"}, 400, "invalid-input"),
        (b"\xff\xfe", {"content-type": "application/json"}, 400, "invalid-input"),
        (
            b'["' + SECRET.encode() + b'"]',
            {"content-type": "application/json"},
            400,
            "invalid-input",
        ),
        (b"[" * 100_000, {"content-type": "application/json"}, 400, "invalid-input"),
        (b"null", {"content-type": "application/json"}, 400, "invalid-input"),
        (b'"' + b"x" * 5000 + b'"', {"content-type": "application/json"}, 413, "too-large"),
    ],
)
def test_what_is_no_input_is_refused_as_a_problem(
    content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    async def test() -> None:
        host = Host(agent=agent_of(), overrides=server(max_body=200_000 if status == 400 else 4096))
        async with served(host) as (client, _):
            answer = await client.post("/", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert SECRET not in answer.text

    run_async(test)


def test_a_body_without_a_declared_length_is_bounded_as_well() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    async def test() -> None:
        async with served(Host(agent=agent_of(), overrides=server(max_body=4096))) as (client, _):
            answer = await client.post(
                "/", content=parts(), headers={"content-type": "application/json"}
            )
        assert answer.status_code == 413

    run_async(test)


def test_each_wrong_field_is_named_by_its_path_and_no_value_is_repeated() -> None:
    async def test() -> None:
        wrong = {
            "threadId": 7,
            "messages": [{"id": "m", "role": "user", "content": {"password": SECRET}}],
            "resume": [{"interruptId": "i", "status": SECRET}],
        }
        async with served(Host(agent=agent_of())) as (client, _):
            answer = await client.post("/", json=wrong)
        assert answer.status_code == 400
        paths = [line.partition(":")[0] for line in answer.json()["errors"]]
        assert {"threadId", "runId", "resume[0].status"} <= set(paths)
        assert any(path.startswith("messages[0].content") for path in paths)
        assert SECRET not in answer.text

    run_async(test)


def test_thousands_of_wrong_fields_give_a_bounded_answer() -> None:
    async def test() -> None:
        async with served(Host(agent=agent_of())) as (client, _):
            answer = await client.post("/", json={"messages": [{"role": "user"}] * 5000})
        assert answer.status_code == 400
        assert len(answer.json()["errors"]) == 51
        assert answer.json()["errors"][-1].startswith("and ")

    run_async(test)


def test_another_method_is_refused_and_told_which_one_serves() -> None:
    async def test() -> None:
        async with served(Host(agent=agent_of())) as (client, _):
            answer = await client.get("/")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json()["code"] == "method"

    run_async(test)


class Refuse(Middleware):
    """Refuse in setup, with what the test wants."""

    def setup(self, ctx: RunContext) -> None:
        raise Reject("quota", "Your quota is used up.", status=429, retry_after=1.2)


class RefuseLate(Middleware):
    """Refuse when the first message begins."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        if isinstance(event, TextMessageStartEvent):
            raise Reject("topic", "Not about that.", status=451)


def test_a_reject_before_the_first_event_is_the_http_status() -> None:
    async def test() -> None:
        async with served(Host([Refuse], agent=agent_of())) as (client, _):
            answer = await client.post("/", json=body())
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert answer.json()["code"] == "quota"
        assert answer.json()["detail"] == "Your quota is used up."

    run_async(test)


def test_a_reject_after_the_first_event_is_a_run_error_in_the_stream() -> None:
    async def test() -> None:
        async with served(Host([RefuseLate], agent=agent_of(*say("x")))) as (client, _):
            answer = await client.post("/", json=body())
        assert answer.status_code == 200
        last = events_of(answer.text)[-1]
        assert (last["type"], last["code"], last["message"]) == (
            "RUN_ERROR",
            "topic",
            "Not about that.",
        )

    run_async(test)


def test_an_agent_that_raises_gives_a_stream_with_one_run_error_and_no_text_of_it() -> None:
    async def test() -> None:
        agent = agent_of(TextMessageStartEvent(message_id="m"), RuntimeError(SECRET))
        async with served(Host(agent=agent)) as (client, _):
            answer = await client.post("/", json=body())
        assert answer.status_code == 200
        assert types_of(answer.text)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
        assert SECRET not in answer.text

    run_async(test)


def test_the_logged_in_user_reaches_the_layers() -> None:
    class Greet(Middleware):
        requires = (PRINCIPAL,)

        def setup(self, ctx: RunContext) -> None:
            if ctx[PRINCIPAL].subject != "ada":
                raise Reject("who", f"Not you, {ctx[PRINCIPAL].subject}.", status=403)

    async def provide(request: Request) -> dict[Any, Any]:
        await asyncio.sleep(0)
        name = request.headers.get("x-user")
        if name is None:
            raise HTTPException(401, "Log in.", {"www-authenticate": "Bearer"})
        if name == "mallory":
            raise Reject("banned", "Go away.", status=410)
        return {PRINCIPAL: User(name)}

    async def test() -> None:
        host = Host([Greet], agent=agent_of(), provides=[PRINCIPAL])
        async with served(host, provide=provide) as (client, _):
            answers = [
                await client.post("/", json=body(), headers=headers)
                for headers in ({"x-user": "ada"}, {"x-user": "eve"}, {}, {"x-user": "mallory"})
            ]
            # Who nobody knows is refused before the body is looked at.
            unread = await client.post("/", content=b"{", headers={})
        assert [answer.status_code for answer in answers] == [200, 403, 401, 410]
        assert answers[1].json()["detail"] == "Not you, eve."
        assert answers[2].headers["www-authenticate"] == "Bearer"
        assert unread.status_code == 401

    run_async(test)


def waiting_for(release: asyncio.Event) -> Agent:
    """Return an agent that begins, and ends when it is let."""

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await release.wait()
        yield finished(run_input)

    return agent


def test_a_run_id_that_is_open_is_a_conflict_and_free_again_afterwards() -> None:
    release = asyncio.Event()

    async def test() -> None:
        async with served(Host(agent=waiting_for(release))) as (client, _):
            async with client.stream("POST", "/", json=body()) as first:
                conflict = await client.post("/", json=body())
                assert (conflict.status_code, conflict.json()["code"]) == (409, "run-open")
                release.set()
                assert types_of((await first.aread()).decode())[-1] == "RUN_FINISHED"
            again = await client.post("/", json=body())
            assert again.status_code == 200

    run_async(test)


def test_too_many_runs_are_told_to_come_again() -> None:
    release = asyncio.Event()

    async def test() -> None:
        host = Host(agent=waiting_for(release), overrides={"host": {"max_concurrent": 1}})
        async with served(host) as (client, _):
            async with client.stream("POST", "/", json=body()) as first:
                busy = await client.post("/", json=body(run_id="run-2"))
                release.set()
                await first.aread()
            assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
            assert busy.json()["code"] == "busy"

    run_async(test)


async def cancelled(run_input: RunAgentInput) -> AsyncIterator[dict[str, Any]]:
    """An agent that ends its run as cancelled."""
    ids = {"threadId": run_input.thread_id, "runId": run_input.run_id}
    yield {"type": "RUN_STARTED", **ids}
    usage = [{"provider": "p", "model": "m", "inputTokens": 3}]
    yield {"type": "RUN_FINISHED", **ids, "outcome": {"type": "cancelled"}, "usage": usage}


def test_an_old_client_gets_run_error_in_place_of_the_cancelled_outcome() -> None:
    async def test() -> None:
        async with served(Host(agent=cancelled)) as (client, _):
            new = await client.post("/", json=body())
            old = await client.post(
                "/", json={k: v for k, v in body().items() if k != "protocolVersion"}
            )
        assert events_of(new.text)[-1]["outcome"] == {"type": "cancelled"}
        last = events_of(old.text)[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "cancelled")
        assert last["usage"][0]["inputTokens"] == 3

    run_async(test)


@pytest.mark.parametrize(
    "unwritable",
    [
        CustomEvent(name="x", value={"a": object()}),
        StateSnapshotEvent(snapshot={1, 2, object()}),
        TextMessageStartEvent(message_id="m2", metadata={"a": object()}),
    ],
    ids=lambda event: event.type.value,
)
def test_a_value_that_json_cannot_say_ends_the_run_with_a_valid_stream(
    unwritable: BaseEvent,
) -> None:
    async def test() -> None:
        agent = agent_of(TextMessageStartEvent(message_id="m1"), unwritable, *say("after"))
        async with served(Host(agent=agent)) as (client, _):
            answer = await client.post("/", json=body())
        events = events_of(answer.text)
        assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "invalid-stream")
        assert "after" not in answer.text
        assert {"type": "TEXT_MESSAGE_END", "messageId": "m1"} in events
        assert list(violations(_typed(events))) == []

    run_async(test)


def test_a_result_that_json_cannot_say_is_a_failure_not_a_success() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield RunFinishedEvent(
            thread_id=run_input.thread_id, run_id=run_input.run_id, result=object()
        )

    async def test() -> None:
        async with served(Host(agent=agent)) as (client, _):
            events = events_of((await client.post("/", json=body())).text)
        assert [event["type"] for event in events] == ["RUN_STARTED", "RUN_ERROR"]

    run_async(test)


def test_health_readiness_and_the_plan_which_is_not_shown_unless_wanted() -> None:
    async def test() -> None:
        async with served(Host([Refuse], agent=agent_of())) as (client, _):
            health, ready, plan = [
                await client.get(path) for path in ("/healthz", "/readyz", "/plan")
            ]
        assert (health.status_code, ready.status_code, plan.status_code) == (200, 200, 404)
        host = Host([Refuse], agent=agent_of(), overrides=server(expose_plan=True))
        async with served(host) as (client, _):
            plan = await client.get("/plan")
            nobody = await client.get("/agents/nobody/plan")
        assert [layer["id"] for layer in plan.json()["layers"]] == ["refuse"]
        assert nobody.status_code == 404

    run_async(test)


def test_browsers_may_call_from_the_origins_that_the_operator_names_only() -> None:
    preflight = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-tenant",
    }

    async def test() -> None:
        async with served(Host(agent=agent_of())) as (client, _):
            off = await client.options("/", headers=preflight)
            answer = await client.post("/", json=body(), headers={"origin": "https://app.example"})
        assert off.status_code == 405
        assert not [name for name in answer.headers if name.startswith("access-control")]
        host = Host(agent=agent_of(), overrides=server(cors=["https://app.example"]))
        async with served(host) as (client, _):
            on = await client.options("/", headers=preflight)
            foreign = await client.options(
                "/", headers={**preflight, "origin": "https://evil.example"}
            )
            answer = await client.post("/", json=body(), headers={"origin": "https://app.example"})
        assert on.status_code == 200
        assert on.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-tenant" in on.headers["access-control-allow-headers"]
        assert foreign.status_code == 400
        assert answer.headers["access-control-allow-origin"] == "https://app.example"

    run_async(test)


def test_an_origin_is_compared_as_browsers_write_it() -> None:
    async def test() -> None:
        host = Host(agent=agent_of(), overrides=server(cors=["HTTPS://App.example/"]))
        async with served(host) as (client, _):
            answer = await client.post("/", json=body(), headers={"origin": "https://app.example"})
        assert answer.headers["access-control-allow-origin"] == "https://app.example"

    run_async(test)


def test_a_login_that_hangs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpose.server.application.PROVIDE_DEADLINE", 0.1)

    async def provide(_request: Request) -> dict[Any, Any]:
        await asyncio.sleep(3600)
        return {}

    async def test() -> None:
        async with served(Host(agent=agent_of()), provide=provide) as (client, _):
            answer = await client.post("/", json=body())
        assert (answer.status_code, answer.json()["code"]) == (503, "provide-timeout")

    run_async(test)


def test_a_login_may_answer_without_a_body() -> None:
    def provide(_request: Request) -> dict[Any, Any]:
        raise HTTPException(204)

    async def test() -> None:
        async with served(Host(agent=agent_of()), provide=provide) as (client, _):
            answer = await client.post("/", json=body())
        assert (answer.status_code, answer.content) == (204, b"")

    run_async(test)


def test_what_is_no_host_run_or_function_is_refused_where_it_is_given() -> None:
    with pytest.raises(UsageError, match="given a str in place of a Host"):
        asgi("host")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"provide of interpose\.server\.asgi is a dict"):
        asgi(Host(agent=agent_of()), provide={})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="given a str in place of a run"):
        response("run", Request({"type": "http"}))  # type: ignore[arg-type]


def test_unknown_content_of_an_input_is_dropped_and_the_run_goes_on() -> None:
    async def test() -> None:
        asked = body(extra=1)
        asked["messages"].append({"id": "x", "role": "oracle", "content": "?"})
        async with served(Host(agent=agent_of(*say("a", "b")))) as (client, _):
            answer = await client.post("/", json=asked)
        assert types_of(answer.text) == SPOKEN

    run_async(test)


def _typed(events: list[dict[str, Any]]) -> list[BaseEvent]:
    from ag_ui.core import Event
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(Event)
    return [adapter.validate_python(json.loads(json.dumps(event))) for event in events]
