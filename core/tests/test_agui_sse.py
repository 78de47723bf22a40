"""Server-sent events: the rules of the HTML standard, however the bytes are split."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.agui import SseEvent, SseReader
from interpose.errors import InvalidStream


def read(*chunks: bytes, keep_last: bool = False, max_bytes: int = 1000) -> list[SseEvent]:
    reader = SseReader(max_bytes=max_bytes)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    last = reader.close(keep_last=keep_last)
    return events if last is None else [*events, last]


def data(*chunks: bytes, keep_last: bool = False) -> list[str]:
    return [event.data for event in read(*chunks, keep_last=keep_last)]


def refused(chunks: Iterable[bytes], max_bytes: int = 1000) -> InvalidStream:
    with pytest.raises(InvalidStream) as caught:
        read(*chunks, max_bytes=max_bytes)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"data: one\n\ndata: two\n\n", ["one", "two"]),
        (b"data:one\n\n", ["one"]),
        (b"data:  one \n\n", [" one "]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b"data\ndata\n\n", ["\n"]),
        (b": ping\n\n:\n\ndata: x\n: inside\n\n", ["x"]),
        (b"event: e\nid: 7\nretry: 10\ndata: x\n\n", ["x"]),
        (b"event: e\nid: 7\n\n", []),
        (b"dataset: x\nDATA: y\n data: z\n\n", []),
        (b"data: a: b\n\n", ["a: b"]),
        (b"\n\n\ndata: x\n\n\n\n", ["x"]),
        (b"\xef\xbb\xbfdata: x\n\n", ["x"]),
        (b"data: x\n\n\xef\xbb\xbfdata: y\n\n", ["x"]),
        ("data: a\u2028b\u0085c\x0bd\n\n".encode(), ["a\u2028b\u0085c\x0bd"]),
        (b"", []),
    ],
)
def test_events_are_read_as_the_standard_says(text: bytes, expected: list[str]) -> None:
    assert data(text) == expected


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_any_newline_ends_a_line_and_is_counted_once(newline: bytes) -> None:
    text = newline.join([b": c", b"data: x", b"data: y", b"", b"data: z", b"", b""])
    expected = [SseEvent("x\ny", 2), SseEvent("z", 5)]
    assert read(text) == expected
    assert read(*(bytes([byte]) for byte in text)) == expected


def test_a_cr_ends_its_line_at_once_and_a_later_lf_belongs_to_it() -> None:
    reader = SseReader()
    assert [event.data for event in reader.feed(b"data: x\r\r")] == ["x"]
    assert list(reader.feed(b"\ndata: y\r")) == []
    assert list(reader.feed(b"")) == []
    assert [event.data for event in reader.feed(b"\n\r")] == ["y"]


def test_a_last_event_without_its_blank_line_is_dropped_unless_asked_for() -> None:
    for text in (b"data: x\n\ndata: y", b"data: x\n\ndata: y\n"):
        assert data(text) == ["x"]
        assert data(text, keep_last=True) == ["x", "y"]
    assert data(b"data: x\n\n: ping", keep_last=True) == ["x"]


def test_a_reader_knows_of_an_unfinished_event() -> None:
    reader = SseReader()
    assert not reader.unfinished
    for piece, unfinished in ((b"da", True), (b"ta: x\n", True), (b"\n", False)):
        list(reader.feed(piece))
        assert reader.unfinished is unfinished


def test_what_is_no_utf8_is_an_error_that_names_the_line() -> None:
    error = refused([b"\ndata: a\n\ndata: \xff\n\n"])
    assert (error.rule, error.message) == (
        "not-utf-8",
        "The event on line 4 of the stream is not UTF-8 text.",
    )
    assert data(b": \xff\n\ndata: x\n\n") == ["x"], "comments are not read"


@pytest.mark.parametrize(
    "text",
    [
        b"data: " + b"x" * 50,
        b": " + b"x" * 50,
        b"data: xxxxxxxxxx\n" * 5,
        b"data\n" * 60,
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_has_a_greatest_size(text: bytes, size: int) -> None:
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    error = refused(chunks, max_bytes=50)
    assert (error.rule, error.message) == (
        "event-too-long",
        "An event of the stream is longer than 50 bytes, the most that is accepted.",
    )


def test_the_events_before_one_that_is_too_long_are_given() -> None:
    reader = SseReader(max_bytes=20)
    seen: list[str] = []
    with pytest.raises(InvalidStream):
        seen.extend(event.data for event in reader.feed(b"data: x\n\ndata: " + b"y" * 20))
    assert seen == ["x"]


def test_the_size_is_that_of_one_event_not_of_the_stream() -> None:
    assert len(read(b"data: xxxxxxxxxx\n\n: ping\n\n" * 1000, max_bytes=20)) == 1000


LINES = st.one_of(
    st.just(b""),
    st.builds(
        lambda field, text: f"{field}{text}".encode(),
        st.sampled_from(["data: ", "data:", "data", ": ", "id: ", "event:", "other: "]),
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=6),
    ),
)
NEWLINES = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.builds(
    lambda mark, parts, end: mark + b"".join(line + newline for line, newline in parts) + end,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(LINES, NEWLINES), max_size=20),
    st.sampled_from([b"", b"data: end"]),
)


@pytest.mark.parametrize("keep_last", [False, True])
@given(stream=STREAMS, cuts=st.lists(st.integers(0, 400)))
def test_any_split_gives_the_same_events(
    stream: bytes,
    cuts: list[int],
    keep_last: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(places)]
    whole = read(stream, keep_last=keep_last)
    assert read(*chunks, keep_last=keep_last) == whole
    assert read(*(bytes([byte]) for byte in stream), keep_last=keep_last) == whole


@given(STREAMS)
def test_the_reader_agrees_with_the_standard_taken_literally(stream: bytes) -> None:
    assert [event.data for event in read(stream)] == by_the_standard(stream)


def by_the_standard(stream: bytes) -> list[str]:
    """Dispatch events as the HTML standard words it, on the whole text at once."""
    text = stream.decode().removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found: list[str] = []
    buffer = ""
    for line in text.split("\n")[:-1]:
        if not line:
            if buffer:
                found.append(buffer.removesuffix("\n"))
            buffer = ""
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            if field == "data":
                buffer += value.removeprefix(" ") + "\n"
    return found


def test_bytes_that_come_one_by_one_take_linear_time() -> None:
    def seconds(size: int) -> float:
        reader = SseReader(max_bytes=10 * size)
        start = time.process_time()
        for _ in range(size):
            for _event in reader.feed(b"x"):
                pass
        return time.process_time() - start

    seconds(2_000)
    short, long = (min(seconds(size) for _ in range(3)) for size in (20_000, 200_000))
    assert long < 40 * short, "ten times the bytes; quadratic would be a hundred times"
