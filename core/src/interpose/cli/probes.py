"""Looking at a stream between its layers, by layers that only look."""

from __future__ import annotations

from collections.abc import Callable

from ag_ui.core import BaseEvent

from interpose.authoring import Layer, Middleware, Stage
from interpose.context import RunContext
from interpose.plan import Plan, PlannedLayer

_FROM_AGENT = "probe-agent"


class Probes:
    """A probe outside each layer of a plan, and one inside them all.

    Each probe is tied to the layer beside it by one edge, of which it is the mover, so the order
    of the plan's own layers stays as it is. ``watch``, if set, is called after each event.
    """

    def __init__(self, plan: Plan) -> None:
        self._seen: dict[str, list[BaseEvent]] = {
            f"probe-{layer_id}": [] for layer_id in (*plan.order, "agent")
        }
        self.watch: Callable[[], None] = _nothing
        self.layers = (
            *(self._outside(layer) for layer in plan.layers),
            Layer(
                self._probe(_FROM_AGENT),
                id=_FROM_AGENT,
                stage=Stage.CALL,
                after=plan.order[-1:],
            ),
        )

    def boundaries(self) -> tuple[tuple[BaseEvent, ...], ...]:
        """Return what left each layer, outermost first, and at last what the agent sent."""
        return tuple(tuple(events) for events in self._seen.values())

    def _outside(self, layer: PlannedLayer) -> Layer:
        name = f"probe-{layer.id}"
        return Layer(self._probe(name), id=name, stage=Stage(layer.stage), before=[layer.id])

    def _probe(self, name: str) -> type[Middleware]:
        probes, seen = self, self._seen[name]

        class Probe(Middleware):
            """Write down every event."""

            observes_only = True

            def on_event(self, ctx: RunContext, event: BaseEvent, /) -> None:
                """Write it down."""
                del ctx
                seen.append(event)
                probes.watch()

        return Probe


def _nothing() -> None:
    """Nobody watches."""
