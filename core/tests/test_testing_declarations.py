"""Checks of declarations: what is read as secret, what a Protocol asks for, what is offered."""

from __future__ import annotations

import enum
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pytest
from ag_ui.core import TextMessageContentEvent
from loguru import logger
from pydantic import Field, SecretStr, model_validator

from interpose import (
    Capability,
    LifespanContext,
    Middleware,
    Point,
    Result,
    RunContext,
    Settings,
    ToolCall,
    on,
)
from interpose.payloads import Deny
from interpose.testing import ContractViolation, contract
from interpose.testing.contracts.protocols import protocol_faults
from interpose.testing.contracts.setting_forms import as_text


def told(cls: type[Middleware[Any, Any]], check: str, **options: Any) -> str:
    """Return the whole message of a check that fails."""
    checks = {each.name: each for each in contract(cls, **options)}
    with pytest.raises(ContractViolation) as caught:
        checks[check]()
    return str(caught.value)


def spared(cls: type[Middleware[Any, Any]], check: str, **options: Any) -> bool:
    """Say whether a check does not concern a class."""
    return check not in [each.name for each in contract(cls, **options)]


def passes(cls: type[Middleware[Any, Any]], check: str, **options: Any) -> None:
    """Run one check."""
    {each.name: each for each in contract(cls, **options)}[check]()


# Settings --------------------------------------------------------------------------------------
class Level(enum.Enum):
    """How much is said."""

    LOW = "low"
    HIGH = "high"


class Rule(Settings):
    pattern: str = "x+"
    """What is looked for."""
    weight: float = 1
    """How much it counts."""


class Rich(Settings):
    level: Level = Level.LOW
    """How much is said."""
    rules: tuple[Rule, ...] = (Rule(),)
    """What is looked for."""
    best: Rule = Rule(pattern="y")
    """What is looked for first."""
    window: timedelta = timedelta(minutes=1)
    """How long."""
    pattern: re.Pattern[str] = re.compile("a|b")
    """How names are written."""
    folder: Path = Path("logs")
    """Where."""
    names: Mapping[str, frozenset[int]] = Field(default_factory=lambda: {"a": frozenset({1, 2})})
    """Numbers by name."""
    upper_bound: int | None = None
    """At most so many."""


class Uses(Middleware[Rich]): ...


@pytest.mark.parametrize(
    "check", ["settings-documented", "settings-defaults", "settings-environment"]
)
def test_settings_of_many_kinds_are_in_order(check: str) -> None:
    passes(Uses, check)
    passes(Uses, check, settings={"upper_bound": 3, "best": {"pattern": "z"}, "names": {"b": [3]}})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        (3, "3"),
        (True, "true"),
        ([1, "a"], '[1, "a"]'),
        (frozenset({2, 1}), "[1, 2]"),
        (SecretStr("key"), "key"),
        ({"a": SecretStr("key")}, '{"a": "key"}'),
        (Level.HIGH, "high"),
        (timedelta(seconds=5), "PT5S"),
        (Rule(weight=2), '{"pattern": "x+", "weight": 2.0}'),
    ],
    ids=repr,
)
def test_a_setting_has_the_text_that_a_variable_would_have(value: Any, text: str) -> None:
    assert as_text(value) == text


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="Unable to serialize"):
        as_text(object())


class Callback(Settings):
    on_match: Callable[[str], str] = str.upper
    """What is made of a match."""


class WithCallback(Middleware[Callback]): ...


def test_a_setting_that_no_file_can_hold_is_told() -> None:
    assert told(WithCallback, "settings-documented").splitlines()[:3] == [
        "WithCallback breaks its contract: settings-documented",
        (
            "  happened: the settings have no JSON Schema: Cannot generate a JsonSchema for "
            "core_schema.CallableSchema"
        ),
        "  expected: types that a file can hold: text, numbers, lists, tables, models, enumerations",
    ]
    assert "on_match is a method_descriptor, which has no form as text or JSON" in told(
        WithCallback, "settings-environment"
    )


class Camel(Settings):
    max_items: int = Field(default=5, alias="maxItems", description="Items in a list.")


class WithCamel(Middleware[Camel]): ...


def test_an_alias_is_reached_by_its_own_variable() -> None:
    passes(WithCamel, "settings-environment", settings={"maxItems": 6})


class Sorted(Settings):
    names: tuple[str, ...] = ()
    """Names."""

    @model_validator(mode="before")
    @classmethod
    def _doubled(cls, data: Any) -> Any:
        return {**data, "names": [*data.get("names", ()), "always"]}


class WithSorted(Middleware[Sorted]): ...


def test_settings_that_grow_when_they_are_read_again_are_told() -> None:
    said = told(WithSorted, "settings-defaults", settings={"names": ["a"]})
    assert "names is ('a', 'always'); read again, it is ('a', 'always', 'always')" in said


# Secrets ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    ["token", "apiKey", "access_token", "db_password", "authorization", "signing_key", "dsn"],
)
def test_names_that_promise_a_secret_need_its_type(name: str) -> None:
    model: Any = type(
        "Plain", (Settings,), {"__annotations__": {name: "str"}, "__module__": __name__}
    )

    class WithPlain(Middleware[model]): ...

    said = told(WithPlain, "settings-secrets", settings={name: "x"})
    assert f"{name} holds a secret by name, as plain text" in said


class NoSecrets(Settings):
    max_tokens: int = 5
    """Tokens of an answer."""
    stop_token: str | None = None
    """Where an answer ends."""
    token_url: str | None = None
    """Where tokens are had."""
    mask_token: str = "[masked]"
    """What stands for what is masked."""
    secrets_file: Path | None = None
    """Where secrets are."""
    api_keys: tuple[SecretStr, ...] = ()
    """Keys."""
    placeholder_secret: str = "<secret>"
    """What stands for a secret."""


class WithNoSecrets(Middleware[NoSecrets]): ...


def test_names_that_only_look_like_secrets_are_left_alone() -> None:
    passes(WithNoSecrets, "settings-secrets")


class Keys(Settings):
    keys: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Keys by tenant."""


class Careless(Middleware[Keys]):
    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        key = next(iter(self.settings.keys.values())).get_secret_value()
        return event.model_copy(update={"raw_event": {"signed_with": key}})


def test_a_secret_in_a_table_of_secrets_is_found_in_the_stream() -> None:
    said = told(Careless, "secrets-hidden", settings={"keys": {"acme": "k-1"}})
    assert "a secret of the settings stands in the events of a text: " in said
    assert "<the secret>" in said
    assert "hushhush" not in said


def test_what_was_silent_before_a_check_is_silent_after_it() -> None:
    lines: list[str] = []
    logger.disable(__name__)
    sink = logger.add(lambda line: lines.append(str(line)))
    try:
        passes(WithNoSecrets, "secrets-hidden", settings={"api_keys": ["k-1"]})
        lines.clear()
        logger.info("nobody hears this")
    finally:
        logger.remove(sink)
        logger.enable(__name__)
    assert not lines


# Capabilities ----------------------------------------------------------------------------------
class Store(Protocol):
    size: int

    async def put(self, key: str, value: str, /, *, ttl: float | None = None) -> None: ...

    def count(self) -> int: ...

    def later(self) -> Awaitable[int]: ...


STORE = Capability[Store]("test-declarations/store")


class Good:
    size = 1

    async def put(self, key: str, value: str, /, *, ttl: float | None = None) -> None: ...

    def count(self) -> int:
        return 1

    async def later(self) -> int:
        return 1


class Dictated(Good):
    put = None  # type: ignore[assignment]


class ShortPut(Good):
    async def put(self, key: str, value: str, /) -> None: ...  # type: ignore[override]


class AsyncCount(Good):
    async def count(self) -> int:  # type: ignore[override]
        return 1


class PlainPut(Good):
    def put(  # type: ignore[override]
        self, key: str, value: str, /, *, ttl: float | None = None
    ) -> None: ...


class Unsure(Good):
    def put(self, key, value, /, **options):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN003, ANN201
        """May return anything."""


class Anything(Good):
    def __init__(self) -> None:
        self.put = lambda *_, **__: None  # type: ignore[assignment]


class Lacks:
    size = 1


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        (Good(), []),
        (Unsure(), []),
        (Anything(), []),
        (Lacks(), ["it lacks count, later, put"]),
        (Dictated(), ["put is a NoneType, and cannot be called"]),
        (
            ShortPut(),
            ["put cannot be called as the Protocol says: got an unexpected keyword argument 'ttl'"],
        ),
        (AsyncCount(), ["count is `async def`, and its readers do not await it"]),
        (PlainPut(), ["put is a plain function, and its readers await it"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_reader_could_not_do_with_a_value_is_told(value: object, faults: list[str]) -> None:
    assert protocol_faults(STORE, value) == faults


def test_a_capability_of_a_class_takes_its_instances_alone() -> None:
    number = Capability[int]("test-declarations/number")
    assert protocol_faults(number, 3) == []
    assert protocol_faults(number, "3") == ["it is a str, not a int"]
    assert protocol_faults(Capability("test-declarations/any"), object()) == []


OFFERING = """
from contextlib import asynccontextmanager
from interpose import Capability, Middleware

STORE = Capability("acme-store/store")


class Provides(Middleware):
    provides = (STORE,)

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings, ctx):
        ctx.provide(STORE, object())
        yield
"""


@pytest.mark.parametrize(
    ("offers", "said"),
    [
        ({"capability.acme-store/store": "acme_store:Provides"}, ""),
        ({}, 'plugin "store" (acme-store 1.0) provides acme-store/store, and does not offer it'),
        (
            {
                "capability.acme-store/store": "acme_store:Provides",
                "capability.acme-store/cache": "acme_store:Provides",
            },
            'plugin "store" (acme-store 1.0) offers acme-store/cache, and no part of it provides',
        ),
    ],
    ids=["true", "missing", "untrue"],
)
def test_offers_of_an_installed_distribution_are_held_against_its_parts(
    install: Callable[..., Path], offers: dict[str, str], said: str
) -> None:
    install(
        "acme-store",
        plugins={"store": "acme_store:Provides"},
        offers=offers,
        modules={"acme_store": OFFERING},
    )
    cls = import_module("acme_store").Provides
    if said:
        assert said in told(cls, "capabilities-offered")
    else:
        passes(cls, "capabilities-offered")


def test_a_class_of_no_distribution_offers_nothing() -> None:
    class Provides(Middleware):
        provides = (STORE,)

        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext, /) -> AsyncGenerator[None]:
            ctx.provide(STORE, Good())
            yield

    passes(Provides, "capabilities-offered")
    passes(Provides, "capabilities-provided")
    assert spared(Provides, "second-instance")


# Points and promises ---------------------------------------------------------------------------
class MayDeny(Middleware):
    """Also looks at the stream, so that it does something around any agent."""

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> Deny | None:
        return Deny("no") if call.name == "drop_table" else None

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        return event


class OnlyLooks(Middleware):
    """Counts calls, and denies none."""

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> None:
        ctx.metadata["calls"] = ctx.metadata.get("calls", 0) + 1


class ByIteration(Middleware):
    """Reads where the loop is, which only a loop knows."""

    essential = (Point.STEP,)

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        ctx.metadata["iteration"] = ctx.iteration
        return event


@pytest.mark.parametrize("cls", [MayDeny, OnlyLooks, ByIteration])
def test_a_layer_that_is_no_guard_may_leave_points_open(cls: type[Middleware[Any, Any]]) -> None:
    passes(cls, "points-essential")


class Repeats(Middleware):
    may_repeat = True

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        return event


def test_a_promise_that_no_hook_needs_is_told_whole() -> None:
    assert told(Repeats, "promises-kept") == (
        "Repeats breaks its contract: promises-kept\n"
        "  happened: may_repeat is declared, and no hook gets call_next\n"
        "  expected: may_repeat stands where call_next may be called again\n"
        "  why it matters: The plan, the order and the host's work follow what a class declares."
    )


def helper_of(ctx: RunContext) -> int:
    """Read the conversation for a layer of this module."""
    return len(ctx.messages)


class ReadsElsewhere(Middleware):
    tracks_state = True

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        ctx.metadata["length"] = helper_of(ctx)
        return event


def test_what_is_read_by_a_function_of_the_same_package_is_read() -> None:
    passes(ReadsElsewhere, "promises-kept")


def test_checks_that_do_not_concern_a_class_are_left_out() -> None:
    names = [check.name for check in contract(OnlyLooks)]
    for name in (
        "settings-documented",
        "settings-environment",
        "secrets-hidden",
        "capabilities-optional",
        "capabilities-provided",
        "declare-pure",
        "hooks-live",
    ):
        assert name not in names
