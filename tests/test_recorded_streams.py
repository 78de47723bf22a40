"""Every recorded stream of the repository, seen by a checker that is not ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import BaseEvent, EventType
from independent import complaints
from repository import ROOT, files

from interpose import Host
from interpose.agui import read_capture, to_json, typed, violations

CHAIN = {
    "middleware": {
        "redact": {"entities": ["email", "card"], "action": "mask"},
        "logging": {"events": False},
        "tool-filter": {"deny": ["hidden"]},
    }
}
TERMINALS = (EventType.RUN_FINISHED, EventType.RUN_ERROR)
KINDS = (".jsonl", ".sse", ".ndjson")


def recordings() -> list[Path]:
    return sorted(path for path in files() if path.suffix in KINDS)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def events_of(path: Path) -> Sequence[BaseEvent]:
    """Return what a recording holds, as models."""
    return typed(read_capture(path.read_text(encoding="utf-8"), path.name), path.name).events


def played(agent: dict[str, Any]) -> Sequence[BaseEvent]:
    """Return what leaves the first-party chain around an agent."""

    async def main() -> Sequence[BaseEvent]:
        overrides = {**CHAIN, "agent": {"use": "scripted", **agent}}
        async with Host(overrides=overrides) as host:
            return [event async for event in host.run("hi")]

    return asyncio.run(main())


def test_there_are_recordings() -> None:
    assert "examples/config/capture.jsonl" in map(name, recordings())


@pytest.mark.parametrize("path", recordings(), ids=name)
def test_a_recording_is_valid_for_both_checkers(path: Path) -> None:
    events = events_of(path)
    assert list(violations(events)) == []
    assert complaints(events) == []


@pytest.mark.parametrize("path", recordings(), ids=name)
def test_a_recording_through_the_first_party_chain_is_valid_for_both_checkers(path: Path) -> None:
    events = played({"file": str(path)})
    ends = [event.type for event in events_of(path) if event.type in TERMINALS]
    assert events[-1].type is ends[0], "a replay plays the first run"
    assert getattr(events[-1], "code", None) not in {"invalid-stream", "middleware-failed"}
    assert list(violations(events)) == []
    assert complaints(events) == []


def test_the_built_in_script_through_the_first_party_chain_is_valid_for_both_checkers() -> None:
    events = played({})
    assert list(violations(events)) == []
    assert complaints(events, strict=True) == []


def test_the_other_checker_finds_what_is_wrong() -> None:
    events = [to_json(event) for event in played({})]
    assert len(complaints(events[:-1])) == 1, "truncated"
    assert len(complaints([*events, json.dumps({"type": "STEP_STARTED", "stepName": "s"})])) == 1
