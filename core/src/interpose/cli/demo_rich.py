"""The demo on a terminal: the run is watched while it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from interpose.cli.demo_config import FILE_NAME, DemoConfig
from interpose.cli.demo_plain import SAW
from interpose.cli.effects import Content, Effect, Observed, contents
from interpose.cli.probes import Probes
from interpose.plan import Plan
from interpose.startup.plan_text import plan_text

_KINDS = {"text": "bold", "reasoning": "italic", "call": "cyan", "result": "cyan"}


class RichView:
    """Prints panels and tables; ``pace`` is the seconds between two events."""

    def __init__(self, pace: float, *, color: bool) -> None:
        self.pace = pace
        self._color = color
        self._console = Console(highlight=False, no_color=not color)

    def before(self, config: DemoConfig, plan: Plan) -> None:
        """Print the configuration and the plan."""
        console = self._console
        toml = Syntax(config.toml.rstrip(), "toml", background_color="default")
        console.print(Panel(toml, title=FILE_NAME, title_align="left", expand=False))
        if config.install:
            console.print(
                f"Not installed here: {', '.join(config.missing)}. Try: [bold]{config.install}[/]"
            )
        console.print(Rule("The plan", align="left"))
        console.print(Text.from_ansi(plan_text(plan, color=self._color)))

    @contextmanager
    def watching(self, probes: Probes) -> Iterator[None]:
        """Show what the agent has sent and what has reached the consumer, event by event."""
        console = self._console
        console.print(Rule("The run", align="left"))
        with Live(console=console, transient=True, refresh_per_second=20) as live:
            probes.watch = lambda: live.update(_sides(probes))
            yield

    def after(self, observed: Observed, text: str) -> None:
        """Print what each layer did, from the agent upwards, and what the consumer saw."""
        console = self._console
        table = Table(box=box.ROUNDED, show_lines=True)
        table.add_column("From the agent upwards", no_wrap=True)
        table.add_column("in", justify="right")
        table.add_column("out", justify="right")
        table.add_column("what it did", overflow="fold")
        said = Group(*(_content(content) for content in observed.contents))
        table.add_row("the agent", "", str(len(observed.sent)), said)
        for effect in observed.effects:
            name = f"{effect.position}. {effect.layer}"
            table.add_row(Text(name, "bold"), str(effect.entered), str(effect.left), _did(effect))
        console.print(table)
        self.saw(text)

    def heading(self, text: str) -> None:
        """Print a heading."""
        self._console.print(Rule(text, align="left"))

    def tell(self, who: str, what: str) -> None:
        """Print a line of a story."""
        if not who:
            self._console.print(Text(f"\n{what}", "bold"))
            return
        style = "cyan" if who.startswith("the model") else "dim"
        self._console.print(Text(f"  {who + ':':<17} ", style).append(Text(what)))

    def saw(self, text: str) -> None:
        """Print what the consumer saw."""
        self.heading(SAW)
        self._console.print(Text(text))


def _sides(probes: Probes) -> Table:
    boundaries = probes.boundaries()
    sides = Table.grid(expand=True, padding=(0, 2))
    sides.add_column(ratio=1)
    sides.add_column(ratio=1)
    sides.add_row(Text("the agent sends", "dim"), Text("the consumer has", "dim"))
    said = [
        [_content(item) for item in contents(side).values()]
        for side in (boundaries[-1], boundaries[0])
    ]
    sides.add_row(*(Group(*side) for side in said))
    return sides


def _content(content: Content) -> Text:
    """Write a content with a mark wherever it was split."""
    style = _KINDS.get(content.label.partition(" ")[0], "")
    text = Text(f"{content.label}: ", "dim")
    for index, chunk in enumerate(content.chunks):
        text.append("|" if index else "", "dim")
        text.append(chunk, style)
    return text


def _did(effect: Effect) -> Group:
    parts: list[Text | Padding] = []
    for before, after in effect.changed:
        parts.append(Text(f"changes the {before.label}", "yellow"))
        parts.append(Padding(Text(before.text, "red"), (0, 0, 0, 2)))
        parts.append(Padding(Text(after.text, "green"), (0, 0, 0, 2)))
    parts += [
        Text(f"hides the {content.label}: {content.text}", "red") for content in effect.hidden
    ]
    parts += [
        Text(f"adds the {content.label}: {content.text}", "green") for content in effect.added
    ]
    if effect.nothing:
        parts.append(Text("lets everything pass as it is", "dim"))
    parts += [Text(f"logs: {line}", "dim") for line in effect.logged]
    return Group(*parts)
