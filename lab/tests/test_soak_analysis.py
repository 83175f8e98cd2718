"""A soak's analysis on simulated soaks whose truth is known, and its error rates."""

import io
import re
import sys

import numpy as np
import pytest
from hakmem.errors import LabError
from hakmem.scorecard import targets
from hakmem.soak import analysis, epochs_csv, session, view
from hakmem.soak.analysis import MEMORY, RATE
from hakmem.soak.epochs_csv import Soak
from rich.console import Console
from scipy.signal import lfilter


def correlated(rng: np.random.Generator, soaks: int, epochs: int, rho: float) -> np.ndarray:
    """Series with mean 0 and variance 1, where `rho` is the correlation of neighbouring epochs."""
    burn = 200
    shocks = rng.standard_normal((soaks, epochs + burn)) * np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], shocks, axis=1)[:, burn:]


def of(**columns: np.ndarray) -> Soak:
    length = len(next(iter(columns.values())))
    return Soak({"t_s": np.arange(1.0, length + 1), **columns})


# ---- drift ----


def test_raw_epochs_see_trends_that_are_not_there_and_block_medians_rarely_do() -> None:
    """300 soaks of 300 correlated epochs without a trend; each test at 5 %."""
    epochs = correlated(np.random.default_rng(1), 300, 300, 0.8)[:, 75:]
    x = np.arange(epochs.shape[1]) - (epochs.shape[1] - 1) / 2
    slopes = epochs @ x / (x @ x)
    residues = epochs - epochs.mean(axis=1, keepdims=True) - slopes[:, None] * x
    errors = np.sqrt((residues**2).sum(axis=1) / (len(x) - 2) / (x @ x))
    raw = float(np.mean(np.abs(slopes / errors) > 1.96))
    found = [analysis.slope(x, series) for series in epochs]
    blocks = float(np.mean([low > 0 or high < 0 for _, _, low, high in found]))
    assert raw > 0.25
    assert blocks < 0.12


def test_twenty_blocks_and_ten_where_they_still_resemble_each_other() -> None:
    times = np.arange(200.0)
    rng = np.random.default_rng(2)
    assert analysis.slope(times, rng.standard_normal(200))[0] == 20
    waves = np.sin(times / 25) + 0.01 * rng.standard_normal(200)
    assert analysis.slope(times, waves)[0] == 10


def test_block_medians_leave_out_epochs_in_front() -> None:
    assert analysis.block_medians(np.array([9.0, 1, 2, 3, 4, 5, 6]), 2).tolist() == [2, 5]


@pytest.mark.parametrize(
    ("per_run_kb", "state"), [(8000, "drifts"), (300, "none"), (-8000, "none"), (1024, "open")]
)
def test_planted_leaks(per_run_kb: float, state: str) -> None:
    """The margin is 1 MiB: a leak above it drifts, one below does not, one of that size is open."""
    rng = np.random.default_rng(3)
    trend = per_run_kb * np.arange(400) / 400
    rss = 40000 + trend + 300 * correlated(rng, 1, 400, 0.5)[0]
    found = analysis.analyze(of(rss_kb=rss)).drift["rss_kb"]
    assert found.margin == 1024
    assert found.state == state
    assert found.low < found.per_run < found.high


def test_nearly_every_planted_leak_is_found_and_hardly_any_soak_without_one_is_blamed() -> None:
    rng = np.random.default_rng(4)
    noise = 400 * correlated(rng, 200, 300, 0.5)
    times = np.arange(1.0, 301)

    def share(leak: float) -> float:
        rows = 50000 + noise + leak * times / 300
        states = [analysis.drift(times, row, 300, MEMORY).state for row in rows]
        return states.count("drifts") / len(rows)

    assert share(leak=4000) > 0.95
    assert share(leak=0) == 0


def test_the_margin_is_the_larger_of_a_share_and_a_floor() -> None:
    assert MEMORY.around(50_000) == 1024
    assert MEMORY.around(500_000) == 5000
    assert RATE.around(1e6) == 5e4


@pytest.mark.parametrize(("column", "by"), [("rss_kb", 2), ("ops_per_s", 0.5)])
@pytest.mark.parametrize("noise", [0, 0.005])
def test_what_changes_only_in_the_end_is_seen(column: str, by: float, noise: float) -> None:
    values = 50000 * (1 + noise * correlated(np.random.default_rng(9), 1, 400, 0.5)[0])
    values[370:] *= by
    found = analysis.analyze(of(**{column: values}))
    drift = found.drift[column]
    assert drift.state == "open"
    assert max(-drift.low, drift.high) > drift.margin, "its interval says so too"
    (change,) = found.changes[column]
    assert 360 <= change.t_s <= 380
    assert change.after / change.before == pytest.approx(by, abs=0.02)
    values[370:] /= by
    values[396:] *= by  # too short to be reported
    found = analysis.analyze(of(**{column: values}))
    assert (found.drift[column].state, found.changes[column]) == ("none", [])


@pytest.mark.parametrize(("change", "state"), [(-0.3, "drifts"), (0.3, "none"), (0.0, "none")])
def test_throughput_that_fades_is_drift_and_one_that_rises_is_not(
    change: float, state: str
) -> None:
    rng = np.random.default_rng(5)
    rates = 1e6 * (1 + change * np.arange(300) / 300 + 0.01 * rng.standard_normal(300))
    assert analysis.analyze(of(ops_per_s=rates)).drift["ops_per_s"].state == state


def test_the_first_quarter_is_warm_up() -> None:
    rss = np.full(100, 50000.0)
    rss[:25] = np.linspace(1000, 50000, 25)
    found = analysis.analyze(of(rss_kb=rss))
    assert (found.epochs, found.used) == (100, 75)
    assert found.drift["rss_kb"].state == "none"
    assert found.plateau["rss_kb"] == 50000
    assert found.spread["rss_kb"].cv == 0


def test_too_few_epochs_leave_drift_open() -> None:
    found = analysis.analyze(of(rss_kb=np.linspace(1000, 900000, 20)))
    assert found.drift["rss_kb"].state == "open"
    with pytest.raises(LabError, match="too few"):
        analysis.analyze(of(rss_kb=np.ones(3)))


# ---- spread, percentiles, steps ----


def test_both_coefficients_of_variation() -> None:
    values = np.array([90.0, 100, 110, 100, 1000])
    found = analysis.spread(values)
    assert found.cv == pytest.approx(np.std(values, ddof=1) / 280)
    assert found.robust_cv == pytest.approx(1.4826 * 10 / 100)


@pytest.mark.parametrize(
    ("percentile", "needs"),
    [
        *(("p50", 5), ("p10", 29), ("p5", 59), ("p1", 299), ("p0.1", 2995)),
        *(("p90", 29), ("p95", 59), ("p99", 299), ("p99.9", 2995)),
    ],
)
def test_a_percentile_needs_enough_epochs_behind_it(percentile: str, needs: int) -> None:
    assert analysis.epochs_needed(percentile) == needs
    column = "ns_per_op" if float(percentile[1:]) > 50 else "ops_per_s"
    for epochs, carried in ((needs - 1, False), (needs, True)):
        found = analysis.distributions({column: np.linspace(1, 2, epochs)})
        seen = found[column].percentiles[percentile]
        assert (seen.carried, seen.needs) == (carried, needs)
        assert seen.value == pytest.approx(1 + float(percentile[1:]) / 100)


def test_only_as_many_epochs_as_are_needed_reach_beyond_the_true_percentile() -> None:
    rng = np.random.default_rng(8)
    slowest = rng.random((4000, analysis.epochs_needed("p5"))).min(axis=1)
    assert np.mean(slowest < 0.05) == pytest.approx(0.95, abs=0.01)


def test_the_distribution_of_rates_and_of_the_time_per_operation() -> None:
    rates = np.linspace(1e6, 2e6, 400)
    found = analysis.analyze(of(ops_per_s=rates)).distributions
    assert list(found) == ["ops_per_s", "ns_per_op"]
    used = rates[100:]
    of_rates, of_times = found.values()
    assert (of_rates.minimum, of_rates.maximum) == (used[0], used[-1])
    assert of_rates.mean == pytest.approx(used.mean())
    assert of_rates.sd == pytest.approx(used.std(ddof=1))
    assert of_rates.cv == pytest.approx(of_rates.sd / of_rates.mean)
    assert of_times.maximum == pytest.approx(1e9 / used[0])
    assert of_times.percentiles["p99"].value == pytest.approx(np.quantile(1e9 / used, 0.99))
    stalled = analysis.analyze(of(ops_per_s=np.append(rates, 0.0))).distributions
    assert list(stalled) == ["ops_per_s"], "an epoch without operations has no time per operation"
    times = analysis.analyze(of(ns_per_op=1e9 / rates))
    assert times.distributions["ops_per_s"].mean == pytest.approx(used.mean())


def test_a_planted_step_is_found_where_it_is() -> None:
    rng = np.random.default_rng(6)
    rates = 1e6 * (1 + 0.02 * correlated(rng, 1, 400, 0.5)[0])
    rates[250:] *= 0.85
    (change,) = analysis.changes(np.arange(400.0), rates, RATE)
    assert 240 <= change.t_s <= 260
    assert change.after / change.before == pytest.approx(0.85, abs=0.02)


def test_noise_that_lingers_is_no_step() -> None:
    series = 1e6 * (1 + 0.05 * correlated(np.random.default_rng(7), 40, 300, 0.5))
    times = np.arange(300.0)
    assert sum(bool(analysis.changes(times, row, RATE)) for row in series) <= 2


def test_a_step_below_the_margin_is_nothing() -> None:
    rss = np.full(200, 50000.0)
    rss[100:] += 600
    assert analysis.changes(np.arange(200.0), rss, MEMORY) == []
    rss[100:] += 600
    assert len(analysis.changes(np.arange(200.0), rss, MEMORY)) == 1


def test_memory_is_split_and_rates_are_also_by_processor_time() -> None:
    ones = np.ones(40)
    found = analysis.analyze(
        of(
            ops=1000 * ones,
            ops_per_s=1000 * ones,
            rss_kb=9000 * ones,
            lazyfree_kb=4000 * ones,
            live_kb=3000 * ones,
            user_s=0.4 * ones,
            sys_s=0.1 * ones,
        )
    )
    assert found.plateau["resident_kb"] == 5000
    assert found.plateau["live_kb"] == 3000
    assert found.plateau["ops_per_cpu_s"] == 2000
    assert found.cpu_share == pytest.approx(0.5)


def test_calls_per_operation_only_where_they_were_counted() -> None:
    columns = {"t_s": np.arange(1.0, 41)}
    counted = Soak(columns, {"os calls": "50", "operations": "1000000"})
    assert analysis.analyze(counted).calls_per_op == 5e-5
    unknown = Soak(columns, {"os calls": "not counted", "operations": "1000000"})
    assert analysis.analyze(unknown).calls_per_op is None


def test_an_analysis_is_json() -> None:
    found = analysis.analyze(of(rss_kb=np.ones(20))).to_dict()
    assert found["drift"]["rss_kb"]["low"] is None
    found = analysis.analyze(of(ops_per_s=np.full(80, 5.0))).to_dict()
    percentiles = found["distributions"]["ops_per_s"]["percentiles"]
    assert percentiles["p5"] == {"value": 5.0, "carried": True, "needs": 59}
    assert percentiles["p1"] == {"value": 5.0, "carried": False, "needs": 299}


def test_a_record_holds_the_percentiles_that_its_epochs_carry_and_no_other() -> None:
    found = session.metrics(analysis.analyze(of(ops_per_s=np.full(80, 5e8))))
    assert found["throughput_p5"] == {"value": 5e8, "unit": "ops/s"}
    assert found["ns_per_op_p95"] == {"value": 2.0, "unit": "ns/op"}
    assert not {"throughput_p1", "throughput_p0.1", "ns_per_op_p99", "ns_per_op_p99.9"} & set(found)
    known = re.compile(targets.METRICS["soak"])
    assert all(known.fullmatch(name) for name in found)


def test_a_soak_without_what_debian_has_not_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ruptures", "plotext"):
        monkeypatch.setitem(sys.modules, name, None)
    found = analysis.analyze(of(rss_kb=np.full(80, 2048.0)))
    assert found.drift["rss_kb"].state == "none"
    assert found.changes == {}
    assert found.remarks == (
        "lasting steps were not searched for: Python's ruptures is not installed",
    )
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with view.Watch(console, "a soak", None) as watch:
        watch.update({"epoch": 0, "t_s": 1.0, "rss_kb": 2048.0})
    assert "no curves: Python's plotext is not installed" in console.file.getvalue()


# ---- the file ----

HEAD = "epoch,t_s,ops_per_s,rss_kb\n"


def rows(count: int) -> str:
    return "".join(f"{i},{i + 1}.0,{1000 + i},2048\n" for i in range(count))


def test_facts_and_columns_are_read_back() -> None:
    head = epochs_csv.header({"command": "a\nb", "lab": "1"}, ["epoch", "t_s", "rss_kb"])
    soak = epochs_csv.parse(head + "0,1.0,5\n1,2.0,6\n# os calls: 7\n# end: 2 epochs\n")
    assert soak.facts["command"] == "a b"
    assert soak.facts["os calls"] == "7"
    assert soak.columns["rss_kb"].tolist() == [5, 6]
    assert soak.remarks == ()


def test_the_bare_output_of_the_benchmark_is_a_soak() -> None:
    text = HEAD + rows(30) + "Throughput = 5 operations per second\n" + '{"bench":"x"}\n'
    assert epochs_csv.parse(text).epochs == 30


def test_a_column_that_is_not_known_is_left_out_and_said() -> None:
    soak = epochs_csv.parse("epoch,t_s,mood,t_s\n0,1,3,1\n1,2,3,2\n")
    assert soak.columns.keys() == {"epoch", "t_s"}
    assert soak.remarks == (
        "column mood is not known and was left out",
        "column t_s is there once more and was left out",
    )


def test_a_torn_last_line_is_left_out_and_said() -> None:
    soak = epochs_csv.parse(HEAD + rows(30) + "30,31.0,10")
    assert soak.epochs == 30
    assert any("torn" in remark for remark in soak.remarks)


def test_a_soak_without_its_end_is_said_to_be_so() -> None:
    text = epochs_csv.header({}, ["epoch", "t_s"]) + "0,1\n1,2\n"
    assert any("did not reach its end" in r for r in epochs_csv.parse(text).remarks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no epochs"),
        (HEAD, "no epochs"),
        (HEAD + "0,1.0,x,5\n" + rows(3), "line 2 is damaged"),
        ("epoch,rss_kb\n0,5\n", "no column with the time"),
        (HEAD + "0,2.0,1,5\n1,1.0,1,5\n", "line 3, column t_s: the time does not rise"),
        (HEAD + rows(3) + "3,,1,5\n", "line 5, column t_s: the time does not rise"),
        (HEAD + rows(3) + "# a fact: x\n3,4.0,-1,5\n", "line 6, column ops_per_s: -1 is no"),
        (HEAD + rows(3) + "3,4.0,1,-0.5\n", "line 5, column rss_kb: -0.5 is no"),
        (HEAD + rows(3) + "3,4.0,inf,5\n", "line 5, column ops_per_s: inf is no"),
        (HEAD + "0,1.0,,5\n1,2.0,nan,5\n", "column ops_per_s has no number in lines 2 to 3"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        epochs_csv.parse(text)
