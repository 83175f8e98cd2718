"""Processes in the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hakmem import words
from hakmem.live.processes import Process


@dataclass(frozen=True)
class Row:
    """Bytes and counts; the last four since the process began or, of a second look, per second."""

    pid: int
    command: str
    in_use: int
    resident: int
    dirty: int
    mapped: int
    purged: float
    page_faults: float
    calls: float
    refused: float


def counted(process: Process) -> tuple[int, int, int, int]:
    heap = process.heap
    return heap["purge_bytes"], process.page_faults, heap["calls"], heap["refused"]


def row(now: Process, before: Process | None, seconds: float | None) -> Row:
    """A process that was not there at the look before has done all of its work since."""
    work: Sequence[float] = counted(now)
    if seconds is not None:
        earlier = counted(before) if before is not None else (0, 0, 0, 0)
        work = [max(0.0, new - old) / seconds for new, old in zip(work, earlier, strict=True)]
    heap = now.heap
    return Row(
        now.pid,
        now.command,
        heap["allocated"],
        heap["resident"],
        heap["dirty"],
        heap["mapped"],
        *work,
    )


def rows(
    now: Sequence[Process], before: Mapping[int, Process] | None, seconds: float | None
) -> list[Row]:
    """The largest first. None: this is the first look."""
    made = [row(process, (before or {}).get(process.pid), seconds) for process in now]
    return sorted(made, key=lambda one: (-one.resident, one.pid))


MIB = 1 << 20
NOBODY = (
    "no process that may be looked at runs on hakmem with HAKMEM_LIVE=1\n"
    "start one: HAKMEM_LIVE=1 hakmem run -- PROGRAM"
)
# What is worth a line of one process: its name in the statistics, and in how many bytes it is.
HEAP = (
    ("allocated", MIB), ("magazines", MIB), ("free", MIB), ("metadata", MIB), ("cached", MIB),
    ("mapped", MIB), ("resident", MIB), ("dirty", MIB), ("lazy", MIB), ("peak_mapped", MIB),
    ("peak_resident", MIB), ("limit", MIB), ("held", MIB), ("refused", 1), ("purge_runs", 1),
    ("purge_bytes", MIB), ("calls", 1), ("faults", 1),
)  # fmt: skip
BAND = ("allocated", "magazines", "free", "carved")


def mib(value: float) -> str:
    return words.number(value / MIB) if value else "0"


def count(value: float) -> str:
    """A rate below ten has decimals."""
    return f"{value:.0f}" if value == int(value) else words.number(value)


def silent(count: int) -> list[Text]:
    what = "processes gave no answer: they are another user's, stopped, or have ended"
    return [Text(f"{count} {what}", style="dim")] if count else []


def table(rows: Sequence[Row], others: int, rates: bool) -> RenderableType:
    """Text, not markup: a process may call itself whatever it likes."""
    if not rows:
        return Group(Text(NOBODY), *silent(others))
    work = [name + "/s" * rates for name in ("purged", "page faults", "calls", "refused")]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("pid", justify="right")
    shown.add_column("command", overflow="ellipsis", no_wrap=True)
    for name in ("in use", "resident", "dirty", "mapped", *work):
        shown.add_column(name, justify="right")
    for one in rows:
        shown.add_row(
            str(one.pid),
            Text(one.command),
            *(mib(n) for n in (one.in_use, one.resident, one.dirty, one.mapped, one.purged)),
            *(count(n) for n in (one.page_faults, one.calls)),
            Text(count(one.refused), style="bold red" if one.refused else ""),
        )
    since = "a second" if rates else "since each began"
    return Group(shown, Text(f"MiB, and counts {since}", style="dim"), *silent(others))


def detail(process: Process, row: Row, rates: bool) -> RenderableType:
    """One process: its line, what its heap holds, and that by band."""
    heap = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        heap.add_column()
        heap.add_column(justify="right")
        heap.add_column(style="dim")
    cells = [
        cell
        for name, of in HEAP
        for cell in (
            name,
            mib(process.heap[name]) if of == MIB else count(process.heap[name]),
            "MiB" if of == MIB else "",
        )
    ]
    for at in range(0, len(cells), 9):
        heap.add_row(*cells[at : at + 9])
    bands = Table(box=None, pad_edge=False, header_style="bold")
    bands.add_column("band")
    for name in ("blocks", *BAND):
        bands.add_column(name, justify="right")
    for name, band in process.figures["bands"].items():
        style = "" if band["carved"] or band["blocks"] else "dim"
        bands.add_row(
            Text(name),
            f"{band['blocks']}",
            *(mib(band[column]) for column in BAND),
            style=style,
        )
    return Group(table([row], 0, rates), Text(), heap, Text(), bands)
