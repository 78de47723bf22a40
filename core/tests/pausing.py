"""Paused runs for the tests of ``interpose.loop.resume``: one to ask with, and clients to answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Interrupt,
    Message,
    ResumeEntry,
    ToolMessage,
    UserMessage,
)
from ag_ui.core import ToolCall as WrittenCall

from interpose.loop.continuation import Continuation, Question, Resumed, approval
from interpose.loop.resume import Continuations
from interpose.loop_errors import InvalidResume
from interpose.payloads import ToolCall

KEY = b"k" * 32
NOW = 1_767_268_800.0
LATER = NOW + 3600
SEND = ToolCall("c1", "send", {"to": "ada@example.com", "copies": 2})
LOOK = ToolCall("c2", "look", {}, "read")


def shown(call: ToolCall, **masked: Any) -> tuple[str, str, str]:
    """A call as the consumer saw it; with ``masked``, not all of it."""
    return call.id, call.name, json.dumps({**call.args, **masked})


def ask(key: str = "1", **fields: Any) -> Question:
    return Question(Interrupt(id=f"ask:{key}", reason="ask", message="Sure?", **fields), "generic")


def paused(**changes: Any) -> Continuation:
    """A run that asks for one approval beside a call that needs none, and has one question."""
    calls = changes.get("calls", (SEND, LOOK))
    fields: dict[str, Any] = {
        "agent": "clerk",
        "thread_id": "t1",
        "run_id": "r1",
        "origin": "r0",
        "calls": calls,
        "shown": tuple(shown(call) for call in calls),
        "questions": (approval(SEND, "Send it?"), ask()),
        "metadata": {"tenant": "acme", "deep": [1, {"a": None}]},
        "counts": {"model_calls": 3},
        "issued_at": NOW,
        "expires_at": LATER,
    }
    return Continuation(**{**fields, **changes})


def history(
    calls: Sequence[tuple[str, str, str]] | None = None, results: Sequence[str] = ()
) -> list[Message]:
    """What a client sends back: the calls as it saw them, and results of some."""
    calls = [shown(SEND), shown(LOOK)] if calls is None else calls
    written = [
        WrittenCall(id=id_, function=FunctionCall(name=name, arguments=text))
        for id_, name, text in calls
    ]
    return [
        UserMessage(id="m1", content="Send it"),
        AssistantMessage(id="m2", tool_calls=written),
        *(ToolMessage(id=f"m-{id_}", tool_call_id=id_, content="sent") for id_ in results),
    ]


def yes(interrupt: Interrupt, payload: Any = True) -> ResumeEntry:  # noqa: FBT002 - JSON
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload)


def cancel(interrupt: Interrupt, payload: Any = None) -> ResumeEntry:
    return ResumeEntry(interrupt_id=interrupt.id, status="cancelled", payload=payload)


def validated(call: ToolCall, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tool's own check of edited arguments: ``copies`` is a number, 1 by default."""
    if not isinstance(args.get("copies", 1), int):
        raise ValueError(f"{args} are no arguments of {call.name}")  # noqa: TRY004 - the contract
    return {"copies": 1, **args}


def resume(memory: Continuations, entries: Sequence[ResumeEntry], **changes: Any) -> Resumed | None:
    fields: dict[str, Any] = {
        "agent": "clerk",
        "thread_id": "t1",
        "messages": history(),
        "key": KEY,
        "now": NOW + 60,
        "edited": validated,
    }
    return memory.resume(entries, **{**fields, **changes})


def resumed(memory: Continuations, entries: Sequence[ResumeEntry], **changes: Any) -> Resumed:
    found = resume(memory, entries, **changes)
    assert found is not None
    return found


def refused(
    memory: Continuations, entries: Sequence[ResumeEntry], **changes: Any
) -> list[tuple[str, str | None]]:
    """The problems of a resume as (code, own id)."""
    with pytest.raises(InvalidResume) as caught:
        resume(memory, entries, **changes)
    said = str(caught.value)
    assert not any(secret in said for secret in ("ada@", "eve@", "acme", "eNo", KEY.decode()))
    return [(problem.code, problem.interrupt_id) for problem in caught.value.problems]
