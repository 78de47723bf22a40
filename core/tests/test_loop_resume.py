"""Answering a paused run: what a right answer becomes, and every way to be a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ag_ui.core import Interrupt, Message, ResumeEntry, ToolMessage, UserMessage
from pausing import (
    KEY,
    LATER,
    LOOK,
    NOW,
    SEND,
    ask,
    cancel,
    history,
    paused,
    refused,
    resume,
    resumed,
    shown,
    yes,
)
from pydantic import BaseModel, TypeAdapter

from interpose.agui import is_expired
from interpose.errors import UsageError
from interpose.interrupts import InterruptDefinition
from interpose.loop.continuation import (
    APPROVAL_SCHEMA,
    PLAIN_APPROVAL_SCHEMA,
    TOOL,
    Answer,
    Question,
    approval,
)
from interpose.loop.resume import Continuations
from interpose.loop_errors import InvalidResume
from interpose.payloads import ToolCall

APPROVED = Answer(approved=True)
REMOTE = "http://127.0.0.1:9/schema.json"
MASKED = [shown(SEND, to="[EMAIL]"), shown(LOOK)]


def asked(**changes: Any) -> tuple[Interrupt, ...]:
    return Continuations().pause(paused(**changes), key=KEY)


def asked_for(*questions: Question, **changes: Any) -> tuple[Interrupt, ...]:
    return asked(questions=questions, **changes)


# -- what is sent -------------------------------------------------------------------------------


def test_an_approval_is_what_ag_ui_clients_know() -> None:
    question = approval(SEND, "Send it?", arguments={"to": "[EMAIL]"})

    assert question.call_id == "c1"
    assert question.interrupt.model_dump(exclude_none=True) == {
        "id": "approval:c1",
        "reason": "tool_call",
        "message": "Send it?",
        "tool_call_id": "c1",
        "response_schema": APPROVAL_SCHEMA,
        "metadata": {TOOL: {"name": "send", "arguments": {"to": "[EMAIL]"}}},
    }


def test_only_the_id_and_the_end_of_an_interrupt_change() -> None:
    question = ask(metadata={"a": 1}, subagent_run_id="s1", response_schema={"type": "boolean"})

    sent = asked_for(question)[0]

    assert sent.id.startswith("ask:1~")
    assert sent.expires_at == "2026-01-01T13:00:00+00:00"
    same = sent.model_copy(update={"id": "ask:1", "expires_at": None})
    assert same == question.interrupt


@pytest.mark.parametrize(
    ("own", "whole", "ends"),
    [
        (None, None, None),
        (None, LATER, LATER),
        (NOW + 60, LATER, NOW + 60),
        (NOW + 60, None, NOW + 60),
        (LATER + 60, LATER, LATER),
    ],
)
def test_the_earlier_end_counts(own: float | None, whole: float | None, ends: float | None) -> None:
    until = None if own is None else datetime.fromtimestamp(own, UTC).isoformat()

    sent = asked_for(ask(expires_at=until), expires_at=whole)

    assert is_expired(sent[0], ends or NOW) is (ends is not None)
    assert not is_expired(sent[0], (ends or NOW) - 1)
    for moment in [] if ends is None else [ends]:
        assert refused(Continuations(), [yes(sent[0])], now=moment) == [("expired", "ask:1")]
        assert resume(Continuations(), [yes(sent[0])], now=moment - 1)
        assert resume(Continuations(), [cancel(sent[0])], now=moment)


def test_an_end_that_is_no_time_never_comes_before_that_of_the_pause() -> None:
    assert asked_for(ask(expires_at="soon"))[0].expires_at == "2026-01-01T13:00:00+00:00"
    assert asked_for(ask(expires_at="soon"), expires_at=None)[0].expires_at == "soon"


def test_an_end_without_a_time_zone_is_utc() -> None:
    sent = asked_for(ask(expires_at="2026-01-01T12:30:00"))

    assert sent[0].expires_at == "2026-01-01T12:30:00"
    assert refused(Continuations(), [yes(sent[0])], now=NOW + 1800) == [("expired", "ask:1")]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"questions": ()}, "has to ask something"),
        ({"questions": (ask("1"), ask("2"), ask("1"))}, "ids of their own: 'ask:1'"),
        ({"questions": (Question(Interrupt(id="", reason="x"), "generic"),)}, "ids of their own"),
        ({"questions": (approval(ToolCall("c9", "send", {}), "?"),)}, "one call of its pause"),
        ({"questions": (Question(Interrupt(id="x", reason="x"), "approval"),)}, "one call of"),
        (
            {
                "questions": (
                    approval(SEND, "?"),
                    Question(Interrupt(id="x", reason="x"), "approval", "c1"),
                )
            },
            "one call of its pause",
        ),
        ({"shown": (shown(LOOK), shown(SEND))}, "do not match"),
        (
            {"questions": (ask(response_schema={"type": "nothing"}),)},
            "the response schema of interrupt 'ask:1' is no valid JSON Schema: type",
        ),
        ({"questions": (ask(response_schema={"$ref": REMOTE}),)}, "which it does not contain"),
        ({"questions": (ask(response_schema={"$ref": "#/$defs/gone"}),)}, "does not contain"),
        ({"clients": frozenset({"c9"})}, "a call that the client runs"),
        ({"clients": frozenset({"c1"})}, "a call that the client runs"),
        ({"metadata": {"a": object()}}, "is not JSON"),
        ({"metadata": {"a": float("nan")}}, "is not JSON"),
    ],
)
def test_what_cannot_be_asked_is_said_when_the_run_pauses(
    changes: dict[str, Any], said: str
) -> None:
    memory = Continuations()

    with pytest.raises(UsageError) as caught:
        memory.pause(paused(**changes), key=KEY)

    assert said in caught.value.message
    assert len(memory) == 0


def test_an_end_of_an_approval_needs_a_time_zone() -> None:
    with pytest.raises(UsageError, match="time zone"):
        approval(SEND, "?", expires_at=datetime(2026, 1, 1))  # noqa: DTZ001
    until = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=1)
    assert approval(SEND, "?", expires_at=until).interrupt.expires_at == "2026-01-01T01:00:00+00:00"


# -- right answers ------------------------------------------------------------------------------


def test_another_process_goes_on_where_a_run_paused() -> None:
    before = paused()
    approve, question = Continuations().pause(before, key=KEY)

    found = resumed(Continuations(), [yes(question, {"any": "thing"}), yes(approve)])

    after = found.continuation
    for field in ("agent", "thread_id", "run_id", "origin", "calls", "shown", "metadata", "counts"):
        assert getattr(after, field) == getattr(before, field)
    assert (after.issued_at, after.expires_at) == (NOW, LATER)
    assert found.answers == {"c1": APPROVED}  # c2 needed no answer
    assert [(each.interrupt.id, each.payload) for each in found.resolutions] == [
        ("ask:1", {"any": "thing"})
    ]
    assert found.done == {}


def test_what_a_layer_may_have_masked_is_not_in_the_token() -> None:
    # Redaction changes the message and the metadata of an interrupt after it was sealed.
    sent = asked_for(ask(metadata={"to": "ada@example.com"}))

    found = resumed(Continuations(), [yes(sent[0])])

    assert found.resolutions[0].interrupt.model_dump(exclude_none=True) == {
        "id": "ask:1",
        "reason": "ask",
    }


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (True, APPROVED),
        (False, Answer(approved=False)),
        ({"approved": True}, APPROVED),
        ({"approved": True, "reason": "fine"}, Answer(approved=True, reason="fine")),
        ({"approved": False, "reason": "too late"}, Answer(approved=False, reason="too late")),
        (
            {"approved": True, "editedArgs": {"to": "eve@example.com"}},
            Answer(approved=True, args={"to": "eve@example.com", "copies": 1}),
        ),
        # A form sends what it has: whoever denies has edited nothing.
        ({"approved": False, "editedArgs": {"copies": "no"}}, Answer(approved=False)),
    ],
)
def test_an_approval_is_answered(payload: Any, answer: Answer) -> None:
    sent = asked_for(approval(SEND, "?"))

    assert resumed(Continuations(), [yes(sent[0], payload)]).answers == {"c1": answer}


def test_a_cancelled_approval_is_no_denial() -> None:
    sent = asked_for(approval(SEND, "?"))

    found = resumed(Continuations(), [cancel(sent[0])])

    assert found.answers == {"c1": Answer(approved=False, cancelled=True)}


def test_answers_may_differ_and_come_in_call_order() -> None:
    sent = asked_for(approval(LOOK, "?"), approval(SEND, "?"))

    found = resumed(Continuations(), [yes(sent[1], False), yes(sent[0])])

    assert list(found.answers.items()) == [("c1", Answer(approved=False)), ("c2", APPROVED)]


class Verdict(BaseModel):
    ok: bool


def test_typed_questions_are_answered_in_their_order() -> None:
    kind = InterruptDefinition("refund", response=Verdict)
    questions = [Question(kind.interrupt(key, "?"), "generic") for key in ("a", "b~c", "d")]
    sent = asked_for(*questions)

    entries = [cancel(sent[2]), yes(sent[1], {"ok": True}), yes(sent[0], {"ok": False})]
    found = resumed(Continuations(), entries)

    assert [each.interrupt.id for each in found.resolutions] == [
        "refund:a",
        "refund:b~c",
        "refund:d",
    ]
    assert found.resolutions.get(kind, "b~c") == Verdict(ok=True)
    assert found.resolutions.get(kind, "d") is None
    assert [verdict for _, verdict in found.resolutions.of(kind)] == [
        Verdict(ok=False),
        Verdict(ok=True),
        None,
    ]


def test_a_pause_before_the_model_has_no_calls_to_look_for() -> None:
    sent = asked_for(ask(), calls=())

    found = resumed(Continuations(), [yes(sent[0])], messages=[UserMessage(id="m", content="hi")])

    assert found.continuation.calls == ()


def test_interrupts_of_others_are_left_alone() -> None:
    foreign = ResumeEntry(interrupt_id="approval:c1", status="resolved", payload=True)
    sent = asked_for(ask())

    assert resume(Continuations(), []) is None
    assert resume(Continuations(), [foreign]) is None
    assert len(resumed(Continuations(), [foreign, yes(sent[0])]).resolutions) == 1


def test_an_approval_may_have_a_schema_of_its_own() -> None:
    schema = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "ticket": {"type": "string"}},
        "required": ["ticket"],
    }
    sent = asked_for(approval(SEND, "?", response_schema=schema))

    found = resumed(Continuations(), [yes(sent[0], {"approved": True, "ticket": "T-1"})])
    assert found.answers == {"c1": APPROVED}
    for payload in (
        True,
        {"approved": True},
        {"ticket": "T-1"},
        {"approved": "yes", "ticket": "T-1"},
        {"approved": True, "ticket": "T-1", "editedArgs": {}},
    ):
        problems = refused(Continuations(), [yes(sent[0], payload)])
        assert problems == [("invalid-payload", "approval:c1")]


# -- wrong answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "true",
        1,
        [],
        {},
        {"approved": None},
        {"approved": "true"},
        {"approved": 1},
        {"editedArgs": {}},
        {"approved": True, "reason": None},
        {"approved": True, "reason": 3},
        {"approved": True, "editedArgs": None},
        {"approved": True, "editedArgs": []},
        {"approved": True, "edited_args": {}},
        {"approved": True, "x" * 500: "ada@example.com"},
    ],
)
def test_what_does_not_say_approved_is_no_approval(payload: Any) -> None:
    sent = asked_for(approval(SEND, "?"))

    problems = refused(Continuations(), [yes(sent[0], payload)])

    assert problems == [("invalid-payload", "approval:c1")]


@pytest.mark.parametrize("make", [lambda: approval(SEND, "?"), ask])
def test_who_cancels_answers_nothing(make: Callable[[], Question]) -> None:
    sent = asked_for(make())

    problems = refused(Continuations(), [cancel(sent[0], {"approved": True})])

    assert problems == [("invalid-payload", make().interrupt.id)]


def test_edited_arguments_are_validated_by_the_tool() -> None:
    sent = asked_for(approval(SEND, "?"))
    payload = {"approved": True, "editedArgs": {"to": "eve@example.com", "copies": "many"}}

    problems = refused(Continuations(), [yes(sent[0], payload)])

    assert problems == [("invalid-edited-args", "approval:c1")]


def test_places_of_wrong_edited_arguments_are_named_and_values_are_not() -> None:
    sent = asked_for(approval(SEND, "?"))
    payload = {"approved": True, "editedArgs": {"copies": "ada@example.com"}}
    read = TypeAdapter(dict[str, int])

    with pytest.raises(InvalidResume) as caught:
        resume(
            Continuations(),
            [yes(sent[0], payload)],
            edited=lambda _, args: read.validate_python(args),
        )

    assert "the edited arguments do not fit 'send': '/copies'" in str(caught.value)
    assert "ada" not in str(caught.value)


def test_arguments_cannot_be_edited_where_that_was_not_offered() -> None:
    question = approval(SEND, "?", editable=False)
    sent = asked_for(question)
    payload = {"approved": True, "editedArgs": {"to": "eve@example.com"}}

    assert question.interrupt.response_schema == PLAIN_APPROVAL_SCHEMA
    problems = refused(Continuations(), [yes(sent[0], payload)])
    assert problems == [("invalid-payload", "approval:c1")]


@pytest.mark.parametrize(
    ("schema", "payload", "said"),
    [
        ({"type": "boolean"}, "ada@example.com", "(root): expected type"),
        (Verdict.model_json_schema(), {"ok": "ada@example.com"}, "ok: expected type"),
        (Verdict.model_json_schema(), {}, "ok: is required"),
        ({"$dynamicRef": REMOTE}, 1, "it cannot be checked"),
        (
            {"items": {"$ref": "#"}, "type": "array"},
            json.loads("[" * 900 + "]" * 900),
            "it cannot be checked",
        ),
    ],
)
def test_an_answer_has_to_fit_its_schema(
    schema: dict[str, Any], payload: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *args, **_: fetched.append(args))
    sent = asked_for(ask(response_schema=schema))

    with pytest.raises(InvalidResume) as caught:
        resume(Continuations(), [yes(sent[0], payload)])

    (problem,) = caught.value.problems
    assert (problem.code, problem.interrupt_id) == ("invalid-payload", "ask:1")
    assert said in problem.message
    assert "ada" not in problem.message
    assert not fetched


def test_all_questions_of_a_pause_are_answered_at_once() -> None:
    sent = asked()

    assert refused(Continuations(), [yes(sent[0])]) == [("incomplete-batch", None)]


def test_answering_twice_is_a_conflict() -> None:
    sent = asked()

    problems = refused(Continuations(), [yes(sent[0]), yes(sent[0], False), yes(sent[1])])

    assert problems == [("conflict", "approval:c1")]


def test_answers_to_two_pauses_are_a_conflict() -> None:
    one, two = asked_for(ask()), asked_for(ask())

    assert refused(Continuations(), [yes(one[0]), yes(two[0])]) == [("conflict", None)]


@pytest.mark.parametrize("changes", [{"thread_id": "t2"}, {"agent": "other"}])
def test_answers_of_another_thread_or_agent_are_stale(changes: dict[str, Any]) -> None:
    assert refused(Continuations(), [yes(asked_for(ask())[0])], **changes) == [("stale", None)]


def test_every_problem_is_reported() -> None:
    sent = asked_for(approval(SEND, "?"), approval(LOOK, "?"), ask("1"), ask("2"), ask("3"))
    unknown = ResumeEntry(interrupt_id=f"ask:9~{sent[0].id.split('~')[1]}", status="cancelled")
    entries = [yes(sent[0], 1), yes(sent[2]), yes(sent[2]), cancel(sent[3], "x"), unknown]

    problems = refused(Continuations(), entries, messages=history([shown(SEND)]))

    assert sorted(problems, key=str) == [
        ("conflict", "ask:1"),
        ("incomplete-batch", None),
        ("invalid-payload", "approval:c1"),
        ("invalid-payload", "ask:2"),
        ("stale", None),
        ("unknown-interrupt", "ask:9"),
    ]


# -- the client's history -----------------------------------------------------------------------


def test_how_the_arguments_are_spaced_does_not_matter() -> None:
    sent = asked_for(ask())
    messages = history(
        [("c1", "send", '{"copies":2 ,\n"to":"ada@\\u0065xample.com"}'), ("c2", "look", "")]
    )

    assert resumed(Continuations(), [yes(sent[0])], messages=messages).continuation.calls == (
        SEND,
        LOOK,
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [UserMessage(id="m", content="hi")],
        history([shown(SEND)]),
        history([("c1", "delete", shown(SEND)[2]), shown(LOOK)]),
        history([("c9", "send", shown(SEND)[2]), shown(LOOK)]),
        history([shown(SEND, to="eve@example.com"), shown(LOOK)]),
        history([shown(SEND, bcc="eve@example.com"), shown(LOOK)]),
        history([shown(SEND, copies=2.5), shown(LOOK)]),
        history([("c1", "send", "{"), shown(LOOK)]),
        history([("c1", "send", ""), shown(LOOK)]),
        history([shown(SEND), ("c2", "look", "[]")]),
        history([shown(SEND), shown(LOOK), ("c3", "delete", "{}")]),
        history([shown(SEND), shown(SEND), shown(LOOK)]),
        [*history(), *history([shown(SEND, to="eve@example.com"), shown(LOOK)])],
        history(results=["c1"]),
        history(results=["c2"]),
    ],
)
def test_calls_that_are_not_as_they_were_asked_about_are_stale(messages: list[Message]) -> None:
    sent = asked()

    problems = refused(Continuations(), [yes(sent[0]), yes(sent[1])], messages=messages)

    assert {code for code, _ in problems} == {"stale"}


def test_calls_of_the_same_message_may_have_results_from_before() -> None:
    messages = history([("c0", "early", "{}"), shown(SEND), shown(LOOK)], results=["c0"])

    assert resume(Continuations(), [yes(asked_for(ask())[0])], messages=messages)


def test_earlier_calls_of_the_same_id_do_not_count() -> None:
    messages = [*history([("c1", "other", "{}")], results=["c1"]), *history()]

    assert resume(Continuations(), [yes(asked_for(ask())[0])], messages=messages)


def test_a_call_that_the_client_runs_may_have_its_result() -> None:
    clients = frozenset({"c2"})
    sent = asked(clients=clients)
    entries = [yes(each) for each in sent]

    for messages in (history(), history(results=["c2"])):
        found = resumed(Continuations(), entries, messages=messages)
        assert found.continuation.clients == clients
        assert found.continuation.calls == (SEND, LOOK)
    problems = refused(Continuations(), entries, messages=history(results=["c1", "c2"]))
    assert problems == [("stale", None)]


# -- arguments that a layer masked --------------------------------------------------------------


def test_a_masked_call_runs_with_its_true_arguments_where_it_was_asked() -> None:
    memory = Continuations()
    sent = memory.pause(paused(shown=tuple(MASKED)), key=KEY)

    found = resumed(memory, [yes(each) for each in sent], messages=history(MASKED))

    assert found.continuation.calls == (SEND, LOOK)
    assert found.continuation.shown == tuple(MASKED)
    assert refused(memory, [yes(each) for each in sent]) == [("stale", None)]


def test_a_masked_call_cannot_run_in_another_process() -> None:
    sent = asked(shown=tuple(MASKED))

    with pytest.raises(InvalidResume, match="only the process that asked has the true ones"):
        resume(Continuations(), [yes(each) for each in sent], messages=history(MASKED))


def test_a_masked_call_can_be_denied_in_another_process() -> None:
    sent = asked(shown=tuple(MASKED))

    for entry in (yes(sent[0], False), cancel(sent[0])):
        found = resumed(Continuations(), [entry, yes(sent[1])], messages=history(MASKED))
        assert not found.answers["c1"].approved


def test_a_masked_call_that_needs_no_answer_is_not_denied_by_denying_another() -> None:
    sent = asked_for(approval(LOOK, "?"), shown=tuple(MASKED))

    problems = refused(Continuations(), [cancel(sent[0])], messages=history(MASKED))

    assert problems == [("stale", None)]


def test_a_mask_left_in_edited_arguments_does_not_reach_the_tool() -> None:
    call = ToolCall(
        "c1", "send", {"to": ["ada@example.com", "bob"], "head": {"from": "carl@x.org"}}
    )
    seen = [("c1", "send", '{"to": ["[EMAIL]", "bob"], "head": {"from": "[EMAIL]"}}')]
    memory = Continuations()
    sent = memory.pause(
        paused(calls=(call,), shown=tuple(seen), questions=(approval(call, "?"),)), key=KEY
    )

    def edit(**args: Any) -> ResumeEntry:
        return yes(sent[0], {"approved": True, "editedArgs": args})

    def problems(entry: ResumeEntry) -> list[tuple[str, str | None]]:
        return refused(memory, [entry], messages=history(seen))

    wrong = [("invalid-edited-args", "approval:c1")]
    assert problems(edit(to=["[EMAIL]", "eve"], head={})) == wrong
    assert problems(edit(to=[], head={"from": "[EMAIL]"})) == wrong
    whole = {"to": ["eve@example.com", "bob"], "head": {"from": "dora@example.com"}}
    found = resumed(memory, [edit(**whole)], messages=history(seen))
    assert found.answers["c1"].args == {"copies": 1, **whole}


def test_a_client_runs_a_masked_call_with_what_it_saw() -> None:
    sent = asked_for(approval(LOOK, "?"), shown=tuple(MASKED), clients=frozenset({"c1"}))

    found = resumed(Continuations(), [yes(sent[0])], messages=history(MASKED))

    assert found.continuation.calls[0].args == {**SEND.args, "to": "[EMAIL]"}


# -- after its end ------------------------------------------------------------------------------


def test_an_expired_pause_can_only_be_cancelled() -> None:
    sent = asked()

    assert refused(Continuations(), [yes(sent[0]), cancel(sent[1])], now=LATER) == [
        ("expired", "approval:c1")
    ]
    assert resume(Continuations(), [cancel(sent[0]), cancel(sent[1])], now=LATER)


def test_an_expired_pause_runs_nothing() -> None:
    # Else its calls that needed no answer could be run again once it is forgotten that they were.
    sent = asked(shown=tuple(MASKED))

    found = resumed(
        Continuations(), [cancel(each) for each in sent], now=LATER, messages=history(MASKED)
    )

    too_late = Answer(approved=False, cancelled=True)
    assert found.answers == {"c1": too_late, "c2": too_late}


def test_a_result_from_elsewhere_is_not_taken_for_an_execution() -> None:
    messages = [*history(), ToolMessage(id="m9", tool_call_id="c1", content="sent, trust me")]

    problems = refused(Continuations(), [yes(each) for each in asked()], messages=messages)

    assert problems == [("stale", None)]
