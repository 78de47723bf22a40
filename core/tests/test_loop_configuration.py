"""The built-in loop and its models from a configuration, and from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from commandline import CommandLine, Outcome
from tooling import until

from interpose import Host, Layer, Middleware, Point, RunResult, StartupError
from interpose.loop import LoopAgent, ScriptedModel, ToolContext, tool

TOOLS = '''
from interpose import CREDENTIALS, PRINCIPAL, Capability, LifespanContext, Middleware, ModelFactory
from interpose import Point, Settings
from interpose.loop import ScriptedModel, tool

NUMBER = 3
MADE = []
CLOSED = []
TOKEN = Capability[str]("tests/token")
TENANT = Capability[str]("tests/tenant", scope="run")


def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


@tool(name="look")
def twin() -> str:
    """Look again."""
    return ""


@tool(approval="Sure?")
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def many(*args: int) -> str:
    return ""


def positional(a: int, /) -> str:
    return ""


class Said(Settings):
    text: str = "said"


class Closing(ScriptedModel):
    async def aclose(self):
        CLOSED.append(self)


class Hosted(ModelFactory[Said]):
    provides = (TOKEN,)

    def __call__(self, settings: Said, ctx: LifespanContext) -> ScriptedModel:
        ctx.provide(TOKEN, "from the model")
        MADE.append(Closing(settings.text))
        return MADE[-1]


class PerRun(ModelFactory[Said]):
    scope = "run"

    def __call__(self, settings: Said, ctx: LifespanContext) -> ScriptedModel:
        MADE.append(ScriptedModel(settings.text))
        return MADE[-1]


class Tenant(ScriptedModel):
    async def stream(self, request, ctx):
        async for event in ScriptedModel(f"for {ctx[TENANT]}").stream(request, ctx):
            yield event


class NeedsTenant(ModelFactory):
    scope = "run"
    requires = (TENANT,)

    def __call__(self, settings, ctx):
        return Tenant()


class OutlivesTenant(NeedsTenant):
    scope = "host"


class NeedsToken(ModelFactory):
    requires = (TOKEN,)

    def __call__(self, settings, ctx):
        return ScriptedModel("with " + ctx[TOKEN])


class Fails(ModelFactory):
    def __call__(self, settings, ctx):
        raise RuntimeError("no such account")


class MakesNone(ModelFactory):
    def __call__(self, settings, ctx):
        return object()


class GuardsTools(Middleware):
    essential = (Point.TOOLS,)

    def on_before_tool_call(self, ctx, call):
        return None


class GuardsModels(Middleware):
    essential = (Point.MODEL,)

    async def around_model_call(self, ctx, request, call_next):
        async for event in call_next(request):
            yield event
'''


@pytest.fixture
def parts(cli: CommandLine) -> CommandLine:
    """A folder with a module of tools and models."""
    cli.write(TOOLS, "parts.py")
    return cli


@pytest.fixture
def embedded(parts: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, for hosts in this process: an embedded host adds no folder to sys.path."""
    monkeypatch.syspath_prepend(str(parts.folder))
    return parts.folder


def parts_module() -> Any:
    return sys.modules["parts"]


def write(folder: Path, text: str) -> Path:
    path = folder / "interpose.toml"
    path.write_text(text)
    return path


def runs(config: Path, *asked: str, host: dict[str, Any] | None = None) -> list[RunResult]:
    """Play one run for each text, "agent: text" for another agent than the default one."""

    async def main() -> list[RunResult]:
        found = []
        async with Host.from_config(config, **(host or {})) as entered:
            for each in asked:
                agent, _, text = each.rpartition(": ")
                found.append(await entered.run(text, agent=agent or "default"))
        return found

    return asyncio.run(main())


def problems(config: Path) -> list[tuple[str, str]]:
    """Return the problems at startup: code, and the whole text with place and remedy."""

    async def main() -> None:
        async with Host.from_config(config):
            pass

    with pytest.raises(StartupError) as caught:
        asyncio.run(main())
    return [
        (each.code, " ".join((*each.where, each.message, each.hint)))
        for each in caught.value.problems
    ]


def told(outcome: Outcome) -> str:
    """Return all that a command said."""
    return outcome.out + outcome.err


# Settings ---------------------------------------------------------------------------------------

EVERYTHING = """
[agent]
use = "loop"
model = "slow"
instructions = "Be brief."
tools = ["parts:look", "parts:pay"]
settings = { temperature = 0.1 }
max_iterations = 3
max_tool_calls = 4
budget = { seconds = 60.5, tokens = 1000, model_calls = 5, tool_calls = 6 }
concurrency = 2
tool_timeout = 1.5
repairs = 0
answer_within = 3600

[models.slow]
use = "scripted"
turns = ["Hello"]
"""


def made_agent(config: Path) -> LoopAgent:
    async def main() -> Any:
        async with Host.from_config(config) as host:
            return host._entered().programs["default"].make_agent()

    found = asyncio.run(main())
    assert isinstance(found, LoopAgent)
    return found


def test_every_setting_reaches_the_loop(embedded: Path) -> None:
    made = made_agent(write(embedded, EVERYTHING)).parts
    assert (made.model, made.instructions) == ("slow", ("Be brief.",))
    assert [each.name for each in made.tools] == ["look", "pay"]
    assert made.settings == {"temperature": 0.1}
    assert made.until.name == "combine(max_iterations(3), max_tool_calls(4))"
    assert made.until.most_calls == 4
    budget = made.budget
    assert budget is not None
    assert (budget.seconds, budget.tokens) == (60.5, 1000)
    assert (budget.model_calls, budget.tool_calls) == (5, 6)
    assert (made.concurrency, made.tool_timeout) == (2, 1.5)
    assert (made.repairs, made.answer_within) == (0, 3600.0)


def test_without_settings_it_is_the_loop_that_code_makes(embedded: Path) -> None:
    made, plain = made_agent(write(embedded, '[agent]\nuse = "loop"\n')).parts, LoopAgent().parts
    for name in ("model", "instructions", "tools", "settings", "concurrency", "tool_timeout"):
        assert getattr(made, name) == getattr(plain, name), name
    for name in ("repairs", "answer_within", "budget"):
        assert getattr(made, name) == getattr(plain, name), name
    assert made.until.name == plain.until.name


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("concurrency = 0", "agents.default.concurrency"),
        ("max_iterations = -1", "agents.default.max_iterations"),
        ("max_tool_calls = -1", "agents.default.max_tool_calls"),
        ("tool_timeout = 0", "agents.default.tool_timeout"),
        ("answer_within = inf", "agents.default.answer_within"),
        ("answer_within = 1e300", "agents.default.answer_within"),
        ("repairs = -1", "agents.default.repairs"),
        ('tools = "parts:look"', "agents.default.tools"),
        ('settings = "warm"', "agents.default.settings"),
        ("budget = { seconds = 0 }", "agents.default.budget.seconds"),
        ("budget = { tokens = -1 }", "agents.default.budget.tokens"),
        ("budget = { dollars = 3 }", 'there is no setting "dollars"'),
        ('modell = "scripted"', 'there is no setting "modell"'),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(
    parts: CommandLine, line: str, expected: str
) -> None:
    parts.write(f'[agent]\nuse = "loop"\n{line}\n')
    outcome = parts("check")
    assert outcome.code == 1
    said = told(outcome)
    assert expected in said
    assert "at interpose.toml:3" in said
    assert "fix: " in said
    assert "1 problem at startup." in said


def test_all_that_the_loop_names_in_vain_is_told_at_once(parts: CommandLine) -> None:
    parts.write(
        """
        [agent]
        use = "loop"
        model = "slo"
        tools = [
          "parts:look", "parts:twin", "parts:NUMBER", "parts:missing", "nowhere:x", "parts",
          "parts:many", "parts:positional",
        ]

        [models.slow]
        use = "scripted"
        """
    )
    outcome = parts("check")
    assert outcome.code == 1
    said = told(outcome)
    for expected in (
        'model = "slo" names no model of the configuration.\n  at interpose.toml:3\n  fix: Did you',
        'Did you mean "slow"?',
        "is no tool of Interpose\n  at interpose.toml:4\n  at parts:NUMBER\n  fix: give a function",
        "parts has no attribute 'missing'",
        "nowhere:x cannot be imported",
        'tools names "parts", which is no function.',
        "the tool 'many' takes *args",
        "of the tool 'positional' is positional-only",
        "two tools are named 'look'",
        "8 problems at startup.",
    ):
        assert expected in said, expected


def test_an_unknown_model_far_from_any_name_is_to_be_added(parts: CommandLine) -> None:
    parts.write('[agent]\nuse = "loop"\nmodel = "gigantic"\n')
    said = told(parts("check"))
    assert "fix: Add [models.gigantic]." in said


def test_variables_and_options_set_what_the_file_names(
    parts: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.write('[agent]\nuse = "loop"\n[models.other]\nuse = "scripted"\nturns = ["Other."]\n')
    assert parts("run", "hi").out == "You said: hi\n"
    monkeypatch.setenv("INTERPOSE__AGENT__MODEL", "other")
    assert parts("run", "hi").out == "Other.\n"
    monkeypatch.setenv("INTERPOSE__MODELS__OTHER__TURNS", '["From outside."]')
    assert parts("run", "hi").out == "From outside.\n"
    monkeypatch.setenv("INTERPOSE__AGENT__BUDGET__MODEL_CALLS", "0")
    outcome = parts("run", "hi", "--json")
    assert '"interpose:limit":"budget.model_calls(0)"' in outcome.out
    assert parts("run", "hi", "--set", "agent.budget.model_calls=1").out == "From outside.\n"
    monkeypatch.setenv("INTERPOSE__AGENT__CONCURRENCY", "none")
    refused = parts("check")
    assert refused.code == 1
    assert "at INTERPOSE__AGENT__CONCURRENCY" in told(refused)


# The scripted model -----------------------------------------------------------------------------


def test_a_script_is_found_beside_the_file_that_names_it(
    embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (embedded / "scripts").mkdir()
    turns = [{"calls": [{"name": "look", "args": {"q": "it"}}]}, "It is there."]
    (embedded / "scripts/one.json").write_text(json.dumps(turns))
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "m"\ntools = ["parts:look"]\n'
        '[models.m]\nuse = "scripted"\nfile = "scripts/one.json"\n',
    )
    monkeypatch.chdir(tmp_path)
    [result] = runs(config, "hi")
    assert (result.outcome, result.text) == ("success", "It is there.")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "the script s.json cannot be read: No such file or directory"),
        (b"[", "the script s.json is no JSON"),
        (b'["\xff"]', "the script s.json is no JSON"),
        (b"{}", "the script s.json is no list of turns"),
        (b'[{"txt": "x"}]', "s.json is no script: turn 0.txt"),
        (b'["a", {"calls": [{"args": {}}]}]', "s.json is no script: turn 1.calls.0.name"),
        (b'[{"retry_after": 3}]', "retry_after belongs to"),
    ],
    ids=["missing", "no JSON", "no UTF-8", "no list", "unknown key", "no name", "rule"],
)
def test_a_script_that_cannot_be_played_is_a_problem_at_startup(
    embedded: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        (embedded / "s.json").write_bytes(content)
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "m"\n[models.m]\nuse = "scripted"\nfile = "s.json"\n',
    )
    [(_, said)] = problems(config)
    assert told in said
    assert "model m (scripted)" in said


def test_turns_in_the_file_are_checked_alike(embedded: Path) -> None:
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "m"\n[models.m]\nuse = "scripted"\n'
        'turns = ["a", { text = 3 }]\n',
    )
    [(_, said)] = problems(config)
    assert "turn 1.text" in said


def test_two_sources_of_a_script_are_refused(parts: CommandLine) -> None:
    parts.write('[agent]\nuse = "loop"\n[models.m]\nuse = "scripted"\nfile = "a"\nturns = ["b"]\n')
    outcome = parts("check")
    assert outcome.code == 1
    assert "file and turns are both given" in told(outcome)


# Models of others -------------------------------------------------------------------------------


def test_a_model_of_host_scope_is_made_once_and_closed_with_the_host(embedded: Path) -> None:
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "m"\n[models.m]\nuse = "parts:Hosted"\ntext = "one"\n',
    )

    async def main() -> list[str]:
        async with Host.from_config(config) as host:
            texts = [(await host.run("hi")).text for _ in range(3)]
            assert parts_module().CLOSED == []
        return texts

    assert asyncio.run(main()) == ["one"] * 3
    assert len(parts_module().MADE) == 1
    assert parts_module().CLOSED == parts_module().MADE


def test_a_model_of_run_scope_is_made_once_for_each_run(embedded: Path) -> None:
    (embedded / "t.json").write_text("[]")
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "m"\n[models.m]\nuse = "parts:PerRun"\ntext = "mine"\n',
    )
    assert [each.text for each in runs(config, "hi", "hi")] == ["mine", "mine"]
    assert len(parts_module().MADE) == 2


def test_a_model_provides_what_another_requires(embedded: Path) -> None:
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "asks"\n'
        '[models.asks]\nuse = "parts:NeedsToken"\n[models.gives]\nuse = "parts:Hosted"\n',
    )
    [result] = runs(config, "hi")
    assert result.text == "with from the model"


def test_a_model_that_lacks_what_it_requires_is_refused(parts: CommandLine) -> None:
    parts.write('[agent]\nuse = "loop"\n[models.asks]\nuse = "parts:NeedsToken"\n')
    outcome = parts("check")
    assert outcome.code == 1
    assert "error[missing-capability]" in told(outcome)
    assert "model asks" in told(outcome)
    assert "tests/token" in told(outcome)


def test_a_model_reads_what_its_run_was_given(embedded: Path) -> None:
    config = write(
        embedded, '[agent]\nuse = "loop"\nmodel = "m"\n[models.m]\nuse = "parts:NeedsTenant"\n'
    )
    from parts import TENANT  # type: ignore[import-not-found]

    async def main() -> list[str]:
        async with Host.from_config(config, provides=[TENANT]) as host:
            return [(await host.run("hi", provide={TENANT: who})).text for who in ("ada", "grace")]

    assert asyncio.run(main()) == ["for ada", "for grace"]


def test_a_model_of_the_host_cannot_need_what_one_run_has(embedded: Path) -> None:
    config = write(embedded, '[agent]\nuse = "loop"\n[models.m]\nuse = "parts:OutlivesTenant"\n')
    from parts import TENANT

    with pytest.raises(StartupError) as caught:
        Host.from_config(config, provides=[TENANT])
    [problem] = caught.value.problems
    assert problem.code == "capability-scope"
    assert "a model lives as long as the host" in problem.message
    assert problem.where[0].endswith("interpose.toml:3")


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("parts:Fails", "model m (parts:Fails) could not start: RuntimeError: no such account"),
        ("parts:MakesNone", "[models.m] gave an object, which is no model"),
    ],
)
def test_a_factory_that_makes_no_model_is_a_problem_at_startup(
    embedded: Path, use: str, told: str
) -> None:
    config = write(embedded, f'[agent]\nuse = "loop"\nmodel = "m"\n[models.m]\nuse = "{use}"\n')
    [(_, said)] = problems(config)
    assert told in said
    assert f"model m ({use})" in said


def test_what_is_no_model_factory_is_refused_with_its_place(parts: CommandLine) -> None:
    parts.write('[agent]\nuse = "loop"\n[models.m]\nuse = "parts:GuardsTools"\n')
    outcome = parts("check")
    assert outcome.code == 1
    assert "at interpose.toml:4" in told(outcome)


# Looking at it ----------------------------------------------------------------------------------


def test_the_plan_shows_every_point_and_the_models(parts: CommandLine) -> None:
    parts.write(EVERYTHING)
    outcome = parts("plan")
    assert outcome.code == 0
    assert "agent default" in outcome.out
    for point in Point:
        assert point.value in outcome.out
    assert "model slow" in outcome.out


def test_the_configuration_shows_values_and_places_and_no_key(parts: CommandLine) -> None:
    parts.write(EVERYTHING + '[host]\nsigning_key = "open-sesame"\n')
    for command in (("config",), ("plan",), ("plan", "--format", "json"), ("check",)):
        outcome = parts(*command)
        assert outcome.code == 0, outcome.err
        assert "open-sesame" not in outcome.out + outcome.err
    shown = parts("config").out
    assert "agents.default.budget.tokens = 1000" in shown
    assert "agents.default.settings.temperature = 0.1" in shown
    assert "models.slow.turns" in shown
    assert "host.signing_key = ***" in shown


def test_the_schema_knows_the_loop_and_the_scripted_model(parts: CommandLine) -> None:
    parts.write(EVERYTHING)
    schema = json.loads(parts("schema").out)
    known = schema["$defs"]["Loop"]["properties"]
    assert {"use", "model", "tools", "instructions", "budget", "answer_within"} <= set(known)
    assert {"file", "turns"} <= set(schema["$defs"]["Scripted"]["properties"])
    assert set(schema["$defs"]["BudgetTable"]["properties"]) == {
        "seconds",
        "tokens",
        "model_calls",
        "tool_calls",
    }


@pytest.mark.parametrize("guard", ["GuardsTools", "GuardsModels"])
def test_an_essential_guard_is_accepted_around_a_loop_alone(parts: CommandLine, guard: str) -> None:
    layer = f'[middleware.guard]\nuse = "parts:{guard}"\n'
    parts.write(f'[agent]\nuse = "loop"\n{layer}')
    assert parts("check").code == 0
    assert parts("run", "hi").out == "You said: hi\n"
    parts.write(f'[agent]\nuse = "scripted"\n{layer}')
    refused = parts("check")
    assert refused.code == 1
    assert "error[essential-point]" in told(refused)


# Running it -------------------------------------------------------------------------------------

PAYING = """
[agent]
use = "loop"
model = "m"
tools = ["parts:pay"]

[models.m]
use = "scripted"
turns = [{ text = "I pay.", calls = [{ name = "pay", args = { euros = 5 } }] }, "Paid."]
"""


def test_a_run_that_waits_for_people_says_so_and_is_no_failure(parts: CommandLine) -> None:
    parts.write(PAYING)
    outcome = parts("run", "hi")
    assert (outcome.code, outcome.out) == (0, "I pay.\n")
    assert "The run waits for an answer to approval:call-1-1: Sure?\n" in outcome.err
    assert "eNq" not in outcome.err  # the token is of no use to a reader


def test_an_input_answers_what_a_run_with_a_key_asked(parts: CommandLine) -> None:
    """Each is a process of its own to the command line: the key is what they share."""
    parts.write(PAYING + '[host]\nsigning_key = "open-sesame"\n')
    asked = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "u", "role": "user", "content": "hi"}],
    }
    parts.write(json.dumps(asked), "asked.json")
    events = [
        json.loads(line)
        for line in parts("run", "--json", "--input", "asked.json").out.splitlines()
    ]
    [interrupt] = events[-1]["outcome"]["interrupts"]
    function = {"name": "pay", "arguments": '{"euros": 5}'}
    call = {"id": "call-1-1", "type": "function", "function": function}
    said = {"id": "a", "role": "assistant", "content": "I pay.", "toolCalls": [call]}
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": True}
    answered = {**asked, "runId": "r2", "messages": [*asked["messages"], said], "resume": [answer]}
    parts.write(json.dumps(answered), "answered.json")
    outcome = parts("run", "--input", "answered.json")
    assert (outcome.code, outcome.out) == (0, "Paid.\n")

    answer["interruptId"] = interrupt["id"][:-4] + "AAAA"
    parts.write(json.dumps(answered), "forged.json")
    refused = parts("run", "--input", "forged.json")
    assert (refused.code, refused.out) == (1, "")
    assert "error[invalid-resume]" in told(refused)
    assert "unknown-interrupt" in told(refused)


def test_two_agents_of_a_host_have_models_of_their_own(embedded: Path) -> None:
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "a"\n[agents.other]\nuse = "loop"\nmodel = "b"\n'
        '[models.a]\nuse = "scripted"\nturns = ["From a."]\n'
        '[models.b]\nuse = "scripted"\nturns = ["From b."]\n',
    )
    texts = [each.text for each in runs(config, "hi", "other: hi", "hi")]
    assert texts == ["From a.", "From b.", "From a."]


# Other doors ------------------------------------------------------------------------------------


@tool
def echo(q: str) -> str:
    """Repeat."""
    return q


def test_threads_run_a_loop(embedded: Path) -> None:
    config = write(
        embedded,
        '[agent]\nuse = "loop"\nmodel = "m"\ntools = ["parts:look"]\n[models.m]\nuse = "scripted"\n'
        'turns = [{ calls = [{ name = "look" }] }, "Done."]\n',
    )
    texts: list[str] = []
    with Host.from_config(config).sync() as host:
        threads = [
            threading.Thread(target=lambda: texts.append(host.run("hi").result().text))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        types = [event.type.value for event in host.run("again")]
    assert texts == ["Done."] * 4
    assert types.count("TOOL_CALL_RESULT") == 1
    assert types[-1] == "RUN_FINISHED"


def test_a_thread_answers_what_a_run_asked(embedded: Path) -> None:
    with Host.from_config(write(embedded, PAYING)).sync() as host:
        paused = host.run("hi", thread_id="t").result()
        [interrupt] = paused.interrupts
        done = host.run(paused.messages, thread_id="t", resume={interrupt.id: True}).result()
    assert (paused.outcome, done.outcome, done.text) == ("interrupt", "success", "Paid.")


def test_a_loop_may_be_wrapped() -> None:
    """Its layers are the host's, and what it may do is what any loop may."""
    seen: list[str] = []

    class Watches(Middleware):
        essential = (Point.TOOLS,)

        def on_before_tool_call(self, ctx: Any, call: Any) -> None:
            seen.append(call.name)

    agent = LoopAgent(
        ScriptedModel({"calls": [{"name": "echo", "args": {"q": "x"}}]}, "Done."), [echo]
    )

    async def main() -> RunResult:
        async with Host([Layer(Watches)], agent=LoopAgent(ScriptedModel("own"))) as host:
            wrapped = host.wrap(agent)
            async with Host([], agent=wrapped) as outer:
                return await outer.run("hi")

    result = asyncio.run(main())
    assert (result.outcome, result.text) == ("success", "Done.")
    assert seen == ["echo"]


def test_a_tool_in_a_thread_ends_the_run_without_a_complaint(logged: list[str]) -> None:
    """What it leaves with is no late result, though the run has ended before the thread has."""

    @tool
    def stops(ctx: ToolContext) -> str:
        """Stop."""
        ctx.abort("that is enough")

    agent = LoopAgent(ScriptedModel({"calls": [{"name": "stops"}]}, "Never said."), [stops])

    async def main() -> RunResult:
        async with Host([], agent=agent) as host:
            result = await host.run("hi")
            await until(lambda: "tool stops" not in {each.name for each in threading.enumerate()})
            await asyncio.sleep(0)  # what the thread has left is told to the loop
            return result

    assert asyncio.run(main()).outcome == "cancelled"
    assert logged == []


def test_an_empty_signing_key_is_refused_at_startup() -> None:
    with pytest.raises(StartupError) as caught:
        Host(agent=LoopAgent(ScriptedModel("Hi")), overrides={"host": {"signing_key": ""}})
    [problem] = caught.value.problems
    assert problem.code == "invalid-setting"
    assert "host.signing_key" in problem.message
