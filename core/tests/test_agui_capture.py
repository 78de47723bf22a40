import json
from collections.abc import Iterator

import pytest
from ag_ui.core import RunFinishedEvent, RunStartedEvent, TextMessageContentEvent

from interpose.agui import RecordedEvent, read_capture, typed
from interpose.agui.capture import scan_capture
from interpose.errors import ReplayError

A = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
B = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def refused(text: str) -> ReplayError:
    with pytest.raises(ReplayError) as caught:
        typed(read_capture(text, "run.jsonl"), "run.jsonl")
    return caught.value


def test_json_lines_with_blank_lines() -> None:
    text = f"\n{json.dumps(A)}\n\n  {json.dumps(B)}  "
    assert read_capture(text, "f") == [RecordedEvent(2, A), RecordedEvent(4, B)]


def test_a_json_array_over_several_lines() -> None:
    assert read_capture(json.dumps([A, B], indent=1), "f") == [
        RecordedEvent(2, A),
        RecordedEvent(7, B),
    ]
    assert read_capture(json.dumps([A, B]), "f") == [RecordedEvent(1, A), RecordedEvent(1, B)]


def test_server_sent_events_with_comments_ids_and_event_names() -> None:
    text = f": ping\n\nevent: message\nid: 1\ndata: {json.dumps(A)}\n\nretry: 5\ndata:{json.dumps(B)}\n\n"
    assert read_capture(text, "f") == [RecordedEvent(5, A), RecordedEvent(8, B)]


def test_server_sent_data_over_several_lines_and_without_a_last_blank_line() -> None:
    text = 'data: {"type": "RUN_STARTED",\ndata:  "threadId": "t",\ndata: "runId": "r"}'
    assert read_capture(text, "f") == [RecordedEvent(1, A)]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_any_newline_and_a_byte_order_mark(newline: str, mark: str) -> None:
    frames = f"{mark}data: {json.dumps(A)}{newline}{newline}data: {json.dumps(B)}{newline}{newline}"
    assert [item.raw for item in read_capture(frames, "f")] == [A, B]
    lines = f"{mark}{json.dumps(A)}{newline}{json.dumps(B)}{newline}"
    assert read_capture(lines, "f") == [RecordedEvent(1, A), RecordedEvent(2, B)]


def test_a_line_separator_inside_a_string_ends_no_line() -> None:
    event = {"type": "CUSTOM", "name": "n", "value": "a\u2028b\u0085c"}
    text = json.dumps(event, ensure_ascii=False)
    assert [item.raw for item in read_capture(text, "f")] == [event]


def test_bytes_are_read_as_utf_8() -> None:
    event = {"type": "CUSTOM", "name": "é"}
    data = json.dumps(event, ensure_ascii=False).encode()
    assert [item.raw for item in read_capture(data, "f")] == [event]
    with pytest.raises(ReplayError, match="UTF-8"):
        read_capture(data.decode().encode("latin-1"), "f")


@pytest.mark.parametrize("text", ["", "\n \n", "[]", ": only a comment\n\n"])
def test_a_recording_without_events_is_an_error(text: str) -> None:
    error = refused(text)
    assert error.message == "The recording holds no events."
    assert "JSON lines" in error.hint


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (f"{json.dumps(A)}\n{{oops", "run.jsonl:2", "This is not JSON: Expecting property name"),
        ("hello", "run.jsonl:1", "This is not JSON: Expecting value (column 1)."),
        (f"{json.dumps(A)}\n7", "run.jsonl:2", "An event is a JSON object, not int."),
        ('{"name": "x"}', "run.jsonl:1", "This object has no `type`, so it is no event."),
        ('{"type": 5}', "run.jsonl:1", "This object has no `type`, so it is no event."),
        ('[{"type": "CUSTOM"},\n\nnull]', "run.jsonl:3", "An event is a JSON object, not null."),
        ('[{"type": "CUSTOM"},\n,]', "run.jsonl:2", "This is not JSON"),
        ('[{"type": "CUSTOM"}', "run.jsonl:1", "This is not JSON"),
        (": c\n\ndata: {\ndata: x}\n\n", "run.jsonl:4", "This is not JSON: Expecting property"),
        ('{"type": "CUSTOM", "value": NaN}', "run.jsonl:1", "This is not JSON: it has no NaN."),
        ("[" * 100_000, "run.jsonl:1", "This is not JSON: it is nested too deeply."),
        (
            f'{json.dumps(A)}\n\n{{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}}',
            "run.jsonl:3",
            "TEXT_MESSAGE_CONTENT is malformed: delta: Field required",
        ),
    ],
)
def test_a_broken_recording_names_the_line_and_the_reason(
    text: str, where: str, message: str
) -> None:
    error = refused(text)
    assert error.where == (where,)
    assert error.message.startswith(message)


def test_typed_gives_models_and_warnings_with_their_lines() -> None:
    text = "\n".join(
        json.dumps(raw)
        for raw in (
            A,
            {"type": "FUTURE"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x", "new": 1},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x", "new": 1},
            B,
        )
    )
    events, warnings = typed(read_capture(text, "f.jsonl"), "f.jsonl")
    assert events == (
        RunStartedEvent(thread_id="t", run_id="r"),
        TextMessageContentEvent(message_id="m", delta="x"),
        TextMessageContentEvent(message_id="m", delta="x"),
        RunFinishedEvent(thread_id="t", run_id="r"),
    )
    assert warnings == (
        "f.jsonl:2: dropped an event of unknown type: FUTURE",
        "f.jsonl:3: TEXT_MESSAGE_CONTENT: removed new, which AG-UI does not describe",
    )


def scanned(text: bytes, size: int) -> list[tuple[str, ...]]:
    """Return (type or error, place) of all that is found, when ``size`` bytes come at a time."""
    chunks = (text[at : at + size] for at in range(0, len(text), size))
    return [
        (str(found.raw["type"]), f"f:{found.line}")
        if isinstance(found, RecordedEvent)
        else (found.message, *found.where)
        for found in scan_capture(chunks, "f")
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_scanning_goes_on_after_what_cannot_be_read(size: int) -> None:
    a, b = json.dumps(A).encode(), json.dumps(B).encode()
    not_json = "This is not JSON: Expecting value (column 1)."
    expected = [
        ("RUN_STARTED", "f:1"),
        (not_json, "f:3"),
        ("An event is a JSON object, not int.", "f:5"),
        ("RUN_FINISHED", "f:7"),
    ]
    lines = b"\n\n".join([a, b"oops", b"7", b])
    assert scanned(lines, size) == expected
    frames = b"data: " + b"\n\ndata: ".join([a, b"oops", b"7", b]) + b"\n\n"
    assert scanned(frames, size) == expected
    assert scanned(b"\xef\xbb\xbf[\r\n" + a + b",\r\n7,\r\r\n" + b + b"]", size) == [
        ("RUN_STARTED", "f:2"),
        ("An event is a JSON object, not int.", "f:3"),
        ("RUN_FINISHED", "f:5"),
    ]
    assert scanned(b"[" + a + b",]", size)[0][0].startswith("This is not JSON")
    assert scanned(b" \n", size) == [("The recording holds no events.", "f:1")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"type": "A"}\n\xff\n{"type": "B"}', ["A", "The recording is not UTF-8 text.", "B"]),
        (b"[\xff]", ["The recording is not UTF-8 text."]),
        (b"data: \xff\n\n", ["The event on line 1 of the stream is not UTF-8 text."]),
    ],
)
def test_what_is_no_utf8_is_an_error_and_not_a_crash(text: bytes, found: list[str]) -> None:
    assert [each for each, *_ in scanned(text, 1000)] == found


def test_lines_and_frames_are_scanned_as_they_come() -> None:
    for begin, end in ((b"", b"\n"), (b"data: ", b"\n\n")):
        asked = 0

        def endless(begin: bytes = begin, end: bytes = end) -> Iterator[bytes]:
            nonlocal asked
            while True:
                asked += 1
                yield begin + json.dumps(A).encode() + end

        scanning = scan_capture(endless(), "f")
        assert [next(scanning) for _ in range(3)]
        assert asked <= 4
