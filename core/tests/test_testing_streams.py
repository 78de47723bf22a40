"""The machinery of the checks of streams: cutting, folding, shrinking, weighing; what they say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
)

from interpose import (
    DROP,
    CallRun,
    Middleware,
    PatternTransform,
    Result,
    RunContext,
    Settings,
    on,
)
from interpose.agui import violations
from interpose.testing import (
    ContractViolation,
    Finding,
    contract,
    finished,
    reasoning,
    scripted,
    started,
    text,
    tool_call,
)
from interpose.testing.contracts.cutting import in_chunks, inside, joined, split, unevenly
from interpose.testing.contracts.folding import difference, expanded, fold
from interpose.testing.contracts.material import cases, halves
from interpose.testing.contracts.oddities import odd_cases
from interpose.testing.contracts.retained import kept_by, size_of
from interpose.testing.contracts.rules.passing_rules import contains
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import subject_of


def deltas(events: Sequence[BaseEvent]) -> list[str]:
    return [event.delta for event in events if isinstance(event, TextMessageContentEvent)]


def failing(name: str, cls: type[Middleware[Any, Any]], **options: Any) -> ContractViolation:
    checks = {check.name: check for check in contract(cls, **options)}
    with pytest.raises(ContractViolation) as caught:
        checks[name]()
    return caught.value


def passes(name: str, cls: type[Middleware[Any, Any]], **options: Any) -> None:
    for check in contract(cls, **options):
        if check.name == name:
            check()


class Plain(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        """Look on."""


# Cutting and folding ---------------------------------------------------------------------------
def test_pieces_are_joined_where_the_last_one_was() -> None:
    ada = text("a", "b", message_id="1")
    bob = text("c", "d", message_id="2")
    mixed = [event for pair in zip(ada, bob, strict=True) for event in pair]
    whole = joined(mixed)
    assert deltas(whole) == ["ab", "cd"]
    assert fold(whole) == fold(mixed)


def test_every_way_of_cutting_says_the_same() -> None:
    events = [*reasoning("think"), *text("hello damn world"), *tool_call("f", '{"a": "damn"}')]
    for cut in (list, joined, split, unevenly(1), unevenly(7), inside(["damn", "world"])):
        assert fold(cut(events)) == fold(events)


def test_letter_by_letter_and_empty_pieces() -> None:
    assert deltas(split(text("abc", ""))) == ["a", "b", "c", ""]


def test_a_cut_inside_words_cuts_each_of_them_and_nothing_else() -> None:
    assert deltas(inside(["damn"])(text("so da", "mn DAMN so"))) == ["so da", "mn D", "AMN so"]


def test_uneven_cuts_are_the_same_each_time() -> None:
    said = text("The quick brown fox jumps over the lazy dog.")
    assert deltas(unevenly(3)(said)) == deltas(unevenly(3)(said)) != deltas(unevenly(4)(said))


@pytest.mark.parametrize("repeat_ids", [True, False])
def test_the_chunk_form_expands_to_what_it_was_made_of(repeat_ids: bool) -> None:  # noqa: FBT001
    for case in cases(subject_of(Plain, None, None, None, ("damn",))):
        chunks = in_chunks(case.events, repeat_ids=repeat_ids)
        assert fold(chunks) == fold(case.events), case.name


def test_a_continuation_belongs_to_whoever_began() -> None:
    said = text("a", message_id="1", subagent_run_id="ada")
    said[1] = said[1].model_copy(update={"subagent_run_id": None})
    assert fold(said) == {"text 1 of ada": "a"}


def test_the_kits_streams_are_valid() -> None:
    subject = subject_of(Plain, None, None, None, ("damn", "lookup_order"))
    for case in (*cases(subject), *odd_cases(subject)):
        assert not list(violations([started(), *case.events, finished()])), case.name


def test_halves_of_a_short_text_are_the_text() -> None:
    for length in range(40):
        said = "abcdefghij" * 4
        assert "".join(halves(said[:length])) == said[:length]


def test_a_difference_is_told_in_one_line() -> None:
    one, two = fold(text("a mask")), fold(text("a task"))
    assert difference(one, two) == "text 1 is 'a mask' in the first, and 'a task' in the second"
    assert difference(one, one) == ""
    assert difference(one, {}) == "text 1 is missing in the second; the other says 'a mask'"


# Shrinking -------------------------------------------------------------------------------------
def shrunk(events: Sequence[BaseEvent], shows: Any) -> Sequence[BaseEvent]:
    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        return Finding("it", "not it") if shows(list(events)) else None

    found = asyncio.run(smallest(events, look))
    assert found is not None
    return found.stream


def test_what_needs_no_event_is_shown_without_any() -> None:
    assert shrunk(text("hello", "world"), lambda _: True) == ()


def test_the_smallest_text_is_left_in_one_piece() -> None:
    subject = subject_of(Plain, None, None, None, ("damn",))
    for case in cases(subject)[:3]:
        left = shrunk(case.events, lambda events: "damn" in str(fold(events)))
        assert list(left) == text("damn", message_id=left[0].message_id)  # type: ignore[attr-defined]


def test_pieces_that_matter_stay_pieces() -> None:
    events = split(text("it is 12 o'clock"))
    left = shrunk(events, lambda events: {"1", "2"} <= set(deltas(events)))
    assert deltas(left) == ["1", "2"]


def test_a_subagents_text_becomes_the_main_agents_where_that_shows_it_too() -> None:
    subject = subject_of(Plain, None, None, None, ("damn",))
    events = next(case.events for case in cases(subject) if "subagents" in case.name)
    left = shrunk(events, lambda events: "damn" in str(fold(events)))
    assert list(left) == text("damn", message_id="of-ada")


def test_arguments_stay_json_and_lose_keys() -> None:
    events = tool_call("f", ('{"a": 1, "b":', ' "damn it", "c": [1, 2]}'))

    def shows(events: list[BaseEvent]) -> bool:
        return "damn" in "".join(e.delta for e in events if isinstance(e, ToolCallArgsEvent))

    left = shrunk(events, shows)
    args = "".join(event.delta for event in left if isinstance(event, ToolCallArgsEvent))
    assert args == '{"":"damn"}'


# What a breach says ----------------------------------------------------------------------------
class MaskEachPiece(Middleware):
    """Masks a word that lies in one piece."""

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        return event.model_copy(update={"delta": event.delta.replace("damn", "****")})


def test_a_breach_of_text_split_says_what_matters() -> None:
    assert str(failing("text-split", MaskEachPiece, samples=["damn"])) == (
        "MaskEachPiece breaks its contract: text-split\n"
        "  happened: with each text in one piece and in the pieces below, it is not the same: "
        "text 1 is '****' in the first, and 'damn' in the second\n"
        "  expected: the same result however the text is cut\n"
        "  why it matters: A model cuts its text anywhere. What is found only when it lies in one "
        "piece leaks whenever it does not.\n"
        "  the smallest stream that shows it:\n"
        '    {"type":"TEXT_MESSAGE_START","messageId":"message","role":"assistant"}\n'
        '    {"type":"TEXT_MESSAGE_CONTENT","messageId":"message","delta":"da"}\n'
        '    {"type":"TEXT_MESSAGE_CONTENT","messageId":"message","delta":"mn"}\n'
        '    {"type":"TEXT_MESSAGE_END","messageId":"message"}'
    )


def test_what_is_random_is_not_taken_for_a_matter_of_pieces() -> None:
    numbers = iter(range(10_000))

    class Numbered(Middleware):
        @on(TextMessageStartEvent)
        def start(self, ctx: RunContext, event: TextMessageStartEvent) -> Result:
            said = f"{next(numbers)}: "
            return [event, TextMessageContentEvent(message_id=event.message_id, delta=said)]

    passes("text-split", Numbered)


class DropOdd(Middleware):
    """Drops one kind of custom events."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        if isinstance(event, CustomEvent) and event.name == "odd":
            return [
                event,
                event.model_copy(update={"name": "even"}),
                TextMessageEndEvent(message_id="m"),
            ]
        return event


def test_the_authors_agent_is_a_case() -> None:
    agent = scripted("Hi.", CustomEvent(name="odd", value=1))
    passes("valid-stream", DropOdd)
    told = str(failing("valid-stream", DropOdd, agent=agent))
    assert "no text message 'm' is open" in told
    assert told.endswith('stream that shows it:\n    {"type":"CUSTOM","name":"odd","value":1}')


def test_a_crash_on_an_odd_stream_names_the_exception() -> None:
    class First(Middleware):
        @on(TextMessageContentEvent)
        def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            return event.model_copy(update={"delta": event.delta[0] + event.delta[1:]})

    found = failing("odd-streams", First).finding
    assert found.happened == (
        "it failed, and the run with it: IndexError: string index out of range"
    )
    assert len(found.stream) <= 4


def test_a_raw_layer_sees_chunks_and_whole_events_alike() -> None:
    class Raw(Middleware):
        form = "raw"
        rewrites_history = True

        def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
            delta = getattr(event, "delta", None)
            if isinstance(delta, str):
                return event.model_copy(update={"delta": re.sub(r"\d", "•", delta)})
            return event

    passes("chunk-form", Raw)


# Passing, mutation, retraction -----------------------------------------------------------------
def test_what_holds_more_contains_what_holds_less() -> None:
    assert contains({"a": [1]}, {"a": [0, 1], "b": 2})
    assert contains({"a": None}, {})
    assert not contains({"a": {"b": 1}}, {"a": {"b": 2}})
    assert not contains([1, 2], [1])
    assert not contains({"a": 1}, None)


def test_an_event_that_is_lost_is_named() -> None:
    class NoSteps(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
            return DROP if event.type.value.startswith("STEP") else event

    found = failing("passes-others", NoSteps).finding
    assert found.happened == "STEP_STARTED did not leave, and nobody can know it"


def test_settings_are_compared_with_what_they_were_before_any_check() -> None:
    class Words(Settings):
        words: list[str] = ["b", "a"]  # noqa: RUF012 - pydantic copies it

    class Sorting(Middleware[Words]):
        def setup(self, ctx: RunContext) -> None:
            self.settings.words.sort()

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            """Look on."""

    failed = [result.name for result in contract(Sorting).run().failures]
    assert "no-mutation" in failed


def test_a_guard_that_counts_is_no_guard_that_shows_too_much() -> None:
    class AtMost(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.left = 60

        @on(TextMessageContentEvent)
        def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            self.left -= len(event.delta)
            if self.left < 0:
                ctx.finish()
            return event

    passes("no-retraction", AtMost)


class Numbers(PatternTransform):
    """Masks numbers."""

    @classmethod
    def rules(cls, settings: Any) -> Sequence[tuple[str, str]]:
        return [("number", r"\d+")]


def test_a_transform_that_says_what_it_covers_may_leave_snapshots_alone() -> None:
    from interpose import Covers

    class OnlyTexts(Numbers):
        covers = Covers.TEXT

    passes("stays-hidden", OnlyTexts)
    passes("no-retraction", OnlyTexts)


def test_a_snapshot_that_trims_old_messages_takes_nothing_back() -> None:
    class Trim(Middleware):
        @on(MessagesSnapshotEvent)
        def snapshot(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
            return event.model_copy(update={"messages": event.messages[:1]})

    passes("no-retraction", Trim)
    passes("stays-hidden", Trim)


# Overlap and memory ----------------------------------------------------------------------------
def test_what_counts_over_a_run_is_not_taken_for_mixing_up() -> None:
    class FirstOnly(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.begun = self.ended = 0

        @on(TextMessageStartEvent)
        def start(self, ctx: RunContext, event: TextMessageStartEvent) -> Result:
            self.begun += 1
            sign = TextMessageContentEvent(message_id=event.message_id, delta="» ")
            return [event, sign] if self.begun == 1 else event

        @on(TextMessageEndEvent)
        def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
            self.ended += 1
            sign = TextMessageContentEvent(message_id=event.message_id, delta=" «")
            return [sign, event] if self.ended == 1 else event

    passes("subagents", FirstOnly)


def test_size_counts_each_thing_once_and_nothing_of_the_host() -> None:
    said = "x" * 10_000
    assert size_of([said, [said]]) < 11_000
    assert size_of([{"a": said}, {"b": "y" * 10_000}]) > 20_000
    assert size_of([Plain, asyncio]) == 0


def test_closures_and_class_attributes_count() -> None:
    kept = ["x" * 10_000]

    class Keeps(Middleware):
        also = ("y" * 10_000,)

        def look(self) -> list[str]:
            return kept

    assert kept_by(Keeps(), generators=False) > 20_000
    assert kept_by(Plain(), generators=False) < 5_000


def test_variables_of_a_generator_count_while_it_waits() -> None:
    class Collects(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            seen: list[BaseEvent] = []
            async for event in call_next(run_input):
                seen.append(event)
                yield event

    found = failing("bounded-memory", Collects).finding
    assert "it remembers what was said" in found.happened


def test_a_number_for_each_message_is_no_content() -> None:
    class Lengths(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.lengths: dict[str, int] = {}

        @on(TextMessageContentEvent)
        def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            known = self.lengths.get(event.message_id, 0)
            self.lengths[event.message_id] = known + len(event.delta)
            return event

    passes("bounded-memory", Lengths)


def test_a_bound_that_a_transform_states_is_the_bound() -> None:
    class Patient(PatternTransform):
        max_hold = 20_000

        @classmethod
        def rules(cls, settings: Any) -> Sequence[tuple[str, str]]:
            return [("all", r"T[^#]{1,9000}#")]

    passes("bounded-memory", Patient)


def test_chunks_that_nobody_can_place_are_folded_as_they_are() -> None:
    chunks = in_chunks(text("a", "b"), repeat_ids=False)
    assert list(expanded(chunks[1:])) == chunks[1:]
