"""Adjacent event hooks as one async generator, written once per plan.

One generator per layer costs each event a suspension per layer; here a branch per event class
calls just the hooks that take the class, and what nobody takes passes through. What the fast lines
cannot say (several events for one, a chunk that a layer returns, an emitted event) goes the plain
way through :class:`Lane`, which is what :mod:`interpose.runtime.pipeline` does, so both give the
same events and the same order of calls.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
)

from interpose.agui import KNOWN_EVENTS
from interpose.events import DROP
from interpose.runtime.assembly import Assembler
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close_all
from interpose.runtime.failure import MIDDLEWARE_FAILED
from interpose.runtime.handling import Events, expanded, handle, hook_stream, take
from interpose.runtime.layer import ActiveLayer, Frame, Handler
from interpose.runtime.record import RunRecord

_HOT: Final = (TextMessageContentEvent, ToolCallArgsEvent, ReasoningMessageContentEvent)
_PLAIN: Final = -1
"""The branch of classes that were not known when the segment was written."""


class Lane:
    """The plain way through a segment's layers, from any of them on, for one run.

    ``frames``: innermost first. ``unusual``: those that must look at something before the next
    event may take the fast lines. ``at``: the layer that is looking at an event now.
    """

    __slots__ = ("_lines", "_open", "at", "boundary", "frames", "record", "unusual")

    def __init__(
        self, record: RunRecord, frames: Sequence[Frame], lines: Mapping[int, int]
    ) -> None:
        self.record = record
        self.frames = frames
        self.boundary = Boundary(record, MIDDLEWARE_FAILED)
        self.unusual: set[Frame] = set()
        self.at = 0
        self._lines = lines
        self._open: Events | None = None
        for frame in frames:
            frame.unusual = self.unusual
            frame.review()

    def through(self, index: int, event: BaseEvent) -> Events:
        """Return the stream of what becomes of ``event`` from the layer at ``index`` on."""
        self._open = self._through(index, event)
        return self._open

    def after(self, index: int, event: BaseEvent, handler: Handler, answer: Any) -> Events:
        """Return the stream of what becomes of an unusual answer of the layer at ``index``."""
        self.at = index
        self._open = self._each(index, take(self.frames[index], handler, event, answer))
        return self._open

    async def _through(self, index: int, event: BaseEvent) -> Events:
        if index == len(self.frames):
            yield event
            return
        frame = self.frames[index]
        frame.queue(event)
        while frame.inbox:
            self.at = index
            async for out in self._each(index, await handle(frame, frame.inbox.pop(0))):
                yield out

    async def _each(self, index: int, events: Sequence[BaseEvent]) -> Events:
        frame = self.frames[index]
        for event in expanded(frame, events):
            async for out in self._through(index + 1, event):
                yield out
            self.at = index
        frame.review()

    async def close(self, source: Events) -> None:
        """Close what is open: the plain way, if it was left in the middle, and the source."""
        await close_all(self.record, (self._open, "a segment"), (source, "the inner run"))

    def ending(self) -> Events:
        """Return what leaves the segment for the ending that the boundary has."""
        failed_at = self._lines.get(self.boundary.line, self.at)
        if self.boundary.line in self._lines and isinstance(self.boundary.error, Exception):
            self.frames[failed_at].blame("an event hook", self.boundary.error)
        stream = _each_of(self.boundary.events)
        for frame in self.frames[failed_at + 1 :]:
            stream = hook_stream(self.record, frame, stream)
        return stream


async def _each_of(events: Sequence[BaseEvent]) -> Events:
    for event in events:
        yield event


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Layers ``start`` to ``stop`` of a program (outermost first), compiled.

    ``source`` is the written code, ``lines`` the layer (innermost is 0) that a line belongs to.
    """

    start: int
    stop: int
    source: str
    lines: Mapping[int, int]
    play: Callable[[Events, Lane], Events]

    def stream(self, record: RunRecord, source: Events) -> Events:
        """Return the stream that leaves the segment when ``source`` enters it."""
        layers = record.program.layers[self.start : self.stop]
        frames = [record.frames[layer.id] for layer in reversed(layers)]
        return self.play(source, Lane(record, frames, self.lines))


def compile_segments(layers: Sequence[ActiveLayer], name: str) -> Mapping[int, Segment]:
    """Compile a program's segments, each under the index of its outermost layer.

    ``around_run`` splits: a layer's own event hooks are the outermost of what it wraps. So does
    the change from expanded to raw layers.
    """
    segments: dict[int, Segment] = {}
    start = 0
    while start < len(layers):
        stop = start + 1
        while stop < len(layers) and _continues(layers[stop - 1], layers[stop]):
            stop += 1
        hooked = [index for index in range(start, stop) if layers[index].has_events]
        if hooked:
            segments[start] = compile_segment(layers, start, stop, name)
        start = stop
    return segments


def _continues(outer: ActiveLayer, inner: ActiveLayer) -> bool:
    same_form = outer.declaration.form == inner.declaration.form
    return same_form and "around_run" not in inner.facts.hooks


def compile_segment(layers: Sequence[ActiveLayer], start: int, stop: int, name: str) -> Segment:
    """Write and compile the segment of ``layers[start:stop]``; ``name`` is for tracebacks."""
    writer = _Writer(tuple(reversed(layers[start:stop])))
    source = writer.write()
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    filename = f"<interpose {name} {digest}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = dict(writer.names)
    exec(compile(source, filename, "exec"), namespace)  # noqa: S102 - written just above
    return Segment(start, stop, source, writer.lines, namespace["play"])


class _Writer:
    """Writes one segment. Each line that may raise on behalf of a layer is noted in ``lines``."""

    def __init__(self, layers: Sequence[ActiveLayer]) -> None:
        self.layers = layers
        self.names: dict[str, Any] = {"DROP": DROP}
        self.lines: dict[int, int] = {}
        self._text: list[str] = []
        self._branches: dict[tuple[Any, ...], int] = {}

    def write(self) -> str:
        self._group()
        self._add(0, "async def play(source, lane):")
        self._add(1, "unusual = lane.unusual")
        self._add(1, "frames = lane.frames")
        for index, layer in enumerate(self.layers):
            self._unpack(index, layer)
        self._add(1, "try:")
        self._add(2, "with lane.boundary:")
        self._add(3, "async for event in source:")
        self._add(4, "if unusual:")
        self._plain(5, "lane.through(0, event)")
        self._add(4, "branch = find(event.__class__)")
        self._add(4, "if branch is None:")
        self._add(5, "branch = resolve(event.__class__)")
        self._add(4, "if branch == 0:")
        self._add(5, "yield event")
        for work, branch in self._branches.items():
            if branch:
                self._branch(work, branch)
        self._add(4, "else:")
        self._plain(5, "lane.through(0, event)")
        self._add(1, "finally:")
        self._add(2, "await lane.close(source)")
        self._add(1, "if lane.boundary.events:")
        self._add(2, "ending = lane.ending()")
        self._add(2, "try:")
        self._add(3, "async for event in ending:")
        self._add(4, "yield event")
        self._add(2, "finally:")
        self._add(3, "await ending.aclose()")
        return "\n".join(self._text) + "\n"

    # Which classes go together ---------------------------------------------------------------
    def _group(self) -> None:
        """Group the known classes by what is to be done for them; hot classes come first."""
        found: dict[type[BaseEvent], int] = {}
        self._branches[self._work(BaseEvent, nothing=True)] = 0
        kinds: list[type[BaseEvent]] = [*_HOT, *(KNOWN_EVENTS - {*_HOT})]
        for kind in sorted(kinds, key=lambda kind: (kind not in _HOT, kind.__name__)):
            work = self._work(kind)
            found[kind] = self._branches.setdefault(work, len(self._branches))

        def resolve(kind: type[BaseEvent]) -> int:
            return found.setdefault(kind, self._branches.get(self._work(kind), _PLAIN))

        self.names["find"] = found.get
        self.names["resolve"] = resolve

    def _work(self, kind: type[BaseEvent], *, nothing: bool = False) -> tuple[Any, ...]:
        """Return what each layer does for a class: handler, assembling, keeping the transcript."""
        if nothing:
            return tuple((None, False, False) for _ in self.layers)
        return tuple(
            (
                layer.handler(kind),
                layer.observes and Assembler.takes(kind),
                layer.declaration.tracks_state,
            )
            for layer in self.layers
        )

    # Lines -----------------------------------------------------------------------------------
    def _unpack(self, index: int, layer: ActiveLayer) -> None:
        self._add(1, f"frame_{index} = frames[{index}]")
        self._add(1, f"self_{index} = frame_{index}.instance")
        self._add(1, f"ctx_{index} = frame_{index}.ctx")
        if layer.declaration.tracks_state:
            self._add(1, f"apply_{index} = frame_{index}.transcript.apply")
        if layer.observes:
            self._add(1, f"push_{index} = frame_{index}.assembler.push")
        if layer.deadline is not None:
            self._add(1, f"within_{index} = frame_{index}.deadline.run")

    def _branch(self, work: tuple[Any, ...], branch: int) -> None:
        self._add(4, f"elif branch == {branch}:")
        for index, (handler, assembles, keeps) in enumerate(work):
            if keeps:
                self._add(5, f"apply_{index}(event)", index)
            if assembles:
                self._add(5, f"for hook, args in push_{index}(event):", index)
                self._add(6, f"if frame_{index}.has(hook):", index)
                self._add(7, f"await frame_{index}.observe(hook, *args)", index)
            if handler is not None:
                self._hook(index, handler, branch)
            if handler is not None or assembles:
                self._add(5, "if unusual:")
                self._plain(6, f"lane.through({index + 1}, event)")
        self._add(5, "yield event")

    def _hook(self, index: int, handler: Handler, branch: int) -> None:
        layer = self.layers[index]
        hook, known = f"hook_{index}_{branch}", f"handler_{index}_{branch}"
        self.names |= {hook: handler.function, known: handler}
        call = f"{hook}(self_{index}, ctx_{index}, event)"
        if handler.is_async:
            call = f"await {call}" if layer.deadline is None else f"await within_{index}({call})"
        if layer.on_failure == "skip":
            self._add(5, "answer = event")
            self._add(5, f"if not frame_{index}.skipped:")
            self._add(6, "try:")
            self._add(7, f"answer = {call}", index)
            self._add(6, "except Exception as error:")
            self._add(7, f"if not frame_{index}.fail({handler.name!r}, error):", index)
            self._add(8, "raise", index)
        else:
            self._add(5, f"answer = {call}", index)
        may_be_none = "" if layer.declaration.rewrites_history else " and answer is not None"
        self._add(5, f"if answer is not event{may_be_none}:")
        after = f"lane.after({index}, event, {known}, answer)"
        if layer.declaration.observes_only:
            self._plain(6, after)
            return
        self._add(6, "if answer.__class__ is event.__class__:")
        self._add(7, "event = answer")
        self._add(6, "elif answer is DROP:")
        self._add(7, "continue")
        self._add(6, "else:")
        self._plain(7, after)

    def _plain(self, depth: int, stream: str) -> None:
        self._add(depth, f"async for out in {stream}:")
        self._add(depth + 1, "yield out")
        self._add(depth, "continue")

    def _add(self, depth: int, line: str, layer: int | None = None) -> None:
        self._text.append("    " * depth + line)
        if layer is not None:
            self.lines[len(self._text)] = layer
