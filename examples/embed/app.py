"""Run an agent through middleware, on behalf of the user who is logged in."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose import PRINCIPAL, Host, Layer, Middleware, Reject, RunContext, Settings, Stage
from interpose_redact import Redact


@dataclass(frozen=True)
class User:
    """The application's own user class; any object with these members will do."""

    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])


class TenantSettings(Settings):
    tenants: frozenset[str]


class TenantGuard(Middleware[TenantSettings]):
    """Refuse a run before the agent sees it, unless the user's tenant is served here."""

    stage = Stage.EDGE
    requires = (PRINCIPAL,)

    def setup(self, ctx: RunContext) -> None:
        user = ctx[PRINCIPAL]
        if user.tenant not in self.settings.tenants:
            raise Reject("tenant", f"{user.subject}, your organisation is not served here.")


async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    """Answer a run; in your application, the agent that you have already."""
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield TextMessageStartEvent(message_id="m1")
    for piece in ("Write to ada@exam", "ple.com, please."):
        yield TextMessageContentEvent(message_id="m1", delta=piece)
    yield TextMessageEndEvent(message_id="m1")
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


async def main() -> None:
    host = Host(
        layers=[Layer(TenantGuard, {"tenants": ["acme"]}), Layer(Redact, {"entities": ["email"]})],
        agent=agent,
        provides=[PRINCIPAL],  # the application promises a user for each run
    )
    async with host:
        for user in (User("ada", tenant="acme"), User("eve", tenant="other")):
            result = await host.run("Whom do I ask?", provide={PRINCIPAL: user})
            print(f"{user.subject}: {result.outcome}: {result.text or result.error}")


if __name__ == "__main__":
    asyncio.run(main())
