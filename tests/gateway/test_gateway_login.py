"""Gateways inside applications: who is logged in in front is known to the server behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput
from playing import finished, say, started
from serving import body, events_of, run_async, served, types_of
from starlette.exceptions import HTTPException
from starlette.requests import Request

from interpose import CREDENTIALS, PRINCIPAL, AgentContext, Host

TOKENS = {"token-of-ada": "ada", "token-of-eve": "eve"}


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Token:
    scheme: str
    token: str = field(repr=False)


class Greeting:
    """Greets whoever the server behind takes the caller for."""

    optional_requires = (PRINCIPAL,)

    async def run(self, run_input: RunAgentInput, ctx: AgentContext) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say(f"Hello, {ctx[PRINCIPAL].subject}."):
            yield event
        yield finished(run_input)


def known(request: Request) -> dict[Any, Any]:
    """Behind: a token stands for a user."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or token not in TOKENS:
        raise HTTPException(401, f"Nobody knows {token}.")
    return {PRINCIPAL: User(TOKENS[token])}


def passed_on(request: Request) -> dict[Any, Any]:
    """In front: the caller's token goes along."""
    return {CREDENTIALS: Token("Bearer", request.headers["x-session"])}


def test_the_credentials_of_each_run_go_along_and_no_others() -> None:
    async def test() -> None:
        behind = Host(agent=Greeting(), provides=[PRINCIPAL])
        async with served(behind, provide=known) as (_, url):
            gateway = Host(
                overrides={"agent": {"use": "remote", "url": url}}, provides=[CREDENTIALS]
            )
            async with served(gateway, provide=passed_on) as (client, _):
                answers = [
                    await client.post("/", json=body(), headers={"x-session": token})
                    for token in (*TOKENS, "token-of-nobody")
                ]
        assert [types_of(each.text)[-1] for each in answers] == [
            "RUN_FINISHED",
            "RUN_FINISHED",
            "RUN_ERROR",
        ]
        assert "Hello, ada." in answers[0].text
        assert "Hello, eve." in answers[1].text
        assert events_of(answers[2].text)[-1]["message"] == (
            "The remote agent answered with HTTP 401 (Unauthorized)."
        )
        assert "token-of-nobody" not in answers[2].text

    run_async(test)
