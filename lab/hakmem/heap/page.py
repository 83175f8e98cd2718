"""The page of a heap: one HTML file, offline, that reads without a script.

Views of the same process are switched by the browser itself. The script only draws the flame graphs
again, so that they can be zoomed and searched.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hakmem import pages, words
from hakmem.heap import flame, weigh
from hakmem.heap.weigh import Change, Function, Growth, Weighed
from hakmem.lazy import np
from hakmem.report import charts, lines, page as report

ROWS = 20  # rows of a table of functions
DRAWN = 5  # functions of the growth that have a colour of their own
RECURSION = 20_000


@dataclass(frozen=True)
class View:
    """One way to look at the heap: `id` names it in the page, `name` on its button."""

    id: str
    name: str
    note: str
    weighed: Weighed
    functions: Sequence[Function]

    @property
    def by_own(self) -> list[Function]:
        return [row for row in self.functions if row.own.bytes][:ROWS]

    @property
    def by_total(self) -> list[Function]:
        return sorted(self.functions, key=lambda row: -row.total.bytes)[:ROWS]


@dataclass(frozen=True)
class Page:
    """What is shown. `changes`: of two profiles. `others`: processes that have a profile too."""

    title: str
    kicker: str
    lede: str
    views: Sequence[View]
    first: str
    facts: Mapping[str, str]
    interval: int
    growth: Growth | None = None
    changes: Sequence[Change] = ()
    others: Sequence[tuple[str, str, str]] = ()
    problems: Sequence[str] = ()


def render(page: Page) -> str:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))  # trees are as deep as stacks
    roots = {view.id: weigh.tree(view.weighed, view.name) for view in page.views}
    colours, table = flame.colours(list(roots.values())), flame.Table()
    views = {id: table.tree(root) for id, root in roots.items()}
    data = {"frames": table.rows(colours), "views": views}
    script = pages.text("heap.js")
    return pages.render(
        "heap.html.j2",
        page=page,
        css=pages.text("report.css") + pages.text("heap.css"),
        flames={
            view.id: flame.drawing(roots[view.id], colours, f"{view.name}, by caller")
            for view in page.views
        },
        modules={module: css for module, css in colours.items() if module},
        growth=growth_drawing(page.growth) if page.growth else "",
        unit=words.unit(page.growth.highest)[1] if page.growth else "",
        shown=min(len(page.changes), ROWS),
        data=data,
        script=script,
        policy=report.policy([script]),
        words=words,
        exact=exact,
        share=share,
    )


def exact(weight: weigh.Weight) -> str:
    """How far the figure may be off, in no more digits than that deserves."""
    off = weight.margin / max(abs(weight.bytes), 1)
    if off < 0.005:
        return "exact"
    return f"±{100 * off:.0f} %" if off < 1 else "few samples"


def share(weight: weigh.Weight, whole: weigh.Weight) -> str:
    return f"{100 * weight.bytes / max(whole.bytes, 1):.1f} %"


def when(ns: int) -> str:
    if not ns:
        return "not said"
    return datetime.fromtimestamp(ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S")


# ---- growth ----


def growth_drawing(growth: Growth) -> str:
    """Stacked areas, the heaviest function at the bottom, in both widths."""
    power, unit = words.unit(growth.highest)
    times = np.array(growth.seconds)
    chart = lines.Chart("growth", "in use over time", unit, times, (), 0.0)
    span = float(times[0]), float(times[-1])
    high = 1.06 * max(growth.highest, 1) / (1 << power)
    sizes = (("wide", 960, 280, 58), ("narrow", 340, 220, 46))
    return "".join(_areas(growth, chart, lines.Box(*size, *span, 0.0, high)) for size in sizes)


def _areas(growth: Growth, chart: lines.Chart, box: lines.Box) -> str:
    parts = lines.axes(chart, box)
    unit = 1 << words.unit(growth.highest)[0]
    below = [box.y(0.0)] * len(growth.seconds)
    heights = [0] * len(growth.seconds)
    across = [box.x(t) for t in growth.seconds]
    for number, layer in enumerate(growth.layers, 1):
        heights = [height + bytes for height, bytes in zip(heights, layer, strict=True)]
        above = [box.y(height / unit) for height in heights]
        css = f"c{number}" if number < len(growth.layers) else "c6"
        area = lines.between(across, above, below)
        parts.append(f'<polygon points="{area}" class="area {css}"/>')
        below = above
    return charts.svg(box.name, box.width, box.height, f"{chart.title}, {chart.unit}", parts)
