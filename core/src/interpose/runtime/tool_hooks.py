"""The decisions of layers about tool calls: which tool, with which arguments, whether at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from interpose.authoring import Point
from interpose.errors import MiddlewareError
from interpose.loop.json_copy import UNCHANGING, json_copy
from interpose.payloads import (
    Abort,
    Ask,
    Deny,
    ResolvedTool,
    Skip,
    ToolCall,
    TransformArgs,
)
from interpose.runtime.layer import Frame
from interpose.services import Decided, Validate

_STRICTNESS: Final = {Skip: 1, Ask: 2, Deny: 3, Abort: 4}
_MOST_ROUNDS: Final = 5
"""How often essential layers may change the arguments of one call before it counts as a quarrel."""


async def resolve_tool(frames: Sequence[Frame], name: str) -> ResolvedTool | None:
    """Ask ``resolve_tool``. Two answers: :class:`MiddlewareError` naming both layers."""
    found: list[tuple[str, ResolvedTool]] = []
    for frame in frames:
        try:
            answer = await frame.call("resolve_tool", name)
            if answer is None:
                continue
            if not isinstance(answer, ResolvedTool) or answer.tool.name != name:
                given = getattr(getattr(answer, "tool", None), "name", type(answer).__name__)
                raise MiddlewareError(
                    f"layer {frame.layer.id!r} was asked to resolve the tool {name!r}, and "
                    f"gave {given!r}",
                    hint="return a ResolvedTool of that name, or None",
                )
        except Exception as error:
            if not frame.fail("resolve_tool", error):
                raise
            continue
        found.append((frame.layer.id, answer))
    if len(found) > 1:
        layers = " and ".join(repr(layer) for layer, _ in found)
        raise MiddlewareError(
            f"the tool {name!r} is resolved by the layers {layers}",
            hint="switch it off in one of them, or give it another name there",
        )
    return found[0][1] if found else None


async def decide(frames: Sequence[Frame], call: ToolCall, validate: Validate) -> Decided:
    """Ask ``on_before_tool_call``: arguments pipe, then the strictest decision wins.

    Layers for which TOOLS is essential are asked last, with the final arguments.
    """
    guards = [f for f in frames if Point.TOOLS in f.layer.declaration.essential]
    decided = Decided(call)
    for frame in frames:
        if frame not in guards:
            decided = await _ask(frame, decided, validate)
    for _ in range(_MOST_ROUNDS):
        before = decided.call
        for frame in guards:
            decided = await _ask(frame, decided, validate)
        if decided.call is before or len(guards) == 1:
            return decided
    names = " and ".join(repr(frame.layer.id) for frame in guards)
    raise MiddlewareError(
        f"the layers {names} keep changing the arguments of {call.name!r}",
        hint="an essential layer should decide on arguments, not change them each time",
    )


async def _ask(frame: Frame, so_far: Decided, validate: Validate) -> Decided:
    hook = "on_before_tool_call"
    layer = frame.layer.id
    try:
        given = own_copy(so_far.call)
        answer = await frame.call(hook, given)
        if given.args != so_far.call.args:
            frame.refuse_change(so_far.call, given, "the arguments of a call")
        if answer is None:
            return so_far
        if isinstance(answer, TransformArgs):
            refuse_observer(frame, hook)
            try:
                args = validate(answer.args)
            except ValueError as error:
                raise MiddlewareError(
                    f"layer {layer!r} gave {so_far.call.name!r} arguments that do not fit: {error}"
                ) from error
            return replace(so_far, call=replace(so_far.call, args=args))
        if type(answer) not in _STRICTNESS:
            raise MiddlewareError(
                f"{hook} of layer {layer!r} returned a {type(answer).__name__}",
                hint="return None, TransformArgs, Skip, Deny, Ask or Abort",
            )
    except Exception as error:
        if not frame.fail(hook, error):
            raise
        return so_far
    known = 0 if so_far.decision is None else _STRICTNESS[type(so_far.decision)]
    if _STRICTNESS[type(answer)] <= known:
        return so_far
    return replace(so_far, decision=answer, layer=layer)


def own_copy(call: ToolCall) -> ToolCall:
    """Return a call for one layer to look at: what it does to the arguments reaches nobody."""
    args = dict(call.args)
    if not UNCHANGING.issuperset(map(type, args.values())):
        args = json_copy(args)
    return ToolCall(call.id, call.name, args, call.effect)


def refuse_observer(frame: Frame, hook: str) -> None:
    """Raise :class:`MiddlewareError` if the layer may only look on."""
    if frame.layer.declaration.observes_only:
        raise MiddlewareError(
            f"{hook} of layer {frame.layer.id!r} changed something, but the middleware observes "
            "only"
        )
