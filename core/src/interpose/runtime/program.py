"""What all runs of one agent share: its layers, its values, its way to make the agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interpose.authoring import Agent, Point
from interpose.capability import Capability
from interpose.errors import CapabilityError, UsageError
from interpose.logs import bound
from interpose.runtime.layer import ActiveLayer, Frame
from interpose.runtime.tasks import HostTasks
from interpose.services import Clock

if TYPE_CHECKING:
    from interpose.model import Model
    from interpose.runtime.segment import Segment


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One agent's chain, ready to run; made once per host, never changed.

    ``layers``: outermost first. ``setup_order``: layer ids. ``values``: host-scope capabilities.
    ``may_read``: what each part declared. ``ending_deadline``: seconds for one closing or one
    terminal hook. ``history_cut``: index of the outermost layer that the agent runs itself,
    because it offers HISTORY. ``segments``: the compiled event hooks, by the index of their
    outermost layer; without any, the plain form is played. ``is_direct``: no layer wraps the run,
    so that one generator can play it. ``scrub`` takes known secrets out of a text. ``make_models``:
    by the keys of ``[models]``. ``signing_key`` signs continuations; ``has_lasting_key``: it was
    configured, so that other processes may have it, too.
    """

    agent_id: str
    layers: tuple[ActiveLayer, ...]
    setup_order: tuple[str, ...]
    make_agent: Callable[[], Agent]
    values: Mapping[Capability[Any], Any]
    may_read: Mapping[str, frozenset[Capability[Any]]]
    clock: Clock
    tasks: HostTasks
    ending_deadline: float
    points: tuple[Point, ...] = (Point.RUN, Point.EVENTS)
    history_cut: int | None = None
    segments: Mapping[int, Segment] = field(default_factory=dict)
    scrub: Callable[[str], str] = str
    strict: bool = False
    make_models: Mapping[str, Callable[[], Model]] = field(default_factory=dict)
    signing_key: bytes = b""
    has_lasting_key: bool = False
    is_direct: bool = field(init=False, default=False)
    in_setup_order: tuple[ActiveLayer, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        layers = self.layers[: self.stop]
        wrapped = any("around_run" in layer.facts.hooks for layer in layers)
        raw = any(layer.declaration.form == "raw" for layer in layers)
        covered = self.direct_segment is not None or not any(each.has_events for each in layers)
        is_direct = covered and not (wrapped or raw or self.strict)
        in_order = tuple(self.layer(layer_id) for layer_id in self.setup_order)
        object.__setattr__(self, "is_direct", is_direct)
        object.__setattr__(self, "in_setup_order", in_order)

    @property
    def direct_segment(self) -> Segment | None:
        """The compiled hooks of all layers around the agent, if they are one segment."""
        segment = self.segments.get(0)
        return segment if segment is not None and segment.stop == self.stop else None

    @property
    def stop(self) -> int:
        """The index behind the innermost layer that stands around the agent."""
        return len(self.layers) if self.history_cut is None else self.history_cut

    def layer(self, layer_id: str) -> ActiveLayer:
        """Return a layer by its id."""
        return next(layer for layer in self.layers if layer.id == layer_id)

    def check_model(self, model: str, part: str) -> None:
        """Raise :class:`UsageError` when there is no such model. ``part``: who asks for it."""
        if model not in self.make_models:
            known = ", ".join(sorted(self.make_models)) or "none"
            raise UsageError(
                f"{part} asked for the model {model!r}, which is not configured",
                hint=f"add [models.{model}] to the file; the models are {known}",
            )

    def model(self, model: str) -> Model:
        """Return a model: the host's, or a new one if it is of run scope."""
        self.check_model(model, f"agent {self.agent_id!r}")
        return self.make_models[model]()

    def check_declared(self, part: str, capability: Capability[Any]) -> None:
        """Refuse (strict) or report the reading of a capability that was not declared."""
        if capability in self.may_read.get(part, frozenset()):
            return
        message = f"{part!r} reads the capability {capability.name!r} without declaring it"
        if self.strict:
            raise CapabilityError(
                message, hint="name it in requires or optional_requires, so that order is right"
            )
        bound(layer=part).warning("{}", message)

    def outside(self, layer_id: str, frames: Mapping[str, Frame]) -> Frame | None:
        """Return the next layer further out that looks at events; None: there is none."""
        further_out: list[ActiveLayer] = []
        for layer in self.layers:
            if layer.id == layer_id:
                break
            further_out.append(layer)
        for layer in reversed(further_out):
            if layer.has_stage:
                return frames[layer.id]
        return None


def history_cut(layers: Sequence[ActiveLayer], *, offered: bool) -> int | None:
    """Return where the layers begin that an agent with HISTORY runs itself; None: nowhere."""
    rewriters = [index for index, layer in enumerate(layers) if layer.declaration.rewrites_history]
    if not offered or not rewriters:
        return None
    cut = rewriters[0]
    wraps = any("around_run" in layer.facts.hooks for layer in layers[cut:])
    return None if wraps else cut
