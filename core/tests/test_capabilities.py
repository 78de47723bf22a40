"""Who provides which capability to whom; each error's whole text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.errors import render
from interpose.plan import PartRef
from interpose.startup.candidates import CapabilityRef, Choice, Offer, PartCandidate
from interpose.startup.capabilities import (
    APPLICATION,
    Binding,
    Market,
    bind,
    check_single,
    start_order,
)
from interpose.startup.capability_checks import check_choices, check_declarations, check_scopes

STORE = CapabilityRef("key-value", declared_by="interpose-kv")
USER = CapabilityRef("principal", scope="run")


def part(name: str, kind: Any = "provider", line: int = 0, **more: Any) -> PartCandidate:
    given = {"distribution": f"interpose-{name}", "version": "1.0"} | more
    place = f"interpose.toml:{line}" if line else ""
    return PartCandidate(kind=kind, id=name, place=place, index=line, **given)


def consumer(name: str = "cache", line: int = 9, **more: Any) -> PartCandidate:
    return part(name, "layer", line, scope="run", **({"requires": (STORE,)} | more))


def test_a_requirement_is_bound_to_its_provider() -> None:
    sql = part("sql", provides=(STORE,))
    bindings, problems = bind(Market((sql, consumer())), [consumer()])
    assert problems == []
    assert bindings == [Binding(PartRef("layer", "cache"), STORE, False, (sql.ref,))]


def test_distributions_agree_by_name_and_major_version() -> None:
    mine = CapabilityRef("key-value", 1, declared_by="a")
    theirs = CapabilityRef("key-value", 1, declared_by="b")
    newer = CapabilityRef("key-value", 2, declared_by="b")
    parts = (part("one", provides=(theirs,)), part("two", provides=(newer,)))
    (binding,), _ = bind(Market(parts), [consumer(requires=(mine,))])
    assert binding.providers == (PartRef("provider", "one"),)


def test_a_missing_capability_names_an_installed_provider_and_the_toml_that_activates_it() -> None:
    market = Market(
        (consumer(), consumer("quota", 12), part("auth", "layer", 3, provides=(USER,))),
        application=(CapabilityRef("tracer"),),
        offers=(Offer("key-value", "sql", "interpose-sql"), Offer("mail", "smtp", "x-smtp")),
    )
    _, problems = bind(market, [consumer(), consumer("quota", 12)])
    assert render(problems) == (
        "error[missing-capability]: layer cache (interpose-cache 1.0) and layer quota (interpose-quota 1.0) require the capability key-value (version 1), which nothing active provides\n"
        "  active parts provide: principal version 1 (layer auth), tracer version 1 (the application)\n"
        "  installed and not active, but could provide it: sql (interpose-sql)\n"
        "  at interpose.toml:9\n"
        "  at interpose.toml:12\n"
        "  fix: add to the file\n"
        "       [providers.sql]\n"
        "       or, if sql provides it as a middleware, [middleware.sql]"
    )


def test_a_missing_capability_that_nothing_installed_provides() -> None:
    _, problems = bind(Market((consumer(),)), [consumer()])
    assert render(problems) == (
        "error[missing-capability]: layer cache (interpose-cache 1.0) requires the capability key-value (version 1), which nothing active provides\n"
        "  active parts provide: none\n"
        "  at interpose.toml:9\n"
        "  fix: activate a plugin that provides it, or let the application provide it:\n"
        "       Host(provides=[...]) in code, and in the file\n"
        "       [capabilities]\n"
        '       key-value = "application"'
    )


def test_an_optional_requirement_is_never_missing() -> None:
    bindings, problems = bind(Market(()), [consumer(requires=(), optional_requires=(STORE,))])
    assert problems == []
    assert bindings[0].providers == ()


def test_what_is_required_and_optional_is_required() -> None:
    both = consumer(optional_requires=(STORE,))
    bindings, problems = bind(Market((both,)), [both])
    assert [item.optional for item in bindings] == [False]
    assert len(problems) == 1


def test_the_application_provides_what_it_promised() -> None:
    (binding,), problems = bind(Market((), application=(STORE,)), [consumer()])
    assert (binding.providers, problems) == ((APPLICATION,), [])


@pytest.mark.parametrize("assumed", [True, False])
def test_a_choice_of_the_application_counts_as_its_promise_only_for_check(*, assumed: bool) -> None:
    choice = Choice("key-value", "application", "interpose.toml:20")
    market = Market((consumer(),), assume_application=assumed, choices=(choice,))
    (binding,), problems = bind(market, [consumer()])
    problems += check_choices(market, ())
    if assumed:
        assert (binding.providers, problems) == ((APPLICATION,), [])
        return
    assert binding.providers == ()
    assert render(problems) == (
        'error[not-promised]: [capabilities] key-value = "application", but the application does not promise it\n'
        "  at interpose.toml:20\n"
        "  fix: name the capability in Host(provide={...}) or Host(provides=[...])"
    )


def test_two_providers_of_a_single_capability_need_a_choice() -> None:
    redis = part("redis", "layer", 13, provides=(STORE,))
    sql = part("sql", line=9, provides=(STORE,))
    assert render(check_single(Market((redis, sql)))) == (
        "error[two-providers]: provider sql (interpose-sql 1.0) and layer redis (interpose-redis 1.0) both provide the capability key-value (version 1), and it has one provider\n"
        "  at interpose.toml:9\n"
        "  at interpose.toml:13\n"
        "  fix: choose one in the file\n"
        "       [capabilities]\n"
        '       key-value = "sql"'
    )
    chosen = Market((redis, sql), choices=(Choice("key-value", "redis"),))
    assert check_single(chosen) == []
    assert chosen.selected(STORE) == (redis.ref,)


def test_the_application_counts_as_a_second_provider() -> None:
    name = CapabilityRef("acme/store", declared_by="acme")
    market = Market((part("sql", line=9, provides=(name,)),), application=(name,))
    assert render(check_single(market)) == (
        "error[two-providers]: provider sql (interpose-sql 1.0) and the application both provide the capability acme/store (version 1), and it has one provider\n"
        "  at interpose.toml:9\n"
        "  fix: choose one in the file\n"
        "       [capabilities]\n"
        '       "acme/store" = "sql"'
    )


def test_parts_that_share_an_id_are_chosen_by_kind() -> None:
    parts = (part("kv", "layer", 1, provides=(STORE,)), part("kv", line=2, provides=(STORE,)))
    (problem,) = check_single(Market(parts))
    assert problem.hint.endswith('key-value = "layer kv"')
    chosen = Market(parts, choices=(Choice("key-value", "layer kv"),))
    assert chosen.selected(STORE) == (PartRef("layer", "kv"),)
    assert check_choices(chosen, ()) == []


def test_a_capability_that_is_not_single_binds_to_all() -> None:
    many = CapabilityRef("tools", single=False)
    market = Market((part("a", line=2, provides=(many,)), part("b", line=1, provides=(many,))))
    (binding,), _ = bind(market, [consumer(requires=(many,))])
    assert check_single(market) == []
    assert binding.providers == (PartRef("provider", "b"), PartRef("provider", "a"))


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (
            Choice("key-value", "sqll", "f:1"),
            (
                'error[unknown-provider]: [capabilities] key-value = "sqll": there is no part with this id\n'
                "  at f:1\n"
                "  fix: did you mean sql?"
            ),
        ),
        (
            Choice("key-value", "redis", "f:1"),
            (
                'error[unknown-provider]: [capabilities] key-value = "redis": it is not active\n'
                "  at f:1\n"
                "  fix: choose sql"
            ),
        ),
        (
            Choice("key-value", "auth", "f:1"),
            (
                'error[unknown-provider]: [capabilities] key-value = "auth": it does not provide it\n'
                "  at f:1\n"
                "  fix: choose sql"
            ),
        ),
        (
            Choice("key-valeu", "sql", "f:1"),
            (
                'warning[unused-choice]: [capabilities] key-valeu = "sql": no active part provides or requires key-valeu\n'
                "  at f:1\n"
                "  fix: did you mean key-value?"
            ),
        ),
    ],
)
def test_choices_that_cannot_be_met(choice: Choice, text: str) -> None:
    parts = (part("sql", provides=(STORE,)), part("auth", "layer", 3, provides=(USER,)))
    market = Market(parts, choices=(choice,))
    assert render(check_choices(market, ["redis"])) == text


def test_declarations_that_differ_are_an_error_naming_both_distributions() -> None:
    theirs = CapabilityRef("key-value", scope="run", ordered=True, declared_by="acme-kv")
    parts = [part("sql", line=3, provides=(STORE,)), consumer(requires=(theirs,))]
    assert render(check_declarations(parts, ())) == (
        "error[capability-mismatch]: the capability key-value (version 1) is declared in different ways\n"
        '  interpose-kv says scope="host", single=True, ordered=False\n'
        '  acme-kv says scope="run", single=True, ordered=True\n'
        "  at interpose.toml:3\n"
        "  at interpose.toml:9\n"
        "  fix: install releases of these distributions that agree on it"
    )


@pytest.mark.parametrize("field", [{"scope": "run"}, {"single": False}, {"ordered": True}])
def test_each_property_of_a_declaration_counts(field: dict[str, Any]) -> None:
    theirs = replace(STORE, **field)
    parts = [part("sql", provides=(STORE,)), consumer(requires=(theirs,))]
    assert len(check_declarations(parts, ())) == 1
    assert check_declarations(parts[:1], (theirs,)) != []


def test_a_lifespan_cannot_need_a_value_of_one_run() -> None:
    assert render(check_scopes([part("sql", line=3, requires=(USER,))])) == (
        "error[capability-scope]: provider sql (interpose-sql 1.0) requires the capability principal (version 1), which has run scope: a provider lives as long as the host, and the value as long as one run\n"
        "  at interpose.toml:3\n"
        "  fix: let a layer do it in setup, or use a capability of host scope"
    )
    assert check_scopes([consumer(requires=(USER,))]) == []


def bound(user: PartCandidate, giver: PartCandidate, capability: CapabilityRef) -> Binding:
    return Binding(user.ref, capability, False, (giver.ref,))


def test_a_needed_provider_starts_first_and_only_edges_of_the_scope_count() -> None:
    a, b, c = (consumer(name, line) for line, name in enumerate("abc", 1))
    bindings = [bound(a, c, USER), bound(a, b, STORE)]
    assert start_order([a, b, c], bindings, "run") == ([c.ref, a.ref, b.ref], [])
    assert start_order([a, b, c], bindings, "host") == ([b.ref, a.ref, c.ref], [])


def test_a_part_that_provides_for_itself_does_not_wait() -> None:
    a = consumer("a", 1, provides=(STORE,))
    assert start_order([a], [bound(a, a, STORE)], "host") == ([a.ref], [])


def test_parts_that_wait_for_each_other_are_an_error() -> None:
    a, b = consumer("a", 1), consumer("b", 2)
    order, problems = start_order([a, b], [bound(a, b, STORE), bound(b, a, STORE)], "host")
    assert order == [a.ref, b.ref]
    assert render(problems) == (
        "error[capability-cycle]: the lifespans of these parts wait for each other\n"
        "  layer b (interpose-b 1.0) needs key-value (version 1) of layer a\n"
        "  layer a (interpose-a 1.0) needs key-value (version 1) of layer b\n"
        "  at interpose.toml:2\n"
        "  at interpose.toml:1\n"
        "  fix: let another part provide one of these capabilities, and choose it in [capabilities]"
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_binding_does_not_depend_on_the_order_of_discovery(data: st.DataObject) -> None:
    names = [CapabilityRef(f"cap-{number}") for number in range(3)]
    some = st.lists(st.sampled_from(names), unique=True).map(tuple)
    parts = [
        part(f"p{line}", line=line, provides=data.draw(some), requires=data.draw(some))
        for line in range(1, 5)
    ]
    shuffled = data.draw(st.permutations(parts))
    one, other = Market(tuple(parts)), Market(tuple(shuffled))
    assert bind(one, parts) == bind(other, shuffled)
    assert check_single(one) == check_single(other)
    assert check_declarations(parts, ()) == check_declarations(shuffled, ())
