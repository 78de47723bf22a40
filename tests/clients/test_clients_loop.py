"""The built-in loop behind `interpose serve`: the real clients accept every kind of run.

What a client folded is what the same run comes to in process, but for the ids that are made up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from ag_ui_validate.pytest_plugin import validate_agui
from driving import CLIENTS, Client, Server, Step, Talk, said, serving, until

from interpose import Host, RunResult
from interpose.agui import read_capture, typed, violations

CONFIG = CLIENTS / "agent/loop.toml"
KINDS = [
    *("default", "thinking", "tools", "failing", "front", "approval", "redacted", "asking"),
    *("limited", "delegating", "stopping", "broken", "lazy"),
]
CONFIRM = {
    "name": "confirm",
    "description": "Ask the user.",
    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
}
YES = {"status": "resolved", "payload": True}
MASKED_IDS = ("id", "toolCallId", "parentMessageId", "subagentRunId", "messageId")


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(CONFIG, tmp_path_factory.mktemp("loops") / "stderr.txt") as running:
        yield running


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process import what the configuration names."""
    monkeypatch.syspath_prepend(str(CONFIG.parent))


def in_process(agent: str, **fields: Any) -> RunResult:
    """Play the same run without server and client."""
    run_input = {"threadId": "t", "runId": "r", "messages": [user("Hi")], **fields}

    async def main() -> RunResult:
        async with Host.from_config(CONFIG) as host:
            return await host.run(run_input, agent=agent)

    return asyncio.run(main())


def user(text: str, ident: str = "u1") -> dict[str, str]:
    return {"id": ident, "role": "user", "content": text}


def renamed(value: Any, names: dict[str, str] | None = None) -> Any:
    """Return messages with their ids numbered in the order in which they come."""
    known: dict[str, str] = {} if names is None else names
    if isinstance(value, list):
        return [renamed(each, known) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: known.setdefault(each, f"id-{len(known)}")
        if key in MASKED_IDS
        else renamed(each, known)
        for key, each in sorted(value.items())
    }


def folded(result: RunResult) -> Any:
    return renamed(
        [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in result.messages]
    )


def check(step: Step, result: RunResult) -> None:
    """What the client has is what the run came to."""
    assert renamed(step.messages) == folded(result)
    assert step.state in (result.state, {})
    assert step.result == result.result


def steps(talk: Talk) -> list[Step]:
    """Return the runs of a talk in which the client found nothing wrong."""
    assert [step.error for step in talk.steps] == [{}] * len(talk.steps)
    assert talk.said == []
    return talk.steps


def results(step: Step) -> list[str]:
    return [event["content"] for event in step.of("TOOL_CALL_RESULT")]


def ended(loops: Server, thread: str) -> list[str]:
    answer = loops.post("Hi", forwardedProps={"thread": thread})
    [told] = [event["value"] for event in answer.events if event["type"] == "CUSTOM"]
    return list(told)


# Each kind of run ------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("agent", KINDS)
def test_what_a_client_has_is_what_the_run_came_to(
    loops: Server, client: Client, agent: str
) -> None:
    tools = [CONFIRM] if agent == "front" else []
    [step] = steps(client.talk(loops.address(agent), said("Hi", tools=tools)))
    check(step, in_process(agent, tools=tools))


@pytest.mark.parametrize("version", [{"protocolVersion": "1.0"}, {}], ids=["1.0", "before 1.0"])
@pytest.mark.parametrize("agent", KINDS)
def test_each_stream_is_valid(loops: Server, agent: str, version: dict[str, str]) -> None:
    answer = loops.post("Hi", agent=agent, tools=[CONFIRM] if agent == "front" else [], **version)
    assert answer.status == 200
    events, warnings = typed(read_capture(answer.body.decode(), "capture"), "capture")
    assert warnings == ()
    assert [str(each) for each in violations(events)] == []
    # AGUI902 wants timestamps, which a script does not have. AGUI208: a call may name a message
    # without text, which no event starts. AGUI606 mixes up the steps of a run and of its subagents.
    # AGUI204 is about what the model of "failing" wrote.
    left_out = ["AGUI902", "AGUI208", "AGUI606", *(["AGUI204"] if agent == "failing" else [])]
    unhappy = dict.fromkeys(left_out, "off")
    report = validate_agui(answer.events, severity_overrides=unhappy)
    assert [f"{each.rule}: {each.message}" for each in report.diagnostics] == []
    assert answer.types.count("RUN_STARTED") == 1
    assert answer.types.count("RUN_FINISHED") + answer.types.count("RUN_ERROR") == 1


def test_reasoning_is_a_message_of_its_own(loops: Server, client: Client) -> None:
    step = client.run(loops.address("thinking"), "Hi")
    told = [(each["role"], each["content"]) for each in step.answers]
    assert told == [("reasoning", "Hm, so."), ("assistant", "Forty-two, I think.")]


def test_two_tools_run_in_one_iteration_and_report_progress(loops: Server, client: Client) -> None:
    step = client.run(loops.address("tools"), "Hi")
    looking, first, second, last = step.answers
    assert [call["function"]["name"] for call in looking["toolCalls"]] == ["weather", "count"]
    assert (first["content"], second["content"]) == ("18 degrees in Paris", "3")
    assert last["content"] == "It is mild."
    told = [event["value"]["value"] for event in step.of("CUSTOM")]
    assert told == [1, 2, 3]
    [finished] = step.of("RUN_FINISHED")
    if not client.is_old:
        usage = {"provider": "p", "model": "m", "inputTokens": 18, "outputTokens": 8}
        assert finished["usage"] == [usage]


def test_calls_that_fail_are_results_that_the_model_reads(loops: Server, client: Client) -> None:
    step = client.run(loops.address("failing"), "Hi")
    refused, broken, unknown, cut, wrong = results(step)
    assert refused == "There is no order of yours."
    assert "hunter2" not in str(step.report)
    assert "breaks" in broken
    assert "Unknown tool: nonsense" in unknown
    assert "JSON" in cut
    assert "city" in wrong
    assert step.answers[-1]["content"] == "None of it worked."


def test_a_limit_ends_the_run_and_is_named(loops: Server, client: Client) -> None:
    step = client.run(loops.address("limited"), "Hi")
    assert results(step) == ["18 degrees in Oslo", "18 degrees in Rome"]
    [finished] = step.of("RUN_FINISHED")
    assert finished["metadata"] == {"interpose:limit": "max_iterations(2)"}


def test_a_subagent_has_a_lane_of_its_own(loops: Server, client: Client) -> None:
    step = client.run(loops.address("delegating"), "Hi")
    [started] = step.of("SUBAGENT_STARTED")
    lane = started["subagentRunId"]
    assert (started["name"], started["parentToolCallId"]) == ("scout", "call-1-1")
    assert [event["subagentRunId"] for event in step.of("SUBAGENT_FINISHED")] == [lane]
    inside = [each for each in step.answers if each.get("subagentRunId") == lane]
    assert [each["role"] for each in inside] == ["assistant", "tool", "assistant"]
    assert inside[-1]["content"] == "I found it in Rome."
    outside = [each for each in step.answers if "subagentRunId" not in each]
    assert [each.get("content") for each in outside[1:]] == ["I found it in Rome.", "It is there."]


def test_a_tool_may_end_the_run(loops: Server, client: Client) -> None:
    """0.0.59 refuses the cancelled outcome, and gets a RUN_ERROR in its place."""
    step = client.run(loops.address("stopping"), "Hi")
    assert step.answers[0]["content"] == "I stop."
    [told_of_it] = results(step)
    assert told_of_it.startswith("The run ended before this call did")
    if client.is_old:
        assert [event["code"] for event in step.of("RUN_ERROR")] == ["cancelled"]
    else:
        assert [told["outcome"] for told in step.told("onRunFinishedEvent")] == ["cancelled"]


def test_a_model_that_breaks_off_is_an_error_after_what_it_said(
    loops: Server, client: Client
) -> None:
    step = client.run(loops.address("broken"), "Hi")
    assert [event["code"] for event in step.of("RUN_ERROR")] == ["model-unavailable"]
    assert step.answers[0]["content"] == "It was "
    assert step.of("RUN_FINISHED") == []


def test_a_lazy_tool_is_asked_for_and_then_called(loops: Server, client: Client) -> None:
    step = client.run(loops.address("lazy"), "Hi")
    assert results(step) == ["You can call archive now.", "a letter of 1815"]


def test_a_client_that_aborts_stops_the_model(loops: Server, client: Client) -> None:
    talk = client.talk(loops.address("slow"), said("Hi", abortAfter="TEXT_MESSAGE_CONTENT"))
    [step] = talk.steps
    assert step.error == {}
    assert 0 <= step.settled < 5
    assert step.of("RUN_FINISHED") == []
    assert until(lambda: ended(loops, talk.thread), bool) == ["run ended: abort"]


# The client's own tools ------------------------------------------------------------------------


def test_a_tool_of_the_client_is_answered_and_the_loop_goes_on(
    loops: Server, client: Client
) -> None:
    talk = client.talk(
        loops.address("front"),
        said("Hi", tools=[CONFIRM]),
        {"add": [answer_of("call-1-2", "yes")], "tools": [CONFIRM]},
    )
    asked, answered = steps(talk)
    assert results(asked) == ["18 degrees in Oslo"]
    [finished] = asked.of("RUN_FINISHED")
    if not client.is_old:  # it sees for itself what has no result
        assert finished["outcome"] == {"type": "success", "pendingToolCallIds": ["call-1-2"]}
    assert results(answered) == []
    assert answered.messages[-1]["content"] == "Then go."
    roles = [each["role"] for each in answered.messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]


def answer_of(call: str, content: str) -> dict[str, str]:
    return {"id": f"{call}-answer", "role": "tool", "toolCallId": call, "content": content}


# Approvals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (YES, "sent 2 to ada, time 1"),
        ({"status": "resolved", "payload": {"approved": True}}, "sent 2 to ada, time 1"),
        (
            {
                "status": "resolved",
                "payload": {"approved": True, "editedArgs": {"to": "grace"}},
            },
            "sent 1 to grace, time 1",
        ),
        (
            {"status": "resolved", "payload": {"approved": False, "reason": "Too late."}},
            "User declined tool execution. Too late.",
        ),
        ({"status": "cancelled"}, "Tool execution cancelled."),
    ],
    ids=["yes", "approved", "edited", "denied", "cancelled"],
)
@pytest.mark.usefixtures("here")
def test_an_approval_is_answered_and_the_run_goes_on(
    loops: Server, client: Client, answer: dict[str, Any], sent: str
) -> None:
    talk = client.talk(loops.address("approval"), "Hi", {"answers": [answer]}, said("Thanks", "u2"))
    asked, resumed, after = steps(talk)
    [interrupt] = asked.pending_interrupts
    assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", "call-1-1")
    assert interrupt["message"] == "Send it?"
    assert interrupt["metadata"]["interpose:tool"]["arguments"] == {"to": "ada", "copies": 2}
    assert results(asked) == []
    assert results(resumed) == [sent, "18 degrees in Oslo"]
    assert resumed.messages[-1]["content"] == "Done."
    assert resumed.pending_interrupts == []
    assert after.messages[-1]["content"] == "You are welcome."
    check(resumed, resumed_in_process("approval", answer))


def resumed_in_process(agent: str, answer: dict[str, Any]) -> RunResult:
    async def main() -> RunResult:
        async with Host.from_config(CONFIG) as host:
            asked = {"threadId": "t", "runId": str(uuid4()), "messages": [user("Hi")]}
            paused = await host.run(asked, agent=agent)
            [interrupt] = paused.interrupts
            run_input = {
                "threadId": "t",
                "runId": str(uuid4()),
                "messages": [m.model_dump(by_alias=True) for m in paused.messages],
                "resume": [{"interruptId": interrupt.id, **answer}],
            }
            return await host.run(run_input, agent=agent)

    return asyncio.run(main())


def paused(server: Server, client: Client, agent: str = "approval") -> tuple[str, Step]:
    talk = client.talk(server.address(agent), "Hi")
    [step] = steps(talk)
    return talk.thread, step


def resume(  # noqa: PLR0917 - who answers whom, and how
    server: Server,
    client: Client,
    thread: str,
    step: Step,
    ident: str = "",
    messages: list[Any] | None = None,
    agent: str = "approval",
    answer: dict[str, Any] | None = None,
) -> Step:
    """Answer from a page that knows the messages."""
    entry = {"interruptId": ident or step.pending_interrupts[0]["id"], **(answer or YES)}
    talk = client.talk(
        server.address(agent),
        {"resume": [entry]},
        threadId=thread,
        messages=step.messages if messages is None else messages,
    )
    [resumed] = talk.steps
    return resumed


def refusal(step: Step) -> str:
    """Return what a refused client was told."""
    assert (step.error.get("status"), step.events) == (409, []), (step.error, step.events)
    payload = step.error["payload"]
    assert "invalid-resume" in str(payload)
    return str(payload)


def altered(text: str) -> str:
    """Change one character in the middle."""
    middle = len(text) // 2
    return text[:middle] + ("A" if text[middle] != "A" else "B") + text[middle + 1 :]


def test_a_forged_answer_is_a_conflict_and_executes_nothing(loops: Server, client: Client) -> None:
    thread, step = paused(loops, client)
    ident = step.pending_interrupts[0]["id"]
    for forged in (altered(ident), ident[:-1] + ("A" if ident[-1] != "A" else "Q"), "approval:x~y"):
        assert "unknown-interrupt" in refusal(resume(loops, client, thread, step, forged))
    # Nothing of it was used up.
    good = resume(loops, client, thread, step)
    assert results(good)[0] == "sent 2 to ada, time 1"


def test_arguments_altered_after_the_question_are_refused(loops: Server, client: Client) -> None:
    thread, step = paused(loops, client)
    messages = [dict(each) for each in step.messages]
    call = messages[-1]["toolCalls"][0]
    changed = {**call, "function": {"name": "send", "arguments": '{"to": "eve", "copies": 2}'}}
    messages[-1] = {**messages[-1], "toolCalls": [changed, *messages[-1]["toolCalls"][1:]]}
    said_of = refusal(resume(loops, client, thread, step, messages=messages))
    assert "stale" in said_of
    assert "eve" not in said_of


def test_an_answer_on_another_thread_or_to_another_agent_is_refused(
    loops: Server, client: Client
) -> None:
    thread, step = paused(loops, client)
    assert "stale" in refusal(resume(loops, client, str(uuid4()), step))
    assert "stale" in refusal(resume(loops, client, thread, step, agent="redacted"))


def test_an_answer_that_fits_no_schema_is_refused_with_its_place(
    loops: Server, client: Client
) -> None:
    thread, step = paused(loops, client)
    for payload, code in (
        ({"approved": "yes"}, "invalid-payload"),
        ({"approved": True, "editedArgs": {"copies": "many"}}, "invalid-edited-args"),
    ):
        answer = {"status": "resolved", "payload": payload}
        assert code in refusal(resume(loops, client, thread, step, answer=answer))


def test_a_second_answer_is_refused(loops: Server, client: Client) -> None:
    thread, step = paused(loops, client)
    assert results(resume(loops, client, thread, step))[0] == "sent 2 to ada, time 1"
    assert "conflict" in refusal(resume(loops, client, thread, step))


# Questions of a layer --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "told", "text"),
    [
        ({"status": "resolved", "payload": {"paid": True}}, "paid True", "You said: Hi"),
        ({"status": "cancelled"}, "nothing", None),
    ],
    ids=["answered", "cancelled"],
)
def test_a_question_of_a_layer_is_answered(
    loops: Server, client: Client, answer: dict[str, Any], told: str, text: str | None
) -> None:
    talk = client.talk(loops.address("asking"), "Hi", {"answers": [answer]})
    asked, resumed = steps(talk)
    [interrupt] = asked.pending_interrupts
    assert (interrupt["reason"], interrupt["message"]) == ("refund", "Refund 25 EUR?")
    assert interrupt["responseSchema"]["properties"]["paid"] == {"title": "Paid", "type": "boolean"}
    assert interrupt["metadata"] == {"interpose:payload": {"euros": 25}}
    assert [event["value"] for event in resumed.of("CUSTOM")] == [told]
    assert [each["content"] for each in resumed.answers] == ([] if text is None else [text])
    assert resumed.types[-1] == "RUN_FINISHED"


def test_a_wrong_answer_to_a_question_of_a_layer_is_refused(loops: Server, client: Client) -> None:
    thread, step = paused(loops, client, "asking")
    answer = {"status": "resolved", "payload": {"paid": "perhaps"}}
    refused = resume(loops, client, thread, step, agent="asking", answer=answer)
    assert "invalid-payload" in refusal(refused)


# More than one process -------------------------------------------------------------------------

KEY = ("--set", "host.signing_key=one-key-for-all-of-us")


def test_a_run_paused_in_one_process_goes_on_in_another(client: Client, tmp_path: Path) -> None:
    with (
        serving(CONFIG, tmp_path / "one.txt", *KEY) as one,
        serving(CONFIG, tmp_path / "two.txt", *KEY) as two,
    ):
        thread, step = paused(one, client)
        resumed = resume(two, client, thread, step)
        assert resumed.error == {}
        assert results(resumed) == ["sent 2 to ada, time 1", "18 degrees in Oslo"]
        assert resumed.messages[-1]["content"] == "Done."

        thread, step = paused(one, client, "asking")
        answer = {"status": "resolved", "payload": {"paid": False}}
        answered = resume(two, client, thread, step, agent="asking", answer=answer)
        assert [event["value"] for event in answered.of("CUSTOM")] == ["paid False"]


def test_a_process_with_another_key_refuses(
    loops: Server, new_client: Client, tmp_path: Path
) -> None:
    """Neither a key of its own nor none at all, as after a restart without one."""
    with serving(CONFIG, tmp_path / "one.txt", *KEY) as one:
        thread, step = paused(one, new_client)
        assert "unknown-interrupt" in refusal(resume(loops, new_client, thread, step))
        other = ("--set", "host.signing_key=another-key")
        with serving(CONFIG, tmp_path / "two.txt", *other) as two:
            assert "unknown-interrupt" in refusal(resume(two, new_client, thread, step))


def test_a_restart_without_a_key_refuses_what_was_asked_before(
    new_client: Client, tmp_path: Path
) -> None:
    with serving(CONFIG, tmp_path / "before.txt") as before:
        thread, step = paused(before, new_client)
    assert "signing_key is not set" in before.log.read_text()
    with serving(CONFIG, tmp_path / "after.txt") as after:
        assert "unknown-interrupt" in refusal(resume(after, new_client, thread, step))


def test_a_redacted_argument_is_known_to_the_process_that_masked_it_alone(
    new_client: Client, tmp_path: Path
) -> None:
    with (
        serving(CONFIG, tmp_path / "one.txt", *KEY) as one,
        serving(CONFIG, tmp_path / "two.txt", *KEY) as two,
    ):
        thread, step = paused(one, new_client, "redacted")
        assert "lovelace" not in str(step.report)
        assert "stale" in refusal(resume(two, new_client, thread, step, agent="redacted"))
        resumed = resume(one, new_client, thread, step, agent="redacted")
    # It was sent with what the model wrote, and what is said of it is masked again.
    assert results(resumed) == ["sent 1 to [email], time 1"]
