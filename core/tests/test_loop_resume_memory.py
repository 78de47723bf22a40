"""One run at a time, nothing twice, and a failed try can be tried again."""

from __future__ import annotations

import pytest
from ag_ui.core import Interrupt
from pausing import (
    KEY,
    LATER,
    LOOK,
    NOW,
    SEND,
    ask,
    cancel,
    history,
    paused,
    refused,
    resume,
    resumed,
    shown,
    yes,
)

from interpose.errors import UsageError
from interpose.loop.continuation import Resumed, approval
from interpose.loop.resume import Continuations
from interpose.loop_errors import InvalidResume
from interpose.payloads import ToolResult

RESULT = ToolResult("looked")
MASKED = (shown(SEND, to="[EMAIL]"), shown(LOOK))
CONFLICT = [("conflict", None)]


def paused_run(memory: Continuations) -> tuple[Interrupt, ...]:
    return memory.pause(paused(questions=(approval(SEND, "?"),)), key=KEY)


def masked_run(memory: Continuations, **changes: float) -> tuple[Interrupt, ...]:
    return memory.pause(paused(questions=(approval(SEND, "?"),), shown=MASKED, **changes), key=KEY)


def conflict(memory: Continuations, found: Resumed) -> bool:
    with pytest.raises(InvalidResume) as caught:
        memory.claim(found)
    return [(each.code, each.interrupt_id) for each in caught.value.problems] == CONFLICT


def test_a_pause_that_showed_everything_needs_no_memory() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    resumed(memory, [yes(sent[0])])

    assert len(memory) == 0


def test_two_runs_cannot_work_on_one_pause() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    one, two = (resumed(memory, [yes(sent[0])]) for _ in range(2))

    memory.claim(one)
    memory.claim(one)

    assert conflict(memory, two)
    assert refused(memory, [yes(sent[0])]) == CONFLICT
    memory.release(two)  # it holds nothing
    assert conflict(memory, two)


def test_a_pause_is_used_up_when_its_run_commits() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    one, two = (resumed(memory, [yes(sent[0])]) for _ in range(2))
    memory.claim(one)
    memory.commit(one)
    memory.commit(one)
    memory.release(one)

    assert conflict(memory, one)
    assert conflict(memory, two)
    assert refused(memory, [yes(sent[0])]) == CONFLICT
    assert refused(memory, [cancel(sent[0])]) == CONFLICT
    # Told at once, whatever else has changed since.
    assert refused(memory, [yes(sent[0], "?")], messages=history(results=["c1"])) == CONFLICT


def test_only_the_run_that_claimed_a_pause_commits_it() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    one, two = (resumed(memory, [yes(sent[0])]) for _ in range(2))
    with pytest.raises(UsageError, match="without being claimed"):
        memory.commit(one)
    memory.claim(one)
    with pytest.raises(UsageError, match="without being claimed"):
        memory.commit(two)


def test_a_failed_run_can_be_tried_again_and_executes_nothing_twice() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    first = resumed(memory, [yes(sent[0])])
    memory.claim(first)
    memory.remember(first, "c2", RESULT)
    memory.release(first)

    # The consumer has seen the result before the run failed, or has not.
    for messages in (history(results=["c2"]), history()):
        second = resumed(memory, [yes(sent[0])], messages=messages)
        assert second.done == {"c2": RESULT}
    assert refused(memory, [yes(sent[0])], messages=history(results=["c1"])) == [("stale", None)]
    memory.claim(second)
    memory.commit(second)
    assert refused(memory, [yes(sent[0])]) == CONFLICT


def test_another_answer_may_be_given_after_a_failed_try() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    first = resumed(memory, [yes(sent[0])])
    memory.claim(first)
    memory.release(first)

    assert len(memory) == 0
    assert not resumed(memory, [yes(sent[0], False)]).answers["c1"].approved


def test_a_run_that_looked_before_another_executed_something_has_to_look_again() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    slow, quick = (resumed(memory, [yes(sent[0])]) for _ in range(2))
    memory.claim(quick)
    memory.remember(quick, "c2", RESULT)
    memory.release(quick)

    assert conflict(memory, slow)
    memory.claim(resumed(memory, [yes(sent[0])]))


def test_a_result_that_comes_after_its_run_has_failed_is_kept() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    first = resumed(memory, [yes(sent[0])])
    memory.claim(first)
    memory.release(first)
    memory.remember(first, "c2", RESULT)

    assert resumed(memory, [yes(sent[0])]).done == {"c2": RESULT}


def test_a_result_that_comes_after_the_commit_is_not_kept() -> None:
    memory = Continuations()
    sent = paused_run(memory)
    first = resumed(memory, [yes(sent[0])])
    memory.claim(first)
    memory.commit(first)
    memory.remember(first, "c2", RESULT)

    assert refused(memory, [yes(sent[0])]) == CONFLICT
    assert not memory._entries[first.token].done


def test_results_belong_to_calls_of_the_pause() -> None:
    memory = Continuations()
    found = resumed(memory, [yes(paused_run(memory)[0])])

    with pytest.raises(UsageError, match="no call 'c9'"):
        memory.remember(found, "c9", RESULT)


def test_a_used_pause_keeps_no_argument() -> None:
    memory = Continuations()
    sent = masked_run(memory)
    found = resumed(memory, [yes(sent[0])], messages=history(MASKED))
    memory.claim(found)
    memory.remember(found, "c2", ToolResult("to ada@example.com"))
    memory.commit(found)

    assert "ada@" not in repr(memory._entries)
    assert len(memory) == 1


def test_what_is_kept_goes_when_it_expires() -> None:
    memory = Continuations()
    sent = masked_run(memory)
    used = resumed(memory, [yes(sent[0])], messages=history(MASKED))
    memory.claim(used)
    memory.commit(used)
    masked_run(memory)
    assert len(memory) == 2
    masked_run(memory, issued_at=LATER, expires_at=LATER + 60)
    assert len(memory) == 1

    # It is forgotten that the first was used up, and so it can run nothing.
    again = resumed(memory, [cancel(sent[0])], now=LATER, messages=history(MASKED))
    assert len(memory) == 1
    assert all(answer.cancelled for answer in again.answers.values())
    assert len(again.answers) == len(again.continuation.calls)


def test_what_is_kept_goes_when_someone_answers_late() -> None:
    memory = Continuations()
    masked_run(memory)

    assert refused(memory, [yes(paused_run(memory)[0])], now=LATER) == [("expired", "approval:c1")]
    assert len(memory) == 0


def test_a_claimed_pause_is_kept_beyond_its_end() -> None:
    memory = Continuations()
    sent = masked_run(memory)
    found = resumed(memory, [yes(sent[0])], messages=history(MASKED))
    memory.claim(found)

    assert resume(memory, []) is None
    masked_run(memory, issued_at=LATER + 60, expires_at=LATER + 120)

    assert refused(memory, [cancel(sent[0])], now=LATER + 60) == CONFLICT
    memory.commit(found)


def test_memory_is_bounded_and_forgets_first_what_fails_closed() -> None:
    memory = Continuations(most=10)
    used_of = paused_run(memory)
    used = resumed(memory, [yes(used_of[0])])
    memory.claim(used)
    memory.commit(used)
    failed_of = paused_run(memory)
    failed = resumed(memory, [yes(failed_of[0])])
    memory.claim(failed)
    memory.remember(failed, "c2", RESULT)
    memory.release(failed)
    open_ones = [masked_run(memory) for _ in range(50)]

    assert len(memory) == 10
    assert refused(memory, [yes(used_of[0])]) == CONFLICT
    assert resumed(memory, [yes(failed_of[0])]).done == {"c2": RESULT}
    messages = history(MASKED)
    assert refused(memory, [yes(open_ones[0][0])], messages=messages) == [("stale", None)]
    assert resume(memory, [yes(open_ones[-1][0])], messages=messages)


def test_memory_is_bounded_when_everything_is_used_up() -> None:
    memory = Continuations(most=3)
    for _ in range(20):
        found = resumed(memory, [yes(paused_run(memory)[0])])
        memory.claim(found)
        memory.commit(found)

    assert len(memory) == 3


def test_claimed_pauses_are_never_forgotten() -> None:
    memory = Continuations(most=2)
    held = []
    for _ in range(5):
        found = resumed(memory, [yes(paused_run(memory)[0])])
        memory.claim(found)
        held.append(found)
    assert len(memory) == 5
    for found in held:
        memory.commit(found)
    masked_run(memory)

    assert len(memory) == 2


def test_a_pause_without_an_end_is_kept() -> None:
    memory = Continuations()
    sent = memory.pause(paused(questions=(ask(),), shown=MASKED, expires_at=None), key=KEY)

    found = resumed(memory, [yes(sent[0])], now=NOW * 2, messages=history(MASKED))

    assert found.continuation.calls == (SEND, LOOK)
