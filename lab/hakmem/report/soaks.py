"""The report's part on soaks: the epochs as charts, and what the analysis said of them. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem.errors import LabError
from hakmem.lazy import np
from hakmem.report import lines as report_lines
from hakmem.report.charts import COLOUR
from hakmem.report.lines import Chart, Line
from hakmem.report.records import Asked
from hakmem.soak import analysis as soak_analysis, epochs_csv, view
from hakmem.soak.analysis import Analysis
from hakmem.soak.epochs_csv import Soak
from hakmem.soak.view import NAMES

# The split of memory, in the order in which it is drawn.
MEMORY = {
    "committed_kb": "--s6",
    "rss_kb": "--s1",
    "anon_kb": "--s3",
    "anonhuge_kb": "--s4",
    "lazyfree_kb": "--s5",
    "live_kb": "--s2",
}


@dataclass(frozen=True)
class Shown:
    """A soak on the page. `asked` None: read from a file, not from a record."""

    id: str
    asked: Asked | None
    title: str
    facts: Mapping[str, str]
    charts: Sequence[Chart]
    rows: Sequence[Mapping[str, str]]
    remarks: Sequence[str]
    absent: Sequence[str]


def of_record(asked: Asked, csv: bytes) -> Shown:
    """The epochs as recorded, analysed as a file is."""
    body = asked.body
    environment = body.get("environment") or {}
    title = Path(str(body["command"][0])).name
    if environment:
        title += " with " + " ".join(f"{k}={v}" for k, v in environment.items())
    facts = {"command": shlex.join(body["command"])}
    binary = body.get("binary") or {}
    facts["library"] = f"{binary.get('name', '?')} {binary.get('version', '')}".strip()
    soak, analysis = analysed(f"soak {asked.record.id}", csv)
    return shown(asked, title, facts, soak, analysis, asked.record.id)


def of_file(name: str, csv: bytes, id: str) -> Shown:
    """A CSV of any soak."""
    soak, analysis = analysed(name, csv)
    known = ("command", "library", "environment", "begun", "end")
    facts = {key: soak.facts[key] for key in known if soak.facts.get(key)}
    return shown(None, name, facts, soak, analysis, id)


def analysed(name: str, csv: bytes) -> tuple[Soak, Analysis]:
    try:
        soak = epochs_csv.parse(csv.decode())
        return soak, soak_analysis.analyze(soak)
    except UnicodeDecodeError:
        raise LabError(f"{name}: the epochs are not text") from None
    except LabError as error:
        raise LabError(f"{name}: {error}") from None


def shown(
    asked: Asked | None,
    title: str,
    facts: Mapping[str, str],
    soak: Soak,
    analysis: Analysis,
    key: str,
) -> Shown:
    columns = soak_analysis.with_derived(soak.columns)
    constant = [n for n in MEMORY if n in columns and not np.nanmax(np.abs(columns[n]), initial=0)]
    # The first epoch after the warm-up.
    first = max(0, min(soak.epochs - analysis.used, soak.epochs - 1))

    def lines(colors: Mapping[str, str]) -> list[Line]:
        there = [name for name in colors if name in columns and name not in constant]
        return [Line(NAMES[n][0], columns[n] * NAMES[n][2], colors[n]) for n in there]

    drawn = (
        ("throughput", *NAMES["ops_per_s"][:2], lines({"ops_per_s": "--s1"}), "ops_per_s"),
        ("ns", *NAMES["ns_per_op"][:2], lines({"ns_per_op": "--s3"}), ""),
        ("memory", "memory", "MiB", lines(MEMORY), "rss_kb"),
    )
    return Shown(
        key,
        asked,
        title,
        facts,
        [
            _chart(f"{key}-{what}", name, unit, found, judged, columns["t_s"], first, analysis)
            for what, name, unit, found, judged in drawn
            if found
        ],
        rows(analysis),
        [*view.distribution_lines(analysis), *view.remarks(analysis)],
        [f"{NAMES[name][0]}: 0 in every epoch" for name in constant],
    )


def _chart(
    key: str,
    title: str,
    unit: str,
    lines: Sequence[Line],
    judged: str,
    times: np.ndarray,
    first: int,
    analysis: Analysis,
) -> Chart:
    """With the drift line and the lasting steps of the column it is judged by, if it is."""
    steps = tuple(change.t_s for change in analysis.changes.get(judged, ()))
    trend: list[tuple[float, float]] = []
    drift = analysis.drift.get(judged)
    if drift is not None and math.isfinite(drift.per_run) and analysis.run_s > 0:
        # A Theil-Sen line goes through both medians.
        factor = NAMES[judged][2]
        middle, slope = float(np.median(times[first:])), drift.per_run / analysis.run_s
        for t in (float(times[first]), float(times[-1])):
            trend.append((t, factor * (analysis.plateau[judged] + slope * (t - middle))))
    name = f"drift of {NAMES[judged][0]}" if trend else ""
    zero = title == "memory"
    return Chart(key, title, unit, times, lines, float(times[first]), trend, name, steps, zero)


def rows(analysis: Analysis) -> list[dict[str, str]]:
    """The lines of the table: plateau, and drift with its margin and state where it is judged."""
    made = []
    for name in (name for name in NAMES if name in analysis.plateau):
        row = {"name": NAMES[name][0], "plateau": view.shown(name, analysis.plateau[name])}
        if drift := analysis.drift.get(name):
            row["margin"] = view.shown(name, drift.margin, unit=False)
            row["drift"] = view.drift_words(name, drift)
            row["state"] = view.MARKS[drift.state].plain
            row["css"] = COLOUR[drift.state]
        made.append(row)
    return made


def data(soak: Shown) -> dict[str, Any]:
    """Each chart for the script, by its id."""
    return {
        chart.id: {**report_lines.data(chart), "group": soak.id, "last": chart is soak.charts[-1]}
        for chart in soak.charts
    }
