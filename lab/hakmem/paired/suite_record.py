"""The record of a comparison over the suite: made from its verdict records alone. Pure.

A verdict of `compare --bench` answers for hakmem (cell A) against one rival on one benchmark. It
has two metrics, both hakmem ÷ rival: the benchmark's own figure and `memory`, the peak resident set
of the same samples. Each has a word, from hakmem's side.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hakmem import __version__, stats
from hakmem.overview.summary import TIE_BAND
from hakmem.paired import protocol, readings, recording
from hakmem.paired.blocks import BASE, FLOOR, Outcome, Track
from hakmem.paired.protocol import Decision
from hakmem.paired.session import Conducted
from hakmem.suite import Figure

MEMORY = "memory"
KEPT = ("low", "high", "unit", "kind", "verdict")

# ---- from a finished comparison to what its verdicts say more than those of `ab` ----


def word(decision: Decision) -> str:
    """Of a decision whether hakmem is better. A tie is a finding too: all of it near 1."""
    gain, near = decision.target, math.log1p(TIE_BAND)
    if decision.verdict != "UNDECIDED":
        return "win" if decision.verdict == "GO" else "loss"
    close = gain.kind != "range" and gain.low > -near and gain.high < near
    return "tie" if close else "undecided"


def memory(done: Conducted) -> dict[str, Decision]:
    """Whether hakmem's peak is lower, by rival: the same blocks judged by the same rule.

    It stops nothing: the blocks are as many as the benchmark's own figure asked for.
    """
    track = done.plan.tracks[0]
    if not _shows_memory(track):
        return {}
    gains = {letter: _memory_gains(done.outcome, letter) for letter in done.outcome.decisions}
    known = {letter: [values] for letter, values in gains.items() if values}
    return protocol.look(known, "improvement", done.plan.margin, last=True)


def _shows_memory(track: Track) -> bool:
    """A program that only starts others has none that is worth showing."""
    command = track.works[BASE].command
    return command is not None and not command.proof_apart


def _memory_gains(outcome: Outcome, letter: str) -> list[float]:
    """ln rival - ln hakmem of the peaks, block by block; nothing if any block does not show it."""
    values = []
    for block in outcome.blocks:
        if letter in block.gains:
            pair = [
                ("A" if at == BASE else "B", sample.max_rss_kb or 0)
                for at, sample in zip(block.order, block.samples, strict=True)
                if at in (BASE, letter)
            ]
            if min(kb for _, kb in pair) <= 0:
                return []
            values.append(stats.block_value("".join(at for at, _ in pair), [kb for _, kb in pair]))
    return values


def verdict_bodies(
    done: Conducted, figure: Figure, facts: recording.Facts
) -> dict[str, dict[str, Any]]:
    """The verdicts on hakmem against each rival, by the rival's letter."""
    plan, outcome = done.plan, done.outcome
    track, name = plan.tracks[0], plan.cells[BASE].name
    work = track.works[BASE].command
    peaks = Track(MEMORY, "target", readings.choose("rss", figure.command), track.works)
    peak_decisions = memory(done)
    shared = {
        "suite": figure.name,
        "unit": track.reading.unit,
        "reading": track.reading.words,
        "better": track.reading.better,
        "settings": dict(work.settings) if work else {},
        "left_out": {plan.cells[at].name: why for at, why in outcome.failures.items()},
    }
    bodies = {}
    for letter, found in outcome.decisions.items():
        decision = protocol.swapped(found)
        what = f"{track.reading.words} of {figure.name}"
        asked = f"is {name} better than {plan.cells[letter].name} in {what}?"
        body = recording.verdict_body(plan, (letter, BASE), decision, asked, facts)
        body["metrics"][track.name]["verdict"] = word(decision)
        if letter in peak_decisions:
            peak = peak_decisions[letter]
            entry = recording.ratio_entry(peaks, peak.target)
            body["metrics"][MEMORY] = {**entry, "verdict": word(peak)}
        figures = {at: cell_figures(track, outcome, at) for at in (BASE, letter)}
        bodies[letter] = {**body, **shared, "figures": figures}
    return bodies


def cell_figures(track: Track, outcome: Outcome, letter: str) -> dict[str, Any]:
    """Medians of a cell's samples; `cv`, deviation ÷ mean, is of the figure before its floor."""
    values, floor = outcome.values(track, letter), outcome.values(track, FLOOR)
    samples = outcome.samples(track.name, letter) if _shows_memory(track) else []
    peaks = [sample.max_rss_kb for sample in samples if sample.max_rss_kb]
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1))
    return {
        "median": stats.median(values) - (stats.median(floor) if floor else 0.0),
        "memory_kb": round(stats.median(peaks)) if peaks else None,
        "cv": spread / mean,
        "samples": len(values),
    }


# ---- from verdicts to the record ----

Finding = tuple[str, Mapping[str, Any]]


def body(
    findings: Sequence[Finding], failures: Mapping[str, str], argv: Sequence[str]
) -> dict[str, Any]:
    """The record over the verdicts (id and body); `failures` are benchmarks hakmem failed."""
    bodies = [found for _, found in findings]
    names = list(dict.fromkeys(found["suite"] for found in bodies))
    first = bodies[0]
    tracks = {found["suite"]: found["benchmarks"] for found in bodies}
    return {
        "lab": __version__,
        "ok": not failures,
        "metrics": {name: entry for found in bodies for name, entry in _metrics(found)},
        "rows": [_row([f for f in findings if f[1]["suite"] == name]) for name in names],
        "failures": dict(failures),
        "libraries": {
            side["name"]: {key: side.get(key) for key in ("version", "origin", "sha256")}
            for found in bodies
            for side in found["binary"]
        },
        "benchmarks": [track for name in names for track in tracks[name]],
        "blocks": [min(f["blocks"] for f in bodies), max(f["blocks"] for f in bodies)],
        "protocol": first["protocol"],
        "seed": first["seed"],
        "source": first["source"],
        "host": first["host"],
        "argv": list(argv),
        "inputs": [id for id, _ in findings],
    }


def rival_of(found: Mapping[str, Any]) -> str:
    return str(found["cells"][0]["name"])


def _metrics(found: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The verdict's metrics under the names of the whole; a library's path gives no slash."""
    rival = rival_of(found).replace("/", "-")
    titles = {found["suite"]: f"{found['suite']} against {rival}"}
    titles[MEMORY] = f"{found['suite']} memory against {rival}"
    return [
        (titles[name], {**{key: entry[key] for key in KEPT}, "value": entry["estimate"]})
        for name, entry in found["metrics"].items()
    ]


def _row(findings: Sequence[Finding]) -> dict[str, Any]:
    """One benchmark: hakmem's figures, and those of each rival with the verdict on it."""
    first = findings[0][1]
    rivals: dict[str, dict[str, Any]] = {}
    for id, found in findings:
        figures = found["figures"][found["cells"][0]["letter"]]
        rivals[rival_of(found)] = {**figures, "verdict_id": id, "failure": None}
    empty = dict.fromkeys(("median", "memory_kb", "cv", "verdict_id"))
    for name, why in first["left_out"].items():
        rivals[name] = {**empty, "failure": why}
    own = first["figures"][BASE]
    return {
        "benchmark": first["suite"],
        "unit": first["unit"],
        "reading": first["reading"],
        "better": first["better"],
        "settings": first["settings"],
        "hakmem": own["median"],
        "hakmem_memory_kb": own["memory_kb"],
        "hakmem_cv": own["cv"],
        "rivals": rivals,
    }


# ---- which verdicts of an unfinished run are there ----


def complete(findings: Sequence[Finding], rivals: Sequence[str]) -> dict[str, list[Finding]]:
    """The findings of each benchmark that was recorded whole, of the last time it was.

    A writer that was killed may have left a verdict on some rivals only.
    """
    runs: dict[tuple[str, str], list[Finding]] = {}
    for id, found in findings:
        runs.setdefault((found["suite"], found["inputs"][0]), []).append((id, found))
    whole = {}
    for (name, _), run in runs.items():
        told = {rival_of(found) for _, found in run} | run[0][1]["left_out"].keys()
        if told >= set(rivals):
            whole[name] = run
    return whole
