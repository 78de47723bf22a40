"""What the agent of scenarios.py sends: a function for each stream, as data without any waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ag_ui.core import PROTOCOL_VERSION, BaseEvent, RunAgentInput, RunFinishedEvent, RunStartedEvent

from interpose.agui import EVENT_CLASSES

Events = Iterator[Any]
EMAIL = ("ada.love", "lace@exam", "ple.com")
SECRET = "the password is hunter2"


def event(kind: str, **fields: Any) -> BaseEvent:
    """Return an event by the name of its type."""
    made: BaseEvent = EVENT_CLASSES[kind](**fields)
    return made


def say(*deltas: str, message: str = "m1", name: str | None = None, **fields: Any) -> Events:
    """Say a whole text message."""
    yield event("TEXT_MESSAGE_START", message_id=message, role="assistant", name=name, **fields)
    for delta in deltas:
        yield event("TEXT_MESSAGE_CONTENT", message_id=message, delta=delta, **fields)
    yield event("TEXT_MESSAGE_END", message_id=message, **fields)


def call(tool: str, *arguments: str, call_id: str = "c1", **fields: Any) -> Events:
    """Make a whole tool call."""
    yield event("TOOL_CALL_START", tool_call_id=call_id, tool_call_name=tool, **fields)
    for delta in arguments:
        yield event("TOOL_CALL_ARGS", tool_call_id=call_id, delta=delta, **fields)
    yield event("TOOL_CALL_END", tool_call_id=call_id, **fields)


def answer(content: Any, call_id: str = "c1", message: str = "t1", **fields: Any) -> BaseEvent:
    """Answer a tool call."""
    names = {"tool_call_id": call_id, "message_id": message}
    return event("TOOL_CALL_RESULT", content=content, **names, **fields)


def parts() -> list[dict[str, Any]]:
    """Return a tool's result in parts."""
    picture = {"type": "url", "value": "https://example.com/sky.png"}
    return [{"type": "text", "text": "18 degrees"}, {"type": "image", "source": picture}]


def started(run_input: RunAgentInput, **fields: Any) -> BaseEvent:
    """Begin the run."""
    return RunStartedEvent(
        thread_id=run_input.thread_id,
        run_id=run_input.run_id,
        protocol_version=PROTOCOL_VERSION,
        **fields,
    )


def finish(run_input: RunAgentInput, **fields: Any) -> BaseEvent:
    """End the run."""
    return RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id, **fields)


# What streams are made of -----------------------------------------------------------------------
def text(_: RunAgentInput) -> Events:
    yield from say("Grüße, ", "", "world 🌍\n\n", "data: {}\n")
    yield from say("Bye\u2028.", message="m2", name="helper")


def text_chunks(_: RunAgentInput) -> Events:
    yield event("TEXT_MESSAGE_CHUNK", message_id="m1", role="assistant", delta="Hel")
    yield event("TEXT_MESSAGE_CHUNK", delta="lo")
    yield event("TEXT_MESSAGE_CHUNK", message_id="m2", delta="Second")
    yield event("TEXT_MESSAGE_CHUNK", message_id="m2", delta=".")


def reasoning(_: RunAgentInput) -> Events:
    yield event("REASONING_START", message_id="r1")
    yield event("REASONING_MESSAGE_START", message_id="r1", role="reasoning")
    yield event("REASONING_MESSAGE_CONTENT", message_id="r1", delta="Hm, ")
    yield event("REASONING_MESSAGE_CONTENT", message_id="r1", delta="so.")
    yield event("REASONING_MESSAGE_END", message_id="r1")
    sealed = {"entity_id": "r1", "encrypted_value": "sealed"}
    yield event("REASONING_ENCRYPTED_VALUE", subtype="message", **sealed)
    yield event("REASONING_END", message_id="r1")
    yield from say("Yes.")


def reasoning_chunks(_: RunAgentInput) -> Events:
    yield event("REASONING_MESSAGE_CHUNK", message_id="r1", delta="Hm, ")
    yield event("REASONING_MESSAGE_CHUNK", delta="so.")
    yield event("TEXT_MESSAGE_CHUNK", message_id="m1", delta="Yes.")


def tool_with_result(_: RunAgentInput) -> Events:
    yield from say("Looking.")
    yield from call("weather", '{"city": ', '"Paris"}', parent_message_id="m1")
    sealed = {"entity_id": "c1", "encrypted_value": "sealed"}
    yield event("REASONING_ENCRYPTED_VALUE", subtype="tool-call", **sealed)
    yield answer("18 degrees")
    yield from say("It is mild.", message="m2")


def tool_with_parts(_: RunAgentInput) -> Events:
    yield from call("weather")
    yield answer(parts())


def snapshot_with_parts(_: RunAgentInput) -> Events:
    """Send what came with 1.0: results in parts, and files that a provider keeps."""
    file = {"type": "document", "source": {"type": "file", "value": "file-7"}}
    yield event(
        "MESSAGES_SNAPSHOT",
        messages=[
            {"id": "u0", "role": "user", "content": [{"type": "text", "text": "Read:"}, file]},
            {"id": "t1", "role": "tool", "tool_call_id": "c1", "content": parts()},
        ],
    )


def echoed_input(run_input: RunAgentInput) -> Events:
    """Begin with the input, as it is when tools and context are left out."""
    left_out = {"tools": None, "context": None}
    yield started(run_input, input=run_input.model_copy(update=left_out))
    yield from say("Heard.")


def front_end_tool(run_input: RunAgentInput) -> Events:
    last = run_input.messages[-1]
    if last.role == "tool":
        yield from say(f"They said {last.content}.", message="m2")
        return
    yield from call("confirm", '{"what": "order"}')
    yield finish(run_input, outcome={"type": "success", "pending_tool_call_ids": ["c1"]})


def parallel_tools(_: RunAgentInput) -> Events:
    for call_id, tool in (("c1", "left"), ("c2", "right")):
        yield event(
            "TOOL_CALL_START", tool_call_id=call_id, tool_call_name=tool, parent_message_id="m1"
        )
    for call_id, delta in (("c1", '{"n":'), ("c2", '{"n": 2'), ("c1", " 1}"), ("c2", "}")):
        yield event("TOOL_CALL_ARGS", tool_call_id=call_id, delta=delta)
    for call_id in ("c2", "c1"):
        yield event("TOOL_CALL_END", tool_call_id=call_id)
    for call_id in ("c2", "c1"):
        yield answer(f"result of {call_id}", call_id, f"t-{call_id}")


def tool_chunks(_: RunAgentInput) -> Events:
    yield event("TOOL_CALL_CHUNK", tool_call_id="c1", tool_call_name="left", delta='{"n":')
    yield event("TOOL_CALL_CHUNK", delta=" 1}")
    yield event("TOOL_CALL_CHUNK", tool_call_id="c2", tool_call_name="right", delta="{}")
    yield answer("one")
    yield answer("two", "c2", "t2")


def state(_: RunAgentInput) -> Events:
    yield event("STATE_SNAPSHOT", snapshot={"count": 1, "items": [], "done": True, "note": "n"})
    yield event(
        "STATE_DELTA",
        delta=[
            {"op": "test", "path": "/count", "value": 1},
            {"op": "replace", "path": "/count", "value": 0},
            {"op": "replace", "path": "/done", "value": False},
            {"op": "replace", "path": "/note", "value": None},
            {"op": "add", "path": "/items/-", "value": ""},
            {"op": "copy", "from": "/items/0", "path": "/copied"},
        ],
    )


def falsy_state(_: RunAgentInput) -> Events:
    yield event("STATE_SNAPSHOT", snapshot=0)


def activities(_: RunAgentInput) -> Events:
    plan = {"message_id": "a1", "activity_type": "plan"}
    yield event("ACTIVITY_SNAPSHOT", content={"steps": ["one"], "open": 2}, **plan)
    yield event(
        "ACTIVITY_DELTA",
        patch=[
            {"op": "add", "path": "/steps/-", "value": "two"},
            {"op": "replace", "path": "/open", "value": 0},
        ],
        **plan,
    )
    yield event("ACTIVITY_SNAPSHOT", content={"steps": []}, replace=False, **plan)


def subagents(_: RunAgentInput) -> Events:
    one = {"subagent_run_id": "s1"}
    yield from call("delegate", "{}", call_id="c0", parent_message_id="m0")
    yield event("SUBAGENT_STARTED", name="scout", parent_tool_call_id="c0", **one)
    yield event(
        "SUBAGENT_STARTED", name="nested", subagent_run_id="s2", parent_subagent_run_id="s1"
    )
    yield event("TEXT_MESSAGE_CHUNK", message_id="m1", delta="From ", **one)
    yield event("TEXT_MESSAGE_CHUNK", message_id="m2", delta="Deeper.", subagent_run_id="s2")
    yield event("TEXT_MESSAGE_CHUNK", delta="the scout.", **one)
    yield from call("weather", "{}", **one)
    yield answer("18 degrees", **one)
    yield event("SUBAGENT_ERROR", subagent_run_id="s2", message="lost", code="lost")
    yield event("SUBAGENT_FINISHED", result={"found": 0}, outcome={"type": "success"}, **one)
    yield from say("Done.", message="m3")


def steps(_: RunAgentInput) -> Events:
    yield event("STEP_STARTED", step_name="look")
    yield event("STEP_STARTED", step_name="tell")
    yield event("STEP_FINISHED", step_name="look")
    yield from say("Seen.")
    yield event("STEP_FINISHED", step_name="tell")


def custom_and_raw(_: RunAgentInput) -> Events:
    yield event("CUSTOM", name="tests.nothing", value=None)
    yield event("CUSTOM", name="tests.falsy", value={"zero": 0, "none": None, "empty": ""})
    yield event("RAW", event={"any": [None, {"deep": False}]}, source="provider")


def usage(run_input: RunAgentInput) -> Events:
    yield from say("Counted.")
    tokens = {"provider": "p", "model": "m", "input_tokens": 7, "output_tokens": 0}
    yield finish(run_input, usage=[tokens], result={"answer": 0})


def metadata(_: RunAgentInput) -> Events:
    yield from say("Marked.", metadata={"source": "cache", "rank": 0})


def messages_snapshot(_: RunAgentInput) -> Events:
    yield from say("Draft.", message="m0")
    function = {"name": "weather", "arguments": "{}"}
    yield event(
        "MESSAGES_SNAPSHOT",
        messages=[
            {"id": "u1", "role": "user", "content": "messages snapshot"},
            {"id": "m1", "role": "assistant", "tool_calls": [{"id": "c1", "function": function}]},
            {"id": "t1", "role": "tool", "tool_call_id": "c1", "content": "18 degrees"},
            {"id": "m2", "role": "assistant", "content": "Mild."},
        ],
    )
    yield from say(" And dry.", message="m2")


def interrupt(run_input: RunAgentInput) -> Events:
    if run_input.resume:
        answers = ", ".join(f"{e.interrupt_id} {e.status} {e.payload}" for e in run_input.resume)
        yield from say(answers, message="m2")
        return
    yield from call("pay", '{"amount": 3}')
    asked = [
        {"id": "i1", "reason": "tool_call", "tool_call_id": "c1", "message": "Pay?"},
        {"id": "i2", "reason": "confirmation", "response_schema": {"type": "object"}},
    ]
    yield finish(run_input, outcome={"type": "interrupt", "interrupts": asked})


def cancelled(run_input: RunAgentInput) -> Events:
    yield from say("Half a")
    yield finish(run_input, outcome={"type": "cancelled"})


def fails(_: RunAgentInput) -> Events:
    yield event("TEXT_MESSAGE_START", message_id="m1")
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="So far")
    yield event("TOOL_CALL_START", tool_call_id="c1", tool_call_name="weather")
    raise RuntimeError(SECRET)


def fails_at_once(_: RunAgentInput) -> Events:
    raise RuntimeError(SECRET)


def says_that_it_failed(_: RunAgentInput) -> Events:
    yield event("TEXT_MESSAGE_START", message_id="m1")
    yield event("RUN_ERROR", message="The model is gone.", code="model-gone")


def stops_short(_: RunAgentInput) -> Events:
    yield event("TEXT_MESSAGE_START", message_id="m1")
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="So far")
    yield None  # and no terminal


def breaks_the_rules(_: RunAgentInput) -> Events:
    yield event("TEXT_MESSAGE_START", message_id="m1")
    yield event("TEXT_MESSAGE_START", message_id="m1")


def goes_on_after_the_end(run_input: RunAgentInput) -> Events:
    yield from say("Done.")
    yield finish(run_input)
    yield from say("Not to be seen.", message="m2")


def unknown(_: RunAgentInput) -> Events:
    yield {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "mood": "odd"}
    yield {"type": "MOOD_CHANGED", "mood": "odd"}
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="Known.", mood="odd")
    yield {"type": "TEXT_MESSAGE_END", "messageId": "m1"}
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    said = {"id": "m1", "role": "assistant", "content": "Known.", "mood": "odd"}
    called = {"id": "m2", "role": "assistant", "toolCalls": [{**call, "mood": "odd"}]}
    yield {"type": "MESSAGES_SNAPSHOT", "messages": [said, called]}


def many(_: RunAgentInput) -> Events:
    yield from say(*(f"{number} " for number in range(500)))


def recall(run_input: RunAgentInput) -> Events:
    """Say what came in, so that a test sees what a client sends."""
    told = run_input.model_dump(mode="json", by_alias=True)
    yield event("CUSTOM", name="tests.input", value=told)
    yield from say("Noted.", message=f"m-{run_input.run_id}")


# What layers are to deal with -------------------------------------------------------------------
def hidden_tool(run_input: RunAgentInput) -> Events:
    yield from call("confirm", "{}", call_id="c1", parent_message_id="m1")
    yield from call("delete_everything", '{"sure": true}', call_id="c2", parent_message_id="m1")
    pending = ["c1", "c2"]
    yield finish(run_input, outcome={"type": "success", "pending_tool_call_ids": pending})


def hidden_chunks(run_input: RunAgentInput) -> Events:
    chunk = "TOOL_CALL_CHUNK"
    yield event(chunk, tool_call_id="c2", tool_call_name="delete_everything", delta='{"sure": ')
    yield event(chunk, delta="true}")
    yield event(chunk, tool_call_id="c1", tool_call_name="confirm", delta="{}")
    yield finish(run_input, outcome={"type": "success", "pending_tool_call_ids": ["c1", "c2"]})


def hidden_snapshot(_: RunAgentInput) -> Events:
    calls = [
        {"id": call_id, "function": {"name": name, "arguments": "{}"}}
        for call_id, name in (("c1", "confirm"), ("c2", "delete_everything"))
    ]
    yield event(
        "MESSAGES_SNAPSHOT",
        messages=[
            {"id": "m1", "role": "assistant", "content": "Wait.", "tool_calls": calls},
            {"id": "t2", "role": "tool", "tool_call_id": "c2", "content": "deleted"},
        ],
    )


def address(_: RunAgentInput) -> Events:
    yield event("REASONING_MESSAGE_CHUNK", message_id="r1", delta="Ask ")
    for delta in EMAIL:
        yield event("REASONING_MESSAGE_CHUNK", delta=delta)
    for delta in ("Write to ", *EMAIL, " today."):
        yield event("TEXT_MESSAGE_CHUNK", message_id="m1", delta=delta)
    whole = "".join(EMAIL)
    yield from call("send", '{"to": "ada.love', "lace@exam", 'ple.com"}', parent_message_id="m1")
    yield answer(f"sent to {whole}")
    yield event("STATE_SNAPSHOT", snapshot={"to": whole})
    yield event("STATE_DELTA", delta=[{"op": "add", "path": "/cc", "value": whole}])


def refused(_: RunAgentInput) -> Events:
    yield from say("Never said.")


def busy(_: RunAgentInput) -> Events:
    yield from say("Never said.")


def refused_late(_: RunAgentInput) -> Events:
    yield from say("Good so far, ", "bad word", ".")


STREAMS: dict[str, Callable[[RunAgentInput], Events]] = {
    function.__name__.replace("_", " "): function
    for function in (
        *(text, text_chunks, reasoning, reasoning_chunks),
        *(tool_with_result, tool_with_parts, front_end_tool, parallel_tools, tool_chunks),
        *(snapshot_with_parts, echoed_input),
        *(state, falsy_state, activities, subagents, steps, custom_and_raw, usage, metadata),
        *(messages_snapshot, interrupt, cancelled, many, recall, unknown),
        *(fails, fails_at_once, says_that_it_failed, stops_short, breaks_the_rules),
        *(goes_on_after_the_end, hidden_tool, hidden_chunks, hidden_snapshot, address),
        *(refused, busy, refused_late),
    )
}
