"""`hakmem ab --metric instructions`: exact counts where no counter works."""

import shutil
from pathlib import Path

import pytest
from hakmem.hotpath import exact
from hakmem.ledger.store import Ledger
from hakmem.stats import Interval
from standing import Stand, refused

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed"
)


@pytest.mark.parametrize(
    ("low", "high", "improvement", "neutral"),
    [
        (0.90, 0.91, "GO", "GO"),
        (0.9985, 0.9995, "UNDECIDED", "GO"),
        (0.9995, 1.0005, "UNDECIDED", "GO"),
        (0.9995, 1.01, "UNDECIDED", "UNDECIDED"),
        (1.002, 1.003, "NO-GO", "NO-GO"),
    ],
)
def test_a_thousandth_decides(low: float, high: float, improvement: str, neutral: str) -> None:
    ratio = Interval((low + high) / 2, low, high, exact.KIND)
    assert exact.verdict(ratio, "improvement") == improvement
    assert exact.verdict(ratio, "neutral") == neutral


def test_the_ends_are_the_farthest_of_any_two_runs() -> None:
    counted = exact.Counted({"A": [100, 102, 101], "B": [99, 98, 97]}, "")
    ratio = counted.ratio("B")
    assert (ratio.low, ratio.high) == (97 / 102, 99 / 100)


@needs_valgrind
def test_a_command_that_does_more_is_found_and_recorded(stand: Stand, tmp_path: Path) -> None:
    def ab(*words: str) -> int:
        command = ("--", "sh", "-c", "i=0; while [ $i -lt ${N:-100} ]; do i=$((i+1)); done")
        own = {"LAB_LEDGER": str(tmp_path / "led")}
        done = stand.call("ab", "--metric", "instructions", *words, *command, **own)
        assert done.returncode in (0, 3, 4), done.stderr
        return done.returncode

    from hakmem.process.sample import counters

    if counters() is None:
        pytest.skip("counters work here: instructions are counted, not simulated")
    assert ab("--b", "N=500") == 3
    record = list(Ledger(tmp_path / "led").records())[-1]
    assert (record.kind, record.body["verdict"]) == ("verdict", "NO-GO")
    assert [m["kind"] for m in record.body["metrics"].values()] == [exact.KIND]
    assert (
        b"callgrind" in Ledger(tmp_path / "led").raw_path(record.raw["callgrind.txt"]).read_bytes()
    )
    assert ab("--aa", "--aim", "neutral") in (0, 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--b", "X=1", "--bench", "larson_2"), "2 threads: counts are not exact"),
        (("--b", "X=1", "--bench", "batch_lifo", "--guard", "aligned"), "no guards"),
        (("--b", "X=1"), "what shall they run?"),
        (("--bench", "batch_lifo"), "one cell is nothing to compare"),
    ],
)
def test_what_cannot_be_counted_is_one_clear_line(
    stand: Stand, words: tuple[str, ...], said: str
) -> None:
    from hakmem.process.sample import counters

    if counters() is None or shutil.which("valgrind") is None:
        pytest.skip("nothing is simulated here")
    done = stand.call("ab", "--metric", "instructions", *words)
    refused(done, said)
