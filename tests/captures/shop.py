"""What the recorded conversations are about: one shop, told to the fake models of each framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ag_ui.core import RunAgentInput, Tool, UserMessage

EMAIL: Final = "ada.lovelace@example.com"
CARD: Final = "4111 1111 1111 1111"
DIGITS: Final = CARD.replace(" ", "")


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """A piece of what it thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model, its arguments in pieces."""

    ident: str
    tool: str
    arguments: Sequence[str]


Turn: TypeAlias = Sequence[Say | Think | Call | Exception]
"""What a model streams in one call."""


@dataclass(frozen=True, slots=True)
class Script:
    """What a model does: ``first`` when it is asked, ``then`` when its tools have answered."""

    first: Turn
    then: Turn = ()

    def turn(self, *, answered: bool) -> Turn:
        """Return what comes now."""
        return self.then if answered else self.first


ORDERS: Final[Mapping[str, dict[str, Any]]] = {
    "A-1815": {"status": "shipped", "written to": EMAIL, "card": CARD},
}
PARCEL: Final[dict[str, Any]] = {
    "stops": ["Rotterdam", f"at the door, for {EMAIL}"],
    "charged": int(DIGITS),
}
SHOW_MAP: Final = Tool(
    name="show_map",
    description="Show a map to the user.",
    parameters={
        "type": "object",
        "properties": {"place": {"type": "string"}, "label": {"type": "string"}},
        "required": ["place", "label"],
    },
)

_SHIPPED: Final = (
    Say("Your order A-1815 has shipped. We wrote to ada.love"),
    Say("lace@exam"),
    Say("ple.com, and charged card 4111 11"),
    Say("11 1111 "),
    Say("1111 as agreed."),
)

TEXT: Final = Script(_SHIPPED)
REASONING: Final = Script(
    (
        Think("The user is ada.love"),
        Think("lace@example.com; the card is 4111 1111 11"),
        Think("11 1111, I had better not say so."),
        Say("Your order is on its way."),
    )
)
TOOL: Final = Script(
    (
        Say("One moment, please. "),
        Call(
            "call-order",
            "lookup_order",
            ('{"number": "A-1815", "em', f'ail": "{EMAIL[:9]}', f'{EMAIL[9:]}"}}'),
        ),
    ),
    _SHIPPED,
)
PARALLEL: Final = Script(
    (
        Call("call-order", "lookup_order", ('{"number": "A-1815"', f', "email": "{EMAIL}"}}')),
        Call(
            "call-parcel",
            "track_parcel",
            ('{"parcel": "P-77", "email": "ada.lovelace@ex', 'ample.com"}'),
        ),
    ),
    (Say("It is in Rotterdam; the parcel is for ada.lovelace@"), Say("example.com.")),
)
FRONT_END: Final = Script(
    (
        Say("Have a look:"),
        Call(
            "call-map",
            "show_map",
            ('{"place": "Rotterdam", "label": "for ada.love', 'lace@example.com"}'),
        ),
    )
)
STATE: Final = Script(
    (Call("call-parcel", "track_parcel", ('{"parcel": "P-77", ', f'"email": "{EMAIL}"}}')),),
    (Say("It is in Rotterdam."),),
)
ERROR: Final = Script(
    (
        Say("Your order A-1815 went to ada.love"),
        Say("lace@example.com"),
        RuntimeError(f"the provider refused to charge {CARD} of {EMAIL}"),
    )
)
REFUND: Final = Script(
    (Say("I need your consent."), Call("call-refund", "refund", (f'{{"card": "{CARD}"', "}"))),
    (Say("Your money is back on card 4111 1111 "), Say("1111 1111.")),
)
QUESTION: Final = {"message": f"Refund card {CARD}?", "to": EMAIL, "amount": 25}


def asked(*tools: Tool, state: Any = None) -> RunAgentInput:
    """Return the input of a recorded run."""
    text = f"Where is my order A-1815? I am {EMAIL}."
    return RunAgentInput(
        thread_id="thread-1",
        run_id="run-1",
        state={} if state is None else state,
        messages=[UserMessage(id="user-1", content=text)],
        tools=list(tools),
        context=[],
        forwarded_props={},
    )
