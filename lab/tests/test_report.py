"""The summary and the report, from fixed records."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.overview import document, summary
from hakmem.report import page as report
from hakmem.stats import Interval

Make = Callable[..., dict]


@pytest.mark.parametrize(("ns", "verdict"), [(10, "win"), (20, "tie"), (25, "loss")])
def test_verdict_is_against_the_best_rival(recorded: Make, ns: float, verdict: str) -> None:
    (row,) = summary.rows(recorded(ns))
    assert row.verdict == verdict
    assert row.best.rival == "rival"
    assert row.best.ratio.estimate == pytest.approx(ns / 20, rel=0.01)
    assert row.system.ratio.estimate == pytest.approx(ns / 30, rel=0.01)


def test_a_loss_is_shown_as_a_loss(recorded: Make) -> None:
    page = report.render(recorded(25))
    assert 'class="badge loss">▼ loss<' in page
    assert "25 % more than rival" in page
    assert "badge win" not in page
    assert 'class="badge win">▲ win<' in report.render(recorded(10))


def test_one_failed_sample_makes_an_error_not_a_gap(recorded: Make) -> None:
    record = recorded(10)
    mine = next(s for s in record["samples"] if s["library"] == "hakmem")
    mine.update(error="killed by SIGSEGV", result=None)
    (row,) = summary.rows(record)
    assert row.verdict == "error"
    page = report.render(record)
    assert "batch_fifo, hakmem: killed by SIGSEGV (1 of 8 samples)" in page
    assert "badge win" not in page


def test_a_failed_rival_is_no_rival_but_stays_visible(recorded: Make) -> None:
    record = recorded(25)
    for s in record["samples"]:
        if s["library"] == "rival":
            s.update(error="status 1", result=None)
    (row,) = summary.rows(record)
    assert (row.best.rival, row.verdict) == ("system", "win")
    assert "batch_fifo, rival: status 1 (8 of 8 samples)" in report.render(record)


def test_two_rounds_decide_nothing(recorded: Make) -> None:
    assert summary.rows(recorded(10, rounds=2))[0].verdict == "undecided"


def test_a_wide_interval_around_1_is_no_tie() -> None:
    assert summary.judge(Interval(1, 0.99, 1.01, ""), 8) == "tie"
    assert summary.judge(Interval(0.6, 0.3, 1.2, ""), 8) == "undecided"
    assert summary.judge(Interval(1.02, 1.01, 1.03, ""), 8) == "loss"


def test_the_floor_is_subtracted(recorded: Make) -> None:
    record = recorded(12)
    record["figures"][0]["floor"] = "null floor"
    floor = {**record["samples"][1], "library": "null floor"}
    floor["result"] = {**floor["result"], "seconds": 10 * 1000 / 1e9}
    record["samples"].append(floor)
    (row,) = summary.rows(record)
    assert row.cells["hakmem"].median == pytest.approx(2, abs=0.05)
    assert row.best.ratio.estimate == pytest.approx(0.2, abs=0.01)


def test_higher_is_better_turns_the_cost(recorded: Make) -> None:
    faster = summary.Comparison("r", Interval(2, 1.5, 2.5, "range"), 8, "win", "higher")
    assert (faster.cost.estimate, faster.cost.low) == (0.5, 0.4)
    assert summary.judge(faster.cost, 8) == "win"


def test_the_report_is_self_contained_and_escaped(recorded: Make) -> None:
    page = report.render(recorded(25))
    assert re.findall(r"https?://|<script|<link|@import|url\(|src=", page) == []
    assert "script-src 'none'" in html.unescape(page)
    assert "blocks &lt;in&gt; order" in page
    assert "a &lt;cpu&gt;" in page
    assert "prefers-color-scheme: dark" in page


def test_record_survives_its_own_file(recorded: Make, tmp_path: Path) -> None:
    record = recorded(25)
    file = tmp_path / "bench.json"
    project.write_atomically(file, document.dump(record))
    assert document.load(file) == record
    assert [p.name for p in tmp_path.iterdir()] == ["bench.json"]
    file.write_text("{}")
    with pytest.raises(LabError, match="not a recorded run"):
        document.load(file)
