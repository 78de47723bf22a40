"""All violations of a recorded stream, not only the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ag_ui.core import BaseEvent

from interpose.agui.expansion import Expander
from interpose.agui.verify import Verifier
from interpose.errors import InvalidStream, TruncatedStream


def violations(
    events: Iterable[BaseEvent], *, thread_id: str | None = None, run_id: str | None = None
) -> Iterator[InvalidStream | TruncatedStream]:
    """Yield every violation of a recorded stream, chunks included; none means it is valid.

    ``index`` of a violation counts the events given. Goes on after a violation: a refused event
    is left out, except that a misplaced start or end of a run still starts or ends it.
    """
    expander, verifier = Expander(), Verifier(thread_id, run_id)
    for index, event in enumerate(events):
        for error in _step(expander, verifier, event):
            error.index = index
            yield error
    try:
        verifier.finish()
    except TruncatedStream as error:
        yield error


def _step(expander: Expander, verifier: Verifier, event: BaseEvent) -> Iterator[InvalidStream]:
    try:
        whole = expander.push(event)
    except InvalidStream as error:
        yield error
        return
    for part in whole:
        try:
            verifier.check(part)
        except InvalidStream as error:
            yield error
            try:
                verifier.resume(part, error.rule)
            except InvalidStream as second:
                yield second
