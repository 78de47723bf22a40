"""What hooks receive besides the context: frozen facts about a run, a call or an iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ag_ui.core import Interrupt, Message, TokenUsage, Tool
from pydantic_core import to_json

from interpose.errors import UsageError, described

Effect = Literal["read", "write", "idempotent"]


@dataclass(frozen=True, slots=True)
class LoopInfo:
    """What the built-in loop did in a run.

    ``content``: the text of the last iteration. ``usage``: of the loop's own model calls;
    ``other_usage``: of further ones by their purpose, as ``structured-output`` or what a layer
    named. ``limit`` names what ended the loop before the model was done: ``max_iterations(10)``.
    """

    iterations: int
    tool_calls: int
    finish_reason: str | None
    content: str
    usage: tuple[TokenUsage, ...] = ()
    other_usage: Mapping[str, tuple[TokenUsage, ...]] = field(default_factory=dict)
    output: Any = None
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class FinishInfo:
    """The run ended well. ``outcome`` tells success from interrupt; ``duration``: seconds.

    ``usage``: of the whole run. ``loop``: what the built-in loop did, if that was the agent.
    """

    outcome: Literal["success", "interrupt"]
    duration: float
    usage: tuple[TokenUsage, ...] = ()
    result: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    loop: LoopInfo | None = None


@dataclass(frozen=True, slots=True)
class AbortInfo:
    """The run was ended from outside or by ``ctx.abort``. ``duration``: seconds."""

    reason: str
    cause: Literal["abort", "cancelled", "consumer-gone"]
    duration: float


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The run failed. ``error`` is the original exception; only ``code`` and ``message`` left.

    ``duration``: seconds.
    """

    error: BaseException
    code: str
    message: str
    duration: float


@dataclass(frozen=True, slots=True)
class EndInfo:
    """However the run ended: ``kind`` says which of the three hooks came before ``on_end``."""

    kind: Literal["finish", "abort", "error"]
    info: FinishInfo | AbortInfo | ErrorInfo
    duration: float


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. Change it with :meth:`replace`; the change lives for this call only.

    ``model``: a key of ``[models]``. ``messages``: the conversation, without ``system_prompts``.
    ``settings``: as the provider names them (``temperature``). ``output_schema``: the JSON Schema
    that the text of the answer must fit.
    """

    model: str
    messages: tuple[Message, ...]
    system_prompts: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None

    def replace(self, **changes: Any) -> ModelRequest:
        """Return a copy with these fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What model calls are made with; in an answer, a field that is None stays as it is.

    An answer of ``on_config`` holds for the call at hand; with ``persist=True`` for all later ones.
    """

    model: str | None = None
    messages: tuple[Message, ...] | None = None
    system_prompts: tuple[str, ...] | None = None
    tools: tuple[Tool, ...] | None = None
    settings: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    persist: bool = False


@dataclass(frozen=True, slots=True)
class IterationInfo:
    """One pass of the loop; ``index`` counts from 0."""

    index: int
    message_id: str


@dataclass(frozen=True, slots=True)
class ContinueState:
    """What ``on_should_continue`` decides on, after ``iteration`` (from 0) of the loop.

    ``tool_calls``: of the whole run; ``last_tool_calls``: of this iteration.
    """

    iteration: int
    finish_reason: str | None
    tool_calls: int
    last_tool_calls: int = 0
    usage: tuple[TokenUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call with its parsed arguments; ``effect`` says whether repeating it is safe."""

    id: str
    name: str
    args: Mapping[str, Any]
    effect: Effect = "write"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call gave. ``error``, even empty, marks a failed call.

    ``metadata``: JSON. A field of another kind is a :class:`UsageError`.
    """

    content: str
    error: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _need("content of a ToolResult", self.content, str, "a text; write what is none as JSON")
        if self.error is not None:
            _need("error of a ToolResult", self.error, str, "a text, or None for a success")
        _need("metadata of a ToolResult", self.metadata, Mapping, "a mapping of what is JSON")
        if self.metadata:
            try:
                to_json(dict(self.metadata))
            except (ValueError, TypeError) as error:
                raise UsageError(
                    f"the metadata of a ToolResult is no JSON: {error}",
                    hint="keep what is not JSON in ctx.attributes",
                ) from error


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """A settled call. ``duration``: seconds; ``decided_by``: the layer that prevented it.

    ``source``: ``skipped`` and ``cached`` got their result from a layer, ``denied`` was refused by
    a layer or a person, ``invalid`` names no tool that was shown, or its arguments do not fit.
    """

    call: ToolCall
    ok: bool
    result: ToolResult
    duration: float
    source: Literal["executed", "skipped", "denied", "cached", "invalid"] = "executed"
    decided_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPhaseInfo:
    """All calls of one iteration, settled, in call order."""

    iteration: int
    calls: tuple[ToolCallInfo, ...]


@dataclass(frozen=True, slots=True)
class ResolvedTool:
    """What ``resolve_tool`` answers: a tool, and the function that runs its calls.

    ``run`` is what :func:`interpose.loop.tool` takes, called with the arguments by name; ``effect``
    says whether repeating a call is safe, ``timeout`` (seconds) how long one may take.
    """

    tool: Tool
    run: Callable[..., Any]
    effect: Effect = "write"
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class TransformArgs:
    """Decision on a tool call: run it with these arguments (validated again)."""

    args: Mapping[str, Any]

    def __post_init__(self) -> None:
        _need("args of TransformArgs", self.args, Mapping, "all arguments by their names")


@dataclass(frozen=True, slots=True)
class Skip:
    """Decision on a tool call: do not run it, answer with this result.

    ``cached``: the result is an earlier call's; observers then see ``source`` cached, not skipped.
    """

    result: ToolResult
    cached: bool = False

    def __post_init__(self) -> None:
        _need(
            "result of Skip",
            self.result,
            ToolResult,
            'a ToolResult, as in Skip(ToolResult("from the cache"))',
        )


@dataclass(frozen=True, slots=True)
class Deny:
    """Decision on a tool call: do not run it; the model sees ``reason``."""

    reason: str

    def __post_init__(self) -> None:
        _need("reason of Deny", self.reason, str, "a text")


@dataclass(frozen=True, slots=True)
class Ask:
    """Decision on a tool call: pause the run until a person has answered."""

    message: str
    response_schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _need("message of Ask", self.message, str, "the question as a text")


@dataclass(frozen=True, slots=True)
class Abort:
    """Decision on a tool call: end the run."""

    reason: str

    def __post_init__(self) -> None:
        _need("reason of Abort", self.reason, str, "a text")


def _need(what: str, value: object, kind: type, wanted: str) -> None:
    """Raise :class:`UsageError` in the very call that gives a wrong value, so that it is found."""
    if not isinstance(value, kind):
        raise UsageError(f"the {what} is {described(value)}", hint=f"give {wanted}")


ToolDecision = TransformArgs | Skip | Deny | Ask | Abort
"""What ``on_before_tool_call`` may answer, besides None."""
InterruptDecision = Literal["stop", "cancel", "continue"]
"""What ``on_interrupt_resolution`` may answer, besides None."""
