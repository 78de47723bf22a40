"""The plan as people read it: text, Mermaid, JSON, and the answer to why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interpose.errors import UsageError
from interpose.plan import Plan, SettingOrigin
from interpose.startup.candidates import (
    AgentCandidate,
    Candidate,
    CapabilityRef,
    PartCandidate,
    Reference,
)
from interpose.startup.plan_text import plan_json, plan_mermaid, plan_text, why
from interpose.startup.planning import Configured, plan_agents

STORE = CapabilityRef("key-value")


def layer(name: str, index: int, **more: Any) -> Candidate:
    given = {"middleware": name, "distribution": f"interpose-{name}", "version": "1.0"} | more
    return Candidate(id=name, file_index=index, place=f"interpose.toml:{10 + index}", **given)


@pytest.fixture
def plan() -> Plan:
    layers = (
        layer(
            "redact-eu",
            0,
            middleware="redact",
            distribution="interpose-redact",
            has_event_hooks=True,
            rewrites_history=True,
            hooks={"on_event": "EVENTS"},
            settings=(SettingOrigin("entities", "interpose.toml:11"),),
        ),
        layer(
            "filter",
            1,
            has_event_hooks=True,
            after=("redact",),
            hooks={"on_event": "EVENTS", "on_after_tool_call": "TOOLS"},
        ),
        layer(
            "quota", 2, requires=(STORE,), operator_before=(Reference("filter", "local.toml:3"),)
        ),
        layer("log", 3, stage="observe", distribution="", observes_only=True, has_event_hooks=True),
    )
    agent = AgentCandidate(id="default", use="scripted", place="interpose.toml:1")
    sql = PartCandidate(
        kind="provider", id="sql", distribution="interpose-sql", version="2.1", provides=(STORE,)
    )
    return plan_agents(Configured(agents=(agent,), layers=layers, parts=(sql,))).plans["default"]


def test_the_text_tells_order_reasons_and_what_each_layer_sees(plan: Plan) -> None:
    assert plan_text(plan) == (
        "Plan for agent default (scripted)\n"
        "\n"
        "  caller\n"
        "    |  input goes down, events come up\n"
        "    |\n"
        "   1. log  observe, in-house\n"
        "    |    place      stage observe\n"
        "    |    sees       input raw; events masked by redact-eu, changed by filter\n"
        "    |    on failure skip\n"
        "    |\n"
        "   2. quota  shape, interpose-quota 1.0\n"
        "    |    place      before filter: local.toml:3\n"
        "    |    sees       input raw; events masked by redact-eu, changed by filter\n"
        "    |    requires   key-value, provided by provider sql\n"
        "    |\n"
        "   3. filter  shape, interpose-filter 1.0\n"
        "    |    place      stage shape, file order\n"
        "    |    sees       input raw; events masked by redact-eu\n"
        "    |    hooks      on_event\n"
        "    |    inert      on_after_tool_call (the agent does not offer TOOLS)\n"
        '    |    overruled  wish after = ["redact"] of filter (interpose-filter 1.0), because filter outside\n'
        "    |               redact-eu: filter works on the stream and does not rewrite history\n"
        "    |               (interpose-filter 1.0, interpose.toml:11), redact-eu rewrites history\n"
        "    |               (interpose-redact 1.0, interpose.toml:10)\n"
        "    |\n"
        "   4. redact-eu (redact)  content, interpose-redact 1.0\n"
        "    |    place      stage content\n"
        "    |    sees       input raw; events raw\n"
        "    |    hooks      on_event\n"
        "    |    settings   entities (interpose.toml:11)\n"
        "    |\n"
        "  agent default\n"
        "         offers     RUN, EVENTS\n"
        "         sees       input raw\n"
        "\n"
        "Providers and models\n"
        "  provider sql  interpose-sql 2.1\n"
        "    provides   key-value, used by layer quota\n"
        "\n"
        "Lifespans start in the order provider sql, layer quota\n"
        "\n"
        "warning[history-cut]: agent default (scripted) does not offer HISTORY: redact-eu sits just outside it and rewrites what leaves it, not what it keeps and sends to its model\n"
        "  at interpose.toml:1"
    )


def test_colour_adds_only_escapes(plan: Plan) -> None:
    colored = plan_text(plan, color=True)
    assert "\x1b[1mlog\x1b[0m" in colored
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        colored = colored.replace(code, "")
    assert colored == plan_text(plan)


def test_the_text_is_ascii_and_an_empty_chain_is_a_plan_too(plan: Plan) -> None:
    assert plan_text(plan).isascii()
    empty = plan_agents(Configured(agents=(AgentCandidate(id="default", use="scripted"),)))
    assert plan_text(empty.plans["default"]) == (
        "Plan for agent default (scripted)\n"
        "\n"
        "  caller\n"
        "    |  input goes down, events come up\n"
        "    |\n"
        "  agent default\n"
        "         offers     RUN, EVENTS\n"
        "         sees       input raw"
    )


def test_an_order_of_setups_or_lifespans_is_told_only_where_needs_make_one() -> None:
    token = CapabilityRef("token", scope="run")
    layers = (layer("a", 0, requires=(token,)), layer("b", 1, provides=(token,)))
    given = Configured(agents=(AgentCandidate(id="default"),), layers=layers)
    text = plan_text(plan_agents(given).plans["default"])
    assert text.endswith("\n\nSetups run in the order b, a")
    assert "Lifespans" not in text


def test_the_chart_numbers_layers_and_quotes_labels(plan: Plan) -> None:
    assert plan_mermaid(plan) == (
        "flowchart TB\n"
        '  caller(["caller"])\n'
        '  L1["1. log (observe): stage observe"]\n'
        '  L2["2. quota (shape): before filter: local.toml:3"]\n'
        '  L3["3. filter (shape): stage shape, file order"]\n'
        '  L4["4. redact-eu (content): stage content"]\n'
        '  agent(["agent default (scripted)"])\n'
        "  caller --> L1 --> L2 --> L3 --> L4 --> agent\n"
        '  L2 -. "must: quota before = [#quot;filter#quot;]" .-> L3'
    )


def test_the_json_is_the_plans_own_form(plan: Plan) -> None:
    assert json.loads(plan_json(plan)) == plan.to_json()


def test_why_names_a_direct_edge_and_its_place(plan: Plan) -> None:
    assert why(plan, "filter", "quota") == (
        "quota (2.) is outside filter (3.)\n"
        '  must: quota outside filter: the operator\'s before = ["filter"] of quota (local.toml:3)\n'
        "quota sees input raw; events masked by redact-eu, changed by filter\n"
        "filter sees input raw; events masked by redact-eu"
    )


def test_why_follows_a_chain_and_a_wall_is_one_step_of_it(plan: Plan) -> None:
    assert why(plan, "quota", "redact-eu") == (
        "quota (2.) is outside redact-eu (4.)\n"
        '  chain: quota outside filter: the operator\'s before = ["filter"] of quota (local.toml:3)\n'
        "  chain: filter outside redact-eu: filter works on the stream and does not rewrite history (interpose-filter 1.0, interpose.toml:11), redact-eu rewrites history (interpose-redact 1.0, interpose.toml:10)\n"
        "quota sees input raw; events masked by redact-eu, changed by filter\n"
        "redact-eu sees input raw; events raw"
    )


def test_why_shows_a_wish_that_was_overruled(plan: Plan) -> None:
    assert '  overruled: wish after = ["redact"] of filter (interpose-filter 1.0), because ' in why(
        plan, "redact-eu", "filter"
    )


def test_why_falls_back_to_the_default_order() -> None:
    layers = (
        layer("a", 0),
        layer("b", 1),
        layer("c", 2, stage="call"),
        layer("d", 3, before=("c",)),
    )
    given = Configured(agents=(AgentCandidate(id="default"),), layers=layers)
    plan = plan_agents(given).plans["default"]
    untied = "  no chain of edges ties them to each other"
    assert why(plan, "a", "b").splitlines()[1:3] == [
        untied,
        "  default order: both are of stage shape, and a comes first in file order (interpose.toml:10, interpose.toml:11)",
    ]
    assert why(plan, "c", "a").splitlines()[1:3] == [
        untied,
        "  default order: stage shape is outside stage call",
    ]


def test_why_says_which_layer_left_its_default_place() -> None:
    layers = (layer("a", 0), layer("b", 1), layer("c", 2, before=("a",)))
    given = Configured(agents=(AgentCandidate(id="default"),), layers=layers)
    plan = plan_agents(given).plans["default"]
    assert plan.order == ("c", "a", "b")
    assert why(plan, "b", "c").splitlines()[1:3] == [
        "  no chain of edges ties them to each other",
        "  c left its default place: before a: wish of c (interpose-c 1.0)",
    ]


def test_why_refuses_unknown_layers_and_a_layer_with_itself(plan: Plan) -> None:
    with pytest.raises(UsageError) as unknown:
        why(plan, "log", "redakt-eu")
    assert str(unknown.value) == (
        "error[usage]: the plan for agent default has no layer redakt-eu\n"
        "  fix: did you mean redact-eu?"
    )
    with pytest.raises(UsageError, match="log is one layer, and an order takes two"):
        why(plan, "log", "log")
