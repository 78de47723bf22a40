"""The middleware: what becomes of a match."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from interpose import PatternTransform, Reject, RunContext, Stage
from interpose_redact.entities import CHECKS, SAME, SHAPES
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
        """Return the patterns of the settings."""
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
