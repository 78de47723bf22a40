"""The response of one run: its task, and the writer that follows it."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interpose.errors import Reject, UsageError
from interpose.runtime.run import Run, record_of
from interpose.server.draining import OpenResponses
from interpose.server.frames import framing
from interpose.server.options import Options
from interpose.server.problems import of_reject, problem_response
from interpose.server.relay import Relay
from interpose.server.watching import Watch

_HEADERS = {
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would hold a stream back
    "x-content-type-options": "nosniff",
}


def response(
    run: Run[Any],
    request: Request,
    *,
    heartbeat: float = 15.0,
    run_deadline: float | None = None,
    idle_deadline: float | None = 300.0,
) -> RunResponse:
    """Return the answer of a route of your own: the run as server-sent events.

    The run begins when the answer is sent, in a task of the host's. Its headers wait for the first
    event: a :class:`Reject` before it gives its own HTTP status, with a JSON problem. When the
    client goes away, the run is cancelled; a slow reader holds the agent back.

    ``heartbeat``: seconds of silence after which a comment is sent. ``run_deadline``,
    ``idle_deadline``: seconds that the run may take, and be silent; then it ends with RUN_ERROR
    ``deadline-exceeded``. None: any time.

    Example::

        @app.post("/chat")
        async def chat(request: Request) -> Response:
            return response(host.run(await request.json()), request)
    """
    if not isinstance(run, Run):
        raise UsageError(
            f"interpose.server.response was given a {type(run).__name__} in place of a run",
            hint="give it host.run(...), not awaited",
        )
    options = Options(heartbeat=heartbeat, run_deadline=run_deadline, idle_deadline=idle_deadline)
    return RunResponse(run, request, options)


class RunResponse(Response):
    """A run as a response; see :func:`response`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        run: Run[Any],
        request: Request,
        options: Options,
        among: OpenResponses | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers(_HEADERS)
        # There is no length to declare: the body is a stream.
        self.raw_headers = [(k, v) for k, v in self.raw_headers if k != b"content-length"]
        self._run = run
        self._record = record_of(run)
        self._path = request.url.path
        self._options = options
        self._among = OpenResponses() if among is None else among

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Play the run and write it. Returns when the last event is written, or nobody reads."""
        record = self._record
        try:
            record.open_runs.claim(record.run_id)
        except Reject as refused:
            await of_reject(refused)(scope, receive, send)
            return
        self._among.add(self)
        relay = Relay(self._options.buffer, record.clock.monotonic)
        name = f"run {record.run_id!r}, served at {self._path}"
        record.program.tasks.spawn(self._play(relay), name)
        watch = Watch(record, relay, self._options)
        beside = [
            asyncio.create_task(self._until_gone(receive, relay), name=f"client of {name}"),
            asyncio.create_task(watch.watch(), name=f"watch of {name}"),
        ]
        try:
            async with watch.patience:
                await self._write(scope, receive, send, relay, watch)
        except (TimeoutError, OSError):
            pass  # the client does not read, or is gone
        finally:
            if not relay.closed:
                self._gone(relay)
            for task in beside:
                task.cancel()
            self._among.discard(self)
            await asyncio.gather(*beside, return_exceptions=True)

    def stop(self) -> None:
        """Cancel the run, because the server stops."""
        self._record.cancel("the server stops")

    async def _play(self, relay: Relay) -> None:
        """Drive the run from its beginning to its end, whatever becomes of the response."""
        record = self._record
        frame = framing(record.input, record.fail)
        push, room = relay.push, relay.room
        try:
            async with self._run as run:
                async for event in run:
                    if push(frame(event)):
                        await room.wait()
                    if record.ended:
                        relay.close()
        except Exception as error:  # noqa: BLE001 - the writer tells of it
            relay.close(error)
            record.report("server", error, "the run could not be served")
        finally:
            relay.close()
            record.open_runs.release(record.run_id)

    async def _write(
        self, scope: Scope, receive: Receive, send: Send, relay: Relay, watch: Watch
    ) -> None:
        body = await relay.take()
        refused = self._run.rejected
        if refused is not None:
            await of_reject(refused)(scope, receive, send)
            return
        if not body:
            # Middleware around expects an answer also where nobody is there to read it.
            failed = (
                problem_response(400, "client-gone", "The client went away.")
                if relay.gone
                else problem_response(500, "run-failed", "The run could not be started.")
            )
            await failed(scope, receive, send)
            return
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        watch.started = True
        while body:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            body = await relay.take()
        if relay.error is None and not relay.gone:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_gone(self, receive: Receive, relay: Relay) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone(relay)

    def _gone(self, relay: Relay) -> None:
        relay.abandon()
        self._record.cancel("the client is gone", "consumer-gone")
