"""A run whose layers lie directly around the agent: one generator from the agent to the consumer.

Where no layer wraps the run, its two edges and the hooks between them need no generators of their
own, and a delta that goes on with what the last one was of needs next to nothing: at the agent's
edge it is whole, and at the outer edge it is in order, because the one before it was. All others
are looked at in full. It does what nested streams do, event for event.
"""

from __future__ import annotations

from asyncio import current_task
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import BaseEvent

from interpose.events import DROP
from interpose.runtime.closing import close
from interpose.runtime.edge import TERMINAL_CLASSES, Edge, truncated
from interpose.runtime.going_on import DELTAS, NOTHING, GoingOn
from interpose.runtime.halves import is_whole
from interpose.runtime.lane import DETOUR, Lane

if TYPE_CHECKING:
    from interpose.runtime.playing import Play

Hooks: TypeAlias = Callable[[Any, BaseEvent], Any]
"""Compiled hooks, called with the lane and the event."""


async def play_directly(play: Play) -> AsyncGenerator[BaseEvent, None]:  # noqa: C901, PLR0912, PLR0915 - each call more costs what a layer costs
    """Play a run; whatever ends it, its layers hear of it once."""
    async with play:
        for out in await play.begin():
            play.take(out)
            yield out
        if play.end is None:
            way = play.source = Way(play)
            record, edge, lane = play.record, way.edge, way.lane
            unusual, interruption = record.unusual, edge.interruption
            push, take = play.outlet.push, play.take
            kind, is_call, id_, add = NOTHING
            hooks, waits = None, False
            counted = bool(record.frames)  # somebody may ask for ctx.event_index
            index = 0
            away = False  # the consumer has the event: what it throws is not the agent's
            answer: Any
            try:
                async for event in edge.open(record.input):
                    interruption.awaiting = None
                    if (
                        event.__class__ is kind
                        and (event.tool_call_id if is_call else event.message_id) == id_
                        and event.subagent_run_id is None
                        and event.metadata is None
                        and not event.__pydantic_extra__
                        and (event.delta.isascii() or is_whole(event.delta))
                        and not unusual
                    ):
                        record.current = event
                        if counted:
                            record.event_index = index
                        if hooks is None:
                            index += 1
                            add(event.delta)
                            away = True
                            yield event
                            away = False
                        else:
                            try:
                                answer = hooks(lane, event)
                                if waits:
                                    answer = await answer
                            except BaseException as error:  # noqa: BLE001 - see failed
                                answer = await way.failed(error)
                            if not unusual and (
                                answer is event
                                or (
                                    answer.__class__ is kind
                                    and (answer.tool_call_id if is_call else answer.message_id)
                                    == id_
                                    and answer.subagent_run_id is None
                                    and answer.metadata is None
                                )
                            ):
                                index += 1
                                add(answer.delta)
                                away = True
                                yield answer
                                away = False
                            else:
                                way.count(index)
                                index = edge.admitted = index + 1
                                async for out in way.leaving(answer):
                                    away = True
                                    yield out
                                    away = False
                                if way.is_over:
                                    break
                                kind, is_call, id_, add = way.going_on(event)
                    else:
                        if index != edge.admitted:
                            way.count(index)
                        if edge.awaits_start:
                            await edge.start()
                        for part in edge.admit(event):
                            answer = part
                            if lane is not None:
                                try:
                                    answer, waits = lane.answer(part)
                                    if waits:
                                        answer = await answer
                                except BaseException as error:  # noqa: BLE001 - see failed
                                    answer = await way.failed(error)
                            if answer is DETOUR:
                                async for out in way.leaving(answer):
                                    away = True
                                    yield out
                                    away = False
                            elif answer is not DROP:
                                for out in play.push(answer) if unusual else push(answer):
                                    take(out)
                                    away = True
                                    yield out
                                    away = False
                            if way.is_cut:
                                break
                        index = edge.admitted
                        if way.is_over:
                            break
                        if event.__class__ in DELTAS:
                            kind, is_call, id_, add = way.going_on(event)
                            hooks, waits = way.hooks(kind)
                        else:
                            kind = None
                    if unusual:
                        edge.check()
                    interruption.awaiting = current_task()
                else:
                    edge.check()
                    raise truncated()
            except BaseException as error:
                # The agent's failure; anything else, as what the consumer threw, passes.
                record.event_index = max(index, edge.admitted)
                if away or not edge.boundary.takes(error):
                    raise
            record.event_index = edge.admitted = max(index, edge.admitted)
            await way.aclose()
            for ended in await edge.ending():
                async for out in await way.through(ended):
                    yield out
            for out in play.truncated():
                take(out)
                yield out


class Way:
    """The parts that an event goes through, and their closing."""

    def __init__(self, play: Play) -> None:
        record = play.record
        segment = record.program.direct_segment
        self.edge = Edge(record, expand=True)
        self.lane = None if segment is None else Lane(segment, record, record.unusual)
        self._play = play
        self._open: AsyncGenerator[BaseEvent, None] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the run has its terminal, or a layer has ended it."""
        lane = self.lane
        return self._play.outlet.terminal is not None or (lane is not None and lane.ended)

    @property
    def is_over(self) -> bool:
        """Whether the agent has ended the run, or anybody else has."""
        return self.edge.is_over or self.is_cut

    def count(self, index: int) -> None:
        """Take note that all events before the one of this number have passed both edges."""
        self._play.outlet.count(index - self.edge.admitted)
        self.edge.admitted = index

    def going_on(self, event: BaseEvent) -> GoingOn:
        """Return the message or call that may go on after an event, at both edges."""
        return self._play.going_on(event) if self.edge.is_calm else NOTHING

    def hooks(self, kind: type[BaseEvent] | None) -> tuple[Hooks | None, bool]:
        """Return the hooks for events of a class, and whether their answer is to be awaited."""
        work = None if self.lane is None or kind is None else self.lane.work(kind)
        return (None, False) if work is None else work

    async def through(self, event: BaseEvent) -> AsyncGenerator[BaseEvent, None]:
        """Return what leaves the run for an event that has been admitted."""
        answer: Any = event
        if self.lane is not None:
            try:
                answer, waits = self.lane.answer(event)
                if waits:
                    answer = await answer
            except BaseException as error:  # noqa: BLE001 - raised again unless it is a failure
                answer = await self.failed(error)
        return self.leaving(answer)

    def leaving(self, answer: Any) -> AsyncGenerator[BaseEvent, None]:
        """Return what leaves the run for an answer of the layers."""
        self._open = self._leaving(answer)
        return self._open

    async def _leaving(self, answer: Any) -> AsyncGenerator[BaseEvent, None]:
        lane, outlet = self.lane, self._play.outlet
        goes_on = False  # the layers gave the terminal themselves, and may go on to their end
        while lane is not None and answer is DETOUR:
            answer = DROP
            try:
                async for inner in lane.taken():
                    for out in self._play.push(inner):
                        self._play.take(out)
                        yield out
                    goes_on = goes_on or inner.__class__ in TERMINAL_CLASSES
                    if outlet.terminal is not None and not goes_on:
                        return
            except BaseException as error:  # noqa: BLE001 - raised again unless it is a failure
                answer = await self.failed(error)
        if answer is not DROP:
            for out in self._play.push(answer):
                self._play.take(out)
                yield out

    async def failed(self, error: BaseException) -> Any:
        """Let the ending that a layer's error stands for leave, when the agent is closed."""
        if self.lane is None:
            raise error
        answer = self.lane.failed(error)
        await self.edge.close()
        return answer

    async def aclose(self) -> None:
        """Close what is open."""
        try:
            await close(self._play.record, self._open, "a run")
        finally:
            try:
                if self.lane is not None:
                    await self.lane.close()
            finally:
                await self.edge.close()
