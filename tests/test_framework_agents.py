"""Live agents of real frameworks, on fake models, wrapped in the very lines that the error prints."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
import runpy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import shop
import shop_langgraph
import shop_pydantic_ai
from ag_ui.core import BaseEvent, EventType, ResumeEntry, RunAgentInput
from ag_ui_langgraph import LangGraphAgent
from ag_ui_validate.pytest_plugin import validate_agui
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic_ai import Agent, ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from repository import ROOT

from interpose import EndInfo, Host, Layer, Middleware, Run, RunContext, RunResult, StartupError
from interpose.agui import to_json, violations
from interpose_redact import Redact

pytestmark = pytest.mark.filterwarnings(
    "ignore:.get_config_jsonschema. is deprecated:DeprecationWarning"  # ag-ui-langgraph calls it
)


# The lines that the error prints --------------------------------------------------------------


def advice(agent: object) -> str:
    """What the host says to write instead of a framework's own object."""
    with pytest.raises(StartupError) as caught:
        Host(agent=agent)
    [problem] = caught.value.problems
    assert problem.code == "framework-agent"
    return problem.hint


def wrapped(agent: object) -> Any:
    """The object wrapped in the lines that the error prints for it."""
    _, *lines, then = advice(agent).splitlines()
    assert then == "Then use ag_ui_agent."
    names: dict[str, Any] = {"agent": agent}
    exec("\n".join(lines), names)  # noqa: S102 - our own lines
    return names["ag_ui_agent"]


class Unannotated(ast.NodeTransformer):
    """Takes off the annotations, which an error does not print."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        return node


@pytest.mark.parametrize(
    ("example", "variable"), [("pydantic-ai", "agent"), ("langgraph", "graph")]
)
def test_an_example_has_the_lines_of_the_error(
    example: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (ROOT / "examples" / example / "app.py").read_text(encoding="utf-8")
    module = f"example_of_{variable}"
    (tmp_path / f"{module}.py").write_text(source)
    (tmp_path / "interpose.toml").write_text(f'[agent]\nuse = "{module}:{variable}"\n')
    with pytest.raises(StartupError) as caught:
        Host.from_config(tmp_path / "interpose.toml")
    [problem] = caught.value.problems
    _, *lines, then = problem.hint.splitlines()
    assert then == f'Then use = "{module}:ag_ui_{variable}".'
    has = {ast.unparse(Unannotated().visit(node)) for node in ast.parse(source).body}
    for node in ast.parse("\n".join(lines)).body:
        assert ast.unparse(node) in has


async def says(agent: object, text: str) -> None:
    async with Host(agent=agent, strict=True) as host:
        assert (await host.run("hi")).text == text


def test_a_graph_that_is_not_compiled() -> None:
    built = StateGraph(MessagesState)
    built.add_node("answer", lambda _: {"messages": [("ai", "Compiled.")]})
    built.add_edge(START, "answer")
    asyncio.run(says(wrapped(built), "Compiled."))


def test_an_agent_of_langchain_is_a_graph() -> None:
    made = create_agent(Chat(fake=Fake(("Hello.",))), checkpointer=InMemorySaver())
    asyncio.run(says(wrapped(made), "Hello."))


def test_an_agent_with_a_test_model() -> None:
    asyncio.run(says(wrapped(Agent(TestModel(custom_output_text="Hello."))), "Hello."))


def test_an_adapter_of_langgraph_is_copied_for_each_run() -> None:
    graph = langgraph(Fake(("Hello.",)))
    asyncio.run(says(wrapped(LangGraphAgent(name="chat", graph=graph)), "Hello."))


# Fake models ----------------------------------------------------------------------------------


@dataclass
class Fake:
    """A model that says pieces, or what it was asked, word by word; ``open`` are its streams."""

    pieces: Sequence[str] = ()
    then: Literal["end", "stall", "raise"] = "end"
    open: int = 0
    begun: int = 0

    async def stream(self, asked: str) -> AsyncIterator[str]:
        self.begun += 1
        self.open += 1
        try:
            for piece in self.pieces or [f"{word} " for word in asked.split()]:
                await asyncio.sleep(0.001)
                yield piece
            if self.then == "stall":
                await asyncio.Event().wait()
            if self.then == "raise":
                raise RuntimeError(f"the provider refused {shop.CARD}")
        finally:
            self.open -= 1


class Chat(BaseChatModel):
    """It as a model of LangChain."""

    fake: Fake

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for piece in self.fake.stream(str(messages[-1].content)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    @property
    def _llm_type(self) -> str:
        return "fake"


def pydantic_ai(fake: Fake) -> object:
    async def stream(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        last = messages[-1].parts[-1]
        async for piece in fake.stream(str(getattr(last, "content", ""))):
            yield piece

    return Agent(FunctionModel(stream_function=stream))


def langgraph(fake: Fake) -> CompiledStateGraph[Any, Any, Any, Any]:
    model = Chat(fake=fake)

    async def chat(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("chat", chat)
    built.add_edge(START, "chat")
    return built.compile(checkpointer=InMemorySaver())


FRAMEWORKS: Mapping[str, Callable[[Fake], object]] = {
    "pydantic-ai": pydantic_ai,
    "langgraph": langgraph,
}
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


# Live runs ------------------------------------------------------------------------------------


@dataclass
class Played:
    events: list[BaseEvent]
    result: RunResult
    ends: list[EndInfo]
    tasks: set[asyncio.Task[Any]]
    """What still ran when the run had ended."""
    trouble: list[str]
    """What the loop was told of exceptions that nobody took."""

    @property
    def types(self) -> list[str]:
        return [event.type.value for event in self.events]

    @property
    def wire(self) -> list[dict[str, Any]]:
        return [json.loads(to_json(event)) for event in self.events]


def check_valid(events: Sequence[BaseEvent]) -> None:
    assert list(violations(events)) == []
    report = validate_agui([to_json(event) for event in events])
    assert [d for d in report.diagnostics if d.severity != "info"] == []


async def play(
    agent: object,
    asked: str | RunAgentInput = "hi",
    *,
    step: Callable[[Run, int, BaseEvent], bool] = lambda _run, _number, _event: True,
    layers: Sequence[Any] = (Redact,),
) -> Played:
    """Play one run; ``step(run, number, event)`` may cancel it, or return False to leave."""
    ends: list[EndInfo] = []

    class Endings(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ends.append(end)

    trouble: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: trouble.append(str(context))
    )
    async with asyncio.timeout(10), Host([Endings, *layers], agent=agent) as host:
        before = asyncio.all_tasks()
        events: list[BaseEvent] = []
        run = host.run(asked)
        async with run:
            async for event in run:
                events.append(event)
                if not step(run, len(events), event):
                    break
        left = asyncio.all_tasks() - before
        result = await run
    gc.collect()
    # Generators that a framework left to the collector are closed by the loop, in tasks.
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        _, late = await asyncio.wait(others, timeout=5)
        assert late == set()
    return Played(events, result, ends, left, trouble)


def cancel_at(kind: EventType, count: int = 1) -> Callable[[Run, int, BaseEvent], bool]:
    """Cancel the run from another task, shortly after the event."""
    seen: list[BaseEvent] = []

    def step(run: Run, _number: int, event: BaseEvent) -> bool:
        if event.type is kind:
            seen.append(event)
            if len(seen) == count:
                asyncio.get_running_loop().call_later(0.02, run.cancel, "the user pressed stop")
        return True

    return step


@each_framework
def test_a_run_comes_to_its_end(framework: str) -> None:
    fake = Fake(
        (f"Mail {shop.EMAIL[:9]}", f"{shop.EMAIL[9:]}, card {shop.CARD[:8]}", shop.CARD[8:])
    )
    played = asyncio.run(play(wrapped(FRAMEWORKS[framework](fake))))
    check_valid(played.events)
    assert played.result.outcome == "success"
    assert played.result.text == "Mail [email], card [card]"
    assert shop.EMAIL not in json.dumps(played.wire)
    assert [end.kind for end in played.ends] == ["finish"]
    assert (fake.begun, fake.open, played.tasks, played.trouble) == (1, 0, set(), [])


@each_framework
@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        (["word "] * 3, EventType.TEXT_MESSAGE_CONTENT),  # in the middle of the text
        ((), EventType.TEXT_MESSAGE_START),  # "hi" is held back, it may become an address
    ],
    ids=["streaming", "silent"],
)
def test_a_run_is_cancelled(framework: str, pieces: Sequence[str], kind: EventType) -> None:
    fake = Fake(pieces, then="stall")
    agent = wrapped(FRAMEWORKS[framework](fake))
    played = asyncio.run(play(agent, step=cancel_at(kind)))
    check_cancelled(played)
    assert fake.begun == 1
    assert fake.open == 0
    assert played.tasks == set()  # nothing runs on when the run has ended


@each_framework
def test_a_run_is_cancelled_before_the_model_says_anything(framework: str) -> None:
    fake = Fake(then="stall")
    asked = RunAgentInput(thread_id="t", run_id="r", messages=shop.asked().messages)
    asked.messages[0].content = ""
    agent = wrapped(FRAMEWORKS[framework](fake))
    played = asyncio.run(play(agent, asked, step=cancel_at(EventType.RUN_STARTED)))
    check_cancelled(played)
    assert "TEXT_MESSAGE_CONTENT" not in played.types
    assert (fake.open, played.tasks) == (0, set())


def check_cancelled(played: Played) -> None:
    check_valid(played.events)
    assert played.result.outcome == "cancelled"
    assert played.wire[-1]["outcome"] == {"type": "cancelled"}
    assert [end.kind for end in played.ends] == ["abort"]
    assert played.trouble == []


@each_framework
def test_a_consumer_leaves(framework: str) -> None:
    fake = Fake(["word "] * 50)
    agent = wrapped(FRAMEWORKS[framework](fake))
    left = asyncio.run(
        play(agent, step=lambda _run, _n, event: event.type is not EventType.TEXT_MESSAGE_CONTENT)
    )
    assert [end.kind for end in left.ends] == ["abort"]
    assert fake.open == 0
    assert left.trouble == []
    if framework == "pydantic-ai":
        assert left.tasks == set()  # LangGraph's adapter leaves its tasks to the loop


@each_framework
def test_a_model_fails(framework: str) -> None:
    fake = Fake(("Your order is ",), then="raise")
    played = asyncio.run(play(wrapped(FRAMEWORKS[framework](fake))))
    check_valid(played.events)
    assert played.result.outcome == "error"
    assert played.wire[-1]["code"] == "agent-failed"
    assert played.wire[-1]["message"] == "the provider refused [card]"
    assert [end.kind for end in played.ends] == ["error"]
    assert (fake.open, played.tasks, played.trouble) == (0, set(), [])


@each_framework
def test_runs_at_once_do_not_mix(framework: str) -> None:
    fake = Fake()
    agent = wrapped(FRAMEWORKS[framework](fake))
    questions = [f"{name} asks for {name}'s order number {name}" for name in "ABCDEF"]

    async def one(host: Host, question: str) -> tuple[list[BaseEvent], RunResult]:
        run = host.run(question, thread_id=f"thread of {question}")
        return [event async for event in run], await run

    async def main() -> list[tuple[list[BaseEvent], RunResult]]:
        async with Host([Redact], agent=agent) as host:
            return await asyncio.gather(*(one(host, question) for question in questions))

    for question, (events, result) in zip(questions, asyncio.run(main()), strict=True):
        check_valid(events)
        assert result.text.strip() == question
        assert [m.content for m in result.messages if m.role == "user"] == [question]
        others = [name for name in "ABCDEF" if name != question[0]]
        shown = "".join(map(to_json, events))
        assert not [name for name in others if f" {name}" in shown or f"{name}'s" in shown]
    assert (fake.begun, fake.open) == (6, 0)


@each_framework
def test_a_conversation_goes_on(framework: str) -> None:
    fake = Fake()
    agent = wrapped(FRAMEWORKS[framework](fake))

    async def main() -> None:
        async with Host([Redact], agent=agent) as host:
            first = await host.run("one", thread_id="t")
            asked = shop.asked().messages[0].model_copy(update={"id": "second", "content": "two"})
            again = RunAgentInput(thread_id="t", run_id="r2", messages=[*first.messages, asked])
            second = await host.run(again)
        said = [str(message.content).strip() for message in second.messages]
        assert said == ["one", "one", "two", "two"]

    asyncio.run(main())


# Interrupts -----------------------------------------------------------------------------------


def resumed(before: RunAgentInput, result: RunResult, payload: Any) -> RunAgentInput:
    answers = [
        ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload)
        for interrupt in result.interrupts
    ]
    return before.model_copy(
        update={"run_id": "run-2", "messages": list(result.messages), "resume": answers}
    )


def test_a_tool_of_pydantic_ai_is_approved() -> None:
    agent = wrapped(shop_pydantic_ai.approving(shop.REFUND))

    async def main() -> None:
        async with Host(agent=agent, strict=True) as host:
            first = await host.run(shop.asked())
            assert first.outcome == "interrupt"
            second = await host.run(resumed(shop.asked(), first, {"approved": True}))
            assert second.outcome == "success"
            assert second.text.endswith(f"Your money is back on card {shop.CARD}.")

    asyncio.run(main())


def test_a_graph_is_answered() -> None:
    agent = wrapped(shop_langgraph.asking())

    async def main() -> None:
        async with Host([Redact], agent=agent, strict=True) as host:
            first = await host.run(shop.asked())
            assert first.outcome == "interrupt"
            assert [interrupt.message for interrupt in first.interrupts] == ["Refund card [card]?"]
            second = await host.run(resumed(shop.asked(), first, "yes"))
            assert second.outcome == "success"
            assert second.text.endswith("You said yes. [card] it is.")

    asyncio.run(main())


# The examples ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "variable"), [("pydantic-ai", "ag_ui_agent"), ("langgraph", "ag_ui_graph")]
)
class TestExamples:
    def test_it_shows_what_it_says(
        self, example: str, variable: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runpy.run_path(str(ROOT / "examples" / example / "app.py"), run_name="__main__")
        shown = capsys.readouterr().out
        assert "We wrote to" in shown
        assert "•••@•••••••.•••" in shown
        assert "ada@" not in shown
        assert "lookup_order" not in shown
        assert "TOOL_CALL" not in shown
        assert shown.splitlines()[-1].strip() == "RUN_FINISHED"

    def test_it_is_cancelled(self, example: str, variable: str) -> None:
        app = runpy.run_path(str(ROOT / "examples" / example / "app.py"))
        layers = [Layer(app["ToolFilter"], {"deny": ["lookup_order"]}), Redact]
        step = cancel_soon(EventType.TEXT_MESSAGE_START)
        played = asyncio.run(play(app[variable], step=step, layers=layers))
        check_cancelled(played)
        assert "1111." not in played.result.text
        assert played.tasks == set()


def cancel_soon(kind: EventType) -> Callable[[Run, int, BaseEvent], bool]:
    """Cancel the run from another task, as soon as one has the turn."""

    def step(run: Run, _number: int, event: BaseEvent) -> bool:
        if event.type is kind:
            asyncio.get_running_loop().call_soon(run.cancel, "the user pressed stop")
        return True

    return step
