"""What is said, and to whom, when something about a loop is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger
from looping import loop

from interpose import Middleware, Reject, RunContext, UsageError
from interpose.loop import LoopAgent, ScriptedModel
from interpose.loop_errors import InvalidResume


# Texts ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "said"), [(5, "an int of builtins"), (object(), "an object of"), ("x", "a str of")]
)
def test_what_is_no_tool_is_named_with_its_article(value: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        LoopAgent(ScriptedModel(), [value])
    assert caught.value.message.startswith(said)
    assert caught.value.hint == "give a function, or interpose.loop.tool(...) of one"


# The log --------------------------------------------------------------------------------------
Log = list[tuple[str, str]]


@pytest.fixture
def log() -> Iterator[Log]:
    """What the operator's log gets: levels and texts."""
    lines: Log = []
    logger.enable("interpose")
    sink = logger.add(lambda m: lines.append((m.record["level"].name, m.record["message"])))
    yield lines
    logger.remove(sink)
    logger.disable("interpose")


def test_answers_that_cannot_be_taken_are_a_warning_without_a_traceback(log: Log) -> None:
    run = {"thread_id": "t", "resume": {"nobody~asked": True}}
    played = loop([], ScriptedModel("hi"), run=run)
    assert isinstance(played.result.error, InvalidResume)
    refused = [line for line in log if "refused: invalid-resume" in line[1]]
    assert [level for level, _ in refused] == ["WARNING"]
    assert "unknown-interrupt" in refused[0][1]
    assert not [line for line in log if line[0] == "ERROR" or "Traceback" in line[1]]


def test_a_refusal_of_a_layer_is_a_warning_and_its_failure_an_error(log: Log) -> None:
    class Guard(Middleware):
        def setup(self, ctx: RunContext) -> None:
            raise Reject("quota", "Used up.") if ctx.thread_id == "t" else RuntimeError("gone")

    loop([Guard], ScriptedModel("hi"), run={"thread_id": "t"})
    assert ("WARNING", "host: run refused: quota (Used up.)") in log
    loop([Guard], ScriptedModel("hi"), run={"thread_id": "u"})
    (failed,) = [text for level, text in log if level == "ERROR"]
    assert failed.startswith("host: run failed: middleware-failed (RuntimeError: gone")
