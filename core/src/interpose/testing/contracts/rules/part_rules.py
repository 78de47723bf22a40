"""The checks of settings, for providers, models and agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from interpose.errors import StartupError
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.parts import PartSubject
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules import environment_rules, secret_rules, settings_rules
from interpose.testing.contracts.rules.secret_rules import (
    exposed,
    overheard,
    renewed,
    without_secrets,
)


async def hidden(subject: PartSubject) -> Finding | None:
    """Give the settings secrets that nobody else has, start and stop, and look for them."""
    made = renewed(subject)
    if made is None:
        return None
    settings, secrets = made
    own = replace(subject, settings=settings)
    told = [("the repr of its settings", repr(settings))]
    package = getattr(subject.part.target, "__module__", "").partition(".")[0]
    with overheard(package or "interpose") as lines:
        try:
            async with own.host() as host:
                told.append(("the plan", repr(host.plan().to_json())))
                result = await host.run("hi")
                told.append(("the exception of a run", repr(result.error)))
                live = host._live  # noqa: SLF001 - the kit looks where a debugger would
                if live is not None:
                    values = [*live._lifespans.values.values(), *live._models.values()]  # noqa: SLF001
                    told.append(("the repr of what it provides", repr(values)))
        except StartupError as error:
            told.append(("the problem at startup", str(error)))
    return exposed([*told, *(("a logged line", line) for line in lines)], secrets)


RULES: Final[tuple[Rule[PartSubject], ...]] = (
    *settings_rules.RULES,
    *environment_rules.RULES,
    secret_rules.TYPED,
    Rule(
        "secrets-hidden",
        "Logs, plans and problems are read by people and machines that must not have the secret.",
        hidden,
        without_secrets,
    ),
)
