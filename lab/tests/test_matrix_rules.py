"""A matrix's rules, each with a planted violation, and the error rates of its throughput gate."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hakmem import stats
from hakmem.errors import LabError
from hakmem.matrix import plan, rules as matrix_rules
from hakmem.matrix.plan import Matrix, Mode, RssBound, Rules, Stage
from hakmem.matrix.rules import Evidence, Judgement, Result
from hakmem.soak import analysis
from hakmem.soak.analysis import Analysis
from hakmem.soak.epochs_csv import Soak
from scipy.stats import wilcoxon
from standing import MATRIX


def soak(
    rss: float = 20000, leak: float = 0, shaky: float = 0.01, fade: float = 0, calls: int | None = 9
) -> Analysis:
    """A soak of 80 epochs at 1 M ops/s with 10 000 KiB live, and the planted deviations."""
    rng = np.random.default_rng(1)
    t = np.arange(1.0, 81)
    rates = 1e6 * (1 - fade * t / 80 + shaky * rng.standard_normal(80))
    columns = {
        "t_s": t,
        "ops": rates,
        "ops_per_s": rates,
        "rss_kb": rss + leak * t / 80,
        "live_kb": np.full(80, 10000.0),
        "user_s": np.ones(80),
        "sys_s": np.zeros(80),
    }
    facts = {} if calls is None else {"os calls": str(calls), "operations": "80000000"}
    return analysis.analyze(Soak(columns, facts))


def stage(rules: Rules, keep: int | None = None, modes: tuple[str, ...] | None = None) -> Stage:
    return Stage("1", 80, 1, modes, keep, 8, 0.5, rules)


def gains(percent: float, noise: float = 0.01, seed: int = 1, rounds: int = 12) -> list[float]:
    rng = np.random.default_rng(seed)
    return [math.log1p(percent / 100) + noise * x for x in rng.standard_normal(rounds)]


def judged(rules: Rules, seen: Evidence) -> dict[str, Judgement]:
    base = Evidence(None, soak(), 80_000_000)
    result = matrix_rules.judge(stage(rules), "wall", "base", {"base": base, "x": seen})
    return {judgement.rule: judgement for judgement in result.judged["x"]}


def well(**planted: float | None) -> Evidence:
    return Evidence(None, soak(**planted), 80_000_000, gains(0))


@pytest.mark.parametrize(
    ("rules", "seen", "rule", "state"),
    [
        (Rules(), well(), "no crash", "kept"),
        (Rules(), Evidence("killed by SIGSEGV"), "no crash", "broken"),
        (Rules(rss="baseline"), well(), "RSS", "kept"),
        (Rules(rss="baseline"), well(rss=20900), "RSS", "kept"),
        (Rules(rss="baseline"), well(rss=21100), "RSS", "broken"),
        (Rules(rss=RssBound(1.5, 5)), well(), "RSS", "kept"),
        (Rules(rss=RssBound(1.5, 4)), well(), "RSS", "broken"),
        # 20000 KiB are 20.48 MB or 19.53 MiB; a plateau equal to the limit breaks the rule.
        (Rules(rss_below="20.5 MB"), well(), "RSS below", "kept"),
        (Rules(rss_below="20.4 MB"), well(), "RSS below", "broken"),
        (Rules(rss_below="19.6MiB"), well(), "RSS below", "kept"),
        (Rules(rss_below="19.5MiB"), well(), "RSS below", "broken"),
        (Rules(rss_below="20000 KiB"), well(), "RSS below", "broken"),
        (Rules(drift=("rss",)), well(), "RSS drift", "kept"),
        (Rules(drift=("rss",)), well(leak=4000), "RSS drift", "broken"),
        (Rules(drift=("throughput",)), well(), "throughput drift", "kept"),
        (Rules(drift=("throughput",)), well(fade=0.3), "throughput drift", "broken"),
        (Rules(drift=("throughput",)), well(shaky=0.3), "throughput drift", "open"),
        (Rules(cv=0.05), well(), "CV", "kept"),
        (Rules(cv=0.05), well(shaky=0.1), "CV", "broken"),
        (Rules(calls_per_op=1e-6), well(calls=79), "calls", "kept"),
        (Rules(calls_per_op=1e-6), well(calls=None), "calls", "open"),
        (Rules(calls_per_op=1e-6), well(calls=8000), "calls", "open"),
        (Rules(calls_per_op=1e-4), well(calls=8001), "calls", "broken"),
        (Rules(throughput_floor=-0.1), well(), "throughput", "kept"),
    ],
)
def test_every_rule_keeps_and_breaks(rules: Rules, seen: Evidence, rule: str, state: str) -> None:
    found = judged(rules, seen)
    assert found[rule].state == state
    asked = {"no crash", rule}
    assert set(found) == asked


@pytest.mark.parametrize(
    ("rules", "planted", "state"),
    [
        (Rules(cv=0.05), {"shaky": 0.1}, "open"),
        (Rules(cv=0.05), {}, "kept"),
        (Rules(drift=("throughput",)), {"fade": 0.3}, "open"),
        (Rules(drift=("throughput",)), {}, "kept"),
        (Rules(drift=("rss",)), {"leak": 4000}, "broken"),
    ],
)
def test_rates_of_shortened_epochs_can_keep_a_rule_but_not_break_it(
    rules: Rules, planted: dict[str, float], state: str
) -> None:
    short = replace(stage(rules), shortened=True)
    result = matrix_rules.judge(short, "wall", "base", {"x": well(**planted)})
    assert result.judged["x"][-1].state == state


# ---- throughput ----


@pytest.mark.parametrize(
    ("values", "state"),
    [
        (gains(0), "kept"),
        (gains(-8.5), "kept"),
        (gains(-12), "broken"),
        (gains(-10, noise=0.05), "open"),
        (gains(-50, rounds=5), "open"),  # too few rounds for any claim
    ],
)
def test_throughput_is_dropped_only_when_it_is_clear(values: Sequence[float], state: str) -> None:
    assert matrix_rules.throughput({"x": values}, -0.1) == {"x": state}


def holm(p: dict[str, float]) -> set[str]:
    """Holm's step-down procedure at 5 %, as textbooks have it."""
    rejected: set[str] = set()
    for index, name in enumerate(sorted(p, key=p.__getitem__)):
        if p[name] > 0.05 / (len(p) - index):
            break
        rejected.add(name)
    return rejected


def test_the_gate_is_wilcoxons_exact_test_with_holms_correction() -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(60):
        above = {at: rng.standard_normal(11) * 0.01 + rng.normal(0, 0.01) for at in "abc"}
        above = {at: v for at, v in above.items() if stats.lag1(v) <= stats.CORRELATED}

        def p(values: np.ndarray, side: str) -> float:
            return float(wilcoxon(values, alternative=side, method="exact").pvalue)

        kept = holm({at: p(values, "greater") for at, values in above.items()})
        broken = {at for at, values in above.items() if p(values, "less") <= 0.01}
        gains = {at: (values + math.log1p(-0.1)).tolist() for at, values in above.items()}
        states = matrix_rules.throughput(gains, -0.1)
        assert {at for at, state in states.items() if state == "kept"} == kept
        assert {at for at, state in states.items() if state == "broken"} == broken
        seen.add((len(kept), len(broken), len(states)))
    assert len(seen) > 8


def test_error_rates_at_the_floor() -> None:
    """Three modes exactly at the floor, 400 times: they are dropped or passed in few cases."""
    rng = np.random.default_rng(4)
    dropped = passed = 0
    for _ in range(400):
        values = math.log1p(-0.1) + 0.02 * rng.standard_normal((3, 14))
        states = matrix_rules.throughput(dict(zip("abc", values.tolist(), strict=True)), -0.1)
        dropped += list(states.values()).count("broken")
        passed += "kept" in states.values()
    assert dropped / 1200 <= 0.02
    assert passed / 400 <= 0.07


def test_correlated_rounds_are_merged_before_they_count() -> None:
    steps = [0.01 * (i // 6) - 0.095 for i in range(12)]
    assert matrix_rules.throughput({"x": steps}, -0.1) == {"x": "kept"}
    # Seven independent rounds could decide; merged into three pairs they cannot.
    assert matrix_rules.throughput({"x": steps[3:10]}, -0.1) == {"x": "open"}


# ---- which modes go on, and the verdict ----


def test_only_losers_are_dropped_and_lack_of_room_is_called_so() -> None:
    evidence = {
        "base": Evidence(None, soak(), 1),
        "slow": Evidence(None, soak(), 1, gains(-40)),
        "good": Evidence(None, soak(), 1, gains(5)),
        "fair": Evidence(None, soak(), 1, gains(0)),
        "wide": Evidence(None, soak(), 1, gains(2, noise=0.1, seed=3)),
    }
    rules = Rules(throughput_floor=-0.2)
    result = matrix_rules.judge(stage(rules, keep=2), "wall", "base", evidence)
    assert result.going == ["good", "fair"]
    assert result.left_out["slow"] == "broke throughput"
    assert result.left_out["wide"].startswith("no room: 2 of 3")
    assert "broke no rule" in result.left_out["wide"]
    assert set(result.ratios) == {"slow", "good", "fair", "wide"}
    assert result.ratios["slow"].high < 0.8


def matrix(*stages: Stage) -> Matrix:
    modes = {name: Mode(name) for name in ("base", "a", "b", "fix")}
    return Matrix("t", "base", ("x",), "wall", modes, stages, "0")


FIRST = stage(Rules(cv=0.05), modes=("base", "a", "b"))
LAST = replace(FIRST, name="2", modes=None)
FIXED = replace(FIRST, name="end", modes=("fix",))


def result(of: Stage, left_out: dict[str, str] | None = None, **states: str) -> Result:
    found = {name: [Judgement("CV", state, "w")] for name, state in states.items()}
    return Result(of, {}, found, {}, [], left_out or {})


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([result(FIRST, a="kept", b="broken"), result(LAST, a="kept")], "GO"),
        ([result(FIRST, a="open", b="broken"), result(LAST, a="kept")], "GO"),
        ([result(FIRST, a="kept", b="broken"), result(LAST, a="open")], "UNDECIDED"),
        ([result(FIRST, a="kept", b="broken"), result(LAST, a="broken")], "NO-GO"),
        ([result(FIRST, a="broken", b="broken")], "NO-GO"),
        ([result(FIRST, {"b": "no room"}, a="kept", b="kept"), result(LAST, a="kept")], "GO"),
        (
            [result(FIRST, {"b": "no room"}, a="kept", b="kept"), result(LAST, a="broken")],
            "UNDECIDED",
        ),
        ([result(FIRST, a="kept", b="kept")], "UNDECIDED"),
        # A later stage does not make a broken rule good.
        ([result(FIRST, a="broken", b="broken"), result(LAST, a="kept")], "NO-GO"),
    ],
)
def test_verdicts(results: list[Result], verdict: str) -> None:
    found = matrix_rules.conclude(matrix(FIRST, LAST), results)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("state", "verdict"), [("kept", "GO"), ("open", "UNDECIDED"), ("broken", "NO-GO")]
)
def test_the_fixed_modes_of_a_last_stage_count_too(state: str, verdict: str) -> None:
    results = [result(FIRST, a="kept", b="broken"), result(FIXED, fix=state)]
    assert matrix_rules.conclude(matrix(FIRST, FIXED), results).verdict == verdict


# ---- the file ----


def load(tmp_path: Path, text: str) -> Matrix:
    file = tmp_path / "m.toml"
    file.write_text(text)
    return plan.load(file)


def test_a_file_is_read(tmp_path: Path) -> None:
    found = load(tmp_path, MATRIX)
    assert found.modes["x"].environment == {"HAKMEM_X": "1"}
    assert found.candidates == ("x",)
    assert found.stages[0].rules == Rules(throughput_floor=-0.2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title", "titel", "unknown: titel"),
        ("throughput_floor", "throughput_flor", "unknown: throughput_flor"),
        ("-0.2", "0.2", "a loss between -1 and 0"),
        ("rounds = 14", "rounds = 13", "at least 14 are needed"),
        ("seconds = 60", "seconds = 20", "under 40 epochs"),
        ("seconds = 60", "seconds = 0", "above 0"),
        ('["base", "x"]', '["base", "y"]', "unknown mode: y"),
        ('["base", "x"]', '"survivors"', "is the first"),
        ('["base", "x"]', '["base"]', "no mode besides the baseline"),
        ('name = "x"', 'name = "base"', "same name"),
        ("rules = {", 'rules = { rss = "none",', 'rss is "baseline"'),
        ("rules = {", "rules = { rss = { per_live = 1 },", "plus_mib is missing"),
        *(
            ("rules = {", f"rules = {{ rss_below = {size},", "rss_below is a size with its unit")
            for size in ('"15"', "15", '"15 mb"', '"15 Mb"', '"-1 MB"', '"0 MB"', '"15 MB "', '""')
        ),
        ("rules = {", 'rules = { drift = ["all"],', "drift is a list"),
        ("command =", 'clock = "moon"\ncommand =', 'clock is "wall" or "cpu"'),
        ("title = ", "title = [", "is not TOML"),
        ("command =", 'epoch_s = "x"\ncommand =', "epoch_s must be a number"),
        ("rules = {", 'rules = { cv = "x",', "cv must be a number"),
        ("rules = {", "rules = { drift = 1,", "drift is a list"),
        ("{ HAKMEM_X = 1 }", "1", "environment must be a table"),
        ('name = "x"', 'name = "a b"\n[[mode]]\nname = "a/b"', "same name"),
    ],
)
def test_what_a_file_must_not_say(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in MATRIX
    with pytest.raises(LabError, match=message):
        load(tmp_path, MATRIX.replace(old, new, 1))


def test_scaling_keeps_what_the_rules_need() -> None:
    full = plan.load(plan.find("lean"))
    for scale in (0.5, 0.01, 1e-6):
        for before, after in zip(full.stages, plan.scaled(full, scale).stages, strict=True):
            assert after.seconds >= before.seconds * scale
            assert after.seconds / after.epoch_s >= 40
            assert after.epoch_s >= 0.05
            assert after.pair_s >= 0.5
            assert after.rounds == before.rounds
            assert after.shortened == (after.epoch_s < before.epoch_s)


def test_the_lean_matrix_says_what_was_asked_of_it() -> None:
    lean = plan.load(plan.find("matrices/lean.toml"))
    assert [stage.seconds for stage in lean.stages] == [60, 300, 1800, 3600]
    assert [stage.keep for stage in lean.stages] == [2, 1, None, None]
    assert lean.candidates == ("LEAN+OFF", "LEAN+FREE", "LEAN+DONTNEED")
    one, two, three, final = (stage.rules for stage in lean.stages)
    assert (one.throughput_floor, one.rss) == (-0.2, "baseline")
    assert (two.throughput_floor, two.drift, two.cv) == (-0.1, ("rss", "throughput"), 0.05)
    assert (three.throughput_floor, three.calls_per_op) == (-0.1, 1e-6)
    assert isinstance(three.rss, RssBound)
    assert (final.drift, final.cv) == (("rss", "throughput"), 0.05)
    assert lean.stages[3].modes == ("balanced", "speed")
