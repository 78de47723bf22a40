"""Checks of what a middleware says about itself: points, promises, hooks that can be called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from interpose.authoring import Middleware, Point
from interpose.errors import InterposeError, StartupError
from interpose.model import ModelFinished
from interpose.testing.contracts.codes import mentioned, mentioned_around
from interpose.testing.contracts.exercising import exercise
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.playing import Heard
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.settings_rules import variants
from interpose.testing.contracts.setting_forms import as_plain
from interpose.testing.contracts.subject import Subject, declared

_POSITION: Final = frozenset({"iteration", "phase", "provider", "model_id", "message_id"})
"""What a context says of a loop; a layer that needs it may call the loop's points essential."""

_DECISIONS: Final = frozenset({"Deny", "Abort", "Ask", "abort"})
_ELSEWHERE: Final = frozenset({"around_run", "on_input", "on_event", "around_step"})
"""Hooks by which a guard could do its work around any other agent, too."""

_BROKEN: Final = ("observes only", "ctx.messages or ctx.state", "rewrites history")
"""What the host says when a promise is broken."""

_REPEATING: Final = ("around_run", "around_step", "around_model_call", "around_tool_call")


async def declares(subject: Subject) -> Finding | None:
    """Declare twice, and for other valid settings."""
    settings = subject.settings
    before = _form(settings)
    if declared(subject.cls, settings) != declared(subject.cls, settings):
        return Finding("called twice with the same settings, declare says two things", _PURE)
    if _form(settings) != before:
        return Finding("declare changes the settings that it is given", _PURE)
    for said, other in variants(settings):
        try:
            declared(subject.cls, other)
        except StartupError as error:
            why = "; ".join(problem.message for problem in error.problems)
            return Finding(f"with {said}, {why}", "a declaration for all valid settings")
    return None


_PURE: Final = "a function of the settings alone"


def _form(settings: object) -> object:
    try:
        return as_plain(settings)
    except ValueError:
        return repr(settings)


async def essential(subject: Subject) -> Finding | None:
    """Compare the points that it calls essential with those that its hooks need."""
    points = frozenset(subject.declaration.essential)
    used = set(subject.points) | {Point.RUN}
    if "around_run" in subject.facts.hooks:
        used |= {Point.EVENTS}
    if subject.declaration.rewrites_history:
        used |= {Point.HISTORY}
    names = mentioned(subject.cls)
    if names & _POSITION:
        used |= {Point.STEP, Point.MODEL}
    idle = sorted(points - used)
    if idle:
        return Finding(
            f"{', '.join(idle)} {'is' if len(idle) == 1 else 'are'} essential, and no hook needs "
            f"{'it' if len(idle) == 1 else 'them'}",
            "essential names points of the hooks without which it would be a false promise",
        )
    if Point.TOOLS not in points and _is_guard(subject):
        return Finding(
            "it decides about tool calls, and TOOLS is not essential: around an agent that does "
            "not offer TOOLS every call is allowed, and nobody is told",
            "essential = (Point.TOOLS,): there the host refuses to start",
        )
    return None


def _is_guard(subject: Subject) -> bool:
    hooks = subject.facts.hooks
    if "on_before_tool_call" not in hooks or subject.facts.on or _ELSEWHERE & set(hooks):
        return False
    return bool(mentioned(subject.cls, "on_before_tool_call") & _DECISIONS)


async def promises(subject: Subject) -> Finding | None:
    """Hold each promise against the hooks, then play: the host finds what does not keep it."""
    found = next(_idle_promises(subject), None)
    if found is not None:
        return found
    for name, heard in await exercise(subject):
        for said in _complaints(heard):
            if any(words in said for words in _BROKEN):
                return Finding(f"in {name}, {said}", "the attributes of the class say what it does")
    return None


def _complaints(heard: Heard) -> Iterator[str]:
    if isinstance(heard.error, InterposeError):
        yield heard.error.message
    for line in heard.logged:
        yield line.partition(" ")[2].splitlines()[0]


def _idle_promises(subject: Subject) -> Iterator[Finding]:
    declaration, hooks = subject.declaration, subject.facts.hooks
    if declaration.may_repeat and not any(hook in hooks for hook in _REPEATING):
        yield Finding(
            "may_repeat is declared, and no hook gets call_next",
            "may_repeat stands where call_next may be called again",
        )
    if declaration.may_continue and "around_run" not in hooks:
        yield Finding(
            "may_continue is declared, and there is no around_run",
            "may_continue stands where around_run calls call_next(..., continues=True)",
        )
    if declaration.tracks_state and not mentioned_around(subject.cls) & {"messages", "state"}:
        yield Finding(
            "tracks_state is declared, and neither ctx.messages nor ctx.state is read: the host "
            "keeps the whole conversation for nothing",
            "tracks_state stands where ctx.messages or ctx.state is read",
        )
    if declaration.rewrites_history and not subject.facts.has_event_hooks:
        yield Finding(
            "rewrites_history is declared, and no event passes through it",
            "rewrites_history stands where event hooks change what is stored",
        )


async def hooks(subject: Subject) -> Finding | None:
    """Look for hooks of events that never reach a layer, in whatever form."""
    for method in subject.facts.on:
        if method.event is ModelFinished:
            return Finding(
                f"{method.name} is for {method.event.__name__}, which never leaves the loop",
                "on_usage, which every model call reports to; or around_model_call",
            )
    return None


def _no_promise(subject: Subject) -> str:
    promised = ("may_repeat", "may_continue", "tracks_state", "observes_only", "rewrites_history")
    names = mentioned(subject.cls) & {"messages", "state"}
    made = names or any(getattr(subject.declaration, name) for name in promised)
    return "" if made else "it promises nothing"


def _no_points(subject: Subject) -> str:
    decides = "on_before_tool_call" in subject.facts.hooks
    return "" if subject.declaration.essential or decides else "no point is essential to it"


def _no_events(subject: Subject) -> str:
    return "" if subject.facts.on else "it has no @on method"


def _declares_nothing(subject: Subject) -> str:
    own = subject.cls.declare.__func__ is not Middleware.declare.__func__  # type: ignore[attr-defined]
    return "" if own else "its declaration does not depend on settings"


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "declare-pure",
        "The host declares before it resolves the order, for every agent anew; what fails or "
        "differs there stops the whole application.",
        declares,
        _declares_nothing,
    ),
    Rule(
        "points-essential",
        "The host refuses to start a layer around an agent that lacks an essential point: too many "
        "keep it from agents where it would work, too few let a guard guard nothing.",
        essential,
        _no_points,
    ),
    Rule(
        "promises-kept",
        "The plan, the order and the host's work follow what a class declares.",
        promises,
        _no_promise,
    ),
    Rule(
        "hooks-live",
        "A hook that is never called does nothing, and nobody notices.",
        hooks,
        _no_events,
    ),
)
