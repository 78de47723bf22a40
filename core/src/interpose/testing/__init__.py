"""Tests for middlewares, and for an application's own chain; needs no pytest.

Every name is loaded when first used, so importing this costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interpose.testing.agents import Part as Part
    from interpose.testing.agents import RecordingAgent as RecordingAgent
    from interpose.testing.agents import ScriptedAgent as ScriptedAgent
    from interpose.testing.agents import recorded as recorded
    from interpose.testing.agents import scripted as scripted
    from interpose.testing.clocks import FakeClock as FakeClock
    from interpose.testing.contracts.engine import Check as Check
    from interpose.testing.contracts.engine import CheckResult as CheckResult
    from interpose.testing.contracts.engine import Contract as Contract
    from interpose.testing.contracts.engine import Report as Report
    from interpose.testing.contracts.finding import ContractViolation as ContractViolation
    from interpose.testing.contracts.finding import Finding as Finding
    from interpose.testing.contracts.making import contract as contract
    from interpose.testing.contracts.making_for import agent_contract as agent_contract
    from interpose.testing.contracts.making_for import contract_for as contract_for
    from interpose.testing.contracts.making_for import model_contract as model_contract
    from interpose.testing.events import failed as failed
    from interpose.testing.events import finished as finished
    from interpose.testing.events import reasoning as reasoning
    from interpose.testing.events import started as started
    from interpose.testing.events import text as text
    from interpose.testing.events import tool_call as tool_call
    from interpose.testing.events import usage as usage
    from interpose.testing.events import user_input as user_input
    from interpose.testing.hosts import KitHost as KitHost
    from interpose.testing.hosts import app_host as app_host
    from interpose.testing.hosts import make_host as make_host
    from interpose.testing.plans import assert_order as assert_order
    from interpose.testing.plans import assert_plan as assert_plan
    from interpose.testing.streams import Played as Played
    from interpose.testing.streams import assert_valid_stream as assert_valid_stream
    from interpose.testing.streams import play as play

__all__ = [
    "Check",
    "CheckResult",
    "Contract",
    "ContractViolation",
    "FakeClock",
    "Finding",
    "KitHost",
    "Part",
    "Played",
    "RecordingAgent",
    "Report",
    "ScriptedAgent",
    "agent_contract",
    "app_host",
    "assert_order",
    "assert_plan",
    "assert_valid_stream",
    "contract",
    "contract_for",
    "failed",
    "finished",
    "make_host",
    "model_contract",
    "play",
    "reasoning",
    "recorded",
    "scripted",
    "started",
    "text",
    "tool_call",
    "usage",
    "user_input",
]

_HOMES = {
    "agents": "Part RecordingAgent ScriptedAgent recorded scripted",
    "clocks": "FakeClock",
    "contracts.engine": "Check CheckResult Contract Report",
    "contracts.finding": "ContractViolation Finding",
    "contracts.making": "contract",
    "contracts.making_for": "agent_contract contract_for model_contract",
    "events": "failed finished reasoning started text tool_call usage user_input",
    "hosts": "KitHost app_host make_host",
    "plans": "assert_order assert_plan",
    "streams": "Played assert_valid_stream play",
}
_HOME = {
    name: f"interpose.testing.{module}"
    for module, names in _HOMES.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'interpose.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
