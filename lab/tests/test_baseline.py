"""`hakmem baseline` over the stand-in build."""

import subprocess
from pathlib import Path

import pytest
from hakmem.ledger.store import Ledger
from hakmem.paired.baseline import BENCHES, FULL_OPS, Mix, Spread, mix_of
from standing import Stand


def baseline(stand: Stand, evidence: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return stand.call("baseline", "--seed", 1, *more, LAB_LEDGER=str(evidence))


def test_one_table_with_the_hosts_facts_and_its_record(stand: Stand, tmp_path: Path) -> None:
    done = baseline(stand, tmp_path, "--runs", 3)
    assert done.returncode == 0, done.stderr
    for fact in ("governor: ", "frequency: ", "virtualisation: "):
        assert fact in done.stdout
    said = done.stdout.splitlines()
    rows = [line.split() for line in said if line.startswith("random_mixed") and "÷" not in line]
    assert [row[:2] for row in rows] == [[b, a] for b in BENCHES for a in ("hakmem", "system")]
    # Runs are taken two by two, and the stand-in is always equally fast.
    assert all(int(row[2]) == 4 and row[-2] == "0.0" for row in rows)
    runs = [line for line in said if line.startswith("run ")]
    assert len(runs) == 4 * 2 * len(BENCHES)
    assert all(f"run 4: {bench}, hakmem: 0.00 M ops/s" in runs for bench in BENCHES)
    for bench in BENCHES:
        assert f"{bench}: throughput, hakmem ÷ system: 1.000 [1.000–1.000] range" in said
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
    assert last.body["metrics"]["random_mixed_400 ratio"]["estimate"] == 1
    assert last.body["source"]["commit"]
    assert [record.kind for record in others] == ["setting"]


def test_a_mix_of_ones_own_is_run_as_said_and_recorded(stand: Stand, tmp_path: Path) -> None:
    """By numbers, as the older documents have it, and by options; --seed stays the order's."""
    for arguments in (
        ("100000", "256", "42", "--range", "32-64"),
        ("--ops", "100000", "--slots", "256", "--bench-seed", "42", "--range", "32-64"),
    ):
        done = baseline(stand, tmp_path, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        *others, last = Ledger(tmp_path).records()
        asked = {"ops": 100000, "slots": 256, "seed": 42, "smallest": 32, "largest": 64}
        assert (last.body["mix"], last.body["seed"]) == (asked, 1)
        said = Ledger(tmp_path).raw_path(others[-1].raw["output.txt"]).read_text()
        assert said.count("bench_random_mixed 100000 256 42 32 64") == 2
        work = last.body["benchmarks"][0]["works"]["random_mixed"]
        assert work["executable"] == "bench_random_mixed"
        assert work["arguments"] == ["100000", "256", "42", "32", "64"]
        assert work["definition"]
        assert {"random_mixed hakmem", "random_mixed ratio"} <= last.body["metrics"].keys()


def test_what_is_not_said_of_a_mix_is_as_in_the_suite(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_BUILD_DIR", str(stand.folder))
    assert mix_of([], None, None, None, None) is None
    assert mix_of([], None, 300, None, None) == Mix(slots=300)
    assert Mix(slots=300).work().amount == FULL_OPS
    assert Mix(ops=5).work().command.argv(1)[1:] == ("5", "8192", "1234567", "16", "1040")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1", "2", "3", "4"), "OPS SLOTS SEED are expected, not 4 numbers"),
        (("5", "0"), "must be at least 1: slots 0"),
        (("5", "--ops", "6"), "said twice, as a number and as an option: ops"),
        (("--range", "64-32"), "--range is MIN-MAX in bytes, such as 16-1040, not '64-32'"),
        (("--range", "64"), "not '64'"),
        (("--range", "0-64"), "not '0-64'"),
    ],
)
def test_what_is_no_mix_is_one_line(
    stand: Stand, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = baseline(stand, tmp_path, *arguments)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert message in done.stderr


def test_no_record_and_fewer_than_three_runs(stand: Stand, tmp_path: Path) -> None:
    assert "not recorded" in baseline(stand, tmp_path / "x", "--no-record").stdout
    assert not (tmp_path / "x").exists()
    assert baseline(stand, tmp_path, "--runs", 2).returncode == 2


def test_the_spread_of_runs() -> None:
    spread = Spread("b", "a", (90.0, 100.0, 110.0))
    assert spread.median == 100
    assert spread.variation == pytest.approx(0.1)
