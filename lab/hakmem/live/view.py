"""Processes in the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hakmem import terminal, words
from hakmem.live.processes import Process


@dataclass(frozen=True)
class Row:
    """A process's `figures`, bytes and counts, by column; those of WORK are since the process began
    or, from the second look on, per second."""

    pid: int
    command: str
    figures: Mapping[str, float]


def counted(process: Process) -> tuple[int, int, int, int]:
    heap = process.heap
    return heap["purge_bytes"], process.page_faults, heap["calls"], heap["refused"]


def row(now: Process, before: Process | None, seconds: float | None) -> Row:
    """One row; a process that was not there at the look before has done all of its work since."""
    work: Sequence[float] = counted(now)
    if seconds is not None:
        earlier = counted(before) if before is not None else (0, 0, 0, 0)
        work = [max(0.0, new - old) / seconds for new, old in zip(work, earlier, strict=True)]
    held = (now.heap[name] for name in ("allocated", "resident", "dirty", "mapped"))
    return Row(now.pid, now.command, dict(zip(COLUMNS, (*held, *work), strict=True)))


def rows(
    now: Sequence[Process], before: Mapping[int, Process] | None, seconds: float | None
) -> list[Row]:
    """The rows, the largest process first. `before` None: this is the first look."""
    made = [row(process, (before or {}).get(process.pid), seconds) for process in now]
    return sorted(made, key=lambda one: (-one.figures["resident"], one.pid))


MIB = 1 << 20
NOBODY = (
    "no process that may be looked at runs on hakmem with HAKMEM_LIVE=1\n"
    "start one: HAKMEM_LIVE=1 hakmem run -- PROGRAM"
)
# The figures shown of one process: name in the statistics, and bytes per unit shown.
HEAP = (
    ("allocated", MIB), ("magazines", MIB), ("free", MIB), ("metadata", MIB), ("cached", MIB),
    ("mapped", MIB), ("resident", MIB), ("dirty", MIB), ("lazy", MIB), ("peak_mapped", MIB),
    ("peak_resident", MIB), ("limit", MIB), ("held", MIB), ("refused", 1), ("purge_runs", 1),
    ("purge_bytes", MIB), ("calls", 1), ("faults", 1),
)  # fmt: skip
WORK = ("purged", "page faults", "calls", "refused")
COLUMNS = ("in use", "resident", "dirty", "mapped", *WORK)
COUNTED = WORK[1:]
# Columns in the order in which a narrow terminal drops them.
LEAST_FIRST = ("mapped", "calls", "page faults", "purged", "dirty", "refused")
BAND = ("allocated", "magazines", "free", "carved")


def mib(value: float) -> str:
    return words.number(value / MIB) if value else "0"


def count(value: float) -> str:
    """A count; a rate below ten has decimals."""
    return f"{value:.0f}" if value == int(value) else words.number(value)


def silent(count: int) -> list[Text]:
    what = "processes gave no answer: they are another user's, stopped, or have ended"
    return [Text(f"{count} {what}", style="dim")] if count else []


def table(rows: Sequence[Row], others: int, rates: bool) -> RenderableType:
    """The processes, with fewer columns where there is no room for all: no figure is cut."""
    if not rows:
        return Group(Text(NOBODY), *silent(others))

    def forms() -> Iterator[tuple[Table, Text]]:
        yield _table(rows, rates, (), " ")
        for count in range(len(LEAST_FIRST) + 1):
            yield _table(rows, rates, LEAST_FIRST[:count], "\n")

    return Group(terminal.Fitting(forms), *silent(others))


def _table(
    rows: Sequence[Row], rates: bool, without: Sequence[str], between: str
) -> tuple[Table, Text]:
    """One form of the table. Commands are text, not markup: a process may have any name."""
    chosen = [name for name in COLUMNS if name not in without]
    titles = (name + "/s" * (rates and name in WORK) for name in chosen)
    wrapped = (f">{title.replace(' ', between)}" for title in titles)
    shown = terminal.table(">pid", "command", *wrapped)
    shown.columns[0].vertical = "bottom"
    for one in rows:
        cells = _cells(one)
        shown.add_row(str(one.pid), Text(one.command), *(cells[name] for name in chosen))
    words = f"MiB, and counts {'a second' if rates else 'since each began'}"
    if without:
        words += f"; no room for {', '.join(name for name in COLUMNS if name in without)}"
    return shown, Text(words, style="dim")


def _cells(one: Row) -> dict[str, Text]:
    """A row's cells by column."""
    found = {
        name: Text(count(value) if name in COUNTED else mib(value))
        for name, value in one.figures.items()
    }
    found["refused"].style = "bold red" if one.figures["refused"] else ""
    return found


def _heap(process: Process, across: int) -> Table:
    """The figures of a heap, `across` in a line."""
    heap = terminal.table(*["", ">", ""] * across, show_header=False)
    for column in heap.columns[2::3]:
        column.style = "dim"
    cells = [
        cell
        for name, of in HEAP
        for cell in (
            name,
            mib(process.heap[name]) if of == MIB else count(process.heap[name]),
            "MiB" if of == MIB else "",
        )
    ]
    for at in range(0, len(cells), 3 * across):
        heap.add_row(*cells[at : at + 3 * across])
    return heap


def detail(process: Process, row: Row, rates: bool) -> RenderableType:
    """One process: its line, what its heap holds, and that by band."""
    heap = terminal.Fitting(lambda: ((_heap(process, across), None) for across in (3, 2, 1)))
    bands = terminal.table("band", *(f">{name}" for name in ("blocks", *BAND)))
    for name, band in process.figures["bands"].items():
        style = "" if band["carved"] or band["blocks"] else "dim"
        bands.add_row(
            Text(name), f"{band['blocks']}", *(mib(band[column]) for column in BAND), style=style
        )
    return Group(table([row], 0, rates), Text(), heap, Text(), bands)
