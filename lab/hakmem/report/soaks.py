"""The report's part on soaks: the epochs as charts, and what the analysis said of them. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hakmem.lazy import np
from hakmem.report import lines as report_lines
from hakmem.report.lines import Chart, Line
from hakmem.report.records import Asked
from hakmem.soak import analysis as soak_analysis, view
from hakmem.soak.analysis import Analysis
from hakmem.soak.epochs_csv import Soak
from hakmem.soak.inside import OS_STATS_ON
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


def of_record(asked: Asked, csv: bytes) -> dict[str, Any]:
    """The part on a recorded soak: its epochs, analysed as those of a file are."""
    body = asked.body
    title = Path(str(body["command"][0])).name
    # The lab itself sets this in every soak.
    told = [f"{k}={v}" for k, v in body["environment"].items() if k not in OS_STATS_ON]
    title += f" with {' '.join(told)}" if told else ""
    library = f"{body['binary']['name']} {body['binary']['version']}"
    facts = {"command": shlex.join(body["command"]), "library": library}
    found = soak_analysis.read(f"soak {asked.record.id}", csv)
    return shown(asked.record.id, asked, title, facts, *found)


def of_file(name: str, csv: bytes, id: str) -> dict[str, Any]:
    """The part on the CSV of any soak."""
    soak, analysis = soak_analysis.read(name, csv)
    known = ("command", "library", "environment", "begun", "end")
    facts = {key: soak.facts[key] for key in known if soak.facts.get(key)}
    return shown(id, None, name, facts, soak, analysis)


def shown(
    id: str,
    asked: Asked | None,
    title: str,
    facts: Mapping[str, str],
    soak: Soak,
    analysis: Analysis,
) -> dict[str, Any]:
    """What the page shows. `asked` None: read from a file, not from a record."""
    columns = soak_analysis.with_derived(soak.columns)
    empty = [n for n in MEMORY if n in columns and not np.nanmax(np.abs(columns[n]), initial=0)]
    drawn = {name: column for name, column in columns.items() if name not in empty}
    charts = list(_charts(id, drawn, soak.epochs - analysis.used, analysis))
    return {
        "asked": asked,
        "title": title,
        "facts": facts,
        "charts": charts,
        "data": {
            chart.id: {**report_lines.data(chart), "group": id, "last": chart is charts[-1]}
            for chart in charts
        },
        "rows": view.levels(analysis),
        "remarks": [
            *view.distribution_lines(analysis),
            *view.remarks(analysis),
            *(f"{NAMES[name][0]}: 0 in every epoch" for name in empty),
        ],
    }


def _charts(
    id: str, columns: Mapping[str, np.ndarray], begin: int, analysis: Analysis
) -> Iterator[Chart]:
    """The charts, each with the drift line and the lasting steps of the column it is judged by, if
    there is one.

    `begin` is the first epoch after the warm-up.
    """
    times = columns["t_s"]
    ends = float(times[begin]), float(times[-1])
    for what, title, unit, colors, judged in (
        ("throughput", *NAMES["ops_per_s"][:2], {"ops_per_s": "--s1"}, "ops_per_s"),
        ("ns", *NAMES["ns_per_op"][:2], {"ns_per_op": "--s3"}, ""),
        ("memory", "memory", "MiB", MEMORY, "rss_kb"),
    ):
        lines = [
            Line(NAMES[name][0], columns[name] * NAMES[name][2], color)
            for name, color in colors.items()
            if name in columns
        ]
        if not lines:
            continue
        trend: list[tuple[float, float]] = []
        drift = analysis.drift.get(judged)
        if drift is not None and math.isfinite(drift.per_run):
            # A Theil-Sen line goes through both medians.
            middle, slope = float(np.median(times[begin:])), drift.per_run / analysis.run_s
            levels = [analysis.plateau[judged] + slope * (t - middle) for t in ends]
            trend = [(t, NAMES[judged][2] * level) for t, level in zip(ends, levels, strict=True)]
        yield Chart(
            id=f"{id}-{what}",
            title=title,
            unit=unit,
            times=times,
            lines=lines,
            warm_up=ends[0],
            trend=trend,
            trend_name=f"drift of {NAMES[judged][0]}" if trend else "",
            steps=[change.t_s for change in analysis.changes.get(judged, ())],
            zero=what == "memory",
        )
