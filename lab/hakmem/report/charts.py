"""The report's charts as static SVG text: coloured by CSS classes, readable without a script.

Each chart is drawn twice, wide and narrow (labels above the marks), and CSS shows the one that
fits: a wide drawing shrunk to a telephone cannot be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hakmem import words
from hakmem.pages import Axis
from hakmem.stats import Interval

CROWDED = 38  # the least distance of two ticks
RATIO_TICKS = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)


@dataclass(frozen=True)
class Layout:
    """Measures of a drawing, in its own units: about one CSS pixel each."""

    width: int
    left: int
    right: int
    row: int
    stacked: bool
    name: str

    def mark_y(self, index: int) -> float:
        """The height of a row's marks: in the narrow layout below their label."""
        return TOP + self.row * (index + (0.78 if self.stacked else 0.5))

    def label_y(self, index: int) -> float:
        return TOP + self.row * (index + (0.2 if self.stacked else 0.5))


BOLD, SMALL = 8.4, 7.1  # width of a letter of a label and of small print, in the widest usual font
TOP = 44
BOTTOM = 18
WIDE = Layout(width=960, left=236, right=270, row=30, stacked=False, name="wide")
NARROW = Layout(width=340, left=10, right=10, row=66, stacked=True, name="narrow")


def text(x: float, y: float, content: str, css: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}" '
        f'dominant-baseline="central">{escape(content)}</text>'
    )


def fit(content: str, width: float, letter: float) -> str:
    """As much of a label as fits into a width, at `letter` units a letter; then an ellipsis."""
    used = 0.0
    for index, sign in enumerate(content):
        used += letter * (1.25 if sign.isupper() or sign in "+÷=" else 1)
        if used > width:
            return content[: index - 1].rstrip() + "…"
    return content


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def svg(name: str, width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart {name}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Ratio:
    """One row of the interval plot. `css` colours it; `beside` is small print, `tip` the whole."""

    label: str
    beside: str
    interval: Interval
    css: str
    tip: str = ""


def forest(drawn: Sequence[Ratio], title: str, left: str, right: str) -> str:
    """Each ratio as an interval around 1, drawn in both layouts; "" where there is none. `left` and
    `right` say what lies on that side of 1."""
    said = (title, left, right)
    return "".join(_forest(layout, drawn, *said) for layout in (WIDE, NARROW)) if drawn else ""


def _forest(layout: Layout, drawn: Sequence[Ratio], title: str, left: str, right: str) -> str:
    low = max(0.1, min(0.78, *(r.interval.low / 1.08 for r in drawn)))
    high = min(10.0, max(1.28, *(r.interval.high * 1.08 for r in drawn)))
    axis = Axis(low, high, layout.left, layout.width - layout.right)
    bottom = TOP + layout.row * len(drawn)
    parts = []
    for tick in _ticks(axis):
        css = "unity" if tick == 1 else "grid"
        parts.append(line(axis.x(tick), TOP - 8, axis.x(tick), bottom + 4, css))
        parts.append(text(axis.x(tick), TOP - 18, f"{tick:g}", "tick", "middle"))
    parts.append(text(axis.start, 9, f"◂ {left}", "side"))
    parts.append(text(axis.end, 9, f"{right} ▸", "side", "end"))
    for index, ratio in enumerate(drawn):
        parts += _label(layout, index, ratio)
        parts += _interval(axis, layout.mark_y(index), ratio)
    return svg(layout.name, layout.width, bottom + BOTTOM, title, parts)


def _ticks(axis: Axis) -> list[float]:
    """The ticks that fit without crowding; 1 always does."""
    chosen = [1.0]
    for tick in RATIO_TICKS:
        free = all(abs(axis.x(tick) - axis.x(other)) >= CROWDED for other in chosen)
        if axis.low <= tick <= axis.high and free:
            chosen.append(tick)
    return sorted(chosen)


def _interval(axis: Axis, y: float, ratio: Ratio) -> list[str]:
    """The diamond on its whisker; an arrow on each side where the whisker leaves the drawing."""
    found = ratio.interval
    parts = [f'<g class="{escape(ratio.css)}">']
    if ratio.tip:
        parts.append(f"<title>{escape(ratio.tip)}</title>")
    if found.low < axis.low:
        parts.append(text(axis.start, y, "◂", "beyond", "middle"))
    if found.high > axis.high:
        parts.append(text(axis.end, y, "▸", "beyond", "middle"))
    parts.append(line(axis.x(found.low), y, axis.x(found.high), y, "whisker"))
    for end in (found.low, found.high):
        parts.append(line(axis.x(end), y - 5, axis.x(end), y + 5, "whisker"))
    x, r = axis.x(found.estimate), 6.5
    points = f"{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}"
    return [*parts, f'<polygon points="{points}" class="mark"/>', "</g>"]


def _label(layout: Layout, index: int, ratio: Ratio) -> list[str]:
    """A row in words: in the narrow layout figures and small print stand below the label."""
    y = layout.label_y(index)
    figures = f"{words.ratio(ratio.interval)}  {words.ends(ratio.interval)}"
    if layout.stacked:
        under = fit(f"{figures} {ratio.beside}", layout.width, SMALL)
        return [
            text(layout.left, y, fit(ratio.label, layout.width, BOLD), "label"),
            text(layout.left, y + 18, under, "small"),
        ]
    return [
        text(layout.left - 16, y, fit(ratio.label, layout.left - 16, BOLD), "label", "end"),
        text(layout.width - layout.right + 16, y, figures, "number"),
        text(layout.width, y, fit(ratio.beside, 140, SMALL), "small", "end"),
    ]
