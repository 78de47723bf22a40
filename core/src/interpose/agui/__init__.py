"""The rules of an AG-UI stream, as a small pure library: no host, no input or output.

Live streams and recordings take the same way: read older versions, strip unknown content, expand
chunks, verify, apply to a transcript, encode::

    stripper, expander, verifier = Stripper(Compatibility()), Expander(), Verifier()
    transcript = Transcript(run_input.messages, run_input.state)
    for raw in decoded:
        event = stripper.admit(raw)
        if event is None:
            continue
        for whole in expander.push(event):
            verifier.check(whole)
            transcript.apply(whole)
    verifier.finish()
"""

from interpose.agui.audit import Auditor, violations
from interpose.agui.capture import RecordedEvent, TypedEvents, read_capture, typed
from interpose.agui.catalogue import EVENT_CLASSES, KNOWN_EVENTS
from interpose.agui.compat import Compatibility
from interpose.agui.encoding import encode, to_json
from interpose.agui.expansion import CHUNKS, Expander
from interpose.agui.resuming import CheckedResume, check_resume, is_expired, resume_entries
from interpose.agui.sse import SseEvent, SseReader
from interpose.agui.stripping import CheckedInput, Stripped, Stripper, check_input, strip
from interpose.agui.transcript import Transcript
from interpose.agui.verify import Verifier

__all__ = [
    "CHUNKS",
    "EVENT_CLASSES",
    "KNOWN_EVENTS",
    "Auditor",
    "CheckedInput",
    "CheckedResume",
    "Compatibility",
    "Expander",
    "RecordedEvent",
    "SseEvent",
    "SseReader",
    "Stripped",
    "Stripper",
    "Transcript",
    "TypedEvents",
    "Verifier",
    "check_input",
    "check_resume",
    "encode",
    "is_expired",
    "read_capture",
    "resume_entries",
    "strip",
    "to_json",
    "typed",
    "violations",
]
