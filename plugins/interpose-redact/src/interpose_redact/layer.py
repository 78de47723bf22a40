"""The middleware: what becomes of a match."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final, cast

from interpose import PatternTransform, Reject, RunContext, Scan, Stage
from interpose_redact.beginnings import Chosen, beginnings
from interpose_redact.entities import CHECKS, SAME, SHAPES, Entity
from interpose_redact.settings import RedactSettings

_HEX_DIGITS: Final = 16
_FEWEST_CARD_DIGITS: Final = 13


class Redact(PatternTransform[RedactSettings]):
    """Take personal data and secrets out of a run's text.

    Text means what ``Covers.ALL`` lists, on the way in and on the way out, however the agent cut it
    into chunks. It rewrites history: what it leaves is what is stored and what the model sees.
    """

    stage = Stage.CONTENT
    rewrites_history = True

    @classmethod
    def rules(cls, settings: RedactSettings, /) -> Sequence[tuple[str, str]]:
        """Return the patterns of the settings; many literals are made ready beside them."""
        settings.many_literals  # noqa: B018 - built now, and not when the first text comes
        return tuple(settings.rules())

    def setup(self, ctx: RunContext, /) -> None:  # noqa: ARG002 - the hook's signature
        """Take the limits from the settings."""
        settings = self.settings
        self.covers = settings.where
        self.keep_raw = settings.keep_raw
        self.max_hold = settings.max_hold
        self.timeout = settings.timeout
        if "card" in settings.entities:
            self.number_digits = _FEWEST_CARD_DIGITS
        self._beginnings = beginnings(settings.entities)
        self._many = settings.many_literals
        self._chosen: dict[frozenset[Entity], Chosen] = {}

    def scan(self, text: str, start: int, final: bool, /) -> Scan:  # noqa: FBT001 - the contract
        """Find the same as the base does, without searching for entities that are not there."""
        every = self.shared
        end = every.end(text, start, final=final)
        present, before = self._beginnings.find(text, start, end, final=final)
        if self._many is not None and not final:
            before = min(before, self._many.begun(text, start, end))
        chosen = self._chosen.get(present)
        if chosen is None:
            chosen = self._chosen[present] = Chosen(every, present, self._many)
        if not chosen.patterns or before == start:
            return Scan((), before)
        chosen.before = before
        self.shared = cast("Any", chosen)
        try:
            return super().scan(text, start, final)
        finally:
            self.shared = every

    def replace(self, name: str, text: str, /) -> str | None:
        """Return what stands for ``text``; None if it only looks like one.

        Raises :class:`Reject` (``blocked-content``) if the action is to block.
        """
        check = CHECKS.get(name)
        if check is not None and not check(text):
            return None
        match self.settings.action_of(name):
            case "replace":
                return f"[{name}]"
            case "mask":
                kept = SHAPES.get(name, "") + " \t\r\n"
                return "".join(sign if sign in kept else "•" for sign in text)
            case "hash":
                return f"[{name}:{self._digest(name, text)}]"
            case "block":
                raise Reject(
                    "blocked-content",
                    f"The run was stopped because its text contains something that must not be "
                    f"passed on: {name}.",
                    status=422,
                )

    def _digest(self, name: str, text: str) -> str:
        key = self.settings.key
        secret = "" if key is None else key.get_secret_value()  # settings refuse None here
        same = SAME.get(name, str)(text)
        digest = hmac.new(
            secret.encode(), f"{name}\0{same}".encode("utf-8", "surrogatepass"), hashlib.sha256
        )
        return digest.hexdigest()[:_HEX_DIGITS]
