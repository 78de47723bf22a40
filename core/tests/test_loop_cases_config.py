"""Numbered cases of a chat loop: what layers make of the configuration of a model call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, Message, Tool
from looping import Spy, asking, calls, loop, results, seen, user, within

from interpose import (
    CallModel,
    Middleware,
    ModelConfig,
    ModelRequest,
    ResolvedTool,
    RunContext,
)
from interpose.loop import LoopAgent, tool


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


@tool
def send(to: str = "ada") -> str:
    """Send something."""
    return f"sent {to}"


ADDED = Tool(
    name="added",
    description="A tool of a layer",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}},
)


def configuring(
    answer: Callable[[RunContext, ModelConfig], ModelConfig | None], name: str = "Configures"
) -> type[Middleware]:
    """Return a layer whose on_config is this."""

    class Configures(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            return answer(ctx, config)

    Configures.__name__ = name
    return Configures


def test_case_13_layers_get_what_the_ones_before_made_and_only_named_fields_change() -> None:
    """The second layer sees the first one's prompts; what neither names stays."""
    seen_prompts: list[tuple[str, ...] | None] = []

    def second(ctx: RunContext, config: ModelConfig) -> ModelConfig:
        seen_prompts.append(config.system_prompts)
        return ModelConfig(settings={**(config.settings or {}), "seed": 1})

    first = configuring(lambda ctx, config: ModelConfig(system_prompts=("changed",)), "First")
    model = Spy("Hello")

    loop([first, configuring(second, "Second")], model, [look], settings={"temperature": 0})

    assert set(seen_prompts) == {("changed",)}
    (request,) = model.requests
    assert request.system_prompts == ("changed",)
    assert request.settings == {"temperature": 0, "seed": 1}
    assert [tool.name for tool in request.tools] == ["look"]
    assert [message.content for message in request.messages] == ["hi"]


def test_case_14_a_layer_that_returns_none_leaves_the_request_as_it_is() -> None:
    """None from on_config: the model gets what the agent was made with."""
    plain, watched = Spy("Hello"), Spy("Hello")
    options: dict[str, Any] = {"instructions": "Be brief.", "settings": {"temperature": 0}}
    loop([], plain, [look], asked=asking(), **options)

    loop([configuring(lambda ctx, config: None)], watched, [look], asked=asking(), **options)

    assert watched.requests == plain.requests


def test_case_16_what_is_said_for_an_iteration_overrides_what_was_said_at_the_start() -> None:
    """Prompts per phase: each model call gets its iteration's, not those of init."""

    def prompt(ctx: RunContext, config: ModelConfig) -> ModelConfig:
        if ctx.phase == "init":
            return ModelConfig(system_prompts=("init",), persist=True)
        return ModelConfig(system_prompts=(f"iteration {ctx.iteration}",))

    model = Spy(calls("look"), "done")

    loop([configuring(prompt)], model, [look])

    assert model.prompts == [["iteration 0"], ["iteration 1"]]


class Resolves(Middleware):
    def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool | None:
        return ResolvedTool(ADDED, lambda q="": f"added {q}") if name == "added" else None


def test_case_17_a_tool_that_a_layer_adds_is_shown_and_runs() -> None:
    """The model sees the added tool, and its call is executed by what the layer resolves."""

    class Adds(Resolves):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(tools=(*(config.tools or ()), ADDED))

    model = Spy(calls(("added", {"q": "x"})), "done")

    played = loop([Adds], model, [look])

    assert model.tools == [["look", "added"]] * 2
    assert list(results(played).values()) == ["added x"]


def test_case_18_a_tool_that_a_layer_removes_never_runs() -> None:
    """The model calls it all the same: the result says that there is no such tool."""
    ran: list[str] = []

    @tool
    def danger() -> str:
        """Do harm."""
        ran.append("danger")
        return "boom"

    def hide(ctx: RunContext, config: ModelConfig) -> ModelConfig:
        return ModelConfig(tools=tuple(t for t in config.tools or () if t.name != "danger"))

    model = Spy(calls("danger", "look"), "done")

    played = loop([configuring(hide)], model, [look, danger])

    assert not ran
    assert list(results(played).values()) == [
        "Unknown tool: danger. The tools are: look.",
        "found x",
    ]
    assert played.result.outcome == "success"


def test_case_19_prompts_keep_what_each_says_and_their_order() -> None:
    """Prompts are texts in a tuple: layers add to them, none is lost or joined."""

    def add(text: str) -> Callable[[RunContext, ModelConfig], ModelConfig]:
        return lambda ctx, config: ModelConfig(
            system_prompts=(*(config.system_prompts or ()), text)
        )

    model = Spy("Hello")

    loop([configuring(add("b"), "B"), configuring(add("c"), "C")], model, instructions=["a", "a2"])

    assert model.prompts == [["a", "a2", "b", "c"]]


def test_case_20_each_iteration_executes_only_what_it_showed() -> None:
    """Tools swapped per iteration: what the other iteration showed is unknown in this one."""

    def swap(ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        if ctx.phase == "init":
            return None
        wanted = "look" if ctx.iteration % 2 == 0 else "send"
        return ModelConfig(tools=tuple(t for t in config.tools or () if t.name == wanted))

    turns = [calls("look", "send") for _ in range(3)]
    model = Spy(*turns, "done")

    played = loop([configuring(swap)], model, [look, send])

    assert model.tools == [["look"], ["send"], ["look"], ["send"]]
    said = list(results(played).values())
    assert [each.split(":")[0] for each in said] == [
        *("found x", "Unknown tool"),
        *("Unknown tool", "sent ada"),
        *("found x", "Unknown tool"),
    ]


def _request(ctx: RunContext, request: ModelRequest) -> ModelRequest:
    return request.replace(tools=(*request.tools, ADDED, ADDED))


@pytest.mark.parametrize("place", ["init", "before_model", "around_model_call"])
def test_case_21_two_tools_of_one_name_fail_the_run_before_the_model_is_asked(place: str) -> None:
    """Wherever a layer brings a name twice: an error that says the name, and no model call."""

    class Twice(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            if ctx.phase != place:
                return None
            return ModelConfig(tools=(*(config.tools or ()), ADDED, ADDED), persist=True)

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            given = _request(ctx, request) if place == "around_model_call" else request
            async for event in call_next(given):
                yield event

    model = Spy("Hello")
    played = loop([Twice], model, [look])

    assert not model.requests
    assert played.result.outcome == "error"
    assert "two tools named 'added'" in str(played.result.error)


def test_case_21_a_client_cannot_bring_a_name_that_the_agent_has() -> None:
    """A client's tool of the agent's name is refused; the model is not asked."""
    model = Spy("Hello")
    mine = Tool(name="look", description="mine", parameters={"type": "object"})

    played = loop([], model, [look], asked=asking(tools=[mine]))

    assert played.result.outcome == "error"
    assert not model.requests


# -- a view for one call, and what persists -------------------------------------------------------

OTHER = (user("only this", "u9"),)
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
FIELDS: list[tuple[str, Any, Any]] = [
    ("model", "other", "model"),
    ("system_prompts", ("changed",), ("base",)),
    ("settings", {"temperature": 1}, {"temperature": 0}),
    ("tools", (look.declaration(),), None),
    ("output_schema", SCHEMA, None),
]


@pytest.mark.parametrize("persist", [False, True])
@pytest.mark.parametrize(("name", "value", "base"), FIELDS, ids=[name for name, _, _ in FIELDS])
def test_d8_a_change_lives_for_one_call_unless_it_persists(
    name: str,
    value: Any,
    base: Any,
    persist: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Said in iteration 0: iteration 1 has the agent's own again, or with persist=True the change."""

    def once(ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        if ctx.phase != "before_model" or ctx.iteration != 0:
            return None
        return ModelConfig(**{name: value}, persist=persist)

    model, other = Spy(calls("look"), "done"), Spy(calls("look"), "done")

    async def use(host: Any) -> None:
        await seen(host.run("hi"))

    agent = LoopAgent(model, [look, send], instructions="base", settings={"temperature": 0})
    agent.parts.models["other"] = other  # type: ignore[index] # as a model of the file would be
    within([configuring(once)], agent, use)

    if name == "model":
        assert (len(model.requests), len(other.requests)) == ((0, 2) if persist else (1, 1))
        return
    first, second = (getattr(request, name) for request in model.requests)
    if name == "tools":
        first, second = ([tool.name for tool in tools] for tools in (first, second))
        value, base = ["look"], ["look", "send"]
    assert first == value
    assert second == (value if persist else base)


@pytest.mark.parametrize("persist", [False, True])
def test_d8_changed_messages_live_for_one_call_unless_they_persist(persist: bool) -> None:  # noqa: FBT001
    """A compacted history comes back whole in the next call, or stays compacted and grows on."""

    def compact(ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        if ctx.phase != "before_model" or ctx.iteration != 0:
            return None
        return ModelConfig(messages=OTHER, persist=persist)

    long: list[Message] = [
        user("one", "u1"),
        AssistantMessage(id="a1", content="yes?"),
        user("two", "u2"),
    ]
    # The script counts assistant messages: with the whole history the first answer is turn 1.
    model = Spy(calls("look"), "done", "done")

    played = loop([configuring(compact)], model, [look], asked=asking(long))

    first, second = ([message.id for message in request.messages] for request in model.requests)
    assert first == ["u9"]
    assert second[0:1] == (["u9"] if persist else ["u1"])
    assert len(second) == (1 if persist else 3) + 2
    # What the run comes to is the whole conversation, whatever a request showed.
    assert [message.id for message in played.result.messages][:3] == ["u1", "a1", "u2"]


def test_d8_adding_the_same_thing_to_every_call_does_not_pile_up() -> None:
    """A layer that appends a prompt in each on_config: each request has it once."""

    def add(ctx: RunContext, config: ModelConfig) -> ModelConfig:
        return ModelConfig(system_prompts=(*(config.system_prompts or ()), "added"))

    model = Spy(calls("look"), calls("look"), "done")

    loop([configuring(add)], model, [look], instructions="base")

    assert model.prompts == [["base", "added"]] * 3


def test_d8_what_one_layer_persists_does_not_make_another_ones_view_persist() -> None:
    """Two layers change the prompts of one call; only the one that says so is kept."""

    def view(ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        if ctx.phase != "before_model" or ctx.iteration != 0:
            return None
        return ModelConfig(settings={"seed": 1})

    def kept(ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        if ctx.phase != "before_model" or ctx.iteration != 0:
            return None
        return ModelConfig(system_prompts=("kept",), persist=True)

    model = Spy(calls("look"), "done")

    loop([configuring(view, "View"), configuring(kept, "Kept")], model, [look])

    assert [dict(request.settings) for request in model.requests] == [{"seed": 1}, {}]
    assert model.prompts == [["kept"], ["kept"]]


def test_d8_a_request_that_a_layer_replaces_lives_for_one_call() -> None:
    """around_model_call changes every field of one request; the next call has none of it."""

    class Replaces(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            if ctx.iteration == 0:
                request = request.replace(
                    messages=OTHER, system_prompts=("other",), settings={"seed": 1}
                )
            async for event in call_next(request):
                yield event

    model = Spy(calls("look"), "done")

    played = loop([Replaces], model, [look], asked=asking(), instructions="base")

    first, second = model.requests
    assert (first.messages, first.system_prompts, first.settings) == (
        OTHER,
        ("other",),
        {"seed": 1},
    )
    assert (second.system_prompts, second.settings) == (("base",), {})
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert [message.content for message in played.result.messages if message.role == "user"] == [
        "hi"
    ]
