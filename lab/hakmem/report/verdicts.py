"""The report's parts on verdicts, and on records that are a table of figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem import words
from hakmem.ledger import claims
from hakmem.ledger.store import Record
from hakmem.paired import recording
from hakmem.report import charts
from hakmem.report.charts import Ratio, Sides
from hakmem.report.records import Asked
from hakmem.stats import Interval

SIDES = Sides("Every ratio with its interval", "B has less", "B has more")
STATES = {"GO": "win", "NO-GO": "loss", "UNDECIDED": "undecided"}


@dataclass(frozen=True)
class Track:
    """One figure of a verdict, as the ratio B ÷ A, and what it says of its question."""

    name: str
    of: str
    ratio: Interval
    state: str


@dataclass(frozen=True)
class Verdict:
    asked: Asked
    pair: str
    target: Track
    guards: Sequence[Track]


def interval(metric: Mapping[str, Any]) -> Interval:
    """A metric's interval; of one that has none, the value itself."""
    value = claims.value(metric)
    low, high = claims.ends(metric) or (value, value)
    return Interval(value, low, high, str(metric.get("kind", "")))


def verdict(asked: Asked) -> Verdict:
    body = asked.body
    state = STATES.get(str(body["verdict"]), "undecided")
    # A record's keys are sorted: which is the target is in their names.
    metrics = sorted(body["metrics"].items(), key=lambda item: item[0].startswith(recording.GUARD))
    target, *guards = (
        Track(name, str(entry.get("of", "")), interval(entry), "guard" if number else state)
        for number, (name, entry) in enumerate(metrics)
    )
    a, b = (str(cell["name"]) for cell in body["cells"])
    return Verdict(asked, f"{b} ÷ {a}", target, guards)


def forest(verdicts: Sequence[Verdict]) -> str:
    """Targets in the colour of their verdict, guards without one."""
    drawn = [
        Ratio(
            found.pair,
            track.name,
            track.ratio,
            track.state,
            f"{found.pair}: {track.of} on {track.name}",
        )
        for found in verdicts
        for track in (found.target, *found.guards)
    ]
    return charts.both(charts.forest, drawn, SIDES)


# ---- anything else that has metrics ----


@dataclass(frozen=True)
class Figures:
    asked: Asked
    title: str
    said: str
    figures: Sequence[tuple[str, str, str]]
    failures: Mapping[str, str]


def figures(asked: Asked) -> Figures:
    """A baseline, a bisection, a hot path: its answer in words, and each figure with its ends."""
    body = asked.body
    said = ": ".join(str(body[key]) for key in ("verdict", "finding", "why") if body.get(key))
    found = []
    for name, metric in (body.get("metrics") or {}).items():
        unit, factor = _scaled(metric)
        value = f"{_number(claims.value(metric) * factor)} {unit}".rstrip()
        ends = claims.ends(metric) or ()
        found.append((str(name), value, "–".join(_number(end * factor) for end in ends)))
    title = str(body.get("question") or body.get("title") or heading(asked.record))
    return Figures(asked, title, said, found + _posterior(body), body.get("failures") or {})


def _posterior(body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Of a bisection: how likely each commit is to have changed it."""
    return [
        (
            f"{entry['commit'][:12]} {entry.get('subject', '')}"
            if entry["commit"]
            else "no commit",
            f"{100 * entry['probability']:.1f} %",
            f"{entry['blocks']} blocks" if entry.get("blocks") else "",
        )
        for entry in body.get("posterior") or ()
    ]


def heading(record: Record) -> str:
    return " ".join(map(str, record.body.get("argv") or [record.kind]))


def _scaled(metric: Mapping[str, Any]) -> tuple[str, float]:
    """The unit a person reads a metric in, and the factor to it."""
    value, unit = claims.value(metric), str(metric.get("unit", ""))
    if unit in ("share", "probability"):
        return "%", 100
    if unit == "B":
        return "MiB", 2**-20
    for factor, prefix in ((1e-9, "G"), (1e-6, "M")):
        if unit.endswith("/s") and abs(value) * factor >= 1:
            return f"{prefix} {unit}", factor
    return "" if unit == "ratio" else unit, 1


def _number(value: float) -> str:
    """Whole numbers whole, small ones not as nothing."""
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.2g}" if abs(value) < 0.01 else words.number(value)
