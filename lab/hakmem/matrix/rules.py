"""The rules of a matrix: each mode's state under each rule, which modes go on, and the verdict.
Pure.

A rule is kept, broken or open. Broken is final, whatever comes later; open means that the evidence
does not decide, and a later stage must.

Throughput is compared between paired fresh processes, never between the soaks: the epochs of one
process are not samples. A round is a block of a comparison: it runs every mode twice, in a random
order and back again, and gives one value per mode, the logarithm of the ratio to the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hakmem import stats
from hakmem.lazy import np
from hakmem.matrix.plan import Clock, Matrix, RssBound, Stage, memory_bytes
from hakmem.paired import protocol
from hakmem.paired.protocol import Verdict
from hakmem.soak.analysis import MEMORY, Analysis
from hakmem.stats import Interval

State = Literal["kept", "broken", "open"]

CRASH, THROUGHPUT, RSS, CV, CALLS = "no crash", "throughput", "RSS", "CV", "calls"
RSS_BELOW = "RSS below"
DRIFT = {"rss": "RSS drift", "throughput": "throughput drift"}
RULES = (CRASH, THROUGHPUT, RSS, RSS_BELOW, *DRIFT.values(), CV, CALLS)

CLEAR = 0.01  # a mode is dropped by its throughput if the 99 % upper bound is below the floor
LEVEL = 0.05  # error rate of keeping the floor, over all modes of the stage together (Holm)

# Calls of the start and the end are counted too: where fewer than this are allowed they weigh much.
LEAST_CALLS = 1000

OF_CLOCK: dict[Clock, str] = {"wall": "ops_per_s", "cpu": "ops_per_cpu_s"}


@dataclass(frozen=True)
class Evidence:
    """What a stage knows of one mode. `error`: how a process of it failed. `gains`: one per round,
    the logarithm of its throughput ÷ the baseline's."""

    error: str | None = None
    analysis: Analysis | None = None
    ops: int | None = None
    gains: Sequence[float] = ()


@dataclass(frozen=True)
class Judgement:
    """A rule's state for a mode, and its figures in words."""

    rule: str
    state: State
    words: str


@dataclass(frozen=True)
class Result:
    """A finished stage: the judgements on each of its modes, with the baseline where it took part;
    the throughput ratios; the modes that go on, and why the others are left out."""

    stage: Stage
    evidence: Mapping[str, Evidence]
    judged: Mapping[str, Sequence[Judgement]]
    ratios: Mapping[str, Interval]
    going: Sequence[str]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class Conclusion:
    verdict: Verdict
    modes: Mapping[str, tuple[Verdict, str]]
    why: str


# ---- throughput ----


def throughput(gains: Mapping[str, Sequence[float]], floor: float) -> dict[str, State]:
    """The states of all modes of a stage together. A mode is kept if its lower bound is above the
    floor, at LEVEL divided by the number of modes that are not kept yet (Holm); it is broken if its
    upper bound, at CLEAR, is below the floor."""
    limit = math.log1p(floor)
    kept = stats.holm(gains, LEVEL, lambda name, level: bounds(gains[name], level)[0] > limit, bool)
    return {
        name: "broken" if bounds(values, CLEAR)[1] < limit else "kept" if kept[name] else "open"
        for name, values in gains.items()
    }


def bounds(gains: Sequence[float], level: float) -> tuple[float, float]:
    """Wilcoxon's one-sided bounds from below and above, each at `level`; NaN: too few values."""
    low, high = protocol.ends(np.asarray([gains], dtype=float), 2 * level)
    return float(low[0]), float(high[0])


def ratio(gains: Sequence[float]) -> Interval:
    """Mode ÷ baseline; each end is a one-sided 99 % bound."""
    kind = f"{100 * (1 - 2 * CLEAR):g} % CI"
    return protocol.interval(gains, *bounds(gains, CLEAR), kind).exp()


# ---- the other rules ----


def rss(
    rule: RssBound | Literal["baseline"], found: Analysis, baseline: Analysis | None
) -> Judgement:
    """Judges the plateau of the soak: memory hardly differs between processes, so one is enough."""
    level = found.plateau.get("rss_kb")
    if level is None:
        return Judgement(RSS, "open", "not recorded")
    if isinstance(rule, RssBound):
        live = found.plateau.get("live_kb")
        if not live:
            return Judgement(RSS, "open", "live bytes not recorded: the bound needs them")
        return _memory(level, rule.per_live * live + rule.plus_mib * 1024)
    base = baseline.plateau.get("rss_kb") if baseline else None
    if base is None:
        return Judgement(RSS, "open", "no baseline to compare with")
    # The margin of the rule on drift holds here too.
    return _memory(level, base + MEMORY.around(base))


def rss_below(limit: str, found: Analysis) -> Judgement:
    level = found.plateau.get("rss_kb")
    if level is None:
        return Judgement(RSS_BELOW, "open", "not recorded")
    size, allowed = 1024 * level, memory_bytes(limit)
    words = f"{size / 2**20:.1f} MiB, limit {limit}"
    return Judgement(RSS_BELOW, "kept" if size < allowed else "broken", words)


def _memory(level: float, allowed: float) -> Judgement:
    words = f"{level / 1024:.1f} of {allowed / 1024:.1f} MiB"
    return Judgement(RSS, "kept" if level <= allowed else "broken", words)


def drift(
    what: Literal["rss", "throughput"], found: Analysis, clock: Clock, short: bool
) -> Judgement:
    """Judges a drift. A drift of throughput in shortened epochs leaves the rule open: within a few
    seconds it is mostly the host's own change of speed."""
    column = "rss_kb" if what == "rss" else OF_CLOCK[clock]
    seen = found.drift.get(column)
    if seen is None:
        return Judgement(DRIFT[what], "open", "not recorded")
    states: dict[str, State] = {"none": "kept", "drifts": "broken", "open": "open"}
    share = found.plateau[column] / 100
    low, high = (value / share if share else math.nan for value in (seen.low, seen.high))
    words = f"[{low:+.1f} … {high:+.1f}] %, allowed {seen.margin / share:.1f}"
    if seen.blocks == 0:
        return Judgement(DRIFT[what], "open", "too few epochs")
    if seen.state == "drifts" and what == "throughput" and short:
        return Judgement(DRIFT[what], "open", f"{words}, of shortened epochs")
    return Judgement(DRIFT[what], states[seen.state], words)


def cv(gate: float, found: Analysis, clock: Clock, short: bool) -> Judgement:
    """Judges the spread. Shortened epochs vary more: those of a rehearsal cannot break the rule."""
    seen = found.spread.get(OF_CLOCK[clock])
    if seen is None:
        return Judgement(CV, "open", "not recorded")
    words = f"{100 * seen.cv:.1f} %"
    if seen.cv >= gate and short:
        return Judgement(CV, "open", f"{words}, of shortened epochs")
    return Judgement(CV, "kept" if seen.cv < gate else "broken", words)


def calls(budget: float, found: Analysis, ops: int | None) -> Judgement:
    seen = found.calls_per_op
    if seen is None or not ops:
        return Judgement(CALLS, "open", "not counted")
    words = f"{seen:.1e} per operation"
    if seen <= budget:
        return Judgement(CALLS, "kept", words)
    if ops * budget < LEAST_CALLS:
        return Judgement(CALLS, "open", f"{words}, too short: start and end weigh too much")
    return Judgement(CALLS, "broken", words)


# ---- a stage ----


def judge(stage: Stage, clock: Clock, baseline: str, evidence: Mapping[str, Evidence]) -> Result:
    """Judges all modes of a stage. The baseline is judged too, but not against itself."""
    rules = stage.rules
    paired = {
        name: seen.gains
        for name, seen in evidence.items()
        if name != baseline and seen.error is None and seen.gains
    }
    states = {}
    if rules.throughput_floor is not None:
        states = throughput(paired, rules.throughput_floor)
    ratios = {name: ratio(gains) for name, gains in paired.items()}
    base = evidence[baseline].analysis if baseline in evidence else None
    judged = {}
    for name, seen in evidence.items():
        crashed: State = "broken" if seen.error else "kept"
        found = [Judgement(CRASH, crashed, seen.error or "none")]
        if seen.error is None and rules.throughput_floor is not None and name != baseline:
            found.append(_floor(states.get(name), ratios.get(name)))
        if seen.error is None and seen.analysis is not None:
            found += _of_the_soak(stage, clock, seen, base, name == baseline)
        judged[name] = found
    going, left_out = select(stage, baseline, judged, ratios)
    return Result(stage, evidence, judged, ratios, going, left_out)


def _floor(state: State | None, ratio: Interval | None) -> Judgement:
    if state is None or ratio is None:
        return Judgement(THROUGHPUT, "open", "no baseline to compare with")
    low, middle, high = (100 * (x - 1) for x in (ratio.low, ratio.estimate, ratio.high))
    return Judgement(THROUGHPUT, state, f"{middle:+.1f} % [{low:+.1f} … {high:+.1f}]")


def _of_the_soak(
    stage: Stage, clock: Clock, seen: Evidence, base: Analysis | None, is_baseline: bool
) -> list[Judgement]:
    rules, analysis = stage.rules, seen.analysis
    assert analysis is not None
    found = []
    if rules.rss is not None and not (is_baseline and rules.rss == "baseline"):
        found.append(rss(rules.rss, analysis, base))
    if rules.rss_below is not None:
        found.append(rss_below(rules.rss_below, analysis))
    found += [drift(what, analysis, clock, stage.shortened) for what in rules.drift]
    if rules.cv is not None:
        found.append(cv(rules.cv, analysis, clock, stage.shortened))
    if rules.calls_per_op is not None:
        found.append(calls(rules.calls_per_op, analysis, seen.ops))
    return found


def select(
    stage: Stage,
    baseline: str,
    judged: Mapping[str, Sequence[Judgement]],
    ratios: Mapping[str, Interval],
) -> tuple[list[str], dict[str, str]]:
    """The modes that go on, and why the others do not: they broke a rule, or had no room."""
    broken = {
        name: [j.rule for j in found if j.state == "broken"]
        for name, found in judged.items()
        if name != baseline
    }
    left_out = {name: f"broke {', '.join(rules)}" for name, rules in broken.items() if rules}
    good = [name for name, rules in broken.items() if not rules]
    best = sorted(good, key=lambda name: -ratios[name].low if name in ratios else math.inf)
    for name in best[stage.keep :] if stage.keep is not None else ():
        left_out[name] = (
            f"no room: {stage.keep} of {len(good)} go on, by the lower bound of throughput; "
            "it broke no rule"
        )
    return [name for name in good if name not in left_out], left_out


# ---- the verdict ----


def standing(name: str, results: Sequence[Result]) -> tuple[Verdict, str]:
    """A mode's verdict over all stages, and why. A rule left open counts as settled by the last
    stage that judged it.

    A mode that was left out for want of room is UNDECIDED: nothing was found against it.
    """
    last: dict[str, State] = {}
    for result in results:
        for judgement in result.judged.get(name, ()):
            if judgement.state == "broken":
                why = f"stage {result.stage.name}: {judgement.rule}, {judgement.words}"
                return "NO-GO", why
            last[judgement.rule] = judgement.state
        if name in result.left_out:
            return "UNDECIDED", f"stage {result.stage.name}: {result.left_out[name]}"
    still_open = [rule for rule, state in last.items() if state == "open"]
    if still_open:
        return "UNDECIDED", f"open to the end: {', '.join(still_open)}"
    return "GO", "kept every rule"


def conclude(matrix: Matrix, results: Sequence[Result], failure: str | None = None) -> Conclusion:
    """GO: some candidate kept every rule to the end, and so did every mode of the fixed stages.

    NO-GO: no candidate is left, or a mode of a fixed stage broke a rule. Else UNDECIDED, also where
    a `failure` of the baseline ended the matrix: then no mode has kept its rules either.
    """
    candidates = {name: standing(name, results) for name in matrix.candidates}
    fixed = {
        name: standing(name, results)
        for result in results[1:]
        for name in result.stage.modes or ()
        if name not in candidates
    }
    modes = {**candidates, **fixed}
    if failure:
        left: tuple[Verdict, str] = ("UNDECIDED", "the matrix did not come to its end")
        modes = {name: left if found[0] == "GO" else found for name, found in modes.items()}
        return Conclusion("UNDECIDED", modes, failure)
    if all(verdict == "NO-GO" for verdict, _ in candidates.values()):
        return Conclusion("NO-GO", modes, "no mode kept the rules")
    broken = [name for name, (verdict, _) in fixed.items() if verdict == "NO-GO"]
    if broken:
        return Conclusion("NO-GO", modes, f"broke a rule of the last stage: {', '.join(broken)}")
    good = [name for name, (verdict, _) in candidates.items() if verdict == "GO"]
    whole = len(results) == len(matrix.stages)
    if good and whole and all(verdict == "GO" for verdict, _ in fixed.values()):
        return Conclusion("GO", modes, f"kept every rule: {', '.join(good)}")
    undecided = [name for name, (verdict, _) in modes.items() if verdict == "UNDECIDED"]
    return Conclusion("UNDECIDED", modes, f"not told: {', '.join(undecided) or 'the stages ahead'}")
