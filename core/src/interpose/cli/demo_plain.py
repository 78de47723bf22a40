"""The demo as plain text, for pipes and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from interpose.cli.demo_config import FILE_NAME, DemoConfig
from interpose.cli.effects import Content, Effect, Observed
from interpose.cli.probes import Probes
from interpose.plan import Plan
from interpose.startup.plan_text import plan_text

SAW: Final = "What the consumer saw"


class PlainView:
    """Prints the parts one after the other; nothing depends on a terminal."""

    pace = 0.0

    def before(self, config: DemoConfig, plan: Plan) -> None:
        """Print the configuration and the plan."""
        _heading(f"The configuration ({FILE_NAME})")
        print(config.toml)
        if config.install:
            print(f"Not installed here: {', '.join(config.missing)}. Try: {config.install}\n")
        _heading("The plan")
        print(plan_text(plan), end="\n\n")

    @contextmanager
    def watching(self, probes: Probes) -> Iterator[None]:
        """Wait for the end."""
        del probes
        yield

    def after(self, observed: Observed, text: str) -> None:
        """Print what each layer did, from the agent upwards, and what the consumer saw."""
        _heading("The run, from the agent upwards")
        print(f"The agent sends {len(observed.sent)} events")
        for content in observed.contents:
            print(f"  {content.label}: {split(content)}")
        for effect in observed.effects:
            print(f"\n{title(effect)}")
            for line in _lines(effect):
                print(f"  {line}")
        print()
        self.saw(text)

    def heading(self, text: str) -> None:
        """Print a heading."""
        _heading(text)

    def tell(self, who: str, what: str) -> None:
        """Print a line of a story."""
        print(f"  {who + ':':<17} {what}" if who else f"\n{what}")

    def saw(self, text: str) -> None:
        """Print what the consumer saw."""
        _heading(SAW)
        print(text)


def title(effect: Effect) -> str:
    """Name a layer, and how many events went in and came out."""
    return f"{effect.position}. {effect.layer}: {effect.entered} events in, {effect.left} out"


def split(content: Content) -> str:
    """Write a content with a bar wherever it was split."""
    return " | ".join(content.chunks)


def _lines(effect: Effect) -> Iterator[str]:
    for before, after in effect.changed:
        yield f"changes the {before.label}"
        yield f"  in:  {before.text}"
        yield f"  out: {after.text}"
    for content in effect.hidden:
        yield f"hides the {content.label}: {content.text}"
    for content in effect.added:
        yield f"adds the {content.label}: {content.text}"
    if effect.nothing:
        yield "lets everything pass as it is"
    for line in effect.logged:
        yield f"logs: {line}"


def _heading(text: str) -> None:
    print(f"{text}\n{'-' * len(text)}")
