"""An agent as a tool: its events under a lane of their own, its calls through the same layers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, cast
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    EventType,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    UserMessage,
)

from interpose.agui import Expander, Transcript, Verifier
from interpose.authoring import Agent
from interpose.errors import UsageError
from interpose.loop.agent import LoopAgent
from interpose.loop.calls import Delegation, only
from interpose.loop.conversation import Conversation
from interpose.loop.ids import FreshIds
from interpose.loop.limits import tightest
from interpose.loop.settings import LoopParts
from interpose.loop.streams import owned
from interpose.loop.time_limit import TimeLimit
from interpose.loop.tools import LoopTool, tool
from interpose.loop_errors import ToolError
from interpose.payloads import Effect, ToolCall, ToolResult
from interpose.services import Position

_TASK: Final = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "What the agent is to do."}},
    "required": ["task"],
    "additionalProperties": False,
}
_DROPPED: Final = frozenset(
    {EventType.RUN_STARTED, EventType.RUN_FINISHED, EventType.MESSAGES_SNAPSHOT}
)


def agent_tool(
    agent: Agent | LoopAgent,
    name: str,
    description: str,
    *,
    effect: Effect = "write",
    timeout: float | None = None,
) -> LoopTool:
    """Return a tool with which a loop hands a task to another agent; its text is the result.

    The events of the agent reach the consumer under a ``subagent_run_id``. A :class:`LoopAgent`
    calls its model and its tools through the layers of the run that it works for, and spends the
    same budget; any other agent passes the layers that look at events. An agent that pauses for
    people cannot be handed a task: its call fails. So does that of one that is cut short.
    """
    if not callable(getattr(agent, "run", None)):
        raise UsageError(
            f"agent_tool({name!r}) was given a {type(agent).__name__}, which is no agent",
            hint="give it an object with `run(run_input, ctx)`",
        )

    return tool(
        Subagent(agent, name, description),
        name=name,
        description=description,
        parameters=_TASK,
        effect=effect,
        timeout=timeout,
    )


class Subagent:
    """An agent that a loop calls like a function."""

    def __init__(self, agent: Any, name: str, description: str) -> None:
        self._agent = agent
        self._name = name
        self._description = description

    async def __call__(self, task: str) -> str:
        """Refuse: only a loop can run it."""
        raise UsageError(f"the agent {self._name!r} was called outside a loop; task: {len(task)}")

    async def delegate(
        self, call: ToolCall, job: Delegation, seconds: float | None = None
    ) -> ToolResult:
        """Play the agent for a tool call, this long at most; its last text is the result."""
        ident = str(uuid4())
        parent = job.ctx.loop.position
        started = SubagentStartedEvent(
            subagent_run_id=ident,
            name=self._name,
            description=self._description,
            parent_subagent_run_id=parent.subagent_run_id,
            parent_tool_call_id=call.id,
        )
        await _say(started, job)
        lane = _Lane(ident)
        transcript = Transcript()
        task = str(call.args["task"])
        is_loop = isinstance(self._agent, LoopAgent)
        events = self._loop(task, ident, call, job) if is_loop else self._other(task, ident, job)
        try:
            async with TimeLimit(call, job.ctx.clock, seconds):
                async for event in events:
                    transcript.apply(event)
                    job.send(lane.take(event))
        except Exception as error:
            said = error.message if isinstance(error, ToolError) else type(error).__name__
            async for event in lane.closing(job):
                job.send(lane.take(event))
            await _say(SubagentErrorEvent(subagent_run_id=ident, message=said), job)
            raise
        finally:
            await events.aclose()
        async for event in lane.closing(job):
            transcript.apply(event)
            job.send(lane.take(event))
        await _say(SubagentFinishedEvent(subagent_run_id=ident), job)
        return ToolResult(transcript.text)

    async def _loop(
        self, task: str, ident: str, call: ToolCall, job: Delegation
    ) -> AsyncGenerator[BaseEvent, None]:
        """Play a loop of ours inside the run that it works for."""
        position = Position(subagent_run_id=ident)
        parts: LoopParts = self._agent.parts
        with job.ctx.loop.subagent(position):
            conversation = Conversation(
                replace(parts, budget=tightest(parts.budget, job.budget)),
                job.ctx,
                [UserMessage(id=str(uuid4()), content=task)],
                spending=job.spending,
                origin=f"{job.origin}:{call.id}",
                taken=job.taken,
            )
            await conversation.begin()
            async with owned(conversation.play()) as stream:
                async for event in stream:
                    yield event
        end = conversation.end
        if end is not None and (end.waiting or end.clients):
            raise ToolError(f"The agent {self._name} waits for people, and nobody can be asked.")
        if end is not None and end.limit is not None:
            raise ToolError(f"The agent {self._name} was stopped before its answer: {end.limit}.")

    async def _other(
        self, task: str, ident: str, job: Delegation
    ) -> AsyncGenerator[BaseEvent, None]:
        """Play any other agent: one run of its own."""
        run_input = RunAgentInput(
            thread_id=ident, run_id=ident, messages=[UserMessage(id=str(uuid4()), content=task)]
        )
        given = (run_input, job.ctx) if _takes_context(self._agent.run) else (run_input,)
        stream = cast("AsyncIterator[BaseEvent]", self._agent.run(*given))
        ids = FreshIds(job.taken)
        async with owned(stream), owned(self._whole(stream)) as events:
            async for event in events:
                async with owned(job.ctx.rewrite(only(ids.renamed(event)))) as rewritten:
                    async for each in rewritten:
                        yield each

    async def _whole(self, stream: AsyncIterator[BaseEvent]) -> AsyncGenerator[BaseEvent, None]:
        """Yield what another agent says, expanded. Raises :class:`ToolError` if it fails."""
        expander = Expander()
        async for event in stream:
            if isinstance(event, RunErrorEvent):
                raise ToolError(f"The agent {self._name} failed.")
            if isinstance(event, RunFinishedEvent):
                if isinstance(event.outcome, RunFinishedInterruptOutcome):
                    raise ToolError(
                        f"The agent {self._name} waits for people, and nobody can be asked."
                    )
                break
            if event.type not in _DROPPED:
                for part in expander.push(event):
                    yield part
        else:
            raise ToolError(f"The agent {self._name} broke off before its end.")
        for part in expander.close():
            yield part


class _Lane:
    """The events of one subagent: marked with its id, and closed when it stops in the middle."""

    def __init__(self, ident: str) -> None:
        self._ident = ident
        self._verifier = Verifier()
        self._verifier.check(RunStartedEvent(thread_id=ident, run_id=ident))
        self._verifier.check(SubagentStartedEvent(subagent_run_id=ident, name="subagent"))

    def take(self, event: BaseEvent) -> BaseEvent:
        """Return an event of the agent as the consumer gets it. Raises :class:`InvalidStream`."""
        has_lane = "subagent_run_id" in type(event).model_fields
        if has_lane and getattr(event, "subagent_run_id", None) is None:
            event = event.model_copy(update={"subagent_run_id": self._ident})
        self._verifier.check(event)
        return event

    async def closing(self, job: Delegation) -> AsyncIterator[BaseEvent]:
        """Yield what ends all that is open in it, but not the subagent itself; still to be taken.

        The layers see the ends first: one that holds text back gives it now, or never.
        """
        for end in self._open():
            async with owned(job.ctx.rewrite(only(self._unmarked(end)))) as events:
                async for event in events:
                    yield event
        for end in self._open():
            yield self._unmarked(end)

    def _unmarked(self, event: BaseEvent) -> BaseEvent:
        """Return an event as the layers see those of the agent."""
        if getattr(event, "subagent_run_id", None) != self._ident:
            return event
        return event.model_copy(update={"subagent_run_id": None})

    def _open(self) -> Sequence[BaseEvent]:
        return [
            event
            for event in self._verifier.open_events()
            if not isinstance(event, SubagentErrorEvent) or event.subagent_run_id != self._ident
        ]


def _takes_context(run: Callable[..., Any]) -> bool:
    """Return whether an agent's ``run`` takes a context, too; one that takes the input is fine."""
    try:
        inspect.signature(run).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a signature that Python cannot read
        return True
    return True


async def _say(event: BaseEvent, job: Delegation) -> None:
    async for each in job.ctx.rewrite(only(event)):
        job.send(each)
