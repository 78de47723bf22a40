"""Middlewares that say something else than they do: settings, capabilities, points, promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic import Field, SecretStr, field_validator
from zoo import Bug, Twin

from interpose import (
    PRINCIPAL,
    CallRun,
    Capability,
    Declaration,
    Deny,
    EndInfo,
    LifespanContext,
    Middleware,
    ModelFinished,
    Point,
    Result,
    RunContext,
    Settings,
    Stage,
    ToolCall,
    on,
)


# Settings ------------------------------------------------------------------------------------
class QuotaWindow(Settings):
    seconds: float = 60.0
    """Length of the window, in seconds."""
    burst: int = 5


class QuotaSettings(Settings):
    window: QuotaWindow = QuotaWindow()
    """How the quota is counted."""


class Quota(Middleware[QuotaSettings]):
    """One field of the nested table says nothing about itself."""

    def on_start(self, ctx: RunContext, /) -> None:
        ctx.metadata["burst"] = self.settings.window.burst


class LabelSettings(Settings):
    labels: frozenset[str] = {"beta", "internal"}  # type: ignore[assignment]
    """Labels that every run gets."""


class Label(Middleware[LabelSettings]):
    def on_start(self, ctx: RunContext, /) -> None:
        ctx.metadata["labels"] = sorted(self.settings.labels)


class UpstreamSettings(Settings):
    base_url: str
    """Where the upstream is."""

    @field_validator("base_url")
    @classmethod
    def _versioned(cls, url: str) -> str:
        return f"{url.rstrip('/')}/v1"


class Upstream(Middleware[UpstreamSettings]):
    def on_start(self, ctx: RunContext, /) -> None:
        ctx.metadata["upstream"] = self.settings.base_url


class CapSettings(Settings):
    limit: int | str = 100
    """Characters that a message may have, or a name of a tier."""


class Cap(Middleware[CapSettings]):
    def on_start(self, ctx: RunContext, /) -> None:
        ctx.metadata["limit"] = str(self.settings.limit)


class TwoSpellingsSettings(Settings):
    max_items: int = 5
    """Items in a list."""
    older: int = Field(default=5, alias="max-items", description="The same, as it was called.")


class TwoSpellings(Middleware[TwoSpellingsSettings]):
    def on_start(self, ctx: RunContext, /) -> None:
        ctx.metadata["items"] = max(self.settings.max_items, self.settings.older)


class WebhookSettings(Settings):
    url: str = "https://hooks.example.com"
    """Who is told."""
    authorization: str | None = None
    """The header that it is told with."""


class Webhook(Middleware[WebhookSettings]):
    stage = Stage.OBSERVE


class TelemetrySettings(Settings):
    api_key: SecretStr
    """The key of the account."""


@dataclass(frozen=True)
class TelemetryClient:
    key: str
    endpoint: str = "https://telemetry.example.com"


class Telemetry(Middleware[TelemetrySettings, TelemetryClient]):
    """The client's own repr shows the key; so does every traceback that shows locals."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: TelemetrySettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[TelemetryClient]:
        yield TelemetryClient(settings.api_key.get_secret_value())


class Signed(Middleware[TelemetrySettings]):
    """When the agent fails, the operator is told all that may help, and a little more."""

    def on_error(self, ctx: RunContext, info: Any, /) -> None:
        ctx.log.warning("failed, key {}", self.settings.api_key.get_secret_value())


# Capabilities --------------------------------------------------------------------------------
class Notes(Protocol):
    """What notes are kept in."""

    async def put(self, key: str, text: str) -> None: ...


NOTES: Final = Capability[Notes]("zoo-notes/notes", version=1)


class Board:
    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    async def put(self, key: str, text: str) -> None:
        self.said[key] = text


class OwnerStamp(Middleware):
    """Asks for the principal only when the run is over, and says so to nobody."""

    stage = Stage.OBSERVE

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        user = ctx.get(PRINCIPAL)
        ctx.log.debug("{} is done", user.subject if user else "nobody")


class ToolNotes(Middleware):
    """Optional, it says; and reads it as if it were always there, for results of tools."""

    stage = Stage.OBSERVE
    optional_requires = (NOTES,)

    @on(ToolCallResultEvent)
    async def result(self, ctx: RunContext, event: ToolCallResultEvent) -> Result:
        await ctx[NOTES].put(event.tool_call_id, str(event.content))
        return event


class MemoryNotesSettings(Settings):
    keep: int = 100
    """Notes that are kept."""


class SyncBoard:
    """As `Notes`, and an ordinary function: `await` has nothing to wait for."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.said: dict[str, str] = {}

    def put(self, key: str, text: str) -> None:
        self.said[key] = text


class MemoryNotes(Middleware[MemoryNotesSettings]):
    provides = (NOTES,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: MemoryNotesSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        board: Any = SyncBoard(settings.keep)
        ctx.provide(NOTES, board)
        yield


class Locale(Protocol):
    @property
    def language(self) -> str: ...


LOCALE: Final = Capability[Locale]("zoo-locale/locale", scope="run", single=False)


@dataclass(frozen=True)
class Spoken:
    language: str


class InputLocale(Middleware):
    """Provides the language, if the client happens to say it."""

    stage = Stage.EDGE
    provides = (LOCALE,)

    def setup(self, ctx: RunContext, /) -> None:
        props = ctx.input.forwarded_props
        if isinstance(props, dict) and "language" in props:
            ctx.provide(LOCALE, Spoken(str(props["language"])))


# Declarations --------------------------------------------------------------------------------
class ModeSettings(Settings):
    mode: Literal["observe", "mask", "block"] = "mask"
    """What happens to what is found."""


_STAGES: Final = {"observe": Stage.OBSERVE, "mask": Stage.CONTENT}


class Moderate(Middleware[ModeSettings]):
    """The third mode came later, and one table was forgotten."""

    @classmethod
    def declare(cls, settings: ModeSettings, /) -> Declaration:
        return Declaration(stage=_STAGES[settings.mode])


class SpendGuardSettings(Settings):
    most: int = 10
    """Calls of tools in one run."""


class SpendGuard(Middleware[SpendGuardSettings]):
    """Around an agent that does not offer TOOLS it allows everything."""

    stage = Stage.CALL

    def setup(self, ctx: RunContext, /) -> None:
        self.calls: Counter[str] = Counter()

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> Deny | None:
        self.calls[call.name] += 1
        if self.calls.total() > self.settings.most:
            return Deny("The budget of this run is used up.")
        return None


class Throttled(Middleware):
    """Handles events, as any agent sends them; and refuses to stand around one without a loop."""

    essential = (Point.EVENTS, Point.STEP)

    @on(TextMessageContentEvent)
    async def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        await ctx.sleep(0.01)
        return event


class Summary(Middleware):
    """Reads the conversation, which nobody keeps for it."""

    stage = Stage.OBSERVE

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        ctx.log.debug("{} messages", len(ctx.messages))


class Stopwatch(Middleware):
    """Had a copy of the conversation kept, once, for a line that is gone now."""

    stage = Stage.OBSERVE
    tracks_state = True

    def setup(self, ctx: RunContext, /) -> None:
        self.began = ctx.clock.monotonic()

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        ctx.log.debug("took {} s", ctx.clock.monotonic() - self.began)


class Watcher(Middleware):
    """Observes, and helps a little: an empty message is no pleasure to read."""

    stage = Stage.OBSERVE
    observes_only = True

    def setup(self, ctx: RunContext, /) -> None:
        self.seen = 0

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        self.seen += 1
        return event.model_copy(update={"delta": event.delta.rstrip("\n")})


class TokenCounter(Middleware):
    """Counts what model calls cost, by the event with which a model ends one."""

    stage = Stage.OBSERVE

    def setup(self, ctx: RunContext, /) -> None:
        self.tokens = 0

    @on(ModelFinished)
    def counted(self, ctx: RunContext, event: ModelFinished) -> Result:
        self.tokens += sum(usage.total_tokens or 0 for usage in event.usage)
        return event

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        ctx.log.debug("{} tokens", self.tokens)


# Two of one kind -----------------------------------------------------------------------------
class FooterSettings(Settings):
    text: str = "Answers may be wrong."
    """What stands below each answer."""


class Footer(Middleware[FooterSettings]):
    """Its message has one id, and the two of the legal and the sales department clash."""

    @on(RunFinishedEvent)
    def end(self, ctx: RunContext, event: RunFinishedEvent) -> Sequence[BaseEvent]:
        return [
            TextMessageStartEvent(message_id="footer", role="assistant"),
            TextMessageContentEvent(message_id="footer", delta=self.settings.text),
            TextMessageEndEvent(message_id="footer"),
            event,
        ]


class Timing(Middleware):
    """Keeps its start under one name among the attributes that all layers of the run share."""

    stage = Stage.OBSERVE

    def setup(self, ctx: RunContext, /) -> None:
        ctx.attributes["timing.began"] = ctx.clock.monotonic()

    def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        began = ctx.attributes.pop("timing.began")
        ctx.log.debug("took {} s", ctx.clock.monotonic() - began)


_GAUGES: set[str] = set()


class Gauge(Middleware[Any, str]):
    """Registers its metric in the process, as metric libraries do, under one name."""

    stage = Stage.OBSERVE

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: Any, ctx: LifespanContext, /) -> AsyncGenerator[str]:
        if "runs_total" in _GAUGES:
            raise ValueError("Duplicated timeseries in CollectorRegistry: runs_total")
        _GAUGES.add("runs_total")
        try:
            yield "runs_total"
        finally:
            _GAUGES.discard("runs_total")


# Correct twins -------------------------------------------------------------------------------
class GoodWindow(Settings):
    seconds: float = 60
    """Length of the window, in seconds."""
    burst: int = Field(default=5, description="Runs at once.")


class GoodSettings(Settings):
    window: GoodWindow = GoodWindow()
    """How runs are counted."""
    labels: frozenset[str] = frozenset({"beta"})
    """Labels that every run gets."""
    token: SecretStr | None = None
    """Who is told, if anybody."""
    max_tokens: int | None = None
    """Tokens of an answer."""
    mode: Literal["observe", "count"] = "count"
    """Whether runs are counted."""


class Report:
    """Holds a key, and does not show it."""

    def __init__(self, token: SecretStr | None) -> None:
        self._token = token
        self.runs = 0


class Reporting(Middleware[GoodSettings, Report]):
    """Counts runs for a service, whose key is nobody's business; notes, if there are any."""

    optional_requires = (NOTES,)

    @classmethod
    def declare(cls, settings: GoodSettings, /) -> Declaration:
        """An observer stands further out."""
        stage = Stage.OBSERVE if settings.mode == "observe" else Stage.SHAPE
        return Declaration(stage=stage, optional_requires=cls.optional_requires)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: GoodSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[Report]:
        yield Report(settings.token)

    async def on_end(self, ctx: RunContext, end: EndInfo, /) -> None:
        self.shared.runs += 1
        notes = ctx.get(NOTES)
        if notes is not None:
            await notes.put(ctx.run_id, end.kind)


class GoodNotes(Middleware[MemoryNotesSettings]):
    """Provides notes in memory."""

    provides = (NOTES,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: MemoryNotesSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        ctx.provide(NOTES, Board())
        yield


class GoodGuard(Middleware[SpendGuardSettings]):
    """Denies tools after so many calls, where it can, and says where it cannot."""

    stage = Stage.CALL
    essential = (Point.TOOLS,)

    def setup(self, ctx: RunContext, /) -> None:
        self.calls = 0

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> Deny | None:
        self.calls += 1
        over = self.calls > self.settings.most
        return Deny("The budget of this run is used up.") if over else None


class GoodSummary(Middleware):
    """Tells how long the conversation is, at the end and whenever a tool is called."""

    stage = Stage.OBSERVE
    observes_only = True
    tracks_state = True

    @on(ToolCallStartEvent)
    def call(self, ctx: RunContext, event: ToolCallStartEvent) -> Result:
        ctx.log.debug("{} messages so far", len(ctx.messages))
        return event

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event


class GoodFooter(Middleware[FooterSettings]):
    """Puts a message below the answer, with an id that belongs to layer and run."""

    @on(RunFinishedEvent)
    def end(self, ctx: RunContext, event: RunFinishedEvent) -> Sequence[BaseEvent]:
        ident = f"{ctx.run_id}-{ctx.layer}"
        return [
            TextMessageStartEvent(message_id=ident, role="assistant"),
            TextMessageContentEvent(message_id=ident, delta=self.settings.text),
            TextMessageEndEvent(message_id=ident),
            event,
        ]


KEY: Final = {"api_key": "sk-0123456789abcdef"}

BUGS = (
    Bug(
        cls=Quota,
        check="settings-documented",
        mistake="A key of a nested table has no description.",
        reported="adk-docs#1011, adk-python#2974 (nobody could tell how it is configured)",
    ),
    Bug(
        cls=Label,
        check="settings-defaults",
        mistake="The default is a set, which one run may change for all; a file gives a frozenset.",
        reported="pydantic-settings#345, #363 (defaults that are objects)",
    ),
    Bug(
        cls=Upstream,
        check="settings-defaults",
        settings={"base_url": "https://api.example.com"},
        mistake="Read twice, the address ends with /v1/v1.",
        reported="pydantic-settings#345, #425 (settings that are read again when one is set)",
    ),
    Bug(
        cls=Cap,
        check="settings-environment",
        mistake="A variable is text, so that the limit 100 is the name of a tier.",
        reported="pydantic-settings#732, #291, #80 (text of variables that is read as another type)",
    ),
    Bug(
        cls=TwoSpellings,
        check="settings-environment",
        mistake="Two keys have one variable.",
        reported="pydantic-settings#277, #288, #43 (names that differ in case or spelling alone)",
    ),
    Bug(
        cls=Webhook,
        check="settings-secrets",
        mistake="A header with credentials is a plain string.",
        reported="pydantic-settings#256, #937 (a secret stands in an error message)",
    ),
    Bug(
        cls=Telemetry,
        check="secrets-hidden",
        settings=KEY,
        mistake="A dataclass shows the key in its repr.",
        reported="pydantic-settings#256, #937 (a secret leaves by way of a repr)",
    ),
    Bug(
        cls=Signed,
        check="secrets-hidden",
        settings=KEY,
        mistake="The key is logged when a run fails.",
        reported="pydantic-settings PYDANTIC_SETTINGS_DEBUG (secrets in the log, to help)",
    ),
    Bug(
        cls=OwnerStamp,
        check="capabilities-declared",
        provide={},
        mistake="It reads a capability that it does not declare.",
        reported="girder#504, blockbench#2290 (loaded without what it depends on)",
    ),
    Bug(
        cls=ToolNotes,
        check="capabilities-optional",
        provide={NOTES: Board()},
        mistake="It cannot do without what it calls optional.",
        reported="BigBrotherBot#314 (plugins that fail when an optional one is not there)",
    ),
    Bug(
        cls=MemoryNotes,
        check="capabilities-provided",
        mistake="The method is a plain function where the Protocol has `async def`.",
        reported="langchain#33474 (built-ins that work sync or async, not both)",
    ),
    Bug(
        cls=InputLocale,
        check="capabilities-provided",
        mistake="It provides only when the client sends a value.",
        reported="fastmcp#3228, #3397 (a value that is set by one part, and not there for another)",
    ),
    Bug(
        cls=Moderate,
        check="declare-pure",
        mistake="declare knows two of three modes.",
        reported="napari#7135 (a setting makes the next start crash with a KeyError)",
    ),
    Bug(
        cls=SpendGuard,
        check="points-essential",
        mistake="A guard of tools that is inert around other agents, without a word.",
        reported="adk-python#2809, openai-agents#1889 (guards that are skipped for some agents)",
    ),
    Bug(
        cls=Throttled,
        check="points-essential",
        mistake="It calls a point essential that it has no hook for.",
        reported="ag-ui PR #1561, PR #2612 (what an adapter offers is not what a layer needs)",
    ),
    Bug(
        cls=Summary,
        check="promises-kept",
        mistake="It reads the conversation without having it tracked.",
        reported="langchain PR #33589 (forgotten state_schema)",
    ),
    Bug(
        cls=Stopwatch,
        check="promises-kept",
        mistake="The conversation is kept for a layer that never reads it.",
        reported="fastmcp#1012, langchain#35948 (memory that nobody needs)",
    ),
    Bug(
        cls=Watcher,
        check="promises-kept",
        mistake="An observer changes the text.",
        reported="adk-js#342 (an observer that transforms)",
    ),
    Bug(
        cls=TokenCounter,
        check="hooks-live",
        mistake="Its hook is for an event that never leaves the loop.",
        reported="openai-agents#1612, #1909, adk-python#4464 (hooks that never fire)",
    ),
    Bug(
        cls=Footer,
        check="second-instance",
        mistake="Two layers send a message with one id.",
        reported="langchain#39110, deepagents#709 (the same middleware twice)",
    ),
    Bug(
        cls=Timing,
        check="second-instance",
        mistake="Two layers keep a value under one name; the second finds it gone.",
        reported="deepagents#1485 (the same middleware twice)",
    ),
    Bug(
        cls=Gauge,
        check="second-instance",
        mistake="Two layers register one name in the process.",
        reported="langchain#39110 (the same middleware twice is a crash)",
    ),
)

TWINS = (
    Twin(
        cls=Reporting, settings={"token": "t0123456789"}, provide={NOTES: Board()}, does="Counts."
    ),
    Twin(cls=GoodNotes, does="Provides notes."),
    Twin(cls=GoodGuard, does="Denies tools after so many calls."),
    Twin(cls=GoodSummary, does="Tells how long the conversation is."),
    Twin(cls=GoodFooter, does="Puts a message below the answer."),
)
