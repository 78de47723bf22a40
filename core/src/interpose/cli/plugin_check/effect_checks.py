"""Checks of what happens while a plugin is imported: side effects, and how much is loaded."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from interpose.cli.plugin_check.results import Check, checked
from interpose.cli.plugin_check.watching import Effect
from interpose.errors import Problem

_SAID: Final[Mapping[str, str]] = {
    "variable": "sets the environment variable {item}",
    "path": "changes sys.path ({item})",
    "signal": "replaces the handler of {item}",
    "thread": "starts a thread ({item})",
    "hook": "replaces {item}",
    "finder": "adds a hook to imports ({item})",
    "warnings": "changes the warning filters",
    "folder": "changes the current folder",
    "timeout": "changes the time-out of all sockets",
    "logging": "configures the root logger of logging",
    "loguru": "adds or removes a sink of loguru",
    "policy": "replaces the event loop policy",
    "network": "uses the network ({item})",
    "process": "starts a process ({item})",
    "file": "writes or removes a file ({item})",
    "output": "prints to standard output",
}
_REMEDY: Final[Mapping[str, str]] = {
    "variable": "Give the value to whoever needs it, as an argument.",
    "path": "Import from your own package.",
    "warnings": "Use `with warnings.catch_warnings()`, around what warns.",
    "logging": "Log, and leave it to the application where that goes.",
    "loguru": "Log, and leave it to the application where that goes.",
    "output": "Use ctx.log, or nothing.",
}
_IN_LIFESPAN: Final = "Do it in `lifespan`, which the host starts and ends."

_SLOW: Final = """\
    anthropic azure boto3 botocore cv2 google grpc jax langchain langchain_core litellm
    llama_index matplotlib nltk numpy openai pandas PIL polars pyarrow pydantic_ai scipy sklearn
    spacy sqlalchemy tensorflow torch transformers"""
HEAVY: Final = frozenset(_SLOW.split())
"""What takes a good part of a second, or more, to import."""

MOST: Final = 400
"""Modules of others that a plugin may load before it is worth a warning."""


def effect_check(effects: Iterable[Effect], own: Collection[str]) -> Check:
    """Check that importing a plugin only defines. ``own``: its top-level packages.

    What a library does by itself is a note: the author can only import it later.
    """
    return checked("side-effects", "none of its own", _effects(effects, own))


def _effects(effects: Iterable[Effect], own: Collection[str]) -> Iterator[Problem]:
    for effect in effects:
        what = _SAID[effect.kind].format(item=effect.item)
        if effect.by in own:
            yield Problem(
                "plugin-side-effect",
                f"Importing it {what}. Whoever imports it, as for its types, gets that, too.",
                (effect.by,),
                _REMEDY.get(effect.kind, _IN_LIFESPAN),
            )
        else:
            by = effect.by or "a library"
            yield Problem(
                "plugin-side-effect",
                f"Importing it imports {by}, which {what}.",
                hint=f"Import {by} where it is used, if that does harm.",
                severity="note",
            )


def weight_check(before: Collection[str], own: Collection[str]) -> Check:
    """Check what a plugin loads. ``before``: the modules that were there without it."""
    loaded = [name for name in tuple(sys.modules) if name not in before]
    mine = [name for name in loaded if name.partition(".")[0] in own]
    foreign = sorted({name.partition(".")[0] for name in loaded} - set(own) - _standard())
    others = len(loaded) - len(mine)
    own_ones = f"{len(mine)} module{'' if len(mine) == 1 else 's'}"
    said = f"{own_ones} of its own, {others} others"
    if foreign:
        shown = ", ".join(foreign[:8])
        said += f" (of {shown}{' and more' if len(foreign) > 8 else ''})"  # noqa: PLR2004
    return checked("imports", said, _heavy(foreign, others))


def _heavy(foreign: Collection[str], others: int) -> Iterator[Problem]:
    heavy = sorted(HEAVY.intersection(foreign))
    if heavy or others > MOST:
        by = f"{', '.join(heavy)} is" if len(heavy) == 1 else f"{', '.join(heavy)} are"
        yield Problem(
            "plugin-heavy-import",
            f"Loading it imports {others} modules that Interpose does not need"
            + (f"; {by} slow to import." if heavy else "."),
            hint="Import what is big where it is used: in `lifespan`, `setup` or a hook.",
            severity="warning",
        )


def _standard() -> frozenset[str]:
    return frozenset(sys.stdlib_module_names) | {"interpose"}
