"""The hooks of whole runs of the loop, in their order; docs/loop-hooks.md is written from them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence as Many
from functools import cache
from pathlib import Path

import pytest
from sequence_scenarios import ENDINGS, GONE, GROUPS, SCENARIOS
from sequences import MODES, TERMINAL_HOOKS, Mode, Note, Scenario, Sequence, check, play

PAGE = Path(__file__).parents[2] / "docs" / "loop-hooks.md"
TABLES = re.compile(r"(<!-- sequences: [^\n]* -->\n)(.*?)(<!-- end of sequences -->)", re.DOTALL)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

each_scenario = pytest.mark.parametrize(
    "scenario", [pytest.param(scenario, id=scenario.name) for scenario in SCENARIOS]
)
each_mode = pytest.mark.parametrize("mode", [pytest.param(mode, id=mode.name) for mode in MODES])


@cache
def recorded(name: str) -> tuple[Sequence, ...]:
    """Play a scenario the plain way, once for all tests."""
    return tuple(play(BY_NAME[name]))


def layers_of(sequence: Sequence) -> list[str]:
    return list(dict.fromkeys(note.layer for note in sequence.notes if note.layer is not None))


# -- what holds of every run --------------------------------------------------------------------


@each_mode
@each_scenario
def test_however_a_run_is_played_it_is_valid_and_the_same_hooks_are_called(
    scenario: Scenario, mode: Mode
) -> None:
    """One terminal hook, one valid stream, nothing left open; and no difference between ways."""
    played = play(scenario, mode)
    plain = recorded(scenario.name)

    for sequence in played:
        check(sequence, scenario, mode.way, layers_of(sequence))
    assert [sequence.called for sequence in played] == [sequence.called for sequence in plain]
    if mode.way == "iterated":
        assert [sequence.all for sequence in played] == [sequence.all for sequence in plain]
    for one, other in zip(played, plain, strict=True):
        if one.result is not None and other.result is not None:
            assert (one.result.outcome, one.result.text, one.result.output) == (
                other.result.outcome,
                other.result.text,
                other.result.output,
            )


@each_scenario
def test_what_reaches_the_consumer_has_passed_on_event_except_what_the_host_closes(
    scenario: Scenario,
) -> None:
    for sequence in recorded(scenario.name):
        outermost = layers_of(sequence)[0]
        seen = [
            note.what.removeprefix("on_event ")
            for note in sequence.notes
            if note.layer == outermost and note.what.startswith("on_event ")
        ]
        rest = [kind for kind in sequence.types if not seen or kind != seen[0] or not seen.pop(0)]
        # The event whose hook ends the run goes nowhere.
        assert len(seen) == ("event hook" in scenario.name)
        assert {kind.rsplit("_", 1)[1] for kind in rest} <= {"STARTED", "END", "FINISHED", "ERROR"}


@each_scenario
def test_around_hooks_end_in_the_reverse_order_in_which_they_began(scenario: Scenario) -> None:
    for sequence in recorded(scenario.name):
        begun: list[str] = []
        for note in sequence.notes:
            hook, _, how = note.what.partition(" ")
            if not hook.startswith("around_") or hook == "around_tool_call":
                continue
            own = f"{note.layer} {hook}"
            if how == "begins":
                begun.append(own)
            else:
                # A hook that raises itself, in place of calling call_next, has no end of its own.
                assert own in begun, sequence.all
                while begun.pop() != own:
                    pass


@each_scenario
def test_the_terminal_hook_tells_how_the_stream_ended(scenario: Scenario) -> None:
    kinds = {"success": "on_finish", "interrupt": "on_finish", "cancelled": "on_abort"}
    for sequence in recorded(scenario.name):
        told = next(
            name for name in sequence.names(layers_of(sequence)[0]) if name in TERMINAL_HOOKS
        )
        result = sequence.result
        assert told == ("on_abort" if result is None else kinds.get(result.outcome, "on_error"))


# -- the order that the design gives ------------------------------------------------------------

ITERATION = [
    "around_step begins[before_model, {0}]",
    "on_iteration[before_model, {0}]",
    "on_config[before_model, {0}]",
    "on_interrupt_boundary[before_model, {0}]",
    "around_model_call begins[model_stream, {0}]",
]
AFTER_MODEL = [
    "around_model_call ends[model_stream, {0}]",
    "on_usage[model_stream, {0}]",
    "on_interrupt_boundary[after_model, {0}]",
]
BEGIN = ["setup[init, 0]", "on_input[init, 0]", "around_run begins[init, 0]"]
BEGIN_LOOP = [*BEGIN, "on_config[init, 0]", "on_start[init, 0]"]
END = ["around_run ends[end, {0}]", "on_finish success[end, {0}]", "on_end[end, {0}]"]
ANSWER = [*ITERATION, "on_message assistant[model_stream, {0}]", *AFTER_MODEL]


def of(iteration: int, *hooks: str) -> list[str]:
    return [hook.format(iteration) for hook in hooks]


def test_a_plain_answer_calls_the_hooks_in_the_order_of_the_design() -> None:
    (sequence,) = recorded("plain answer")

    assert sequence.hooks() == [
        *BEGIN_LOOP,
        *of(0, *ANSWER, "around_step ends[after_model, {0}]", *END),
    ]
    assert sequence.types == [
        *("RUN_STARTED", "STEP_STARTED"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("STEP_FINISHED", "RUN_FINISHED"),
    ]


def test_two_iterations_with_tools_call_the_hooks_in_the_order_of_the_design() -> None:
    (sequence,) = recorded("two iterations, two tools")

    assert sequence.hooks() == [
        *BEGIN_LOOP,
        *of(0, *ITERATION, *AFTER_MODEL),
        "on_interrupt_boundary[before_tools, 0]",
        "on_before_tool_call look[before_tools, 0]",
        "on_before_tool_call read[before_tools, 0]",
        "around_tool_call look begins[before_tools, 0]",
        "around_tool_call read begins[before_tools, 0]",
        "around_tool_call look ends[before_tools, 0]",
        "around_tool_call read ends[before_tools, 0]",
        "on_after_tool_call look executed[before_tools, 0]",
        "on_tool_call look[before_tools, 0]",
        "on_after_tool_call read executed[before_tools, 0]",
        "on_tool_call read[before_tools, 0]",
        "on_tool_phase_complete[after_tools, 0]",
        "on_interrupt_boundary[after_tools, 0]",
        "around_step ends[after_tools, 0]",
        "on_should_continue[after_tools, 0]",
        *of(1, *ANSWER, "around_step ends[after_model, {0}]", *END),
    ]


def test_a_structured_call_alone_has_no_iteration_and_no_boundary() -> None:
    (sequence,) = recorded("output by a separate call, no tools")

    assert sequence.hooks() == [
        *BEGIN_LOOP,
        "on_structured_output_config[structured_output, 0]",
        "on_config[structured_output, 0]",
        "around_model_call begins[structured_output, 0]",
        "on_message assistant[structured_output, 0]",
        "around_model_call ends[structured_output, 0]",
        "on_usage[structured_output, 0]",
        *of(0, *END),
    ]


def test_the_native_path_asks_no_hook_for_a_structured_call() -> None:
    (sequence,) = recorded("output on the native path")

    assert "on_structured_output_config" not in sequence.names()
    assert [str(note) for note in sequence.notes if "structured" in note.what][-2:] == [
        "-> CUSTOM structured-output.start",
        "-> CUSTOM structured-output.complete",
    ]


def test_a_pause_before_the_model_is_no_iteration() -> None:
    """The run that goes on makes it: limits count it once, and on_should_continue is not asked."""
    paused, continued = recorded("interrupt before the model")

    assert "around_model_call" not in paused.names()
    assert continued.hooks()[5:8] == [
        "on_interrupt_resolution[init, 0]",
        "around_step begins[before_model, 0]",
        "on_iteration[before_model, 0]",
    ]


def test_a_run_that_goes_on_is_where_the_paused_one_was() -> None:
    _, continued = recorded("interrupt in the second iteration")

    assert continued.hooks()[5:7] == [
        "on_interrupt_resolution[init, 1]",
        "on_interrupt_boundary[before_tools, 1]",
    ]


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in GONE])
def test_who_goes_is_told_to_the_layers_once(scenario: Scenario) -> None:
    (sequence,) = recorded(scenario.name)

    cause = "consumer-gone" if scenario.name.startswith("consumer") else "cancelled"
    assert sequence.hooks()[-2].startswith(f"on_abort {cause}[")


def test_a_layers_failure_in_a_loop_is_told_as_a_layers() -> None:
    for name in ("error in before_model", "error in a tool call", "error in model_stream"):
        (sequence,) = recorded(name)
        assert sequence.hooks()[-2].startswith("on_error middleware-failed["), name


# -- the page -----------------------------------------------------------------------------------

Row = tuple[str, tuple[str, ...], tuple[str, ...]]
_MIN_SHARED = 3
"""How many rows have to be the same as in a scenario before, to be left out."""


def rows_of(sequence: Sequence) -> list[Row]:
    """Return the rows of a table: phase and iteration, hooks called, events that left then."""
    rows: list[tuple[str, list[tuple[str, list[str]]], list[str]]] = []
    at = ""
    for note in sequence.notes:
        if note.layer is not None:
            at = note.phase if note.phase == "end" else f"{note.phase}, {note.iteration}"
        silent = note.what.startswith("on_event ")
        if silent:
            continue
        if not rows or rows[-1][0] != at or (note.layer is not None and rows[-1][2]):
            rows.append((at, [], []))
        if note.layer is None:
            _add_event(rows[-1][2], note.what)
        else:
            _add_hook(rows[-1][1], note)
    return [(where, tuple(map(_hook, hooks)), tuple(events)) for where, hooks, events in rows]


def _add_hook(hooks: list[tuple[str, list[str]]], note: Note) -> None:
    assert note.layer is not None
    if hooks and hooks[-1][0] == note.what and note.layer not in hooks[-1][1]:
        hooks[-1][1].append(note.layer)
    else:
        hooks.append((note.what, [note.layer]))


def _hook(hook: tuple[str, list[str]]) -> str:
    name, _, about = hook[0].partition(" ")
    layers = ", ".join(layer for layer in hook[1] if layer)
    return " ".join(filter(None, (f"`{name}`", about, layers and f"({layers})")))


def _add_event(events: list[str], name: str) -> None:
    again = re.fullmatch(re.escape(f"`{name}`") + r"(?: x(\d+))?", events[-1]) if events else None
    if again is not None:
        events[-1] = f"`{name}` x{int(again[1] or 1) + 1}"
    else:
        events.append(f"`{name}`")


def table_of(rows: Many[Row], known: dict[str, list[Row]]) -> list[str]:
    """Write a table; rows with which an earlier scenario began, too, are left out."""
    lines = ["| phase, iteration | hooks | the consumer gets |", "|---|---|---|"]
    same, like = 0, ""
    for name, others in known.items():
        shared = 0
        while shared < min(len(rows), len(others)) and rows[shared] == others[shared]:
            shared += 1
        if shared > same:
            same, like = shared, name
    if same >= _MIN_SHARED:
        lines.append(f"| … | as in “{like}” so far | |")
        rows = rows[same:]
    lines += [
        f"| {where} | {', '.join(hooks)} | {', '.join(events)} |" for where, hooks, events in rows
    ]
    return lines


def tables() -> str:
    """Write all scenarios, in groups."""
    lines: list[str] = []
    known: dict[str, list[Row]] = {}
    for title, group in GROUPS.items():
        lines += [f"## {title}", ""]
        for scenario in group:
            lines += [f"### {scenario.name[0].upper()}{scenario.name[1:]}", "", scenario.said, ""]
            for number, sequence in enumerate(recorded(scenario.name)):
                rows = rows_of(sequence)
                if number:
                    lines += ["The run that goes on:", ""]
                lines += [*table_of(rows, known), ""]
                if scenario in ENDINGS:
                    known.setdefault(scenario.name, rows)
    return "\n".join(lines)


def test_the_page_shows_what_the_loop_does() -> None:
    page = PAGE.read_text()
    found = TABLES.search(page)
    assert found
    if os.environ.get("INTERPOSE_UPDATE_DOCS"):
        PAGE.write_text(f"{page[: found.start(2)]}{tables()}{page[found.end(2) :]}")
        return
    assert found[2] == tables(), "INTERPOSE_UPDATE_DOCS=1 writes it anew"
