from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunAgentInput
from playing import agent_of

from interpose import Host, StartupError
from interpose.authoring import AgentFactory, NoSettings, Point, Settings
from interpose.capability import PRINCIPAL
from interpose.errors import Problem, UsageError
from interpose.startup.adapting import DEFAULT_POINTS, AgentSource, adapt_agent
from interpose.startup.frameworks import FRAMEWORKS

INPUT: Any = "the input"
CONTEXT: Any = "the context"


def source(value: object) -> AgentSource:
    found = adapt_agent(value, "interpose.toml:2", "app:chat")
    assert isinstance(found, AgentSource), found
    return found


def refusal(value: object) -> Problem:
    found = adapt_agent(value, "interpose.toml:2", "app:chat")
    assert isinstance(found, Problem), found
    assert found.where == ("interpose.toml:2",)
    return found


def events(found: AgentSource, settings: Any = None) -> list[Any]:
    """What the agent yields for INPUT and CONTEXT."""
    agent = found.make(settings, CONTEXT)

    async def collect() -> list[Any]:
        return [event async for event in agent.run(INPUT, CONTEXT)]

    return asyncio.run(collect())


class Agent:
    async def run(self, run_input: Any, ctx: Any) -> Any:
        yield run_input, ctx


# What is an agent -----------------------------------------------------------------------------


def test_an_agent_object_is_used_as_it_is() -> None:
    agent = Agent()
    found = source(agent)
    assert found.make(NoSettings(), CONTEXT) is agent
    assert (found.scope, found.points, found.settings_class) == ("host", DEFAULT_POINTS, NoSettings)


def test_an_agent_that_takes_only_the_input_is_given_only_that() -> None:
    class InputOnly:
        async def run(self, run_input: Any) -> Any:
            yield run_input

    assert events(source(InputOnly())) == [INPUT]


def test_a_second_optional_argument_is_a_context_only_by_name() -> None:
    class Timed:
        async def run(self, run_input: Any, pace: float = 3) -> Any:
            yield run_input, pace

    class Optional:
        async def run(self, run_input: Any, ctx: Any = None) -> Any:
            yield run_input, ctx

    class Rest:
        async def run(self, *args: Any) -> Any:
            yield args

    assert events(source(Timed())) == [(INPUT, 3)]
    assert events(source(Optional())) == [(INPUT, CONTEXT)]
    assert events(source(Rest())) == [(INPUT, CONTEXT)]


def test_a_second_argument_that_is_required_is_the_context_whatever_its_name() -> None:
    class Named:
        async def run(self, question: Any, host: Any) -> Any:
            yield question, host

    assert events(source(Named())) == [(INPUT, CONTEXT)]


def test_a_run_that_returns_a_stream_is_fine() -> None:
    class Delegating:
        def run(self, run_input: RunAgentInput, ctx: Any) -> AsyncIterator[BaseEvent]:
            stream: AsyncIterator[BaseEvent] = Agent().run(run_input, ctx)
            return stream

    assert events(source(Delegating())) == [(INPUT, CONTEXT)]


def test_an_async_generator_function_is_an_agent() -> None:
    async def with_context(run_input: Any, ctx: Any) -> Any:
        yield run_input, ctx

    async def without(run_input: Any) -> Any:
        yield run_input

    assert events(source(with_context)) == [(INPUT, CONTEXT)]
    assert events(source(without)) == [INPUT]
    assert events(source(Agent().run)) == [(INPUT, CONTEXT)]


def test_an_agent_says_its_points_and_capabilities() -> None:
    class Offering(Agent):
        points = (Point.RUN, Point.HISTORY)
        requires = (PRINCIPAL,)

    found = source(Offering())
    assert found.points == (Point.RUN, Point.HISTORY)
    assert found.requires == (PRINCIPAL,)


class Greeting(Settings):
    text: str = "hello"


def test_a_factory_class_makes_an_agent_for_each_run() -> None:
    class Factory(AgentFactory[Greeting]):
        points = (Point.RUN,)
        provides = (PRINCIPAL,)

        def __call__(self, settings: Greeting, ctx: Any, /) -> Any:
            async def greet(run_input: Any) -> Any:
                yield settings.text

            return greet

    found = source(Factory)
    assert (found.scope, found.points, found.provides) == ("run", (Point.RUN,), (PRINCIPAL,))
    assert found.settings_class is Greeting
    assert events(found, Greeting(text="hi")) == ["hi"]
    assert source(Factory()).settings_class is Greeting


def test_a_factory_function_is_one_by_its_scope() -> None:
    def make(settings: Greeting, ctx: Any) -> Any:
        return Agent()

    make.scope = "run"  # type: ignore[attr-defined]
    make.points = (Point.RUN, Point.MODEL)  # type: ignore[attr-defined]
    found = source(make)
    assert (found.scope, found.points[-1], found.settings_class) == ("run", Point.MODEL, Greeting)
    assert events(found) == [(INPUT, CONTEXT)]


# What is none ---------------------------------------------------------------------------------


def test_a_class_where_an_object_is_due() -> None:
    problem = refusal(Agent)
    assert problem.message == "app:chat is the class Agent, not an agent."
    assert problem.hint == "Name an object: agent = Agent(), and use that."
    assert "derive the class from AgentFactory" in refusal(int).hint


def test_a_coroutine_returns_instead_of_yielding() -> None:
    async def chat(run_input: Any) -> Any: ...

    class Returning:
        async def run(self, run_input: Any) -> Any: ...

    assert refusal(chat).message == (
        "app:chat is a coroutine: it returns once, and an agent yields its events."
    )
    assert refusal(Returning()).message == (
        "app:chat.run is a coroutine: it returns once, and an agent yields its events."
    )


def test_agents_are_asynchronous() -> None:
    def chat(run_input: Any) -> Any:
        yield run_input

    problem = refusal(chat)
    assert problem.message == "app:chat is a plain generator, and agents are asynchronous."
    assert problem.hint == "Write `async def` in place of `def`."


def test_a_plain_function_may_be_meant_as_a_factory() -> None:
    def make(settings: Any, ctx: Any) -> Any: ...

    problem = refusal(make)
    assert "neither an async generator, nor marked as a factory" in problem.message
    assert 'make.scope = "run"' in problem.hint


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "None"),
        ("app:agent", "a str"),
        (sys, "the module sys"),
        (object(), "an object"),
    ],
)
def test_what_has_no_run_is_no_agent(value: object, said: str) -> None:
    assert refusal(value).message == (
        f"app:chat is {said}, which is no agent: it has no `run` method."
    )


def test_a_run_with_other_arguments_is_refused() -> None:
    class Nothing:
        async def run(self) -> Any:
            yield

    class Three:
        async def run(self, run_input: Any, ctx: Any, more: Any) -> Any:
            yield

    class Keyword:
        async def run(self, *, run_input: Any) -> Any:
            yield

    for value in (Nothing(), Three(), Keyword()):
        assert refusal(value).message == (
            "app:chat.run cannot be called with (run_input, ctx), nor with (run_input)."
        )


def test_what_an_agent_says_about_itself_is_checked() -> None:
    class Pointless(Agent):
        points = ("nowhere",)

    class Needy(Agent):
        requires = ("principal",)

    assert refusal(Pointless()).message == "app:chat has points = ('nowhere',)."
    assert refusal(Needy()).message == "app:chat has requires = ('principal',)."


def test_a_factory_that_cannot_work_is_refused_with_all_its_faults() -> None:
    class Factory(AgentFactory):
        scope = "thread"  # type: ignore[assignment]

        def __init__(self, url: str) -> None: ...

    assert refusal(Factory).message == (
        "app:chat cannot make agents: "
        "it has no __call__(self, settings, ctx) that returns an agent; "
        'its scope is \'thread\'; write "run" or "host"; '
        "its __init__ takes arguments, and the host has none to give; use settings."
    )


def test_a_factory_function_that_cannot_work_is_refused() -> None:
    def scoped(settings: Any, ctx: Any) -> Any: ...
    async def asynchronous(settings: Any, ctx: Any) -> Any: ...
    def alone() -> Any: ...

    scoped.scope = "thread"  # type: ignore[attr-defined]
    asynchronous.scope = alone.scope = "run"  # type: ignore[attr-defined]
    assert refusal(scoped).message == "app:chat has scope = 'thread'."
    assert "but it is `async def`" in refusal(asynchronous).message
    assert "does not take (settings, ctx)" in refusal(alone).message


def test_settings_of_a_factory_must_refuse_unknown_keys() -> None:
    from pydantic import BaseModel

    class Loose(BaseModel):
        text: str = ""

    class Outer(Settings):
        inner: Loose = Loose()

    def make(settings: Any, ctx: Any) -> Any: ...

    make.scope = "run"  # type: ignore[attr-defined]
    make.__annotations__["settings"] = Outer
    assert "accepts unknown keys; derive it from interpose.Settings" in refusal(make).message


@pytest.mark.parametrize("made", [None, Agent, "coroutine"])
def test_a_factory_that_makes_no_agent_is_told_when_it_is_called(made: Any) -> None:
    async def later() -> Any: ...

    def make(settings: Any, ctx: Any) -> Any:
        return later() if made == "coroutine" else made

    make.scope = "run"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="what app:chat made is") as caught:
        source(make).make(None, CONTEXT)
    assert caught.value.where == ("interpose.toml:2",)


# Objects of frameworks ------------------------------------------------------------------------


def of_framework(module: str, name: str, *bases: type) -> Any:
    """An object whose class has this name in this module, and a subclass of it by the user."""
    theirs = type(name, bases or (object,), {"__module__": module})
    return type("Mine", (theirs,), {"__module__": "app"})()


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.module)
def test_every_framework_is_recognised_by_module_and_class(framework: Any) -> None:
    for name in framework.classes:
        agent = of_framework(f"{framework.module}.inner", name)
        problem = refusal(agent)
        assert problem.code == "framework-agent"
        assert problem.message == (
            f"app:chat is a Mine of {framework.name}, which does not speak AG-UI by itself."
        )
        assert problem.hint == framework.remedy("chat", "app")


def test_a_framework_is_recognised_although_its_agent_has_a_run() -> None:
    agent = of_framework("pydantic_ai.agent", "Agent", Agent)
    assert refusal(agent).hint == (
        'Install "pydantic-ai-slim[ag-ui]" and wrap it:\n'
        "from pydantic_ai.ui.ag_ui import AGUIAdapter\n"
        "\n"
        "class AgUi:\n"
        "    def run(self, run_input):\n"
        "        return AGUIAdapter(agent=chat, run_input=run_input).run_stream()\n"
        "\n"
        "ag_ui_chat = AgUi()\n"
        'Then use = "app:ag_ui_chat".'
    )


def test_an_object_that_is_given_in_code_is_called_agent() -> None:
    agent = of_framework("langgraph.pregel", "Pregel")
    with pytest.raises(StartupError) as given:
        Host(agent=agent)
    with pytest.raises(StartupError) as wrapped:
        Host(agent=agent_of()).wrap(agent)
    for caught in (given, wrapped):
        [problem] = caught.value.problems
        assert "graph=agent, " in problem.hint
        assert problem.hint.endswith("\nag_ui_agent = AgUi()\nThen use ag_ui_agent.")


def test_the_class_of_a_framework_is_recognised_too() -> None:
    assert refusal(type(of_framework("strands.agent.agent", "Agent"))).code == "framework-agent"


def test_a_factory_that_makes_a_frameworks_agent_is_told() -> None:
    def make(settings: Any, ctx: Any) -> Any:
        return of_framework("strands", "Agent")

    make.scope = "host"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="what app:chat made is a Mine of Strands") as caught:
        source(make).make(None, CONTEXT)
    assert "ag_ui_agent = StrandsAgent(agent=agent, name=" in caught.value.hint


def test_a_package_of_ones_own_called_agents_is_not_the_sdk() -> None:
    assert isinstance(adapt_agent(of_framework("agents.agent", "Agent", Agent)), AgentSource)
    assert isinstance(adapt_agent(of_framework("strands_extra", "Agent", Agent)), AgentSource)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.module)
def test_the_lines_to_write_are_python(framework: Any) -> None:
    code = framework.code.format(agent="agent", new="ag_ui_agent")
    compile(code, "<advice>", "exec")
    assert framework.remote is not bool(code)


def test_an_adapter_that_keeps_a_run_on_itself_is_not_shared_by_runs() -> None:
    adapter = of_framework("ag_ui_langgraph.agent", "LangGraphAgent", Agent)
    problem = refusal(adapter)
    assert problem.code == "framework-agent"
    assert problem.message == (
        "app:chat is a Mine of ag-ui-langgraph, which keeps the state of its run on itself: "
        "runs at once would mix."
    )
    assert problem.hint == (
        "Give each run a copy of its own:\n"
        "class AgUi:\n"
        "    def run(self, run_input):\n"
        "        return chat.clone().run(run_input)\n"
        "\n"
        "ag_ui_chat = AgUi()\n"
        'Then use = "app:ag_ui_chat".'
    )

    def make(settings: Any, ctx: Any) -> Any:
        return adapter

    make.scope = "run"  # type: ignore[attr-defined]
    assert source(make).scope == "run"  # one that is made for each run is fine
    assert source(make).make(None, CONTEXT) is adapter


def test_recognising_imports_nothing() -> None:
    before = set(sys.modules)
    adapt_agent(of_framework("langgraph.pregel", "Pregel"))
    assert set(sys.modules) == before
