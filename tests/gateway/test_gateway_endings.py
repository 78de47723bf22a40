"""A gateway whose client goes, which is stopped, or whose agent behind goes away."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from driving import SECONDS, Server
from gateways import Stream, await_end, outer_of, running, runs_of


def begun(server: Server) -> Stream:
    """Begin a run that does not end by itself."""
    return Stream(server, "gate").until("TEXT_MESSAGE_CONTENT")


def failure(run: Stream) -> tuple[str, str]:
    """Return what the RUN_ERROR at the end says."""
    return run.events[-1]["code"], run.events[-1]["message"]


def test_a_client_that_goes_away_in_front_cancels_the_run_behind(
    outer: Server, folder: Path
) -> None:
    run = begun(outer)
    run.close()
    gone = time.monotonic()
    for name in ("outer", "inner"):
        assert await_end(runs_of(name, folder), run.run)["outcome"] == "consumer-gone"
    assert time.monotonic() - gone < 5  # generous; it is a matter of milliseconds


def test_an_agent_behind_that_stops_comes_back_and_is_killed(tmp_path: Path) -> None:
    quick = ("--set", "server.shutdown_deadline=0.2")
    with running("inner", tmp_path, *quick) as inner, outer_of(inner.url, tmp_path) as outer:
        # Stopped: it ends its runs in good order, and the gateway passes on how.
        run = begun(outer)
        inner.process.send_signal(signal.SIGTERM)
        assert run.rest().types[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
        assert run.events[-1]["outcome"] == {"type": "cancelled"}
        assert inner.process.wait(SECONDS) == 0
        # Gone.
        run = Stream(outer, "order").rest()
        assert run.types == ["RUN_STARTED", "RUN_ERROR"]
        assert failure(run) == ("remote-unavailable", "The remote agent could not be reached.")
        # Back: connections of before are not used.
        port = inner.url.rstrip("/").rpartition(":")[2]
        with running("inner", tmp_path, "--port", port, ends=-signal.SIGKILL) as again:
            assert Stream(outer, "order").rest().types[-1] == "RUN_FINISHED"
            # Killed: the stream is closed for it.
            run = begun(outer)
            again.process.kill()
            assert run.rest().types[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
            assert failure(run) == (
                "remote-unavailable",
                "The connection to the remote agent broke in the middle of the run.",
            )


def test_a_gateway_that_is_stopped_lets_its_runs_end(inner: Server, tmp_path: Path) -> None:
    with outer_of(inner.url, tmp_path) as outer:
        run = begun(outer)
        outer.process.send_signal(signal.SIGTERM)
        while len(run.comments) < 3:  # it goes on, and waits
            assert run.frame()
        assert inner.post("opened", forwardedProps={"thread": run.thread}).status == 200
        assert run.rest().types[-1] == "RUN_FINISHED"
        assert run.text == f"before after {run.thread}"
        assert outer.process.wait(SECONDS) == 0


def test_a_gateway_that_cannot_wait_any_longer_cancels_its_runs_in_front_and_behind(
    inner: Server, folder: Path, tmp_path: Path
) -> None:
    quick = ("--set", "server.shutdown_deadline=0.2")
    with outer_of(inner.url, tmp_path, *quick) as outer:
        run = begun(outer)
        outer.process.send_signal(signal.SIGTERM)
        run.rest()
        assert run.types[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
        assert run.events[-1]["outcome"] == {"type": "cancelled"}
        assert outer.process.wait(SECONDS) == 0
        assert await_end(runs_of("inner", folder), run.run)["outcome"] == "consumer-gone"
