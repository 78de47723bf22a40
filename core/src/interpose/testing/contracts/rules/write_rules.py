"""Checks that what changes the world happens once, and that an answer is that of its question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ag_ui.core import AssistantMessage, BaseEvent, UserMessage

from interpose.agui import to_json
from interpose.authoring import Middleware
from interpose.context import RunContext
from interpose.errors import Transient
from interpose.payloads import ToolCall, ToolResult
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import LoopHeard, Stage, calling, play_loop, play_turn
from interpose.testing.contracts.loop_tools import Executed
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.subject import Subject

_WRITES: Final = ("place_order", "approved", "flicker", "crash", "refuse")
_AROUND: Final = frozenset({"around_tool_call", "on_before_tool_call"})
_ANSWERS: Final = _AROUND | {"around_run", "around_model_call", "around_step"}


async def writes_once(subject: Subject) -> Finding | None:
    """Let writes succeed and fail, and what comes after them fail; each happens at most once."""
    unavailable: Turns = (calling("place_order"), {"error": "unavailable"})
    scenes: Sequence[tuple[str, Turns, dict[str, Any]]] = (
        ("the tool succeeds", (calling("place_order"), "Done."), {}),
        ("the tool fails after its effect, and may recover", (calling("flicker"), "Done."), {}),
        ("the tool fails after its effect", (calling("crash"), "Done."), {}),
        ("the tool raises a ToolError after its effect", (calling("refuse"), "Done."), {}),
        ("a layer further in fails afterwards", _ONE, {"inside": [_FailsAfterwards]}),
        ("the next model call fails, and may recover", unavailable, {}),
    )
    for what, turns, options in scenes:
        finding = _repeated(what, await play_loop(subject, turns, **options))
        if finding is not None:
            return finding
    asked = await play_turn(subject, (calling("approved", "place_order"), "Done."))
    return _repeated("a call of the batch waited for people", asked)


class _FailsAfterwards(Middleware):
    """Fails once the call has been executed, in a way that may pass."""

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: Any, /
    ) -> ToolResult:
        del ctx
        await call_next(call)
        raise Transient("the audit log is busy")


_ONE: Final = (calling("place_order"), "Done.")


def _repeated(what: str, heard: LoopHeard) -> Finding | None:
    times = Counter((each.tool, each.key) for each in heard.executed if each.tool in _WRITES)
    for (tool, key), count in times.items():
        if count > 1:
            return Finding(
                f"{what}: the call {key.partition(':')[2]!r} of the tool {tool!r}, which writes, "
                f"was executed {count} times",
                'only calls with effect "read" or "idempotent" are repeated, and a run only '
                "before anything of it has left",
            )
    return None


async def own_results(subject: Subject) -> Finding | None:
    """Ask the same of several users, and different things of one; nobody gets another's answer."""
    if _AROUND & set(subject.facts.hooks):
        finding = await _of_tools(subject)
        if finding is not None:
            return finding
    return await _of_models(subject)


async def _of_tools(subject: Subject) -> Finding | None:
    async with Stage(subject, ["Done."]) as stage:

        async def told(user: str, number: int, tool: str, **args: Any) -> str:
            stage.play([calling(tool, **args), "Done."])
            asked = stage.asked(number, thread_id=f"thread-{number}")
            return _results((await stage.run(asked, user)).events)

        await told("ada", 1, "look_up", query="alpha", amount=1)
        other = await told("ada", 2, "look_up", query="beta", amount=1)
        if "query=alpha" in other:
            return _mixed_up("look_up(query='beta')", "look_up(query='alpha')", other)
        other = await told("ada", 3, "look_up", query="alpha", amount=2)
        if "amount=1" in other:
            return _mixed_up("look_up(amount=2)", "look_up(amount=1)", other)
        if stage.tells_users_apart:
            other = await told("bob", 4, "look_up", query="alpha", amount=1)
            if "ada asked" in other:
                return _mixed_up("a call for the user bob", "a call for the user ada", other)
        await told("ada", 5, "place_order", query="one")
        before = len(_orders(stage.tools.executed))
        other = await told("ada", 6, "place_order", query="one")
        if before and "done for ada" in other and len(_orders(stage.tools.executed)) == before:
            return Finding(
                "a call of the tool 'place_order', which writes, was not executed: it got the "
                f"result of a call in an earlier run, {other[:160]!r}",
                'results are kept of calls with effect "read" alone',
            )
    return None


async def _of_models(subject: Subject) -> Finding | None:
    said = "How much have I left?"
    before = [
        UserMessage(id="u1", content="Shall I sell everything?"),
        AssistantMessage(id="a1", content="Only if you must."),
    ]
    async with Stage(subject, ["Done."]) as stage:

        async def told(user: str, number: int, answer: str, history: Iterable[Any] = ()) -> str:
            stage.play([answer] * 4)
            messages = [*history, UserMessage(id="u2", content=said)]
            asked = stage.asked(number, thread_id=f"thread-{number}", said=messages)
            return (await stage.run(asked, user)).result.text

        await told("ada", 1, "Seventeen crowns.")
        turn = await told("ada", 2, "Nothing at all.", [*before, *_more_turns()])
        if "Seventeen" in turn:
            return _mixed_up(
                "a question late in a conversation", "the same words asked first", turn
            )
        if stage.tells_users_apart:
            other = await told("bob", 3, "Four crowns.")
            if "Seventeen" in other:
                return _mixed_up("a question of the user bob", "the same of the user ada", other)
    return None


def _more_turns() -> Sequence[Any]:
    return (UserMessage(id="u3", content="Sell it."), AssistantMessage(id="a3", content="Sold."))


def _orders(executed: Iterable[Executed]) -> Sequence[Executed]:
    return [each for each in executed if each.tool == "place_order"]


def _results(events: Iterable[BaseEvent]) -> str:
    return "\n".join(to_json(event) for event in events if event.type.value == "TOOL_CALL_RESULT")


def _mixed_up(question: str, other: str, answer: str) -> Finding:
    return Finding(
        f"{question} got the answer to {other}: {answer[:200]!r}",
        "what is kept is found again by all that the answer depends on: the final arguments or "
        "the whole request, and whose it is",
    )


def _no_tools(subject: Subject) -> str:
    hooks = _AROUND | {"around_run", "around_step", "around_model_call"}
    return "" if hooks & set(subject.facts.hooks) else "no call of a tool passes through it"


def _no_answers(subject: Subject) -> str:
    return "" if _ANSWERS & set(subject.facts.hooks) else "it gives no answers of its own"


RULES: Final = (
    Rule(
        "writes-once",
        "A payment that is made twice is not undone by an apology. A call with the same id is the "
        "same call, whoever repeats it.",
        writes_once,
        _no_tools,
    ),
    Rule(
        "own-results",
        "An answer that is found again by too little belongs to another question, or to another "
        "person.",
        own_results,
        _no_answers,
    ),
)
