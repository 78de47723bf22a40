"""The peers: each in an environment of its own, pinned, measured by a worker process.

A peer is what a user would pick instead of Interpose. Its packages are never installed beside the
project's: an environment is made below ``.environments/`` the first time it is needed, and kept for
as long as the pins and the interpreter are the same. What cannot be installed or started here is
:class:`Unavailable`, with a reason for the line in ``left_out``::

    with peers.worker("langchain") as worker:
        variants = {
            "langchain-0": lambda: worker.time("model-run", layers=0, kind="model", times=20),
            "langchain-10": lambda: worker.time("model-run", layers=10, kind="model", times=20),
        }

Several at once, without those that are not available: :func:`workers`.

A worker says ``{"ready": true, "versions": {...}}`` in a line, and then answers each line
``{"do": NAME, ...arguments}`` with ``{"seconds": 0.0123}`` or ``{"error": "..."}``, until its input
ends. The seconds are those of the whole action, so what a layer costs is the difference between N
layers and none, divided by N and by the number of calls or events. Every action also takes a
``clock``: ``wall``, as without a word, or ``processor``: of all threads of a Python process, of the
thread that runs JavaScript in the others.

Calls: ``layers`` no-op layers of a ``kind`` around each call, ``times`` runs, one after the other,
after all of it was set up.

=================  ====================================  ==========================================
worker             actions                               kinds
=================  ====================================  ==========================================
langchain          ``model-run``, ``loop-run``           ``model`` (awrap_model_call), ``tool``
                                                         (awrap_tool_call), ``before-model``
                                                         (abefore_model)
pydantic-ai        ``model-run``, ``loop-run``           ``model`` (wrap_model_request), ``tool``
                                                         (wrap_tool_execute), ``empty``
agent-framework    ``model-run``, ``loop-run``           ``model`` (ChatMiddleware), ``tool``
                                                         (FunctionMiddleware)
fastmcp            ``tool-run``, ``loop-run``            ``tool`` (on_call_tool), ``empty``
=================  ====================================  ==========================================

``model-run`` is a run with one model call, ``tool-run`` one tool call in process; ``loop-run`` is a
run with 6 model calls and 5 tool calls (of FastMCP, which has no model: 5 tool calls).

Events: ``layers`` no-op layers of a ``kind`` over one stream of ``events`` events.

=================  ====================================  ==========================================
worker             actions                               kinds
=================  ====================================  ==========================================
ag-ui-client       ``events`` (a whole run), ``chain``   ``class`` (runNext), ``function`` (map)
                   (the middlewares alone)
tanstack-ai        ``events``                            ``chunk`` (onChunk)
pydantic-ai        ``events``                            ``wrap`` (wrap_run_event_stream),
                                                         ``observe`` (on_event)
javascript         ``events``                            ``nested`` (async generators)
=================  ====================================  ==========================================
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from .environments import Environment, NodeEnvironment, PythonEnvironment, Unavailable

__all__ = ["PEERS", "Peer", "Unavailable", "Worker", "worker", "workers"]

SCRIPTS: Final = Path(__file__).parent / "workers"

START: Final = 60.0
"""Seconds that a worker may take until it is ready: the imports of a peer."""

ANSWER: Final = 60.0
"""Seconds that a worker may take for one action."""

_END: Final = 5.0
"""Seconds that a worker may take to end, before it is killed."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A worker's script, and the environment that it is started in."""

    script: Path
    environment: Environment


def _python(name: str) -> Peer:
    return Peer(
        SCRIPTS / f"{name}.py",
        PythonEnvironment(name.replace("_", "-"), SCRIPTS / "pins" / f"{name}.txt"),
    )


def _node(name: str) -> Peer:
    return Peer(SCRIPTS / f"{name}.mjs", NodeEnvironment("javascript", SCRIPTS / "pins"))


PEERS: Final[Mapping[str, Peer]] = {
    "langchain": _python("langchain"),
    "pydantic-ai": _python("pydantic_ai"),
    "agent-framework": _python("agent_framework"),
    "fastmcp": _python("fastmcp"),
    "ag-ui-client": _node("ag_ui_client"),
    "tanstack-ai": _node("tanstack_ai"),
    "javascript": _node("javascript"),
}


class Worker:
    """A started worker; made by :func:`worker`.

    Its output is read by a thread, so that waiting for an answer is bounded.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, errors: IO[bytes]) -> None:
        self.name: Final = name
        self.versions: Mapping[str, str] = {}
        self._errors: Final = errors
        self._answers: Final[queue.SimpleQueue[str | None]] = queue.SimpleQueue()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                command,
                cwd=folder,
                env=_surroundings(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{name}: its worker does not start: {error.strerror}") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def wait_until_ready(self, timeout: float) -> None:
        """Wait for the first line, and learn the versions.

        :param timeout: in seconds.
        :raises Unavailable: when another line comes, none, or the end.
        """
        first = self._answer("starting", timeout)
        if first.get("ready") is not True:
            raise self._unavailable(str(first.get("error", "it is not ready")))
        self.versions = first["versions"]

    def time(self, action: str, *, timeout: float = ANSWER, **arguments: int | str) -> float:
        """Do an action, and return the seconds that it took, by the worker's own clock.

        :param timeout: how long to wait for the answer, in seconds.
        :raises Unavailable: when the worker reports an error, ends, or does not answer in time;
            it is of no use after that.
        """
        if self._process.stdin is None or self._process.poll() is not None:
            raise self._unavailable(f"its worker has ended before {action}")
        try:
            self._process.stdin.write(json.dumps({"do": action, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._unavailable(f"its worker has ended before {action}") from error
        answer = self._answer(action, timeout)
        if "error" in answer:
            raise self._unavailable(f"{action}: {answer['error']}")
        return float(answer["seconds"])

    def close(self) -> None:
        """End the worker: its input ends, and what is still there after a while is killed."""
        process = self._process
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            self._kill()
        self._reader.join(_END)
        if process.stdout is not None:
            process.stdout.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self) -> None:
        if self._process.stdout is not None:
            for line in self._process.stdout:
                self._answers.put(line)
        self._answers.put(None)

    def _answer(self, action: str, timeout: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self._kill()
            raise self._unavailable(f"{action} took more than {timeout:g} s") from None
        if line is None:
            self._process.wait()
            raise self._unavailable(f"its worker ended while {action}{self._last_words()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._kill()
            raise self._unavailable(f"{action} was answered with {line.strip()[:80]!r}")
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if "Error" in line]
        return f": {(errors or lines)[-1][:200]}" if lines else ""

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(f"{self.name}: {reason}")


@contextlib.contextmanager
def worker(name: str, *, known: Mapping[str, Peer] = PEERS) -> Generator[Worker, None, None]:
    """Start a peer's worker, making its environment first where there is none yet.

    :raises Unavailable: when the environment cannot be made, or the worker does not get ready.
    """
    peer = known[name]
    try:
        peer.environment.make()
    except Unavailable as error:
        raise Unavailable(f"{name}: {error}") from error
    with (
        peer.environment.command(peer.script) as (command, folder),
        tempfile.TemporaryFile() as errors,
        Worker(name, command, folder, errors) as started,
    ):
        started.wait_until_ready(START)
        yield started


@contextlib.contextmanager
def workers(
    *names: str, known: Mapping[str, Peer] = PEERS
) -> Iterator[tuple[dict[str, Worker], list[str]]]:
    """Start several workers; yields those that are there, and a line for each that is not."""
    started: dict[str, Worker] = {}
    left_out: list[str] = []
    with contextlib.ExitStack() as stack:
        for name in names:
            try:
                started[name] = stack.enter_context(worker(name, known=known))
            except Unavailable as error:
                left_out.append(str(error))
        yield started, left_out


def _surroundings() -> dict[str, str]:
    """Return the environment variables without what points elsewhere or turns tracing on."""
    refused = ("PYTHON", "LANGSMITH_", "LANGCHAIN_", "OTEL_", "LOGFIRE_", "NODE_")
    return {key: value for key, value in os.environ.items() if not key.startswith(refused)}
