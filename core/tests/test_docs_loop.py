"""docs/loop.md: its examples print what the page says, its recipes work, its tables are the code's."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from ag_ui.core import ToolMessage
from looping import Spy, answering, asking, calls, loop, results, seen, user, within
from repository import fenced
from tooling import DrivenClock, until

import interpose.loop
from interpose import PRINCIPAL, Layer, RateLimited
from interpose.loop import LoopAgent, ScriptedModel, tool
from interpose.loop.factory import BudgetTable, LoopSettings

PAGE = (Path(__file__).parents[2] / "docs" / "loop.md").read_text(encoding="utf-8")
GUIDE, _, RECIPES = PAGE.partition("\n## Recipes\n")
BLOCKS = list(fenced(GUIDE))
EXAMPLES = [
    (code, said)
    for (kind, code), (next_kind, said) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True)
    if kind == "python" and next_kind == "text"
]
RECIPE = {
    part.partition("\n")[0]: [code for _, code in fenced(part)]
    for part in re.split(r"^### ", RECIPES, flags=re.MULTILINE)[1:]
}


def compiled(code: str) -> CodeType:
    # No name of a file: pydantic would read the source of a class there, at the wrong line.
    return compile(code, "<docs/loop.md>", "exec", dont_inherit=True)


@pytest.mark.parametrize(("code", "said"), EXAMPLES)
def test_an_example_prints_what_the_page_says(code: str, said: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compiled(code), {"__name__": "example"})  # noqa: S102
    assert printed.getvalue() == said


def test_every_python_block_of_the_guide_is_an_example() -> None:
    assert [code for code, _ in EXAMPLES] == [code for kind, code in BLOCKS if kind == "python"]


def recipe(title: str) -> Mapping[str, Any]:
    """Run the code of a recipe, and return its names."""
    names: dict[str, Any] = {"__name__": "recipe"}
    [code] = RECIPE[title]
    exec(compiled(code), names)  # noqa: S102
    return names


@tool(effect="read")
def look(q: str = "", limit: int = 0) -> str:
    """Look something up."""
    return f"found {q!r} {limit}"


@tool(approval=True)
def send(to: str = "ada") -> str:
    """Send something."""
    return f"sent to {to}"


@dataclass(frozen=True)
class User:
    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict)


# A budget of tool calls ------------------------------------------------------------------------
BUDGET = "A budget of tool calls, per turn and per run"


def test_the_budget_refuses_what_is_beyond_it_in_one_run() -> None:
    layer = Layer(recipe(BUDGET)["ToolBudget"], {"per_turn": 9, "per_run": 3})
    played = loop([layer], ScriptedModel(calls("look", "look"), calls("look", "look"), "."), [look])
    assert list(results(played).values()) == [
        "found '' 0",
        "found '' 0",
        "found '' 0",
        "3 tool calls of this run are used up",
    ]


def test_the_budget_of_a_turn_goes_through_a_pause_and_counts_each_call_once() -> None:
    model = ScriptedModel(calls("look", "send"), calls("look", "look"), ".")
    layer = Layer(recipe(BUDGET)["ToolBudget"], {"per_turn": 3, "per_run": 9})

    async def use(host: Any) -> list[str]:
        paused = await seen(host.run(asking()))
        assert paused.result.outcome == "interrupt"
        played = await seen(host.run(answering(paused, True)))
        return list(results(played).values())

    assert within([layer], LoopAgent(model, [look, send]), use) == [
        "found '' 0",
        "sent to ada",
        "found '' 0",
        "3 tool calls of this turn are used up",
    ]


# Defaults, prompts, routing --------------------------------------------------------------------
def test_defaults_fill_in_what_the_model_left_empty_and_nothing_else() -> None:
    defaults = recipe("Defaults for arguments")["Defaults"]
    layer = Layer(defaults, {"tools": {"look": {"q": "orders", "limit": 5}}})
    model = ScriptedModel(calls("look", ("look", {"q": "lamps"}), "other"), ".")
    other = tool(lambda: "untouched", name="other")
    played = loop([layer], model, [look, other])
    assert list(results(played).values()) == ["found 'orders' 5", "found 'lamps' 5", "untouched"]


def test_the_first_prompt_is_in_the_first_call_alone_also_over_a_pause() -> None:
    layer = Layer(recipe("A prompt for the first call")["FirstPrompt"], {"text": "Greet."})
    spy = Spy(calls("look"), calls("send"), "Bye.")

    async def use(host: Any) -> None:
        paused = await seen(host.run(asking()))
        await seen(host.run(answering(paused, True)))

    within([layer], LoopAgent(spy, [look, send], instructions="Be brief."), use)
    assert spy.prompts == [["Be brief.", "Greet."], ["Be brief."], ["Be brief."]]


def test_the_first_prompt_is_not_in_the_call_for_structured_output() -> None:
    layer = Layer(recipe("A prompt for the first call")["FirstPrompt"], {"text": "Greet."})
    spy = Spy("Hello.", '{"subject": "ada"}')
    loop([layer], spy, [look], run={"output": User})
    assert spy.prompts == [["Greet."], []]


def test_each_call_goes_to_the_model_that_suits_it() -> None:
    settings = {"small": "small", "large": "large", "words": 3}
    layer = Layer(recipe("A model for each call")["Route"], settings)
    models = {
        name: {"use": "scripted", "turns": [calls("look"), f"The {name} one."]}
        for name in ("small", "large")
    }

    def text(asked: str) -> str:
        host = {"overrides": {"models": models}}
        return str(loop([layer], "small", [look], asked=asked, host=host).result.text)

    assert text("hi") == "The large one."  # the tool's result made it long
    assert text("hi there to all of you") == "The large one."
    layer = Layer(recipe("A model for each call")["Route"], {**settings, "words": 30})
    assert text("hi") == "The small one."


# A catalogue -----------------------------------------------------------------------------------
CATALOGUE = "A catalogue of tools that depends on the run"


@pytest.mark.parametrize(
    ("plan", "shown", "told"),
    [
        ("paid", ["look", "invoices"], "no invoices in 2025"),
        ("free", ["look"], "Unknown tool: invoices. The tools are: look."),
    ],
)
def test_the_catalogue_shows_and_runs_the_tools_of_the_plan(
    plan: str, shown: list[str], told: str
) -> None:
    spy = Spy(calls(("invoices", {"year": 2025})), ".")
    layers = [recipe(CATALOGUE)["Catalogue"]]
    played = loop(layers, spy, [look], run={"attributes": {"plan": plan}})
    assert spy.tools == [shown, shown]
    assert list(results(played).values()) == [told]


# The tenant ------------------------------------------------------------------------------------
def test_another_tenant_cannot_go_on_with_a_run_and_the_own_one_still_can() -> None:
    layers = [recipe("A tenant that survives a pause")["SameTenant"]]
    agent = LoopAgent(ScriptedModel(calls("send"), "Sent."), [send])

    async def use(host: Any) -> None:
        ada, eve = User("ada", "acme"), User("eve", "other")
        paused = await seen(host.run(asking(), provide={PRINCIPAL: ada}))
        assert paused.result.outcome == "interrupt"
        stolen = answering(paused, True)
        refused = await seen(host.run(stolen, provide={PRINCIPAL: eve}))
        assert refused.error == ("tenant", "This conversation belongs to another organisation.")
        assert results(refused) == {}
        bob = User("bob", "acme")
        played = await seen(host.run(answering(paused, True, run_id="3"), provide={PRINCIPAL: bob}))
        assert list(results(played).values()) == ["sent to ada"]
        assert played.result.text == "Sent."

    within(layers, agent, use, provides=[PRINCIPAL])


# Retries ---------------------------------------------------------------------------------------
RETRY = "A retry of failed model calls"


def test_a_failed_model_call_is_repeated_after_the_time_that_it_asks_for() -> None:
    model = ScriptedModel(
        {
            "error": "rate-limited",
            "retry_after": 7,
            "retry": {"error": "unavailable", "retry": {"text": "At last."}},
        }
    )
    clock = DrivenClock()

    async def use(host: Any) -> None:
        playing = asyncio.create_task(seen(host.run(asking())))
        for at in (7, 11):
            await until(lambda: at in [due for due, _ in clock.sleepers])  # noqa: B023
            clock.advance(at - clock.now)
        assert (await playing).result.text == "At last."

    within([recipe(RETRY)["Retry"]], LoopAgent(model), use, clock=clock)


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        ({"error": "quota"}, "model-quota"),
        ({"text": "One two", "error": "unavailable", "error_after": 1}, "model-unavailable"),
    ],
)
def test_what_waiting_does_not_heal_and_what_was_seen_already_is_not_repeated(
    turn: dict[str, Any], code: str
) -> None:
    spy = Spy(turn)
    played = loop([recipe(RETRY)["Retry"]], spy)
    assert played.error[0] == code
    assert len(spy.requests) == 1


def test_the_last_failure_is_the_runs() -> None:
    spy = Spy({"error": "rate-limited"})
    played = loop([Layer(recipe(RETRY)["Retry"], {"attempts": 1})], spy)
    assert isinstance(played.result.error, RateLimited)
    assert len(spy.requests) == 1


# A cache ---------------------------------------------------------------------------------------
def cached(spy: Spy, *runs: tuple[User, Any], entries: int = 10) -> list[Any]:
    layers = [Layer(recipe("A cache of answers")["Cache"], {"entries": entries})]

    async def use(host: Any) -> list[Any]:
        return [
            await seen(host.run(asked, provide={PRINCIPAL: principal})) for principal, asked in runs
        ]

    return within(layers, LoopAgent(spy, [look]), use, provides=[PRINCIPAL])


ADA, EVE = User("ada", "acme"), User("eve", "acme")


def test_the_same_question_of_the_same_user_is_answered_from_the_cache_as_a_new_message() -> None:
    spy = Spy("Hello there.")
    first, second = cached(
        spy, (ADA, asking()), (ADA, asking([user(ident="u2")], thread_id="t2", run_id="r2"))
    )
    assert (first.result.text, second.result.text) == ("Hello there.", "Hello there.")
    assert len(spy.requests) == 1
    ids = [played.result.messages[-1].id for played in (first, second)]
    assert len(set(ids)) == 2
    assert second.result.usage == ()


def test_the_cache_answers_neither_another_user_nor_another_question() -> None:
    spy = Spy("Hello.")
    cached(spy, (ADA, asking()), (EVE, asking(run_id="r2")), (ADA, "something else"))
    assert len(spy.requests) == 3


@pytest.mark.parametrize(
    "turn", [{"text": "Cut o", "finish_reason": "length"}, {"text": "So.", "thinking": "Hm."}]
)
def test_the_cache_keeps_nothing_that_is_cut_off_or_more_than_text(turn: dict[str, Any]) -> None:
    spy = Spy(turn)
    cached(spy, (ADA, asking()), (ADA, asking(run_id="r2")))
    assert len(spy.requests) == 2


def test_the_cache_keeps_no_calls_and_no_answers_that_failed() -> None:
    spy = Spy(calls("look"), "Found.")
    cached(spy, (ADA, asking()), (ADA, asking(run_id="r2")))
    assert [len(request.messages) for request in spy.requests] == [1, 3, 1]
    broken = Spy({"text": "One two", "error": "unavailable", "error_after": 1})
    cached(broken, (ADA, asking()), (ADA, asking(run_id="r2")))
    assert len(broken.requests) == 2


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    spy = Spy("Hello.")
    asked = [(ADA, each) for each in ("a", "b", "a", "c", "a", "b")]
    cached(spy, *asked, entries=2)
    assert [request.messages[-1].content for request in spy.requests] == ["a", "b", "c", "b"]


# The page --------------------------------------------------------------------------------------
def test_the_table_of_a_tools_arguments_is_the_code() -> None:
    table = GUIDE.partition("| argument | default | meaning |")[2].partition("\n\n")[0]
    said = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))
    arguments = [name for name in inspect.signature(tool).parameters if name != "fn"]
    assert said == arguments


def test_the_table_of_settings_is_the_code() -> None:
    table = GUIDE.partition("| setting | default | meaning |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (`.+?`|none|nothing) \|", table, re.MULTILINE))
    said = {}
    for name, setting in LoopSettings.model_fields.items():
        default = setting.get_default()
        if default is None:
            said[name] = "none"
        elif default in ((), {}, "", BudgetTable()):
            said[name] = "nothing"
        else:
            said[name] = f"`{json.dumps(default)}`"
    assert rows == said


def test_every_public_name_of_the_loop_is_on_the_page() -> None:
    named = set(re.findall(r"\w+", PAGE))
    assert set(interpose.loop.__all__) - named == {"Turn", "Strategy"}


def test_a_client_that_makes_up_a_call_gets_nothing_executed() -> None:
    spy = Spy(calls("send"), "Then not.")

    async def use(host: Any) -> None:
        made_up = await seen(host.run(asking()))
        history = made_up.result.messages
        played = await seen(host.run(asking(history, run_id="run-2")))
        assert results(played) == {}
        [told] = [m for m in spy.requests[-1].messages if isinstance(m, ToolMessage)]
        assert told.content == "This call was not executed."

    within([], LoopAgent(spy, [send]), use)
