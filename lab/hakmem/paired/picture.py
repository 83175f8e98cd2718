"""Two or more suites as one picture: hakmem ÷ each rival, in time and in peak memory. Pure.

A dot is a benchmark or a real program; left of 1 hakmem needs less. What lies beyond the scale is
drawn at its end. The mark is the geometric mean of a rival's dots.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem import pages, words
from hakmem.paired import readings
from hakmem.paired.suite_record import MEMORY, TIME, metric_name

LOW, HIGH = 1 / 8, 4.0
TICKS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
LEFT, PANEL, GAP, TOP, ROW, RADIUS = 120.0, 410.0, 40.0, 96.0, 42.0, 3.6
# Where a dot goes that would lie on another one.
OFFSETS = (0.0, -7.0, 7.0, -14.0, 14.0)


@dataclass(frozen=True)
class Dot:
    """A ratio: its place in the picture, and what a reader sees who asks."""

    x: float
    y: float
    title: str
    program: bool


@dataclass(frozen=True)
class Row:
    """A rival in one panel."""

    rival: str
    y: float
    dots: Sequence[Dot]
    mean_x: float
    mean: str


def svg(bodies: Sequence[Mapping[str, Any]], times: Sequence[str]) -> str:
    """Of suites as suite_record.joined() has them, with the dates of their records."""
    rivals = sorted({name for body in bodies for row in body["rows"] for name in row["rivals"]})
    panels = [
        (title, left, list(_rows(bodies, rivals, kind, left)))
        for title, kind, left in (
            ("time", TIME, LEFT),
            ("peak memory", MEMORY, LEFT + PANEL + GAP),
        )
    ]
    commits = sorted({str(body["source"]["commit"])[:10] for body in bodies})
    days = sorted({time[:10] for time in times})
    return pages.render(
        "picture.svg.j2",
        panels=panels,
        ticks=[(words.number(tick), pages.Axis(LOW, HIGH, 0, PANEL).x(tick)) for tick in TICKS],
        width=LEFT + 2 * PANEL + GAP + 20,
        panel=PANEL,
        top=TOP,
        end=TOP + ROW * len(rivals),
        radius=RADIUS,
        rows=sum(len(body["rows"]) for body in bodies),
        programs=sum(len(body["rows"]) for body in bodies if body["programs"]),
        measured=f"{', '.join(days)} at {', '.join(commits)}",
    )


def _rows(
    bodies: Sequence[Mapping[str, Any]], rivals: Iterable[str], kind: str, left: float
) -> Iterator[Row]:
    axis = pages.Axis(LOW, HIGH, left, left + PANEL)
    for at, rival in enumerate(rivals):
        found = sorted(_ratios(bodies, rival, kind))
        middle = TOP + ROW * (at + 0.5)
        mean = math.exp(sum(math.log(ratio) for ratio, *_ in found) / len(found)) if found else 1.0
        dots: list[Dot] = []
        for ratio, name, program in found:
            x = axis.x(ratio)
            y = middle + _offset(x, middle, dots)
            dots.append(Dot(x, y, f"{name}: {words.number(ratio)} of {rival}", program))
        yield Row(rival, middle, dots, axis.x(mean), f"{words.number(mean)} of {rival}")


def _offset(x: float, middle: float, dots: Sequence[Dot]) -> float:
    def is_free(offset: float) -> bool:
        return all(math.hypot(dot.x - x, dot.y - middle - offset) >= 2 * RADIUS for dot in dots)

    return next((offset for offset in OFFSETS if is_free(offset)), OFFSETS[-1])


def _ratios(
    bodies: Sequence[Mapping[str, Any]], rival: str, kind: str
) -> Iterator[tuple[float, str, bool]]:
    """Memory is no time: of a process that does nothing only its peak is shown."""
    no_time = [readings.WORDS[name] for name in readings.MEMORY]
    for body in bodies:
        for row in body["rows"]:
            entry = body["metrics"].get(metric_name(row["benchmark"], kind, rival))
            if entry and not (kind == TIME and row["reading"] in no_time):
                yield entry["value"], row["benchmark"], body["programs"]
