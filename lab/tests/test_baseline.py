"""`hakmem baseline` over the stand-in build."""

import subprocess
from pathlib import Path

import pytest
from hakmem.ledger.store import Ledger
from hakmem.paired.baseline import BENCHES, Spread
from standing import Stand


def baseline(stand: Stand, evidence: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return stand.call("baseline", "--seed", 1, *more, LAB_LEDGER=str(evidence))


def test_one_table_with_the_hosts_facts_and_its_record(stand: Stand, tmp_path: Path) -> None:
    done = baseline(stand, tmp_path, "--runs", 3)
    assert done.returncode == 0, done.stderr
    for fact in ("governor: ", "frequency: ", "virtualisation: "):
        assert fact in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("random_mixed")]
    assert [row[:2] for row in rows] == [[b, a] for b in BENCHES for a in ("hakmem", "system")]
    # Runs are taken two by two, and the stand-in is always equally fast.
    assert all(int(row[2]) == 4 and row[-2] == "0.0" for row in rows)
    *others, last = Ledger(tmp_path).records()
    assert last.kind == "baseline"
    assert last.body["metrics"]["random_mixed_400 hakmem"] == {
        "value": 2000.0,
        "low": 2000.0,
        "high": 2000.0,
        "unit": "ops/s",
        "kind": "range",
        "runs": 4,
    }
    assert last.body["source"]["commit"]
    assert sum(record.kind == "sample" for record in others) == 4 * 2 * len(BENCHES)


def test_no_record_and_fewer_than_three_runs(stand: Stand, tmp_path: Path) -> None:
    assert "not recorded" in baseline(stand, tmp_path / "x", "--no-record").stdout
    assert not (tmp_path / "x").exists()
    assert baseline(stand, tmp_path, "--runs", 2).returncode == 2


def test_a_benchmark_that_is_not_built_says_make_build(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "libhakmem.so").symlink_to(stand.library)
    done = stand.call("baseline", LAB_BUILD_DIR=str(tmp_path), LAB_LEDGER=str(tmp_path / "x"))
    assert done.returncode == 2
    assert "make build" in done.stderr


def test_the_spread_of_runs() -> None:
    spread = Spread("b", "a", (90.0, 100.0, 110.0))
    assert spread.median == 100
    assert spread.variation == pytest.approx(0.1)
