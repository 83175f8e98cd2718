"""What is shown of each process: figures as they are, work as rates between two looks. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
