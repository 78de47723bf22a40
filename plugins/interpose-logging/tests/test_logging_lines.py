import json

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from interpose_logging.lines import as_json, as_text, stamped


def test_a_text_line_names_its_kind_and_its_values() -> None:
    record = {"run_id": "r1", "duration": 0.25, "parent_run_id": None, "types": {"RAW": 2}}
    assert as_text("run-ended", record) == 'run ended run_id=r1 duration=0.25 types={"RAW":2}'


def test_a_value_cannot_forge_a_line_or_a_field() -> None:
    forged = 'r1\nrun ended outcome=success "\x1b[2J\u2028\x9b'
    assert as_text("run-started", {"run_id": forged}) == (
        r'run started run_id="r1\nrun ended outcome=success \"\u001b[2J\u2028\u009b"'
    )


def test_an_empty_value_is_visible() -> None:
    assert as_text("run-started", {"run_id": ""}) == 'run started run_id=""'


def test_a_json_line_has_time_level_and_kind_first() -> None:
    line = as_json("run-started", "INFO", 1.5, {"run_id": "r1", "parent_run_id": None})
    assert line == (
        '{"time":"1970-01-01T00:00:01.500+00:00","level":"INFO","kind":"run-started",'
        '"run_id":"r1","parent_run_id":null}'
    )


def test_a_stamped_line_begins_with_time_and_level() -> None:
    assert stamped("INFO", 0, "run started") == "1970-01-01T00:00:00.000+00:00 INFO run started"


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.text(st.characters()))
def test_any_id_makes_one_line_of_printable_ascii_that_tells_it_exactly(text: str) -> None:
    line = as_text("run-started", {"run_id": text, "agent": "a"})
    assert line.isascii()
    assert line.isprintable()
    shown = line.removeprefix("run started run_id=").removesuffix(" agent=a")
    assert (json.loads(shown) if shown.startswith('"') else shown) == text
    record = as_json("run-started", "INFO", 0, {"run_id": text})
    assert record.isascii()
    assert record.isprintable()
    assert json.loads(record)["run_id"] == text
