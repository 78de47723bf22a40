"""The hooks of a middleware as data: what each needs, and how the answers of layers combine.

The pages about hooks are written from this and from the docstrings of :class:`Middleware`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from interpose.authoring import Point

_ISOLATED: Final = "all, outermost first, isolated"
_ENDING: Final = "all whose setup finished, last set up first, isolated"
_ONION: Final = "an onion, outermost first"


@dataclass(frozen=True, slots=True)
class HookRule:
    """One hook: the point it needs, its number of arguments after ``self``, how layers combine.

    ``shape``: a value is returned (``def`` or ``async def``), a stream is wrapped (an async
    generator), or a call is wrapped (a coroutine).
    """

    point: Point
    arguments: int
    combines: str
    shape: Literal["value", "stream", "call"] = "value"


HOOKS: Final[Mapping[str, HookRule]] = MappingProxyType(
    {
        "setup": HookRule(
            Point.RUN,
            1,
            "one after the other, outermost first, but providers before those who need them; "
            "one that raises stops the rest and gets no terminal hook",
        ),
        "on_input": HookRule(Point.RUN, 2, "a pipe, outermost first: None, or a new input"),
        "around_run": HookRule(Point.RUN, 3, _ONION, "stream"),
        "on_start": HookRule(Point.RUN, 1, _ISOLATED),
        "on_event": HookRule(Point.EVENTS, 2, "a pipe, innermost first: 0 to n events"),
        "on_message": HookRule(Point.EVENTS, 2, "all, innermost first, isolated"),
        "on_tool_call": HookRule(Point.EVENTS, 3, "all, innermost first, isolated"),
        "on_usage": HookRule(Point.EVENTS, 2, "all, innermost first, isolated"),
        "on_finish": HookRule(Point.RUN, 2, _ENDING),
        "on_abort": HookRule(Point.RUN, 2, _ENDING),
        "on_error": HookRule(Point.RUN, 2, _ENDING),
        "on_end": HookRule(Point.RUN, 2, _ENDING),
        "on_config": HookRule(Point.MODEL, 2, "a pipe of partial changes, outermost first"),
        "on_structured_output_config": HookRule(Point.MODEL, 2, "a pipe, outermost first"),
        "around_model_call": HookRule(Point.MODEL, 3, _ONION, "stream"),
        "on_iteration": HookRule(Point.STEP, 2, _ISOLATED),
        "around_step": HookRule(Point.STEP, 2, _ONION, "stream"),
        "on_should_continue": HookRule(
            Point.STEP, 2, "all are asked; one False ends the run normally"
        ),
        "resolve_tool": HookRule(Point.TOOLS, 2, "two answers are an error that names both"),
        "on_before_tool_call": HookRule(
            Point.TOOLS,
            2,
            "changed arguments pipe; then the strictest wins: abort, deny, ask, skip, run",
        ),
        "around_tool_call": HookRule(Point.TOOLS, 3, _ONION, "call"),
        "on_after_tool_call": HookRule(Point.TOOLS, 2, _ISOLATED),
        "on_tool_phase_complete": HookRule(Point.TOOLS, 2, _ISOLATED),
        "on_interrupt_boundary": HookRule(Point.INTERRUPTS, 1, "one batch of interrupts"),
        "on_interrupt_resolution": HookRule(
            Point.INTERRUPTS, 2, "the strictest wins: stop, cancel, continue"
        ),
    }
)
"""Every hook of a middleware, in the order of the documentation."""
