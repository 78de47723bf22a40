"""What each layer did to a stream, told from what entered and what left it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.plan import Plan


@dataclass(frozen=True, slots=True)
class Content:
    """What a stream says in one place: the text of a message, or a part of a tool call."""

    label: str
    chunks: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole, however it was split."""
        return "".join(self.chunks)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one layer did. ``changed``: before and after; ``entered``, ``left``: events."""

    position: int
    layer: str
    entered: int
    left: int
    changed: tuple[tuple[Content, Content], ...]
    hidden: tuple[Content, ...]
    added: tuple[Content, ...]
    logged: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        """Whether all content passed as it was."""
        return not (self.changed or self.hidden or self.added)


@dataclass(frozen=True, slots=True)
class Observed:
    """A run, seen between its layers. ``effects``: innermost first, as the events come up."""

    sent: tuple[BaseEvent, ...]
    contents: tuple[Content, ...]
    effects: tuple[Effect, ...]

    @classmethod
    def of(
        cls,
        plan: Plan,
        boundaries: Sequence[tuple[BaseEvent, ...]],
        logged: Iterable[tuple[str, str]] = (),
    ) -> Self:
        """Compare neighbouring boundaries, outermost first; ``logged``: layer and line."""
        lines = tuple(logged)
        sides = zip(plan.layers, pairwise(boundaries), strict=True)
        effects = tuple(
            _effect(
                layer.position,
                layer.id,
                inside,
                outside,
                tuple(line for owner, line in lines if owner == layer.id),
            )
            for layer, (outside, inside) in sides
        )
        sent = boundaries[-1]
        return cls(sent, tuple(contents(sent).values()), effects[::-1])


def _effect(
    position: int,
    layer: str,
    inside: Sequence[BaseEvent],
    outside: Sequence[BaseEvent],
    logged: tuple[str, ...],
) -> Effect:
    before, after = contents(inside), contents(outside)
    return Effect(
        position=position,
        layer=layer,
        entered=len(inside),
        left=len(outside),
        changed=tuple(
            (content, after[key])
            for key, content in before.items()
            if key in after and after[key].text != content.text
        ),
        hidden=tuple(content for key, content in before.items() if key not in after),
        added=tuple(content for key, content in after.items() if key not in before),
        logged=logged,
    )


def contents(events: Iterable[BaseEvent]) -> dict[tuple[str, str], Content]:
    """Return what a stream says, by kind and id, in the order in which it begins to say it."""
    chunks: dict[tuple[str, str], list[str]] = {}
    tools: dict[str, str] = {}
    for event in events:
        match event:
            case TextMessageContentEvent():
                chunks.setdefault(("text", event.message_id), []).append(event.delta)
            case ReasoningMessageContentEvent():
                chunks.setdefault(("reasoning", event.message_id), []).append(event.delta)
            case ToolCallStartEvent():
                tools[event.tool_call_id] = event.tool_call_name
                chunks.setdefault(("call", event.tool_call_id), [])
            case ToolCallArgsEvent():
                chunks.setdefault(("call", event.tool_call_id), []).append(event.delta)
            case ToolCallResultEvent(content=str(content)):
                chunks.setdefault(("result", event.tool_call_id), []).append(content)
            case _:
                pass
    return {
        (kind, part): Content(_label(kind, tools.get(part, part)), tuple(said))
        for (kind, part), said in chunks.items()
    }


def _label(kind: str, tool: str) -> str:
    return f"{kind} of {tool}" if kind in ("call", "result") else kind
