"""From a recorded document to rows a reader understands: pure, no I/O, no rendering."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hakmem import stats
from hakmem.process import metrics
from hakmem.suite import FAST

Verdict = Literal["win", "tie", "loss", "error", "undecided"]

SUBJECT = "hakmem"
SYSTEM = "system"
MARGIN = 0.01
TIE_BAND = 0.05
FEWEST = 3


@dataclass(frozen=True)
class Cell:
    """A figure of one library: the median over its samples and their spread."""

    library: str
    count: int
    failed: int
    error: str | None
    median: float | None = None
    mad: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The subject's figure ÷ the rival's, with its interval, and what follows from it."""

    rival: str
    ratio: stats.Interval | None
    count: int
    verdict: Verdict
    better: str = "lower"

    @property
    def cost(self) -> stats.Interval | None:
        """The ratio turned so that below 1 is always the subject's advantage."""
        return _cost(self.ratio, self.better) if self.ratio else None


def _cost(ratio: stats.Interval, better: str) -> stats.Interval:
    if better == "lower":
        return ratio
    return stats.Interval(1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low, ratio.kind)


@dataclass(frozen=True)
class Row:
    """One figure over all libraries."""

    name: str
    what: str
    unit: str
    better: str
    threads: int
    floor: Cell | None
    cells: dict[str, Cell]
    references: dict[str, Cell]
    comparisons: dict[str, Comparison]
    best: Comparison | None
    system: Comparison | None
    verdict: Verdict

    @property
    def way(self) -> float | None:
        """How much of what the system's allocator takes above the limit of any front end (the
        reference BenchFast) hakmem has saved: 1 where it is there. None where that is not known."""
        found = (self.cells.get(SYSTEM), self.cells.get(SUBJECT), self.references.get(FAST))
        system, own, fast = (cell.median if cell else None for cell in found)
        if system is None or own is None or fast is None or system <= fast:
            return None
        return (system - own) / (system - fast)


@dataclass(frozen=True)
class Floor:
    """What is subtracted from a sample: its own round's floor, for the machine's speed drifts."""

    by_round: Mapping[int, float]
    otherwise: float

    @classmethod
    def of(cls, samples: Sequence[Mapping[str, Any]], key: str, whole: Cell) -> "Floor | None":
        """None where the floor itself failed."""
        if whole.median is None:
            return None
        return cls({s["round"]: _known(key, s) for s in samples}, whole.median)

    def under(self, sample: Mapping[str, Any]) -> float:
        return self.by_round.get(sample["round"], self.otherwise)


def _known(key: str, sample: Mapping[str, Any]) -> float:
    """The metric of a sample that is known to carry it."""
    value = metrics.value(key, sample)
    if value is None:
        raise ValueError(f"a sample without {key} was taken for a good one")
    return value


NO_FLOOR = Floor({}, 0.0)


def rows(document: Mapping[str, Any]) -> list[Row]:
    """All figures of the document, sorted by name, wins and losses alike."""
    names = [library["name"] for library in document["libraries"] if not library.get("refused")]
    commands = {command["name"]: command for command in document["commands"]}
    result = []
    for figure in document["figures"]:
        samples = [s for s in document["samples"] if s["command"] == figure["command"]]
        result.append(_row(figure, commands[figure["command"]], names, samples))
    return sorted(result, key=lambda row: natural(row.name))


def natural(name: str) -> list[tuple[int, int | str]]:
    parts = name.split("_")
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _row(
    figure: Mapping[str, Any],
    command: Mapping[str, Any],
    names: Sequence[str],
    samples: Sequence[Mapping[str, Any]],
) -> Row:
    key, better = figure["metric"], metrics.METRICS[figure["metric"]].better
    by_library = {name: [s for s in samples if s["library"] == name] for name in names}
    floor = None
    offset: Floor | None = NO_FLOOR
    if figure.get("floor"):
        below = [s for s in samples if s["library"] == figure["floor"]]
        floor = cell(figure["floor"], below, key)
        offset = Floor.of(below, key, floor)
    cells = {name: cell(name, rows_, key, offset) for name, rows_ in by_library.items()}
    references = {
        name: cell(name, [s for s in samples if s["library"] == name], key, offset)
        for name in command.get("references", [])
        if name != figure.get("floor")
    }
    comparisons = {
        name: compare(by_library[SUBJECT], by_library[name], name, key, offset, better)
        for name in names
        if name != SUBJECT and not cells[name].failed and cells[name].count
    }
    best = _best(cells, comparisons, better)
    return Row(
        name=figure["name"],
        what=figure["what"],
        unit=metrics.METRICS[key].unit,
        better=better,
        threads=command.get("threads", 1),
        floor=floor,
        cells=cells,
        references=references if figure.get("floor") else {},
        comparisons=comparisons,
        best=best,
        system=comparisons.get(SYSTEM),
        verdict=_verdict_of(cells[SUBJECT], best),
    )


def cell(
    library: str,
    samples: Sequence[Mapping[str, Any]],
    key: str,
    offset: Floor | None = NO_FLOOR,
) -> Cell:
    """The summary of one library's samples; one failed sample makes the whole cell an error."""
    failed = [s for s in samples if metrics.value(key, s) is None]
    if failed or not samples or offset is None:
        error = "not measured" if not samples else "its floor failed"
        if failed:
            error = failed[0].get("error") or "the sample does not carry this metric"
        return Cell(library, len(samples), len(failed), error)
    values = [_known(key, s) - offset.under(s) for s in samples]
    return Cell(
        library,
        len(values),
        0,
        None,
        stats.median(values),
        stats.mad(values),
        min(values),
        max(values),
    )


def compare(
    subject: Sequence[Mapping[str, Any]],
    rival: Sequence[Mapping[str, Any]],
    name: str,
    key: str,
    offset: Floor | None,
    better: str,
) -> Comparison:
    """The ratio of the two medians that are shown, its interval from drawing rounds again."""
    if offset is None or any(metrics.value(key, s) is None for s in subject):
        return Comparison(name, None, 0, "error", better)
    mine, theirs = (
        {s["round"]: (_known(key, s), offset.under(s)) for s in samples}
        for samples in (subject, rival)
    )
    both = sorted(mine.keys() & theirs.keys())
    if not both:
        return Comparison(name, None, 0, "undecided", better)
    own, its = ([side[r][0] for r in both] for side in (mine, theirs))
    ratio = stats.net_ratio(own, its, [mine[r][1] for r in both])
    if any(math.isnan(end) for end in (ratio.estimate, ratio.low, ratio.high)):
        return Comparison(name, None, len(both), "undecided", better)
    return _judged(name, ratio, len(both), better)


def _judged(name: str, ratio: stats.Interval, count: int, better: str) -> Comparison:
    return Comparison(name, ratio, count, judge(_cost(ratio, better), count), better)


def judge(cost: stats.Interval, count: int) -> Verdict:
    """Win or loss only where the whole interval and at least the margin lie on one side of 1.

    A tie is a finding too: the whole interval close to 1. A wide interval around 1 is no tie.
    """
    if count < FEWEST:
        return "undecided"
    if cost.high < 1 and cost.estimate < 1 - MARGIN:
        return "win"
    if cost.low > 1 and cost.estimate > 1 + MARGIN:
        return "loss"
    return "tie" if cost.low > 1 - TIE_BAND and cost.high < 1 + TIE_BAND else "undecided"


def _best(
    cells: Mapping[str, Cell], comparisons: Mapping[str, Comparison], better: str
) -> Comparison | None:
    """The comparison with the best rival: the system's allocator is one of them."""
    sign = 1 if better == "lower" else -1
    medians = {name: cells[name].median or 0 for name in comparisons}
    able = [name for name in comparisons if medians[name] > 0]
    if not able:
        return None
    return comparisons[min(able, key=lambda name: sign * medians[name])]


def _verdict_of(subject: Cell, best: Comparison | None) -> Verdict:
    if subject.error:
        return "error"
    return best.verdict if best else "undecided"


def tally(all_rows: Sequence[Row]) -> dict[str, int]:
    """How many figures were won, tied, lost, undecided or failed."""
    counts = {"win": 0, "tie": 0, "loss": 0, "undecided": 0, "error": 0}
    for row in all_rows:
        counts[row.verdict] += 1
    return counts
