"""Tools of the built-in loop: from functions, pydantic models and JSON Schema.

::

    @tool
    def weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> str:
        '''Return the forecast.

        Args:
            city: A city, in English.
        '''
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, overload

from ag_ui.core import Tool
from pydantic import BaseModel
from pydantic_core import from_json

from interpose.errors import UsageError, described
from interpose.logs import bound, cause
from interpose.loop.json_copy import json_copy
from interpose.loop.signature import Function, read_function
from interpose.loop.tool_arguments import (
    Arguments,
    ModelArguments,
    SchemaArguments,
    SignatureArguments,
)
from interpose.loop.tool_fields import check_fields, check_name, plain_metadata
from interpose.loop.tool_output import Output
from interpose.loop.tool_texts import LIMIT, shortened
from interpose.payloads import Effect, ResolvedTool

Approval = bool | str | Callable[[Mapping[str, Any]], bool | str]

_JSON_TYPES: Final = {list: "an array", str: "a string", bool: "true or false"}


@dataclass(frozen=True, slots=True, eq=False)
class LoopTool:
    """A tool, as the built-in loop runs it. Make one with :func:`tool` or :func:`client_tool`.

    ``parameters``: the JSON Schema of its arguments. ``run``: the function, None if the client
    runs it. ``effect``: whether a call may be repeated. ``approval``: whether a person is asked
    first; a text is the question, a callable decides by the arguments. ``timeout``: seconds; None
    is the loop's default. ``lazy``: shown to the model only after it was disclosed.

    Calling it calls ``run``. What is wrong with a field is a :class:`UsageError`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., Any] | None
    effect: Effect = "write"
    approval: Approval = False
    timeout: float | None = None
    lazy: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    arguments: Arguments | None = field(default=None, repr=False)
    """How ``run`` takes them. None: JSON values by name."""
    output: Output | None = field(default=None, repr=False)
    """What the result has to be."""

    def __post_init__(self) -> None:
        check_fields(self)
        arguments = self.arguments
        if arguments is None or arguments.schema != self.parameters:
            function = None if self.run is None else read_function(self.run)
            what = f"the parameters of the tool {self.name!r}"
            arguments = SchemaArguments(self.parameters, function, what)
            object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "parameters", deepcopy(arguments.schema))
        object.__setattr__(self, "metadata", plain_metadata(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without any of what the loop does around it."""
        if self.run is None:
            raise UsageError(f"the tool {self.name!r} is run by the client")
        return self.run(*args, **kwargs)

    def declaration(self) -> Tool:
        """Return the tool as a model is shown it."""
        return Tool(
            name=self.name,
            description=self.description,
            parameters=json_copy(dict(self.parameters)),
            metadata=json_copy(dict(self.metadata)) or None,
        )

    def validate(self, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the arguments as JSON values, with defaults filled in.

        Raises :class:`ValueError` whose text tells a model which argument is wrong and what is
        expected. It does not quote the arguments.
        """
        try:
            return self._taken.validate(args)
        except ValueError as error:
            said = shortened(str(error), LIMIT)
            raise ValueError(f"Input validation failed for tool {self.name}: {said}") from error

    def read(self, text: str, /) -> dict[str, Any]:
        """Return the arguments that a model wrote, validated; raises as :meth:`parse` does."""
        return self.validate(self.parse(text))

    def parse(self, text: str, /) -> dict[str, Any]:
        """Return the arguments as a model wrote them. None at all, or null, means ``{}``.

        Raises :class:`ValueError` for what is no JSON object, with the place.
        """
        try:
            args = from_json(text, allow_inf_nan=False) if text.strip() else {}
        except ValueError as error:
            raise ValueError(f"Failed to parse tool arguments as JSON: {error}") from None
        if args is None:
            args = {}
        if not isinstance(args, dict):
            kind = _JSON_TYPES.get(type(args), "a number")
            said = f"expected an object, found {kind}"
            raise ValueError(f"Failed to parse tool arguments as JSON: {said}")  # noqa: TRY004
        return args

    def question(self, args: Mapping[str, Any], /) -> str | None:
        """Return what a person is asked before this call; None when nobody is.

        An ``approval`` that fails, or answers with anything but False or a text, asks.
        """
        answer: object = self.approval
        usual = f"May the tool {self.name!r} run?"
        if callable(answer):
            try:
                answer = answer(MappingProxyType(dict(args)))
            except Exception as error:  # noqa: BLE001 - in doubt, a person decides
                bound(tool=self.name).warning(
                    "the approval of the tool {} failed, so people are asked: {}",
                    self.name,
                    cause(error),
                )
                return f"{usual} (Its rule about that failed: {type(error).__name__}.)"
        if answer is False:
            return None
        return answer if isinstance(answer, str) and answer else usual

    def values(self, args: Mapping[str, Any], ctx: Any, /) -> dict[str, Any]:
        """Return what ``run`` is called with, by name. Raises as :meth:`validate`."""
        try:
            return self._taken.values(args, ctx)
        except ValueError as error:
            said = shortened(str(error), LIMIT)
            raise ValueError(f"Input validation failed for tool {self.name}: {said}") from error

    @property
    def _taken(self) -> Arguments:
        arguments = self.arguments
        if arguments is None:  # pragma: no cover - set when it was made
            raise UsageError(f"the tool {self.name!r} is not complete")
        return arguments


@overload
def tool(
    fn: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: type[BaseModel] | Mapping[str, Any] | None = None,
    output: Any = None,
    effect: Effect = "write",
    approval: Approval = False,
    timeout: float | None = None,
    lazy: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> LoopTool: ...
@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: type[BaseModel] | Mapping[str, Any] | None = None,
    output: Any = None,
    effect: Effect = "write",
    approval: Approval = False,
    timeout: float | None = None,
    lazy: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], LoopTool]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: type[BaseModel] | Mapping[str, Any] | None = None,
    output: Any = None,
    effect: Effect = "write",
    approval: Approval = False,
    timeout: float | None = None,
    lazy: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> LoopTool | Callable[[Callable[..., Any]], LoopTool]:
    """Make a tool of a function; a decorator, with arguments or without, or a plain call.

    The function may be sync, which runs in a thread, or async, or a generator: each value that it
    yields is reported as progress at once, and the last one is the result; a sync generator may
    return it instead. A parameter annotated with :class:`ToolContext` gets the call's context.

    ``parameters``: None takes the annotations and the docstring (Google, NumPy or Sphinx style);
    without an annotation a parameter takes any JSON value. A pydantic model: the function gets one
    instance of it. A JSON Schema: the function gets the arguments by name, as JSON values.

    ``output``: a type or a JSON Schema that the result is checked against; another result is an
    error that the model sees. The annotation of the return value is not checked.

    ``name``, ``description``: by default the function's name, and its docstring or else its name.
    The other fields are those of :class:`LoopTool`.
    """

    def make(function: Callable[..., Any]) -> LoopTool:
        if isinstance(function, LoopTool):
            raise UsageError(
                f"{function.name!r} is a tool already",
                hint="dataclasses.replace(tool, name=...) gives a changed copy",
            )
        read = read_function(function)
        named = read.name if name is None else name
        check_name(named, read.where)
        taken = _arguments(parameters, read, named)
        return LoopTool(
            name=named,
            description=(read.docs.description or named) if description is None else description,
            parameters=taken.schema,
            run=function,
            effect=effect,
            approval=approval,
            timeout=timeout,
            lazy=lazy,
            metadata=metadata or {},
            arguments=taken,
            output=None if output is None else Output(output, named),
        )

    return make if fn is None else make(fn)


def client_tool(
    name: str, description: str, parameters: type[BaseModel] | Mapping[str, Any]
) -> LoopTool:
    """Make a tool that the client runs: its calls leave the run, and it goes on with the answer."""
    if isinstance(parameters, type):
        taken: Arguments = ModelArguments(parameters, None)
    else:
        what = f"the parameters of the tool {name!r}"
        taken = SchemaArguments(parameters, None, what, lazy=True)
    return LoopTool(name, description, taken.schema, None, arguments=taken)


def resolved(found: ResolvedTool) -> LoopTool:
    """Return what ``resolve_tool`` of a layer answered as a tool of the loop.

    Without parameters in its declaration, those are of the function.
    """
    declared, given = found.tool, found.run
    function = given.run if isinstance(given, LoopTool) else given
    if function is None:
        raise UsageError(f"the tool {declared.name!r} was resolved, but nothing runs it")
    return tool(
        function,
        name=declared.name,
        description=declared.description,
        parameters=declared.parameters,
        effect=found.effect,
        timeout=found.timeout,
        metadata=declared.metadata,
    )


def tools_of(values: Iterable[object], place: str = "") -> tuple[LoopTool, ...]:
    """Return functions and tools as tools. ``place`` says where they are from, for errors.

    Anything else, as a tool of another framework or a class, and two tools of one name are a
    :class:`UsageError`.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise UsageError(f"tools are given as a list, not as {described(values)}", where=place)
    found: dict[str, tuple[LoopTool, str]] = {}
    for index, value in enumerate(values):
        at = f"{place or 'tools'}[{index}]"
        each = _tool_of(value, at)
        if each.name in found:
            raise UsageError(
                f"two tools are named {each.name!r}",
                where=(found[each.name][1], at),
                hint="give one of them another name: tool(function, name=...)",
            )
        found[each.name] = (each, at)
    return tuple(each for each, _ in found.values())


def _tool_of(value: object, at: str) -> LoopTool:
    if isinstance(value, LoopTool):
        return value
    if not (inspect.isroutine(value) or isinstance(value, partial)):
        kind = value if isinstance(value, type) else type(value)
        hint = "give a function, or interpose.loop.tool(...) of one"
        if isinstance(value, type) and issubclass(value, BaseModel):
            hint = f"write a function that takes it: tool(function, parameters={kind.__name__})"
        elif isinstance(value, Tool):
            hint = "what the client runs is made with client_tool(name, description, parameters)"
        elif callable(value):
            hint = "if its class is yours, tool(object, name=...); else a function that calls it"
        shown = "None" if value is None else f"{described(value)} of {kind.__module__}"
        raise UsageError(f"{shown} is no tool of Interpose", where=at, hint=hint)
    try:
        return tool(value)
    except UsageError as error:
        raise UsageError(error.message, where=(at, *error.where), hint=error.hint) from error


def _arguments(parameters: object, function: Function, name: str) -> Arguments:
    if parameters is None:
        return SignatureArguments(function)
    if isinstance(parameters, type) and issubclass(parameters, BaseModel):
        return ModelArguments(parameters, function)
    if isinstance(parameters, Mapping):
        return SchemaArguments(parameters, function, f"the parameters of the tool {name!r}")
    raise UsageError(
        f"the parameters of the tool {name!r} are given as {described(parameters)}",
        where=function.where,
        hint="give a pydantic model class, a JSON Schema, or nothing",
    )
