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
    ``lacks_run``: an object that has ``run`` is not of this framework.
    """

    name: str
    module: str
    classes: frozenset[str]
    advice: str
    code: str = ""
    remote: bool = False
    lacks_run: bool = False

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


_LANGGRAPH = """\
from ag_ui_langgraph import LangGraphAgent

async def {new}(run_input):
    async for event in LangGraphAgent(name="chat", graph={agent}).run(run_input):
        yield event"""

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

FRAMEWORKS: Final = (
    Framework(
        "Pydantic AI",
        "pydantic_ai",
        frozenset({"AbstractAgent", "Agent", "WrapperAgent"}),
        'Install "pydantic-ai-slim[ag-ui]" and wrap it:',
        """\
from pydantic_ai.ui.ag_ui import AGUIAdapter

async def {new}(run_input):
    async for event in AGUIAdapter(agent={agent}, run_input=run_input).run_stream():
        yield event""",
    ),
    Framework(
        "LangGraph",
        "langgraph",
        frozenset({"Pregel", "PregelProtocol", "CompiledStateGraph", "CompiledGraph"}),
        "Install ag-ui-langgraph and wrap the graph, one wrapper for each run:",
        _LANGGRAPH,
    ),
    Framework(
        "LangGraph",
        "langgraph",
        frozenset({"StateGraph"}),
        "Install ag-ui-langgraph, compile the graph, and wrap it, one wrapper for each run:",
        _LANGGRAPH.replace("{agent}", "{agent}.compile()"),
    ),
    Framework(
        "LangChain",
        "langchain",
        frozenset({"AgentExecutor"}),
        "AgentExecutor has no AG-UI adapter. Build the agent with langchain.agents.create_agent, "
        "which gives a LangGraph graph, install ag-ui-langgraph and wrap the graph:",
        _LANGGRAPH.replace("{agent}", "graph"),
    ),
    Framework(
        "LangChain",
        "langchain_classic",
        frozenset({"AgentExecutor"}),
        "AgentExecutor has no AG-UI adapter. Build the agent with langchain.agents.create_agent, "
        "which gives a LangGraph graph, install ag-ui-langgraph and wrap the graph:",
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
