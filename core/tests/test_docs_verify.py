"""docs/agui.md, "Verifying a recording or an endpoint": the command prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from commandline import CommandLine
from repository import fenced

from interpose.cli.parser import parse

PAGE = (Path(__file__).parents[2] / "docs" / "agui.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Verifying a recording or an endpoint")[2]


def test_the_command_prints_what_the_page_says(cli: CommandLine) -> None:
    blocks = dict(fenced(SECTION))
    cli.write(blocks["jsonl run.jsonl"], "run.jsonl")
    command, _, printed = blocks["console"].removeprefix("$ interpose ").partition("\n")
    done = cli(*command.split())
    assert (done.out, done.code) == (printed, 1)


def test_the_options_of_the_page_are_those_of_the_command() -> None:
    table = SECTION.partition("| for an endpoint")[2].partition("\n\n")[0]
    known = vars(parse(["verify", "http://127.0.0.1/"]))
    documented = {option.replace("-", "_") for option in re.findall(r"`--([a-z-]+) ", table)}
    common = {"interpose_command", "command", "target", "text", "json", "config", "set", "debug"}
    assert documented == {name for name in known if not name.endswith("_before")} - common
    assert known["timeout"] is None
    assert "(default 60)" in table
