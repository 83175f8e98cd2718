"""The report of the ledger's records: which are chosen, what it says, and that it escapes text."""

import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
import report_world as world
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.report import charts, cli as report_cli, lines, page as report, records
from hakmem.stats import Interval
from standing import Stand, refused


@pytest.fixture
def ledger(own: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("LAB_LEDGER", str(own.evidence))
    monkeypatch.setenv("LAB_LEDGER_HOST", "here")
    monkeypatch.chdir(tmp_path)
    return own.ledger


def page_of(ledger: Ledger) -> str:
    found = report_cli.find(ledger, records.newest(ledger.records()))
    assert found.problems == []
    return report.render(found)


def text_of(page: str) -> str:
    """The page's visible text, in one line."""
    body = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


# ---- which records ----


def test_a_question_asked_again_shows_the_newest_answer_and_how_often(ledger: Ledger) -> None:
    for verdict, ratio in (("UNDECIDED", 1.0), ("UNDECIDED", 1.01), ("GO", 0.9)):
        world.add_verdict(ledger, "is new better?", verdict, ratio)
    other = world.add_verdict(ledger, "is old better?", "NO-GO", 1.2)
    found = records.newest(ledger.records())
    assert [(a.record.id == other, a.older) for a in found] == [(True, 0), (False, 2)]
    text = text_of(page_of(ledger))
    assert "the newest of 3 records with this question" in text
    assert "0.900 [0.890–0.910]" in text
    assert "1.010" not in text


def test_parts_of_a_result_and_of_a_suite_are_not_shown_apart(ledger: Ledger) -> None:
    ledger.append("sample", {"metrics": {}})
    suite = world.add_suite(ledger)
    ends = world.add_verdict(ledger, "is bad worse than good?", "NO-GO", 1.1)
    ledger.append("probe", {"metrics": {}})
    bisect = world.add_bisect(ledger, [ends])
    assert [a.record.id for a in records.newest(ledger.records())] == [bisect, suite]


def test_records_by_id_come_in_the_order_asked_and_missing_ones_are_named(ledger: Ledger) -> None:
    one, two = (world.add_verdict(ledger, name, "GO", 0.9) for name in "ab")
    sample = ledger.append("sample", {}).id
    assert [a.record.id for a in records.chosen(ledger, [two, one, two])] == [two, one]
    with pytest.raises(LabError, match="no record beef, dead in"):
        records.chosen(ledger, ["beef", one, "dead"])
    with pytest.raises(LabError, match="a sample is part of a result"):
        records.chosen(ledger, [sample])


# ---- what the page says ----


def test_a_verdict_is_said_with_its_interval_guards_and_how_to_repeat_it(ledger: Ledger) -> None:
    id = world.add_verdict(ledger, "is new better?", "NO-GO", 1.2)
    page = page_of(ledger)
    text = text_of(page)
    assert "✗ NO-GO" in text
    assert "1.200 [1.190–1.210]" in text
    assert "guard fifo 1.003 [0.993–1.013] range" in text
    assert f"hakmem rerun {id}" in text
    assert page.count('class="whisker"') == 2 * 2 * 3  # wide and narrow, target and guard
    assert "✓ GO" not in text


def test_an_interval_has_an_arrow_on_each_side_where_it_leaves_the_drawing() -> None:
    wide = charts.Ratio("x", "", Interval(1.0, 0.05, 20.0, "CI"), "")
    drawn = charts.forest([wide], "x", "less", "more")
    assert re.findall(r'class="beyond"[^>]*>(.)', drawn) == ["◂", "▸"] * 2


def test_a_suite_shows_losses_failures_and_memory(ledger: Ledger) -> None:
    id = world.add_suite(ledger)
    page = page_of(ledger)
    text = text_of(page)
    # The row against the better of two rivals, and the row that failed.
    assert "0 ▲ win 0 = tie 1 ▼ loss 1 ✗ error" in text
    assert 'class="badge loss">▼ loss<' in page
    assert "badge win" not in page
    assert "against fast" in text
    assert "▼ 1.25 [1.23–1.27] memory ▲ 0.50 ▲ 0.75 [0.73–0.77]" in text
    assert "✗ batch, gone: killed by SIGSEGV" in text
    assert "✗ larson, hakmem: killed by SIGABRT" in text
    assert "larson ✗ error ✗ failed" in text
    assert "1.20 [1.18–1.22] of its time over 1 benchmark; " in text
    assert f"hakmem rerun {id}" in text
    assert "fast 1.0 cargo" in text
    # The plots show the ratio to the oracle, against which hakmem loses in time.
    assert re.findall(r'class="loss"><line', page) == ['class="loss"><line'] * 2
    assert "peak resident memory of hakmem divided by the oracle&#x27;s" in page


def test_however_many_suites_the_ledger_is_read_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = records.chosen(ledger, [world.add_suite(ledger) for _ in range(3)])
    read = []
    of_disk = Ledger.records
    monkeypatch.setattr(Ledger, "records", lambda self: read.append(self) or of_disk(self))
    assert len(report_cli.find(ledger, chosen).suites) == 3
    assert read == [ledger]


def test_the_page_needs_nothing_from_anywhere(ledger: Ledger) -> None:
    world.add_suite(ledger)
    page = page_of(ledger)
    assert re.findall(r"https?://|<script|<link|@import|url\(|src=", page) == []
    assert "script-src 'none'" in html.unescape(page)
    assert "a &lt;cpu&gt;" in page
    assert "prefers-color-scheme: dark" in page


def test_any_record_with_metrics_is_shown(ledger: Ledger) -> None:
    world.add_baseline(ledger)
    misses = {"value": 7.3e-5, "low": 7.1e-5, "high": 7.5e-5, "unit": "misses/op"}
    ledger.append("hotpath", {**world.COMMON, "metrics": {"misses": misses}})
    text = text_of(page_of(ledger))
    assert "misses 7.3e-05 misses/op 7.1e-05–7.5e-05" in text
    assert "batch system 41.2 M ops/s 40–42" in text


def test_a_bisection_says_its_finding_and_how_likely_each_commit_is(ledger: Ledger) -> None:
    world.add_bisect(ledger, [])
    text = text_of(page_of(ledger))
    assert "GO: aaaaaaa made it slower" in text
    assert "bad end 1.10 1.05–1.15" in text
    assert "no commit 2.0 %" in text
    assert "98.0 % 12 blocks" in text


def test_a_soak_has_a_drawing_and_a_table_without_any_script(ledger: Ledger) -> None:
    id = world.add_soak(ledger)
    page = page_of(ledger)
    text = text_of(page)
    assert "Soak: soak_mixed with HAKMEM_X=1" in text
    assert "✗ drifts" in text
    assert "throughput changed at" in text
    assert "lazily freed: 0 in every epoch" in text
    static = re.findall(r'<svg class="chart (?:wide|narrow)".*?</svg>', page, flags=re.DOTALL)
    assert [svg.count('class="line"') for svg in static] == [1, 1, 1, 1, 3, 3]
    assert [svg.count('class="trend"') for svg in static] == [1, 1, 0, 0, 1, 1]
    assert [svg.count('class="step"') for svg in static] == [1, 1, 0, 0, 0, 0]
    data = json.loads(re.findall(rf'data-for="{id}-throughput">(.*?)</script>', page)[0])
    assert len(data["times"]) == len(data["lines"][0]["values"]) == world.EPOCHS
    assert data["lines"][0]["values"][:2] == [40.0, 40.1]


def test_the_drift_line_is_the_recorded_slope_through_the_plateau(ledger: Ledger) -> None:
    id = world.add_soak(ledger)
    record = ledger.get(id)
    data = json.loads(re.findall(rf'data-for="{id}-memory">(.*?)</script>', page_of(ledger))[0])
    (t0, v0), (t1, v1) = data["trend"]
    drift = record.body["analysis"]["drift"]["rss_kb"]["per_run"] / 1024
    assert (v1 - v0) / (t1 - t0) == pytest.approx(drift / 120, rel=1e-3)  # the axis is in seconds
    plateau = record.body["analysis"]["plateau"]["rss_kb"] / 1024
    assert (v0 + v1) / 2 == pytest.approx(plateau, abs=0.1)


def test_a_matrix_says_every_judgement_and_that_it_is_a_rehearsal(ledger: Ledger) -> None:
    world.add_matrix(ledger)
    page = page_of(ledger)
    text = text_of(page)
    assert "A rehearsal: all lengths × 0.01" in text
    assert "rule plain lean free no crash ✓ none ✓ none –" in text
    assert "✗ 44.0 of 33.0 MiB" in text
    assert page.count('class="loss" data-label="free"') == 1
    assert "0.97  [0.95–0.99]" in page


# ---- size, safety, faults ----


def test_the_charting_code_is_on_the_page_only_where_there_are_charts(ledger: Ledger) -> None:
    world.add_verdict(ledger, "is new better?", "GO", 0.9)
    world.add_matrix(ledger)
    small = page_of(ledger)
    assert "<script" not in small
    assert len(small) < 40_000
    world.add_soak(ledger)
    large = page_of(ledger)
    assert large.count("<script>") == 2
    assert len(large) > 700_000


def test_the_vendored_file_is_the_one_published() -> None:
    data = (report.VENDOR / "echarts.common.min.js").read_bytes()
    said = (report.VENDOR / "README.md").read_text()
    assert hashlib.sha256(data).hexdigest() in said
    version = re.search(rb't\.version="([\d.]+)"', data)
    assert f"| {version[1].decode()} |" in said
    assert b"</script" not in data.lower()
    assert b"\r" not in data  # a browser would normalize it, and the script's hash would differ
    for name in ("LICENSE", "NOTICE", "LICENSE-d3"):
        assert (report.VENDOR / f"echarts.{name}").stat().st_size > 100


def test_text_from_records_cannot_become_part_of_the_page(ledger: Ledger) -> None:
    world.add_verdict(ledger, world.PLANTED, "GO", 0.9)
    world.add_matrix(ledger, world.PLANTED)
    world.add_soak(ledger, world.PLANTED)
    world.add_suite(ledger, world.PLANTED)
    ledger.append(
        "baseline",
        {**world.COMMON, "metrics": {world.PLANTED: {"value": 1, "unit": world.PLANTED}}},
    )
    page = page_of(ledger)
    assert "<script>document.title" not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == page.count("<script")
    assert page.count("&lt;/script&gt;") >= 6


def test_only_the_pages_own_scripts_may_run(ledger: Ledger) -> None:
    world.add_soak(ledger)
    page = page_of(ledger)
    policy = html.unescape(re.findall(r'Security-Policy" content="([^"]*)"', page)[0])
    assert "default-src 'none'" in policy
    assert policy == report.policy(re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL))


@pytest.mark.parametrize("fault", ["gone", "changed"])
def test_raw_output_that_is_not_as_recorded_is_a_problem_and_not_a_picture(
    ledger: Ledger, own: Stand, fault: str
) -> None:
    id = world.add_soak(ledger)
    world.add_verdict(ledger, "is new better?", "GO", 0.9)
    path = ledger.raw_path(ledger.get(id).raw["epochs.csv"])
    path.write_bytes(path.read_bytes().replace(b"40000000", b"90000000"))
    if fault == "gone":
        path.unlink()
    refused(own.call("report"), f"soak {id}: its raw output", status=1)
    page = Path("out/report.html").read_text()
    assert f"soak {id}: its raw output" in text_of(page)
    assert "is new better?" in text_of(page)
    assert "<svg" in page
    assert "Soak:" not in text_of(page)


def test_the_command_takes_ids_files_and_nothing(ledger: Ledger, own: Stand) -> None:
    refused(own.call("report"), "nothing to report")
    one, two = (world.add_verdict(ledger, name, "GO", 0.9) for name in ("is a?", "is b?"))
    assert own.call("report", one, "--out", "one.html").returncode == 0
    assert "is a?" in Path("one.html").read_text()
    assert "is b?" not in Path("one.html").read_text()
    Path("epochs.csv").write_bytes(world.epochs())
    assert own.call("report", "epochs.csv").returncode == 0
    assert "read from a file, not from a record" in text_of(Path("epochs.html").read_text())
    for arguments, message in (
        (("dead", two), "no record dead"),
        (("no.csv",), "cannot read no.csv"),
        (("no.json",), "no.json is neither a record's id nor the CSV file of a soak"),
    ):
        refused(own.call("report", *arguments), message)
    assert sorted(p.name for p in Path().glob("*.html")) == ["epochs.html", "one.html"]


def test_records_of_another_form_are_said_and_not_drawn(ledger: Ledger) -> None:
    ids = [ledger.append(kind, {"metrics": {}}).id for kind in ("verdict", "matrix", "suite")]
    found = report_cli.find(ledger, records.newest(ledger.records()))
    assert sorted(p.split()[1] for p in found.problems) == sorted(ids)
    assert [found.verdicts, found.matrices, found.suites] == [[], [], []]


# ---- drawing ----


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.97, 1.31, [1.0, 1.1, 1.2, 1.3]), (-3, 3, [-2, 0, 2])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert lines.ticks(low, high, 5) == pytest.approx(expected)


def test_many_epochs_are_drawn_as_median_and_range() -> None:
    times = np.arange(1.0, 4001.0)
    values = np.where(np.arange(4000) % 2, 10.0, 20.0)
    values[2000] = np.nan
    line = lines.Line("rate", values, "--s1")
    chart = lines.Chart("x", "rate", "M", times, [line], 1000.0)
    svg = lines.drawing(chart)
    points = re.findall(r'<polyline points="([^"]*)"', svg)
    most = lines.MOST_POINTS
    assert [most / 2 < len(p.split()) <= most for p in points] == [True] * 2
    assert svg.count('class="range"') == 2
    assert re.search(r"\bnan\b", svg) is None
    assert lines.data(chart)["lines"][0]["values"][2000] is None
    assert chart.time_unit == (60, "min")


def test_a_line_without_variation_is_drawn() -> None:
    line = lines.Line("flat", np.zeros(3), "--s1")
    chart = lines.Chart("x", "flat", "M", np.array([1.0, 2.0, 3.0]), [line], 1.0, zero=True)
    assert lines.drawing(chart).count("<polyline") == 2
