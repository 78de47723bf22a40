"""Checks of secrets: they are typed as such, and never shown."""

from __future__ import annotations

import base64
import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, get_args

from loguru import logger
from pydantic import BaseModel, ValidationError

from interpose.agui import to_json
from interpose.authoring import Middleware
from interpose.errors import InterposeError
from interpose.startup.secrecy import is_secret
from interpose.startup.tree import KeyPath, shown
from interpose.testing.contracts.exercising import exercise
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.playing import case_agent, host_of
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.settings_rules import without_settings
from interpose.testing.contracts.setting_forms import HasSettings, fields, with_secrets
from interpose.testing.contracts.subject import Subject, declared

_SECRET: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|jwt|bearer|connection_string|passphrase|secret|secrets|token|apikey|api_keys?|authorization"
    r"|credentials?|(?:private|signing|access|secret|encryption|hmac)_keys?|dsn)$"
)
_NO_SECRET: Final = re.compile(
    r"(?:^|_)(?:stop|start|end|begin|pad|bos|eos|sep|mask|special|placeholder|cancel)_token$"
)


async def typed(subject: HasSettings) -> Finding | None:
    """Look for settings that hold a secret by their name, and are plain text."""
    plain = [shown(path) for path in _plain(type(subject.settings), (), frozenset())]
    if not plain:
        return None
    return Finding(
        f"{', '.join(plain)} {'holds' if len(plain) == 1 else 'hold'} a secret by name, as plain "
        "text",
        "SecretStr, read with .get_secret_value() where it is used",
    )


def _plain(
    model: type[BaseModel], path: KeyPath, seen: frozenset[type[BaseModel]]
) -> Iterator[KeyPath]:
    from interpose.startup.diagnosis import keys_of
    from interpose.startup.secrecy import models_in

    for key, info in keys_of(model):
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).replace("-", "_").lower()
        named = _SECRET.search(name) and not _NO_SECRET.search(name)
        # With a default that everybody can read it is no secret.
        empty = info.is_required() or not info.default or info.default_factory is not None
        if named and empty and _is_text(info.annotation) and not is_secret(info.annotation):
            yield (*path, key)
        for nested in models_in(info.annotation):
            if nested not in seen:
                yield from _plain(nested, (*path, key), seen | {nested})


def _is_text(annotation: Any) -> bool:
    return annotation in (str, bytes) or any(map(_is_text, get_args(annotation)))


async def hidden(subject: Subject) -> Finding | None:
    """Give the settings secrets that nobody else has, play, and look for them everywhere."""
    made = renewed(subject)
    if made is None:
        return None
    settings, secrets = made
    own = replace(
        subject, settings=settings, declaration=declared(subject.cls, settings), words=subject.words
    )
    return exposed([*_shown(own), *await _told(own)], secrets)


def exposed(told: Iterable[tuple[str, str]], secrets: Sequence[str]) -> Finding | None:
    """Look for secrets in what was told; ``told``: where, and what."""
    for where, said in told:
        for secret in secrets:
            if secret in said or base64.b64encode(secret.encode()).decode() in said:
                return Finding(
                    f"a secret of the settings stands in {where}: {_around(said, secret)}",
                    "secrets are nowhere but in the call that needs them",
                )
    return None


def renewed(subject: HasSettings) -> tuple[BaseModel, tuple[str, ...]] | None:
    """Return the settings with secrets of the kit's own; None if no such settings are valid."""
    for fill in (True, False):
        made: list[str] = []

        def make(made: list[str] = made) -> str:
            made.append(f"hushhush{len(made):02d}Zq7Xw9Kd3Vb5Nm1Rt6")
            return made[-1]

        table = with_secrets(subject.settings, make, fill=fill)
        if not made:
            return None
        try:
            return type(subject.settings).model_validate(table), tuple(made)
        except ValidationError:
            continue
    return None


async def _told(subject: Subject) -> list[tuple[str, str]]:
    """Return what a run, its operator and its logs come to, and what each of it is."""
    told: list[tuple[str, str]] = []
    with overheard(subject.cls.__module__.partition(".")[0]) as lines:
        async with host_of(subject, case_agent(subject, ())) as host:
            told.append(("the plan", repr(host.plan().to_json())))
            live = host._live  # noqa: SLF001 - the kit looks where a debugger would
            if live is not None:
                own, values = live._shared.values(), live._lifespans.values.items()  # noqa: SLF001
                given = [v for c, v in values if c in subject.declaration.provides]
                told.append(("the repr of what its lifespan yields", repr([*own])))
                told.append(("the repr of what it provides", repr(given)))
        for name, heard in await exercise(subject):
            told.append((f"the events of {name}", "\n".join(map(to_json, heard.events))))
            told.append((f"the result of {name}", repr(heard.result)))
            if heard.error is not None:
                told.append((f"the exception of {name}", _trace(heard.error)))
    return [*told, *(("a logged line", line) for line in lines)]


def _shown(subject: Subject) -> Iterator[tuple[str, str]]:
    dumped = subject.settings.model_dump_json(fallback=repr, warnings=False)
    yield "the repr of its settings", repr(subject.settings)
    yield "the JSON of its settings", dumped
    yield "the declaration", repr(subject.declaration)
    instance: Middleware[Any, Any] = subject.cls()
    instance.settings = subject.settings
    yield "the repr of its instances", repr(instance)


def _trace(error: BaseException) -> str:
    hint = error.hint if isinstance(error, InterposeError) else ""
    return "".join([*traceback.format_exception(error), hint])


def _around(said: str, secret: str) -> str:
    at = max(said.find(secret), 0)
    line = said[said.rfind("\n", 0, at) + 1 :].partition("\n")[0]
    start = max(0, line.find(secret) - 60)
    return line[start : start + 160].replace(secret, "<the secret>")


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


@contextmanager
def overheard(package: str) -> Iterator[list[str]]:
    """Collect what is logged, by loguru and by ``logging``, at every level."""
    lines: list[str] = []
    decided: Any = getattr(getattr(logger, "_core", None), "activation_list", ())
    silent = [name for name in ("interpose", package) if (f"{name}.", False) in list(decided)]
    for name in silent:
        logger.enable(name)
    sink = logger.add(
        lambda line: lines.append(str(line)),
        level=0,
        format="{message} {extra}",
        backtrace=False,
        diagnose=False,
    )
    handler, own = _Lines(lines), logging.getLogger(package)
    level = own.level
    own.setLevel(logging.DEBUG)
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)
        own.setLevel(level)
        logger.remove(sink)
        for name in silent:
            logger.disable(name)


def without_secrets(subject: HasSettings) -> str:
    """Say that there is no secret to look for."""
    if without_settings(subject):
        return without_settings(subject)
    has = any(is_secret(info.annotation) for _, info, _ in fields(subject.settings))
    nested = any(isinstance(value, BaseModel) for _, _, value in fields(subject.settings))
    return "" if has or nested else "its settings hold no secret"


TYPED: Final[Rule[HasSettings]] = Rule(
    "settings-secrets",
    "Plain text is shown by `interpose config`, in errors and in every repr; a SecretStr is not.",
    typed,
    without_settings,
)
RULES: Final[tuple[Rule, ...]] = (
    TYPED,
    Rule(
        "secrets-hidden",
        "Logs, plans and streams are read by people and machines that must not have the secret.",
        hidden,
        without_secrets,
    ),
)
