"""Check that what a middleware takes out stays out, in every event that repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    ToolCall,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import expanded
from interpose.testing.contracts.material import names
from interpose.testing.contracts.playing import play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.retraction_rules import (
    plain,
    snapshot_texts,
    texts,
    told_twice,
)
from interpose.testing.contracts.rules.stream_rules import no_stream
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.contracts.watching import watched
from interpose.testing.events import finished, text, tool_call
from interpose.text import Covers, TextTransform


async def stays_hidden(subject: Subject) -> Finding | None:
    """Play texts and calls that later events repeat, and compare."""
    partial = await _covers_half(subject)

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        heard = await play(subject, [events], strict=False)
        if heard.ended_early:
            return None
        left = list(expanded(heard.events))
        back = [*_calls_back(events, left), *(() if partial else _text_back(events, left))]
        return Finding(back[0], "what it takes out is taken out everywhere") if back else None

    for events in (*told_twice(subject), _calls(subject)):
        finding = await smallest(events, look)
        if finding is not None:
            return finding
    return None


async def _covers_half(subject: Subject) -> bool:
    """Tell whether a text transform says itself that it covers texts or snapshots, not both."""
    if not issubclass(subject.cls, TextTransform):
        return False
    subject, instances = watched(subject)
    await play(subject, text("Well."), strict=False)
    covers = [i.covers for i in instances if isinstance(i, TextTransform)]
    return any((Covers.TEXT in each) != (Covers.MESSAGES in each) for each in covers)


def _text_back(sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    shown, stored = texts(left), snapshot_texts(left)
    for ident, said in texts(sent).items():
        if (
            ident in shown
            and said
            and stored.get(ident) == said
            and not _within(said, shown[ident])
        ):
            yield (
                f"the text {said!r} left as {shown[ident]!r}, and the snapshot of the messages "
                f"brought {said!r} back"
            )


def _within(text: str, longer: str) -> bool:
    """Tell whether ``longer`` still says the text, perhaps with something added."""
    rest = iter(plain(longer))
    return all(letter in rest for letter in plain(text))


def _calls(subject: Subject) -> Sequence[BaseEvent]:
    """Return calls of several tools, and what repeats them."""
    events: list[BaseEvent] = []
    made: list[ToolCall] = []
    results: list[ToolMessage] = []
    for number, name in enumerate((*names(subject), "another_tool"), start=1):
        ident = f"call-{number}"
        events += tool_call(name, {"n": number}, result=f"{number}", tool_call_id=ident)
        function = FunctionCall(name=name, arguments=f'{{"n": {number}}}')
        made.append(ToolCall(id=ident, function=function))
        results.append(ToolMessage(id=f"{ident}-result", tool_call_id=ident, content=f"{number}"))
    messages: list[Message] = [AssistantMessage(id="asks", tool_calls=made), *results]
    outcome = RunFinishedSuccessOutcome(
        type="success", pending_tool_call_ids=[call.id for call in made]
    )
    return (*events, MessagesSnapshotEvent(messages=messages), finished(outcome=outcome))


def _calls_back(sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    hidden = _begun(sent) - _begun(left)
    if not hidden:
        return
    for event in left:
        for what, ids in _repeated(event):
            for ident in sorted(hidden & set(ids)):
                yield f"the call {ident!r} did not leave, and {what} shows it"


def _begun(events: Sequence[BaseEvent]) -> set[str]:
    return {event.tool_call_id for event in events if isinstance(event, ToolCallStartEvent)}


def _repeated(event: BaseEvent) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield where an event names calls, and which."""
    if isinstance(event, ToolCallResultEvent):
        yield "its TOOL_CALL_RESULT", (event.tool_call_id,)
    elif isinstance(event, MessagesSnapshotEvent):
        for message in event.messages:
            if message.role == "assistant":
                yield "the snapshot of the messages", [c.id for c in message.tool_calls or ()]
            elif message.role == "tool":
                yield "its result in the snapshot of the messages", (message.tool_call_id,)
    elif isinstance(event, RunFinishedEvent) and isinstance(
        event.outcome, RunFinishedSuccessOutcome
    ):
        yield "pendingToolCallIds of RUN_FINISHED", event.outcome.pending_tool_call_ids or ()


RULES: Final = (
    Rule(
        "stays-hidden",
        "An agent says the same more than once: in the stream, in a snapshot, in a result. What "
        "is masked in one place and clear in the next is not masked.",
        stays_hidden,
        no_stream,
    ),
)
