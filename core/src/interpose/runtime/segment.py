"""Adjacent event hooks as compiled functions, written once per plan: one for each class of events.

One generator per layer costs each event a suspension per layer; here one function calls just the
hooks that take the class, one after the other, and what nobody takes passes through. What such a
function cannot say (several events for one, a chunk that a layer returns, an emitted event) goes
the plain way of :class:`Lane`, which is what :mod:`interpose.runtime.pipeline` does, so both give
the same events and the same order of calls.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import BaseEvent

from interpose.agui import KNOWN_EVENTS
from interpose.events import DROP
from interpose.runtime.assembly import Assembler
from interpose.runtime.closing import close
from interpose.runtime.handling import Events
from interpose.runtime.lane import DETOUR, Lane
from interpose.runtime.layer import ActiveLayer, Handler
from interpose.runtime.record import RunRecord

Work = tuple[Callable[[Lane, BaseEvent], Any], bool]
"""The compiled hooks of a class, and whether what they return is to be awaited."""

_NOTHING: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Layers ``start`` to ``stop`` of a program (outermost first), compiled.

    ``source`` is the written code, ``lines`` the layer (innermost is 0) that a line belongs to;
    ``filename`` is for tracebacks.
    """

    start: int
    stop: int
    source: str
    filename: str
    lines: Mapping[int, int]
    _found: dict[type[BaseEvent], Work | None]
    _resolve: Callable[[type[BaseEvent]], Work | None]

    def work(self, kind: type[BaseEvent]) -> Work | None:
        """Return the compiled hooks for events of a class; None: nobody takes them."""
        found = self._found.get(kind, _NOTHING)
        return self._resolve(kind) if found is _NOTHING else found

    def _answer(self, lane: Lane, event: BaseEvent) -> Any:
        """Return the answer for an event of a class that has not come before."""
        work = self._resolve(event.__class__)
        return event if work is None else work[0](lane, event)

    def layer_at(self, error: BaseException | None) -> int | None:
        """Return the layer whose line raised ``error``; None: no compiled line did."""
        trace = None if error is None else error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.filename:
                return self.lines.get(trace.tb_lineno)
            trace = trace.tb_next
        return None

    async def stream(self, record: RunRecord, source: Events) -> Events:  # noqa: C901, PLR0912 - each call more costs what a layer costs
        """Yield what leaves the segment when ``source`` enters it."""
        lane = Lane(self, record, set())
        unusual, find, unknown = lane.unusual, self._found.get, (self._answer, False)
        try:
            with lane.boundary:
                async for event in source:
                    answer: Any
                    if unusual:
                        answer = lane.enter(0, event)
                    else:
                        work = find(event.__class__, unknown)
                        if work is None:
                            yield event
                            continue
                        call, waits = work
                        answer = call(lane, event)
                        if waits:
                            answer = await answer
                        if answer is event:
                            yield event
                            continue
                    if answer is DETOUR:
                        async for out in lane.taken():
                            yield out
                    elif answer is not DROP:
                        yield answer
        finally:
            try:
                await lane.close()
            finally:
                await close(record, source, "the inner run")
        if lane.boundary.events:
            ending = lane.ending()
            try:
                async for event in ending:
                    yield event
            finally:
                await ending.aclose()


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
    found = {
        kind: None if written is None else (namespace[written.name], written.waits)
        for kind, written in writer.written.items()
    }

    def resolve(kind: type[BaseEvent]) -> Work | None:
        # A class that was not known when this was written, as a subclass of somebody's own.
        taken = any(any(work) for work in writer.work(kind))
        return found.setdefault(kind, (_plainly, False) if taken else None)

    return Segment(start, stop, source, filename, writer.lines, found, resolve)


def _plainly(lane: Lane, event: BaseEvent) -> Any:
    return lane.enter(0, event)


@dataclass(frozen=True, slots=True)
class _Written:
    """A function of the compiled code. ``waits``: it is ``async def``."""

    name: str
    waits: bool


class _Writer:
    """Writes one segment. Each line that may raise on behalf of a layer is noted in ``lines``.

    ``written``: by class, its function; None: nobody takes the class. ``names``: what the code
    uses.
    """

    def __init__(self, layers: Sequence[ActiveLayer]) -> None:
        self.layers = layers
        self.names: dict[str, Any] = {"DROP": DROP}
        self.lines: dict[int, int] = {}
        self.written: dict[type[BaseEvent], _Written | None] = {}
        self._text: list[str] = []

    def write(self) -> str:
        """Write a function for each group of the known classes that have the same work."""
        known: dict[tuple[Any, ...], _Written] = {}
        for kind in sorted(KNOWN_EVENTS, key=lambda kind: kind.__name__):
            work = self.work(kind)
            if not any(any(each) for each in work):
                self.written[kind] = None
                continue
            if work not in known:
                known[work] = self._function(work, len(known) + 1)
            self.written[kind] = known[work]
        return "\n".join(self._text) + "\n"

    def work(self, kind: type[BaseEvent]) -> tuple[Any, ...]:
        """Return what each layer does for a class: handler, assembling, keeping the transcript."""
        return tuple(
            (
                layer.handler(kind),
                layer.observes and Assembler.takes(kind),
                layer.declaration.tracks_state,
            )
            for layer in self.layers
        )

    def _function(self, work: tuple[Any, ...], number: int) -> _Written:
        waits = any(assembles or (handler and handler.is_async) for handler, assembles, _ in work)
        name = f"hooks_{number}"
        self._add(0, f"{'async ' if waits else ''}def {name}(lane, event):")
        unpacked = self._unpack([index for index, (handler, *_) in enumerate(work) if handler])
        self._add(1, "unusual = lane.unusual")
        for index, (handler, assembles, keeps) in enumerate(work):
            if handler is None and not assembles and not keeps:
                continue
            layer = self.layers[index]
            timed = handler is not None and handler.is_async and layer.deadline is not None
            if keeps or assembles or timed or layer.on_failure == "skip":
                self._add(1, f"frame = lane.frames[{index}]")
            if keeps:
                self._add(1, "frame.transcript.apply(event)", index)
            if assembles:
                self._add(1, "for hook, args in frame.assembler.push(event):", index)
                self._add(2, "if frame.has(hook):", index)
                self._add(3, "await frame.observe(hook, *args)", index)
            if handler is not None:
                if not unpacked:
                    self._add(1, f"self_{index} = bound[{2 * index}]")
                    self._add(1, f"ctx_{index} = bound[{2 * index + 1}]")
                self._hook(index, handler, number)
            if handler is not None or assembles:
                self._add(1, "if unusual:")
                self._add(2, f"return lane.enter({index + 1}, event)")
        self._add(1, "return event")
        return _Written(name, waits)

    def _unpack(self, called: Sequence[int]) -> bool:
        """Take instances and contexts out, all at once if most are called; whether it did."""
        if 2 * len(called) > len(self.layers):
            names = (f"self_{index}, ctx_{index}, " for index in range(len(self.layers)))
            self._add(1, f"{''.join(names)}= lane.bound")
            return True
        if called:
            self._add(1, "bound = lane.bound")
        return False

    def _hook(self, index: int, handler: Handler, number: int) -> None:
        layer = self.layers[index]
        hook, known = f"hook_{index}_{number}", f"handler_{index}_{number}"
        self.names |= {hook: handler.function, known: handler}
        call = f"{hook}(self_{index}, ctx_{index}, event)"
        if handler.is_async:
            call = f"await {f'frame.deadline.run({call})' if layer.deadline is not None else call}"
        if layer.on_failure == "skip":
            self._add(1, "answer = event")
            self._add(1, "if not frame.skipped:")
            self._add(2, "try:")
            self._add(3, f"answer = {call}", index)
            self._add(2, "except Exception as error:")
            self._add(3, f"if not frame.fail({handler.name!r}, error):", index)
            self._add(4, "raise", index)
        else:
            self._add(1, f"answer = {call}", index)
        may_be_none = "" if layer.declaration.rewrites_history else "answer is not None and "
        self._add(1, f"if {may_be_none}answer is not event:")
        after = f"return lane.after({index}, event, {known}, answer)"
        if layer.declaration.observes_only:
            self._add(2, after, index)
            return
        self._add(2, "if answer.__class__ is event.__class__:")
        self._add(3, "event = answer")
        self._add(2, "elif answer is DROP:")
        self._add(3, "return DROP")
        self._add(2, "else:")
        self._add(3, after, index)

    def _add(self, depth: int, line: str, layer: int | None = None) -> None:
        self._text.append("    " * depth + line)
        if layer is not None:
            self.lines[len(self._text)] = layer
