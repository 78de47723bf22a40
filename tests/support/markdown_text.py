"""Write Markdown: what the generated pages of the documentation are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def block(text: str, language: str = "python") -> str:
    """Write a fenced block."""
    return f"```{language}\n{text.strip()}\n```\n"


def code(text: str) -> str:
    """Write a short piece of code, "" for none."""
    return f"`{text}`" if text else ""


def page(title: str, *parts: str) -> str:
    """Write a page: a title, and parts with an empty line between them."""
    return "\n".join([f"# {title}\n", *(f"{part.strip()}\n" for part in parts)])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
