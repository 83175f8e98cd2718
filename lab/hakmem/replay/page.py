"""A replay as one HTML file: both tables, and the memory of each allocator along the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem import lazy, pages, project
from hakmem.paired import compare
from hakmem.replay import measure, trace
from hakmem.replay.measure import Replayed
from hakmem.report import lines, page

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.Module("numpy")

COLORS = ("--s1", "--s3", "--s4", "--s5", "--s6")
LIVE = "--s2"


def write(path: Path, done: Replayed) -> None:
    project.write_atomically(path, render(done))


def render(done: Replayed) -> str:
    tables = []
    for conducted, second in done.parts:
        head, rows = measure.plain(compare.table(conducted, second))
        tables.append((conducted.plan.tracks[0].reading.words, head, rows))
    return (
        pages.environment()
        .get_template("replay.html.j2")
        .render(
            name=done.request.trace.name,
            said=trace.describe(done.request.trace.facts),
            host=done.request.trace.facts.get("host") or {},
            tables=tables,
            chart=chart(measure.curves(done)),
            drawing=lines.drawing,
            css=(pages.TEMPLATES / "report.css").read_text(encoding="utf-8"),
            policy=page.policy([]),
        )
    )


def chart(curves: Mapping[str, Sequence[tuple[float, float]]]) -> lines.Chart | None:
    """What is live, and what each allocator holds of it; None where nothing was read."""
    if not curves:
        return None
    first = next(iter(curves.values()))
    drawn = [lines.Line("in use by the program", np.array([live for live, _ in first]), LIVE)]
    for number, (name, points) in enumerate(curves.items()):
        held = np.array([rss for _, rss in points])
        drawn.append(lines.Line(name, held, COLORS[number % len(COLORS)]))
    shares = np.linspace(100 / len(first), 100, len(first))
    axis = "operations done, %"
    return lines.Chart("memory", "memory", "MiB", shares, drawn, 0.0, zero=True, axis=axis)
