"""What hooks receive besides the context: frozen facts about a run, a call or an iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ag_ui.core import Interrupt, Message, ResumeEntry, TokenUsage, Tool

Effect = Literal["read", "write", "idempotent"]


@dataclass(frozen=True, slots=True)
class FinishInfo:
    """The run ended well. ``outcome`` tells success from interrupt; ``duration``: seconds."""

    outcome: Literal["success", "interrupt"]
    duration: float
    usage: tuple[TokenUsage, ...] = ()
    result: Any = None
    interrupts: tuple[Interrupt, ...] = ()


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
    """One call of a model. Change it with :meth:`replace`; the change lives for this call only."""

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
    """What ``on_config`` may change; a field that is None in the answer stays as it is."""

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
    """What ``on_should_continue`` decides on, after ``iteration`` (from 0) of the loop."""

    iteration: int
    finish_reason: str | None
    tool_calls: int
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
    """What a tool call gave. ``error``, even empty, marks a failed call."""

    content: str
    error: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """A settled call. ``duration``: seconds; ``decided_by``: the layer that prevented it."""

    call: ToolCall
    ok: bool
    result: ToolResult
    duration: float
    source: Literal["executed", "skipped", "denied", "cached"] = "executed"
    decided_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPhaseInfo:
    """All calls of one iteration, settled, in call order."""

    iteration: int
    calls: tuple[ToolCallInfo, ...]


@dataclass(frozen=True, slots=True)
class ResolvedTool:
    """What ``resolve_tool`` answers: a tool, and the function that runs its calls."""

    tool: Tool
    run: Any
    effect: Effect = "write"


@dataclass(frozen=True, slots=True)
class TransformArgs:
    """Decision on a tool call: run it with these arguments (validated again)."""

    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skip:
    """Decision on a tool call: do not run it, answer with this result."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Deny:
    """Decision on a tool call: do not run it; the model sees ``reason``."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Decision on a tool call: pause the run until a person has answered."""

    message: str
    response_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """Decision on a tool call: end the run."""

    reason: str


ToolDecision = TransformArgs | Skip | Deny | Ask | Abort
Resolutions = Sequence[ResumeEntry]
InterruptDecision = Literal["stop", "cancel", "continue"]
