"""The demo over the installed first plugins: what each layer did, and what the consumer saw."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

for plugin in ("interpose_redact", "interpose_tool_filter", "interpose_logging"):
    pytest.importorskip(plugin)

EMAIL = "ada.lovelace@example.com"
CARD = "4111 1111 1111 1111"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints into a pipe, in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-m", "interpose", "demo"],
        cwd=tmp_path_factory.mktemp("anywhere"),
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_the_plan_orders_the_layers_by_their_stages(shown: str) -> None:
    plan = shown[shown.index("The plan\n") : shown.index("The run, ")]
    places = [plan.index(layer) for layer in ("1. logging", "2. tool-filter", "3. redact")]
    assert places == sorted(places)
    for stage in ("observe", "shape", "content"):
        assert f"place      stage {stage}" in plan


def test_the_agent_splits_the_address_and_the_card_across_chunks(shown: str) -> None:
    assert "We wrote to ada.love | lace@exam | ple.com, and charged  | card 4111 11 | " in shown


def test_each_layer_tells_what_it_did(shown: str) -> None:
    run = shown[shown.index("The run, ") : shown.index("What the consumer saw\n")]
    redact = run[run.index("3. redact: 23 events in") : run.index("2. tool-filter: ")]
    assert "  changes the text\n" in redact
    assert "  changes the result of lookup_order\n" in redact
    tools = run[run.index("2. tool-filter: ") : run.index("1. logging: ")]
    assert "  hides the call of lookup_order: " in tools
    assert "  hides the result of lookup_order: " in tools
    assert EMAIL not in tools
    logging = run[run.index("1. logging: ") :]
    assert "  lets everything pass as it is\n" in logging
    assert "  logs: run started run_id=demo-1 thread_id=demo " in logging
    assert "  logs: run ended " in logging
    assert "outcome=success" in logging


def test_the_consumer_sees_neither_the_address_nor_the_card(shown: str) -> None:
    _, line, saw = shown.partition("\nWhat the consumer saw\n")
    assert line
    assert EMAIL not in saw
    assert CARD not in saw
    for part in ("ada", "lovelace", "4111", "1111"):
        assert part not in saw
    assert saw.splitlines()[1].startswith("Your order A-1815 has shipped. We wrote to •••")
    assert saw.endswith(" as agreed.\n")


def test_the_configuration_that_is_shown_is_one_that_works(shown: str, tmp_path: Path) -> None:
    _, _, after = shown.partition("----------------------------------\n")
    toml, _, _ = after.partition("\nThe plan\n")
    (tmp_path / "interpose.toml").write_text(toml, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "interpose", "run", "Where is my order A-1815?"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == shown.splitlines(keepends=True)[-1]
    assert done.stderr.count("interpose_logging.layer: run ") == 2
    assert "history-cut" in done.stderr or "warning" not in done.stderr


def test_in_the_loop_the_model_and_the_consumer_see_what_redact_leaves(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interpose", "demo", "--loop"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    story = done.stdout[done.stdout.index("The run\n") :].splitlines()
    masked = "•••.••••••••@•••••••.•••"
    for said in (
        '  find_order gives: {"order":"A-1815","total":25,"contact":"%s"}',
        "  the model says:   I found it, and write to %s when it is paid.",
    ):
        after = said.partition(":")[2] if said.startswith("  find") else said[20:]
        line = story.index(said % EMAIL)
        assert story[line + 1] == f"  after the layers: {after.strip() % masked}"
    assert "  refund gives:     paid back 25 EUR for A-1815" in story
    assert story[-1] == "Done: your money is on its way back to you."
