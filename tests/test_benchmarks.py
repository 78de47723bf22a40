"""The comparison itself: what it computes, what it says, and that the page is what it has found."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from repository import ROOT
from tests.benchmarks import comparing, page, plots, records, report
from tests.benchmarks.machine import Machine, machine, versions
from tests.benchmarks.measuring import Ratio, Samples, Timed, compare, ratio_of
from tests.benchmarks.records import Record
from tests.benchmarks.remarks import REMARKS
from tests.benchmarks.results import Curve, Plot, Result, Row, Size, Table
from tests.benchmarks.targets import TARGETS, Target
from tests.benchmarks.wording import number, quartiles, verdict

DOCS = ROOT / "docs"
QUICK = Size(quick=True, peers=False)


# Measuring --------------------------------------------------------------------------------------
def test_each_round_runs_all_variants_and_the_first_one_rotates() -> None:
    order: list[str] = []

    def variant(name: str, seconds: float) -> Timed:
        def timed() -> float:
            order.append(name)
            return seconds

        return timed

    samples = compare({"a": variant("a", 3.0), "b": variant("b", 2.0)}, rounds=3, warm_up=1)
    assert order == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert samples.rounds == 3
    assert samples.ratio("a", "b") == Ratio(1.5, 1.5, 1.5)


def test_a_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_medians() -> None:
    samples = Samples({"a": [1.0, 20.0, 300.0], "b": [1.0, 10.0, 1000.0]})
    assert samples.ratio("a", "b").median == 1.0
    assert samples.median("a") / samples.median("b") == 2.0


def test_the_quartiles_are_those_of_the_rounds() -> None:
    assert ratio_of([5.0, 1.0, 4.0, 2.0, 3.0]) == Ratio(3.0, 2.0, 4.0)
    assert ratio_of([7.0]) == Ratio(7.0, 7.0, 7.0)


def test_what_is_added_is_compared_within_each_round() -> None:
    samples = Samples(
        {"ours": [3.0, 30.0], "bare": [1.0, 10.0], "theirs": [9.0, 90.0], "plain": [1.0, 10.0]}
    )
    assert samples.added("ours", "bare") == 11.0
    assert samples.added_ratio(("ours", "bare"), ("theirs", "plain")).median == 0.25


# Targets ----------------------------------------------------------------------------------------
MOST = Target("k", "what", 2.0, guard=3.0)
LEAST = Target("k", "what", 5.0, "at least", guard=3.0)


@pytest.mark.parametrize(
    ("target", "median", "met"),
    [(MOST, 2.0, True), (MOST, 2.1, False), (LEAST, 5.0, True), (LEAST, 4.9, False)],
)
def test_a_target_is_met_by_the_median_on_its_side(
    target: Target, median: float, *, met: bool
) -> None:
    assert target.is_met(Ratio(median, 0.0, 9.0)) is met


@pytest.mark.parametrize(
    ("target", "found", "breaks"),
    [
        (MOST, Ratio(3.5, 2.9, 4.0), False),
        (MOST, Ratio(3.5, 3.1, 4.0), True),
        (LEAST, Ratio(2.5, 2.0, 3.1), False),
        (LEAST, Ratio(2.5, 2.0, 2.9), True),
        (replace(MOST, guard=None), Ratio(9.0, 9.0, 9.0), False),
    ],
)
def test_only_what_is_beyond_the_guard_at_its_best_is_a_regression(
    target: Target, found: Ratio, *, breaks: bool
) -> None:
    assert target.breaks(found) is breaks


def test_the_guard_is_never_stricter_than_the_limit() -> None:
    for target in TARGETS:
        if target.guard is not None:
            slack = target.guard - target.limit
            assert (slack if target.sense == "at most" else -slack) >= 0, target


def test_a_verdict_says_by_how_much_a_target_is_missed() -> None:
    assert verdict(MOST, Ratio(1.9, 1.0, 3.0)) == "met"
    assert verdict(MOST, Ratio(2.5, 2.0, 3.0)) == "MISSED by 25%"
    assert verdict(LEAST, Ratio(4.0, 3.0, 5.0)) == "MISSED by 20%"


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.01234, "0.0123"), (1.0, "1.00"), (12.34, "12.3"), (1234.5, "1,234"), (0.0, "0.00")],
)
def test_a_figure_has_three_digits(value: float, written: str) -> None:
    assert number(value) == written


# Report and page --------------------------------------------------------------------------------
FOUND = Ratio(0.0123, 0.01, 0.02)
RESULT = Result(
    tables=[
        Table("Runs|of_all", "us", [Row("ours", "theirs", FOUND, 1234.5), Row("a", "b", FOUND)]),
        Table("Nothing", "ms", [], notes=["A note with `re.sub` and a *star*."]),
    ],
    figures={"hooks-nested-10": Ratio(0.9, 0.8, 1.0), "tiny-run": Ratio(3.0, 2.0, 4.0)},
    plots=[Plot("cost", "Cost", "layers (N)", "us", [Curve("ours", [(0, 1.0), (10, 2.5)])])],
    left_out=["peer: not installed: <no index>"],
    versions={"peer": "1.2"},
)
KEPT = Record(
    measured="2026-11-30",
    size=Size(quick=False, peers=True),
    machine=Machine("Linux 6, x86_64", "Some CPU", 2, 7.8, "CPython 3.12.1", optimised=False),
    versions={"interpose": "0.1.0"},
    results={"redaction": RESULT},
)


def test_the_text_has_the_tables_the_notes_and_what_was_left_out() -> None:
    assert report.text(RESULT) == (
        "\nRuns|of_all\n"
        "  ours / theirs  0.0123 (0.0100 to 0.0200)  1,234 us\n"
        "  a / b          0.0123 (0.0100 to 0.0200)\n"
        "\nNothing\n"
        "  A note with `re.sub` and a *star*.\n"
        "left out: peer: not installed: <no index>\n"
    )


def test_the_targets_that_were_measured_are_told() -> None:
    assert report.targets(RESULT.figures) == (
        "\n== targets\n"
        "  segment alone, hooks on every event, against nested, N = 10: 0.900 (0.800 to 1.00), at most 0.45: "
        "MISSED by 100%\n"
        "  a 5-event run with 10 layers against bare: 3.00 (2.00 to 4.00), at most 15: met\n"
    )


def test_the_page_is_written_from_the_record() -> None:
    text = page.render(KEPT, {"cost"}, {"tiny-run": "It could be 5."})
    for part in (
        "nested, N = 10 | at most 0.45 | 0.900 (0.800 to 1.00) | MISSED by 100% |",
        "| class nobody handles, N = 50 against N = 0 | at most 1.4 |  | not measured |",
        "- *a 5-event run with 10 layers against bare*: It could be 5.",
        "## Redaction of long streams\n",
        "### Runs\\|of\\_all\n",
        "|  | against | ratio | us |",
        "| ours | theirs | 0.0123 (0.0100 to 0.0200) | 1,234 |",
        "- A note with `re.sub` and a *star*.",
        "![Cost](benchmarks/cost.png)",
        "- peer: not installed: \\<no index>",
        "- Serving: not run.",
        "| processor | Some CPU, 2 of them for the benchmarks |",
        "| Python | CPython 3.12.1, built without optimisations |",
        "| interpose | 0.1.0 |\n| peer | 1.2 |",
    ):
        assert part in text, part


def test_a_page_without_plots_says_so() -> None:
    text = page.render(KEPT, set(), {})
    assert "![" not in text
    assert "- Plots that could not be drawn: cost." in text


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    records.write(tmp_path / "kept.json", KEPT)
    kept = records.read(tmp_path / "kept.json")
    records.write(tmp_path / "again.json", kept)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "kept.json").read_bytes()
    assert page.render(kept, {"cost"}, {}) == page.render(KEPT, {"cost"}, {})
    assert kept.figures == RESULT.figures


def test_a_record_of_another_format_is_refused(tmp_path: Path) -> None:
    records.write(tmp_path / "kept.json", replace(KEPT, format=records.FORMAT + 1))
    with pytest.raises(ValueError, match="format"):
        records.read(tmp_path / "kept.json")


def test_the_facts_about_the_machine_name_no_host_and_no_path() -> None:
    facts = machine()
    assert facts.processors >= 1
    assert facts.python.startswith(sys.implementation.name.replace("cpython", "CPython"))
    for fact in (facts.system, facts.processor, facts.python):
        assert "/root" not in fact
        assert "/home" not in fact
    assert "interpose" in versions()


def test_pages_are_written_where_nothing_can_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_plots: object, folder: Path) -> str:
        assert folder == tmp_path / "benchmarks"
        return "not installed"

    monkeypatch.setattr(plots, "draw", nothing)
    report.write_pages(tmp_path, {"redaction": RESULT}, QUICK)
    assert "This was a quick run" in (tmp_path / "benchmarks.md").read_text("utf-8")
    kept = records.read(tmp_path / report.RECORD)
    assert kept.size == QUICK
    assert kept.figures == RESULT.figures


# The command line -------------------------------------------------------------------------------
@pytest.fixture(name="fake")
def _fake(monkeypatch: pytest.MonkeyPatch) -> list[Size]:
    """Let the workload ``redaction`` return what is made up, and note how it was asked."""
    asked: list[Size] = []

    def run(size: Size) -> Result:
        asked.append(size)
        return RESULT

    name = "tests.benchmarks.workloads.redaction"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(SUMMARY="made up", run=run))
    return asked


@pytest.mark.usefixtures("fake")
def test_a_quick_run_beyond_a_guard_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert comparing.run(["redaction", "--quick"], others={}) == 1
    said = capsys.readouterr().out
    assert "== redaction: made up" in said
    assert said.endswith(
        "REGRESSION: segment alone, hooks on every event, against nested, N = 10: 0.90 (0.80-1.00), "
        "guarded at most 0.75\n"
    )


def test_a_full_run_reports_and_judges_not(fake: list[Size]) -> None:
    assert comparing.run(["redaction"], others={}) == 0
    assert comparing.run(["redaction", "--without-peers"], others={}) == 0
    assert fake == [Size(quick=False, peers=True), Size(quick=False, peers=False)]


@pytest.mark.usefixtures("fake")
def test_what_was_written_as_json_is_shown_without_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    assert comparing.run(["redaction", "--json", str(kept)], others={}) == 0
    assert json.loads(kept.read_text())["results"]["redaction"]["versions"] == {"peer": "1.2"}
    measured = capsys.readouterr().out
    assert comparing.run(["--from", str(kept)], others={}) == 0
    shown = capsys.readouterr().out
    assert report.text(RESULT) in measured
    assert report.text(RESULT) in shown


def test_a_file_that_is_no_record_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no.json").write_text("{}")
    assert comparing.run(["--from", str(tmp_path / "no.json")], others={}) == 2
    assert "no.json is no record" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused_and_the_known_are_named() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "redactoin"],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert "there is no benchmark 'redactoin'; the benchmarks are passthrough" in ran.stderr
    assert "load" in ran.stderr


@pytest.mark.parametrize("name", comparing.WORKLOADS)
def test_a_workload_can_be_run_and_has_a_title(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    workload = importlib.import_module(f"tests.benchmarks.workloads.{name}")
    assert isinstance(workload.SUMMARY, str)
    assert callable(workload.run)
    assert page.TITLES[name]


# What is committed ------------------------------------------------------------------------------
def kept() -> Record:
    return records.read(DOCS / report.RECORD)


def test_the_page_is_what_the_kept_record_says() -> None:
    """Otherwise: ``cd tests && python -m benchmarks --from ../docs/benchmarks/results.json --pages ../docs``."""
    drawn = page.picture_files(DOCS)
    assert (DOCS / page.NAME).read_text("utf-8") == page.render(kept(), drawn)


def test_every_plot_of_the_record_is_there_and_small() -> None:
    named = {plot.name for result in kept().results.values() for plot in result.plots}
    assert page.picture_files(DOCS) <= named
    sizes = {file.name: file.stat().st_size for file in (DOCS / page.FOLDER).glob("*.png")}
    assert [name for name, size in sizes.items() if size > 60_000] == []


def test_each_target_that_is_missed_has_a_remark() -> None:
    figures = kept().figures
    missed = {
        each.key for each in TARGETS if each.key in figures and not each.is_met(figures[each.key])
    }
    assert missed - set(REMARKS) == set()
    assert set(REMARKS) <= {each.key for each in TARGETS}


def test_quartiles_are_written_with_the_median_first() -> None:
    assert quartiles(Ratio(1.5, 1.0, 20.0)) == "1.50 (1.00 to 20.0)"
