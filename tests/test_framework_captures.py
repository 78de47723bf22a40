"""Recorded streams of real frameworks (``tests/captures``), played through the first plugins."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import shop
from ag_ui.core import BaseEvent, Message, RunAgentInput, UserMessage
from ag_ui_validate.pytest_plugin import validate_agui
from commandline import CommandLine
from loguru import logger
from make import recorded
from repository import ROOT

from interpose import EndInfo, Host, Layer, Middleware, RunContext, RunResult
from interpose.agui import Transcript, read_capture, to_json, typed, violations

CAPTURES = ROOT / "tests/captures"
FILES = sorted(
    str(path.relative_to(CAPTURES))
    for kind in ("sse", "jsonl")
    for path in CAPTURES.glob(f"*/*.{kind}")
)
SECRET_PARTS = (shop.EMAIL, shop.CARD, shop.DIGITS, "lovelace", "lace@", "@exam", "4111", "1111")
MEASURED = ("duration", "request_id", "time")
"""What a log line tells that is another with each run."""
HIDDEN = "lookup_order"
QUESTION = RunAgentInput(
    thread_id="thread-1",
    run_id="run-1",
    messages=[UserMessage(id="user-1", content="Where is it?")],
)


def raws(name: str) -> list[Mapping[str, Any]]:
    text = (CAPTURES / name).read_text(encoding="utf-8")
    return [recorded.raw for recorded in read_capture(text, name)]


def events_of(name: str) -> Sequence[BaseEvent]:
    text = (CAPTURES / name).read_text(encoding="utf-8")
    events, warnings = typed(read_capture(text, name), name)
    assert warnings == ()
    return events


def findings(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What the conformance checker has to say, beside what it merely notes."""
    report = validate_agui([json.dumps(event) for event in events])
    return [(d.rule, d.severity) for d in report.diagnostics if d.severity != "info"]


# The recordings themselves --------------------------------------------------------------------


def test_there_is_a_recording_of_everything_the_script_records() -> None:
    assert len(FILES) == 19


@pytest.mark.parametrize("name", FILES)
def test_a_recording_is_valid(name: str) -> None:
    assert findings(raws(name)) == []
    assert list(violations(events_of(name), thread_id="thread-1", run_id="run-1")) == []


@pytest.mark.parametrize("name", FILES)
def test_a_recording_has_a_secret_to_find(name: str) -> None:
    text = (CAPTURES / name).read_text(encoding="utf-8")
    assert shop.EMAIL in text or shop.CARD in text or "lace@exam" in text


def transcript(events: Sequence[BaseEvent], *before: Message) -> Transcript:
    found = Transcript(before)
    for event in events:
        found.apply(event)
    return found


@pytest.mark.filterwarnings(
    "ignore:.get_config_jsonschema. is deprecated:DeprecationWarning"  # ag-ui-langgraph calls it
)
def test_the_frameworks_still_send_what_was_recorded() -> None:
    now = asyncio.run(recorded())
    assert sorted(now) == FILES
    for name, text in now.items():
        events, _ = typed(read_capture(text, name), name)
        assert told(transcript(events).messages) == told(transcript(events_of(name)).messages), (
            f"{name}: the framework sends something else now; run tests/captures/make.py"
        )


# Through the chain ----------------------------------------------------------------------------


class Endings(Middleware):
    """Counts the terminal hooks of the runs."""

    seen: tuple[str, ...] = ()

    def on_finish(self, ctx: RunContext, info: object) -> None:
        Endings.seen += ("finish",)

    def on_abort(self, ctx: RunContext, info: object) -> None:
        Endings.seen += ("abort",)

    def on_error(self, ctx: RunContext, info: object) -> None:
        Endings.seen += ("error",)

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        Endings.seen += (f"end of {end.kind}",)


CONFIG = """\
[agent]
use = "scripted"
file = "{file}"

[middleware.logging]
format = "json"
file = "{log}"
events = false

[middleware.tool-filter]
deny = ["lookup_order"]

[middleware.redact]
entities = ["email", "card"]
"""


@dataclass(frozen=True)
class Played:
    events: Sequence[BaseEvent]
    result: RunResult
    log: Sequence[Mapping[str, Any]]
    endings: tuple[str, ...]

    @property
    def wire(self) -> list[dict[str, Any]]:
        return [json.loads(to_json(event)) for event in self.events]


def play(name: str, folder: Path, *, strict: bool = False, config: str = CONFIG) -> Played:
    """Play a recording by a file that switches the three installed plugins on."""
    path = folder / "interpose.toml"
    path.write_text(config.format(file=CAPTURES / name, log=folder / "run.log"))
    (folder / "run.log").unlink(missing_ok=True)
    Endings.seen = ()

    async def main() -> tuple[list[BaseEvent], RunResult]:
        async with Host.from_config(path, layers=[Layer(Endings)], strict=strict) as host:
            run = host.run(QUESTION)
            return [event async for event in run], await run

    events, result = asyncio.run(main())
    log = [json.loads(line) for line in (folder / "run.log").read_text().splitlines()]
    return Played(events, result, log, Endings.seen)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Played]:
    folder = tmp_path_factory.mktemp("played")
    return {name: play(name, folder) for name in FILES}


def spaced(text: str) -> str:
    """JSON with the spaces that one of the frameworks writes; any other text as it is."""
    return json.dumps(json.loads(text)) if text.startswith("{") else text


def told(messages: Sequence[Message]) -> list[str]:
    """The messages as lines: who says what, calls what, gets what."""
    lines = []
    for message in messages:
        calls = getattr(message, "tool_calls", None) or ()
        called = [f"{call.function.name}{call.function.arguments}" for call in calls]
        content = message.content
        said = [spaced(content)] if isinstance(content, str) and content else []
        lines.append(f"{message.role}: {' | '.join(said + called)}")
    return lines


ANSWER = "assistant: Your order A-1815 has shipped. We wrote to [email], and charged card [card] as agreed."
THOUGHT = "reasoning: The user is [email]; the card is [card], I had better not say so."
MAP = 'assistant: Have a look: | show_map{"place": "Rotterdam", "label": "for [email]"}'
REFUND = 'assistant: I need your consent. | refund{"card": "[card]"}'
TRACK = 'assistant: track_parcel{"parcel": "P-77", "email": "[email]"}'
PARCEL = (
    'tool: {"stops": ["Rotterdam", "at the door, for [email]"], "charged": "[card]", '
    '"parcel": "P-77", "asked by": "[email]"}'
)
FOUND = "assistant: It is in Rotterdam; the parcel is for [email]."
WAIT = "assistant: One moment, please. "
BEGUN = "assistant: Your order A-1815 went to [email]"

ASKED = "user: Where is it?"
SNAPSHOT = "user: Where is my order A-1815? I am [email]."  # what LangGraph has of the user
TOLD: Mapping[str, Sequence[str]] = {
    "pydantic-ai/text.sse": ["success", ASKED, ANSWER],
    "pydantic-ai/reasoning.sse": [
        "success",
        ASKED,
        THOUGHT,
        "assistant: Your order is on its way.",
    ],
    "pydantic-ai/tool.sse": ["success", ASKED, WAIT, ANSWER],
    "pydantic-ai/parallel-tools.sse": ["success", ASKED, TRACK, PARCEL, FOUND],
    "pydantic-ai/front-end-tool.sse": ["success", ASKED, MAP],
    "pydantic-ai/state.sse": [
        "success",
        ASKED,
        TRACK,
        "tool: in Rotterdam",
        "assistant: It is in Rotterdam.",
    ],
    "pydantic-ai/error.sse": ["error", ASKED, BEGUN],
    "pydantic-ai/interrupt.sse": ["interrupt", ASKED, REFUND],
    "langgraph/text.jsonl": ["success", SNAPSHOT, ANSWER],
    "langgraph/raw.jsonl": ["success", SNAPSHOT, ANSWER],
    "langgraph/reasoning.jsonl": [
        "success",
        SNAPSHOT,
        THOUGHT,
        "assistant: Your order is on its way.",
    ],
    "langgraph/tool.jsonl": ["success", SNAPSHOT, WAIT, ANSWER],
    "langgraph/tool-in-one-piece.jsonl": ["success", SNAPSHOT, WAIT, ANSWER],
    # The snapshot at the end gives the tool's message another id, so it comes last.
    "langgraph/parallel-tools.jsonl": ["success", SNAPSHOT, TRACK, FOUND, PARCEL],
    "langgraph/front-end-tool.jsonl": ["success", SNAPSHOT, MAP],
    "langgraph/state.jsonl": ["success", SNAPSHOT, TRACK, "assistant: It is in Rotterdam.", PARCEL],
    "langgraph/error.jsonl": ["error", ASKED, BEGUN],
    "langgraph/interrupt.jsonl": ["interrupt", SNAPSHOT],
    "langgraph/interrupt-as-custom.jsonl": ["success", SNAPSHOT],
}


@pytest.mark.parametrize("name", FILES)
def test_what_comes_out_is_valid(name: str, played: Mapping[str, Played]) -> None:
    out = played[name]
    assert findings(out.wire) == []
    assert list(violations(out.events, thread_id="thread-1", run_id="run-1")) == []


@pytest.mark.parametrize("name", FILES)
def test_no_secret_comes_out(name: str, played: Mapping[str, Played]) -> None:
    out = played[name]
    result = out.result  # but its error, which is the original for the application
    shown = json.dumps(out.wire) + str([result.messages, result.state, result.interrupts])
    assert [part for part in SECRET_PARTS if part in shown] == []
    assert "[email]" in shown or "[card]" in shown
    # A duration and a random id are digits, too.
    log = [{k: v for k, v in line.items() if k not in MEASURED} for line in out.log]
    assert [part for part in SECRET_PARTS if part in json.dumps(log)] == []


@pytest.mark.parametrize("name", FILES)
def test_a_hidden_call_does_not_come_out(name: str, played: Mapping[str, Played]) -> None:
    telling = {event["type"] for event in played[name].wire if HIDDEN in json.dumps(event)}
    # The state is free form, and this adapter repeats the conversation in it.
    known = {"STATE_SNAPSHOT"} if name.startswith("langgraph/") else set[str]()
    calls = any(f'"{HIDDEN}"' in json.dumps(raw) for raw in raws(name))
    assert telling == (known if calls else set())
    assert not any(
        "call-order" in json.dumps(e) for e in played[name].wire if e["type"] not in known
    )


@pytest.mark.parametrize("name", FILES)
def test_a_run_ends_once(name: str, played: Mapping[str, Played]) -> None:
    out = played[name]
    kind = "error" if out.result.outcome == "error" else "finish"
    assert out.endings == (kind, f"end of {kind}")
    assert [line["kind"] for line in out.log] == ["run-started", "run-ended"]
    assert out.log[-1]["outcome"] == out.result.outcome
    if kind == "error":
        return  # what is still open then, the host closes outside of all layers
    types = [event["type"] for event in out.wire]
    assert out.log[-1]["types"] == {kind: types.count(kind) for kind in types}


@pytest.mark.parametrize("name", FILES)
def test_the_result_is_what_was_streamed(name: str, played: Mapping[str, Played]) -> None:
    out = played[name]
    streamed = transcript(out.events, *QUESTION.messages)
    assert streamed.messages == out.result.messages
    assert streamed.state == out.result.state
    assert [out.result.outcome, *told(out.result.messages)] == TOLD[name]


def test_what_else_is_told_of_an_ending(played: Mapping[str, Played]) -> None:
    for name in ("pydantic-ai/error.sse", "langgraph/error.jsonl"):
        assert (
            played[name].wire[-1]["message"] == "the provider refused to charge [card] of [email]"
        )
        assert played[name].wire[-1]["code"] == "agent-failed"
    [approval] = played["pydantic-ai/interrupt.sse"].result.interrupts
    assert approval.message == 'Approve refund({"card":"[card]"})?'
    assert approval.tool_call_id == "call-refund"
    [question] = played["langgraph/interrupt.jsonl"].result.interrupts
    assert question.message == "Refund card [card]?"
    assert question.metadata is not None
    assert question.metadata["langgraph"]["raw"] == {
        "message": "Refund card [card]?",
        "to": "[email]",
        "amount": 25,
    }
    assert played["pydantic-ai/state.sse"].result.state == {
        "steps": ["tracked P-77 for [email]", "paid with [card]"]
    }
    assert played["langgraph/state.jsonl"].result.state["steps"] == [
        "hello [email]",
        *["asked the model for [email]"] * 2,
    ]


@pytest.mark.parametrize("name", FILES)
def test_strict_gives_the_same(name: str, played: Mapping[str, Played], tmp_path: Path) -> None:
    assert play(name, tmp_path, strict=True).wire == played[name].wire


@pytest.mark.parametrize("name", FILES)
def test_a_chain_that_shows_no_call_and_masks(name: str, tmp_path: Path) -> None:
    config = CONFIG.replace('deny = ["lookup_order"]', "allow = []") + 'action = "mask"\n'
    out = play(name, tmp_path, strict=True, config=config)
    assert findings(out.wire) == []
    assert not [event for event in out.wire if event["type"].startswith("TOOL_CALL")]
    assert [part for part in SECRET_PARTS if part in json.dumps(out.wire)] == []
    assert out.result.outcome == TOLD[name][0]
    assert len(out.endings) == 2


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INTERPOSE_")]:
        monkeypatch.delenv(name)
    yield CommandLine(tmp_path, capsys, monkeypatch)
    logger.remove()  # the command line decides who logs; here it is a guest
    logger.disable("interpose")


@pytest.mark.parametrize("name", FILES)
def test_the_command_line_replays_it(
    name: str, played: Mapping[str, Played], cli: CommandLine, tmp_path: Path
) -> None:
    config = CONFIG.replace('file = "{file}"\n', "").format(log=tmp_path / "run.log")
    cli.write(config)
    done = cli("run", "--json", "--thread", "thread-1", "--replay", str(CAPTURES / name), "hello")
    expected = played[name]
    assert done.code == (1 if expected.result.outcome == "error" else 0), done.err
    shown = [json.loads(line) for line in done.out.splitlines()]
    for event in shown:
        if "runId" in event:
            event["runId"] = "run-1"
    assert shown == expected.wire
    assert [part for part in SECRET_PARTS if part in done.err] == []
    assert len((tmp_path / "run.log").read_text().splitlines()) == 2
