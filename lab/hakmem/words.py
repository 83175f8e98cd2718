"""How numbers and verdicts are written, the same in the terminal and in the report."""

from collections.abc import Sequence

from hakmem.overview.summary import Cell, Comparison, Row
from hakmem.stats import Interval

MARKS = {
    "win": "▲ win",
    "tie": "= tie",
    "loss": "▼ loss",
    "undecided": "? open",
    "error": "✗ error",
}


def number(value: float | None) -> str:
    """Three significant digits, more where the integer part needs them; never an exponent."""
    if value is None:
        return "–"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    text = f"{value:,.{decimals}f}".replace(",", "\u202f")
    return text.replace("-", "−")


def ratio(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval.estimate:.2f}"


def ends(interval: Interval | None) -> str:
    return "" if interval is None else f"[{interval.low:.2f}–{interval.high:.2f}]"


def spread(cell: Cell) -> str:
    """The median absolute deviation as a share of the median."""
    if cell.mad is None or not cell.median:
        return ""
    return f"±{100 * cell.mad / abs(cell.median):.1f} %"


def failure(cell: Cell) -> str:
    """Why a cell has no number, with how many of its samples failed."""
    share = f" ({cell.failed} of {cell.count} samples)" if cell.count else ""
    return f"{cell.error}{share}"


def failures(rows: Sequence[Row]) -> list[str]:
    """Every failed cell."""
    return [
        f"{row.name}, {cell.library}: {failure(cell)}"
        for row in rows
        for cell in [*row.cells.values(), *row.references.values(), row.floor]
        if cell is not None and cell.error
    ]


def best_rival(comparison: Comparison | None) -> str:
    return comparison.rival if comparison else "none"


def reading(row: Row) -> str:
    """One plain sentence on a row's outcome."""
    if row.verdict == "error":
        return failure(row.cells["hakmem"])
    if row.best is None:
        return "nothing to compare with"
    if row.best.cost is None:
        return f"no ratio to {row.best.rival}: a sample is at the floor"
    change = 100 * (row.best.cost.estimate - 1)
    if row.verdict == "tie":
        return f"the same as {row.best.rival}, within 5 %"
    if row.verdict == "undecided":
        return f"too noisy or too few to tell from {row.best.rival}"
    word = "less" if change < 0 else "more"
    return f"{abs(change):.0f} % {word} than {row.best.rival}"
