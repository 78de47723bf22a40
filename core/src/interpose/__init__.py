"""Interpose: a host for AI-agent middleware.

Every public name is here; it is loaded when first used, so ``import interpose`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._version import __version__

if TYPE_CHECKING:
    from interpose.agui.encoding import encode as encode
    from interpose.authoring import Agent as Agent
    from interpose.authoring import AgentFactory as AgentFactory
    from interpose.authoring import CallModel as CallModel
    from interpose.authoring import CallRun as CallRun
    from interpose.authoring import CallStep as CallStep
    from interpose.authoring import CallTool as CallTool
    from interpose.authoring import Declaration as Declaration
    from interpose.authoring import Layer as Layer
    from interpose.authoring import Middleware as Middleware
    from interpose.authoring import NoSettings as NoSettings
    from interpose.authoring import Point as Point
    from interpose.authoring import Provider as Provider
    from interpose.authoring import Settings as Settings
    from interpose.authoring import Stage as Stage
    from interpose.authoring import middleware as middleware
    from interpose.capability import CREDENTIALS as CREDENTIALS
    from interpose.capability import PRINCIPAL as PRINCIPAL
    from interpose.capability import Capability as Capability
    from interpose.capability import Credentials as Credentials
    from interpose.capability import Principal as Principal
    from interpose.context import AgentContext as AgentContext
    from interpose.context import LifespanContext as LifespanContext
    from interpose.context import RunContext as RunContext
    from interpose.errors import AgentFailed as AgentFailed
    from interpose.errors import CapabilityError as CapabilityError
    from interpose.errors import DeadlineExceeded as DeadlineExceeded
    from interpose.errors import InputError as InputError
    from interpose.errors import InterposeError as InterposeError
    from interpose.errors import InvalidStream as InvalidStream
    from interpose.errors import MiddlewareError as MiddlewareError
    from interpose.errors import Problem as Problem
    from interpose.errors import Reject as Reject
    from interpose.errors import RemoteFailed as RemoteFailed
    from interpose.errors import RemoteUnavailable as RemoteUnavailable
    from interpose.errors import RepeatAfterOutput as RepeatAfterOutput
    from interpose.errors import ReplayError as ReplayError
    from interpose.errors import RunError as RunError
    from interpose.errors import StartupError as StartupError
    from interpose.errors import Transient as Transient
    from interpose.errors import TruncatedStream as TruncatedStream
    from interpose.errors import UsageError as UsageError
    from interpose.events import DROP as DROP
    from interpose.events import Drop as Drop
    from interpose.events import Result as Result
    from interpose.events import Returned as Returned
    from interpose.events import on as on
    from interpose.hookspecs import hookimpl as hookimpl
    from interpose.host import Host as Host
    from interpose.interrupts import InterruptDefinition as InterruptDefinition
    from interpose.interrupts import Resolution as Resolution
    from interpose.interrupts import Resolutions as Resolutions
    from interpose.loop_errors import InvalidModelRequest as InvalidModelRequest
    from interpose.loop_errors import InvalidResume as InvalidResume
    from interpose.loop_errors import ModelFailed as ModelFailed
    from interpose.loop_errors import ModelRefused as ModelRefused
    from interpose.loop_errors import ModelUnavailable as ModelUnavailable
    from interpose.loop_errors import OutputError as OutputError
    from interpose.loop_errors import QuotaExceeded as QuotaExceeded
    from interpose.loop_errors import RateLimited as RateLimited
    from interpose.loop_errors import RequestTooLong as RequestTooLong
    from interpose.loop_errors import ResumeProblem as ResumeProblem
    from interpose.loop_errors import ToolError as ToolError
    from interpose.model import Ability as Ability
    from interpose.model import FinishReason as FinishReason
    from interpose.model import Model as Model
    from interpose.model import ModelAnswer as ModelAnswer
    from interpose.model import ModelContext as ModelContext
    from interpose.model import ModelFactory as ModelFactory
    from interpose.model import ModelFinished as ModelFinished
    from interpose.model import ModelHandle as ModelHandle
    from interpose.payloads import Abort as Abort
    from interpose.payloads import AbortInfo as AbortInfo
    from interpose.payloads import Ask as Ask
    from interpose.payloads import ContinueState as ContinueState
    from interpose.payloads import Deny as Deny
    from interpose.payloads import EndInfo as EndInfo
    from interpose.payloads import ErrorInfo as ErrorInfo
    from interpose.payloads import FinishInfo as FinishInfo
    from interpose.payloads import InterruptDecision as InterruptDecision
    from interpose.payloads import IterationInfo as IterationInfo
    from interpose.payloads import LoopInfo as LoopInfo
    from interpose.payloads import ModelConfig as ModelConfig
    from interpose.payloads import ModelRequest as ModelRequest
    from interpose.payloads import ResolvedTool as ResolvedTool
    from interpose.payloads import Skip as Skip
    from interpose.payloads import ToolCall as ToolCall
    from interpose.payloads import ToolCallInfo as ToolCallInfo
    from interpose.payloads import ToolDecision as ToolDecision
    from interpose.payloads import ToolPhaseInfo as ToolPhaseInfo
    from interpose.payloads import ToolResult as ToolResult
    from interpose.payloads import TransformArgs as TransformArgs
    from interpose.plan import Plan as Plan
    from interpose.runtime.run import Run as Run
    from interpose.runtime.run import RunResult as RunResult
    from interpose.runtime.tracing import LayerTrace as LayerTrace
    from interpose.runtime.tracing import Trace as Trace
    from interpose.runtime.tracing import TracedEvent as TracedEvent
    from interpose.services import Clock as Clock
    from interpose.text import Covers as Covers
    from interpose.text import PatternTransform as PatternTransform
    from interpose.text import Scan as Scan
    from interpose.text import TextTransform as TextTransform

__all__ = [
    "CREDENTIALS",
    "DROP",
    "PRINCIPAL",
    "Ability",
    "Abort",
    "AbortInfo",
    "Agent",
    "AgentContext",
    "AgentFactory",
    "AgentFailed",
    "Ask",
    "CallModel",
    "CallRun",
    "CallStep",
    "CallTool",
    "Capability",
    "CapabilityError",
    "Clock",
    "ContinueState",
    "Covers",
    "Credentials",
    "DeadlineExceeded",
    "Declaration",
    "Deny",
    "Drop",
    "EndInfo",
    "ErrorInfo",
    "FinishInfo",
    "FinishReason",
    "Host",
    "InputError",
    "InterposeError",
    "InterruptDecision",
    "InterruptDefinition",
    "InvalidModelRequest",
    "InvalidResume",
    "InvalidStream",
    "IterationInfo",
    "Layer",
    "LayerTrace",
    "LifespanContext",
    "LoopInfo",
    "Middleware",
    "MiddlewareError",
    "Model",
    "ModelAnswer",
    "ModelConfig",
    "ModelContext",
    "ModelFactory",
    "ModelFailed",
    "ModelFinished",
    "ModelHandle",
    "ModelRefused",
    "ModelRequest",
    "ModelUnavailable",
    "NoSettings",
    "OutputError",
    "PatternTransform",
    "Plan",
    "Point",
    "Principal",
    "Problem",
    "Provider",
    "QuotaExceeded",
    "RateLimited",
    "Reject",
    "RemoteFailed",
    "RemoteUnavailable",
    "RepeatAfterOutput",
    "ReplayError",
    "RequestTooLong",
    "Resolution",
    "Resolutions",
    "ResolvedTool",
    "Result",
    "ResumeProblem",
    "Returned",
    "Run",
    "RunContext",
    "RunError",
    "RunResult",
    "Scan",
    "Settings",
    "Skip",
    "Stage",
    "StartupError",
    "TextTransform",
    "ToolCall",
    "ToolCallInfo",
    "ToolDecision",
    "ToolError",
    "ToolPhaseInfo",
    "ToolResult",
    "Trace",
    "TracedEvent",
    "TransformArgs",
    "Transient",
    "TruncatedStream",
    "UsageError",
    "__version__",
    "encode",
    "hookimpl",
    "middleware",
    "on",
]

_AUTHORING = """Agent AgentFactory CallModel CallRun CallStep CallTool Declaration Layer Middleware
NoSettings Point Provider Settings Stage middleware"""
_ERRORS = """AgentFailed CapabilityError DeadlineExceeded InputError InterposeError InvalidStream
MiddlewareError Problem Reject RemoteFailed RemoteUnavailable RepeatAfterOutput ReplayError RunError
StartupError Transient TruncatedStream UsageError"""
_LOOP_ERRORS = """InvalidModelRequest InvalidResume ModelFailed ModelRefused ModelUnavailable
OutputError QuotaExceeded RateLimited RequestTooLong ResumeProblem ToolError"""
_MODEL = (
    "Ability FinishReason Model ModelAnswer ModelContext ModelFactory ModelFinished ModelHandle"
)
_PAYLOADS = """Abort AbortInfo Ask ContinueState Deny EndInfo ErrorInfo FinishInfo
InterruptDecision IterationInfo LoopInfo ModelConfig ModelRequest ResolvedTool Skip ToolCall
ToolCallInfo ToolDecision ToolPhaseInfo ToolResult TransformArgs"""

_HOMES = {
    "agui.encoding": "encode",
    "authoring": _AUTHORING,
    "capability": "CREDENTIALS PRINCIPAL Capability Credentials Principal",
    "context": "AgentContext LifespanContext RunContext",
    "errors": _ERRORS,
    "events": "DROP Drop Result Returned on",
    "hookspecs": "hookimpl",
    "host": "Host",
    "interrupts": "InterruptDefinition Resolution Resolutions",
    "loop_errors": _LOOP_ERRORS,
    "model": _MODEL,
    "payloads": _PAYLOADS,
    "plan": "Plan",
    "runtime.run": "Run RunResult",
    "runtime.tracing": "LayerTrace Trace TracedEvent",
    "services": "Clock",
    "text": "Covers PatternTransform Scan TextTransform",
}
_HOME = {name: f"interpose.{module}" for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'interpose' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
