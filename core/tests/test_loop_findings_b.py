"""What is said, and to whom, when something about a loop is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from ag_ui.core import BaseEvent, Interrupt
from commandline import CommandLine
from loguru import logger
from looping import calls, loop

from interpose import (
    Abort,
    Ask,
    Deny,
    Middleware,
    ModelConfig,
    Reject,
    RunContext,
    Skip,
    ToolResult,
    TransformArgs,
    UsageError,
)
from interpose.loop import LoopAgent, LoopState, ScriptedModel, combine, max_iterations, tool
from interpose.loop_errors import InvalidResume


# Texts ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "said"), [(5, "an int of builtins"), (object(), "an object of"), ("x", "a str of")]
)
def test_what_is_no_tool_is_named_with_its_article(value: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        LoopAgent(ScriptedModel(), [value])
    assert caught.value.message.startswith(said)
    assert caught.value.hint == "give a function, or interpose.loop.tool(...) of one"


# The log --------------------------------------------------------------------------------------
Log = list[tuple[str, str]]


@pytest.fixture
def log() -> Iterator[Log]:
    """What the operator's log gets: levels and texts."""
    lines: Log = []
    logger.enable("interpose")
    sink = logger.add(lambda m: lines.append((m.record["level"].name, m.record["message"])))
    yield lines
    logger.remove(sink)
    logger.disable("interpose")


def test_answers_that_cannot_be_taken_are_a_warning_without_a_traceback(log: Log) -> None:
    run = {"thread_id": "t", "resume": {"nobody~asked": True}}
    played = loop([], ScriptedModel("hi"), run=run)
    assert isinstance(played.result.error, InvalidResume)
    refused = [line for line in log if "refused: invalid-resume" in line[1]]
    assert [level for level, _ in refused] == ["WARNING"]
    assert "unknown-interrupt" in refused[0][1]
    assert not [line for line in log if line[0] == "ERROR" or "Traceback" in line[1]]


def test_a_refusal_of_a_layer_is_a_warning_and_its_failure_an_error(log: Log) -> None:
    class Guard(Middleware):
        def setup(self, ctx: RunContext) -> None:
            raise Reject("quota", "Used up.") if ctx.thread_id == "t" else RuntimeError("gone")

    loop([Guard], ScriptedModel("hi"), run={"thread_id": "t"})
    assert ("WARNING", "host: run refused: quota (Used up.)") in log
    loop([Guard], ScriptedModel("hi"), run={"thread_id": "u"})
    (failed,) = [text for level, text in log if level == "ERROR"]
    assert failed.startswith("host: run failed: middleware-failed (RuntimeError: gone")


# Mistakes of layers ---------------------------------------------------------------------------
def look() -> str:
    """Look."""
    return "seen"


def failed(layers: Sequence[Any], *, code: str) -> str:
    """Play a run with a tool call that a layer spoils; returns what is said of it, with notes."""
    played = loop(layers, ScriptedModel(calls("look"), "done"), [look])
    assert played.error[0] == code
    error = played.result.error
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Skip("text"), "the result of Skip is a str"),  # type: ignore[arg-type]
    (lambda: Skip(ToolResult(5)), "the content of a ToolResult is an int"),  # type: ignore[arg-type]
    (lambda: ToolResult("", 5), "the error of a ToolResult is an int"),  # type: ignore[arg-type]
    (lambda: ToolResult("", None, "x"), "the metadata of a ToolResult is a str"),  # type: ignore[arg-type]
    (lambda: ToolResult("", None, {"a": object()}), "metadata of a ToolResult is no JSON"),
    (lambda: Deny(5), "the reason of Deny is an int"),  # type: ignore[arg-type]
    (lambda: Ask(None), "the message of Ask is None"),  # type: ignore[arg-type]
    (lambda: Abort(5), "the reason of Abort is an int"),  # type: ignore[arg-type]
    (lambda: TransformArgs("x"), "the args of TransformArgs is a str"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "said"), WRONG)
def test_a_decision_with_a_wrong_field_names_field_layer_and_hook(
    make: Callable[[], Any], said: str
) -> None:
    class Decider(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: Any) -> Any:
            return make()

    told = failed([Decider], code="middleware-failed")
    assert said in told
    assert "fix: give" in told or "fix: keep" in told
    assert "in on_before_tool_call of layer 'decider'" in told


def test_a_result_of_around_tool_call_with_a_wrong_field_names_the_layer() -> None:
    class Changer(Middleware):
        async def around_tool_call(self, ctx: RunContext, call: Any, call_next: Any) -> Any:
            await call_next(call)
            return ToolResult({"a": 1})  # type: ignore[arg-type]

    told = failed([Changer], code="middleware-failed")
    assert "the content of a ToolResult is a dict" in told
    assert "in around_tool_call of layer 'changer'" in told


class First(Middleware):
    def on_interrupt_boundary(self, ctx: RunContext) -> None:
        if ctx.phase == "before_tools":
            ctx.interrupt(Interrupt(id="q", reason="ask"))


class Second(First):
    """Asks with the same id."""


def test_two_layers_that_ask_with_one_id_are_both_named_with_the_hook() -> None:
    told = failed([First, Second], code="middleware-contract")
    assert "'second' asks with the id 'q', and so does 'first' in the same pause" in told
    assert "fix: give each question another key" in told
    assert "in on_interrupt_boundary of layer 'second'" in told


def test_a_question_may_be_asked_again_in_another_run() -> None:
    played = loop([First], ScriptedModel(calls("look"), "done"), [look])
    assert [each.id.partition("~")[0] for each in played.result.interrupts] == ["q"]
    again = loop([First], ScriptedModel(calls("look"), "done"), [look])
    assert len(again.result.interrupts) == 1


def test_an_unknown_model_of_on_config_is_the_layers() -> None:
    class Router(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(model="large")

    told = failed([Router], code="middleware-contract")
    assert "on_config of layer 'router' asked for the model 'large', which is not" in told
    assert "fix: add [models.large] to the file; the models are scripted" in told


def test_an_unknown_model_of_a_request_is_that_of_the_layer_that_changed_it() -> None:
    class Innocent(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: Any, call_next: Any
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(request):
                yield event

    class Guilty(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: Any, call_next: Any
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(request.replace(model="large")):
                yield event

    class Inner(Innocent):
        """Stands between the one that changed it and the model."""

    told = failed([Innocent, Guilty, Inner], code="middleware-contract")
    assert "around_model_call of layer 'guilty' asked for the model 'large'" in told
    assert "of layer 'inner'" not in told


def test_a_layer_may_go_back_to_the_agents_own_model() -> None:
    class Back(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(model=config.model, persist=True)

        async def around_model_call(
            self, ctx: RunContext, request: Any, call_next: Any
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(request.replace(model="model")):
                yield event

    assert loop([Back], ScriptedModel("fine")).text == "fine"


@pytest.mark.parametrize("combined", [False, True])
def test_a_strategy_that_raises_is_named_in_the_log(log: Log, combined: bool) -> None:  # noqa: FBT001
    def fair_share(state: LoopState) -> bool:
        return 1 / state.iterations > 0

    until = combine(max_iterations(3), fair_share) if combined else fair_share
    assert loop([], ScriptedModel("hi"), until=until).error[0] == "agent-failed"
    assert any("division by zero, in the strategy 'fair_share'" in line for _, line in log)


# At startup -----------------------------------------------------------------------------------
def told(cli: CommandLine) -> str:
    """Return the only problem that ``check`` finds."""
    outcome = cli("check")
    assert outcome.code == 1
    problem, _ = outcome.out.split("\n\n", 1)
    return problem


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("models.main", 'The model "main" has no use, and no plugin has its name.'),
        ("agents.main", 'The agent "main" has no use, and no plugin has its name.'),
        ("providers.main", 'The provider "main" has no use, and no plugin has its name.'),
    ],
)
def test_a_table_without_use_is_told_to_add_one(cli: CommandLine, table: str, said: str) -> None:
    cli.write(f'[agents.default]\nuse = "loop"\n\n[{table}]\n')
    outcome = cli("check")
    assert outcome.code == 1
    assert (
        f"error[unknown-use]: {said}\n  at interpose.toml:4\n  fix: Say what it is" in outcome.out
    )
    assert "1 problem" in outcome.out


def test_a_table_without_use_whose_name_is_nearly_right_is_told_that(cli: CommandLine) -> None:
    cli.write('[agents.default]\nuse = "loop"\n\n[models.scriptd]\n')
    assert 'is not installed.\n  at interpose.toml:4\n  fix: Did you mean "scripted"?' in told(cli)


def test_what_interpose_refuses_in_a_module_has_the_modules_place_and_the_remedy(
    cli: CommandLine,
) -> None:
    cli.write(
        """
        from interpose.loop import tool

        @tool(name="bad name!")
        def look() -> str:
            return ""
        """,
        "wrong_tools.py",
    )
    cli.write('[agent]\nuse = "loop"\ntools = ["wrong_tools:look"]\n')
    assert told(cli) == (
        "error[failed-import]: wrong_tools:look cannot be imported: "
        "UsageError: 'bad name!' cannot be the name of a tool.\n"
        "  at interpose.toml:3\n"
        f"  at {cli.folder}/wrong_tools.py:3\n"
        "  fix: a name has 1 to 64 letters, digits, _, - and ."
    )


# Approvals and limits -------------------------------------------------------------------------
def test_an_approval_that_fails_asks_and_is_told_to_the_operator(log: Log) -> None:
    def rule(args: Mapping[str, Any]) -> bool:
        raise LookupError("no such customer")

    played = loop([], ScriptedModel(calls("look")), [tool(look, approval=rule)])
    assert played.result.interrupts[0].message == (
        "May the tool 'look' run? (Its rule about that failed: LookupError.)"
    )
    said = (
        "the approval of the tool look failed, so people are asked: LookupError: no such customer"
    )
    assert ("WARNING", said) in log


@pytest.mark.parametrize(
    ("most", "said"), [(1, "The run ended at a limit: max_iterations(1)\n"), (2, "")]
)
def test_the_command_says_which_limit_ended_a_run(cli: CommandLine, most: int, said: str) -> None:
    cli.write("def look() -> str:\n    return 'seen'\n", "looking_tools.py")
    cli.write(
        f"""
        [agent]
        use = "loop"
        model = "m"
        tools = ["looking_tools:look"]
        max_iterations = {most}

        [models.m]
        use = "scripted"
        turns = [{{ text = "I look.", calls = [{{ name = "look" }}] }}, "Done."]
        """
    )
    outcome = cli("run", "hi")
    assert (outcome.code, outcome.err) == (0, said)
    assert "I look." in outcome.out


@pytest.mark.parametrize(
    ("script", "said", "fix"),
    [
        (None, "the script play.json cannot be read: No such file", "give the path of a JSON"),
        ("no", "the script play.json is no JSON: Expecting value", "a list of turns, as in"),
        ("{}", "the script play.json is no list of turns", 'as in ["Hello!"]'),
        ('["Hi", {"say": "x"}]', "play.json is no script: turn 1.say: Extra inputs", "a turn is"),
    ],
)
def test_a_script_of_a_file_that_is_none_is_told_with_the_place_of_its_model(
    cli: CommandLine, script: str | None, said: str, fix: str
) -> None:
    if script is not None:
        cli.write(script, "play.json")
    cli.write(
        """
        [agent]
        use = "loop"
        model = "m"

        [models.m]
        use = "scripted"
        file = "play.json"
        """
    )
    outcome = cli("run", "hi")
    assert outcome.code == 1
    assert f"error[invalid-model]: model m (scripted): {said}" in outcome.err
    assert "\n  at interpose.toml:6\n  fix: " + fix in outcome.err


def test_a_factory_that_gives_no_model_is_told_with_the_place_of_its_table(
    cli: CommandLine,
) -> None:
    cli.write(
        """
        from interpose import LifespanContext, ModelFactory, Settings

        class Nothing(ModelFactory[Settings]):
            def __call__(self, settings, ctx):
                return 5
        """,
        "no_models.py",
    )
    cli.write('[agent]\nuse = "loop"\nmodel = "m"\n\n[models.m]\nuse = "no_models:Nothing"\n')
    outcome = cli("run", "hi")
    assert outcome.code == 1
    assert (
        "error[invalid-model]: model m (no_models:Nothing): [models.m] gave an int" in outcome.err
    )
    assert "\n  at interpose.toml:6\n  fix: a model has" in outcome.err
