"""The demo with core alone: no plugin is installed, and it still shows a run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ag_ui.core import TextMessageContentEvent
from commandline import CommandLine

from interpose.agents.scripted import ScriptedAgent
from interpose.authoring import Layer, Middleware
from interpose.cli.effects import Observed
from interpose.cli.probes import Probes
from interpose.context import RunContext
from interpose.events import Result
from interpose.host import Host
from interpose.startup.discovery import Discovery

ANSWER = (
    "Your order A-1815 has shipped. We wrote to ada.lovelace@example.com, "
    "and charged card 4111 1111 1111 1111 as agreed."
)


@pytest.fixture
def bare(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """An environment in which nothing but core is installed."""
    monkeypatch.setattr("interpose.cli.demo.discover", lambda: Discovery(()))
    return cli


def test_core_alone_shows_the_whole_demo_and_what_to_install(bare: CommandLine) -> None:
    outcome = bare("demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "The configuration (interpose.toml)\n"
        "----------------------------------\n"
        "[agent]\n"
        'use = "scripted"\n'
        "\n"
        "Not installed here: redact, tool-filter, logging. "
        "Try: pip install interpose-redact interpose-tool-filter interpose-logging\n"
        "\n"
        "The plan\n"
        "--------\n"
        "Plan for agent default (scripted)\n"
        "\n"
        "  caller\n"
        "    |  input goes down, events come up\n"
        "    |\n"
        "  agent default\n"
        "         offers     RUN, EVENTS\n"
        "         sees       input raw\n"
        "\n"
        "The run, from the agent upwards\n"
        "-------------------------------\n"
        "The agent sends 23 events\n"
        "  reasoning: The customer asks about an order.  | I look it up  | before I answer.\n"
        '  call of lookup_order: {"order":  | "A-1815"}\n'
        '  result of lookup_order: {"order": "A-1815", "status": "shipped", '
        '"contact": "ada.lovelace@example.com"}\n'
        "  text: Your order A-1815 has shipped.  | We wrote to ada.love | lace@exam | "
        "ple.com, and charged  | card 4111 11 | 11 1111 1 | 111 as agreed.\n"
        "\n"
        "What the consumer saw\n"
        "---------------------\n"
        f"{ANSWER}\n"
    )


def test_the_demo_ignores_the_folders_file_and_variables(
    bare: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = bare("demo")
    bare.write("[agent\n")
    monkeypatch.setenv("INTERPOSE__NO__SUCH", "1")
    monkeypatch.setenv("INTERPOSE_CONFIG", "lost.toml")
    assert bare("demo") == plain


def test_the_demo_leaves_nothing_behind(bare: CommandLine, tmp_path: Path) -> None:
    bare.patch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    assert bare("demo").code == 0
    assert sorted(tmp_path.iterdir()) == before
    assert not list(bare.folder.iterdir())


class Shout(Middleware):
    """Changes text."""

    def on_event(self, ctx: RunContext, event: object) -> Result | None:
        delta = getattr(event, "delta", None)
        if getattr(event, "message_id", None) != "answer-1" or delta is None:
            return None
        return event.model_copy(update={"delta": delta.upper()})  # type: ignore[attr-defined, no-any-return]


class Quiet(Middleware):
    """Hides what the model thinks."""

    def on_event(self, ctx: RunContext, event: object) -> Result | None:
        return () if "Reasoning" in type(event).__name__ else None


def test_probes_tell_what_each_layer_did_and_move_none() -> None:
    layers = [Layer(Shout), Layer(Quiet)]
    plan = Host(layers, agent=ScriptedAgent(None)).plan()
    probes = Probes(plan)
    host = Host([*layers, *probes.layers], agent=ScriptedAgent(None))
    assert host.plan().order == (
        "probe-shout",
        "shout",
        "probe-quiet",
        "quiet",
        "probe-agent",
    )
    watched: list[None] = []
    probes.watch = lambda: watched.append(None)

    async def play() -> str:
        async with host:
            return (await host.run("hello")).text

    assert asyncio.run(play()) == ANSWER.upper()
    boundaries = probes.boundaries()
    assert [len(events) for events in boundaries] == [16, 16, 23]
    assert len(watched) == 55
    observed = Observed.of(plan, boundaries, [("shout", "a line")])
    quiet, shout = observed.effects
    assert (quiet.layer, quiet.entered, quiet.left, quiet.changed) == ("quiet", 23, 16, ())
    assert [content.label for content in quiet.hidden] == ["reasoning"]
    ((before, after),) = shout.changed
    assert (before.text, after.text) == (ANSWER, ANSWER.upper())
    assert (shout.hidden, shout.added, shout.logged) == ((), (), ("a line",))


def test_text_that_is_only_split_otherwise_passes_as_it_is() -> None:
    plan = Host([Shout], agent=ScriptedAgent(None)).plan()
    whole = (TextMessageContentEvent(message_id="m", delta="Hello"),)
    split = tuple(TextMessageContentEvent(message_id="m", delta=part) for part in ("Hel", "lo"))
    (effect,) = Observed.of(plan, (whole, split)).effects
    assert (effect.entered, effect.left, effect.nothing) == (2, 1, True)


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_demo_is_drawn(cli: CommandLine) -> None:
    script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    done = subprocess.run(  # noqa: S603 - this Python, with this test's arguments
        [sys.executable, "-c", script, sys.executable, "-m", "interpose", "demo"],
        cwd=cli.folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    before, saw, after = done.stdout.rpartition("What the consumer saw")
    assert saw
    assert "╭─ interpose.toml ─" in before
    assert "\x1b[" in before
    assert "Your order A-1815 has shipped." in after
    assert done.stderr == ""
