"""`hakmem scorecard`: the targets against the ledger, as a page and in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import pages, project, terminal, words
from hakmem.audit.citing import Evidence
from hakmem.audit.settings import Settings
from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.ledger.store import Ledger, Record
from hakmem.ledger.verify import verify
from hakmem.scorecard import read, targets as scorecard_targets
from hakmem.scorecard.read import STATES, Row
from hakmem.scorecard.targets import FILE, MARGIN, Target


def rows(root: Path, records: Mapping[str, Record]) -> list[Row]:
    """The lines of the scorecard of a checkout. `records` are those that verify."""
    targets = scorecard_targets.load(root / FILE)
    settings = Settings.load(root)
    return read.rows(targets, Evidence(root, records, settings.stale_after))


# ---- the page ----


def block(found: Sequence[Row]) -> str:
    """The text between the marks: the tally, then a table for each area."""
    parts = [f"**{tally(found)}**\n"]
    for area, lines in groups(found):
        parts.append(f"\n## {area}\n\n")
        parts.append("| target | bound | last | interval | state | measured | record |\n")
        parts.append("|---|--:|--:|--:|---|---|---|\n")
        parts += [_line(row) for row in lines]
    return "".join(parts)


def groups(found: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for area, lines in groupby(found, key=lambda row: row.target.area):
        yield area, list(lines)


def tally(found: Sequence[Row]) -> str:
    counts = {state: sum(row.state == state for row in found) for state in STATES}
    said = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    return f"{len(found)} targets: {said}"


def _line(row: Row) -> str:
    record = row.record
    link, measured = "", ""
    if record is not None:
        # The ledger has one record per line, and its number is the line's.
        link = f"[{record.id}](../evidence/ledger/{record.host}.jsonl#L{record.seq})"
        commit = str(record.body["source"]["commit"])[:10]
        measured = f"{commit}, {record.time[:10]}, {record.host}"
    remark = f" ({' '.join(row.remark.split())})" if row.remark.split() else ""
    state = f"{words.marked(row.state)}{remark}"
    return pages.row((name(row), bound(row), last(row), interval(row), state, measured, link))


# ---- cells of the page and of the terminal ----


def name(row: Row) -> str:
    """The target in words; the benchmark alone where the area's title says the rest."""
    what = row.target.what
    if row.subject:
        return row.subject if what in row.target.area else f"{row.subject}: {what}"
    return what


def bound(row: Row) -> str:
    target = row.target
    if target.side == "is":
        return str(target.bound)
    sign = "≤" if target.side == "at most" else "≥"
    if row.bound is None:
        return f"{sign} its {MARGIN}" if target.side == "at most" else f"{sign} −its {MARGIN}"
    beyond = "+" if target.side == "at most" else "−"
    tie = f" {beyond} {_shown(target, row.bound.tie, False)}" if row.bound.tie else ""
    return f"{sign} {_shown(target, row.bound.value, True)}{tie}"


def last(row: Row) -> str:
    if row.figure is None:
        return ""
    beside = f", {row.against}" if row.against else ""
    return f"{_shown(row.target, row.figure.value, True)}{beside}"


def interval(row: Row) -> str:
    ends = row.figure and row.figure.ends
    return f"[{'–'.join(_shown(row.target, end, False) for end in ends)}]" if ends else ""


def _shown(target: Target, value: float, with_unit: bool) -> str:
    scaled, unit = claims.scaled(value, target.unit, target.scale)
    number = float(scaled)
    if target.unit == "ratio" and target.scale is None:
        text = f"{number:.3f}".rstrip("0").rstrip(".")
    elif 0 < abs(number) < 0.01:
        mantissa, _, exponent = f"{number:.1e}".partition("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    elif number == int(number):
        text = f"{int(number)}"
    else:
        text = words.number(number)
    return f"{text} {unit}".rstrip() if with_unit else text


# ---- the terminal ----


def show(found: Sequence[Row], console: Console) -> None:
    """The tally first; then a table for each area."""
    console.print(f"[bold]{tally(found)}[/]")
    for area, lines in groups(found):
        console.print()
        console.print(_table(area, lines, console.width))


def _table(area: str, found: Sequence[Row], width: int) -> Table:
    """The table of one area, with the ids of the records where there is room for them."""
    record = ["record"] * (width >= 120)
    table = terminal.table(area, ">bound", ">last", "interval", "state", *record)
    for row in found:
        state = terminal.state(row.state, words.marked(row.state))
        ids = [Text(row.record.id if row.record else "", style="dim")] * len(record)
        table.add_row(Text(name(row)), bound(row), last(row), interval(row), state, *ids)
    return table


def remarks(found: Sequence[Row]) -> Iterator[str]:
    """What the terminal's table has no room for."""
    for row in found:
        if row.remark:
            yield f"{name(row)}: {' '.join(row.remark.split())}"


def command() -> None:
    """Show every target with the last figure of it that may be cited, and whether it is met."""
    checked = verify(Ledger.default())
    if checked.problems:
        raise LabError(f"the ledger does not verify: {checked.problems[0]}", status=1)
    found = rows(project.root(), checked.records)
    console = terminal.new_console()
    show(found, console)
    for line in remarks(found):
        console.print(line, style="dim")
