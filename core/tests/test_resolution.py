"""The order of the layers: examples of each rule, and the whole text of each error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interpose.errors import render
from interpose.startup.candidates import Candidate, Reference
from interpose.startup.resolution import Resolution, resolve


def layer(name: str, index: int = 0, **more: Any) -> Candidate:
    given = {"middleware": name, "distribution": f"interpose-{name}", "version": "1.0"} | more
    place = given.pop("place", f"interpose.toml:{10 + index}")
    return Candidate(id=name, file_index=index, place=place, **given)


def must(name: str, line: int) -> tuple[Reference, ...]:
    return (Reference(name, f"interpose.toml:{line}"),)


def text(result: Resolution) -> str:
    return render(result.problems)


def test_stages_then_file_order_then_id() -> None:
    layers = [
        layer("retry", 0, stage="call"),
        layer("b", 2),
        layer("a", 2),
        layer("filter", 1),
        layer("mask", 3, rewrites_history=True),
        layer("log", 4, stage="observe"),
        layer("auth", 5, stage="edge"),
    ]
    assert resolve(layers).order == ("auth", "log", "filter", "a", "b", "mask", "retry")


def test_before_takes_the_place_just_outside_the_outermost_named() -> None:
    layers = [
        layer("a", 0),
        layer("b", 1),
        layer("c", 2),
        layer("d", 3, operator_before=(*must("c", 7), *must("b", 7))),
    ]
    assert resolve(layers).order == ("a", "d", "b", "c")


def test_after_goes_next_once_all_named_are_placed() -> None:
    layers = [layer("a", 0, after=("c", "b")), layer("b", 1), layer("c", 2), layer("d", 3)]
    assert resolve(layers).order == ("b", "c", "a", "d")


def test_a_chain_of_befores_follows_the_layer_that_moves() -> None:
    layers = [
        layer("c", 0),
        layer("d", 1),
        layer("a", 2, before=("b",)),
        layer("b", 3, before=("c",)),
    ]
    result = resolve(layers)
    assert result.order == ("a", "b", "c", "d")
    assert [edge.said for edge in result.held["a"]] == ['before = ["b"]']


def test_a_wish_concerns_every_layer_of_a_middleware_but_its_own() -> None:
    layers = [
        layer("one", 0, middleware="mask"),
        layer("two", 1, middleware="mask"),
        layer("x", 2, middleware="x", before=("mask", "x", "absent")),
        layer("y", 3, middleware="x", before=("x",)),
    ]
    assert resolve(layers).order == ("x", "one", "two", "y")


def test_a_layer_that_is_off_keeps_the_operators_chain_and_nothing_else() -> None:
    layers = [
        layer("c", 0),
        layer("b", 1, state="off", operator_before=must("c", 7), before=("d",)),
        layer("d", 2),
        layer("a", 3, operator_before=must("b", 8)),
    ]
    result = resolve(layers)
    assert result.order == ("a", "c", "d")
    assert text(result) == (
        'note[layer-off]: layer a says before = ["b"], and that is switched off\n'
        "  at interpose.toml:8"
    )


def test_an_unknown_layer_is_an_error_with_the_nearest_name() -> None:
    result = resolve([layer("redact"), layer("log", 1, operator_after=must("redcat", 12))])
    assert result.order == ("redact", "log")
    assert text(result) == (
        'error[unknown-layer]: layer log says after = ["redcat"], but there is no layer redcat\n'
        "  at interpose.toml:12\n"
        "  fix: did you mean redact?"
    )


def test_a_layer_cannot_be_before_itself() -> None:
    result = resolve([layer("log", operator_before=must("log", 12))])
    assert text(result) == (
        'error[order-cycle]: layer log says before = ["log"]: a layer cannot be before itself\n'
        "  at interpose.toml:12\n"
        "  fix: remove it"
    )


def test_a_cycle_over_three_layers_from_three_sources_names_each() -> None:
    layers = [
        layer("cache", 0, operator_before=must("guard", 4)),
        layer("guard", 1, before=("redact",)),
        layer("redact", 2, before=("cache",), distribution="", version=""),
        layer("behind", 3, after=("redact",)),
    ]
    result = resolve(layers)
    assert result.order is None
    assert text(result) == (
        "error[order-cycle]: layers cache, guard and redact ask for an order that goes round in a circle\n"
        '  cache outside guard: the operator\'s before = ["guard"] of cache (interpose.toml:4)\n'
        '  guard outside redact: wish before = ["redact"] of guard (interpose-guard 1.0, interpose.toml:11)\n'
        '  redact outside cache: wish before = ["cache"] of redact (in-house, interpose.toml:12)\n'
        "  at interpose.toml:4\n"
        "  at interpose.toml:11\n"
        "  at interpose.toml:12\n"
        "  fix: state the order in the file; it overrules what a middleware wishes, for example\n"
        "       [middleware.cache]\n"
        '       layer = { before = ["redact"] }'
    )


def test_the_remedy_for_a_cycle_of_wishes_works() -> None:
    layers = [
        layer("cache", 0, operator_before=must("guard", 4)),
        layer("guard", 1, before=("redact",)),
        layer("redact", 2, before=("cache",)),
    ]
    stated = replace(layers[0], operator_before=(*must("guard", 4), *must("redact", 4)))
    result = resolve([stated, *layers[1:]])
    assert result.order == ("cache", "guard", "redact")
    assert [item.wish.declared_by for item in result.overruled] == ["redact"]


def test_a_cycle_of_musts_through_the_wall_reads_as_one_step() -> None:
    layers = [
        layer("retry", 0, has_around_run=True),
        layer(
            "redact",
            1,
            has_event_hooks=True,
            rewrites_history=True,
            operator_before=must("retry", 5),
        ),
    ]
    result = resolve(layers)
    assert result.order is None
    assert text(result) == (
        "error[order-cycle]: layers retry and redact ask for an order that goes round in a circle\n"
        "  retry outside redact: retry works on the stream and does not rewrite history (interpose-retry 1.0, interpose.toml:10), redact rewrites history (interpose-redact 1.0, interpose.toml:11)\n"
        '  redact outside retry: the operator\'s before = ["retry"] of redact (interpose.toml:5)\n'
        "  at interpose.toml:10\n"
        "  at interpose.toml:11\n"
        "  at interpose.toml:5\n"
        '  fix: remove one of the operator\'s edges, for example before = ["retry"] of redact'
    )


def test_two_knots_are_two_errors() -> None:
    layers = [
        layer("a", 0, operator_before=must("b", 1)),
        layer("b", 1, operator_before=must("a", 2)),
        layer("c", 2, operator_before=must("d", 3)),
        layer("d", 3, operator_before=must("c", 4)),
    ]
    assert [problem.code for problem in resolve(layers).problems] == ["order-cycle"] * 2


def test_an_operators_order_overrules_a_wish_without_an_error() -> None:
    layers = [
        layer("redact", 0, after=("guard",)),
        layer("guard", 1, operator_after=must("redact", 14)),
    ]
    result = resolve(layers)
    assert result.order == ("redact", "guard")
    assert result.problems == ()
    (overruled,) = result.overruled
    assert overruled.wish.said == 'after = ["guard"]'
    assert [edge.place for edge in overruled.by] == ["interpose.toml:14"]


def test_a_rewriter_waits_for_what_works_on_the_stream_and_not_for_observers() -> None:
    layers = [
        layer("mask", 0, stage="edge", has_event_hooks=True, rewrites_history=True),
        layer("log", 1, stage="call", has_event_hooks=True, observes_only=True),
        layer("filter", 2, stage="shape", has_event_hooks=True),
        layer("cache", 3, stage="content"),
    ]
    result = resolve(layers)
    assert result.order == ("filter", "mask", "cache", "log")
    assert [edge.said for edge in result.held["mask"]] == ["rewrites history"]


def test_raw_layers_are_inside_the_expanded_ones() -> None:
    layers = [
        layer("wire", 0, stage="edge", has_event_hooks=True, observes_only=True, form="raw"),
        layer("mask", 1, has_event_hooks=True, rewrites_history=True),
        layer("log", 2, stage="call", has_event_hooks=True, observes_only=True),
    ]
    assert resolve(layers).order == ("mask", "log", "wire")


def test_who_moves_to_one_layer_keeps_the_depth_of_its_chain() -> None:
    layers = [
        layer("v", 0),
        layer("z", 1, before=("v",)),
        layer("w", 2, before=("v",)),
        layer("u", 3, before=("w",)),
    ]
    assert resolve(layers).order == ("u", "z", "w", "v")


def test_of_two_edges_between_two_layers_the_operators_is_the_one_shown() -> None:
    layers = [
        layer("a", 0, after=("b",), operator_after=must("b", 7)),
        layer("b", 1),
        layer("c", 2, before=("b",), operator_before=must("b", 8)),
    ]
    held = resolve(layers).held
    assert {name: [edge.origin for edge in edges] for name, edges in held.items()} == {
        "a": ["operator"],
        "c": ["operator"],
    }
