"""The tools of one run: the agent's, the client's, and what layers add, disclosed or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ag_ui.core import Message, Tool

from interpose.errors import MiddlewareError, Reject, UsageError
from interpose.loop.tools import LoopTool, client_tool, resolved
from interpose.loop.tools import tool as make_tool
from interpose.loop_errors import ToolError
from interpose.payloads import ResolvedTool
from interpose.services import LoopServices

DISCLOSE: Final = "disclose_tools"
"""The tool with which a model asks for lazy tools."""

_NAMES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["names"],
    "additionalProperties": False,
}


class ToolSet:
    """What can be called in a run. ``declared`` is what requests show unless a layer says else.

    Raises :class:`Reject` for a tool of the client that cannot be one.
    """

    def __init__(self, own: Sequence[LoopTool], client: Sequence[Tool]) -> None:
        self._own = {each.name: each for each in own}
        self._client = {each.name: _clients(each) for each in client}
        names = [each.name for each in client]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise _refused(f"two of them have one name: {', '.join(twice)}")
        taken = {*self._own, *((DISCLOSE,) if any(tool.lazy for tool in own) else ())}
        both = sorted(taken & self._client.keys())
        if both:
            raise _refused(f"the agent has a tool of that name itself: {', '.join(both)}")
        self._resolved: dict[str, tuple[ResolvedTool, LoopTool]] = {}
        self.disclosed: dict[str, None] = {}

    @property
    def declared(self) -> tuple[Tool, ...]:
        """The tools that a request shows: all but lazy ones that were not asked for."""
        shown = [tool for tool in self._own.values() if not self._is_hidden(tool)]
        found = [tool.declaration() for tool in (*shown, *self._client.values())]
        hidden = [tool for tool in self._own.values() if self._is_hidden(tool)]
        return (*found, _disclosing(hidden)) if hidden else tuple(found)

    def _is_hidden(self, tool: LoopTool) -> bool:
        return tool.lazy and tool.name not in self.disclosed

    def _disclose(self, names: Sequence[str]) -> str:
        lazy = [name for name in names if name in self._own and self._own[name].lazy]
        unknown = [name for name in names if name not in lazy]
        self.disclosed.update(dict.fromkeys(lazy))
        told = [f"You can call {', '.join(lazy)} now."] if lazy else []
        if unknown:
            told.append(f"There is no tool {', '.join(unknown)}.")
        return " ".join(told)

    def disclose_again(self, messages: Sequence[Message]) -> None:
        """Show the lazy tools that were asked for earlier in the conversation."""
        for message in messages:
            for call in getattr(message, "tool_calls", None) or ():
                if call.function.name == DISCLOSE:
                    with suppress(ValueError):
                        self._disclose(self._disclosing().read(call.function.arguments)["names"])

    def has(self, name: str) -> bool:
        """Whether the agent or the client has this tool."""
        return name in self._own or name in self._client

    def _disclosing(self) -> LoopTool:
        return make_tool(
            self._disclose, name=DISCLOSE, description="", parameters=_NAMES, effect="read"
        )

    def _made(self, found: ResolvedTool) -> LoopTool:
        """Return what a layer resolved, made once as long as it gives the same."""
        name = found.tool.name
        known = self._resolved.get(name)
        if known is None or known[0] is not found:
            known = self._resolved[name] = (found, resolved(found))
        return known[1]

    def known(self, name: str) -> Sequence[Tool]:
        """Return the declaration that an earlier run's request had shown for a call."""
        found = self._own.get(name) or self._client.get(name)
        if found is None:
            return (Tool(name=name, description="", parameters={"type": "object"}),)
        return (found.declaration(),)

    async def find(self, name: str, shown: Iterable[Tool], loop: LoopServices) -> LoopTool:
        """Return the tool of a call. Raises :class:`ToolError` when the request did not show it."""
        names = {tool.name: tool for tool in shown}
        if name not in names:
            own = self._own.get(name)
            if own is not None and self._is_hidden(own):
                raise ToolError(f"Ask for {name} first: call {DISCLOSE}.")
            known = ", ".join(sorted(names)) or "none"
            raise ToolError(f"Unknown tool: {name}. The tools are: {known}.")
        if name in self._own:
            return self._own[name]
        if name == DISCLOSE:
            return self._disclosing()
        found = await loop.resolve_tool(name)
        if found is not None:
            return self._made(found)
        if name in self._client:
            return self._client[name]
        shown_tool = names[name]  # nobody here runs it: the client does
        return client_tool(name, shown_tool.description, _object(shown_tool.parameters))


def check_disclosing(tools: Sequence[LoopTool], place: str) -> None:
    """Raise :class:`UsageError` when an agent with lazy tools has one that bears our own name."""
    lazy = next((tool.name for tool in tools if tool.lazy), None)
    if lazy is not None and any(tool.name == DISCLOSE for tool in tools):
        raise UsageError(
            f"a tool is named {DISCLOSE!r}, as the one with which the model asks for the lazy "
            f"tool {lazy!r}",
            where=place,
            hint="give it another name: tool(function, name=...)",
        )


def _clients(given: Tool) -> LoopTool:
    """Return a tool of the client. It is the client's mistake if it cannot be one."""
    try:
        return client_tool(given.name, given.description, _object(given.parameters))
    except UsageError as error:
        raise _refused(error.message) from error


def _refused(why: str) -> Reject:
    return Reject("invalid-input", f"The tools of the input cannot be used: {why}.", status=400)


def check_names(tools: Sequence[Tool]) -> None:
    """Raise :class:`MiddlewareError` when a request shows two tools of one name."""
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise MiddlewareError(
                f"a model call would show two tools named {tool.name!r}",
                hint="a layer that adds a tool has to give it a name that is free",
            )
        seen.add(tool.name)


def _object(parameters: Any) -> Mapping[str, Any]:
    return parameters if isinstance(parameters, Mapping) else {"type": "object", "properties": {}}


def _disclosing(hidden: Sequence[LoopTool]) -> Tool:
    listed = "\n".join(
        f"- {tool.name}: {tool.description.strip().splitlines()[0] if tool.description else ''}"
        for tool in hidden
    )
    names = {**_NAMES["properties"]["names"], "items": {"enum": [tool.name for tool in hidden]}}
    return Tool(
        name=DISCLOSE,
        description=f"Ask for tools before you call them. There are:\n{listed}",
        parameters={**_NAMES, "properties": {"names": names}},
    )
