"""The rules of a comparison over many rows: words, blocks, samples, choice of benchmarks."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hakmem import words
from hakmem.errors import LabError
from hakmem.paired import protocol, session, suite_record, suite_run, suite_table, work
from hakmem.paired.blocks import Track
from hakmem.paired.readings import choose
from hakmem.process import argv
from hakmem.process.sample import Sample
from hakmem.stats import Interval
from hakmem.suite import SUITE


@pytest.mark.parametrize(
    ("verdict", "low", "high", "kind", "word"),
    [
        ("GO", 0.001, 0.002, "CI", "win"),
        ("NO-GO", -0.5, -0.4, "CI", "loss"),
        ("UNDECIDED", -0.04, 0.04, "CI", "tie"),
        ("UNDECIDED", -0.04, 0.06, "CI", "undecided"),
        ("UNDECIDED", -0.06, 0.04, "CI", "undecided"),
        ("UNDECIDED", -0.04, 0.04, "range", "undecided"),
    ],
)
def test_words(verdict: Any, low: float, high: float, kind: str, word: str) -> None:
    target = Interval((low + high) / 2, low, high, kind)
    assert suite_record.word(protocol.Decision(verdict, target, (), 8, 0.0182, True)) == word


def test_the_best_rival_has_beaten_hakmem_or_comes_nearest_to_it() -> None:
    told = {"a": (0.8, "undecided"), "b": (0.9, "win"), "c": (0.98, "tie"), "d": (0.97, "loss")}
    found = {f"x against {name}": {"value": v, "verdict": word} for name, (v, word) in told.items()}
    for best in "dcba":
        row = {"benchmark": "x", "better": "lower"}
        row["figures"] = dict.fromkeys(told)
        assert suite_table.best_rival(row, found) == best
        del told[best]
    assert "no difference" in words.TIE


def test_ratios_are_shown_with_their_intervals() -> None:
    entry = {"value": 0.9, "low": 0.8, "high": 1.1, "kind": "range", "verdict": "undecided"}
    assert suite_table.ratio(entry) == "? 0.90 [0.80–1.10] range"
    small = {"value": 0.0415, "low": 0.0318, "high": 0.0547, "kind": "CI", "verdict": "win"}
    assert suite_table.ratio(small) == "▲ 0.042 [0.032–0.055]"
    assert suite_table.ratio(None) == "–"


@pytest.mark.parametrize(
    ("metric", "time", "cpu"),
    [
        ("cpu", "time", "time"),
        ("user", "time", "time"),
        ("wall", "time", None),
        ("faults", None, None),
        ("sys", None, None),
        ("rss", None, None),
        ("regex:(.)", None, None),
    ],
)
def test_only_times_are_in_a_mean_of_times(metric: str, time: str | None, cpu: str | None) -> None:
    part = {"reading": choose(metric, None).words, "ratios": {"time": {}, "memory": {}}}
    found = [suite_record.in_mean(kind, part) for kind in ("time", "cpu", "memory", "wall")]
    assert found == [time, cpu, "memory", None]


def test_so_few_blocks_that_nothing_could_be_decided_are_refused() -> None:
    for rivals in (1, 2, 8, 9):
        least = protocol.least_blocks(rivals)
        gains = {str(n): [[0.5] * least] for n in range(rivals)}
        fewer = {name: [tracks[0][1:]] for name, tracks in gains.items()}
        decided = protocol.look(gains, "improvement", 0.01, last=True)
        assert {d.verdict for d in decided.values()} == {"GO"}
        decided = protocol.look(fewer, "improvement", 0.01, last=True)
        assert {d.verdict for d in decided.values()} == {"UNDECIDED"}
    protocol.require_decidable(8, 10)
    with pytest.raises(LabError, match="--max-blocks 10 or more"):
        protocol.require_decidable(8, 9)
    assert protocol.thin(8, 20) == ""
    assert protocol.thin(8, 19).endswith(
        "19 of them decide nothing over 8 cells: --max-blocks 20 would"
    )


def of_batches(metric: str) -> Track:
    """A track of two cells whose samples each do 1000 rounds."""
    command = SUITE.command("batch_lifo")
    own = work.Work("batch_lifo", command=command, amount=1000)
    return Track("batch_lifo", "target", choose(metric, "batch_lifo"), dict.fromkeys("AB", own))


def test_a_block_has_as_many_samples_as_fill_its_seconds() -> None:
    track = of_batches("wall")

    def turns(timed: float, wall: float, seconds: float, reading: str = "wall") -> int:
        found = {
            at: Sample("x", wall_s=wall * slow, result={"seconds": timed * slow})
            for at, slow in (("A", 1), ("B", 7))
        }
        own = replace(track, reading=choose(reading, "batch_lifo"))
        return session.turns(own, found, seconds)

    assert turns(0.02, 0.03, 1.0) == 25
    assert turns(0.02, 0.03, 0.0) == 1
    assert turns(2.0, 2.0, 1.0) == 1
    # A program with a long start-up is started less often.
    assert turns(0.01, 0.3, 1.0) == 5
    assert turns(0.02, 0.03, 1.0, "rss") == 1


def test_where_time_is_short_samples_are_fewer_and_then_shorter() -> None:
    track = of_batches("cpu")
    # A tenth of each sample is start-up. A pair takes 1 s, so one turn, there and back, takes 2 s.
    found = {at: Sample("x", wall_s=0.5, result={"seconds": 0.45}) for at in "AB"}

    def sized(most_s: float) -> tuple[int, int, float]:
        chosen, block_s = session.sized(track, found, 4.5, most_s)
        return chosen.turns, chosen.works["A"].amount, pytest.approx(block_s)

    assert sized(math.inf) == (5, 1000, 10.0)
    assert sized(7.0) == (3, 1000, 6.0)
    assert sized(1.1) == (1, 500, 1.1)
    # Never shorter than a quarter: else start-up would be measured.
    assert sized(0.0) == (1, 250, 0.65)


def test_each_benchmark_is_there_once_unless_another_figure_is_named() -> None:
    names = [figure.name for figure in suite_run.chosen([])]
    assert len(names) == len(set(names)) == len({f.command for f in suite_run.chosen([])})
    assert [f.name for f in suite_run.chosen(["*_100000*"])] == ["random_mixed_100000"]
    assert "peak" not in names
    assert [f.name for f in suite_run.chosen(["peak"], everything=True)] == [*names, "peak"]
    assert [f.name for f in suite_run.chosen(["p*"])] == ["prodcons"]
    named = suite_run.chosen(["random_mixed_100000_process"])
    assert [f.name for f in named] == ["random_mixed_100000_process"]


def test_the_command_line_is_known_without_its_seed_and_page() -> None:
    words = ["hakmem", "compare", "--resume", "--seed", "7", "--suite", "--seed=8", "--page", "x"]
    assert argv.without_seed(words) == ["hakmem", "compare", "--suite"]
