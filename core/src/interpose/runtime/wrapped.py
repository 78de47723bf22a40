"""An agent with layers around it, as an agent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.authoring import Point
from interpose.context import AgentContext
from interpose.runtime.run import Run


class WrappedAgent:
    """What ``host.wrap`` returns: each ``run`` goes through the layers of the host."""

    def __init__(self, points: Sequence[Point], open_run: Callable[[RunAgentInput], Run]) -> None:
        self.points = tuple(points)
        self._open_run = open_run

    def run(
        self, run_input: RunAgentInput, ctx: AgentContext | None = None, /
    ) -> AsyncIterator[BaseEvent]:
        """Play one run. The context of another host, if there is one, is not needed."""
        del ctx
        return aiter(self._open_run(run_input))
