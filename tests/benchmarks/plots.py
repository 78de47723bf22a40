"""Plots as PNG files, drawn by Matplotlib in an environment of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from .environments import PythonEnvironment
from .peers import SCRIPTS, Peer, Unavailable, worker
from .results import Plot

PAINTER: Final[Mapping[str, Peer]] = {
    "plots": Peer(SCRIPTS / "draw.py", PythonEnvironment("plots", SCRIPTS / "pins" / "plots.txt"))
}


def draw(plots: Sequence[Plot], folder: Path) -> str | None:
    """Draw each plot into ``folder``, as a file of its name; plots of other names are removed.

    Returns why there are none, if they cannot be drawn here; then the folder has none at all, so
    that no page shows the plots of other figures.
    """
    for old in folder.glob("*.png"):
        old.unlink()
    if not plots:
        return None
    try:
        with worker("plots", known=PAINTER) as painter:
            for plot in plots:
                file = folder.resolve() / f"{plot.name}.png"
                painter.time("draw", plot=json.dumps(asdict(plot)), file=str(file))
    except Unavailable as error:
        return str(error)
    return None
