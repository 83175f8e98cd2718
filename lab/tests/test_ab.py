"""`hakmem ab`: the paired run with planted samples, and the command over the stand-in build."""

import json
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.ledger.verify import verify
from hakmem.paired import ab as ab_module, blocks, cells, protocol, readings, recording, work
from hakmem.paired.blocks import Outcome, Plan, Track, Trial
from hakmem.paired.work import Work
from hakmem.process import host, library, provenance
from hakmem.process.sample import Sample
from hakmem.suite import NULL, Reference
from standing import (
    INTERRUPTED,
    Stand,
    compile_c,
    compile_static,
    ended,
    flat,
    ran,
    refused,
    script,
    until,
)

NAMES = "ABCD"


def plan(count: int = 2, guards: int = 0, net: bool = False, **more: object) -> Plan:
    sides = {at: cells.Cell(at, library.system()) for at in NAMES[:count]}
    reading = readings.choose("cpu", None)
    works = dict.fromkeys(sides, Work("job"))
    floor = Reference(NULL) if net else None
    tracks = [Track("job", "target", reading, works, floor)]
    tracks += [Track(f"guard{n}", "guard", reading, works) for n in range(guards)]
    return Plan(sides, tracks, **{"seed": 3, **more})


class Planted:
    """A sampler with planted costs: a factor for each cell, or for a cell on one track."""

    def __init__(self, noise: float, floor: float = 0.0, **factors: float) -> None:
        self.rng, self.noise, self.floor = random.Random(7), noise, floor
        self.factors = factors
        self.failing: dict[str, int] = {}
        self.trials: list[Trial] = []

    def __call__(self, trial: Trial) -> Sample:
        self.trials.append(trial)
        blank = Sample(trial.track.name, trial.round, trial.position)
        if trial.round >= self.failing.get(trial.letter, 1000):
            return replace(blank, error="planted")
        own = self.factors.get(f"{trial.track.name}_{trial.letter}")
        factor = own if own is not None else self.factors.get(trial.letter, 1.0)
        cost = self.floor if trial.letter == blocks.FLOOR else self.floor + factor
        # The machine slows down steadily, over a run by about as much as the effects looked for.
        drift = 1 + 0.001 * len(self.trials)
        return replace(blank, user_s=cost * drift * math.exp(self.rng.gauss(0, self.noise)))


def blocks_of(outcome: Outcome, letter: str = "B") -> int:
    return outcome.decisions[letter].blocks


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"),
    [(0.95, 0.01, "GO"), (1.05, 0.01, "NO-GO"), (1.0, 0.05, "UNDECIDED")],
)
def test_planted_costs_give_the_three_verdicts(factor: float, noise: float, verdict: str) -> None:
    outcome = blocks.run(plan(), Planted(noise, B=factor))
    decision = outcome.decisions["B"]
    assert decision.verdict == verdict
    assert decision.target.low < -math.log(factor) < decision.target.high
    assert decision.blocks == (30 if verdict == "UNDECIDED" else 8)
    assert len(outcome.blocks) == decision.blocks


def test_a_guard_vetoes_an_improvement() -> None:
    sampler = Planted(0.004, B=0.9, guard0_B=1.0, guard1_B=1.05)
    decision = blocks.run(plan(guards=2), sampler).decisions["B"]
    assert decision.target.low > 0.05
    assert decision.verdict == "NO-GO"
    fine = blocks.run(plan(guards=2), Planted(0.004, B=0.9, guard0_B=1.0, guard1_B=1.0))
    assert fine.decisions["B"].verdict == "GO"


def test_equal_cells_without_noise_stop_early_undecided() -> None:
    outcome = blocks.run(plan(), Planted(0.001))
    assert (outcome.decisions["B"].verdict, blocks_of(outcome)) == ("UNDECIDED", 8)


def test_any_two_cells_stand_as_abba_in_every_block_and_in_no_fixed_order() -> None:
    sampler = Planted(0.03, floor=1.0)
    outcome = blocks.run(plan(4, net=True, most=12), sampler)
    for block in outcome.blocks:
        assert block.order == block.order[::-1]
        assert len(block.order) == 2 * len(set(block.order))
        assert blocks.FLOOR in block.order
    assert len({block.order for block in outcome.blocks}) > 8
    assert len({trial.padding for trial in sampler.trials}) > 50
    again = Planted(0.03, floor=1.0)
    blocks.run(plan(4, net=True, most=12), again)
    assert [t.letter for t in again.trials] == [t.letter for t in sampler.trials]


def test_the_net_ratio_is_the_one_above_the_floor() -> None:
    """With a floor of 4 a change of 10 % above the floor is one of 2 % of the whole."""
    gross = blocks.run(plan(), Planted(0.001, floor=4.0, B=0.9)).decisions["B"].target
    net = blocks.run(plan(net=True), Planted(0.001, floor=4.0, B=0.9)).decisions["B"].target
    assert gross.estimate == pytest.approx(-math.log(4.9 / 5), abs=0.003)
    assert net.low < -math.log(0.9) < net.high
    assert net.estimate == pytest.approx(-math.log(0.9), abs=0.02)


@pytest.mark.parametrize("failed", ["A", blocks.FLOOR])
def test_what_was_decided_before_the_base_or_the_floor_fails_does_not_hold(failed: str) -> None:
    sampler = Planted(0.03, floor=0.5, B=0.5, C=1.0)
    sampler.failing[failed] = 9
    outcome = blocks.run(plan(3, net=True, seed=1), sampler)
    assert max(trial.round for trial in sampler.trials if trial.letter == "B") == 7
    assert max(trial.round for trial in sampler.trials) == 9
    assert outcome.decisions == {}
    assert outcome.failures == {failed: "job: planted"}


def test_a_block_below_the_floor_is_an_extreme_one_and_not_an_error() -> None:
    outcome = blocks.run(plan(net=True), Planted(0.01, floor=4.0, A=0.5, B=0.15))
    assert outcome.decisions["B"].verdict == "GO"
    assert outcome.failures == {}


def test_what_is_all_floor_has_no_verdict() -> None:
    outcome = blocks.run(plan(net=True), Planted(0.01, floor=4.0, A=1.0, B=0.0))
    assert outcome.decisions == {}
    assert outcome.failures == {"B": "job: nothing of it is above its floor"}


def test_decided_cells_are_measured_no_further() -> None:
    sampler = Planted(0.03, B=0.5, C=1.0)
    outcome = blocks.run(plan(3), sampler)
    assert (outcome.decisions["B"].verdict, blocks_of(outcome)) == ("GO", 8)
    assert (outcome.decisions["C"].verdict, blocks_of(outcome, "C")) == ("UNDECIDED", 30)
    assert max(t.round for t in sampler.trials if t.letter == "B") == 7


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ([0.0, 0.07, 0.0, 0.07, 0.0, 0.07, 0.0, 0.07], "job is known to ±3.5 %"),
        # Neighbouring blocks are correlated and merged in pairs: four are left.
        ([0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07], "job is known from too few blocks"),
    ],
)
def test_what_is_open_is_said_with_how_exactly_it_is_known(gains: list[float], said: str) -> None:
    tracks = [gains, [0.01, -0.02] * 4]
    decision = protocol.look({"B": tracks}, "improvement", 0.01, last=True)["B"]
    sentence = ab_module.sentence(plan(guards=1), "B", decision)
    assert sentence.startswith(f"still open after 8 blocks: job, guard0 ({said}")


def test_a_failing_cell_leaves_and_the_others_go_on() -> None:
    sampler = Planted(0.01, B=0.9, C=0.9)
    sampler.failing = {"C": 2}
    outcome = blocks.run(plan(3), sampler)
    assert outcome.failures == {"C": "job: planted"}
    assert outcome.decisions.keys() == {"B"}
    assert sum(t.letter == "C" and t.round >= 2 for t in sampler.trials) == 1


def test_a_figure_that_is_zero_or_missing_is_a_failure() -> None:
    outcome = blocks.run(plan(), lambda trial: Sample("job", user_s=0.0))
    (reason,) = set(outcome.failures.values())
    assert "a ratio needs figures above 0" in reason


# ---- the command ----


Ab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ab(own: Stand) -> Ab:
    return partial(own.call, "ab", "--seed", 5, "--min-seconds", 0)


SHORT = ("--max-blocks", 8)
COST = ("--metric", "regex:cost=([0-9.]+)", "--", "sh", "-c", "echo cost=${COST:-100}")


def test_a_verdict_is_recorded_with_everything_it_rests_on(ab: Ab, own: Stand) -> None:
    # The stand-in always reports the same time: no difference, and an interval of width 0.
    done = ran(
        ab(*SHORT, "--b", "X=1", "--bench", "prodcons", "--guard", "larson_2", "--aim=neutral")
    )
    assert "GO: X=1 loses no more than 1.0 % against hakmem and no guard does" in flat(done.stdout)
    records = own.records()
    assert [record.kind for record in records] == ["setting", "verdict"]
    body = records[-1].body
    assert f"recorded: {records[-1].id}" in done.stdout
    assert body["verdict"] == "GO"
    assert body["metrics"]["prodcons"] == {
        "estimate": 1.0,
        "low": 1.0,
        "high": 1.0,
        "unit": "ratio",
        "kind": "95 % CI over all looks",
        "of": "CPU time",
    }
    assert "guard larson_2" in body["metrics"]
    assert (body["blocks"], body["margin"], body["seed"]) == (8, 0.01, 5)
    assert body["cells"][1]["environment"] == {"X": "1"}
    assert body["source"]["commit"]
    assert body["binary"][1]["sha256"]
    of_program = body["benchmarks"][0]["works"]["prodcons"]["sha256"]
    assert of_program == host.sha256(own.folder / "bench" / "bench_prodcons")
    assert body["argv"][1:4] == ["ab", "--seed", "5"]
    ids = {record.id for record in records}
    assert set(body["inputs"]) <= ids
    taken = own.samples()
    turns = {t["name"]: t["samples"] for t in body["benchmarks"]}
    for name, each in turns.items():
        mine = [row for row in taken if row["track"] == name]
        assert [len([r for r in mine if r["cell"] == at]) for at in "AB"] == [8 * each] * 2
        assert {row["figure"] for row in mine} == {"500000"}
    assert own.output().count('"serving": true') == 4
    assert not verify(own.ledger).problems


def test_a_benchmark_that_was_built_anew_meanwhile_is_not_recorded(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = stand.elsewhere(tmp_path / "build", benches=True)
    monkeypatch.setenv("LAB_BUILD_DIR", str(built.folder))
    works = {"A": work.benchmark("prodcons")}
    track = Track("prodcons", "target", readings.choose("cpu", "prodcons"), works)
    recording.track_entry(track)
    (built.folder / "bench" / "bench_prodcons").write_text("another")
    with pytest.raises(LabError, match="bench_prodcons was changed during the measurement"):
        recording.track_entry(track)


def test_a_figure_that_does_not_rise_above_its_floor_fails(ab: Ab) -> None:
    """The stand-in takes the same time as its BenchFast, its floor: nothing is left to compare."""
    done = ran(
        ab("--b", "X=1", "--bench", "random_mixed_400", "--floor", "benchfast", "--no-record"), 1
    )
    assert "net of the BenchFast" in done.stdout
    assert "✗ X=1: random_mixed_400: nothing of it is above its floor" in done.stdout


def test_a_dearer_command_is_no_go_and_a_cheaper_one_go(ab: Ab, own: Stand) -> None:
    done = ran(ab("--b", "COST=105", *COST), 3)
    assert "NO-GO: COST=105 takes 5.0 % more “cost=" in flat(done.stdout)
    assert "+5.0 %" in done.stdout
    higher = ran(ab("--b", "COST=105", "--better", "higher", *COST))
    assert " GO: COST=105" in flat(higher.stdout)
    assert {float(row["figure"]) for row in own.samples()} == {100, 105}
    assert all(int(row["wall_us"]) > 0 for row in own.samples())


def test_the_exit_status_is_the_worst_of_the_verdicts(ab: Ab) -> None:
    """A script can gate on it: 0 GO, 3 NO-GO, 4 UNDECIDED."""
    cells = ("--b", "COST=90", "--b", "COST=80")
    assert ab("--no-record", *cells, *COST).returncode == 0
    assert ab("--no-record", *cells, "--b", "COST=101", *COST).returncode == 3
    assert ab("--no-record", "--b", "COST=100", *COST).returncode == 4


def test_what_is_the_same_is_not_compared(ab: Ab, stand: Stand) -> None:
    """Cells with the same file, work and effective settings are refused; a setting that the library
    warns about has no effect."""
    bench = ("--no-record", *SHORT, "--bench", "prodcons")
    for same in ("", f"lib={stand.library}", "HAKMEM_IDLE=1"):
        done = ran(ab("--b", same, *bench), 2)
        assert "nothing to compare: hakmem" in done.stderr
        assert "--aa compares two copies" in done.stderr
        warned = "note: HAKMEM_IDLE=1 has no effect: planted" in done.stderr
        assert warned == (same == "HAKMEM_IDLE=1")
    assert ab("--b", "HAKMEM_OTHER=1", *bench).returncode == 4


def test_what_the_library_says_is_shown_once(ab: Ab) -> None:
    cells = ("--b", "HAKMEM_IDLE=1 HAKMEM_OTHER=1")
    done = ab("--no-record", *SHORT, "--bench", "prodcons", *cells)
    assert done.stdout.count("HAKMEM_IDLE=1 has no effect") == 1
    assert done.stdout.index("no effect") < done.stdout.index("UNDECIDED: ")


def test_a_block_is_filled_with_short_samples(ab: Ab, own: Stand) -> None:
    # The stand-in reports that it timed half a second.
    words = ("--min-seconds", "3", "--b", "X=1", "--bench", "prodcons", "--aim=neutral")
    ran(ab(*SHORT, *words))
    turns = own.records()[-1].body["benchmarks"][0]["samples"] // 2
    assert turns == 3
    taken = own.samples()
    assert len(taken) == 8 * 4 * turns
    for block in range(8):
        row = "".join(r["cell"] for r in taken if r["block"] == str(block))
        pieces = {row[n : n + 4] for n in range(0, len(row), 4)}
        assert pieces <= {"ABBA", "BAAB"}


def test_planted_work_is_found_and_says_nothing_of_the_noise(ab: Ab, own: Stand) -> None:
    """--plant gives B 5 % more work: the difference is found, and no noise floor is recorded."""
    ran(ab(*SHORT, "--aa", "--plant", "0.05", "--bench", "prodcons", "--metric", "wall"), 3)
    record = own.records()[-1]
    assert (record.kind, record.body["verdict"]) == ("verdict", "NO-GO")
    assert record.body["metrics"]["prodcons"]["estimate"] == pytest.approx(1.05)
    assert record.body["question"].startswith("planted: is 5 % more work")


def test_three_cells_are_judged_together_and_without_a_record(ab: Ab, own: Stand) -> None:
    done = ab("--no-record", "--b", "COST=105", "--b", "COST=90 name=[/cheap]", *COST)
    assert "Holm's rule over the 2 verdicts" in done.stdout
    assert "\nNO-GO: COST=105" in done.stdout
    assert "\nGO: [/cheap]" in done.stdout
    assert "not recorded" in done.stdout
    assert not own.evidence.exists()


def test_the_noise_floor_of_a_host_becomes_the_margin(ab: Ab, own: Stand) -> None:
    done = ran(ab(*SHORT, "--aa", "--bench", "prodcons"))
    assert "hakmem, copy b" in done.stdout
    record = own.records()[-1]
    assert record.kind == "A/A"
    paths = [cell["path"] for cell in record.body["cells"]]
    assert len(set(paths)) == 2
    assert record.body["binary"][0]["sha256"] == record.body["binary"][1]["sha256"]
    # Planted, with a half-width of 1.5 %, for a benchmark without another A/A. One of another
    # machine is ignored.
    body = json.loads(json.dumps(record.body).replace("prodcons", "larson_2"))
    body["metrics"]["larson_2"] |= {"low": math.exp(-0.01), "high": math.exp(0.02)}
    own.ledger.append("A/A", {**body, "host": {**body["host"], "cpu": "Planted 9000"}})
    bench = (*SHORT, "--b", "X=1", "--bench", "larson_2")
    said = flat(ab(*bench).stdout)
    assert "says nothing here: it is of another machine (cpu Planted 9000)" in said
    assert "margin 1.0 %" in said
    own.ledger.append("A/A", body)
    assert "margin 1.5 %" in ab(*bench).stdout
    # So is an A/A without an interval, or without a metric, and a noisier one.
    for change in ({"kind": "range"}, {}, {"low": math.exp(-0.1), "high": math.exp(0.1)}):
        other = json.loads(json.dumps(body))
        other["metrics"]["larson_2"] |= {"low": 1.0, "high": 1.0, **change}
        if not change:
            del other["benchmarks"][0]["metric"], other["benchmarks"][0]["floor"]
        own.ledger.append("A/A", other)
    assert "margin 1.5 %" in ab(*bench).stdout
    # Of another metric there is only a noisy one: it buys 2 %.
    body["benchmarks"][0]["metric"] = "wall"
    body["metrics"]["larson_2"] |= {"low": math.exp(-0.1), "high": math.exp(0.1)}
    own.ledger.append("A/A", body)
    assert "margin 2.0 %" in ab(*bench, "--metric", "wall").stdout
    assert "margin 1.0 %" in ab(*SHORT, "--b", "X=1", "--bench", "prodcons").stdout


NOTHING = ("-shared", "-x", "c")  # with /dev/null as source: a library without functions
FAILING = [
    (("--b", "X=1", "--bench", "huge"), "huge: status 9: planted failure"),
    (("--b", "X=1", "--bench", "large"), "large: printed no JSON line"),
    (("--b", "X=1", "--", "sh", "-c", "exit 7"), "sh: status 7"),
    (("--b", "X=1", "--metric", "regex:cost=(.*)", "--", "true"), "matches 'cost=(.*)'"),
    (("--b", "COST=dear", "--metric", "regex:cost=(.*)", *COST[2:]), "which is not a number"),
    (("--b", "lib={silent}", "--bench", "prodcons"), "silent.so: prodcons: hakmem was intended"),
    (("--b", "lib={fake}", "--bench", "prodcons"), "malloc binds to"),
]


@pytest.mark.parametrize(("arguments", "message"), FAILING)
def test_what_fails_its_trial_run_is_not_measured(
    ab: Ab, own: Stand, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    fake = compile_c("/dev/null", tmp_path / "fake.so", *NOTHING)
    files = {"lib={silent}": f"lib={own.silent}", "lib={fake}": f"lib={fake}"}
    done = ab(*(files.get(text, text) for text in arguments))
    refused(done, "nothing was measured", message, status=1)
    assert not own.evidence.exists()


def test_a_library_that_a_static_program_cannot_load_is_not_measured(
    ab: Ab, rival: Path, tmp_path: Path
) -> None:
    ran(ab(*SHORT, "--no-record", "--a", "system", "--b", f"lib={rival}", *COST), 4)
    program = compile_static("stub_bench.c", tmp_path / "static")
    done = ran(ab(*SHORT, "--a", "system", "--b", f"lib={rival}", "--", program), 1)
    assert "rival.so was not loaded into it: is it statically linked" in done.stderr


def test_memory_and_times_of_a_command_are_its_own(ab: Ab, own: Stand, tmp_path: Path) -> None:
    """The peak is the command's, not the lab's; the proof names the program that a script execs."""
    job = "x = [1] * (${MIB:-30} << 17)"
    program = script(tmp_path / "job", f'exec {sys.executable} -I -c "{job}"')
    done = ran(ab("--metric", "rss", "--b", "MIB=60", "--", program), 3)
    assert "NO-GO: MIB=60" in done.stdout
    assert all(30 < float(row["figure"]) < 90 for row in own.samples())
    assert '"serving": true' in own.output()
    assert "python" in own.output()
    assert str(Path(sys.executable).resolve().parent) not in own.output()


def test_a_peak_below_the_launchers_own_is_not_visible(ab: Ab) -> None:
    done = ran(ab("--metric", "rss", "--b", "X=1", "--", "true"), 1)
    assert "no figure for peak memory" in done.stderr


def test_only_named_variables_of_the_user_reach_the_command(ab: Ab) -> None:
    say = ("--no-record", "--b", "X=1", "--metric", "regex:cost=(.+)", "--", "sh", "-c")
    assert "not a number" in ab(*say, "echo cost=${MINE:-none}", MINE="3").stderr
    ran(ab("--pass", "MINE", *say, "echo cost=${MINE:-none}", MINE="3"), 4)


def test_interrupt_leaves_no_record_and_no_process(own: Stand, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    program = f"test -e {mark}.2 && echo $$ > {mark} && sleep 600; touch {mark}.2; echo cost=1"
    sides = ("--min-seconds", 0, "--b", "X=1", "--metric", "regex:cost=(.)")
    done = own.interrupted(
        lambda: mark.exists() and mark.read_text(), "ab", *sides, "--", "sh", "-c", program
    )
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)
    assert not own.evidence.exists()
    assert until(lambda: ended(int(mark.read_text())))


@pytest.fixture
def checked(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of the stand-in library and a library for checked copying; the path of the latter."""
    monkeypatch.setenv("LAB_BUILD_DIR", str(tmp_path))
    shutil.copy(stand.library, tmp_path / "libhakmem.so")
    source = tmp_path / "check.c"
    source.write_text(
        "#include <stddef.h>\n"
        "void *memcpy(void *to, const void *from, size_t n) {\n"
        "    for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];\n"
        "    return to;\n}\n"
    )
    return compile_c(source, tmp_path / "libhakmem_check.so", "-shared", "-fPIC")


def test_checked_copying_is_a_cell_of_its_own(checked: Path) -> None:
    cell = cells.parse("hakmem-checked A=1")
    assert (cell.name, cell.is_hakmem) == ("hakmem-checked A=1", True)
    preloaded = cell.library.environment({})["LD_PRELOAD"]
    assert preloaded == f"{checked}:{checked.with_name('libhakmem.so')}"
    stated = provenance.binary_of(cell.library)
    assert stated["beside"]["sha256"] == host.sha256(checked)
    assert "beside" not in provenance.binary_of(cells.parse("hakmem").library)
    assert library.verify(cell.library)["memcpy"] == str(checked)


def test_checked_copying_that_does_not_copy_is_refused(checked: Path) -> None:
    compile_c("/dev/null", checked, *NOTHING)
    with pytest.raises(LabError, match=r"hakmem-checked: memcpy binds to .*, not to .*_check\.so"):
        library.verify(cells.parse("hakmem-checked").library)
    checked.unlink()
    with pytest.raises(LabError, match="the library of checked copying"):
        cells.parse("hakmem-checked")


def test_cells_are_parsed_as_they_are_written(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_BUILD_DIR", str(stand.folder))
    empty = cells.parse("")
    assert (empty.name, empty.is_hakmem, dict(empty.environment)) == ("hakmem", True, {})
    both = cells.parse(f"lib={stand.library} env A=1 B='x y' bench=burst")
    assert (both.bench, both.environment) == ("burst", {"A": "1", "B": "x y"})
    assert both.name == "libhakmem.so A=1 B=x y on burst"
    legitimate = {"LD_AUDIT": "/x/a.so", "http_proxy": "none", "OLD": "/x/a.so", "_x": "1"}
    assert cells.parse(" ".join(map("=".join, legitimate.items()))).environment == legitimate
    assert cells.parse("system name=old").name == "old"
    assert not cells.parse("system").is_hakmem
    same = cells.distinct([empty, empty])
    assert [cell.name for cell in same.values()] == ["hakmem (A)", "hakmem (B)"]
    with pytest.raises(LabError, match="too many"):
        cells.distinct([empty] * 27)
