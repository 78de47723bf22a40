# mypy: disable-error-code="import-not-found, misc"
"""Draws plots with Matplotlib: ``{"do": "draw", "plot": JSON of a Plot, "file": path}``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from .serving import Clock, serve

_SIZE = (7.2, 4.2)
_DOTS = 100
_MARKS = "osD^vPX*<>"
_COLORS = ("#1f5fa8", "#c8501e", "#2e7d4f", "#8a4fa3", "#8c6d1f", "#3b8ea5", "#a33b5c", "#555555")
_FEW = 48
_SEVERAL = 6
"""With more curves than that the legend stands beside them."""


def draw(plot: dict[str, Any], file: Path) -> None:
    """Draw one plot."""
    figure = Figure(figsize=_SIZE, dpi=_DOTS, layout="constrained")
    axes: Axes = figure.subplots()
    for index, curve in enumerate(plot["curves"]):
        xs, ys = zip(*curve["points"], strict=True)
        axes.plot(
            xs,
            ys,
            label=curve["name"],
            color=_COLORS[index % len(_COLORS)],
            linestyle=("-", "--", ":")[index // len(_COLORS) % 3],
            marker=_MARKS[index % len(_MARKS)] if len(xs) <= 30 else None,
            markersize=4,
            linewidth=1.5,
        )
    axes.set(title=plot["title"], xlabel=plot["x"], ylabel=plot["y"])
    if plot["logarithmic"]:
        _logarithmic(axes, plot)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(plot["curves"]) > _SEVERAL:
        axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif len(plot["curves"]) > 1:
        axes.legend(frameon=False, fontsize="small")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    # Few colours: a third of the size, and nobody sees it.
    small = Image.open(drawn).convert("RGB").quantize(_FEW, dither=Image.Dither.NONE)
    small.save(file, format="PNG", optimize=True)


def _logarithmic(axes: Axes, plot: dict[str, Any]) -> None:
    """Scale the axes so that all points are on them: 0 has a place on a linear part."""
    points = [point for curve in plot["curves"] for point in curve["points"]]
    scales = (axes.set_xscale, axes.set_yscale)
    for scale, axis, values in zip(
        scales, (axes.xaxis, axes.yaxis), zip(*points, strict=True), strict=True
    ):
        if min(values) > 0:
            scale("log")
        else:
            scale("symlog", linthresh=min((each for each in values if each > 0), default=1.0))
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_minor_formatter(lambda value, _: "")
    axes.set_xticks(sorted({x for x, _ in points}))


async def drawn(*, plot: str, file: str, clock: Clock) -> float:
    """Draw one plot, and return the seconds that it took."""
    since = clock()
    draw(json.loads(plot), Path(file))
    return clock() - since


if __name__ == "__main__":
    serve({"draw": drawn}, "matplotlib")
