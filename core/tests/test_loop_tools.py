"""Making tools: names, descriptions, schemas and what is refused."""

from __future__ import annotations

import builtins
import enum
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from ag_ui.core import Tool
from pydantic import BaseModel, Field, SecretStr

from interpose import UsageError
from interpose.loop.tools import LoopTool, client_tool, resolved, tool, tools_of
from interpose.payloads import ResolvedTool

if TYPE_CHECKING:
    from decimal import Decimal

    from interpose.loop.execution import ToolContext
    from interpose.loop.execution import ToolContext as Renamed

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A place on a map."""

    name: str
    height: Annotated[float, Field(description="In metres.")] = 0.0


class Node(BaseModel):
    value: int
    children: list[Node] = []


def properties(made: LoopTool) -> Mapping[str, Any]:
    found = made.parameters["properties"]
    assert isinstance(found, Mapping)
    return found


# From functions -------------------------------------------------------------------------------


def test_a_decorated_function_is_a_tool_that_still_can_be_called() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    assert (double.name, double.description) == ("double", "Double a number.")
    assert double(21) == 42
    assert double.effect == "write"


def test_the_decorator_takes_arguments() -> None:
    @tool(name="twice.v2", description="Twice.", effect="read", timeout=3, lazy=True)
    def double(number: int) -> int:
        return number * 2

    assert (double.name, double.description, double.effect) == ("twice.v2", "Twice.", "read")
    assert (double.timeout, double.lazy) == (3, True)


def test_a_description_falls_back_to_the_name() -> None:
    @tool
    def undocumented() -> None: ...

    assert undocumented.description == "undocumented"
    assert undocumented.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_annotations_become_a_schema() -> None:
    @tool
    def find(  # noqa: PLR0917
        text: str,
        colour: Colour,
        kind: Literal["a", "b"] = "a",
        limit: Annotated[int, Field(ge=1, le=9, description="How many.")] = 3,
        near: Place | None = None,
        also: str = Field("x", max_length=4, description="Also."),
    ) -> None: ...

    assert find.parameters["required"] == ["text", "colour"]
    assert find.parameters["additionalProperties"] is False
    found = properties(find)
    assert found["text"] == {"type": "string"}
    assert found["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert found["limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 3,
        "description": "How many.",
    }
    assert found["near"]["anyOf"] == [{"$ref": "#/$defs/Place"}, {"type": "null"}]
    assert found["also"]["description"] == "Also."
    assert found["also"]["maxLength"] == 4
    assert find.parameters["$defs"]["Place"]["description"] == "A place on a map."
    assert find.parameters["$defs"]["Colour"]["enum"] == ["red", "blue"]


def test_a_parameter_without_annotation_takes_any_value() -> None:
    @tool
    def anything(value, other=None): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202

    assert properties(anything) == {"value": {}, "other": {"default": None}}
    assert anything.validate({"value": [1, {"a": None}]}) == {
        "value": [1, {"a": None}],
        "other": None,
    }


@pytest.mark.parametrize("name", ["schema", "json", "copy", "model_config", "_hidden", "self_"])
def test_a_parameter_may_have_a_name_that_no_field_of_a_model_may_have(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f({name}: int): return {name}", space)  # noqa: S102
    made = tool(space["f"])
    assert made.validate({name: 1}) == {name: 1}
    assert list(properties(made)) == [name]


def test_an_alias_is_the_name_the_model_sees() -> None:
    @tool
    def f(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    assert list(properties(f)) == ["from"]
    assert f.validate({"from": "x"}) == {"from": "x"}


DOCS = {
    "google": """Find a city.

    Looks everywhere.

    Args:
        city (str): Its name,
            in English.
        limit: How many.

    Returns:
        Text.
    """,
    "numpy": """Find a city.

    Looks everywhere.

    Parameters
    ----------
    city : str
        Its name,
        in English.
    limit : int
        How many.

    Returns
    -------
    str
        Text.
    """,
    "sphinx": """Find a city.

    Looks everywhere.

    :param city: Its name,
        in English.
    :type city: str
    :param limit: How many.
    :returns: Text.
    """,
}


@pytest.mark.parametrize("style", DOCS)
def test_a_docstring_describes_the_parameters(style: str) -> None:
    def find(city: str, limit: int = 1) -> str:
        return city

    find.__doc__ = DOCS[style]
    made = tool(find)
    assert made.description == "Find a city.\n\nLooks everywhere."
    assert properties(made)["city"]["description"] == "Its name, in English."
    assert properties(made)["limit"]["description"] == "How many."


def test_an_explicit_description_of_a_parameter_wins() -> None:
    @tool
    def f(x: Annotated[int, Field(description="Mine.")]) -> None:
        """Do.

        Args:
            x: The docstring's.
            y: There is no such parameter.
        """

    assert properties(f) == {"x": {"type": "integer", "description": "Mine."}}


def test_a_plain_docstring_stays_whole() -> None:
    @tool
    def f() -> None:
        """Do it: at once.

        Warning: this text has colons. :ref:`x`
        """

    assert f.description == "Do it: at once.\n\nWarning: this text has colons. :ref:`x`"


class Shop:
    """Holds methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sell(self, amount: int) -> str:
        """Sell some."""
        return f"{self.name} sold {amount}"

    @staticmethod
    def open(day: str) -> str:
        return day

    @classmethod
    def make(cls, name: str) -> str:
        return cls(name).name


def test_a_bound_method_is_a_tool() -> None:
    made = tool(Shop("corner").sell)
    assert (made.name, made.description) == ("sell", "Sell some.")
    assert list(properties(made)) == ["amount"]
    assert made(3) == "corner sold 3"
    assert list(properties(tool(Shop.open))) == ["day"]
    assert list(properties(tool(Shop.make))) == ["name"]


def test_what_a_partial_binds_is_not_the_models_to_give() -> None:
    def transfer(account: str, amount: int, note: str = "") -> str:
        """Transfer money."""
        return f"{account} {amount} {note}"

    made = tool(partial(partial(transfer, account="mine"), note="n"))
    assert (made.name, made.description) == ("transfer", "Transfer money.")
    assert list(properties(made)) == ["amount"]
    with pytest.raises(ValueError, match="account: there is no such argument; there are: amount"):
        made.validate({"amount": 1, "account": "yours"})


def test_an_object_with_call_is_a_tool() -> None:
    class Search:
        """An index."""

        def __call__(self, text: str) -> str:
            """Search the index."""
            return text

    made = tool(Search(), name="search")
    assert (made.description, list(properties(made))) == ("Search the index.", ["text"])
    assert tool(Search()).name == "Search"


def test_a_context_is_not_in_the_schema() -> None:
    def one(ctx: ToolContext, x: int) -> None: ...
    def two(x: int, anything: ToolContext | None = None) -> None: ...

    assert list(properties(tool(one))) == ["x"]
    assert list(properties(tool(two))) == ["x"]


def test_a_return_type_for_type_checkers_alone_does_not_matter() -> None:
    @tool
    def f(x: int) -> Decimal: ...  # type: ignore[empty-body]

    assert list(properties(f)) == ["x"]


def test_a_class_that_contains_itself_is_an_object_at_the_top() -> None:
    made = tool(lambda node: node, name="walk", parameters=Node)
    assert made.parameters["type"] == "object"
    assert list(properties(made)) == ["value", "children"]
    assert made.parameters["$defs"]["Node"]["properties"]["children"]["items"] == {
        "$ref": "#/$defs/Node"
    }


def test_names_are_read_where_the_function_was_written() -> None:
    space: dict[str, Any] = {}
    source = (
        "from __future__ import annotations\n"
        "from pydantic import BaseModel\n"
        "class Item(BaseModel):\n    id: int\n"
        "def order(items: list[Item]) -> str:\n    return str(items[0].id)\n"
    )
    exec(compile(source, "elsewhere", "exec"), space)  # noqa: S102
    made = tool(space["order"])
    assert properties(made)["items"]["items"] == {"$ref": "#/$defs/Item"}


# Refused --------------------------------------------------------------------------------------


def refusal(make: Callable[[], object]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        make()
    return caught.value


def test_a_lambda_needs_a_name() -> None:
    error = refusal(lambda: tool(lambda city: city))
    assert "a lambda has no name" in str(error)
    assert "name='weather'" in error.hint
    assert tool(lambda city: city, name="weather").name == "weather"


def test_parameters_without_names_are_refused() -> None:
    def star(*cities: str) -> None: ...
    def only(city: str, /) -> None: ...
    def rest(**cities: str) -> None: ...

    assert "takes *cities" in str(refusal(lambda: tool(star)))
    assert "'city' of the tool 'only' is positional-only" in str(refusal(lambda: tool(only)))
    assert "takes **kwargs" in str(refusal(lambda: tool(rest)))


def test_a_method_without_its_object_is_refused() -> None:
    error = refusal(lambda: tool(Shop.sell))
    assert "'sell' is a method without its object" in str(error)
    assert error.hint == "make the tool of a bound method: tool(object.sell)"


def test_a_type_that_is_no_json_names_function_and_parameter() -> None:
    def calls(then: Callable[[], None]) -> None: ...
    def holds(shop: Shop) -> None: ...

    for function, name in ((calls, "then"), (holds, "shop")):
        error = refusal(partial(tool, function))
        assert f"the parameter {name!r} of the tool {function.__name__!r}" in str(error)
        assert error.where[0].endswith(f"<locals>.{function.__name__}")


def test_an_annotation_that_cannot_be_resolved_is_named() -> None:
    class Local(BaseModel):
        x: int

    def f(value: Local) -> None: ...
    def g(value: Decimal) -> None: ...
    def h(value: Renamed) -> None: ...

    for function, name in ((f, "Local"), (g, "Decimal"), (h, "Renamed")):
        error = refusal(partial(tool, function))
        assert f"'{name}' of the parameter 'value' cannot be resolved" in str(error)
        assert "at the top of the module" in error.hint


def test_a_default_has_to_be_a_value_that_a_model_could_give() -> None:
    missing = object()

    def sentinel(x: Any = missing) -> None: ...
    def implicit(x: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
    def secret(x: SecretStr = SecretStr("s3cret")) -> None: ...  # noqa: B008
    def small(x: Annotated[int, Field(ge=1)] = 0) -> None: ...

    for function in (sentinel, implicit, secret, small):
        error = refusal(partial(tool, function))
        assert f"the default of the parameter 'x' of the tool {function.__name__!r}" in str(error)
        assert "s3cret" not in str(error)


def test_values_that_are_no_functions_are_refused() -> None:
    assert "no function" in str(refusal(lambda: tool(Shop)))
    assert "no function" in str(refusal(lambda: tool(3)))  # type: ignore[call-overload]
    assert "is a tool already" in str(refusal(lambda: tool(tool(len_of))))
    assert "given as an int" in str(refusal(lambda: tool(len_of, parameters=3)))  # type: ignore[call-overload]


def len_of(text: str) -> int:
    """Return the length."""
    return len(text)


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 65, "a/b", "a\n", 3, None])
def test_a_name_outside_the_rule_is_refused(name: Any) -> None:
    assert "cannot be the name of a tool" in str(refusal(lambda: LoopTool(name, "d", CITY, None)))


def test_the_longest_name_is_taken() -> None:
    assert tool(len_of, name="a.B-9_" + "x" * 58).name.startswith("a.B-9_")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("effect", "delete", "has the effect 'delete'"),
        ("timeout", 0, "more than 0"),
        ("timeout", -1.0, "more than 0"),
        ("timeout", True, "more than 0"),
        ("timeout", float("nan"), "more than 0"),
        ("timeout", "3", "more than 0"),
        ("lazy", 1, "lazy that is not True or False"),
        ("approval", 3, "approval that is no"),
        ("approval", "", "an empty question"),
        ("metadata", {"x": object()}, "metadata of the tool 'len_of' is no JSON"),
        ("description", 3, "description that is no text"),
    ],
)
def test_a_wrong_field_is_refused(field: str, value: Any, said: str) -> None:
    make: Any = tool
    assert said in str(refusal(lambda: make(len_of, **{field: value})))


def test_an_async_approval_is_refused() -> None:
    async def ask(args: Mapping[str, Any]) -> bool:
        return True

    make: Any = tool
    assert "async function for approval" in str(refusal(lambda: make(len_of, approval=ask)))


# Models and schemas ---------------------------------------------------------------------------


def test_a_model_is_the_one_argument_of_its_function() -> None:
    @tool(parameters=Place)
    def visit(place: Place, ctx: ToolContext) -> str:
        return place.name

    assert visit.parameters["required"] == ["name"]
    assert "title" not in visit.parameters
    assert visit.validate({"name": "x"}) == {"name": "x", "height": 0.0}

    def none() -> None: ...
    def many(a: Place, b: Place) -> None: ...

    for function in (none, many):
        error = refusal(partial(tool, function, parameters=Place))
        assert "is to get one Place" in str(error)


def test_a_schema_gives_the_arguments_by_name() -> None:
    @tool(parameters=CITY)
    def weather(city: str, **rest: Any) -> str:
        return city

    assert weather.parameters == CITY
    assert tool(lambda: None, name="n", parameters={}).parameters == {
        "type": "object",
        "properties": {},
    }


def test_a_function_and_its_schema_have_to_agree() -> None:
    def other(town: str) -> None: ...

    said = str(refusal(lambda: tool(other, parameters=CITY)))
    assert "does not take 'city' and needs 'town'" in said


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "has to be a JSON Schema of an object"),
        ({"properties": {"a": {"type": "int"}}}, "no valid JSON Schema: properties.a.type"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "refers to '#/$defs/A'"),
        ({"properties": {"a": {"$ref": "https://x.test/s.json"}}}, "refers to 'https://x.test"),
        ({"properties": {"a": {"pattern": r"\p{L}"}}}, "is not a 'regex'"),
        ({"properties": {"a": {"patternProperties": {"(": {}}}}}, "is not a 'regex'"),
        ({"properties": {"a": {"type": "string", "default": 3}}}, "the default of 'a'"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(
    schema: Mapping[str, Any], said: str
) -> None:
    assert said in str(refusal(lambda: tool(lambda a: a, name="t", parameters=schema)))


def test_data_in_a_schema_is_not_taken_for_a_reference() -> None:
    schema = {
        "properties": {
            "$ref": {"const": {"$ref": "#/nowhere"}},
            "a": {"$ref": "#/$defs/A"},
        },
        "$defs": {"A": {"type": "integer"}},
    }
    made = tool(lambda **rest: rest, name="t", parameters=schema)
    assert made.validate({"a": 3}) == {"a": 3}


def test_an_older_draft_is_taken_at_its_word() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"items": [{"type": "integer"}, {"type": "string"}]}},
    }
    made = tool(lambda pair: pair, name="t", parameters=schema)
    assert made.validate({"pair": [1, "x"]}) == {"pair": [1, "x"]}
    with pytest.raises(ValueError, match=r"pair\.1: expected type"):
        made.validate({"pair": [1, 2]})


def test_a_schema_that_is_changed_later_does_not_change_the_tool() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = tool(lambda a: a, name="t", parameters=schema)
    schema["properties"]["a"]["type"] = "string"
    declared: Any = made.declaration().parameters
    declared["properties"]["a"]["type"] = "boolean"
    assert properties(made)["a"]["type"] == "integer"


def test_a_tool_can_be_replaced_with_another_name_or_schema() -> None:
    made = tool(len_of)
    assert replace(made, name="size").validate({"text": "x"}) == {"text": "x"}
    other = replace(made, parameters={"properties": {"text": {"type": "string", "default": "y"}}})
    assert other.validate({}) == {"text": "y"}


def test_a_declaration_is_what_a_model_is_shown() -> None:
    made = tool(len_of, metadata={"group": "text"})
    declared = made.declaration()
    assert (declared.name, declared.description) == ("len_of", "Return the length.")
    assert declared.parameters == made.parameters
    assert declared.metadata == {"group": "text"}
    assert tool(len_of).declaration().metadata is None


def test_a_client_tool_has_nothing_to_run() -> None:
    made = client_tool("confirm", "Ask the user.", CITY)
    assert made.run is None
    assert client_tool("visit", "Visit.", Place).parameters["required"] == ["name"]
    assert "run by the client" in str(refusal(made))
    with pytest.raises(ValueError, match="city: is required"):
        made.read("{}")


def test_a_client_tool_with_a_broken_schema_fails_its_calls_and_nothing_else() -> None:
    made = client_tool("confirm", "Ask.", {"properties": {"a": {"type": "int"}}})
    assert properties(made) == {"a": {"type": "int"}}
    with pytest.raises(ValueError, match="no valid JSON Schema"):
        made.validate({})


def test_what_a_layer_resolved_is_a_tool() -> None:
    declared = Tool(name="size", description="Size.", parameters=None)
    made = resolved(ResolvedTool(declared, len_of, effect="read", timeout=2.0))
    assert (made.name, made.description, made.effect, made.timeout) == (
        "size",
        "Size.",
        "read",
        2.0,
    )
    assert list(properties(made)) == ["text"]
    with_schema = Tool(name="w", description="W.", parameters=CITY)
    assert resolved(ResolvedTool(with_schema, lambda city: city)).parameters == CITY
    assert resolved(ResolvedTool(declared, tool(len_of))).run is len_of


# Lists ----------------------------------------------------------------------------------------


def test_a_list_takes_functions_methods_partials_and_tools() -> None:
    made = tools_of([len_of, tool(len_of, name="b"), Shop("x").sell, partial(Shop.open, day="m")])
    assert [each.name for each in made] == ["len_of", "b", "sell", "open"]
    assert tools_of(iter([])) == ()


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    error = refusal(
        lambda: tools_of([len_of, Shop("x").sell, tool(len_of)], "LoopAgent(tools=...)")
    )
    assert "two tools are named 'len_of'" in str(error)
    assert error.where == ("LoopAgent(tools=...)[0]", "LoopAgent(tools=...)[2]")


class Foreign:
    """As a tool of another framework."""

    name = "search"
    args_schema = Place


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Foreign(), "a Foreign of "),
        (Place, "parameters=Place"),
        (Tool(name="x", description="", parameters={}), "client_tool("),
        ({"name": "x"}, "a dict of builtins is no tool of Interpose"),
        ("search", "a str of builtins"),
        (None, "None is no tool of Interpose"),
    ],
)
def test_what_is_no_tool_is_refused_with_its_place(value: object, said: str) -> None:
    error = refusal(lambda: tools_of([value], "here"))
    assert said in str(error)
    assert error.where == ("here[0]",)


def test_a_tool_that_cannot_be_made_names_its_place_in_the_list() -> None:
    error = refusal(lambda: tools_of([Shop.sell], "here"))
    assert error.where[0] == "here[0]"
    assert error.where[1].endswith("Shop.sell")


@pytest.mark.parametrize("values", ["search", {"a": len_of}, 3])
def test_tools_are_given_as_a_list(values: Any) -> None:
    assert "tools are given as a list" in str(refusal(lambda: tools_of(values)))


# Approval -------------------------------------------------------------------------------------


def test_an_approval_is_a_question_or_none() -> None:
    assert tool(len_of).question({}) is None
    assert tool(len_of, approval=True).question({}) == "May the tool 'len_of' run?"
    assert tool(len_of, approval="Really?").question({}) == "Really?"


def test_an_approval_decides_by_the_arguments() -> None:
    def rule(args: Mapping[str, Any]) -> bool | str:
        return f"Pay {args['amount']}?" if args["amount"] > 100 else False

    made = tool(lambda amount: amount, name="pay", approval=rule)
    assert made.question({"amount": 5}) is None
    assert made.question({"amount": 500}) == "Pay 500?"
    assert made.question({}) == "May the tool 'pay' run? (Its rule about that failed: KeyError.)"


@pytest.mark.parametrize("answer", [None, "", 0, True, [], object()])
def test_an_approval_that_does_not_say_false_asks(answer: Any) -> None:
    made = tool(len_of, approval=lambda args: answer)
    assert made.question({}) == "May the tool 'len_of' run?"


# Extras ---------------------------------------------------------------------------------------


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] in ("jsonschema", "docstring_parser", "referencing"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.usefixtures("nothing_installed")
def test_without_the_extra_it_says_what_to_install() -> None:
    assert tool(len_of).validate({"text": "x"}) == {"text": "x"}

    def documented(x: int) -> None:
        """Do.

        Args:
            x: A number.
        """

    empty = partial(tool, lambda: None, name="empty", parameters={})
    for make in (partial(tool, documented), empty):
        assert "pip install 'interpose[loop]'" in refusal(make).hint


def test_tools_load_the_extra_only_when_they_need_it() -> None:
    code = (
        "import sys; from interpose.loop.tools import tool\n"
        "def f(x: int):\n    'Do.'\n"
        "tool(f)\n"
        "print({'jsonschema', 'docstring_parser', 'referencing'} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
