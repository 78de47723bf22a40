"""What the real clients make of each kind of event that `interpose serve` sends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from driving import SECONDS, Client, Server, Step, said

PICTURE = {"type": "url", "value": "https://example.com/sky.png"}
PARTS = [{"type": "text", "text": "18 degrees"}, {"type": "image", "source": PICTURE}]
USER = {"id": "u1", "role": "user", "content": "text"}


def function(name: str, arguments: str) -> dict[str, str]:
    return {"name": name, "arguments": arguments}


def test_text_arrives_as_it_was_said(server: Server, client: Client) -> None:
    step = client.run(server.url, "text")
    assert step.messages == [
        USER,
        {"id": "m1", "role": "assistant", "content": "Grüße, world 🌍\n\ndata: {}\n"},
        {"id": "m2", "role": "assistant", "content": "Bye\u2028.", "name": "helper"},
    ]
    assert (step.types[0], step.types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert [each["messageId"] for each in step.told("onNewMessage")] == ["m1", "m2"]
    assert [each["outcome"] for each in step.told("onRunFinishedEvent")] == ["success"]
    assert len(step.told("onRunFinalized")) == 1


def test_text_chunks_become_whole_messages(server: Server, client: Client) -> None:
    step = client.run(server.url, "text chunks")
    assert step.answers == [
        {"id": "m1", "role": "assistant", "content": "Hello"},
        {"id": "m2", "role": "assistant", "content": "Second."},
    ]


@pytest.mark.parametrize("scenario", ["reasoning", "reasoning chunks"])
def test_reasoning_becomes_a_message_of_its_own(
    server: Server, client: Client, scenario: str
) -> None:
    step = client.run(server.url, scenario)
    sealed = {"encryptedValue": "sealed"} if scenario == "reasoning" else {}
    assert step.answers == [
        {"id": "r1", "role": "reasoning", "content": "Hm, so.", **sealed},
        {"id": "m1", "role": "assistant", "content": "Yes."},
    ]


def test_a_tool_call_and_its_result(server: Server, client: Client) -> None:
    step = client.run(server.url, "tool with result")
    call = {"id": "c1", "type": "function", "function": function("weather", '{"city": "Paris"}')}
    assert step.answers == [
        {
            "id": "m1",
            "role": "assistant",
            "content": "Looking.",
            "toolCalls": [{**call, "encryptedValue": "sealed"}],
        },
        {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "18 degrees"},
        {"id": "m2", "role": "assistant", "content": "It is mild."},
    ]
    [ended] = step.told("onToolCallEndEvent")
    assert (ended["tool"], ended["arguments"]) == ("weather", {"city": "Paris"})


def test_a_result_in_parts(server: Server, client: Client) -> None:
    """0.0.59 knows a result only as a text, so it gets the text of it."""
    step = client.run(server.url, "tool with parts")
    assert step.answers[-1]["content"] == ("18 degrees" if client.is_old else PARTS)


def test_a_snapshot_with_parts(server: Server, client: Client) -> None:
    """0.0.59 knows no file that a provider keeps, either; the rest of the message is left to it."""
    step = client.run(server.url, "snapshot with parts")
    question, result = step.messages
    file = {"type": "document", "source": {"type": "file", "value": "file-7"}}
    known = {"type": "text", "text": "Read:"}
    assert question["content"] == ([known] if client.is_old else [known, file])
    assert result["content"] == ("18 degrees" if client.is_old else PARTS)


def test_an_agent_may_echo_an_input_without_tools(server: Server, client: Client) -> None:
    """0.0.59 requires tools and context of an input, and gets empty ones."""
    step = client.run(server.url, "echoed input")
    [started] = step.of("RUN_STARTED")
    assert [message["id"] for message in started["input"]["messages"]] == ["u1"]


def test_a_front_end_tool_is_answered_in_the_next_run(server: Server, client: Client) -> None:
    tool = {"name": "confirm", "description": "Ask the user.", "parameters": {"type": "object"}}
    answer = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "yes"}
    talk = client.talk(
        server.url, said("front end tool", tools=[tool]), {"add": [answer], "tools": [tool]}
    )
    asked, answered = talk.steps
    assert (asked.error, answered.error, talk.said) == ({}, {}, [])
    [finished] = asked.of("RUN_FINISHED")
    if client.is_old:  # it refuses pendingToolCallIds, and sees for itself what has no result
        assert finished.get("outcome", {"type": "success"}) == {"type": "success"}
    else:
        assert finished["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}
        [told] = asked.told("onRunFinishedEvent")
        assert told["pendingToolCallIds"] == ["c1"]
    [call] = asked.told("onNewToolCall")
    assert (call["toolCallId"], call["tool"]) == ("c1", "confirm")
    assert [message["id"] for message in answered.messages] == ["u1", "c1", "t1", "m2"]
    assert answered.messages[-1]["content"] == "They said yes."


def test_tool_calls_at_once_keep_apart(server: Server, client: Client) -> None:
    step = client.run(server.url, "parallel tools")
    [message, *results] = step.answers
    calls = {call["id"]: call["function"] for call in message["toolCalls"]}
    assert calls == {"c1": function("left", '{"n": 1}'), "c2": function("right", '{"n": 2}')}
    answers = {result["toolCallId"]: result["content"] for result in results}
    assert answers == {"c1": "result of c1", "c2": "result of c2"}


def test_tool_chunks_become_whole_calls(server: Server, client: Client) -> None:
    step = client.run(server.url, "tool chunks")
    ended = [(each["tool"], each["arguments"]) for each in step.told("onToolCallEndEvent")]
    assert ended == [("left", {"n": 1}), ("right", {})]
    assert [message["role"] for message in step.answers] == ["assistant", "tool"] * 2


def test_state_and_its_changes(server: Server, client: Client) -> None:
    step = client.run(server.url, "state", state={"count": 9})
    expected = {"count": 0, "items": [""], "done": False, "note": None, "copied": ""}
    assert step.state == expected
    assert len(step.told("onStateChanged")) == 2


def test_a_state_that_is_falsy(server: Server, client: Client) -> None:
    """0.0.59 takes no falsy state over; the event itself arrives there, too."""
    step = client.run(server.url, "falsy state", state={"count": 9})
    [snapshot] = step.of("STATE_SNAPSHOT")
    assert snapshot["snapshot"] == 0
    assert step.state == ({"count": 9} if client.is_old else 0)


def test_activities(server: Server, client: Client) -> None:
    step = client.run(server.url, "activities")
    assert step.answers == [
        {
            "id": "a1",
            "role": "activity",
            "activityType": "plan",
            "content": {"steps": ["one", "two"], "open": 0},
        }
    ]


def test_subagents(server: Server, client: Client) -> None:
    """0.0.59 knows them, too."""
    step = client.run(server.url, "subagents")
    told = {message["id"]: message for message in step.answers}
    assert told["m1"] == {
        "id": "m1",
        "role": "assistant",
        "content": "From the scout.",
        "subagentRunId": "s1",
    }
    assert (told["m2"]["content"], told["m2"]["subagentRunId"]) == ("Deeper.", "s2")
    assert (told["t1"]["content"], told["t1"]["subagentRunId"]) == ("18 degrees", "s1")
    assert "subagentRunId" not in told["m3"]
    started, nested = step.of("SUBAGENT_STARTED")
    assert (started["parentToolCallId"], nested["parentSubagentRunId"]) == ("c0", "s1")
    [finished] = step.of("SUBAGENT_FINISHED")
    assert (finished["result"], finished["outcome"]) == ({"found": 0}, {"type": "success"})
    assert [event["code"] for event in step.of("SUBAGENT_ERROR")] == ["lost"]
    for callback in ("Started", "Finished", "Error"):
        assert step.told(f"onSubagent{callback}Event")


def test_steps_may_overlap(server: Server, client: Client) -> None:
    step = client.run(server.url, "steps")
    names = [(event["type"][5:], event["stepName"]) for event in step.events if "stepName" in event]
    assert names == [
        ("STARTED", "look"),
        ("STARTED", "tell"),
        ("FINISHED", "look"),
        ("FINISHED", "tell"),
    ]


def test_custom_and_raw_events_keep_their_nulls(server: Server, client: Client) -> None:
    step = client.run(server.url, "custom and raw")
    nothing, falsy = step.of("CUSTOM")
    assert nothing["value"] is None
    assert falsy["value"] == {"zero": 0, "none": None, "empty": ""}
    [raw] = step.of("RAW")
    assert (raw["event"], raw["source"]) == ({"any": [None, {"deep": False}]}, "provider")


def test_usage_and_result(server: Server, client: Client) -> None:
    step = client.run(server.url, "usage")
    [finished] = step.of("RUN_FINISHED")
    tokens = {"provider": "p", "model": "m", "inputTokens": 7, "outputTokens": 0}
    assert (finished["usage"], step.result) == ([tokens], {"answer": 0})


def test_metadata_reaches_the_message(server: Server, client: Client) -> None:
    step = client.run(server.url, "metadata")
    [message] = step.answers
    assert message["metadata"] == {"source": "cache", "rank": 0}


def test_a_snapshot_of_messages_replaces_them(server: Server, client: Client) -> None:
    step = client.run(server.url, "messages snapshot")
    assert [message["id"] for message in step.messages] == ["u1", "m1", "t1", "m2"]
    assert step.messages[-1]["content"] == "Mild. And dry."
    assert step.messages[1]["toolCalls"][0]["function"] == function("weather", "{}")


def test_a_run_of_many_events(server: Server, client: Client) -> None:
    step = client.run(server.url, "many")
    assert len(step.of("TEXT_MESSAGE_CONTENT")) == 500
    assert step.answers[0]["content"] == "".join(f"{number} " for number in range(500))


def test_several_runs_on_a_thread_send_a_growing_history(server: Server, client: Client) -> None:
    talk = client.talk(
        server.url, *(said("recall", f"u{n}", runId=f"run-{n}") for n in range(1, 4))
    )
    assert ([step.error for step in talk.steps], talk.said) == ([{}, {}, {}], [])
    heard = [told(step)["messages"] for step in talk.steps]
    ids = ["u1", "m-run-1", "u2", "m-run-2", "u3"]
    assert [[message["id"] for message in messages] for messages in heard] == [
        ids[:1],
        ids[:3],
        ids,
    ]
    assert [message["id"] for message in talk.steps[-1].messages] == [*ids, "m-run-3"]


def told(step: Step) -> dict[str, Any]:
    [event] = step.of("CUSTOM")
    heard: dict[str, Any] = event["value"]
    return heard


def test_what_a_client_sends_reaches_the_agent(server: Server, client: Client) -> None:
    tool = {"name": "confirm", "description": "Ask.", "parameters": {"type": "object"}}
    context = {"description": "page", "value": "orders"}
    image = {"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}}
    activity = {"id": "a0", "role": "activity", "activityType": "plan", "content": {}}
    talk = client.talk(
        server.url,
        said("recall", tools=[tool], context=[context], forwardedProps={"zero": 0, "none": None}),
        threadId="a thread",
        state={"count": 0, "none": None},
        messages=[
            {"id": "u0", "role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
            activity,
        ],
    )
    [step] = talk.steps
    assert (step.error, talk.said) == ({}, [])
    heard = told(step)
    assert heard["threadId"] == "a thread"
    assert heard["tools"] == [tool]
    assert heard["context"] == [context]
    assert heard["forwardedProps"] == {"zero": 0, "none": None}
    assert heard["state"] == {"count": 0, "none": None}
    assert [message["id"] for message in heard["messages"]] == ["u0", "u1"]
    assert heard["messages"][0]["content"] == [{"type": "text", "text": "Look:"}, image]
    assert heard.get("protocolVersion") == (None if client.is_old else "1.0")


@pytest.mark.parametrize(
    "scenario",
    [
        *("text", "reasoning", "tool with result", "tool with parts", "parallel tools"),
        *("subagents", "metadata", "messages snapshot", "unknown"),
    ],
)
def test_what_the_agent_said_comes_back_as_history(
    server: Server, client: Client, scenario: str
) -> None:
    talk = client.talk(server.url, scenario, said("recall", "u2"))
    before, after = talk.steps
    assert (after.error, talk.said) == ({}, [])
    assert told(after)["messages"][:-1] == before.messages


def test_the_old_client_may_send_binary_parts(server: Server, old_client: Client) -> None:
    """1.0 has other parts for it, and that is what an agent sees."""
    binary = {"type": "binary", "mimeType": "image/png", "data": "AA=="}
    asked = {"id": "u0", "role": "user", "content": [binary]}
    step = old_client.run(server.url, "recall", messages=[asked])
    source = {"type": "data", "value": "AA==", "mimeType": "image/png"}
    assert told(step)["messages"][0]["content"] == [{"type": "image", "source": source}]


def test_heartbeats_are_nothing_to_the_client(server: Server, client: Client) -> None:
    """The server fills the silence of this run with comments, as another test sees."""
    step = client.run(server.url, "pausing")
    assert [message["content"] for message in step.answers] == ["Thinking"]


def test_what_the_protocol_does_not_know_is_taken_out(server: Server, client: Client) -> None:
    """1.0 would warn of each unknown thing that reached it, and `run` refuses warnings."""
    step = client.run(server.url, "unknown")
    assert "mood" not in str(step.events).lower()
    assert [message.get("content") for message in step.answers] == ["Known.", None]
    [call] = step.answers[-1]["toolCalls"]
    assert call["function"] == function("weather", "{}")


def test_a_middleware_in_the_client_sees_the_stream(server: Server, client: Client) -> None:
    talk = client.talk(server.url, "text chunks", use=True)
    [step] = talk.steps
    assert (step.error, talk.said) == ({}, [])
    assert talk.wire == step.types
    assert [message["metadata"] for message in step.answers] == [{"marked": True}] * 2


def test_runs_at_once_do_not_mix(server: Server, new_client: Client, old_client: Client) -> None:
    """Both clients, and others beside them, each on a thread of its own."""
    threads = [f"thread {number}" for number in range(12)]
    with ThreadPoolExecutor(14) as pool:
        talks = [
            pool.submit(client.talk, server.url, "recall", "pausing", "recall")
            for client in (new_client, old_client)
        ]
        others = [pool.submit(server.post, "pausing", thread=thread) for thread in threads]
        answers = [other.result(SECONDS) for other in others]
        held = [talk.result(SECONDS) for talk in talks]
    assert [answer.events[0]["threadId"] for answer in answers] == threads
    assert {answer.types[-1] for answer in answers} == {"RUN_FINISHED"}
    for talk in held:
        assert [step.error for step in talk.steps] == [{}, {}, {}]
        assert {told(step)["threadId"] for step in talk.steps[::2]} == {talk.thread}
