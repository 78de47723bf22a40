"""A layer that asks people where it decides about a call, and what its own model calls cost."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from interpose import (
    Deny,
    Host,
    InterruptDecision,
    InterruptDefinition,
    Middleware,
    Resolutions,
    RunContext,
    RunResult,
    ToolCall,
    ToolDecision,
)
from interpose.agui import violations
from interpose.loop import Budget, LoopAgent, ScriptedModel


class Amount(BaseModel):
    """What the question is about."""

    amount: int


LIMIT = InterruptDefinition("limit", payload=Amount, response=bool)
PAYS = {"calls": [{"name": "pay", "args": {"amount": 500}}, {"name": "read"}]}


class Limit(Middleware):
    """Ask about large payments, where it decides about them."""

    allowed: bool | None = None

    def on_interrupt_resolution(
        self, ctx: RunContext, resolutions: Resolutions, /
    ) -> InterruptDecision | None:
        self.allowed = resolutions.get(LIMIT, "pay")
        return None

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> ToolDecision | None:
        if call.name != "pay":
            return None
        if self.allowed is None:
            amount = Amount(amount=call.args["amount"])
            ctx.interrupt(LIMIT.interrupt("pay", f"Pay {amount.amount}?", amount))
        return None if self.allowed else Deny("Too much.")


def played(*, answer: bool) -> tuple[list[str], RunResult, RunResult]:
    """Run until the question, answer it, and go on; also what the tools did."""
    done: list[str] = []

    def pay(amount: int) -> str:
        """Pay."""
        done.append(f"paid {amount}")
        return done[-1]

    def read() -> str:
        """Read."""
        done.append("read")
        return "read"

    async def main() -> tuple[RunResult, RunResult]:
        agent = LoopAgent(ScriptedModel(PAYS, "Done."), [pay, read])
        async with Host([Limit], agent=agent, strict=True) as host:
            first = await host.run("Pay, please.")
            assert done == []  # nothing runs before everything is decided
            [question] = first.interrupts
            again = host.run(
                first.messages, thread_id=first.thread_id, resume={question.id: answer}
            )
            events = [event async for event in again]
            assert list(violations(events)) == []
            return first, await again

    return done, *asyncio.run(main())


def test_a_layer_asks_where_it_decides_and_the_run_goes_on_with_the_answer() -> None:
    done, first, then = played(answer=True)
    assert (first.outcome, then.outcome) == ("interrupt", "success")
    assert first.interrupts[0].message == "Pay 500?"
    assert sorted(done) == ["paid 500", "read"]
    assert then.text == "Done."


def test_the_answer_may_be_no_and_the_other_call_runs_all_the_same() -> None:
    done, _, then = played(answer=False)
    assert done == ["read"]
    told = [message.content for message in then.messages if message.role == "tool"]
    assert told == ["Too much.", "read"]


def test_what_a_layers_own_model_call_uses_counts_in_the_runs_budget() -> None:
    said: list[str] = []

    class Judge(Middleware):
        async def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> None:
            answer = await ctx.model("judge").complete("Is this safe?", purpose="judge")
            said.append(answer.text)

    def read() -> str:
        """Read."""
        return "read"

    usage = {"input_tokens": 10, "output_tokens": 0}
    call = {"calls": [{"name": "read"}], "usage": usage}
    judge = {"use": "scripted", "turns": [{"text": "Yes.", "usage": usage}]}

    async def main() -> RunResult:
        agent = LoopAgent(ScriptedModel(call, "Done."), [read], budget=Budget(tokens=20))
        overrides = {"models": {"judge": judge}}
        async with Host([Judge], agent=agent, overrides=overrides) as host:
            return await host.run("Hello")

    result = asyncio.run(main())
    assert said == ["Yes."]
    assert result.text == ""  # no second call: ten tokens of the loop, ten of the layer
    assert sum(each.input_tokens or 0 for each in result.usage) == 20
