"""`hakmem baseline` over the stand-in build."""

import subprocess
from collections.abc import Callable
from functools import partial

import pytest
from hakmem.paired.baseline import BENCHES, FULL_OPS, Mix, mix_of
from hakmem.stats import variation
from standing import Stand, ran

Baseline = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def baseline(own: Stand) -> Baseline:
    return partial(own.call, "baseline", "--seed", 1)


def test_one_table_with_the_hosts_facts_and_its_record(baseline: Baseline, own: Stand) -> None:
    done = ran(baseline("--runs", 3))
    for fact in ("governor: ", "frequency: ", "virtualisation: "):
        assert fact in done.stdout
    said = done.stdout.splitlines()
    rows = [line.split() for line in said if line.startswith("random_mixed") and "÷" not in line]
    assert [row[:2] for row in rows] == [[b, a] for b in BENCHES for a in ("hakmem", "system")]
    # Runs are taken in pairs, so 3 becomes 4; the stand-in's rate never varies.
    assert all(int(row[2]) == 4 and row[-2] == "0.0" for row in rows)
    runs = [line for line in said if line.startswith("run ")]
    assert len(runs) == 4 * 2 * len(BENCHES)
    assert all(f"run 4: {bench}, hakmem: 0.00 M ops/s" in runs for bench in BENCHES)
    for bench in BENCHES:
        assert f"{bench}: throughput, hakmem ÷ system: 1.000 [1.000–1.000] range" in said
    *others, last = own.records()
    assert last.kind == "baseline"
    assert last.body["metrics"]["random_mixed_400 hakmem"] == {
        "value": 2000.0,
        "low": 2000.0,
        "high": 2000.0,
        "unit": "ops/s",
        "kind": "range",
        "runs": 4,
    }
    assert last.body["metrics"]["random_mixed_400 ratio"]["estimate"] == 1
    assert last.body["source"]["commit"]
    assert [record.kind for record in others] == ["setting"]


def test_a_mix_of_ones_own_is_run_as_said_and_recorded(baseline: Baseline, own: Stand) -> None:
    """The seed of the mix is 42; the record's seed, of the order of runs, stays 1."""
    ran(baseline("100000", "256", "42", "--range", "32-64"))
    last = own.records("baseline")[-1]
    asked = {"ops": 100000, "slots": 256, "seed": 42, "smallest": 32, "largest": 64}
    assert (last.body["mix"], last.body["seed"]) == (asked, 1)
    assert own.output().count("bench_random_mixed 100000 256 42 32 64") == 2
    work = last.body["benchmarks"][0]["works"]["random_mixed"]
    assert work["executable"] == "bench_random_mixed"
    assert work["arguments"] == ["100000", "256", "42", "32", "64"]
    assert work["definition"]
    assert {"random_mixed hakmem", "random_mixed ratio"} <= last.body["metrics"].keys()


def test_what_is_not_said_of_a_mix_is_as_in_the_suite(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_BUILD_DIR", str(stand.folder))
    assert mix_of([], None) is None
    assert mix_of([5, 300], None) == Mix(ops=5, slots=300)
    assert Mix(slots=300).work().amount == FULL_OPS
    assert Mix(ops=5).work().command.argv(1)[1:] == ("5", "8192", "1234567", "16", "1040")


def test_no_record_and_fewer_than_three_runs(baseline: Baseline, own: Stand) -> None:
    assert "not recorded" in baseline("--no-record").stdout
    assert not own.evidence.exists()
    assert baseline("--runs", 2).returncode == 2


def test_the_variation_of_runs() -> None:
    assert variation((90.0, 100.0, 110.0)) == pytest.approx(0.1)
