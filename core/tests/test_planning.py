"""From configured parts to one plan per agent: what is refused, left out, merged and explained."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.errors import render
from interpose.plan import LifespanStep, PartRef, Plan
from interpose.startup.candidates import (
    AgentCandidate,
    Candidate,
    CapabilityRef,
    Choice,
    PartCandidate,
    Reference,
)
from interpose.startup.planning import Configured, plan_agents

STORE = CapabilityRef("key-value", declared_by="interpose-kv")
USER = CapabilityRef("principal", scope="run", ordered=True)
TOKEN = CapabilityRef("token", scope="run")
SCRIPTED = AgentCandidate(id="default", use="scripted", place="interpose.toml:1")
LOOP = AgentCandidate(
    id="coder",
    use="loop",
    place="interpose.toml:4",
    index=1,
    points=("RUN", "EVENTS", "STEP", "MODEL", "TOOLS", "HISTORY"),
)


def layer(name: str, index: int = 0, **more: Any) -> Candidate:
    given = {"middleware": name, "distribution": f"interpose-{name}", "version": "1.0"} | more
    place = given.pop("place", f"interpose.toml:{10 + index}")
    return Candidate(id=name, file_index=index, place=place, **given)


def configured(*layers: Candidate, **more: Any) -> Configured:
    return Configured(layers=layers, **({"agents": (SCRIPTED,)} | more))


def only_plan(given: Configured) -> Plan:
    (plan,) = plan_agents(given).plans.values()
    return plan


def problems(given: Configured) -> str:
    return render(plan_agents(given).problems)


def test_a_conflict_names_both_layers_once() -> None:
    guard = layer("guard", 0, conflicts=("cap:principal",))
    auth = layer("auth", 1, provides=(USER,), conflicts=("guard",))
    assert problems(configured(guard, auth)) == (
        'error[conflict]: layer guard (interpose-guard 1.0) and layer auth (interpose-auth 1.0) exclude each other: guard says conflicts = ["cap:principal"]\n'
        "  at interpose.toml:10\n"
        "  at interpose.toml:11\n"
        "  fix: switch one of them off, or let them serve different agents, for example\n"
        "       [middleware.auth]\n"
        "       enabled = false"
    )


def test_a_layer_whose_essential_point_the_agent_lacks_is_refused() -> None:
    guard = layer("guard", essential=("TOOLS",))
    assert problems(configured(guard, agents=(SCRIPTED, LOOP))) == (
        "error[essential-point]: layer guard (interpose-guard 1.0) needs the point TOOLS, which agent default (scripted) does not offer: there it could only hide events, and what it is to prevent would happen all the same\n"
        "  only for agent default\n"
        "  at interpose.toml:10\n"
        "  at interpose.toml:1\n"
        "  fix: let it serve agents that offer the point TOOLS\n"
        "       [middleware.guard]\n"
        '       layer = { agents = ["coder"] }'
    )


def test_a_layer_that_is_not_required_is_left_out_instead() -> None:
    guard = layer("guard", 0, essential=("TOOLS",), required=False, provides=(TOKEN,))
    user = layer("user", 1, requires=(TOKEN,), required=False)
    given = configured(guard, user, layer("log", 2))
    assert only_plan(given).order == ("log",)
    found = plan_agents(given).problems
    assert [(item.code, item.severity) for item in found] == [("left-out", "warning")] * 2
    assert found[1].message == (
        "layer user (interpose-user 1.0) is left out, because it is not required: "
        "it requires the capability token (version 1), which nothing provides"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"rewrites_history": True}, "it rewrites history"),
        ({"text_transform": True}, "it is a text transform"),
        ({"essential": ("RUN",)}, "it needs the point RUN as a safeguard"),
        ({"provides": (TOKEN,)}, "another part requires a capability that it provides"),
    ],
)
def test_skip_is_refused_where_it_would_take_a_safeguard_away(
    more: dict[str, Any], why: str
) -> None:
    bad = layer("bad", 0, on_failure="skip", on_failure_place="interpose.toml:15", **more)
    user = layer("user", 1, requires=(TOKEN,) if "provides" in more else ())
    errors = [
        item for item in plan_agents(configured(bad, user)).problems if item.code != "history-cut"
    ]
    assert render(errors) == (
        f'error[on-failure]: layer bad (interpose-bad 1.0) has on_failure = "skip", and {why}: after a failure the run would go on without it\n'
        "  at interpose.toml:15\n"
        '  fix: set on_failure = "fail"'
    )


def test_skip_is_allowed_where_only_an_optional_requirement_depends_on_it() -> None:
    giver = layer("giver", 0, on_failure="skip", provides=(TOKEN,))
    user = layer("user", 1, optional_requires=(TOKEN,))
    assert plan_agents(configured(giver, user)).problems == ()


def test_observers_skip_by_default_unless_skipping_is_refused() -> None:
    plan = only_plan(
        configured(
            layer("log", 0, stage="observe"),
            layer("mask", 1, stage="observe", text_transform=True),
            layer("filter", 2),
            layer("trace", 3, stage="observe", on_failure="fail"),
            layer("metrics", 4, on_failure="skip"),
        )
    )
    assert {item.id: item.on_failure for item in plan.layers} == {
        "log": "skip",
        "mask": "fail",
        "trace": "fail",
        "filter": "fail",
        "metrics": "skip",
    }


def test_a_rewriter_with_around_run_is_refused() -> None:
    bad = layer("bad", rewrites_history=True, has_around_run=True)
    assert problems(configured(bad, agents=(LOOP,))) == (
        "error[rewriter-wraps-run]: layer bad (interpose-bad 1.0) rewrites history and has around_run: the agent folds what rewriters return into its history, and a wrapped run cannot be\n"
        "  at interpose.toml:10\n"
        "  fix: split the middleware in two: one that rewrites in event hooks, one that wraps the run"
    )


def test_a_raw_layer_that_alters_and_does_not_rewrite_is_refused() -> None:
    assert problems(configured(layer("bad", form="raw", has_event_hooks=True))) == (
        'error[raw-form]: layer bad (interpose-bad 1.0) has form = "raw", and neither observes_only nor rewrites_history: raw layers lie inside the expansion of chunks, innermost of all\n'
        "  at interpose.toml:10\n"
        "  fix: declare one of the two, or take the expanded form"
    )


def test_unknown_agents_and_stages_are_errors_with_the_nearest_name() -> None:
    bad = layer(
        "bad",
        agents=(Reference("defualt", "interpose.toml:11"), Reference("default")),
        stage="observ",
        stage_place="interpose.toml:12",
    )
    assert problems(configured(bad)) == (
        'error[unknown-agent]: layer bad says agents = ["defualt"], but there is no agent defualt\n'
        "  at interpose.toml:11\n"
        "  fix: did you mean default?\n"
        "\n"
        'error[unknown-stage]: layer bad (interpose-bad 1.0) has the stage "observ", and there is none of that name\n'
        "  at interpose.toml:12\n"
        '  fix: did you mean "observe"?'
    )


def test_the_same_problem_of_all_agents_is_reported_once() -> None:
    bad = layer("bad", requires=(STORE,))
    found = plan_agents(configured(bad, agents=(SCRIPTED, LOOP))).problems
    assert [item.code for item in found] == ["missing-capability"]
    assert "only for" not in found[0].message


def test_each_agent_has_a_plan_of_the_layers_that_serve_it() -> None:
    here = layer("here", 1, agents=(Reference("coder"),))
    off = layer("off", 2)
    given = configured(
        layer("both"),
        here,
        off,
        agents=(SCRIPTED, LOOP),
        variants={("coder", "off"): replace(off, state="off")},
    )
    plans = plan_agents(given).plans
    assert {name: plan.order for name, plan in plans.items()} == {
        "default": ("both", "off"),
        "coder": ("both", "here"),
    }


def test_a_layer_may_refer_to_one_that_serves_another_agent_without_a_note() -> None:
    here = layer("here", 0, agents=(Reference("coder"),))
    log = layer("log", 1, operator_before=(Reference("here", "interpose.toml:12"),))
    given = configured(here, log, agents=(SCRIPTED, LOOP))
    assert plan_agents(given).problems == ()
    assert plan_agents(given).plans["default"].layers[0].reason == (
        "before here (not in this plan): interpose.toml:12"
    )


def test_a_choice_of_a_layer_says_nothing_about_agents_that_it_does_not_serve() -> None:
    one = layer("one", 0, provides=(TOKEN,), agents=(Reference("coder"),))
    two = layer("two", 1, provides=(TOKEN,))
    user = layer("user", 2, requires=(TOKEN,))
    given = configured(
        one, two, user, agents=(SCRIPTED, LOOP), choices=(Choice("token", "one", "f:1"),)
    )
    planned = plan_agents(given)
    assert planned.problems == ()
    providers = {name: plan.layers[-1].requires[0].parts for name, plan in planned.plans.items()}
    assert providers == {
        "default": (PartRef("layer", "two"),),
        "coder": (PartRef("layer", "one"),),
    }


def test_an_ordered_capability_puts_its_provider_outside() -> None:
    user = layer("user", 0, stage="edge", requires=(USER,))
    auth = layer("auth", 1, stage="call", provides=(USER,))
    plan = only_plan(configured(user, auth))
    assert plan.order == ("auth", "user")
    assert plan.layers[1].reason == (
        "after auth: user requires principal (version 1), which is ordered"
    )


def test_setups_follow_run_scope_and_an_optional_need_orders_too() -> None:
    plan = only_plan(
        configured(
            layer("a", 0, optional_requires=(TOKEN,)),
            layer("b", 1),
            layer("c", 2, provides=(TOKEN,)),
        )
    )
    assert plan.order == ("a", "b", "c")
    assert plan.setup_order == ("c", "a", "b")


def test_lifespans_follow_host_scope_over_all_agents() -> None:
    sql = PartCandidate(kind="provider", id="sql", requires=(STORE,))
    pool = layer("pool", 0, provides=(STORE,), settings_key="1")
    given = configured(
        layer("first", 1, agents=(Reference("coder"),)),
        pool,
        parts=(sql,),
        agents=(SCRIPTED, LOOP),
        variants={("coder", "pool"): replace(pool, settings_key="2")},
    )
    planned = plan_agents(given)
    assert planned.problems == ()
    assert planned.lifespan_order == (
        LifespanStep(PartRef("layer", "pool"), ("default",)),
        LifespanStep(PartRef("layer", "pool"), ("coder",)),
        LifespanStep(PartRef("provider", "sql")),
        LifespanStep(PartRef("layer", "first"), ("coder",)),
        LifespanStep(PartRef("agent", "default"), ("default",)),
        LifespanStep(PartRef("agent", "coder"), ("coder",)),
    )
    assert planned.plans["coder"].lifespan_order == (
        LifespanStep(PartRef("layer", "pool"), ("coder",)),
        LifespanStep(PartRef("provider", "sql")),
        LifespanStep(PartRef("layer", "first"), ("coder",)),
        LifespanStep(PartRef("agent", "coder"), ("coder",)),
    )


def test_an_agent_provides_to_its_own_layers_only() -> None:
    tools = CapabilityRef("toolbox")
    agent = replace(LOOP, provides=(tools,))
    user = layer("user", requires=(tools,))
    planned = plan_agents(configured(user, agents=(SCRIPTED, agent)))
    (problem,) = planned.problems
    assert problem.code == "missing-capability"
    assert problem.message.endswith("only for agent default")
    assert planned.plans["coder"].agent.provides[0].parts == (PartRef("layer", "user"),)


def test_hooks_are_inert_where_the_agent_lacks_their_point() -> None:
    guard = layer("guard", hooks={"setup": "RUN", "around_tool_call": "TOOLS"})
    plans = plan_agents(configured(guard, agents=(SCRIPTED, LOOP))).plans
    assert plans["default"].layers[0].live_hooks == ("setup",)
    assert [hook.name for hook in plans["default"].layers[0].inert_hooks] == ["around_tool_call"]
    assert plans["coder"].layers[0].inert_hooks == ()


def test_what_a_layer_sees_follows_the_two_directions() -> None:
    plan = only_plan(
        configured(
            layer(
                "log",
                0,
                stage="observe",
                has_event_hooks=True,
                observes_only=True,
                hooks={"on_input": "RUN"},
            ),
            layer("filter", 1, has_event_hooks=True, hooks={"on_input": "RUN"}),
            layer(
                "redact",
                2,
                has_event_hooks=True,
                rewrites_history=True,
                text_transform=True,
                covers_input=True,
            ),
            layer("trace", 3, stage="call", has_event_hooks=True, observes_only=True),
        )
    )
    assert {item.id: (str(item.sees_input), str(item.sees_events)) for item in plan.layers} == {
        "log": ("raw", "masked by redact, changed by filter"),
        "filter": ("raw", "masked by redact"),
        "redact": ("changed by filter", "raw"),
        "trace": ("masked by redact, changed by filter", "raw"),
    }
    assert str(plan.agent_sees) == "masked by redact, changed by filter"


def test_rewriters_outside_an_agent_without_history_are_a_warning_in_the_plan() -> None:
    redact = layer("redact", rewrites_history=True, has_event_hooks=True)
    plans = plan_agents(configured(redact, agents=(SCRIPTED, LOOP))).plans
    assert [note.code for note in plans["default"].notes] == ["history-cut"]
    assert plans["coder"].notes == ()


def test_a_cycle_leaves_no_plan_and_the_other_problems_are_still_found() -> None:
    a = layer("a", 0, operator_before=(Reference("b"),))
    b = layer("b", 1, operator_before=(Reference("a"),), requires=(STORE,))
    planned = plan_agents(configured(a, b))
    assert planned.plans == {}
    assert {item.code for item in planned.problems} == {"order-cycle", "missing-capability"}


def test_the_plan_says_where_default_order_and_stage_come_from() -> None:
    plan = only_plan(
        configured(
            layer("a", 0),
            layer("b", 1),
            layer("c", 2, stage="call", stage_place="interpose.toml:30"),
        )
    )
    assert [item.reason for item in plan.layers] == [
        "stage shape, file order",
        "stage shape, file order",
        "stage call (interpose.toml:30)",
    ]


def test_the_json_form_is_json_and_has_a_schema_version() -> None:
    plan = only_plan(configured(layer("a"), layer("b", 1, before=("a",))))
    form = plan.to_json()
    assert json.loads(json.dumps(form)) == form
    assert form["schema"] == 1
    assert [item["id"] for item in form["layers"]] == ["b", "a"]
    assert form["layers"][0]["held_by"][0]["said"] == 'before = ["a"]'
