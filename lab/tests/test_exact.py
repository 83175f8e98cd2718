"""`hakmem ab --metric instructions`: exact counts on a machine without hardware counters."""

from pathlib import Path

import pytest
from hakmem.hotpath import exact
from hakmem.process.sample import counters
from hakmem.stats import Interval
from standing import Stand, compile_c, need, refused


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
    ratio = exact.ratio_of({"A": [100, 102, 101], "B": [99, 98, 97]}, "B")
    assert (ratio.low, ratio.high) == (97 / 102, 99 / 100)


@pytest.fixture
def simulated() -> None:
    need("valgrind")
    if counters() is None:
        pytest.skip("counters work here: instructions are counted, not simulated")


@pytest.mark.usefixtures("simulated")
def test_a_command_that_does_more_is_found_and_recorded(own: Stand) -> None:
    def ab(*words: str) -> int:
        command = ("--", "sh", "-c", "i=0; while [ $i -lt ${N:-100} ]; do i=$((i+1)); done")
        done = own.call("ab", "--metric", "instructions", *words, *command)
        assert done.returncode in (0, 3, 4), done.stderr
        return done.returncode

    assert ab("--b", "N=500") == 3
    record = own.records()[-1]
    assert (record.kind, record.body["verdict"]) == ("verdict", "NO-GO")
    assert [m["kind"] for m in record.body["metrics"].values()] == [exact.KIND]
    assert b"callgrind" in own.ledger.raw(record.raw["callgrind.txt"])
    assert ab("--aa", "--aim", "neutral") in (0, 4)


@pytest.mark.usefixtures("simulated")
def test_a_library_that_serves_nothing_is_not_counted(own: Stand, tmp_path: Path) -> None:
    built = own.elsewhere(tmp_path / "build")
    source = tmp_path / "idle.c"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\nint main(int n, char** words) { return "
        'printf("{\\"bench\\":\\"x\\",\\"ops\\":%s}\\n", strrchr(words[n - 1], 61) + 1) < 0; }\n'
    )
    compile_c(source, built.folder / "bench" / "bench_batch")
    words = ("ab", "--metric", "instructions", "--bench", "batch_lifo", "--b")
    refused(built.call(*words, "X=1"), "ran in the operations", status=1)
    source.write_text("int nothing;\n")
    nothing = compile_c(source, tmp_path / "nothing.so", "-shared")
    refused(built.call(*words, f"lib={nothing}"), "malloc", "nothing.so")
    assert not own.records()


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--b", "X=1", "--bench", "larson_2"), "2 threads: counts are not exact"),
        (("--b", "X=1", "--bench", "batch_lifo", "--guard", "aligned"), "guards"),
        (("--aa", "--plant", "0.05", "--bench", "batch_lifo"), "planted work"),
        (("--b", "X=1", "--bench", "batch_lifo", "--margin", "0.1"), "no margin"),
        (("--b", "X=1", "--bench", "batch_lifo", "--", "true"), "one benchmark or one command"),
        (("--b", "X=1"), "what shall they run?"),
        (("--bench", "batch_lifo"), "one cell is nothing to compare"),
    ],
)
def test_what_cannot_be_counted_is_one_clear_line(
    stand: Stand, words: tuple[str, ...], said: str
) -> None:
    refused(stand.call("ab", "--metric", "instructions", "--no-record", *words), said)
