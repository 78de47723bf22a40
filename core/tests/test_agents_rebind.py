from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
)

from interpose.agents.rebind import rebind

START = RunStartedEvent(
    thread_id="old",
    run_id="old-run",
    parent_run_id="older",
    protocol_version="1.0",
    input=RunAgentInput(thread_id="old", run_id="old-run", messages=[]),
    metadata={"k": 1},
)
SOME = CustomEvent(name="n", value=1)
FINISH = RunFinishedEvent(thread_id="old", run_id="old-run", result={"r": 1})
NEW_START = RunStartedEvent(thread_id="t", run_id="r", protocol_version="1.0", metadata={"k": 1})
NEW_FINISH = RunFinishedEvent(thread_id="t", run_id="r", result={"r": 1})


def test_the_run_is_played_under_the_new_ids_and_the_recording_is_not_changed() -> None:
    recorded: list[BaseEvent] = [START, SOME, FINISH]
    before = [event.model_copy(deep=True) for event in recorded]
    assert rebind(recorded, "t", "r") == ((NEW_START, SOME, NEW_FINISH), ())
    assert recorded == before


def test_only_the_first_of_several_runs_is_played() -> None:
    events, warnings = rebind([START, SOME, FINISH, START, FINISH, START], "t", "r")
    assert events == (NEW_START, SOME, NEW_FINISH)
    assert warnings == ("the recording holds 3 runs; only the first is played",)


def test_a_truncated_first_run_ends_where_the_second_begins() -> None:
    events, warnings = rebind([START, SOME, START, FINISH], "t", "r")
    assert events == (NEW_START, SOME)
    assert warnings == ("the recording holds 2 runs; only the first is played",)


def test_what_follows_the_end_of_the_run_is_reported() -> None:
    error = RunErrorEvent(message="x")
    assert rebind([START, error, SOME, SOME], "t", "r") == (
        (NEW_START, error),
        ("2 recorded events after the end of the run are not played",),
    )


def test_a_recording_without_start_or_ending_stays_as_it_is() -> None:
    assert rebind([SOME, SOME], "t", "r") == ((SOME, SOME), ())
    assert rebind([], "t", "r") == ((), ())
