"""Layers of the kit that end a run on purpose, or refuse it, further in than the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ag_ui.core import BaseEvent, Interrupt, TextMessageContentEvent

from interpose.authoring import Middleware
from interpose.context import RunContext
from interpose.errors import Reject
from interpose.payloads import ToolCall, ToolCallInfo, ToolResult
from interpose.testing.contracts.subject import Subject

REFUSED: Final = "closed-for-the-day"
QUESTION: Final = Interrupt(id="contract:sure", reason="contract", message="Are you sure?")


@dataclass(frozen=True, slots=True)
class Act:
    """How a layer ends a run. ``outcome``: what the run comes to by it; ``code``: of a refusal."""

    name: str
    do: Callable[[RunContext], Any]
    outcome: str
    code: str = ""


def _refuse(_: RunContext) -> None:
    raise Reject(REFUSED, "We are closed.", status=423)


ACTS: Final = (
    Act("raises Reject", _refuse, "error", REFUSED),
    Act("calls ctx.finish", lambda ctx: ctx.finish("Enough."), "success"),
    Act("calls ctx.abort", lambda ctx: ctx.abort("enough"), "cancelled"),
    Act("calls ctx.interrupt", lambda ctx: ctx.interrupt(QUESTION), "interrupt"),
)


@dataclass(slots=True)
class Notes:
    """What a layer of the kit did and saw. ``acted``: how often it ended the run."""

    acted: int = 0
    calls: list[ToolCallInfo] = field(default_factory=list)


def trouble(subject: Subject, hook: str, act: Act, notes: Notes) -> type[Middleware[Any, Any]]:
    """Return a layer that ends the run by ``act`` in a hook: before the inner part goes on.

    ``on_event``: at the first piece of text. It can stand further in than the subject.
    """

    def done(ctx: RunContext) -> None:
        notes.acted += 1
        act.do(ctx)

    def on_event(_: Any, ctx: RunContext, event: BaseEvent, /) -> BaseEvent:
        if isinstance(event, TextMessageContentEvent):
            done(ctx)
        return event

    def plain(_: Any, ctx: RunContext, *__: Any) -> None:
        done(ctx)

    async def around(_: Any, ctx: RunContext, *given: Any) -> AsyncIterator[BaseEvent]:
        *args, call_next = given
        done(ctx)
        async for event in call_next(*args):
            yield event

    async def around_tool_call(
        _: Any, ctx: RunContext, call: ToolCall, call_next: Any, /
    ) -> ToolResult:
        done(ctx)
        result: ToolResult = await call_next(call)
        return result

    shapes: dict[str, Any] = {
        "on_event": on_event,
        "around_run": around,
        "around_step": around,
        "around_model_call": around,
        "around_tool_call": around_tool_call,
    }
    rewrites = subject.declaration.rewrites_history  # such layers stand innermost
    namespace = {hook: shapes.get(hook, plain), "rewrites_history": rewrites}
    return type("KitTrouble", (Middleware,), namespace)


def witness(notes: Notes) -> type[Middleware[Any, Any]]:
    """Return a layer that notes each settled tool call."""

    def on_after_tool_call(_: Any, ctx: RunContext, info: ToolCallInfo, /) -> None:
        del ctx
        notes.calls.append(info)

    return type("KitWitness", (Middleware,), {"on_after_tool_call": on_after_tool_call})
