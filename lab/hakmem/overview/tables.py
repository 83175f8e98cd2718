"""The result in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import words
from hakmem.overview.summary import SUBJECT, SYSTEM, Cell, Comparison, Row, tally
from hakmem.suite import FAST

STYLES = {
    "win": "green",
    "tie": "",
    "loss": "bold red",
    "undecided": "dim",
    "error": "bold red reverse",
}


def print_results(console: Console, rows: Sequence[Row]) -> None:
    """The verdict table, then every error in full, then the tally."""
    console.print(verdict_table(rows, console.width))
    for message in words.failures(rows):
        console.print(Text(f"✗ {message}", style="red"), soft_wrap=True)
    counts = tally(rows)
    against = "against the best of all rivals"
    said = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    console.print(f"hakmem {against}, by benchmark: {said}")


def verdict_table(rows: Sequence[Row], width: int) -> Table:
    """One row per figure, sorted by name. Ratios are hakmem ÷ other: below 1, hakmem needs less.

    "To BenchFast" is the share of the way from the system's allocator to the limit of any front.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    roomy = width >= 110
    table.add_column("benchmark", no_wrap=True)
    if roomy:
        table.add_column("unit", style="dim", no_wrap=True)
    for title in (SUBJECT, SYSTEM) if roomy else (SUBJECT,):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("best rival", no_wrap=True)
    table.add_column("÷ best", justify="right", no_wrap=True)
    if roomy:
        table.add_column("interval", style="dim", no_wrap=True)
    table.add_column("÷ sys", justify="right", no_wrap=True)
    if roomy:
        table.add_column(f"to {FAST}", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True, min_width=7)
    for row in rows:
        table.add_row(*_cells(row, roomy))
    return table


def _cells(row: Row, roomy: bool) -> list[Text | str]:
    best = row.best
    name = best.rival if best else "none"
    value = words.number(row.cells[best.rival].median) if best else "–"
    cells: list[Text | str] = [row.name]
    if roomy:
        cells.append(row.unit)
    cells.append(_value(row.cells.get(SUBJECT), roomy))
    if roomy:
        cells += [_value(row.cells.get(SYSTEM), roomy), f"{value} {name}"]
    else:
        cells.append(name)
    cells.append(_ratio(best))
    if roomy:
        cells.append(words.ends(best.ratio) if best else "")
    cells.append(_ratio(row.system))
    if roomy:
        cells.append("" if row.way is None else f"{100 * row.way:.0f} %")
    cells.append(Text(words.MARKS[row.verdict], style=STYLES[row.verdict]))
    return cells


def _value(cell: Cell | None, roomy: bool) -> Text | str:
    if cell is None:
        return "–"
    if cell.error:
        return Text("error", style="bold red")
    return (
        f"{words.number(cell.median)} {words.spread(cell):>8}"
        if roomy
        else words.number(cell.median)
    )


def _ratio(comparison: Comparison | None) -> Text | str:
    if comparison is None or comparison.ratio is None:
        return "–"
    return Text(words.ratio(comparison.ratio), style=STYLES[comparison.verdict])
