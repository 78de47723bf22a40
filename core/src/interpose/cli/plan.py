"""``interpose plan`` and ``interpose why``."""

from __future__ import annotations

import argparse
import sys

from interpose.cli.configured import choose_agent, startup
from interpose.cli.exits import OK
from interpose.cli.terminal import colored, complain
from interpose.errors import render
from interpose.startup.plan_text import plan_json, plan_mermaid, plan_text, why


def main(arguments: argparse.Namespace) -> int:
    """Show the plan of one agent, or explain the order of two of its layers."""
    with startup(arguments) as (_, prepared):
        plan = prepared.plans[choose_agent(prepared, arguments.agent)]
        elsewhere = [each for each in prepared.warnings if each not in plan.notes]
        if elsewhere:
            complain(render(elsewhere))
        if arguments.command == "why":
            print(why(plan, arguments.a, arguments.b))
        elif arguments.format == "json":
            print(plan_json(plan))
        elif arguments.format == "mermaid":
            print(plan_mermaid(plan))
        else:
            print(plan_text(plan, color=colored(sys.stdout)))
    return OK
