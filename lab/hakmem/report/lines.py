"""Time series: what a chart shows, as data for the script and as a static drawing. Pure.

The script replaces the drawing by a chart of every epoch. The drawing itself stays readable with
any number of them: where there are many it is the median of neighbours within their range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hakmem import words
from hakmem.lazy import np
from hakmem.report import charts

MOST_POINTS = 300  # of a line in the drawing
DIGITS = 6  # of a value in the data: more than any clock or /proc has

UNITS = ((3 * 3600, 3600, "h"), (180, 60, "min"), (0, 1, "s"))


@dataclass(frozen=True)
class Line:
    """One line of a chart; `color` names a variable of the stylesheet."""

    name: str
    values: np.ndarray
    color: str


@dataclass(frozen=True)
class Chart:
    """Lines over the time in seconds. `trend`: two points of the drift line; `steps`: times of
    lasting changes; `warm_up`: where the judged part begins; `zero`: the axis begins at 0."""

    id: str
    title: str
    unit: str
    times: np.ndarray
    lines: Sequence[Line]
    warm_up: float
    trend: Sequence[tuple[float, float]] = ()
    trend_name: str = ""
    steps: Sequence[float] = ()
    zero: bool = False

    @property
    def time_unit(self) -> tuple[float, str]:
        """How many seconds the unit of the time axis has, and its name."""
        return next((by, name) for least, by, name in UNITS if self.times[-1] >= least)


def data(chart: Chart) -> dict[str, Any]:
    """The chart as data for the script; values that are not finite are null."""
    by, name = chart.time_unit
    return {
        "title": chart.title,
        "unit": chart.unit,
        "timeUnit": name,
        "times": _numbers(chart.times / by),
        "lines": [
            {"name": line.name, "color": line.color, "values": _numbers(line.values)}
            for line in chart.lines
        ],
        "warmUp": chart.warm_up / by,
        "trend": [_numbers(np.array([t / by, value])) for t, value in chart.trend],
        "trendName": chart.trend_name,
        "steps": [t / by for t in chart.steps],
        "zero": chart.zero,
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


# ---- the drawing ----


@dataclass(frozen=True)
class Box:
    """The drawing's measures and its two linear axes."""

    name: str
    width: float
    height: float
    left: float
    start: float
    end: float
    low: float
    high: float

    top = 12.0
    right = 10.0
    bottom = 40.0

    def x(self, t: float) -> float:
        share = (t - self.start) / ((self.end - self.start) or 1)
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.height - self.bottom - share * (self.height - self.bottom - self.top)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between the two, at most `most` of them."""
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(m for m in (1, 2, 5, 10) if span / (m * step) <= most)
    first = math.ceil(low / step - 1e-9)
    return [step * n for n in range(first, math.floor(high / step + 1e-9) + 1)]


def limits(chart: Chart) -> tuple[float, float]:
    """The values' range with some room; never empty."""
    values = np.concatenate([line.values for line in chart.lines])
    values = np.append(values[np.isfinite(values)], [v for _, v in chart.trend])
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return (0.0 if chart.zero and low >= 0 else low - room), high + room


def drawing(chart: Chart) -> str:
    """The chart as static SVG, in both widths."""
    low, high = limits(chart)
    span = float(chart.times[0]), float(chart.times[-1])
    sizes = (("wide", 960, 250, 58), ("narrow", 340, 210, 46))
    return "".join(_svg(chart, Box(*size, *span, low, high)) for size in sizes)


def _svg(chart: Chart, box: Box) -> str:
    parts = [*_warm_up(chart, box), *axes(chart, box)]
    for line in chart.lines:
        parts += _line(chart, line, box)
    for t in chart.steps:
        parts.append(charts.line(box.x(t), box.top, box.x(t), box.height - box.bottom, "step"))
    if chart.trend:
        (a, b), (c, d) = chart.trend
        parts.append(charts.line(box.x(a), box.y(b), box.x(c), box.y(d), "trend"))
    title = f"{chart.title}, {chart.unit}"
    return charts.svg(box.name, box.width, box.height, title, parts)


def _warm_up(chart: Chart, box: Box) -> list[str]:
    width = box.x(chart.warm_up) - box.left
    if width <= 0:
        return []
    tall = box.height - box.bottom - box.top
    area = f'<rect x="{box.left:g}" y="{box.top:g}" width="{width:.1f}" height="{tall:g}"'
    label = charts.text(box.left + width / 2, box.top + 10, "warm-up", "small", "middle")
    return [f'{area} class="warm"/>', label]


def axes(chart: Chart, box: Box) -> list[str]:
    parts = []
    wide = box.name == "wide"
    for value in ticks(box.low, box.high, 6):
        y = box.y(value)
        parts.append(charts.line(box.left, y, box.width - box.right, y, "grid"))
        parts.append(charts.text(box.left - 8, y, f"{value:g}", "tick", "end"))
    by, name = chart.time_unit
    for tick in ticks(box.start / by, box.end / by, 10 if wide else 5):
        x = box.x(tick * by)
        parts.append(charts.text(x, box.height - box.bottom + 13, f"{tick:g}", "tick", "middle"))
    edge = box.width - box.right
    parts.append(charts.text(edge, box.height - 9, f"time, {name}", "tick", "end"))
    return parts


def _line(chart: Chart, line: Line, box: Box) -> list[str]:
    """Groups of neighbours: their range and, over it, the line through their medians. Missing
    values are skipped: the line goes on across them."""
    known = np.isfinite(line.values)
    if not known.any():
        return []
    there = np.flatnonzero(known)
    size = math.ceil(len(there) / MOST_POINTS)
    groups = [there[at : at + size] for at in range(0, len(there), size)]
    xs = [box.x(float(np.median(chart.times[g]))) for g in groups]
    middle, least, most = (
        [box.y(float(of(line.values[g]))) for g in groups] for of in (np.median, np.min, np.max)
    )
    style = f'style="--hue:var({escape(line.color)})"'
    parts = []
    if size > 1:
        parts.append(f'<polygon points="{between(xs, most, least)}" class="range" {style}/>')
    median = words.number(float(np.nanmedian(line.values)))
    tip = f"<title>{escape(line.name)}: median {median}</title>"
    return [
        *parts,
        f'<polyline points="{points(xs, middle)}" class="line" {style}>{tip}</polyline>',
    ]


def points(xs: Sequence[float], ys: Sequence[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def between(xs: Sequence[float], one: Sequence[float], other: Sequence[float]) -> str:
    """The outline of the area between two lines: along the one and back along the other."""
    return points([*xs, *reversed(xs)], [*one, *reversed(other)])
