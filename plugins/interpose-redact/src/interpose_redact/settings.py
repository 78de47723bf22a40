"""The settings of ``[middleware.redact]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from pydantic import Field, SecretStr, model_validator

from interpose import Covers, PatternTransform, Settings, UsageError
from interpose_redact.entities import ENTITIES, PATTERNS, Entity
from interpose_redact.literals import LITERAL, MANY, Literals

Action = Literal["mask", "replace", "hash", "block"]
Cover = Literal[
    "text",
    "reasoning",
    "tool-args",
    "tool-results",
    "messages",
    "state",
    "activity",
    "custom",
    "input",
    "result",
    "error",
]

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_SHORTEST_KEY: Final = 16


class RedactSettings(Settings):
    """What is looked for, where, and what happens to it. README.md explains each key."""

    entities: frozenset[Entity] = frozenset(ENTITIES)
    """The built-in entities to look for."""
    patterns: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Regular expressions to look for, by a name of your own."""
    literals: tuple[SecretStr, ...] = ()
    """Texts to look for as they are; their name is "literal"."""
    action: Action = "replace"
    """What happens to what is found."""
    actions: Mapping[str, Action] = Field(default_factory=dict)
    """Another action for an entity, a pattern or "literal"."""
    key: SecretStr | None = None
    """The key of the action "hash", at least 16 characters."""
    covers: frozenset[Cover] | None = None
    """Where to look; without it, everywhere."""
    keep_raw: bool = False
    """Let RAW events pass unseen, which are dropped otherwise."""
    max_hold: Annotated[int, Field(ge=64, le=1_000_000)] = 4096
    """Characters that are held back at most while they may still become a match."""
    timeout: Annotated[float, Field(gt=0, le=60)] = 1.0
    """Seconds that one search may take."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        for name, pattern in self.patterns.items():
            yield from _pattern_problems(name, pattern.get_secret_value())
        for index, literal in enumerate(self.literals):
            yield from _literal_problems(index, literal.get_secret_value(), self.max_hold)
        for name in self.actions:
            if name not in self.names:
                yield f"actions.{name}: nothing is looked for under this name; there are " + (
                    ", ".join(sorted(self.names)) or "none"
                )
        if not self.names:
            yield "nothing is looked for: give entities, patterns or literals"
        if "hash" in {self.action_of(name) for name in self.names}:
            yield from self._key_problems()

    def _key_problems(self) -> Iterator[str]:
        if self.key is None:
            yield (
                'the action "hash" needs `key`: without a secret key, a hash of a card or phone '
                "number is reversed by trying all numbers; give it as "
                '{ "$env" = "REDACT_KEY" }'
            )
        elif len(self.key.get_secret_value()) < _SHORTEST_KEY:
            yield f"`key` must have at least {_SHORTEST_KEY} characters"

    @property
    def names(self) -> frozenset[str]:
        """The names of all that is looked for."""
        literal = {LITERAL} if self.literals else set()
        return frozenset({*self.entities, *self.patterns, *literal})

    def action_of(self, name: str) -> Action:
        """Return what happens to what is found under this name."""
        return self.actions.get(name, self.action)

    @property
    def where(self) -> Covers:
        """Where it is looked for."""
        if self.covers is None:
            return Covers.ALL
        where = Covers(0)
        for cover in self.covers:
            where |= Covers[cover.upper().replace("-", "_")]
        return where

    @cached_property
    def many_literals(self) -> Literals | None:
        """The literals, if they are too many for a pattern."""
        if len(self.literals) < MANY:
            return None
        return Literals(each.get_secret_value() for each in self.literals)

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (name, pattern) for all that is looked for but many literals, secrets included."""
        # The longest first, so that a literal which begins with another one is found whole.
        literals = sorted((each.get_secret_value() for each in self.literals), key=len)
        if 0 < len(literals) < MANY:
            yield LITERAL, "|".join(re.escape(literal) for literal in reversed(literals))
        for name, pattern in self.patterns.items():
            yield name, pattern.get_secret_value()
        for entity in ENTITIES:
            if entity in self.entities:
                for pattern_text in PATTERNS[entity]:
                    yield entity, pattern_text


def _pattern_problems(name: str, pattern: str) -> Iterator[str]:
    if not _NAME.fullmatch(name) or name == LITERAL or name in ENTITIES:
        yield (
            f"the pattern's name {name!r} must be lower-case words joined by hyphens, and "
            f"neither {LITERAL!r} nor one of {', '.join(ENTITIES)}"
        )
    try:
        PatternTransform.check_pattern(name, pattern)
    except UsageError as error:
        yield error.message + (f"; {error.hint}" if error.hint else "")


def _literal_problems(index: int, literal: str, most: int) -> Iterator[str]:
    if not literal.strip():
        yield f"literals[{index}] is empty"
    if len(literal) > most:
        yield (
            f"literals[{index}] has {len(literal)} characters, more than max_hold = {most}; "
            f"raise max_hold"
        )
