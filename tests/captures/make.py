"""Record what real frameworks send, with fake models and without a network.

    python tests/captures/make.py [FOLDER]

writes a file for each recording: ``pydantic-ai/*.sse`` and ``langgraph/*.jsonl``, here by default.
Ids, times and versions are replaced by made-up ones, so that only what a framework changes shows as
a difference.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import shop_langgraph
import shop_pydantic_ai
from ag_ui.core import BaseEvent
from ag_ui.encoder import EventEncoder

HERE: Final = Path(__file__).parent
_MADE_UP: Final = re.compile(
    r"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<hex>\b[0-9a-f]{32}\b)"
    r'|"timestamp":\s*(?P<time>\d+)'
    r'|"(?P<package>[a-z-]+)":\s*"\d+\.\d+\.\d+"'
)


async def record(stream: AsyncIterator[BaseEvent]) -> list[str]:
    """Return the events of a stream as the framework's own server would send them."""
    encoder = EventEncoder()
    return [encoder.encode(event) async for event in stream]


def neutral(events: list[str]) -> Iterator[str]:
    """Yield the events with made-up ids, times and versions."""
    known: dict[str, str] = {}
    clock = itertools.count(1_800_000_000_000, 10)

    def replaced(found: re.Match[str]) -> str:
        if found["uuid"]:
            return known.setdefault(found[0], f"00000000-0000-4000-8000-{len(known):012}")
        if found["hex"]:
            return known.setdefault(found[0], f"{len(known):032}")
        if found["time"]:
            return f'"timestamp":{next(clock)}'
        return f'"{found["package"]}":"0.0.0"'

    for event in events:
        yield _MADE_UP.sub(replaced, event)


async def recorded() -> Mapping[str, str]:
    """Return the text of each file, by its path."""
    files: dict[str, str] = {}
    for name, stream in shop_pydantic_ai.recordings().items():
        files[f"pydantic-ai/{name}.sse"] = "".join(neutral(await record(stream)))
    for name, stream in shop_langgraph.recordings().items():
        lines = (event.removeprefix("data: ").strip() for event in neutral(await record(stream)))
        files[f"langgraph/{name}.jsonl"] = "\n".join(lines) + "\n"
    return files


def main(folder: Path = HERE) -> None:
    """Write all recordings."""
    # The adapter asks LangGraph for what it has renamed, and logs the model's exception itself.
    warnings.filterwarnings(
        "ignore", message=".*get_config_jsonschema", category=DeprecationWarning
    )
    logging.getLogger("ag_ui_langgraph").setLevel(logging.CRITICAL)
    for name, text in asyncio.run(recorded()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
