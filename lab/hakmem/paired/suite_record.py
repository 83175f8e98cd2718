"""The records of a comparison over the suite. Pure.

A `comparison` of each benchmark, of hakmem (cell A) with all rivals, is recorded as soon as it is
measured; the `suite` over them all is derived from these. A comparison has the benchmark's own
figure (`time`) and, off the same samples, `cpu`, `memory` and `variation`: the coefficient of
variation of the samples in a block. Ratios are hakmem ÷ rival, each with a word from hakmem's side.
Against *the oracle* they are hakmem ÷ the best rival, which was chosen on one half of the blocks
and scored on the other: the luckiest of eight noisy rivals is no rival.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from hakmem import __version__, stats
from hakmem.ledger.store import Record
from hakmem.paired import cells, oracle, protocol, readings, recording
from hakmem.paired.blocks import BASE, FLOOR, LEAST_NET, Outcome, Plan, Track, change_of
from hakmem.paired.oracle import ORACLE
from hakmem.paired.protocol import Decision
from hakmem.paired.readings import Reading
from hakmem.paired.session import Conducted
from hakmem.process.sample import Sample
from hakmem.process.settings import tuning
from hakmem.suite import LATENCIES, Figure
from hakmem.words import TIE_BAND

TIME, CPU, MEMORY, VARIATION = "time", "cpu", "memory", "variation"
WALL, OVER_TIME = "wall", "mbs"
# The kinds of ratio for which there is an oracle, and their titles.
TITLES = {
    TIME: "time",
    CPU: "CPU",
    WALL: "wall time",
    MEMORY: "memory",
    OVER_TIME: "memory over time",
}
# Further figures of a program, which are shown.
OF_PROGRAM = (WALL, "sys", "faults", OVER_TIME, "quiet")
# Kinds of interval. A record has the index, so the order must not change.
KINDS = (protocol.KIND, "range", oracle.KIND)
STATED = ("version", "origin", "sha256", "beside")  # of each library
DIGITS = 5  # of a recorded figure; what follows is noise
SAME_TICKS = 0.03  # two figures so near to each other are the same number of a clock's ticks

# letter -> block -> ln (cell ÷ A), NaN where the block does not have it
Changes = Mapping[str, Sequence[float]]


def metric_name(benchmark: str, kind: str, rival: str) -> str:
    """The name by which a ratio is cited; it has no slash, even if a rival is named by a path."""
    words = (benchmark, "" if kind == TIME else kind, "against", rival.replace("/", "-"))
    return " ".join(filter(None, words))


# ---- from a finished comparison to its record ----


def word(decision: Decision) -> str:
    """hakmem's result by a decision on it; a tie, which is a finding too, is within TIE_BAND."""
    if decision.verdict != "UNDECIDED":
        return "win" if decision.verdict == "GO" else "loss"
    return "tie" if protocol.near(decision.target, math.log1p(TIE_BAND)) else "undecided"


def comparison(
    done: Conducted, figure: Figure, setting: str, facts: recording.Facts
) -> dict[str, Any]:
    """The record of one benchmark; `setting` is the id of the record that all rows share."""
    plan, outcome = done.plan, done.outcome
    track = plan.tracks[0]
    names = {at: cell.name for at, cell in plan.cells.items()}
    return {
        "setting": setting,
        "suite": figure.name,
        "subject": names[BASE],
        "cells": names,
        "what": figure.what,
        "unit": track.reading.unit,
        "reading": track.reading.words,
        "better": track.reading.better,
        "program": _program(track),
        **measured(done, figure),
        "left_out": {names[at]: why for at, why in outcome.failures.items()},
        **recording.rules(plan),
        "benchmarks": [recording.track_entry(track)],
        "source": dict(facts.source),
        **recording.course(done),
        "ok": True,
    }


def measured(done: Conducted, figure: Figure) -> dict[str, Any]:
    """What a comparison says of its cells, all of which follows from the samples."""
    plan, outcome = done.plan, done.outcome
    track = plan.tracks[0]
    decided = list(outcome.decisions)
    names = {at: cell.name for at, cell in plan.cells.items()}
    ratios: dict[str, dict[str, Any]] = {}
    hidden = [at for at in (BASE, *decided) if not _visible(outcome.samples(track.name, at))]
    tick = tick_of(outcome.samples(track.name, at) for at in (BASE, *decided))
    for kind, reading in kinds(track, figure).items():
        if kind == MEMORY and hidden:  # the leanest rival may be hidden
            continue
        changes = _changes(outcome, reading, kind, tick)
        found = outcome.decisions if kind == TIME else _judged(changes, decided, reading, plan)
        of = Track(figure.name, "target", reading, track.works)
        ratios[kind] = {
            names[letter]: _short(recording.ratio(of, mine.target), mine.blocks, word(mine))
            for letter, decision in found.items()
            if (mine := _in_ticks(protocol.swapped(decision), reading, outcome, letter, tick))
        }
        for letter, decision in found.items() if kind == VARIATION else ():
            if decision.target.kind == protocol.KIND:  # only an interval enters a mean
                ratios[kind][names[letter]].append(round(oracle.error(changes[letter]), DIGITS))
        costs = [[reading.sign * c for c in changes[at]] for at in found if at in changes]
        score = oracle.score(costs) if kind in TITLES else None
        if score:
            hakmem_by_it = replace(score, log=-reading.sign * score.log)
            ratios[kind][ORACLE] = _short(hakmem_by_it.interval, outcome.rounds, None)
    cells = {at: cell_figures(track, outcome, at, figure.also) for at in (BASE, *decided)}
    return {
        "figures": {names[at]: _rounded(found) for at, found in cells.items()},
        "hidden": [names[at] for at in hidden],
        "tick_ns": round(tick, 2) or None,
        "ratios": ratios,
        "blocks": [min(d.blocks for d in outcome.decisions.values()), outcome.rounds],
    }


def _visible(samples: Sequence[Sample]) -> bool:
    """Whether every sample has a peak: that of a small program is hidden by the launcher's."""
    return all(sample.max_rss_kb for sample in samples)


def _program(track: Track) -> dict[str, Any] | None:
    """What is needed to run a real program again: command line, version and inputs; else None."""
    ready = track.works[BASE].program
    if ready is None:
        return None
    return {"argv": list(ready.program.argv), "version": ready.version, "inputs": ready.made}


def kinds(track: Track, figure: Figure) -> dict[str, Reading]:
    """The readings judged off the samples, by kind: the row's own figure, and others that differ
    from it.

    `cpu` is all CPU time, also where the row's own figure is net of a floor. A benchmark that only
    starts other programs has no memory that is worth showing.
    """
    found = {TIME: track.reading}
    command = track.works[BASE].command
    if command is None:
        found |= {kind: readings.choose(kind, None) for kind in (WALL, OVER_TIME)}
        found[MEMORY] = readings.choose("rss", None)
        return found
    if track.floor or track.reading.name not in ("cpu", "cycles", "cpu_us", *readings.MEMORY):
        found[CPU] = readings.choose("cpu", figure.command)
    if not command.starts:
        found[MEMORY] = readings.choose("rss", figure.command)
    if track.turns > 1:
        found[VARIATION] = track.reading
    return found | {name: readings.choose(name, figure.command) for name in figure.also}


def _judged(
    changes: Changes, letters: Sequence[str], reading: Reading, plan: Plan
) -> dict[str, Decision]:
    """Judges another figure on the same blocks, by the same rule. It is always the last look,
    because the row's own figure has decided how many blocks there are."""
    gains = {
        at: [[reading.sign * change for change in changes[at] if math.isfinite(change)]]
        for at in letters
        if any(map(math.isfinite, changes.get(at, ())))
    }
    return protocol.look(gains, "improvement", plan.margin, last=True) if gains else {}


def tick_of(cells: Iterable[Sequence[Sample]]) -> float:
    """The tick of the clock that times single calls, in ns: the least gap between any two of their
    medians and 99th percentiles, 0 being one of them. 0 where no sample has such figures.

    Of one length of ticks runs give figures that differ by the time of a tick, which each run
    measures for itself: that is no gap.
    """
    names = [f"{name}_ns" for name in LATENCIES if name.endswith(("p50", "p99"))]
    stated = (sample.stated(name) for samples in cells for sample in samples for name in names)
    known = sorted({0.0, *(value for value in stated if value is not None)})
    return min((b - a for a, b in pairwise(known) if b - a > SAME_TICKS * b), default=0.0)


def _in_ticks(
    decision: Decision, reading: Reading, outcome: Outcome, letter: str, tick: float
) -> Decision:
    """A decision on figures of single calls, each of which may be half a tick more or less: where
    the interval then has both signs it is undecided. Decisions on other figures stay."""
    if reading.name not in LATENCIES or not tick:
        return decision
    track, gain = outcome.blocks[0].track, decision.target
    (less, more), (rival_less, rival_more) = (
        _half_a_tick([_at_least(tick, reading.of(s)) for s in outcome.samples(track, at)], tick)
        for at in (BASE, letter)
    )
    target = replace(gain, low=gain.low + rival_less - more, high=gain.high + rival_more - less)
    settled = target.low > 0 or target.high < 0
    return replace(decision, target=target, verdict=decision.verdict if settled else "UNDECIDED")


def _half_a_tick(figures: Sequence[float], tick: float) -> tuple[float, float]:
    """ln of the factors by which half a tick makes the mean of the figures less, and more."""
    mean = statistics.fmean(figures)
    ends = (max(mean - tick / 2, LEAST_NET * tick), mean + tick / 2)
    return math.log(ends[0] / mean), math.log(ends[1] / mean)


def _at_least(tick: float, value: float | None) -> float:
    """The figure of single calls; half a tick where it is 0, for no call takes no time."""
    return max(value or 0.0, tick / 2)


def _changes(outcome: Outcome, reading: Reading, kind: str, tick: float) -> Changes:
    """The changes of each rival, block by block; those of the row's own figure net of its floor."""
    rows = []
    for block in outcome.blocks:
        values: dict[str, list[float]] = {}
        for at, sample in zip(block.order, block.samples, strict=True):
            wanted = at in block.gains or at == BASE or (at == FLOOR and kind == TIME)
            value = reading.of(sample) if wanted and sample.error is None else None
            if value is not None and reading.name in LATENCIES:
                value = _at_least(tick, value)
            if value is not None and value > 0:
                values.setdefault(at, []).append(value)
        change = _spread if kind == VARIATION else partial(change_of, reading=reading)
        rows.append(change(values) if BASE in values else {})
    letters = sorted({at for row in rows for at in row})
    return {at: [row.get(at, math.nan) for row in rows] for at in letters}


def _spread(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """ln of the ratio of two cells' coefficients of variation in a block, floors not subtracted."""
    logs = {at: math.log(max(stats.variation(mine), 1e-9)) for at, mine in values.items()}
    return {at: log - logs[BASE] for at, log in logs.items() if at not in (BASE, FLOOR)}


def cell_figures(
    track: Track, outcome: Outcome, letter: str, also: Sequence[str]
) -> dict[str, Any]:
    """A cell's figures over all its samples: the row's own, net of its floor; the mean peak in KiB;
    and the mean of each figure in `also` or, of a program, in OF_PROGRAM."""
    samples = outcome.samples(track.name, letter)
    peaks = [sample.max_rss_kb for sample in samples if sample.max_rss_kb]
    found = {
        "value": outcome.net(track, letter),
        "memory_kb": round(statistics.fmean(peaks)) if peaks and _visible(samples) else None,
        "samples": len(samples),
    }
    program = track.works[BASE].program
    for name in OF_PROGRAM if program else also:
        reading = readings.choose(name, None if program else track.name)
        values = [value for sample in samples if (value := reading.of(sample)) is not None]
        if values and (name != "quiet" or (program and program.program.quiet_s)):
            found[name] = statistics.fmean(values)
    return found


def _short(ratio: stats.Interval, blocks: int, said: str | None) -> list[Any]:
    """A ratio as recorded, four dozen times in a comparison: estimate, low, high, index in KINDS,
    blocks, word; of a variation with an interval its standard error. `metrics` reads it."""
    numbers = (float(f"{x:.{DIGITS}g}") for x in (ratio.estimate, ratio.low, ratio.high))
    return [*numbers, KINDS.index(ratio.kind), blocks, said]


def metrics(part: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The ratios of a comparison as metrics that can be cited, by name. In older records a tie of
    single calls is none: whole ticks of the clock were taken for times."""
    found = {}
    for kind, by_rival in part["ratios"].items():
        coarse = kind in LATENCIES and "tick_ns" not in part
        for rival, (value, low, high, sort, blocks, told, *error) in by_rival.items():
            said = "undecided" if coarse and told == "tie" else told
            entry = {"value": value, "low": low, "high": high, "kind": KINDS[sort]}
            entry |= {"unit": "ratio", "blocks": blocks} | ({"verdict": said} if said else {})
            entry |= {"error": error[0]} if error else {}
            found[metric_name(part["suite"], kind, rival)] = entry
    return found


def _rounded(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for key, value in entry.items()
    }


# ---- from these to the suite ----


def body(
    records: Sequence[Record],
    failures: Mapping[str, str],
    left_out: Mapping[str, Mapping[str, str]],
    absent: Mapping[str, str],
    setting: Record,
    *,
    subject: str,
    programs: bool,
    seed: int,
) -> dict[str, Any]:
    """The record over the comparisons. `failures` are rows that hakmem or the floor failed,
    `left_out` rows that all rivals failed, `absent` programs that are not here. Without any
    comparison it is derived from the setting alone."""
    bodies, common = [record.body for record in records], setting.body
    return {
        "subject": subject,
        "programs": programs,
        "lab": __version__,
        "ok": not failures,
        "metrics": overall(bodies),
        "failures": dict(failures),
        "left_out": {name: dict(whys) for name, whys in left_out.items()},
        "absent": dict(absent),
        "libraries": {
            side["name"]: {key: side[key] for key in STATED if key in side}
            for side in common["binaries"].values()
        },
        "benchmarks": [track for found in bodies for track in found["benchmarks"]],
        "blocks": [
            min((found["blocks"][0] for found in bodies), default=0),
            max((found["blocks"][1] for found in bodies), default=0),
        ],
        "protocol": protocol.METHOD,
        "seed": seed,
        "source": common["source"],
        "host": common["host"],
        "argv": common["argv"],
        "settings_of_user": common["settings_of_user"],
        "inputs": [record.id for record in records] or [setting.id],
    }


def overall(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Geometric means over the rows: hakmem ÷ oracle, and the variation against each rival.

    A row whose time is CPU time enters both means. `in_mean` says which rows a mean has, and by
    which of their ratios.
    """
    entered: dict[str, list[dict[str, Any]]] = {}
    variations: dict[str, list[dict[str, Any]]] = {}
    for one in bodies:
        known = metrics(one)
        # The variation of a single benchmark is mostly the machine's; that of all says something.
        for rival in one["ratios"].get(VARIATION, ()):
            entry = known[metric_name(one["suite"], VARIATION, rival)]
            if entry["kind"] == protocol.KIND:
                variations.setdefault(metric_name(VARIATION, TIME, rival), []).append(entry)
        for kind, title in TITLES.items():
            own = in_mean(kind, one)
            if own and ORACLE in one["ratios"][own]:
                entry = known[metric_name(one["suite"], own, ORACLE)]
                entered.setdefault(metric_name(title, TIME, ORACLE), []).append(entry)
    found = {name: oracle.mean(entries) for name, entries in entered.items()}
    found |= oracle.means_of_all(variations)
    return {name: _rounded(mean) for name, mean in found.items()}


def in_mean(kind: str, part: Mapping[str, Any]) -> str | None:
    """The kind of ratio by which a row enters the mean of `kind`; None: it does not.

    A row above a floor enters the mean of times with all of its CPU time: a net ratio beside whole
    ones would weigh what the row does not cost. It is left out where that time was not recorded.
    Figures that are no time (memory, page faults, the tail of single calls) enter no mean of times.
    """
    there, reading, floor = part["ratios"], part["reading"], floor_of(part)
    if kind == TIME and floor:
        return CPU if CPU in there else None
    if kind != TIME and kind in there:
        return kind
    fitting = {TIME: readings.OF_TIME, CPU: readings.OF_CPU}.get(kind, ())
    return TIME if reading in fitting and not floor else None


def floor_of(part: Mapping[str, Any]) -> str | None:
    """The floor that the row's own figure is net of, or None."""
    return next((track["floor"] for track in part.get("benchmarks", ())), None)


def whole(suite: Record, records: Mapping[str, Record]) -> dict[str, Any] | None:
    """The suite with the `rows` and `metrics` of its benchmarks, the `settings` that all cells or
    the compared one had, and the name of the compared library (`of`).

    None where its inputs are not of this form: an earlier method measured it, whose tables are not
    shown any more.
    """
    inputs = [records[id] for id in suite.body["inputs"] if id in records]
    parts = [record.body for record in inputs if record.kind == "comparison"]
    alone = [record.kind for record in inputs] == ["setting"]  # hakmem failed all rows
    if len(inputs) < len(suite.body["inputs"]) or not (alone or len(parts) == len(inputs) > 0):
        return None
    setting = inputs[0] if alone else records.get(str(parts[0].get("setting")))
    told = _told(suite.body, setting.body if setting else {})
    return joined({**suite.body, **told}, parts)


def _told(suite: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` and `of` for `whole`, from the setting and from --lib of the command line."""
    settings = tuning(setting.get("settings_of_user", {}))
    words = [str(word) for word in suite.get("argv", ())]
    for option, cell in pairwise([*words, ""]):
        if option == "--lib":
            settings |= cells.environment_of(cell)
        elif option.startswith("--lib="):
            settings |= cells.environment_of(option.removeprefix("--lib="))
    return {"settings": settings, "of": setting.get("binaries", {}).get(BASE, {}).get("name")}


def joined(body: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A suite's body with its rows. A row is a comparison as recorded, with the floor it is net of
    (`floor`) and the kind of ratio by which it enters each mean (`means`)."""
    found = overall(parts)
    for part in parts:
        found |= metrics(part)
    rows = [
        {
            **{"what": "", "program": None, "hidden": ()},
            **part,
            "benchmark": part["suite"],
            "floor": floor_of(part),
            "means": {kind: in_mean(kind, part) for kind in TITLES},
        }
        for part in parts
    ]
    programs = any(row["program"] for row in rows)
    return {"programs": programs, **body, "rows": rows, "metrics": found}


def rivals_of(row: Mapping[str, Any]) -> list[str]:
    """The row's rivals: those with figures, then those that failed."""
    return [*(name for name in row["figures"] if name != row["subject"]), *row["left_out"]]
