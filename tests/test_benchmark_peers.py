"""The peers of the benchmark: what their workers and environments promise, with tiny fakes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from .benchmarks import environments, peers
from .benchmarks.environments import Environment, NodeEnvironment, PythonEnvironment
from .benchmarks.measuring import Timed, compare
from .benchmarks.results import Result, Size
from .benchmarks.workloads import peer_events

READY = 'print(json.dumps({"ready": True, "versions": {"fake": "1.2"}}), flush=True)\n'
ANSWERING = """
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "work":
        said = {"seconds": asked["layers"] / 4}
    elif asked["do"] == "die":
        sys.exit("ValueError: no more")
    elif asked["do"] == "hang":
        time.sleep(600)
    elif asked["do"] == "babble":
        print("hello", flush=True)
        continue
    else:
        said = {"error": "KeyError: " + asked["do"]}
    print(json.dumps(said), flush=True)
"""
FAKE = READY + ANSWERING


class OwnPython(Environment):
    """The interpreter that runs the tests: nothing is installed."""

    __slots__ = ()

    @contextmanager
    def command(self, script: Path) -> Generator[tuple[list[str], Path], None, None]:
        yield [sys.executable, str(script)], script.parent

    def _interpreter(self) -> str:
        return ""

    def _files(self) -> list[Path]:
        return []

    def _install(self, folder: Path, until: float) -> None:
        pass


class NotToBeMade(OwnPython):
    __slots__ = ()

    def _install(self, folder: Path, until: float) -> None:
        (folder / "half").touch()
        raise environments.Unavailable("not installed: no such release")


def fakes(folder: Path, **sources: str) -> Mapping[str, peers.Peer]:
    """Write workers, and return them as peers by their names."""
    known = {}
    for name, source in sources.items():
        script = folder / f"{name}.py"
        script.write_text(f"import json, sys, time\n{source}")
        known[name] = peers.Peer(script, OwnPython(name, folder, folder / "environments"))
    return known


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[peers.Worker]:
    with peers.worker("fake", known=fakes(tmp_path, fake=FAKE)) as worker:
        yield worker


def test_a_worker_tells_its_versions_and_the_seconds_of_what_it_is_asked_for(
    fake: peers.Worker,
) -> None:
    assert fake.versions == {"fake": "1.2"}
    assert [fake.time("work", layers=layers) for layers in (1, 10)] == [0.25, 2.5]


def test_an_error_is_a_reason_and_the_worker_goes_on(fake: peers.Worker) -> None:
    with pytest.raises(peers.Unavailable, match=r"^fake: other: KeyError: other$"):
        fake.time("other")
    assert fake.time("work", layers=2) == 0.5


def test_a_worker_that_dies_is_unavailable_with_its_last_words(fake: peers.Worker) -> None:
    with pytest.raises(
        peers.Unavailable, match=r"^fake: its worker ended while die: ValueError: no more$"
    ):
        fake.time("die")
    with pytest.raises(peers.Unavailable, match=r"^fake: its worker has ended before work$"):
        fake.time("work", layers=1)


def test_a_worker_that_hangs_is_killed_when_its_time_is_over(fake: peers.Worker) -> None:
    since = time.monotonic()
    with pytest.raises(peers.Unavailable, match=r"^fake: hang took more than 0\.2 s$"):
        fake.time("hang", timeout=0.2)
    with pytest.raises(peers.Unavailable, match="has ended before"):
        fake.time("work", layers=1)
    assert time.monotonic() - since < 60


def test_what_is_no_answer_is_refused(fake: peers.Worker) -> None:
    with pytest.raises(peers.Unavailable, match=r"^fake: babble was answered with 'hello'$"):
        fake.time("babble")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "sys.exit('ImportError: no langchain')",
            "its worker ended while starting: ImportError: no langchain",
        ),
        ("print('hello', flush=True); time.sleep(600)", "starting was answered with 'hello'"),
        ("print(json.dumps({'error': 'no'}), flush=True)", "no"),
        ("print(json.dumps({'seconds': 1}), flush=True)", "it is not ready"),
        ("time.sleep(600)", "starting took more than 0.5 s"),
    ],
)
def test_a_worker_that_does_not_get_ready_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    if "sleep" in source and "print" not in source:
        monkeypatch.setattr(peers, "START", 0.5)
    with (
        pytest.raises(peers.Unavailable) as caught,
        peers.worker("fake", known=fakes(tmp_path, fake=source)),
    ):
        pass
    assert str(caught.value) == f"fake: {reason}"


def test_several_workers_are_those_that_are_there_and_a_line_for_each_other(tmp_path: Path) -> None:
    known = {
        **fakes(tmp_path, good=FAKE, bad="sys.exit('ImportError: no')"),
        "missing": peers.Peer(tmp_path, NotToBeMade("missing", tmp_path, tmp_path / "below")),
    }
    with peers.workers("bad", "missing", "good", known=known) as (found, left_out):
        assert list(found) == ["good"]
        assert found["good"].time("work", layers=4) == 1.0
    assert left_out == [
        "bad: its worker ended while starting: ImportError: no",
        "missing: not installed: no such release",
    ]


def test_an_environment_is_made_once_and_again_when_its_pins_change(tmp_path: Path) -> None:
    made = []

    class Counted(OwnPython):
        __slots__ = ()

        def _files(self) -> list[Path]:
            return [self.pins]

        def _install(self, folder: Path, until: float) -> None:
            made.append(folder)

    pins = tmp_path / "pins.txt"
    pins.write_text("a==1\n")
    environment = Counted("a", pins, tmp_path / "below")
    environment.make()
    environment.make()
    assert made == [environment.folder]
    pins.write_text("a==2\n")
    environment.make()
    assert len(set(made)) == 2


def test_nothing_is_left_of_an_environment_that_was_half_made(tmp_path: Path) -> None:
    environment = NotToBeMade("a", tmp_path, tmp_path / "below")
    with pytest.raises(environments.Unavailable, match="no such release"):
        environment.make()
    assert not environment.folder.exists()


def test_what_a_killed_installation_left_behind_is_made_anew(tmp_path: Path) -> None:
    environment = OwnPython("a", tmp_path, tmp_path / "below")
    environment.folder.mkdir(parents=True)
    (environment.folder / "half").touch()
    environment.make()
    assert [each.name for each in environment.folder.iterdir()] == ["complete"]


def test_an_installer_that_fails_is_unavailable_with_its_reason(tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("--no-index\ninterpose-benchmark-nothing==1\n")
    environment = PythonEnvironment("a", pins, tmp_path / "below")
    with pytest.raises(
        environments.Unavailable, match=r"^not installed: .*interpose-benchmark-nothing==1"
    ):
        environment.make()
    assert not environment.folder.exists()


def test_an_installation_is_bounded(tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("")
    environment = PythonEnvironment("a", pins, tmp_path / "below", timeout=0.05)
    with pytest.raises(environments.Unavailable, match=r"^its installation took too long$"):
        environment.make()
    assert not environment.folder.exists()


def test_without_an_installer_there_is_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("package.json", "package-lock.json"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(environments.Unavailable, match=r"^npm does not start: No such file"):
        NodeEnvironment("a", tmp_path, tmp_path / "below").make()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "WARNING: a\nERROR: Could not find a version of b==1\nERROR: No matching distribution\n",
            "Could not find a version of b==1",
        ),
        (
            "npm error code E404\nnpm error 404 Not Found - GET https://example.test/b\n",
            "404 Not Found - GET the index",
        ),
        ("something\nelse\n", "else"),
        ("", "it did not say why"),
        ("ERROR: " + "x" * 500, "x" * 200 + "..."),
    ],
)
def test_the_reason_is_the_line_that_says_why(output: str, reason: str) -> None:
    assert environments.reason(output) == reason


def test_every_package_is_pinned_and_no_registry_is_named() -> None:
    pins = peers.SCRIPTS / "pins"
    for file in pins.glob("*.txt"):
        assert [each for each in file.read_text().splitlines() if "==" not in each] == []
    locked = json.loads((pins / "package-lock.json").read_text())
    assert [each for each in locked["packages"].values() if "resolved" in each] == []
    wanted = json.loads((pins / "package.json").read_text())["dependencies"]
    assert locked["packages"][""]["dependencies"] == wanted


def test_every_peer_has_a_script_and_its_pins() -> None:
    for peer in peers.PEERS.values():
        assert peer.script.is_file()
        assert peer.environment.pins.exists()


def ours(seconds: float) -> Mapping[str, Timed]:
    return {"interpose-0": lambda: 1.0, "interpose-10": lambda: 1.0 + seconds}


def beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, *, is_quick: bool = False
) -> Result:
    known = dict.fromkeys(peers.PEERS, fakes(tmp_path, fake=READY + source)["fake"])
    monkeypatch.setattr(peers, "workers", partial(peers.workers, known=known))
    monkeypatch.setattr(
        peer_events, "compare", lambda variants, **_: compare(variants, rounds=1, warm_up=0)
    )
    return peer_events.rows(Size(quick=is_quick, peers=not is_quick), ours(2.0), 4)


def test_events_are_compared_by_event_and_layer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering = (
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    seconds = (3 + asked['layers']) * asked['events']\n"
        "    print(json.dumps({'seconds': seconds}), flush=True)\n"
    )
    found = beside(monkeypatch, tmp_path, answering)
    [table] = found.tables
    assert {row.ratio.median for row in table.rows} == {0.05}  # 2 s by 4 events, against 10 s
    assert {row.value for row in table.rows} == {1e9}
    assert set(found.figures) == {"event-tanstack", "event-ag-ui-class", "event-pydantic-ai"}
    assert found.versions == {"fake": "1.2"}
    assert found.left_out == []


@pytest.mark.parametrize("seconds", ["1", "20 - asked['layers']"])
def test_what_is_lost_in_noise_is_no_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: str
) -> None:
    answering = (
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        f"    print(json.dumps({{'seconds': {seconds}}}), flush=True)\n"
    )
    found = beside(monkeypatch, tmp_path, answering)
    assert (found.tables, found.figures) == ((), {})
    assert found.left_out[0].endswith(": what the layers add was lost in this run's noise")


def test_a_peer_that_fails_in_the_middle_becomes_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = beside(monkeypatch, tmp_path, "sys.stdin.readline(); sys.exit('ValueError: no')")
    assert found.tables == ()
    assert len(found.left_out) == 7
    assert "ValueError: no" in found.left_out[0]


def test_a_quick_run_asks_no_peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert beside(monkeypatch, tmp_path, "", is_quick=True) == Result(())
