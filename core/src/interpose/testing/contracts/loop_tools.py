"""The tools of the loops that a contract plays: small, and each call is on record."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from interpose.errors import Transient
from interpose.interrupts import InterruptDefinition
from interpose.loop.tool_context import ToolContext
from interpose.loop.tools import LoopTool, client_tool, tool
from interpose.loop_errors import ToolError
from interpose.testing.contracts.material import names, sentences
from interpose.testing.contracts.subject import Subject

SECRET: Final = "canary-7f3a-of-the-kit"  # noqa: S105 - what no consumer may see, made up
"""Stands in the text of each exception whose text belongs to the operator alone."""

MOST: Final = 60
"""Executions of a tool, and calls of a model, after which all goes well, so that it ends."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Args(BaseModel):
    """What each tool takes; it minds no other argument, as a middleware may add some."""

    model_config = ConfigDict(extra="allow")

    query: str = ""
    amount: int = 0


class Yes(BaseModel):
    """The answer to the question of the tool ``ask_first``."""

    yes: bool


SURE: Final = InterruptDefinition("contract-sure", response=Yes)


@dataclass(frozen=True, slots=True)
class Executed:
    """One execution of a tool. ``key``: its idempotency key; ``user``: on whose behalf."""

    tool: str
    key: str
    args: Mapping[str, Any]
    user: str = ""


@dataclass(slots=True)
class Tools:
    """Tools that record what is executed.

    * ``look_up`` (read), ``store`` (idempotent) and ``place_order`` (write) do what they say, and
      so does one more write for each word of the settings that could be a tool's name;
    * ``refuse`` raises a ``ToolError``, ``crash`` another exception, ``flicker`` what may pass:
      after they have been executed, as a write that failed half-way;
    * ``ask_first`` asks people, ``approved`` needs their approval, ``give_up`` aborts the run,
      ``wait`` never ends, ``pick`` is the client's.

    ``user``: on whose behalf the runs are; the results name it. ``begun``: the executions with
    those that only got as far as to ask people.
    """

    subject: Subject
    user: str = "ada"
    executed: list[Executed] = field(default_factory=list)
    begun: list[Executed] = field(default_factory=list)

    @property
    def own_names(self) -> tuple[str, ...]:
        """Names of tools that the middleware's settings speak of."""
        found = dict.fromkeys(names(self.subject)[:-1])
        return tuple(name for name in found if name not in KIT and _NAME.fullmatch(name))

    def of(self, wanted: Iterable[str]) -> Sequence[LoopTool]:
        """Return the tools of these names, and ``look_up``."""
        kept = dict.fromkeys(("look_up", *wanted))
        return [self._made(name) for name in kept if name in KIT or name in self.own_names]

    def _made(self, name: str) -> LoopTool:
        if name == "pick":
            return client_tool(name, "Let the user pick.", Args)

        async def act(ctx: ToolContext, args: Args) -> str:
            del args  # the context has them
            now = Executed(name, ctx.idempotency_key, ctx.call.args, self.user)
            self.begun.append(now)
            if name == "ask_first":
                ctx.ask(SURE, "sure", "Are you sure?")
            self.executed.append(now)
            repeated = sum(each.tool == name for each in self.executed)
            return "Done at last." if repeated > MOST else await _act(name, ctx, self)

        options = _OPTIONS.get(name, {})
        return tool(act, name=name, description=f"{name}.", parameters=Args, **options)


async def _act(name: str, ctx: ToolContext, tools: Tools) -> str:
    """Do what the tool of this name does, once its execution is on record."""
    if name == "refuse":
        raise ToolError("There is no such order.")
    if name == "crash":
        raise RuntimeError(f"connection to db1 lost, {SECRET}")
    if name == "flicker":
        raise Transient(f"db1 is busy, {SECRET}")
    if name == "give_up":
        ctx.abort("the tool gives up")
    if name == "wait":
        await asyncio.Event().wait()
    given = ", ".join(f"{key}={value}" for key, value in sorted(ctx.call.args.items()))
    if name == "look_up":
        return f"{tools.user} asked with {given}. {sentences(tools.subject)}"
    return f"done for {tools.user} with {given}"


_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "look_up": {"effect": "read"},
    "store": {"effect": "idempotent"},
    "approved": {"approval": "May it be done?"},
}
KIT: Final = frozenset(
    {
        *("look_up", "store", "place_order", "refuse", "crash", "flicker", "ask_first"),
        *("approved", "give_up", "wait", "pick"),
    }
)
"""The names of the kit's own tools."""
