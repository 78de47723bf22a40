"""What the real clients see of a run that layers have changed."""

from __future__ import annotations

import pytest
from driving import Client, Server

HIDDEN = "delete_everything"
SCENARIOS = ["hidden tool", "hidden chunks", "hidden snapshot"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_hidden_front_end_tool_never_triggers(
    server: Server, client: Client, scenario: str
) -> None:
    step = client.run(server.address("filtered"), scenario)
    shown = {"events": step.events, "calls": step.calls, "messages": step.messages}
    assert HIDDEN not in str(shown)
    assert "'c2'" not in str(shown)
    # The other one does, so that it is not the whole stream that is missing.
    calls = [call for message in step.answers for call in message.get("toolCalls", ())]
    assert [call["function"]["name"] for call in calls] == ["confirm"]
    if scenario != "hidden snapshot":
        assert [each["tool"] for each in step.told("onNewToolCall")] == ["confirm"]
        assert [each["toolCallId"] for each in step.told("onToolCallEndEvent")] == ["c1"]
        if not client.is_old:
            assert [each["pendingToolCallIds"] for each in step.told("onRunFinishedEvent")] == [
                ["c1"]
            ]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_without_the_filter_it_triggers(server: Server, client: Client, scenario: str) -> None:
    step = client.run(server.url, scenario)
    calls = [call for message in step.answers for call in message.get("toolCalls", ())]
    assert HIDDEN in [call["function"]["name"] for call in calls]
    if scenario != "hidden snapshot":
        assert HIDDEN in [each["tool"] for each in step.told("onNewToolCall")]


def test_an_address_that_chunks_cut_never_arrives(server: Server, client: Client) -> None:
    step = client.run(server.address("redacted"), "address")
    for part in ("ada.love", "lace@exam", "ple.com"):
        assert part not in str(step.report)
    by_id = {message["id"]: message for message in step.answers}
    assert by_id["r1"]["content"] == "Ask [email]"
    assert by_id["m1"]["content"] == "Write to [email] today."
    assert by_id["m1"]["toolCalls"][0]["function"]["arguments"] == '{"to": "[email]"}'
    assert by_id["t1"]["content"] == "sent to [email]"
    assert step.state == {"to": "[email]", "cc": "[email]"}


def test_without_redaction_it_arrives(server: Server, client: Client) -> None:
    step = client.run(server.url, "address")
    by_id = {message["id"]: message for message in step.answers}
    assert by_id["m1"]["content"] == "Write to ada.lovelace@example.com today."
