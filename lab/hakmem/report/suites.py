"""The report's part on comparisons over many rows: time and memory against every rival. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hakmem.ledger.claims import interval
from hakmem.paired import suite_table
from hakmem.paired.oracle import ORACLE
from hakmem.paired.suite_record import MEMORY, TIME, metric_name, rivals_of
from hakmem.process.library import SYSTEM
from hakmem.report import charts
from hakmem.report.charts import Ratio
from hakmem.report.records import Asked
from hakmem.stats import Interval


def suite(asked: Asked, whole: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a suite; `whole` is the record as suite_record.joined makes it.

    The `rivals` are the columns, the system's first, the oracle last. Each row has its `cells` by
    column, the name of its `best` rival and the `verdict` against that one, which `tally` counts.
    `oracle` has the geometric means: title, number of rows and ratio.
    """
    metrics, subject = whole["metrics"], suite_table.subject(whole)
    rows = [_row(row, metrics) for row in suite_table.in_order(whole["rows"])]
    means = suite_table.means(whole).items()
    peaks = f"peak resident memory of {subject} divided by the oracle's"
    counted = Counter(row["verdict"] for row in rows) + Counter(error=len(whole["failures"]))
    rivals = sorted(suite_table.rivals(whole), key=lambda name: name != SYSTEM)
    return {
        "asked": asked,
        "whole": whole,
        "left_out": suite_table.left_out(whole),
        "subject": subject,
        "rivals": [*rivals, ORACLE],
        "rows": rows,
        "oracle": [(title, mean["rows"], interval(mean)) for title, mean in means],
        "whole_time": suite_table.of_whole_time(whole),
        "tally": {**dict.fromkeys(("win", "tie", "loss"), 0), **counted},
        "forest": _forest(rows, "time", f"{subject} divided by the oracle"),
        "memory": _forest(rows, "memory", peaks),
        "failures": list(_failures(whole)),
        "conditions": list(suite_table.conditions(whole)),
    }


def _row(row: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    name, failed = row["benchmark"], row["left_out"]
    cells = {at: _cell(metrics, name, at, failed.get(at)) for at in (*rivals_of(row), ORACLE)}
    best = suite_table.best_rival(row, metrics)
    time = cells[best]["time"] if best else None
    verdict = time["verdict"] if time else "undecided"
    return {**row, "cells": cells, "best": best, "verdict": verdict}


def _cell(metrics: Mapping[str, Any], name: str, rival: str, failure: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"failure": failure}
    for title, key in (("time", TIME), ("memory", MEMORY)):
        entry = metrics.get(metric_name(name, key, rival))
        found[title] = entry and {"ratio": interval(entry), "verdict": entry.get("verdict")}
    return found


def _forest(rows: Sequence[Mapping[str, Any]], what: str, title: str) -> str:
    """The intervals against the oracle, row by row."""
    drawn = []
    for row in rows:
        if cell := row["cells"][ORACLE][what]:
            side = _side(cell["ratio"], what == "time" and row["better"] == "higher")
            drawn.append(Ratio(row["benchmark"], "", cell["ratio"], side))
    subject = rows[0]["subject"] if rows else ""
    sides = (f"{subject} needs less", f"{subject} needs more")
    return charts.forest(drawn, f"{title}, per benchmark", *sides)


def _side(ratio: Interval, more_is_better: bool) -> str:
    """The colour of a ratio that was not judged: by the side of 1 on which its interval lies."""
    below, above = ("loss", "win") if more_is_better else ("win", "loss")
    return below if ratio.high < 1 else above if ratio.low > 1 else "undecided"


def _failures(whole: Mapping[str, Any]) -> Iterator[str]:
    """Each failure in full: of hakmem, of a rival, and what is not here at all."""
    for benchmark, who, why in suite_table.failures(whole):
        yield f"{benchmark}, {who}: {why}"
    for name, why in (whole.get("absent") or {}).items():
        yield f"{name} is not here: {why}"
