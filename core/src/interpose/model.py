"""Models: what the built-in loop calls, what a plugin that brings one is written with."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from ag_ui.core import BaseEvent, EventType, Message, TokenUsage

from interpose.authoring import S
from interpose.capability import Capability, Scope
from interpose.payloads import ModelRequest
from interpose.services import Clock, RunServices

if TYPE_CHECKING:
    from loguru import Logger

    from interpose.context import LifespanContext

T = TypeVar("T")

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error"]
"""Why a model stopped, in the words most providers use."""


class Ability(enum.StrEnum):
    """What a model can do beyond a plain call."""

    OUTPUT_WITH_TOOLS = "output-with-tools"
    """It takes an output schema and tools in one request, so that no separate call is needed."""


class ModelFinished(BaseEvent):
    """The last event of a model call: why it ended and what it cost. It never leaves the loop.

    A model, or a layer that answers in its place, may leave it out: then the call ended with
    ``tool_calls`` if there were some, else ``stop``, and cost nothing.
    """

    type: Literal[EventType.CUSTOM] = EventType.CUSTOM
    finish_reason: FinishReason | None = None
    usage: tuple[TokenUsage, ...] = ()


class ModelContext:
    """What a model sees of the run that calls it."""

    __slots__ = ("_run", "message_id", "model")

    def __init__(self, run: RunServices, model: str, message_id: str) -> None:
        self._run = run
        self.model: str = model
        """The id of the model, its key in ``[models]``."""
        self.message_id: str = message_id
        """The id for the message that this call gives; text and tool calls belong to it."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def run_key(self) -> object:
        """Stands for the run, as a weak key of what a model keeps for one; it tells nothing."""
        return self._run

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self._run.thread_id

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        return self._run.cancelled

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._run.clock

    @property
    def log(self) -> Logger:
        """A loguru logger bound to run and model."""
        return self._run.log(self.model)

    def sleep(self, seconds: float, /) -> Awaitable[None]:
        """Wait, on the host's clock."""
        return self._run.clock.sleep(seconds)

    def __getitem__(self, capability: Capability[T], /) -> T:
        """Return the capability's value; :class:`CapabilityError` when nobody provided it."""
        return self._run.read(self.model, capability)

    def get(self, capability: Capability[T], /) -> T | None:
        """Return the capability's value, or None when it is absent."""
        return self._run.find(self.model, capability)


@runtime_checkable
class Model(Protocol):
    """Anything that answers a :class:`ModelRequest` with AG-UI events.

    It yields text, reasoning and tool calls, whole (``START``, ``CONTENT``, ``END``) or as chunks,
    and a :class:`ModelFinished` last. It raises what :mod:`interpose.loop_errors` names.

    Optional attributes: ``abilities`` (a set of :class:`Ability`), ``provider`` and ``name``, which
    hooks see as ``ctx.provider`` and which usage is reported under.
    """

    def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play one call; closing the stream cancels it."""


class ModelFactory(Generic[S]):
    """Makes models from settings: ``[models.<id>] use = "..."``; the built-in loop uses them.

    ``scope``: ``"host"`` makes one model per host, ``"run"`` one per run. A model of host scope
    that has ``aclose()`` is closed with the host.
    """

    scope: ClassVar[Scope] = "host"
    requires: ClassVar[tuple[Capability[Any], ...]] = ()
    optional_requires: ClassVar[tuple[Capability[Any], ...]] = ()
    provides: ClassVar[tuple[Capability[Any], ...]] = ()

    def __call__(self, settings: S, ctx: LifespanContext, /) -> Model:
        """Return a model."""
        raise NotImplementedError(f"{type(self).__qualname__} makes no model")


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a whole model call came to. ``messages``: the assistant's, reasoning included."""

    text: str
    messages: tuple[Message, ...]
    finish_reason: FinishReason | None
    usage: tuple[TokenUsage, ...]


class ModelHandle(Protocol):
    """A model of the file, for a layer's own use: what ``ctx.model(id)`` returns."""

    async def complete(
        self, asked: ModelRequest | Sequence[Message] | str, /, *, purpose: str = "middleware"
    ) -> ModelAnswer:
        """Call the model, and return its whole answer.

        Nothing of it reaches the consumer or the layers; its usage counts under ``purpose``.
        """


EMPTY_ABILITIES: Final[frozenset[Ability]] = frozenset()


def abilities_of(model: object) -> frozenset[Ability]:
    """Return what a model says that it can do."""
    return frozenset(getattr(model, "abilities", EMPTY_ABILITIES))
