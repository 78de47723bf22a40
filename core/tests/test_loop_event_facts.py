"""Quick looks at events, and copies of JSON, give what the slow ways give."""

from __future__ import annotations

from copy import deepcopy
from datetime import date
from typing import Any, Final

import ag_ui.core
import pytest
from ag_ui.core import BaseEvent, CustomEvent, TextMessageContentEvent, ToolCallStartEvent
from hypothesis import given
from hypothesis import strategies as st

from interpose.loop.event_facts import instance_check, is_event, value_of
from interpose.loop.json_copy import json_copy

EVENTS: Final[list[type[BaseEvent]]] = [
    each
    for each in vars(ag_ui.core).values()
    if isinstance(each, type) and issubclass(each, BaseEvent)
]
NAMES: Final = ("message_id", "parent_message_id", "tool_call_id", "subagent_run_id", "delta")
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Own(TextMessageContentEvent):
    """An event of an author's own."""


ALL: Final[list[type[BaseEvent]]] = [*EVENTS, Own]


@pytest.mark.parametrize("cls", ALL)
def test_an_instance_is_told_as_isinstance_tells_it(cls: type[BaseEvent]) -> None:
    made = cls.model_construct()
    assert is_event(made)
    for other in ALL:
        assert instance_check(other)(made) is isinstance(made, other)


@pytest.mark.parametrize("thing", [None, 3, "event", BaseEvent, object()])
def test_what_is_no_event_is_none(thing: object) -> None:
    assert not is_event(thing)


@given(
    st.fixed_dictionaries({}, optional={name: st.text() | st.none() for name in NAMES}),
    st.sampled_from(ALL),
)
def test_a_value_is_what_getattr_gives(fields: dict[str, Any], cls: type[BaseEvent]) -> None:
    """Also of a field that is an extra of the event, and of one that it does not have."""
    for event in (cls.model_construct(**fields), CustomEvent(name="x", value=1, **fields)):
        for name in NAMES:
            assert value_of(event, name) == getattr(event, name, None)


@given(JSON)
def test_a_copy_of_json_is_equal_and_shares_nothing_that_changes(value: Any) -> None:
    copied = json_copy(value)
    assert copied == deepcopy(value)
    assert not _changeable(copied) & _changeable(value)


def test_what_is_no_json_is_copied_as_well() -> None:
    given_ = {"on": date(2024, 5, 6), "who": ({"name": "x"},), "event": ToolCallStartEvent}
    copied = json_copy(given_)
    assert copied == given_
    assert copied["who"][0] is not given_["who"][0]  # type: ignore[index]


def _changeable(value: Any) -> set[int]:
    """Return the ids of all lists and dicts in a value."""
    if isinstance(value, dict):
        return {id(value)}.union(*map(_changeable, value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*map(_changeable, value))
    return set()
