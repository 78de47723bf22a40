"""Agent objects of frameworks, recognised without importing any of them.

Such an object does not speak AG-UI by itself. It is known by the module and the name of a class in
its MRO, and the error says which adapter to put around it, and how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Framework:
    """How a framework's agents are recognised, and what to write instead.

    ``module`` is the package, or the module, that defines ``classes``. ``advice`` is one sentence,
    ``code`` the lines to write: ``{agent}`` stands for the object's name, ``{new}`` for that of the
    adapted one. ``remote``: the adapter serves HTTP, so the agent is used as ``use = "remote"``.
    ``lacks_run``: an object that has ``run`` is not of this framework. ``fault`` ends the sentence
    that refuses the object.
    """

    name: str
    module: str
    classes: frozenset[str]
    advice: str
    code: str = ""
    remote: bool = False
    lacks_run: bool = False
    fault: str = "which does not speak AG-UI by itself"

    def made(self, value: object) -> bool:
        """Say whether ``value`` is an agent of this framework, or a class of them."""
        if self.lacks_run and hasattr(value, "run"):
            return False
        cls = value if isinstance(value, type) else type(value)
        return any(
            base.__name__ in self.classes
            and (base.__module__ == self.module or base.__module__.startswith(f"{self.module}."))
            for base in cls.__mro__
        )

    def remedy(self, variable: str, module: str = "") -> str:
        """Return the advice and the lines to write for the object ``variable`` of ``module``."""
        if self.remote:
            return f'{self.advice}\n[agent]\nuse = "remote"\nurl = "http://localhost:8000/"'
        new = f"ag_ui_{variable}"
        code = self.code.format(agent=variable, new=new)
        then = f'use = "{module}:{new}"' if module else f"use {new}"
        return f"{self.advice}\n{code}\nThen {then}."


def recognise(value: object) -> Framework | None:
    """Return the framework that ``value`` comes from, or None."""
    return next((framework for framework in FRAMEWORKS if framework.made(value)), None)


def recognise_single(value: object) -> Framework | None:
    """Return the adapter that ``value`` is if it can play one run only, or None."""
    return next((adapter for adapter in SINGLE if adapter.made(value)), None)


# The host is given the adapters' own streams, for it closes what it is given; a generator around
# them would leave them to the garbage collector when the consumer goes away.
_PYDANTIC_AI = """\
from pydantic_ai.ui.ag_ui import AGUIAdapter

class AgUi:
    def run(self, run_input):
        return AGUIAdapter(agent={agent}, run_input=run_input).run_stream()

{new} = AgUi()"""


_LANGGRAPH = """\
from ag_ui_langgraph import LangGraphAgent

class AgUi:
    def run(self, run_input):
        return LangGraphAgent(
            name="chat", graph={agent}, emit_raw_events=False, emit_interrupt_outcome=True
        ).run(run_input)

{new} = AgUi()"""

_STATE_GRAPH = """\
from langgraph.checkpoint.memory import InMemorySaver

compiled = {agent}.compile(checkpointer=InMemorySaver())

""" + _LANGGRAPH.replace("{agent}", "compiled")

_OPENAI = """\
from ag_ui.core import RunFinishedEvent, RunStartedEvent, TextMessageChunkEvent
from agents import Runner

async def {new}(run_input):
    ids = {{"thread_id": run_input.thread_id, "run_id": run_input.run_id}}
    yield RunStartedEvent(**ids)
    result = Runner.run_streamed({agent}, run_input.messages[-1].content)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield TextMessageChunkEvent(message_id=event.data.item_id, delta=event.data.delta)
    yield RunFinishedEvent(**ids)"""

_LANGCHAIN = (
    "AgentExecutor has no AG-UI adapter. Build the agent with langchain.agents.create_agent and a "
    'checkpointer, which gives a LangGraph graph, install "ag-ui-langgraph[fastapi]" and wrap the '
    "graph, with one wrapper for each run:"
)

FRAMEWORKS: Final = (
    Framework(
        "Pydantic AI",
        "pydantic_ai",
        frozenset({"AbstractAgent", "Agent", "WrapperAgent"}),
        'Install "pydantic-ai-slim[ag-ui]" and wrap it:',
        _PYDANTIC_AI,
    ),
    Framework(
        "LangGraph",
        "langgraph",
        frozenset({"Pregel", "PregelProtocol", "CompiledStateGraph", "CompiledGraph"}),
        'Install "ag-ui-langgraph[fastapi]" and wrap the graph, compiled with a checkpointer, with '
        "one wrapper for each run:",
        _LANGGRAPH,
    ),
    Framework(
        "LangGraph",
        "langgraph",
        frozenset({"StateGraph"}),
        'Install "ag-ui-langgraph[fastapi]", compile the graph with a checkpointer, and wrap it, '
        "with one wrapper for each run:",
        _STATE_GRAPH,
    ),
    Framework(
        "LangChain",
        "langchain",
        frozenset({"AgentExecutor"}),
        _LANGCHAIN,
        _LANGGRAPH.replace("{agent}", "graph"),
    ),
    Framework(
        "LangChain",
        "langchain_classic",
        frozenset({"AgentExecutor"}),
        _LANGCHAIN,
        _LANGGRAPH.replace("{agent}", "graph"),
    ),
    Framework(
        "the OpenAI Agents SDK",
        "agents.agent",
        frozenset({"Agent", "AgentBase"}),
        "It has no AG-UI adapter; turn its stream into events:",
        _OPENAI,
        # A package of one's own may be called "agents", too; the SDK's agents are run by a Runner.
        lacks_run=True,
    ),
    Framework(
        "Microsoft Agent Framework",
        "agent_framework",
        frozenset({"Agent", "BaseAgent", "ChatAgent", "RawAgent", "WorkflowAgent"}),
        "Serve it in an environment of its own (agent-framework-ag-ui needs an older "
        "ag-ui-protocol), with add_agent_framework_fastapi_endpoint, and reach it there:",
        remote=True,
    ),
    Framework(
        "Google ADK",
        "google.adk",
        frozenset({"BaseAgent"}),
        "Install ag-ui-adk and wrap it:",
        """\
from ag_ui_adk import ADKAgent

{new} = ADKAgent(adk_agent={agent}, app_name="chat", user_id="user")""",
    ),
    Framework(
        "Google ADK",
        "google.adk",
        frozenset({"App"}),
        "Install ag-ui-adk and wrap it:",
        """\
from ag_ui_adk import ADKAgent

{new} = ADKAgent.from_app({agent}, user_id="user")""",
    ),
    Framework(
        "Strands",
        "strands",
        frozenset({"Agent", "AgentBase"}),
        "Install ag-ui-strands and wrap it:",
        """\
from ag_ui_strands import StrandsAgent

{new} = StrandsAgent(agent={agent}, name="chat")""",
    ),
    Framework(
        "CrewAI",
        "crewai",
        frozenset({"Agent", "BaseAgent", "Crew", "Flow"}),
        "Serve it with ag-ui-crewai (add_crewai_flow_fastapi_endpoint), and reach it there:",
        remote=True,
    ),
    Framework(
        "LlamaIndex",
        "llama_index",
        frozenset({"AgentRunner", "AgentWorkflow", "BaseWorkflowAgent", "Workflow"}),
        "Serve it with llama-index-protocols-ag-ui (get_ag_ui_workflow_router), and reach it "
        "there:",
        remote=True,
    ),
)
"""Every framework that is recognised."""

SINGLE: Final = (
    Framework(
        "ag-ui-langgraph",
        "ag_ui_langgraph",
        frozenset({"LangGraphAgent"}),
        "Give each run a copy of its own:",
        """\
class AgUi:
    def run(self, run_input):
        return {agent}.clone().run(run_input)

{new} = AgUi()""",
        fault="which keeps the state of its run on itself: runs at once would mix",
    ),
)
"""Adapters that speak AG-UI, but must not be shared by runs."""
