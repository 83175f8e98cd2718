"""A replay as one HTML file: both tables, and the memory of each allocator along the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hakmem import pages
from hakmem.lazy import np
from hakmem.paired import compare
from hakmem.replay import measure, trace
from hakmem.replay.measure import Replayed
from hakmem.report import lines, page

COLORS = ("--s1", "--s3", "--s4", "--s5", "--s6")
LIVE = "--s2"


def render(done: Replayed) -> str:
    tables = []
    for conducted, second in done.parts:
        head, rows = measure.plain(compare.table(conducted, second))
        tables.append((conducted.plan.tracks[0].reading.words, head, rows))
    found = done.request.trace
    return pages.render(
        "replay.html.j2",
        name=found.name,
        said=trace.describe(found.facts),
        host=found.facts.get("host") or {},
        tables=tables,
        charts=charts(measure.curves(done), found.seconds),
        drawing=lines.drawing,
        css=pages.text("report.css"),
        policy=page.policy([]),
    )


def charts(
    curves: Mapping[str, Sequence[tuple[float, float]]], seconds: float
) -> list[tuple[str, lines.Chart]]:
    """Charts with a note each, over the recorded time: what is live, and what each allocator holds
    for it; then the ratio of the two, where anything is live. None where nothing was read."""
    if not curves:
        return []
    held, ratios = [], []
    for number, (name, points) in enumerate(curves.items()):
        live, rss = np.array(points).T
        color = COLORS[number % len(COLORS)]
        held.append(lines.Line(name, rss, color))
        ratios.append(lines.Line(name, rss / np.where(live > 0, live, np.nan), color))
    times = np.linspace(0, seconds, len(live) + 1)[1:]
    held.insert(0, lines.Line("in use by the program", live, LIVE))
    return [
        (
            "What the program had in use, and what is resident for it under each allocator, in MiB",
            lines.Chart("memory", "memory", "MiB", times, held, 0.0, zero=True),
        ),
        (
            "Resident bytes per byte in use",
            lines.Chart("held", "memory held", "× live", times, ratios, 0.0, zero=True),
        ),
    ]
