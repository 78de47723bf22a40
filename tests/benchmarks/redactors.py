"""The redactors of peers, beside interpose-redact: what each adds to a run, for each token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from .environments import NodeEnvironment, PythonEnvironment, Unavailable
from .measuring import Samples, Timed, compare
from .peers import SCRIPTS, Peer, Worker, workers
from .redacting import in_host, message
from .results import Result, Row, Size, Table
from .texts import tokens

_PINS: Final = SCRIPTS / "pins"
PEERS: Final[Mapping[str, Peer]] = MappingProxyType(
    {
        "langchain": Peer(
            SCRIPTS / "redact_langchain.py",
            PythonEnvironment("langchain", _PINS / "langchain.txt"),
        ),
        "tanstack-ai": Peer(SCRIPTS / "redact_tanstack.mjs", NodeEnvironment("javascript", _PINS)),
    }
)
NAMES: Final = MappingProxyType(
    {
        "langchain": "LangChain `PIIMiddleware`, events of version 3",
        "tanstack-ai": "TanStack AI `contentGuardMiddleware`",
    }
)
_CHARACTERS: Final = (1_000, 10_000)
_ROUNDS: Final = 7
_SAME: Final[Mapping[str, Any]] = MappingProxyType({"entities": ["email", "card", "ip"]})
_KINDS: Final = "email,credit_card,ip"
_NOTES: Final = (
    (
        "Addresses, cards and IP addresses, of each peer in its own patterns; each in its own run, so "
        "what is compared is what redaction adds to it. Processor time."
    ),
    (
        "LangChain redacts what streams in the events of version 3, which it calls experimental, and not "
        "in `stream_mode` or the events of version 2. A middleware searches for one kind, so there are "
        "three. Each holds back its last 128 characters and searches them again with every token."
    ),
    (
        "TanStack AI searches the whole text again with every token, so its cost grows with the text; "
        "it holds back the last 50 characters, and a longer value that is cut leaves in parts."
    ),
)


def compared(size: Size) -> Result:
    """Measure what redaction adds to runs of the peers; nothing without them."""
    if not size.peers:
        return Result(tables=[])
    with workers(*PEERS, known=PEERS) as (started, left_out):
        rows: list[Row] = []
        for name, worker in started.items():
            try:
                rows += _rows(name, worker)
            except Unavailable as error:
                left_out.append(str(error))
        versions = {
            key: each for worker in started.values() for key, each in worker.versions.items()
        }
    table = Table("Beside the redactors of peers", "us for each token", rows, _NOTES)
    return Result(tables=[table] if rows else [], left_out=left_out, versions=versions)


def _rows(name: str, worker: Worker) -> list[Row]:
    rows = []
    for characters in _CHARACTERS:
        pieces = tokens(characters)
        samples = _measured(name, worker, pieces)
        added = samples.added_ratio(("ours", "our run"), ("theirs", "their run"))
        label = f"{characters // 1000} kB"
        of_each = samples.added("ours", "our run") / len(pieces) * 1e6
        rows.append(
            Row(f"{label}: added by interpose-redact", f"added by {NAMES[name]}", added, of_each)
        )
        whole = samples.median("ours") / len(pieces) * 1e6
        rows.append(
            Row(f"{label}: the whole run", "its whole run", samples.ratio("ours", "theirs"), whole)
        )
    return rows


def _measured(name: str, worker: Worker, pieces: Sequence[str]) -> Samples:
    events = message(pieces)
    said = json.dumps(pieces)
    theirs: dict[str, Timed]
    if name == "langchain":
        ask = partial(worker.time, "redact", pieces=said, times=1, clock="processor")
        theirs = {"theirs": partial(ask, kinds=_KINDS), "their run": partial(ask, kinds="")}
    else:
        ask = partial(worker.time, "redact", pieces=said, events=len(pieces), clock="processor")
        theirs = {"theirs": partial(ask, guards=1), "their run": partial(ask, guards=0)}
    ours: dict[str, Timed] = {
        "ours": partial(in_host, events, dict(_SAME)),
        "our run": partial(in_host, events, None),
    }
    return compare({**ours, **theirs}, rounds=_ROUNDS)
