"""All violations of a stream, not only the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ag_ui.core import BaseEvent
from pydantic import BaseModel

from interpose.agui.compat import Compatibility
from interpose.agui.expansion import Expander
from interpose.agui.stripping import Stripper
from interpose.agui.verify import Verifier
from interpose.errors import InvalidStream, TruncatedStream


class Auditor:
    """Looks for every violation in one stream, live or recorded, event by event.

    Goes on after a violation: a refused event is left out, except that a misplaced start or end
    of a run still starts or ends it. Raw events also go through :class:`Compatibility` and
    :class:`Stripper`, and ``warnings`` says what these converted and removed, each thing once; it
    may be emptied at any time. ``thread_id`` and ``run_id``: the ids of the input, as for
    :class:`Verifier`. ``index``: number of the event looked at last, from 0.

    Events are not kept: what it remembers is the ids that the rules ask for.

    Example::

        auditor = Auditor(thread_id=run_input.thread_id, run_id=run_input.run_id)
        for raw in decoded:
            for violation in auditor.push(raw):
                print(violation.index, violation.rule, violation.message)
        for violation in auditor.finish():
            print(violation.message)
    """

    __slots__ = ("_expander", "_stripper", "_verifier", "index")

    def __init__(self, *, thread_id: str | None = None, run_id: str | None = None) -> None:
        self.index = -1
        self._stripper = Stripper(Compatibility())
        self._expander = Expander()
        self._verifier = Verifier(thread_id, run_id)

    @property
    def warnings(self) -> list[str]:
        """What of the raw events was converted or removed since this list was emptied."""
        return self._stripper.warnings

    def push(self, event: BaseEvent | Mapping[str, Any]) -> Sequence[InvalidStream]:
        """Return the violations of the next event; their ``index`` counts the events given."""
        self.index += 1
        found = list(self._look_at(event))
        for violation in found:
            violation.index = self.index
        return found

    def finish(self) -> Sequence[TruncatedStream]:
        """Return the violation of ending here, if it is one."""
        try:
            self._verifier.finish()
        except TruncatedStream as error:
            return (error,)
        return ()

    def _look_at(self, event: BaseEvent | Mapping[str, Any]) -> Iterator[InvalidStream]:
        try:
            admitted = event if isinstance(event, BaseModel) else self._stripper.admit(event)
            whole = () if admitted is None else self._expander.push(admitted)
        except InvalidStream as error:
            yield error
            return
        for part in whole:
            yield from self._verify(part)

    def _verify(self, event: BaseEvent) -> Iterator[InvalidStream]:
        try:
            self._verifier.check(event)
        except InvalidStream as error:
            yield error
            try:
                self._verifier.resume(event, error.rule)
            except InvalidStream as second:
                yield second


def violations(
    events: Iterable[BaseEvent], *, thread_id: str | None = None, run_id: str | None = None
) -> Iterator[InvalidStream | TruncatedStream]:
    """Yield every violation of a recorded stream, chunks included; none means it is valid.

    ``index`` of a violation counts the events given. Goes on after a violation, as
    :class:`Auditor`, which is for raw events and for live streams.
    """
    auditor = Auditor(thread_id=thread_id, run_id=run_id)
    for event in events:
        yield from auditor.push(event)
    yield from auditor.finish()
