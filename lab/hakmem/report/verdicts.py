"""The report's parts on verdicts, and on records that are a table of figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem.ledger import claims
from hakmem.paired import recording
from hakmem.report import charts
from hakmem.report.charts import Ratio, Sides
from hakmem.report.records import Asked
from hakmem.stats import Interval

SIDES = Sides("Every ratio with its interval", "B has less", "B has more")


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


def verdict(asked: Asked) -> Verdict:
    body = asked.body
    state = charts.COLOUR.get(str(body["verdict"]), "undecided")
    # A record's keys are sorted: which is the target is in their names.
    metrics = sorted(body["metrics"].items(), key=lambda item: item[0].startswith(recording.GUARD))
    target, *guards = (
        Track(name, str(entry.get("of", "")), claims.interval(entry), "guard" if number else state)
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
    return charts.forest(drawn, SIDES)


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
    metrics = (body.get("metrics") or {}).items()
    found = [(str(name), *claims.for_people(metric)) for name, metric in metrics]
    return Figures(
        asked, asked.record.title, said, found + _posterior(body), body.get("failures") or {}
    )


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
