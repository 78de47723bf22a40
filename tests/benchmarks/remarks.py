"""What people add to the figures: why a target is missed, or what the limit is where it is not.

By the keys of :mod:`benchmarks.targets`, a sentence or two each. A page says them below the table
of targets. A test wants one for each target that the kept record misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REMARKS: Final[Mapping[str, str]] = {
    "run-without-layers": (
        "One generator stands between agent and consumer, and takes about a third of what is added. "
        "The rest is looking at six attributes, keeping the text, and noting which task waits, so "
        "that `run.cancel` can interrupt it."
    ),
    "hooks-nested-10": (
        "The limit is the call of a Python function for each hook. It pays from about the fifth "
        "layer on: one or two layers cost less as generators."
    ),
    "hooks-nested-20": (
        "The limit is the call of a Python function for each hook, and a look after each whether it "
        "emitted something that has to go first."
    ),
    "encoding-generator": (
        "The whole of `host.run` is measured, with its two edges, which cost the SDK's encoder "
        "about an eighth; ten hooks add as much again."
    ),
    "encoding-served": (
        "About half is the encoder, which looks at each field before it writes it, because it has to "
        "give the SDK's bytes for whatever a layer returns; the other half is the run and its hooks."
    ),
    "tiny-run": (
        "A run has fixed costs that a bare generator has not: its record, what it may still have to "
        "close, the transcript, an instance and a context of each layer, the end with its hooks. "
        "They are the same for a run of any length, and a small part of one call of a model."
    ),
    "memory-run": (
        "What is compared is all that a run holds, not only what its layers hold: ids, transcript, "
        "what is open at both edges. Ten layers by themselves, each with an instance and a context "
        "of its own, hold somewhat less than ten generators."
    ),
    "call-agent-framework": (
        "Around a model call a layer is an async generator that sees each event, with a generator of "
        "ours around it that holds it to its contract; theirs awaits one answer. What a layer adds "
        "is far below a thousandth of a call of a real model."
    ),
    "call-pydantic-ai": "For the same reason; a layer around a tool call costs about half of this.",
    "call-langchain": "For the same reason.",
    "sse-burst": (
        "The limit is the encoder: bytes that were encoded before are sent about ten times faster."
    ),
    "sse-per-wake": (
        "With a write for each event the limit is the write itself: bytes that were encoded before "
        "reach about twice as much."
    ),
    "discovery": (
        "What remains is opening two small files for each installed distribution of the group; the "
        "environment that this was measured in has more than a hundred of its own."
    ),
}
