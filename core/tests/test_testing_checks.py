"""Checks, excuses, and what no contract takes."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    TextMessageContentEvent,
)

from interpose import (
    Capability,
    Middleware,
    RunContext,
    Settings,
    StartupError,
    UsageError,
)
from interpose.testing import (
    contract,
)


class MaskSettings(Settings):
    words: frozenset[str] = frozenset({"damn"})
    """What is masked."""


class Splits(Middleware[MaskSettings]):
    """Masks what lies in one piece."""

    def on_event(self, ctx: RunContext, event: BaseEvent, /) -> BaseEvent:
        if not isinstance(event, TextMessageContentEvent):
            return event
        said = event.delta
        for word in self.settings.words:
            said = said.replace(word, "*" * len(word))
        return event.model_copy(update={"delta": said})


def test_a_check_is_named_and_tells_the_smallest_stream() -> None:
    checks = {str(check): check for check in contract(Splits)}
    with pytest.raises(AssertionError) as caught:
        checks["text-split"]()
    said = str(caught.value).splitlines()
    assert said[0] == "Splits breaks its contract: text-split"
    at = said.index("  the smallest stream that shows it:")
    assert 2 <= len(said[at + 1 :]) <= 8


def test_an_excuse_names_a_check_and_a_reason() -> None:
    excused = contract(Splits, excuse={"text-split": "only for whole messages"})
    assert "text-split" not in [check.name for check in excused]
    with pytest.raises(UsageError, match="excuse names 'text-splits', which is no check") as caught:
        contract(Splits, excuse={"text-splits": "a slip"})
    assert caught.value.hint == "did you mean 'text-split'?"
    with pytest.raises(UsageError, match="excuse gives no reason for 'text-split'"):
        contract(Splits, excuse={"text-split": "  "})


class Needy(Middleware[MaskSettings]):
    def __init__(self, words: str) -> None:
        self.words = words


class Async(Middleware):
    @classmethod
    def declare(cls, settings: Any, /) -> Any:
        return {"stage": "edge"}


def test_a_class_that_no_host_takes_is_refused_as_at_startup() -> None:
    with pytest.raises(StartupError, match="__init__ takes arguments"):
        contract(Needy)
    with pytest.raises(StartupError, match="declare returned a dict"):
        contract(Async)
    with pytest.raises(UsageError, match="contract takes a middleware class, not"):
        contract(Needy("damn"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the settings of the contract are not valid"):
        contract(Splits, settings={"word": ["damn"]})
    with pytest.raises(UsageError, match="requires test-kit/absent, and the contract has no value"):
        contract(Absent)


class Absent(Middleware):
    requires = (Capability("test-kit/absent"),)
