"""Mistakes in handling streams, and middlewares that handle them well."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    SystemMessage,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic import Field
from zoo import Bug, Twin

from interpose import (
    DROP,
    CallRun,
    LifespanContext,
    Middleware,
    PatternTransform,
    Reject,
    Result,
    RunContext,
    Settings,
    on,
)


class Words(Settings):
    """Words that are looked for."""

    words: tuple[str, ...] = ("damn",)
    """Whole words, in lower case."""


class WordList(Settings):
    """Words, in a list."""

    words: list[str] = Field(default_factory=lambda: ["damn", "damned"])
    """Whole words, in lower case."""


class Names(Settings):
    """Names of tools."""

    tools: tuple[str, ...] = ("delete_order",)
    """Tools whose calls are meant."""


# What is cut, and what is odd ------------------------------------------------------------------
class MaskKeepingTail(Middleware[Words]):
    """Mask words; keep the end of each piece, in case that a word goes on."""

    def setup(self, ctx: RunContext) -> None:
        self.tails: dict[str, str] = {}
        self.keep = max(map(len, self.settings.words)) - 2

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        text = self.mask(self.tails.get(event.message_id, "") + event.delta)
        cut = max(0, len(text) - self.keep)
        self.tails[event.message_id] = text[cut:]
        return event.model_copy(update={"delta": text[:cut]})

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        rest = self.mask(self.tails.pop(event.message_id, ""))
        return [TextMessageContentEvent(message_id=event.message_id, delta=rest), event]

    @on(MessagesSnapshotEvent)
    def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        return _rewritten(event, self.mask)

    def mask(self, text: str) -> str:
        for word in self.settings.words:
            text = re.sub(re.escape(word), "****", text, flags=re.IGNORECASE)
        return text


class SourcesAtTheEnd(Middleware):
    """Name the sources at the end of the answer, once the run is over and all are known."""

    def setup(self, ctx: RunContext) -> None:
        self.last: str | None = None
        self.sources: list[str] = []

    @on(ToolCallResultEvent)
    def result(self, ctx: RunContext, event: ToolCallResultEvent) -> Result:
        self.sources.append(event.tool_call_id)
        return event

    @on(TextMessageStartEvent)
    def start(self, ctx: RunContext, event: TextMessageStartEvent) -> Result:
        self.last = event.message_id
        return event

    @on(RunFinishedEvent)
    def finished(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        if self.last is None or not self.sources:
            return event
        said = f" (Sources: {', '.join(self.sources)})"
        return [TextMessageContentEvent(message_id=self.last, delta=said), event]


class ShowQueries(Middleware):
    """Tell the consumer what is looked up, as soon as the arguments of a call are known."""

    def setup(self, ctx: RunContext) -> None:
        self.args: dict[str, str] = {}

    @on(ToolCallArgsEvent)
    def more(self, ctx: RunContext, event: ToolCallArgsEvent) -> Result:
        self.args[event.tool_call_id] = self.args.get(event.tool_call_id, "") + event.delta
        return event

    @on(ToolCallEndEvent)
    def end(self, ctx: RunContext, event: ToolCallEndEvent) -> Result:
        try:
            args = json.loads(self.args.pop(event.tool_call_id, "{}"))
        except json.JSONDecodeError:
            return event
        query = args.get("query")
        return [event, CustomEvent(name="query", value=query)] if query else event


# The two forms ---------------------------------------------------------------------------------
class MaskChunks(Middleware):
    """Mask digits in what the agent streams, which is chunks."""

    @on(TextMessageChunkEvent)
    def chunk(self, ctx: RunContext, event: TextMessageChunkEvent) -> Result:
        return event.model_copy(update={"delta": re.sub(r"\d", "•", event.delta or "")})


class MaskChunksByClass(Middleware):
    """Mask digits, in a hook for all events."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        match event:
            case TextMessageChunkEvent(delta=str() as delta):
                return event.model_copy(update={"delta": re.sub(r"\d", "•", delta)})
        return event


class MaskInOneMessage(Middleware):
    """Mask digits before chunks are expanded, in the messages of the assistant."""

    form = "raw"
    rewrites_history = True

    def setup(self, ctx: RunContext) -> None:
        self.ours: set[str] = set()

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        if isinstance(event, TextMessageStartEvent | TextMessageChunkEvent) and (
            event.role in (None, "assistant") and event.message_id is not None
        ):
            self.ours.add(event.message_id)
        if (
            isinstance(event, TextMessageContentEvent | TextMessageChunkEvent)
            and event.message_id in self.ours
            and event.delta
        ):
            return event.model_copy(update={"delta": re.sub(r"\d", "•", event.delta)})
        return event


# What is nobody's business ---------------------------------------------------------------------
class OnlyWhatIsKnown(Middleware):
    """Let through what the front end knows how to show."""

    SHOWN = ("TEXT_", "TOOL_", "RUN_", "REASONING_", "STATE_", "MESSAGES_", "STEP_", "SUBAGENT_")

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        return event if event.type.value.startswith(self.SHOWN) else DROP


class TrimMessages(Middleware):
    """Take white space off the end of each message."""

    def setup(self, ctx: RunContext) -> None:
        self.space: dict[str, str] = {}

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        text = self.space.pop(event.message_id, "") + event.delta
        kept = text.rstrip()
        self.space[event.message_id] = text[len(kept) :]
        return event.model_copy(update={"delta": kept})

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        self.space.pop(event.message_id, None)
        return TextMessageEndEvent(
            message_id=event.message_id, subagent_run_id=event.subagent_run_id
        )

    @on(MessagesSnapshotEvent)
    def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        return _rewritten(event, str.rstrip)


class SystemPrompt(Middleware):
    """Put a system message before the conversation."""

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> RunAgentInput:
        prompt = SystemMessage(id="system", content="Be brief.")
        return RunAgentInput(
            thread_id=run_input.thread_id,
            run_id=run_input.run_id,
            state=run_input.state,
            messages=[prompt, *run_input.messages],
            tools=run_input.tools,
            context=run_input.context,
            forwarded_props={},
        )


class AddLength(Middleware):
    """Say in the result of the run how long the answer was."""

    def setup(self, ctx: RunContext) -> None:
        self.length = 0

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        self.length += len(event.delta)
        return event

    @on(RunFinishedEvent)
    def finished(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        return RunFinishedEvent(
            thread_id=event.thread_id,
            run_id=event.run_id,
            result={"answer": event.result, "length": self.length},
            usage=event.usage,
            metadata=event.metadata,
        )


# What is changed in place ----------------------------------------------------------------------
class NoteInState(Middleware):
    """Say in the shared state that this layer was there."""

    @on(StateSnapshotEvent)
    def state(self, ctx: RunContext, event: StateSnapshotEvent) -> Result:
        if isinstance(event.snapshot, dict):
            event.snapshot.setdefault("layers", []).append("note")
        return event


class DateInContext(Middleware):
    """Tell the agent what the user may be talking about, in the conversation itself."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        run_input.messages.insert(0, SystemMessage(id="date", content="It is Monday."))
        async for event in call_next(run_input):
            yield event


class OneEventForAll(Middleware):
    """Say in the metadata of each piece which one it is; use one event, for speed."""

    def setup(self, ctx: RunContext) -> None:
        self.event: TextMessageContentEvent | None = None
        self.number = 0

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        self.number += 1
        if self.event is None:
            self.event = event.model_copy()
        for field in type(event).model_fields:
            setattr(self.event, field, getattr(event, field))
        self.event.metadata = {**(event.metadata or {}), "piece": self.number}
        return self.event


class AvoidWords(Middleware[WordList]):
    """Tell the agent which words to avoid, the longest first."""

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> RunAgentInput:
        words = self.settings.words
        words.sort(key=len, reverse=True)
        prompt = SystemMessage(id="avoid", content=f"Avoid: {', '.join(words)}.")
        return run_input.model_copy(update={"messages": [prompt, *run_input.messages]})


# What is shown and taken back ------------------------------------------------------------------
class StopAtWords(Middleware[Words]):
    """Refuse a run whose answer contains one of the words, also across pieces."""

    def setup(self, ctx: RunContext) -> None:
        self.said: dict[str, str] = {}

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        said = self.said.get(event.message_id, "") + event.delta
        self.said[event.message_id] = said[-100:]
        if any(word in said.lower() for word in self.settings.words):
            raise Reject("bad-words", "The answer was not fit to be shown.")
        return event

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        self.said.pop(event.message_id, None)
        return event


class CorrectSpelling(Middleware[Words]):
    """Send the corrected message under its id, in the place of the one that was streamed."""

    fresh = False

    def setup(self, ctx: RunContext) -> None:
        self.said: dict[str, str] = {}

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        self.said[event.message_id] = self.said.get(event.message_id, "") + event.delta
        return event

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        said = self.said.pop(event.message_id, "")
        right = said
        for word in self.settings.words:
            right = right.replace(word, word.title())
        if right == said:
            return event
        ids: dict[str, Any] = {
            "message_id": f"{event.message_id}-corrected" if self.fresh else event.message_id,
            "subagent_run_id": event.subagent_run_id,
        }
        return [
            event,
            TextMessageStartEvent(role="assistant", **ids),
            TextMessageContentEvent(delta=right, **ids),
            TextMessageEndEvent(**ids),
        ]


class CorrectBeside(CorrectSpelling):
    """Send the corrected message after the one that was streamed."""

    fresh = True


class DenyArguments(Middleware[Words]):
    """Do not let a call through whose arguments contain one of the words."""

    def setup(self, ctx: RunContext) -> None:
        self.held: dict[str, list[BaseEvent]] = {}

    @on(ToolCallArgsEvent)
    def more(self, ctx: RunContext, event: ToolCallArgsEvent) -> Result:
        self.held.setdefault(event.tool_call_id, []).append(event)
        return DROP

    @on(ToolCallEndEvent)
    def end(self, ctx: RunContext, event: ToolCallEndEvent) -> Result:
        held = self.held.pop(event.tool_call_id, [])
        args = "".join(getattr(each, "delta", "") for each in held)
        denied = any(word in args for word in self.settings.words)
        return event if denied else [*held, event]


class MaskWhatIsStored(Middleware[Words]):
    """Mask words in the messages that the client stores."""

    @on(MessagesSnapshotEvent)
    def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        words = "|".join(map(re.escape, self.settings.words))
        return _rewritten(event, lambda text: re.sub(words, "****", text))


# What is taken out and comes back --------------------------------------------------------------
class HideCalls(Middleware[Names]):
    """Hide calls of some tools: all events of each."""

    def setup(self, ctx: RunContext) -> None:
        self.hidden: set[str] = set()

    @on(ToolCallStartEvent)
    def start(self, ctx: RunContext, event: ToolCallStartEvent) -> Result:
        if event.tool_call_name not in self.settings.tools:
            self.hidden.discard(event.tool_call_id)
            return event
        self.hidden.add(event.tool_call_id)
        return DROP

    @on(ToolCallArgsEvent, ToolCallEndEvent, ToolCallResultEvent)
    def rest(
        self,
        ctx: RunContext,
        event: ToolCallArgsEvent | ToolCallEndEvent | ToolCallResultEvent,
    ) -> Result:
        return DROP if event.tool_call_id in self.hidden else event


class MaskDigits(Middleware):
    """Mask digits as they stream by."""

    @on(TextMessageContentEvent, ReasoningMessageContentEvent)
    def content(
        self, ctx: RunContext, event: TextMessageContentEvent | ReasoningMessageContentEvent
    ) -> Result:
        return event.model_copy(update={"delta": re.sub(r"\d", "•", event.delta)})


# What overlaps ---------------------------------------------------------------------------------
class Sentences(Middleware):
    """Let text through in whole sentences."""

    def setup(self, ctx: RunContext) -> None:
        self.rest = ""

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        whole, stop, self.rest = (self.rest + event.delta).rpartition(". ")
        return event.model_copy(update={"delta": whole + stop})

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        rest, self.rest = self.rest, ""
        last = TextMessageContentEvent(
            message_id=event.message_id, delta=rest, subagent_run_id=event.subagent_run_id
        )
        return [last, event]


class ThinkAloud(Middleware):
    """Show reasoning as ordinary messages."""

    @on(ReasoningMessageStartEvent)
    def start(self, ctx: RunContext, event: ReasoningMessageStartEvent) -> Result:
        return [event, TextMessageStartEvent(message_id=f"{event.message_id}-shown")]

    @on(ReasoningMessageEndEvent)
    def end(self, ctx: RunContext, event: ReasoningMessageEndEvent) -> Result:
        return [TextMessageEndEvent(message_id=f"{event.message_id}-shown"), event]

    @on(ToolCallResultEvent)
    def result(self, ctx: RunContext, event: ToolCallResultEvent) -> Result:
        return ToolCallResultEvent(
            message_id=event.message_id,
            tool_call_id=event.tool_call_id,
            content=event.content,
            role=event.role,
            metadata=event.metadata,
            timestamp=event.timestamp,
        )


class FirstWordInBold(Middleware):
    """Put the first piece of each text in bold, also of reasoning."""

    def setup(self, ctx: RunContext) -> None:
        self.begun: set[str] = set()

    @on(TextMessageContentEvent, ReasoningMessageContentEvent)
    def content(
        self, ctx: RunContext, event: TextMessageContentEvent | ReasoningMessageContentEvent
    ) -> Result:
        if not event.delta or event.message_id in self.begun:
            return event
        self.begun.add(event.message_id)
        return event.model_copy(update={"delta": f"**»** {event.delta}"})

    @on(TextMessageEndEvent, ReasoningMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent | ReasoningMessageEndEvent) -> Result:
        self.begun.discard(event.message_id)
        return event


# What is held, and what is kept ----------------------------------------------------------------
class WholeMessages(Middleware):
    """Let messages through whole, for a front end that cannot stream."""

    def setup(self, ctx: RunContext) -> None:
        self.held: dict[str, TextMessageContentEvent] = {}

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        held = self.held.get(event.message_id)
        if held is not None:
            metadata = {**(held.metadata or {}), **(event.metadata or {})} or None
            update = {"delta": held.delta + event.delta, "metadata": metadata}
            event = event.model_copy(update=update)
        self.held[event.message_id] = event
        return DROP

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        held = self.held.pop(event.message_id, None)
        return event if held is None else [held, event]

    @on(RunErrorEvent)
    def failed(self, ctx: RunContext, event: RunErrorEvent) -> Result:
        return [*self.held.values(), event]


class CountWords(Middleware):
    """Count the words of a run, and say the number at its end."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        texts: dict[str, list[str]] = {}
        async for event in call_next(run_input):
            if isinstance(event, TextMessageContentEvent):
                texts.setdefault(event.message_id, []).append(event.delta)
            if isinstance(event, RunFinishedEvent):
                words = sum(len("".join(text).split()) for text in texts.values())
                yield CustomEvent(name="words", value=words)
            yield event


class SeenBefore(Middleware[Settings, dict[str, str]]):
    """Remember each message, to tell which one was sent twice."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: Settings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, str]]:
        yield {}

    def on_message(self, ctx: RunContext, message: Message) -> None:
        self.shared[f"{ctx.thread_id} {message.id}"] = str(message.content)


# Twins -----------------------------------------------------------------------------------------
class MaskProfanity(PatternTransform[Words]):
    """Mask words, wherever they are and however they are cut."""

    @classmethod
    def rules(cls, settings: Words) -> Sequence[tuple[str, str]]:
        return [("word", "(?i)" + "|".join(map(re.escape, settings.words)))]

    def replace(self, name: str, text: str) -> str:
        return "*" * len(text)


class Trim(Middleware):
    """Take white space off the end of each message, and of its copy in a snapshot."""

    longest = 1_000

    def setup(self, ctx: RunContext) -> None:
        self.space: dict[str, TextMessageContentEvent] = {}

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        held = self.space.pop(event.message_id, None)
        if held is not None:
            metadata = {**(held.metadata or {}), **(event.metadata or {})} or None
            update = {"delta": held.delta + event.delta, "metadata": metadata}
            event = event.model_copy(update=update)
        kept = event.delta.rstrip()
        space = event.delta[len(kept) :]
        if not space or len(space) > self.longest:
            return event
        self.space[event.message_id] = event.model_copy(update={"delta": space})
        return event.model_copy(update={"delta": kept})

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        self.space.pop(event.message_id, None)
        return event

    @on(MessagesSnapshotEvent)
    def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        return _rewritten(event, str.rstrip)


class Shout(Middleware):
    """Rewrite short messages as a whole; long ones pass as they are."""

    longest = 2_000

    def setup(self, ctx: RunContext) -> None:
        self.held: dict[str, list[TextMessageContentEvent]] = {}
        self.passing: set[str] = set()

    @on(TextMessageStartEvent)
    def start(self, ctx: RunContext, event: TextMessageStartEvent) -> Result:
        self.passing.discard(event.message_id)
        self.held[event.message_id] = []
        return event

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        if event.message_id in self.passing:
            return event
        held = [*self.held.get(event.message_id, ()), event]
        if sum(len(each.delta) for each in held) > self.longest:
            self.passing.add(event.message_id)
            self.held.pop(event.message_id, None)
            return held
        self.held[event.message_id] = held
        return DROP

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        self.passing.discard(event.message_id)
        return [*self.loud(event.message_id), event]

    @on(RunErrorEvent)
    def failed(self, ctx: RunContext, event: RunErrorEvent) -> Result:
        return [*(piece for ident in list(self.held) for piece in self.loud(ident)), event]

    @on(MessagesSnapshotEvent)
    def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        return _rewritten(event, lambda text: text.upper() if len(text) <= self.longest else text)

    def loud(self, ident: str) -> Sequence[BaseEvent]:
        held = self.held.pop(ident, [])
        if not held:
            return ()
        metadata: dict[str, Any] = {}
        for each in held:
            metadata |= each.metadata or {}
        said = "".join(each.delta for each in held).upper()
        return (held[-1].model_copy(update={"delta": said, "metadata": metadata or None}),)


class Stamp(Middleware):
    """Say on each event which layer it passed."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        return event.model_copy(update={"metadata": {**(event.metadata or {}), "seen-by": "stamp"}})


class HideCallsEverywhere(HideCalls):
    """Hide calls of some tools, in the history, too."""

    @on(MessagesSnapshotEvent)
    def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        return event.model_copy(update={"messages": [*self.shown(event.messages)]})

    @on(RunFinishedEvent)
    def finished(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        pending = getattr(event.outcome, "pending_tool_call_ids", None)
        if event.outcome is None or pending is None:
            return event
        left = [ident for ident in pending if ident not in self.hidden]
        outcome = event.outcome.model_copy(update={"pending_tool_call_ids": left})
        return event.model_copy(update={"outcome": outcome})

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        hidden = set(self.hidden)
        kept: list[Message] = []
        for message in messages:
            if message.role == "assistant" and message.tool_calls:
                tools = self.settings.tools
                hidden |= {c.id for c in message.tool_calls if c.function.name in tools}
                calls = [call for call in message.tool_calls if call.id not in hidden]
                kept.append(message.model_copy(update={"tool_calls": calls or None}))
            elif message.role != "tool" or message.tool_call_id not in hidden:
                kept.append(message)
        return kept


class Sources(Middleware):
    """Name the sources in a message of their own, at the end."""

    def setup(self, ctx: RunContext) -> None:
        self.calls: list[str] = []

    @on(ToolCallStartEvent)
    def start(self, ctx: RunContext, event: ToolCallStartEvent) -> Result:
        self.calls.append(event.tool_call_name)
        return event

    @on(RunFinishedEvent)
    def finished(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        if not self.calls:
            return event
        said = "Sources: " + ", ".join(self.calls)
        ident = f"sources-{ctx.layer}-{ctx.run_id}"
        return [
            TextMessageStartEvent(message_id=ident, role="assistant"),
            TextMessageContentEvent(message_id=ident, delta=said),
            TextMessageEndEvent(message_id=ident),
            event,
        ]


class Prefix(Middleware):
    """Begin each message with a sign."""

    @on(TextMessageStartEvent)
    def start(self, ctx: RunContext, event: TextMessageStartEvent) -> Result:
        sign = TextMessageContentEvent(
            message_id=event.message_id, delta="» ", subagent_run_id=event.subagent_run_id
        )
        return [event, sign]


class HoldAndJudge(Middleware[Words]):
    """Show a message once it has been judged, and refuse the run if it is bad."""

    longest = 4_000

    def setup(self, ctx: RunContext) -> None:
        self.held: dict[str, list[BaseEvent]] = {}

    @on(TextMessageStartEvent, TextMessageContentEvent)
    def more(
        self, ctx: RunContext, event: TextMessageStartEvent | TextMessageContentEvent
    ) -> Result:
        held = self.held.setdefault(event.message_id, [])
        held.append(event)
        said = "".join(getattr(each, "delta", "") for each in held)
        if len(said) > self.longest:
            raise Reject("too-long", "The answer is too long to be judged.")
        if any(word in said.lower() for word in self.settings.words):
            raise Reject("bad-words", "The answer was not fit to be shown.")
        return DROP

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        return [*self.held.pop(event.message_id, []), event]


class MaskInBothForms(Middleware):
    """Mask digits before chunks are expanded, in pieces of both forms, and in snapshots."""

    form = "raw"
    rewrites_history = True

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        if isinstance(event, MessagesSnapshotEvent):
            return _rewritten(event, self.mask)
        if isinstance(event, TextMessageContentEvent | TextMessageChunkEvent) and event.delta:
            return event.model_copy(update={"delta": self.mask(event.delta)})
        return event

    def mask(self, text: str) -> str:
        return re.sub(r"\d", "•", text)


class Echo(Middleware):
    """Repeat the input in RUN_STARTED, for clients that want it there."""

    @on(RunStartedEvent)
    def started(self, ctx: RunContext, event: RunStartedEvent) -> Result:
        if event.input is not None:
            return event
        return event.model_copy(update={"input": ctx.input})


def _rewritten(event: MessagesSnapshotEvent, change: Any) -> MessagesSnapshotEvent:
    messages = [
        message.model_copy(update={"content": change(message.content)})
        if message.role == "assistant" and isinstance(message.content, str)
        else message
        for message in event.messages
    ]
    return event.model_copy(update={"messages": messages})


BUGS = (
    Bug(
        cls=MaskKeepingTail,
        check="text-split",
        mistake="It keeps one character less than a word may need.",
        reported="langchain#35011 (streaming goes around guardrails)",
    ),
    Bug(
        cls=SourcesAtTheEnd,
        check="valid-stream",
        mistake="It adds to a message that has ended.",
        reported="agno#5466 (content after the end of a message)",
    ),
    Bug(
        cls=ShowQueries,
        check="odd-streams",
        mistake="Arguments may be JSON and no object.",
        reported="CopilotKit#3552 (one value that was not expected kills the stream)",
    ),
    Bug(
        cls=MaskChunks,
        check="chunk-form",
        mistake="Its hook waits for chunks, and gets whole events.",
        reported="openai-agents#1612 (documented hooks that never fire)",
    ),
    Bug(
        cls=MaskChunksByClass,
        check="chunk-form",
        mistake="Inside on_event it waits for chunks, and gets whole events.",
        reported="adk-python#4464 (a callback that is never called)",
    ),
    Bug(
        cls=MaskInOneMessage,
        check="chunk-form",
        mistake="Only the first chunk of a message has to name it.",
        reported="ag-ui#161 (mixed forms of one message)",
    ),
    Bug(
        cls=OnlyWhatIsKnown,
        check="passes-others",
        mistake="Its list of kinds is not complete, and never will be.",
        reported="the chunk expansion of @ag-ui/client 0.0.5x (unknown events are dropped)",
    ),
    Bug(
        cls=TrimMessages,
        check="passes-others",
        mistake="The END that it makes lacks the metadata of the one that came.",
        reported="ag-ui#2463 (events that are repaired lose what they carried)",
    ),
    Bug(
        cls=SystemPrompt,
        check="passes-others",
        mistake="It makes the input anew, without the properties that the application sent.",
        reported="ag-ui#1862 (what was forwarded does not arrive)",
    ),
    Bug(
        cls=AddLength,
        check="passes-others",
        mistake="It makes RUN_FINISHED anew, without the outcome: questions are lost.",
        reported="ag-ui#2327 (outcomes that cannot be told apart)",
    ),
    Bug(
        cls=NoteInState,
        check="no-mutation",
        mistake="The snapshot is the agent's own state.",
        reported="pydantic-ai#2339 (state that is shared is changed)",
    ),
    Bug(
        cls=DateInContext,
        check="no-mutation",
        mistake="The list of messages is the caller's, who asks again with it.",
        reported="the compatibility boundary of @ag-ui/client 1.0 (rewrites the caller's input)",
    ),
    Bug(
        cls=OneEventForAll,
        check="no-mutation",
        mistake="It changes an event that has left, and may still be on its way.",
        reported="the event throttle of AG-UI (had to take care that originals stay)",
    ),
    Bug(
        cls=AvoidWords,
        check="no-mutation",
        mistake="It sorts its settings, which all runs share.",
        reported="ag-ui#1277 (concurrent requests corrupt one object)",
    ),
    Bug(
        cls=StopAtWords,
        check="no-retraction",
        mistake="Most of the word has been shown when the run is refused.",
        reported="openai-agents#300, #495 (a guardrail trips after tokens were shown)",
    ),
    Bug(
        cls=CorrectSpelling,
        settings={"words": ["teh"]},
        check="no-retraction",
        mistake="The same id does not replace, it adds.",
        reported="ag-ui#768 (a replacement is shown beside the original)",
    ),
    Bug(
        cls=CorrectBeside,
        settings={"words": ["teh"]},
        check="no-retraction",
        mistake="The wrong message stays.",
        reported="ag-ui#768 (a replacement is shown beside the original)",
    ),
    Bug(
        cls=DenyArguments,
        settings={"words": ["ada@example.com"]},
        check="no-retraction",
        mistake="The call has begun, and ends without arguments.",
        reported="ag-ui#2463 (START and END without ARGS)",
    ),
    Bug(
        cls=MaskWhatIsStored,
        check="no-retraction",
        mistake="It is shown in clear first.",
        reported="langchain's PIIMiddleware, streamed (only the final state is masked)",
    ),
    Bug(
        cls=HideCalls,
        check="stays-hidden",
        mistake="The snapshot of the messages shows the calls again.",
        reported="CopilotKit#5120 (a list of tools that a snapshot goes around)",
    ),
    Bug(
        cls=MaskDigits,
        check="stays-hidden",
        mistake="The snapshot of the messages brings the digits back.",
        reported="agentscope-java#2676 (the stream is rewritten, the memory is not)",
    ),
    Bug(
        cls=Sentences,
        check="subagents",
        mistake="One rest for all messages of the run.",
        reported="agentscope#2331 (one middleware mixes up what overlaps)",
    ),
    Bug(
        cls=ThinkAloud,
        check="subagents",
        mistake="The results that it makes anew belong to nobody.",
        reported="adk-python#2809 (middleware and subagents)",
    ),
    Bug(
        cls=FirstWordInBold,
        check="subagents",
        mistake="A message and a thought may have the same id.",
        reported="ag-ui#1350 (one id in two namespaces corrupts content)",
    ),
    Bug(
        cls=WholeMessages,
        check="bounded-memory",
        mistake="A message may be as long as it likes.",
        reported="agent-framework#4237 (buffering where a stream was promised)",
    ),
    Bug(
        cls=CountWords,
        check="bounded-memory",
        mistake="It keeps all text to count it.",
        reported="fastmcp#1012 (memory grows under load)",
    ),
    Bug(
        cls=SeenBefore,
        check="bounded-memory",
        mistake="It keeps the text of every message of every run.",
        reported="langchain#35948 (caches of their own, for each session)",
    ),
)

TWINS = (
    Twin(cls=MaskProfanity, does="masks words"),
    Twin(cls=Trim, does="rewrites the end of messages, with a bound"),
    Twin(cls=Shout, does="rewrites whole messages, with a bound"),
    Twin(cls=Stamp, does="stamps metadata"),
    Twin(cls=HideCallsEverywhere, does="hides calls"),
    Twin(cls=Sources, does="adds a message at the end"),
    Twin(cls=Prefix, does="adds to the beginning of messages"),
    Twin(cls=HoldAndJudge, does="holds messages until they are judged"),
    Twin(cls=MaskInBothForms, does="masks digits in chunks, too"),
    Twin(cls=Echo, does="completes an event"),
)
