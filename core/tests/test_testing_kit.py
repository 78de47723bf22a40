"""The plain kit: hosts, agents, events, a clock and assertions, with and without pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    UserMessage,
)
from contracting import in_loop

from interpose import (
    PRINCIPAL,
    Capability,
    Middleware,
    RunContext,
    StartupError,
    UsageError,
)
from interpose.testing import (
    RecordingAgent,
    app_host,
    assert_order,
    assert_plan,
    assert_valid_stream,
    failed,
    finished,
    make_host,
    play,
    reasoning,
    recorded,
    scripted,
    started,
    text,
    tool_call,
    usage,
    user_input,
)


class User:
    subject = "ada"
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: dict[str, Any] = {}  # noqa: RUF012 - a stand-in


class Greets(Middleware):
    """Says to whom it speaks."""

    requires = (PRINCIPAL,)

    def on_start(self, ctx: RunContext, /) -> None:
        ctx.metadata["user"] = ctx[PRINCIPAL].subject


class First(Middleware): ...


class Second(Middleware): ...


class Third(Middleware): ...


# Hosts ---------------------------------------------------------------------------------------
@in_loop
async def test_a_host_of_layers_plays_a_run() -> None:
    async with make_host([First, Second], agent=scripted("Hel", "lo")) as host:
        result = await host.run("hi")
    assert (result.outcome, result.text) == ("success", "Hello")


@in_loop
async def test_each_run_gets_what_the_host_was_given_unless_it_says_otherwise() -> None:
    class Other(User):
        subject = "eve"

    seen: list[str] = []

    class Looks(Middleware):
        requires = (PRINCIPAL,)

        def setup(self, ctx: RunContext, /) -> None:
            seen.append(ctx[PRINCIPAL].subject)

    async with make_host([Looks], agent=scripted("hi"), provide={PRINCIPAL: User()}) as host:
        await host.run("hi")
        await host.run("hi", provide={PRINCIPAL: Other()})
    assert seen == ["ada", "eve"]


@in_loop
async def test_a_host_scope_value_is_given_to_the_host() -> None:
    number = Capability[int]("test-kit/number")

    class Reads(Middleware):
        requires = (number,)

        def setup(self, ctx: RunContext, /) -> None:
            ctx.metadata["number"] = ctx[number]

    async with make_host([Reads], agent=scripted("hi"), provide={number: 3}) as host:
        assert (await host.run("hi")).outcome == "success"


def test_an_installed_plugin_does_not_exist_for_a_host_of_layers() -> None:
    with pytest.raises(StartupError) as caught:
        make_host([], agent=scripted("hi"), overrides={"middleware": {"redact": {}}})
    assert [problem.code for problem in caught.value.problems] == ["unknown-use"]


def test_no_variable_of_the_process_reaches_a_host_of_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERPOSE__MIDDLEWARE__NO_SUCH__KEY", "1")
    monkeypatch.setenv("INTERPOSE__MIDDLEWARE__FIRST__ENABLED", "false")
    assert make_host([First], agent=scripted("hi")).plan().order == ("first",)


@in_loop
async def test_a_host_of_layers_is_strict() -> None:
    class Breaks(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent, /) -> list[BaseEvent]:
            return [event, event]

    async with make_host([Breaks], agent=scripted("hi")) as host:
        result = await host.run("hi")
    assert "breaks" in str(result.error)


def test_two_default_agents_are_refused() -> None:
    with pytest.raises(UsageError, match="are both given"):
        make_host([], agent=scripted("hi"), agents={"default": scripted("hi")})


@pytest.fixture(name="app")
def app_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERPOSE__MIDDLEWARE__REDACT__ACTION", "hash")
    (tmp_path / "interpose.toml").write_text(
        """
[agent]
use = "remote"
url = "https://agent.example.com"
headers = { authorization = { "$env" = "AGENT_AUTH" } }

[middleware.redact]
entities = ["email"]
key = { "$file" = "/run/secrets/redact" }

[middleware.logging]
events = false
"""
    )
    return tmp_path


@in_loop
async def test_an_application_s_own_chain_is_played_with_its_real_plugins(app: Path) -> None:
    del app
    agent = scripted("Ask ada@exam", "ple.com.")
    async with app_host(agent=agent, secrets="fake") as host:
        assert_order(host.plan(), "logging", "redact")
        assert (await host.run("hi")).text == "Ask [email]."


@in_loop
async def test_set_overrides_a_key_of_the_application_s_file(app: Path) -> None:
    host = app_host(
        app / "interpose.toml",
        agent=scripted("Ask ada@example.com."),
        set={"middleware.redact.action": "mask", "middleware.logging.enabled": False},
        secrets="fake",
    )
    assert host.plan().order == ("redact",)
    async with host:
        assert (await host.run("hi")).text == "Ask •••@•••••••.•••."


def test_a_key_that_is_none_is_refused_by_its_name(app: Path) -> None:
    del app
    with pytest.raises(StartupError) as caught:
        app_host(agent=scripted("hi"), set={"middleware.redact.acton": "mask"}, secrets="fake")
    problem = caught.value.problems[0]
    assert problem.code == "unknown-setting"
    assert 'Did you mean "action"?' in problem.hint


@pytest.mark.parametrize(
    "given",
    [
        {"middleware.redact": 1, "middleware.redact.action": "mask"},
        {"middleware.redact.action": "mask", "middleware.redact": 1},
    ],
)
def test_a_key_and_a_part_of_it_cannot_both_be_set(app: Path, given: dict[str, Any]) -> None:
    del app
    with pytest.raises(UsageError, match=r"middleware\.redact"):
        app_host(agent=scripted("hi"), set=given, secrets="fake")


def test_real_secrets_are_looked_for_and_missed(app: Path) -> None:
    del app
    with pytest.raises(StartupError) as caught:
        app_host(agent=scripted("hi"))
    said = " ".join(problem.message for problem in caught.value.problems)
    assert "/run/secrets/redact" in said
    with pytest.raises(UsageError, match='"real" or "fake"'):
        app_host(agent=scripted("hi"), secrets="made-up")  # type: ignore[arg-type]


@in_loop
async def test_a_variable_counts_only_if_the_test_gives_it(app: Path) -> None:
    del app
    name = "INTERPOSE__MIDDLEWARE__REDACT__ACTION"
    agent = scripted("Ask ada@example.com.")
    async with app_host(agent=agent, secrets="fake", environ={name: "mask"}) as host:
        assert (await host.run("hi")).text == "Ask •••@•••••••.•••."


def test_a_file_that_is_not_there_is_a_problem(app: Path) -> None:
    (app / "interpose.toml").unlink()
    with pytest.raises(StartupError):
        app_host(agent=scripted("hi"))


# Agents and events -----------------------------------------------------------------------------
def test_parts_are_played_as_they_are_said() -> None:
    played = play([], scripted("Hel", "lo", tool_call("look_up", {"q": 1}), "Bye"))
    assert_valid_stream(played.events)
    assert played.types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert played.text == "HelloBye"
    assert json.loads(played.args["call"]) == {"q": 1}


def test_an_exception_among_the_parts_is_raised() -> None:
    played = play([], scripted("Hel", ValueError("no more")))
    assert isinstance(played.result.error, ValueError)
    assert played.types[-1] == "RUN_ERROR"


def test_what_the_parts_say_themselves_is_not_said_again() -> None:
    assert play([], scripted(failed("It broke.", "broken"))).types == ["RUN_STARTED", "RUN_ERROR"]
    whole = play([], scripted(started(), "hi", finished(result=3)))
    assert whole.types.count("RUN_STARTED") == whole.types.count("RUN_FINISHED") == 1
    assert whole.result.result == 3
    assert play([], scripted()).types == ["RUN_STARTED", "RUN_FINISHED"]


@in_loop
async def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(UsageError, match="an agent cannot play a int"):
        scripted("hi", 3)  # type: ignore[arg-type]


@in_loop
async def test_a_recording_agent_remembers_what_it_was_asked_and_what_it_sent() -> None:
    agent = RecordingAgent("a", "b", "c")
    async with make_host([], agent=agent) as host:
        await host.run("first")
        async with host.run("second") as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    break
    asked = [agent_input.messages[-1].content for agent_input in agent.inputs]
    assert asked == ["first", "second"]
    assert agent.sent[0] == 7
    assert agent.sent[1] < 7
    assert agent.closed == 2


def test_a_recording_is_played(tmp_path: Path) -> None:
    file = tmp_path / "capture.jsonl"
    events = [started(), *text("Hello."), finished()]
    file.write_text("\n".join(event.model_dump_json(by_alias=True) for event in events))
    assert play([], recorded(file)).text == "Hello."
    with pytest.raises(UsageError.__mro__[1], match=r"missing\.jsonl"):
        recorded(tmp_path / "missing.jsonl")


def test_the_builders_make_valid_events() -> None:
    run_input = user_input("hi", thread_id="t", run_id="r")
    assert_valid_stream(
        [
            started(run_input),
            *reasoning("Hm", "m."),
            *text("Hel", "lo"),
            *tool_call("look_up", {"q": "a"}, result="found"),
            *tool_call("raw", "{not json", tool_call_id="second"),
            *tool_call("pieces", ('{"a"', ": 1}"), tool_call_id="third"),
            finished(run_input, usage=[usage(3, 4)]),
        ]
    )
    assert usage(3, 4).total_tokens == 7
    assert run_input.messages[0].content == "hi"
    assert user_input([UserMessage(id="u", content="ho")]).messages[0].content == "ho"
    assert user_input().run_id != user_input().run_id
    assert failed().code is None


# Streams ---------------------------------------------------------------------------------------
def test_a_stream_that_breaks_a_rule_is_told_with_the_events_before() -> None:
    broken = [started(), TextMessageContentEvent(message_id="m", delta="hi"), finished()]
    with pytest.raises(AssertionError) as caught:
        assert_valid_stream(broken)
    said = str(caught.value)
    assert "TEXT_MESSAGE_CONTENT" in said.splitlines()[0]
    assert "the last events:" in said
    assert '"delta":"hi"' in said
    assert "RUN_FINISHED" not in said  # what came after the breach does not matter


@pytest.mark.parametrize(
    "events", [[], [started()], [started(), TextMessageStartEvent(message_id="m")], text("hi")]
)
def test_a_stream_that_is_cut_is_not_valid(events: list[BaseEvent]) -> None:
    with pytest.raises(AssertionError):
        assert_valid_stream(events)


@in_loop
async def test_play_works_where_a_loop_runs_already() -> None:
    assert play([First], scripted("Hello.")).text == "Hello."
    with pytest.raises(StartupError):
        play([First, First], scripted("Hello."))


# Plans -----------------------------------------------------------------------------------------
def test_an_order_that_does_not_hold_is_told_with_the_whole_order() -> None:
    plan = make_host([First, Second, Third], agent=scripted("hi")).plan()
    assert_order(plan, "first", "third")
    with pytest.raises(AssertionError) as caught:
        assert_order(plan, "third", "first")
    assert str(caught.value) == (
        "expected third > first; the plan has first > third (in all: first > second > third)"
    )
    with pytest.raises(UsageError, match="the plan has no layer 'fourth'"):
        assert_order(plan, "first", "fourth")


def test_a_plan_is_compared_with_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    plan = make_host([First, Second], agent=scripted("hi")).plan()
    with pytest.raises(AssertionError, match=r"there is no snapshot .*INTERPOSE_UPDATE_PLANS=1"):
        assert_plan(plan, file)
    monkeypatch.setenv("INTERPOSE_UPDATE_PLANS", "1")
    assert_plan(plan, file)
    monkeypatch.delenv("INTERPOSE_UPDATE_PLANS")
    assert_plan(plan, file)
    other = make_host([Second, First], agent=scripted("hi")).plan()
    with pytest.raises(AssertionError) as caught:
        assert_plan(other, file)
    assert "the plan has changed; INTERPOSE_UPDATE_PLANS=1 accepts it" in str(caught.value)
    assert '-      "id": "first",' in str(caught.value)
    assert_plan(other, file, update=True)
    assert_plan(other, file)


# Without pytest --------------------------------------------------------------------------------
def python(script: str) -> str:
    """Run a script, which must have nothing to complain about."""
    done = subprocess.run(  # noqa: S603 - this Python, with this test's script
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_to_import_the_kit_costs_nothing() -> None:
    out = python(
        "import sys; before = set(sys.modules); import interpose.testing\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert {name for name in out.split() if name.startswith("interpose")} == {
        "interpose",
        "interpose._version",
        "interpose.testing",
    }
    assert not {"pydantic", "ag_ui", "loguru", "asyncio", "pytest"} & set(out.split())


def test_every_name_of_the_kit_can_be_had_without_pytest() -> None:
    python(
        "import sys; sys.modules['pytest'] = sys.modules['_pytest'] = None\n"
        "import interpose.testing as kit\n"
        "for name in kit.__all__: getattr(kit, name)\n"
        "assert sorted(kit.__all__) == kit.__all__ == dir(kit)\n"
        "from interpose import Middleware\n"
        "class Nothing(Middleware): pass\n"
        "report = kit.contract(Nothing).run()\n"
        "assert report, str(report)\n"
        "assert kit.play([Nothing]).text == 'Hello.'\n"
    )


def test_a_name_that_the_kit_does_not_have_is_an_attribute_error() -> None:
    import interpose.testing as kit

    with pytest.raises(AttributeError, match="no attribute 'contracts_for'"):
        kit.contracts_for  # noqa: B018 - to read it is the test


def test_streams_of_a_run_are_what_the_consumer_gets() -> None:
    played = play([], scripted("Hello."))
    assert isinstance(played.events[0], RunStartedEvent)
    assert isinstance(played.events[-1], RunFinishedEvent)
    check: Callable[..., None] = assert_valid_stream
    check(played.events)
