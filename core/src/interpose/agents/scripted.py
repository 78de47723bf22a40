"""The built-in scripted agent: plays a script, a recording, or a run of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic import Field, model_validator

from interpose.agents.rebind import rebind
from interpose.agents.script import built_in_script
from interpose.agui import Compatibility, Stripper, read_capture, typed
from interpose.authoring import Agent, AgentFactory, Settings
from interpose.context import AgentContext, LifespanContext
from interpose.errors import InvalidStream, ReplayError


class ScriptedSettings(Settings):
    """What ``use = "scripted"`` plays; with neither ``file`` nor ``events``, a built-in script."""

    file: str | None = Field(
        default=None,
        description="A recording: JSON lines, an SSE capture, or a JSON array of AG-UI events.",
    )
    events: tuple[dict[str, Any], ...] | None = Field(
        default=None, description="A script: AG-UI events in their wire form."
    )
    delay: Annotated[float, Field(ge=0, le=60)] = Field(
        default=0.0, description="Seconds to wait before each event."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.file is not None and self.events is not None:
            raise ValueError("file and events are both given; keep one of them")
        return self


class ScriptedAgent:
    """Plays recorded events, bound to the ids of the run; None: the built-in script."""

    def __init__(self, events: Sequence[BaseEvent] | None, delay: float = 0.0) -> None:
        self._events = events
        self._delay = delay

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the events, one every ``delay`` seconds."""
        if self._events is None:
            events = tuple(built_in_script(run_input.thread_id, run_input.run_id))
        else:
            events, warnings = rebind(self._events, run_input.thread_id, run_input.run_id)
            for warning in warnings:
                ctx.log.warning("{}", warning)
        for event in events:
            if self._delay:
                await ctx.sleep(self._delay)
            yield event


class Scripted(AgentFactory[ScriptedSettings]):
    """``use = "scripted"``: try a chain on a script or on recorded traffic, offline."""

    scope = "host"

    def __call__(self, settings: ScriptedSettings, ctx: LifespanContext, /) -> Agent:
        """Read the recording. Raises :class:`ReplayError` naming file and line."""
        events: Sequence[BaseEvent] | None = None
        warnings: Sequence[str] = ()
        if settings.file is not None:
            events, warnings = read_recording(ctx.folder / settings.file, settings.file)
        elif settings.events is not None:
            events, warnings = _script(settings.events)
        for warning in warnings:
            ctx.log.warning("{}", warning)
        return ScriptedAgent(events, settings.delay)


def read_recording(path: Path, name: str) -> tuple[Sequence[BaseEvent], Sequence[str]]:
    """Return the events of a recording, and what of it was unknown. ``name`` is for messages."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReplayError(
            f"the recording cannot be read: {error.strerror}",
            where=name,
            hint="give the path of a file with AG-UI events, relative to the config file",
        ) from None
    except UnicodeDecodeError:
        raise ReplayError("the recording is not UTF-8 text", where=name) from None
    events, warnings = typed(read_capture(text, name), name)
    return events, warnings


def _script(raws: Sequence[dict[str, Any]]) -> tuple[Sequence[BaseEvent], Sequence[str]]:
    stripper = Stripper(Compatibility())
    events: list[BaseEvent] = []
    for number, raw in enumerate(raws):
        try:
            event = stripper.admit(raw)
        except InvalidStream as error:
            raise ReplayError(error.message, where=f"events[{number}]") from None
        if event is not None:
            events.append(event)
    return events, stripper.warnings
