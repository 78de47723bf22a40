"""Pausing a run, and going on with it when every answer is ours, in time, complete and valid.

The token says what was asked, the client's history has the calls, and the memory of this process
knows what was executed, used up or masked. Nothing is taken unless everything is right; every
problem is reported. A client's word is never enough: a call runs only if its token names it, its
text fits the token's digest, and no result of it came from elsewhere.

Across processes a token alone cannot tell that another process has used it up; until a store does,
``origin`` and the call's id make the idempotency key that tools can count on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from ag_ui.core import Interrupt, Message, ResumeEntry

from interpose.agui.tracking import quote
from interpose.errors import UsageError
from interpose.interrupts import Resolutions
from interpose.loop.answers import Edited, Reading, check_schema, problem_of, problem_with_batch
from interpose.loop.continuation import Continuation, Resumed
from interpose.loop.pending import NOT_HERE, find_calls
from interpose.loop.sealing import SEPARATOR, Forged, Sealed, deadline, is_masked, seal, unseal
from interpose.loop_errors import InvalidResume, ResumeProblem
from interpose.payloads import ToolCall, ToolResult

MOST: Final = 4096


@dataclass(slots=True)
class _Entry:
    """What this process knows of a continuation that the token does not say."""

    expires_at: float | None
    calls: tuple[ToolCall, ...] | None = None  # only where some were masked
    done: dict[str, ToolResult] = field(default_factory=dict)
    holder: Resumed | None = None
    used: bool = False

    @property
    def is_needless(self) -> bool:
        return not self.used and self.holder is None and self.calls is None and not self.done


class Continuations:
    """The paused runs of one agent, as far as the tokens do not carry them.

    A pause whose calls the consumer saw as they are needs no memory. What is kept goes when its
    continuation expires, and beyond ``most`` entries; an evicted one is refused as stale if its
    calls were masked. Used by many runs at once, in one event loop.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def pause(self, continuation: Continuation, *, key: bytes) -> tuple[Interrupt, ...]:
        """Return the interrupts to send, with sealed ids and with the time that ends them.

        Raises :class:`UsageError` when the questions do not fit each other or the calls, for a
        response schema that is none, and when the ids would be too long.
        """
        _check_questions(continuation)
        token = seal(continuation, key)
        if any(map(is_masked, continuation.calls, continuation.shown)):
            self._purge(continuation.issued_at)
            self._keep(_key(token), _Entry(continuation.expires_at, continuation.calls))
        return tuple(
            _sent(each.interrupt, token, continuation.expires_at) for each in continuation.questions
        )

    def resume(
        self,
        entries: Sequence[ResumeEntry],
        *,
        agent: str,
        thread_id: str,
        messages: Sequence[Message],
        key: bytes,
        now: float,
        edited: Edited,
    ) -> Resumed | None:
        """Return what the answers are to; None when none of them is to a question of ours.

        Ours is an id with a ``~``; other entries are left alone. ``messages``: the client's
        history. ``now``: seconds since the epoch. ``edited`` validates edited arguments, and
        raises ValueError. Raises :class:`InvalidResume` with every problem; nothing is claimed.
        """
        ours = [entry for entry in entries if SEPARATOR in entry.interrupt_id]
        if not ours:
            return None
        self._purge(now)
        taken, sealed, problems = _unseal_all(ours, key)
        if sealed is None:
            raise InvalidResume(problems)
        continuation = sealed.continuation
        if (continuation.agent, continuation.thread_id) != (agent, thread_id):
            problems.append(
                problem_with_batch("stale", "the answers belong to another thread or agent")
            )
            raise InvalidResume(problems)
        entry = self._entries.get(sealed.key, _Entry(continuation.expires_at))
        if entry.used or entry.holder is not None:
            raise InvalidResume([*problems, _conflict(entry)])
        found = find_calls(sealed, messages, entry.calls, entry.done)
        problems += [problem_with_batch("stale", said) for said in found.problems]
        calls = {call.id: call for call in found.calls}
        reading = Reading(sealed, calls, found.masked, edited, now)
        problems += reading.read(taken)
        answers = reading.answers()
        problems += [
            problem_with_batch("stale", f"the tool call {quote(id_)}: {NOT_HERE}")
            for id_ in found.unknown
            if id_ not in answers or answers[id_].approved
        ]
        if problems:
            raise InvalidResume(problems)
        return Resumed(
            sealed.key,
            replace(continuation, calls=found.calls, shown=found.shown),
            answers,
            Resolutions(reading.resolutions()),
            dict(entry.done),
        )

    def claim(self, resumed: Resumed) -> None:
        """Take a continuation for one run. Raises :class:`InvalidResume`, code ``conflict``.

        Also when another run has taken it, or executed some of it, since ``resume`` looked.
        """
        entry = self._entries.get(resumed.token)
        if entry is None:
            entry = _Entry(resumed.continuation.expires_at)
            self._keep(resumed.token, entry)
        if entry.holder is resumed:
            return
        if entry.used or entry.holder is not None or entry.done.keys() != resumed.done.keys():
            raise InvalidResume([_conflict(entry)])
        entry.holder = resumed

    def remember(self, resumed: Resumed, call_id: str, result: ToolResult) -> None:
        """Keep the result of an executed call, so that a further try does not execute it again."""
        if all(call.id != call_id for call in resumed.continuation.calls):
            raise UsageError(f"the continuation has no call {quote(call_id)}")
        entry = self._entries.get(resumed.token)
        if entry is None:  # it was released meanwhile
            entry = _Entry(resumed.continuation.expires_at)
            self._keep(resumed.token, entry)
        if not entry.used:
            entry.done[call_id] = result

    def release(self, resumed: Resumed) -> None:
        """Let a continuation be tried again: its run failed before its safe boundary."""
        entry = self._entries.get(resumed.token)
        if entry is None or entry.holder is not resumed:
            return
        entry.holder = None
        if entry.is_needless:
            del self._entries[resumed.token]

    def commit(self, resumed: Resumed) -> None:
        """Use a continuation up; whoever answers it again is refused. Raises UsageError.

        Only the run that has claimed it may.
        """
        entry = self._entries.get(resumed.token)
        if entry is None or entry.holder is not resumed:
            if entry is not None and entry.used:
                return
            raise UsageError("a continuation was committed without being claimed")
        entry.used, entry.holder, entry.calls = True, None, None
        entry.done.clear()

    def _keep(self, key: str, entry: _Entry) -> None:
        self._entries[key] = entry
        excess = len(self._entries) - self._most
        if excess <= 0:
            return
        # What fails closed goes first: without its arguments a pause is refused as stale, while a
        # forgotten use or result could be repeated. Claimed ones stay; there are as many as runs.
        idle = [(id_, each) for id_, each in self._entries.items() if each.holder is None]
        idle.sort(key=lambda item: item[1].used or bool(item[1].done))
        for id_, _ in [item for item in idle if item[0] != key][:excess]:
            del self._entries[id_]

    def _purge(self, now: float) -> None:
        """Forget what has expired; nothing can be executed for it any more."""
        over = [
            id_
            for id_, entry in self._entries.items()
            if entry.holder is None and entry.expires_at is not None and entry.expires_at <= now
        ]
        for id_ in over:
            del self._entries[id_]


def _unseal_all(
    entries: Sequence[ResumeEntry], key: bytes
) -> tuple[list[tuple[str, ResumeEntry]], Sealed | None, list[ResumeProblem]]:
    """Return entries with their own ids, the one token that they have, and problems."""
    opened: dict[str, Sealed | None] = {}
    taken: list[tuple[str, ResumeEntry]] = []
    problems: list[ResumeProblem] = []
    for entry in entries:
        own, _, token = entry.interrupt_id.rpartition(SEPARATOR)
        if token not in opened:
            opened[token] = _unseal(token, key)
        sealed = opened[token]
        if sealed is None or own not in sealed.deadlines:
            cut = own if len(own) <= 64 else f"{own[:64]}..."  # noqa: PLR2004 - a stranger chose it
            problems.append(problem_of(cut, "unknown-interrupt", "this agent did not ask it"))
        else:
            taken.append((own, entry))
    whole = {each.key: each for each in opened.values() if each is not None}
    if len(whole) > 1:
        problems.append(problem_with_batch("conflict", "the answers belong to more than one pause"))
        return taken, None, problems
    return taken, next(iter(whole.values()), None), problems


def _unseal(token: str, key: bytes) -> Sealed | None:
    try:
        return unseal(token, key)
    except Forged:
        return None


def _check_questions(continuation: Continuation) -> None:
    questions, calls = continuation.questions, continuation.calls
    if not questions:
        raise UsageError("a run that pauses has to ask something")
    ids = Counter(question.interrupt.id for question in questions)
    asked = Counter(each.call_id for each in questions if each.kind == "approval")
    known = {call.id for call in calls}
    twice = [id_ for id_, times in ids.items() if times > 1]
    if "" in ids or twice:
        raise UsageError(
            f"interrupts of one pause need ids of their own: {', '.join(map(quote, twice))}",
            hint="give each question another key",
        )
    if any(times > 1 or id_ not in known for id_, times in asked.items()):
        raise UsageError("an approval has to be about one call of its pause")
    if not continuation.clients <= known - asked.keys():
        raise UsageError("a call that the client runs is none of the pause, or needs an approval")
    if [call.id for call in calls] != [id_ for id_, _, _ in continuation.shown]:
        raise UsageError("the calls of a pause, and what was shown of them, do not match")
    for question in questions:
        if question.interrupt.response_schema is not None:
            check_schema(question.interrupt.id, question.interrupt.response_schema)


def _sent(interrupt: Interrupt, token: str, expires_at: float | None) -> Interrupt:
    fields: dict[str, object] = {"id": f"{interrupt.id}{SEPARATOR}{token}"}
    own, until = deadline(interrupt, None), deadline(interrupt, expires_at)
    if until is not None and until != own:
        fields["expires_at"] = datetime.fromtimestamp(until, UTC).isoformat()
    return interrupt.model_copy(update=fields)


def _key(token: str) -> str:
    return token.rpartition(".")[2]


def _conflict(entry: _Entry) -> ResumeProblem:
    said = "was answered already" if entry.used else "is being worked on by another run"
    return problem_with_batch("conflict", f"this pause {said}")
