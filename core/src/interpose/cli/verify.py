"""``interpose verify``: what in a recording, or at an endpoint, breaks the rules of AG-UI."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ag_ui.core import RunAgentInput
from pydantic import SecretStr

from interpose.agents.address import header_faults, url_faults
from interpose.agents.remote import body_of, raw_event
from interpose.agui import Auditor
from interpose.agui.capture import NO_EVENTS, scan_capture
from interpose.agui.decoding import NotJson
from interpose.cli.asking import read_input
from interpose.cli.exits import OK, PROBLEMS
from interpose.cli.findings import Findings
from interpose.cli.terminal import complain
from interpose.errors import Problem, ReplayError, RunError, UsageError, render
from interpose.runtime.inputs import to_input

if TYPE_CHECKING:
    import io

_PIECE: Final = 64 * 1024
_FOR_ENDPOINTS: Final = ("text", "input", "header", "header_env", "timeout")
_SECONDS: Final = 60.0
_ADDRESS: Final = re.compile(r"\w+://|(\[[\w:]+\]|[\w.-]+):\d+(/|$)")


def main(arguments: argparse.Namespace) -> int:
    """Print every violation as it is found, and a verdict."""
    target: str = arguments.target
    if target.lower().startswith(("http://", "https://")):
        return _endpoint(target, arguments)
    for name in _FOR_ENDPOINTS:
        if getattr(arguments, name):
            option = "TEXT" if name == "text" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} is for an endpoint, and {target} is a file.",
                hint="Name an endpoint by its whole URL, http:// or https:// included.",
            )
    name = "standard input" if target == "-" else target
    findings = Findings(name, as_json=arguments.json)
    _look_at_recording(_pieces(target), name, findings)
    findings.end()
    return OK if findings.ok else PROBLEMS


# A recording ----------------------------------------------------------------------------------
def _look_at_recording(pieces: Iterator[bytes], name: str, findings: Findings) -> None:
    auditor = Auditor()
    for index, found in enumerate(scan_capture(pieces, name)):
        if isinstance(found, ReplayError) and found.message == NO_EVENTS:
            findings.violation("malformed-value", found.message, None, found.where[0])
            return
        if isinstance(found, ReplayError):
            findings.violation("malformed-value", found.message, index, found.where[0])
        else:
            _look_at(auditor, found.raw, index, f"{name}:{found.line}", findings)
        findings.events = index + 1
    _look_at_end(auditor, findings, name)


def _pieces(target: str) -> Iterator[bytes]:
    """Yield a file's bytes as they come: standard input may still be written."""
    try:
        if target == "-":
            stdin = cast("io.BufferedReader", sys.stdin.buffer)
            while piece := stdin.read1(_PIECE):
                yield piece
            return
        with Path(target).open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise ReplayError(
            f"The recording cannot be read: {error.strerror or error}.",
            where=target,
            hint="An endpoint is named by its whole URL, http:// or https:// included."
            if _ADDRESS.match(target)
            else "Name a file with AG-UI events, or - for standard input.",
        ) from None


# An endpoint ----------------------------------------------------------------------------------
def _endpoint(url: str, arguments: argparse.Namespace) -> int:
    if find_spec("httpx2") is None:
        raise UsageError(
            "To verify an endpoint, httpx2 is needed, which is not installed.",
            hint='Install it: pip install "interpose[remote]".',
        )
    faults = url_faults(url)
    if faults:
        raise UsageError(f"The URL cannot be asked: {'; '.join(faults)}.")
    headers = _headers(arguments.header, arguments.header_env, os.environ)
    asked = arguments.text or "hello"
    run_input, warnings = to_input(
        asked if arguments.input is None else read_input(arguments.input), None
    )
    for warning in warnings:
        complain(render([Problem("tolerated", warning, severity="warning")]))
    findings = Findings(url.partition("?")[0], as_json=arguments.json)
    seconds: float = arguments.timeout or _SECONDS
    asyncio.run(_look_at_endpoint(url, headers, run_input, seconds, findings))
    findings.end()
    return OK if findings.ok else PROBLEMS


async def _look_at_endpoint(
    url: str,
    headers: Mapping[str, SecretStr],
    run_input: RunAgentInput,
    seconds: float,
    findings: Findings,
) -> None:
    """Ask the endpoint, and look at each event as it comes, for so many seconds at most."""
    from interpose.agents.endpoint import Endpoint, Options

    endpoint = Endpoint(Options(url, headers, idle_timeout=seconds))
    auditor = Auditor(thread_id=run_input.thread_id, run_id=run_input.run_id)
    try:
        async with asyncio.timeout(seconds):
            index = -1
            async for event in endpoint.ask(body_of(run_input), _note):
                index += 1
                where = f"line {event.line} of the stream"
                try:
                    raw = raw_event(event.data)
                except NotJson as error:
                    said = f"This is no JSON object: {error.said}."
                    findings.violation("malformed-value", said, index, where)
                else:
                    _look_at(auditor, raw, index, where, findings)
                findings.events = index + 1
    except TimeoutError:
        findings.failure(_over_time(seconds, ended=not auditor.finish()))
    except RunError as error:
        findings.failure(error.problem)
    else:
        _look_at_end(auditor, findings, "")
    finally:
        await endpoint.aclose()


def _over_time(seconds: float, *, ended: bool) -> Problem:
    said = "although its run had ended" if ended else "and neither did its run"
    return Problem(
        "deadline-exceeded",
        f"The stream did not end within {seconds:g} s, {said}.",
        hint="An endpoint ends its answer after the run. Give it longer with --timeout.",
    )


def _headers(
    plain: list[str], from_variables: list[str], environ: Mapping[str, str]
) -> Mapping[str, SecretStr]:
    found: dict[str, str] = {}
    for option, given in (("--header", plain), ("--header-env", from_variables)):
        for each in given:
            name, equals, value = each.partition("=")
            if not equals:
                # What stands there may be a secret, so it is not repeated.
                raise UsageError(f"{option} has no =.", hint=f"Write {option} NAME=...")
            if option == "--header-env":
                if value not in environ:
                    raise UsageError(f"{option} {name}: the variable {value} is not set.")
                value = environ[value]
            found[name] = value
    faults = header_faults(found)
    if faults:
        raise UsageError(f"These headers cannot be sent: {'; '.join(faults)}.")
    return {name: SecretStr(value) for name, value in found.items()}


def _note(text: str) -> None:
    complain(render([Problem("remote-agent", text, severity="note")]))


# Both -----------------------------------------------------------------------------------------
def _look_at(
    auditor: Auditor, raw: Mapping[str, object], index: int, where: str, findings: Findings
) -> None:
    for violation in auditor.push(raw):
        findings.violation(violation.rule, violation.message, index, where)
    for warning in auditor.warnings:
        findings.warning(warning, index, where)
    auditor.warnings.clear()


def _look_at_end(auditor: Auditor, findings: Findings, where: str) -> None:
    for truncated in auditor.finish():
        findings.violation(truncated.code, truncated.message, None, where)
