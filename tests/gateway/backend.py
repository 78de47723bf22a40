"""The agent behind two servers: it plays what the last user message names. And who refuses runs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import PROTOCOL_VERSION, RunAgentInput

from interpose import Middleware, Reject, RunContext, Settings, Stage
from interpose.agui import EVENT_CLASSES

SECRET = "the password is hunter2"
SPOKEN = ("Write to ada.love", "lace@exam", "ple.com, who paid with 4111 11", "11 1111 1111.")
USAGE = {"provider": "p", "model": "m", "input_tokens": 7, "output_tokens": 9}

GATES: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
"""What runs wait for, by thread; the scenario "open" opens one."""


def event(kind: str, **fields: Any) -> Any:
    """Return an event by the name of its type."""
    return EVENT_CLASSES[kind](**fields)


def spoken(*deltas: str, message: str = "m1") -> list[Any]:
    """Return a whole text message."""
    said = [event("TEXT_MESSAGE_CONTENT", message_id=message, delta=delta) for delta in deltas]
    start = event("TEXT_MESSAGE_START", message_id=message, role="assistant")
    return [start, *said, event("TEXT_MESSAGE_END", message_id=message)]


def called(tool: str, call: str, arguments: str) -> list[Any]:
    """Return a whole tool call with its result."""
    return [
        event("TOOL_CALL_START", tool_call_id=call, tool_call_name=tool),
        event("TOOL_CALL_ARGS", tool_call_id=call, delta=arguments),
        event("TOOL_CALL_END", tool_call_id=call),
        event("TOOL_CALL_RESULT", tool_call_id=call, message_id=f"r-{call}", content="ok"),
    ]


async def order(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Say something for every layer of both chains."""
    yield event("STEP_STARTED", step_name="look")
    for each in (*called("lookup", "c1", '{"n": 1}'), *called("delete_everything", "c2", "{}")):
        yield each
    yield event("STEP_FINISHED", step_name="look")
    for each in spoken(*SPOKEN):
        yield each
    yield event("STATE_SNAPSHOT", snapshot={"paid_with": "4111 1111 1111 1111", "open": 0})
    yield finish(run_input, usage=[USAGE], result={"sum": 0})


async def gate(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Begin to speak, and go on only when another run says so."""
    yield event("TEXT_MESSAGE_START", message_id="m1", role="assistant")
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="before ")
    await GATES[run_input.thread_id].wait()
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta=f"after {run_input.thread_id}")
    yield event("TEXT_MESSAGE_END", message_id="m1")


async def opened(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Let the run of another thread go on."""
    GATES[(run_input.forwarded_props or {})["thread"]].set()
    for each in spoken("opened"):
        yield each


async def pause(_: RunAgentInput) -> AsyncIterator[Any]:
    """Be silent for longer than the gateway waits for a byte."""
    yield event("TEXT_MESSAGE_START", message_id="m1", role="assistant")
    await asyncio.sleep(2.2)
    yield event("TEXT_MESSAGE_END", message_id="m1")


async def cancelled(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """End with the cancelled outcome."""
    for each in spoken("So far."):
        yield each
    yield finish(run_input, outcome={"type": "cancelled"})


async def ask(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Interrupt the run, and say what came of it when it is resumed."""
    if run_input.resume:
        [entry] = run_input.resume
        for each in spoken(f"{entry.interrupt_id}: {entry.status}, {entry.payload}", message="m2"):
            yield each
        return
    wanted = {"id": "i1", "reason": "approval", "message": "May I charge 4111 1111 1111 1111?"}
    yield finish(run_input, outcome={"type": "interrupt", "interrupts": [wanted]})


async def raises(_: RunAgentInput) -> AsyncIterator[Any]:
    """Fail in the middle of a message."""
    yield event("TEXT_MESSAGE_START", message_id="m1", role="assistant")
    raise RuntimeError(SECRET)


async def tell(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Tell what came in."""
    told = run_input.model_dump(mode="json", by_alias=True)
    yield event("CUSTOM", name="tests.input", value=told)


async def unknown(_: RunAgentInput) -> AsyncIterator[Any]:
    """Send what no version of the protocol knows."""
    yield {"type": "MOOD_CHANGED", "mood": "odd"}
    yield {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "mood": "odd"}
    yield {"type": "TEXT_MESSAGE_END", "messageId": "m1"}


SCENARIOS = {
    each.__name__: each
    for each in (order, gate, opened, pause, cancelled, ask, raises, tell, unknown)
}


def finish(run_input: RunAgentInput, **fields: Any) -> Any:
    """End the run."""
    ids = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    return event("RUN_FINISHED", **ids, **fields)


async def agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Play the scenario that the first word of the last user message names."""
    [*_, last] = [message for message in run_input.messages if message.role == "user"]
    ids = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    yield event("RUN_STARTED", **ids, protocol_version=PROTOCOL_VERSION)
    ended = False
    async for each in SCENARIOS[str(last.content).split()[0]](run_input):
        yield each
        ended = getattr(each, "type", None) == "RUN_FINISHED"
    if not ended:
        yield finish(run_input)


class GuardSettings(Settings):
    """What is refused."""

    refuses: str


class Guard(Middleware[GuardSettings]):
    """Refuses runs before they start."""

    stage = Stage.EDGE

    def setup(self, ctx: RunContext) -> None:
        """Refuse what the settings say."""
        if ctx.input.messages[-1].content == self.settings.refuses:
            raise Reject("quota", f"No more today. {SECRET}", status=429, retry_after=7)
