"""The report's charts as static SVG text: coloured by CSS classes, readable without a script.

Each chart is drawn twice, wide and narrow (labels above the marks), and CSS shows the one that
fits: a wide drawing shrunk to a telephone cannot be read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from hakmem import words
from hakmem.pages import Axis
from hakmem.process.library import SYSTEM
from hakmem.stats import Interval

RATIO_TICKS = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)
MEMORY_TICKS = tuple(m * 10**e for e in range(-1, 6) for m in (1, 2, 5))


@dataclass(frozen=True)
class Layout:
    """Measures of a drawing, in its own units: about one CSS pixel each."""

    width: int
    left: int
    right: int
    row: int
    stacked: bool
    name: str

    @property
    def plot(self) -> tuple[int, int]:
        return self.left, self.width - self.right

    def mark_y(self, index: int) -> float:
        """Where the marks of a row are: lower in the narrow layout, below their label."""
        return TOP + self.row * (index + (0.78 if self.stacked else 0.5))

    def label_y(self, index: int) -> float:
        return TOP + self.row * (index + (0.2 if self.stacked else 0.5))


BOLD, SMALL = 8.4, 7.1  # a letter of a label and of small print, in the widest usual font
TOP = 44
BOTTOM = 18
WIDE = Layout(width=960, left=236, right=270, row=30, stacked=False, name="wide")
NARROW = Layout(width=340, left=10, right=10, row=66, stacked=True, name="narrow")


def both(draw: Callable[..., str], *what: object) -> str:
    """The drawing for each width."""
    return "".join(draw(layout, *what) for layout in (WIDE, NARROW))


def text(x: float, y: float, content: str, css: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}" '
        f'dominant-baseline="central">{escape(content)}</text>'
    )


def fit(content: str, width: float, letter: float) -> str:
    """What of a label fits into a width, at so much for a letter; the rest is an ellipsis."""
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


def _frame(layout: Layout, count: int, title: str, parts: Sequence[str]) -> str:
    height = TOP + layout.row * count + BOTTOM
    return svg(layout.name, layout.width, height, title, parts)


def _row_label(
    layout: Layout, index: int, label: str, number: str, beside: str, under: str
) -> list[str]:
    """A row in words: in the narrow layout `under` stands for number and small print."""
    y = layout.label_y(index)
    if layout.stacked:
        return [
            text(layout.left, y, fit(label, layout.width, BOLD), "label"),
            text(layout.left, y + 18, fit(under, layout.width, SMALL), "small"),
        ]
    return [
        text(layout.left - 16, y, fit(label, layout.left - 16, BOLD), "label", "end"),
        text(layout.width - layout.right + 16, y, number, "number"),
        text(layout.width, y, beside, "small", "end"),
    ]


def _grid(layout: Layout, axis: Axis, ticks: Sequence[float], count: int, unit: str) -> list[str]:
    bottom = TOP + layout.row * count + 4
    parts = []
    for tick in ticks:
        css = "unity" if unit == "×" and tick == 1 else "grid"
        parts.append(line(axis.x(tick), TOP - 8, axis.x(tick), bottom, css))
        parts.append(text(axis.x(tick), TOP - 18, f"{tick:g}", "tick", "middle"))
    return parts


@dataclass(frozen=True)
class Ratio:
    """One row of the interval plot. `css` colours it; `beside` is small print, `tip` the whole."""

    label: str
    beside: str
    interval: Interval
    css: str
    tip: str = ""


@dataclass(frozen=True)
class Sides:
    """What an interval plot shows, and what lies left and right of 1."""

    title: str
    left: str
    right: str


COSTS = Sides(
    "hakmem divided by the oracle, per benchmark", "hakmem needs less", "hakmem needs more"
)


def forest(layout: Layout, drawn: Sequence[Ratio], sides: Sides = COSTS) -> str:
    """Each ratio as an interval around 1; nothing where there is none."""
    if not drawn:
        return ""
    low = max(0.1, min(0.78, *(r.interval.low / 1.08 for r in drawn)))
    high = min(10.0, max(1.28, *(r.interval.high * 1.08 for r in drawn)))
    axis = Axis(low, high, *layout.plot)
    ticks = axis.ticks(RATIO_TICKS, 38, first=1)
    parts = _grid(layout, axis, ticks, len(drawn), "×")
    parts.append(text(axis.start, 9, f"◂ {sides.left}", "side"))
    parts.append(text(axis.end, 9, f"{sides.right} ▸", "side", "end"))
    for index, ratio in enumerate(drawn):
        parts += _forest_label(layout, index, ratio)
        parts += _interval(axis, layout.mark_y(index), ratio)
    return _frame(layout, len(drawn), sides.title, parts)


def _interval(axis: Axis, y: float, ratio: Ratio) -> list[str]:
    """The diamond on its whisker; an arrow where the whisker leaves the drawing."""
    found = ratio.interval
    parts = [f'<g class="{escape(ratio.css)}">']
    if ratio.tip:
        parts.append(f"<title>{escape(ratio.tip)}</title>")
    if found.low < axis.low or found.high > axis.high:
        edge, sign = (axis.end, "▸") if found.high > axis.high else (axis.start, "◂")
        parts.append(text(edge, y, sign, "beyond", "middle"))
    parts.append(line(axis.x(found.low), y, axis.x(found.high), y, "whisker"))
    for end in (found.low, found.high):
        parts.append(line(axis.x(end), y - 5, axis.x(end), y + 5, "whisker"))
    x, r = axis.x(found.estimate), 6.5
    points = f"{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}"
    return [*parts, f'<polygon points="{points}" class="mark"/>', "</g>"]


def _forest_label(layout: Layout, index: int, ratio: Ratio) -> list[str]:
    figures = f"{words.ratio(ratio.interval)}  {words.ends(ratio.interval)}"
    under = f"{figures} {ratio.beside}"
    beside = fit(ratio.beside, 140, SMALL)
    return _row_label(layout, index, ratio.label, figures, beside, under)


@dataclass(frozen=True)
class Strip:
    """One row of the dot chart: a label and a value per library, the subject's among them."""

    label: str
    subject: str
    values: dict[str, float]


def dots(layout: Layout, strips: Sequence[Strip], unit: str, title: str) -> str:
    """A row per benchmark, a mark per library: subject filled, system a ring, rivals ticks."""
    values = [v for strip in strips for v in strip.values.values() if v > 0]
    if not values:
        return ""
    axis = Axis(min(values) / 1.25, max(values) * 1.25, *layout.plot)
    parts = _grid(layout, axis, axis.ticks(MEMORY_TICKS, 44, first=1), len(strips), unit)
    for index, strip in enumerate(strips):
        y = layout.mark_y(index)
        parts.append(line(axis.start, y, axis.end, y, "rail"))
        subject = strip.subject
        ordered = sorted(strip.values, key=lambda name: (name == subject, name == SYSTEM))
        for name in ordered:
            kind = "subject" if name == subject else "system" if name == SYSTEM else "peer"
            parts.append(_dot(axis.x(strip.values[name]), y, kind, name, strip.values[name], unit))
        parts += _dots_label(layout, index, strip, unit)
    return _frame(layout, len(strips), title, parts)


def _dots_label(layout: Layout, index: int, strip: Strip, unit: str) -> list[str]:
    own = strip.values.get(strip.subject)
    lowest = min(strip.values, key=strip.values.__getitem__)
    number = f"{words.number(own)} {unit}" if own is not None else "error"
    figure = words.number(strip.values[lowest])
    if not layout.stacked:  # what is beside it must not reach the number
        room = layout.right - 16 - BOLD * (len(number) + 1) - SMALL * len(f"least:  {figure}")
        lowest = fit(lowest, room, SMALL)
    least = f"least: {lowest} {figure}"
    return _row_label(layout, index, strip.label, number, least, f"{number} · {least}")


def _dot(x: float, y: float, kind: str, name: str, value: float, unit: str) -> str:
    tip = f"<title>{escape(name)}: {words.number(value)} {unit}</title>"
    if kind == "peer":
        mark = f'<rect x="{x - 1.5:.1f}" y="{y - 8:.1f}" width="3" height="16" class="{kind}">'
        return f"{mark}{tip}</rect>"
    radius = "6.5" if kind == "subject" else "5"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}">{tip}</circle>'
