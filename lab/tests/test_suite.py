"""`hakmem compare --bench`: verdicts over benchmarks, their record, its table, --resume."""

import io
import lzma
import math
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.ledger.store import canonical
from hakmem.paired import protocol, session, suite_record, suite_run, suite_table
from hakmem.paired.blocks import FLOOR, Plan, Trial
from hakmem.process import host, lock, provenance
from hakmem.process.sample import Sample
from hakmem.report import cli as report_cli, suites
from hakmem.report.records import Asked
from hakmem.suite import LATENCIES
from rich.console import Console
from standing import refused
from suite_world import PEAKS, World

# ---- what is measured and recorded ----


def test_wins_and_losses_of_time_and_memory_are_recorded(world: World) -> None:
    good, said = world.run(world.request("prodcons", "random_mixed_256"))
    assert good
    setting, *parts, record = world.ledger.records()
    assert [r.kind for r in (setting, *parts, record)] == ["setting", *["comparison"] * 2, "suite"]
    assert all(part.body["setting"] == setting.id for part in parts)
    assert record.body["inputs"] == [part.id for part in parts]
    metrics = world.whole()["metrics"]
    told = {name: entry["verdict"] for name, entry in metrics.items() if "verdict" in entry}
    names = suite_record.metric_name
    for bench in ("prodcons", "random_mixed_256"):
        for kind in ("time", "cpu", "memory"):
            flip = kind == "memory"
            assert told[names(bench, kind, "system")] == ("loss" if flip else "win")
            assert told[names(bench, kind, "rival.so")] == ("win" if flip else "loss")
    values = {name: entry["value"] for name, entry in metrics.items()}
    assert values["prodcons against system"] == pytest.approx(0.5)
    assert values["prodcons memory against rival.so"] == pytest.approx(0.5)
    # Above the floor: (1 - 0.2) ÷ (2 - 0.2).
    assert values["random_mixed_256 against system"] == pytest.approx(0.8 / 1.8, rel=1e-4)
    assert values["random_mixed_256 cpu against system"] == pytest.approx(0.5)
    # The oracle is the best rival; the mean over rows is geometric, and of whole times.
    assert values["prodcons against the oracle"] == pytest.approx(1.25)
    assert values["random_mixed_256 against the oracle"] == pytest.approx(0.8 / 0.6, rel=1e-4)
    assert values["random_mixed_256 cpu against the oracle"] == pytest.approx(1.25)
    assert values["time against the oracle"] == pytest.approx(1.25)
    assert values["CPU against the oracle"] == pytest.approx(1.25)
    assert metrics["time against the oracle"]["rows"] == 2
    assert "rows above a floor enter with all of their time" in said
    assert (
        "the rows above a floor: random_mixed_256 1.25 [1.25–1.25] of the oracle's, "
        "▲ 0.50 [0.50–0.50] of system's."
    ) in said
    assert values["memory against the oracle"] == pytest.approx(2)
    for entry in metrics.values():
        assert entry["low"] <= entry["value"] <= entry["high"]
        assert entry["unit"] == "ratio"
    row = next(r for r in world.whole()["rows"] if r["benchmark"] == "random_mixed_256")
    assert row["unit"] == "ns CPU/op"
    assert row["figures"]["hakmem"]["value"] == pytest.approx(0.8)
    assert [row["figures"][name]["memory_kb"] for name in ("hakmem", "system")] == [2000, 1000]
    assert "hakmem over 2 rows: against the best rival 2 ▼; in peak memory" in said
    assert record.id in said


def test_a_mean_of_variations_knows_the_errors_of_its_rows(world: World) -> None:
    """Its interval is narrower than one from the rows' intervals, which hold over all looks. Older
    records have only those."""
    rng = np.random.default_rng(1)

    def noisy(trial: Trial) -> Sample:
        sample = world.sampler(trial)
        spread = rng.lognormal(0, 0.02)
        result = {name: value * spread for name, value in sample.result.items() if name != "bench"}
        return replace(sample, result={"bench": "x", **result, "ops": 10**9})

    asked = world.request("prodcons", "batch_lifo", most=12, seconds=10.0)
    finished = suite_run.run(asked, Console(file=io.StringIO()), noisy)
    assert finished.good
    (record,) = world.own.records("suite")
    parts = [part.body for part in world.own.records("comparison")]
    older = deepcopy(parts)
    for entry in (e for part in older for e in part["ratios"]["variation"].values()):
        del entry[6:]
    name = "variation against system"
    now, before = (suite_record.overall(found)[name] for found in (parts, older))
    assert record.body["metrics"][name] == now
    assert (now["kind"], before["kind"]) == ("95 % CI", protocol.KIND)
    assert (now["value"], now["rows"]) == (before["value"], before["rows"])
    assert math.log(before["high"] / before["low"], now["high"] / now["low"]) > 1.2


def test_a_row_above_a_floor_whose_whole_time_was_not_recorded_is_in_no_mean(world: World) -> None:
    """Older records have no whole time of such rows."""
    world.run(world.request("prodcons", "random_mixed_256", "random_mixed_400"))
    (record,) = world.own.records("suite")
    parts = [dict(part.body) for part in world.own.records("comparison")]
    for part in parts:
        if part["suite"] == "random_mixed_256":
            part["ratios"] = {k: v for k, v in part["ratios"].items() if k != "cpu"}
    older = suite_record.joined(record.body, parts)
    assert older["metrics"]["time against the oracle"]["rows"] == 2
    assert older["metrics"]["CPU against the oracle"]["rows"] == 2
    assert older["metrics"]["memory against the oracle"]["rows"] == 3
    said = " ".join(suite_table.notes(older, "2026-01-01"))
    assert "and are left out, for their whole time was not recorded" in said
    assert said.count("random_mixed_256") == 0
    drawn = suite_table.svg([older], ["2026-01-01"])
    assert drawn.count("random_mixed_256: ") == 2  # the peaks
    assert drawn.count("random_mixed_400: ") == 4


def test_where_more_is_better_all_ratios_are_in_one_direction(world: World) -> None:
    """With --better higher the slower program has the larger figure, and so the better ratio."""
    world.run(world.request("prodcons", metric=r'regex:"seconds": *([\d.]+)', better="higher"))
    metrics = world.whole()["metrics"]
    ratios = {n: metrics[f"prodcons against {n}"]["value"] for n in ("system", "rival.so")}
    assert ratios == pytest.approx({"system": 0.5, "rival.so": 1.25})
    assert metrics["prodcons against the oracle"]["value"] == pytest.approx(0.5)
    # A figure by regex may not be a time.
    assert "time against the oracle" not in metrics
    report = suites.suite(Asked(world.own.records("suite")[0]), world.whole())
    assert 'class="loss"' in report["forest"]
    assert 'class="win"' not in report["forest"]


def test_a_suite_takes_little_room_and_its_samples_are_beside_it(world: World) -> None:
    world.run(world.request("prodcons"))
    (part,) = world.own.records("comparison")
    assert len(canonical(vars(part))) < 3000
    text = lzma.decompress(world.ledger.raw_path(part.raw["samples.tsv.xz"]).read_bytes()).decode()
    head, *rows = (line.split("\t") for line in text.splitlines())
    assert len(rows) == len(world.trials)
    taken = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["cell"] for row in taken] == [trial.letter for trial in world.trials]
    assert {row["timed_ns"] for row in taken if row["cell"] == "B"} == {"2000000000"}


def test_the_start_of_a_process_has_no_memory_to_show(world: World) -> None:
    world.run(world.request("startup"))
    body = world.whole()
    assert not any("memory" in name for name in body["metrics"])
    assert suite_table.lines(body)[0].cells[6:] == ("–",) * 4


def test_where_a_peak_is_not_visible_nobody_is_the_leanest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEAKS, "B", None)
    _, said = world.run(world.request("batch_lifo"))
    (row,) = world.whole()["rows"]
    assert [row["figures"][name]["memory_kb"] for name in ("hakmem", "system")] == [2000, None]
    assert not any("memory" in name for name in world.whole()["metrics"])
    assert "one is not above the launcher's own: batch_lifo (system)." in said


def test_memory_left_after_a_peak_is_a_share(world: World) -> None:
    world.run(world.request("peak"))
    body = world.whole()
    (row,) = body["rows"]
    assert row["unit"] == "share"
    assert row["figures"]["hakmem"]["value"] == pytest.approx(0.1)
    assert body["metrics"]["peak against system"]["verdict"] == "win"


def test_of_single_calls_all_percentiles_are_judged_and_shown(world: World) -> None:
    world.run(world.request("latency_1"))
    body = world.whole()
    (row,) = body["rows"]
    assert row["reading"] == "free p9999 of single calls"
    assert row["figures"]["hakmem"]["value"] == pytest.approx(10)
    assert body["metrics"]["latency_1 against system"]["verdict"] == "win"
    assert body["metrics"]["latency_1 malloc_p999 against rival.so"]["verdict"] == "loss"
    columns = suite_table.LATENCIES
    table = suite_table.figures("benchmark", body["rows"], columns).splitlines()
    assert table[0].count("|") == len(columns) + 2
    figures = ["10.5** · 21.0 · 8.40" if "p50" in c[0] else "10.0** · 20.0 · 8.00" for c in columns]
    assert table[2] == "| latency_1 |" + "".join(f" **{cell} rival.so |" for cell in figures)
    assert table[2] in suite_table.markdown(body, "2026-01-01")
    assert "| free p9999 of single calls, ns |" in table[0]
    row["reading"], row["unit"] = "CPU time", "ns CPU/op"
    assert "CPU time, ns CPU/op" in suite_table.figures("benchmark", [row], columns)


def test_figures_of_single_calls_are_whole_ticks_of_a_clock(world: World) -> None:
    """A call may take half a tick more or less than the clock says, and none takes no time."""
    ticks = {name: {"A": 4, "B": 7, "C": 9} for name in LATENCIES}
    ticks |= {"malloc_p50": {"A": 1, "B": 0, "C": 3}, "free_p50": {"A": 2, "B": 0, "C": 2}}

    def whole(trial: Trial) -> Sample:
        sample = world.sampler(trial)
        of_calls = {f"{name}_ns": 10.0 * by[trial.letter] for name, by in ticks.items()}
        if trial.letter == "B" and trial.round % 2:
            of_calls["malloc_p50_ns"] = 10.0
        return replace(sample, result={**sample.result, **of_calls})

    suite_run.run(world.request("latency_1"), Console(file=io.StringIO()), whole)
    (part,) = world.own.records("comparison")
    assert part.body["tick_ns"] == 10
    found = {
        (kind, rival): entry[5]
        for kind in ("malloc_p50", "free_p50", "malloc_p99")
        for rival, entry in part.body["ratios"][kind].items()
    }
    assert found == {
        ("malloc_p50", "system"): "undecided",  # one tick, and one or none
        ("malloc_p50", "rival.so"): "win",
        ("free_p50", "system"): "loss",  # two ticks, and none
        ("free_p50", "rival.so"): "undecided",
        ("malloc_p99", "system"): "win",
        ("malloc_p99", "rival.so"): "win",
    }
    value, low, high, *_ = part.body["ratios"]["free_p50"]["rival.so"]
    assert (value, low, high) == pytest.approx((1, 15 / 25, 25 / 15), rel=1e-4)
    # Older records took ticks for times: their ties are none.
    older = {**part.body, "ratios": {"free_p50": {"system": [1.0, 0.99, 1.01, 0, 20, "tie"]}}}
    name = "latency_1 free_p50 against system"
    assert suite_record.metrics(older)[name]["verdict"] == "tie"
    del older["tick_ns"]
    assert suite_record.metrics(older)[name]["verdict"] == "undecided"


def test_what_the_shell_sets_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAKMEM_PROFILE", "speed")
    _, said = world.run(world.request("batch_lifo"))
    assert "from your shell in every cell: HAKMEM_PROFILE=speed" in said
    assert "Measured with HAKMEM_PROFILE=speed." in said
    assert world.whole()["settings_of_user"] == {"HAKMEM_PROFILE": "speed"}
    report_cli.command(out=world.folder / "page")
    assert "Measured with HAKMEM_PROFILE=speed." in (world.folder / "page").read_text()


def test_a_rival_that_fails_is_left_out_and_said(world: World) -> None:
    world.fails = lambda trial: "planted" if trial.letter == "C" else None
    good, said = world.run(world.request("batch_lifo"))
    assert good
    (record,) = world.own.records("suite")
    assert record.body["ok"]
    row = world.whole()["rows"][0]
    assert row["left_out"]["rival.so"] == "batch_lifo: planted"
    assert "Failed and left out: batch_lifo: rival.so (batch_lifo: planted)" in said


@pytest.mark.parametrize("late", [False, True])
def test_a_row_that_only_rivals_fail_is_no_failure_of_hakmems(
    world: World, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    def planted(trial: Trial) -> str | None:
        here = trial.track.name == "aligned" and trial.letter in "BC"
        return f"{trial.letter} died" if here and trial.round == (6 if late else -1) else None

    def first(plan: Plan, trial: Trial) -> Sample:
        return replace(take(plan, trial), error=planted(trial))

    take, world.fails = session._trial, planted
    monkeypatch.setattr(session, "_trial", first)
    good, said = world.run(world.request("batch_lifo", "aligned"))
    assert good
    (record,) = world.own.records("suite")
    assert (record.body["ok"], record.body["failures"]) == (True, {})
    whys = record.body["left_out"]["aligned"]
    assert {name: why[-6:] for name, why in whys.items()} == {
        "system": "B died",
        "rival.so": "C died",
    }
    assert "aligned: rival.so (aligned: C died)" in said
    assert suite_table.lines(world.whole())[-1].cells[:3] == ("aligned", "–", "failed")
    report_cli.command(out=world.folder / "page")
    page = (world.folder / "page").read_text()
    assert "aligned, rival.so: aligned: C died" in page
    assert page.count('<span class="failed">✗ failed</span>') == 2
    assert "✗ error" not in page


def test_a_benchmark_that_hakmem_fails_ends_no_run(world: World) -> None:
    good, _ = world.run(world.request("huge", "batch_lifo"))
    assert not good
    (record,) = world.own.records("suite")
    assert not record.body["ok"]
    assert "planted failure" in record.body["failures"]["huge"]
    assert suite_table.lines(world.whole())[-1].cells[:2] == ("huge", "failed")
    assert "batch_lifo against system" in world.whole()["metrics"]


@pytest.mark.parametrize("late", [False, True])
def test_where_hakmem_fails_all_rows_that_is_on_record(world: World, late: bool) -> None:
    name, why = ("batch_lifo", "late") if late else ("huge", "planted failure")
    world.fails = lambda trial: why if trial.letter == "A" and trial.round == 6 else None
    good, said = world.run(world.request(name))
    setting, record = world.ledger.records()
    assert (good, setting.kind, record.kind) == (False, "setting", "suite")
    assert (record.body["ok"], record.body["inputs"]) == (False, [setting.id])
    assert why in record.body["failures"][name]
    assert f"recorded: {record.id}" in said
    assert "hakmem over 1 row: nothing." in said
    whole = world.whole()
    assert (whole["rows"], whole["of"], whole["programs"]) == ([], "hakmem", False)
    assert suite_table.lines(whole)[0].cells[:2] == (name, "failed")
    assert f"| {name} | failed |" in suite_table.markdown(whole, record.time)
    report_cli.command(out=world.folder / "page")
    assert f"{name}, hakmem: " in (world.folder / "page").read_text()


def test_where_only_the_rivals_fail_nothing_is_said_of_hakmem(world: World) -> None:
    world.fails = lambda trial: "planted" if trial.letter in "BC" else None
    with pytest.raises(LabError, match="nothing was measured: batch_lifo: planted"):
        world.run(world.request("batch_lifo"))
    assert list(world.ledger.records()) == []


def test_what_hakmem_or_the_floor_fails_half_way_is_not_decided(world: World) -> None:
    asked = world.request("batch_lifo", "random_mixed_256", "aligned")
    fails = {("batch_lifo", "A"): "first", ("random_mixed_256", FLOOR): "second"}
    world.fails = lambda t: fails.get((t.track.name, t.letter)) if t.round == 6 else None
    good, _ = world.run(asked)
    assert not good
    (record,) = world.own.records("suite")
    assert {name: why[-6:] for name, why in record.body["failures"].items()} == {
        "batch_lifo": " first",
        "random_mixed_256": "second",
    }
    assert {v.body["suite"] for v in world.own.records("comparison")} == {"aligned"}


def test_a_library_that_is_built_again_meanwhile_stops_it(world: World) -> None:
    def rebuild(trial: Trial) -> None:
        if trial.track.name == "aligned":
            with (world.folder / "rival.so").open("ab") as library:
                library.write(b"another build")

    world.fails = rebuild
    with pytest.raises(LabError, match=r"rival\.so was changed during the measurement"):
        world.run(world.request("batch_lifo", "aligned"))
    assert {v.body["suite"] for v in world.own.records("comparison")} == {"batch_lifo"}


# ---- --resume ----


def test_how_long_slow_benchmarks_take_is_said(world: World) -> None:
    _, said = world.run(world.request("batch_lifo"))
    _, said_of_slow = world.run(world.request("peak"))
    _, said_of_one_round = world.run(world.request("batch_lifo", seconds=0))
    assert "1 benchmark; 8 blocks at most" in said
    assert "roughly 24 s" in said
    assert "roughly" not in said_of_one_round, "nothing is known of it"
    assert "roughly 8 min" in said_of_slow


def interrupt_at(name: str) -> Callable[[Trial], str | None]:
    def fails(trial: Trial) -> str | None:
        if trial.track.name == name:
            raise KeyboardInterrupt
        return None

    return fails


def test_an_interrupted_run_goes_on_where_it_was(world: World) -> None:
    asked = world.request("batch_lifo", "aligned")
    world.fails = interrupt_at("aligned")
    with pytest.raises(LabError, match=r"interrupted: 1 of 2 .* --seed 5 --resume") as stop:
        world.run(asked)
    assert stop.value.status == 130
    assert (len(world.own.records("comparison")), world.own.records("suite")) == (1, [])
    again = World(world.own, world.folder)
    good, said = again.run(replace(asked, seed=None, resume=True))
    assert good
    assert {trial.track.name for trial in again.trials} == {"aligned"}
    assert "1 of them recorded before; 8 blocks at most, seed 5" in said
    (record,) = world.own.records("suite")
    assert record.body["inputs"] == [v.id for v in world.own.records("comparison")]
    assert len(record.body["inputs"]) == 2
    assert len(world.own.records("setting")) == 1
    idle = World(world.own, world.folder)
    idle.run(replace(asked, seed=None, resume=True))
    assert idle.trials == []
    assert len(world.own.records("suite")) == 1


def test_a_run_with_paths_inside_the_checkout_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such paths are recorded relative to the root; --resume still recognizes them."""
    inside = project.root() / "out" / "x"
    argv = ["hakmem", "compare", "--lib", f"{inside}.so", "batch_lifo"]
    monkeypatch.setenv("HAKMEM_PROF_PATH", str(inside))
    asked = world.request("batch_lifo", argv=argv)
    world.run(asked)
    _, said = world.run(replace(asked, seed=None, resume=True))
    assert "1 of them recorded before" in said


def test_interrupted_before_anything_was_recorded(world: World) -> None:
    world.fails = interrupt_at("batch_lifo")
    with pytest.raises(LabError, match="nothing was recorded"):
        world.run(world.request("batch_lifo"))
    assert list(world.ledger.records()) == []


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 6},
        {"argv": ["hakmem", "compare", "another"]},
        {"commit": "e" * 40},
        {"setting": "HAKMEM_THP"},
        {"kernel": "another"},
    ],
)
def test_only_the_same_run_is_resumed(
    world: World, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    asked = world.request("batch_lifo")
    world.run(asked)
    if commit := other.pop("commit", None):
        source = {"commit": commit, "tree": "d" * 40, "dirty": False}
        monkeypatch.setattr(provenance, "source", lambda root: source)
    if kernel := other.pop("kernel", None):
        facts = {**host.facts(), "kernel": kernel}
        monkeypatch.setattr(host, "facts", lambda: facts)
    if setting := other.pop("setting", None):
        monkeypatch.setenv(setting, "0")
    with pytest.raises(LabError, match="nothing to resume"):
        world.run(replace(asked, resume=True, **other))


def test_only_one_measurement_at_a_time(world: World) -> None:
    with lock.host_lock():
        done = world.own.run("compare", "--bench", "prodcons", "--rival", "system")
    refused(done, f"another benchmark runs on this host (process {os.getpid()})")
