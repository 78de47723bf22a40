"""Checks of those who provide a capability: they start, give a value, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Final

from typing_extensions import get_protocol_members, is_protocol

from interpose.authoring import Layer, Middleware, kebab
from interpose.capability import Capability
from interpose.context import LifespanContext, RunContext
from interpose.errors import StartupError, UsageError
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.parts import ProviderSubject
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.protocols import protocol_faults
from interpose.testing.contracts.remaining import Leftovers
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.capability_rules import reader
from interpose.testing.hosts import KitHost

Behaviour = Callable[[Any], Awaitable[None] | None]
"""What every provider of a capability does; it takes a value, and raises where it does not."""

_MOST_TURNS: Final = 40


async def provided(subject: ProviderSubject) -> Finding | None:
    """Start, play one run, and read the value as a layer does that requires it."""
    capability = subject.capability
    given: dict[Capability[Any], Any] = {}
    async with subject.host(layers=[reader((capability,), given)]) as host:
        result = await host.run("hi")
    if capability not in given:
        return Finding(
            f"a layer that requires {capability.name} gets no value: {result.error}",
            "the value is given before the lifespan yields, or in setup",
        )
    faults = protocol_faults(capability, given[capability])
    if not faults:
        return None
    kind = getattr(capability.value_type, "__name__", "valid value")
    return Finding(
        f"what it provides as {capability.name} is no {kind}: {faults[0]}",
        "a value that every reader of the capability can use",
    )


async def stops(subject: ProviderSubject) -> Finding | None:
    """Start and stop one host twice; nothing may be left, and nothing be reported."""
    before = Leftovers()
    host = subject.host()
    for time in ("", ", started a second time"):
        with listening() as logged:
            async with host:
                await host.run("hi")
        found = await _left(f"after the host has stopped{time}", before, logged)
        if found:
            return found
    return None


async def cancelled(subject: ProviderSubject) -> Finding | None:
    """Cancel the task that has the host: while it starts, at each turn, and when it has."""
    before = Leftovers()
    host = subject.host()
    for turns in range(_MOST_TURNS):
        started = asyncio.Event()
        with listening() as logged:
            task = asyncio.ensure_future(_hold(host, started))
            for _ in range(turns):
                await asyncio.sleep(0)
            was_started = started.is_set()
            task.cancel()
            await asyncio.wait([task])
        when = "it had started" if was_started else f"{turns} turns of the loop"
        found = await _left(f"when the application is cancelled after {when}", before, logged)
        if found or was_started:
            return found
    return None


async def _hold(host: KitHost, started: asyncio.Event) -> None:
    async with host:
        started.set()
        await asyncio.Event().wait()


async def beside(subject: ProviderSubject) -> Finding | None:
    """Let another part fail at startup, after it has started."""
    before = Leftovers()
    with listening() as logged, contextlib.suppress(StartupError):
        async with subject.host(layers=[_failing(subject.capability)]):
            pass
    return await _left("when another part fails to start after it", before, logged)


def _failing(capability: Capability[Any]) -> Layer:
    of_host = (capability,) if capability.scope == "host" else ()

    class Failing(Middleware):
        """Starts after what it requires, and fails."""

        requires = of_host

        @classmethod
        def lifespan(cls, _settings: Any, _ctx: LifespanContext, /) -> Any:
            raise RuntimeError("another part cannot start")

    return Layer(Failing, id="contract-failing")


async def dependency(subject: ProviderSubject) -> Finding | None:
    """Let everything that it requires fail when it is used."""
    before = Leftovers()
    broken = {c: _broken(c, value) for c, value in subject.provide.items()}
    with listening() as logged, contextlib.suppress(StartupError):
        async with replace(subject, provide=broken).host():
            pass
    return await _left("when what it requires fails", before, logged)


def _broken(capability: Capability[Any], value: Any) -> Any:
    kind = capability.value_type
    if not (isinstance(kind, type) and is_protocol(kind)):
        return value

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{capability.name} is out of order")

    members = {name: fail for name in get_protocol_members(kind) if callable(getattr(value, name))}
    others = {
        name: getattr(value, name) for name in get_protocol_members(kind) if name not in members
    }
    made: Any = type("Broken", (), others)()
    vars(made).update(members)
    return made


async def two_hosts(subject: ProviderSubject) -> Finding | None:
    """Have two hosts at once, and stop the first one first."""
    first, second = subject.host(), subject.host()
    with listening() as logged:
        await first.__aenter__()
        try:
            await second.__aenter__()
        except StartupError as error:
            said = "; ".join(problem.message for problem in error.problems)
            return Finding(f"beside another host it does not start: {said}", "it starts")
        finally:
            await first.__aexit__(None, None, None)
        try:
            result = await second.run("hi")
        finally:
            await second.__aexit__(None, None, None)
    errors = [line for line in logged if line.startswith("ERROR")]
    if result.error is None and not errors:
        return None
    told = repr(result.error) if result.error is not None else errors[0].splitlines()[0]
    return Finding(
        f"with two hosts in one process, and the first one stopped: {told}",
        "hosts have nothing to do with each other",
    )


async def _left(when: str, before: Leftovers, logged: list[str]) -> Finding | None:
    left = await before.told()
    if left:
        return Finding(f"{when}, {left}", "the lifespan ends all that it began, in a finally")
    errors = [line for line in logged if line.startswith("ERROR")]
    if errors:
        lines = [line for line in errors[0].splitlines() if line.strip()]
        said = lines[0] if len(lines) == 1 else f"{lines[0]}: {lines[-1]}"
        return Finding(f"{when}, the host reports: {said}", "it stops without a complaint")
    return None


def behaviour_rules(behaviour: tuple[Behaviour, ...]) -> Iterator[Rule[ProviderSubject]]:
    """Yield a check for each function, under its name. Raises :class:`UsageError`."""
    taken = {rule.name for rule in RULES}
    for function in behaviour:
        name = kebab(getattr(function, "__name__", ""))
        if not name or name in taken:
            raise UsageError(
                f"behaviour holds {function!r}" + (f"; {name!r} is taken" if name in taken else ""),
                hint="give functions (value) -> None, each with a name of its own",
            )
        taken.add(name)
        why = (function.__doc__ or "").strip().partition("\n")[0]
        yield Rule(
            name,
            why or "Those who require the capability rely on it, whoever provides it.",
            _looking(function),
        )


def _looking(function: Behaviour) -> Callable[[ProviderSubject], Awaitable[Finding | None]]:
    async def look(subject: ProviderSubject) -> Finding | None:
        failures: list[Exception] = []
        async with subject.host(layers=[_behaving(subject.capability, function, failures)]) as host:
            result = await host.run("hi")
        if failures:
            return Finding(_told(failures[0]), "what the capability promises")
        if result.error is not None:
            return Finding(f"no value could be read: {result.error}", "a value for each run")
        return None

    return look


def _told(error: Exception) -> str:
    """Return what an exception says; of a bare ``assert``, what it asserts."""
    said = str(error).strip()
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    return f"{type(error).__name__}: {said or line}"


def _behaving(capability: Capability[Any], function: Behaviour, failures: list[Exception]) -> Layer:
    class Behaving(Middleware):
        """Requires the capability, and tries its value."""

        requires = (capability,)

        async def on_start(self, ctx: RunContext, /) -> None:
            try:
                answer = function(ctx[capability])
                if isawaitable(answer):
                    await answer
            except Exception as error:  # noqa: BLE001 - it is told as a finding
                failures.append(error)

    return Layer(Behaving, id="contract-behaviour")


def _requires_nothing(subject: ProviderSubject) -> str:
    return "" if subject.provide else "it requires nothing"


RULES: Final[tuple[Rule[ProviderSubject], ...]] = (
    Rule(
        "provides",
        "Others start because of what is declared, and fail in the middle of a run without.",
        provided,
    ),
    Rule(
        "stops-cleanly",
        "A host is started and stopped many times in one process: by tests, by reloading servers.",
        stops,
    ),
    Rule(
        "stops-when-cancelled",
        "Servers are stopped at any moment; what is left then keeps the process from ending.",
        cancelled,
    ),
    Rule(
        "stops-beside-a-failure",
        "When a host does not start, what had started is stopped again, and the host may try anew.",
        beside,
    ),
    Rule(
        "fails-cleanly",
        "What a provider needs may be down when it starts; it then fails, and leaves nothing.",
        dependency,
        _requires_nothing,
    ),
    Rule(
        "two-hosts",
        "A process may have several hosts; none is global.",
        two_hosts,
    ),
)
