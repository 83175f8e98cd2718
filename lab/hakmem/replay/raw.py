"""What the recorder writes while a program runs (src/record/record.h), read into arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem import lazy
from hakmem.errors import LabError

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.Module("numpy")

MAGIC = 0x3164726365726B68
CHUNK = 32 * 1024
LINE = 16
GIVEN, TAKEN, RESIZED = 1, 2, 4
THREAD = 7
WHOLE = 2**64 - 1
HEAD = ("magic", "chunk_bytes", "pid", "begin_ns", "end_ns", "chunks", "operations", "stopped")


@dataclass(frozen=True)
class Events:
    """Every recorded operation in the order in which they happened; arrays of equal length.

    `lost` were begun but not written, or came after the file was full; `last_ns` is when the
    process ended or began its last chunk. `ended`: it came to its end by itself.
    """

    pid: int
    address: np.ndarray
    kind: np.ndarray
    size: np.ndarray
    log2: np.ndarray
    thread: np.ndarray
    lost: int
    full: bool
    ended: bool
    begin_ns: int
    last_ns: int


def count(path: Path) -> int:
    """How many operations a file has, by its head alone; 0 where it has none yet."""
    head = _head(path)
    return min(head["operations"], head["stopped"])


def read(path: Path) -> Events:
    """LabError where it is no such file. What a crash left unwritten is left out, and counted."""
    head = _head(path)
    whole = path.stat().st_size // CHUNK
    lines = np.fromfile(path, "<u8", count=whole * CHUNK // 8).reshape(whole, CHUNK // LINE, 2)
    lines = lines[1 : head["chunks"]]
    where, what = lines[:, 1:, 0], lines[:, 1:, 1]
    number = what & np.uint64(0xFFFFFFFF)
    kind = (where >> np.uint64(48)) & np.uint64(7)
    change = kind == np.uint64(THREAD)
    thread = _owners(lines[:, 0, 0], np.where(change, where, 0))
    times = [*lines[:, 0, 1][thread[:, 0] != 0].tolist(), *what[change].tolist()]
    known = ((kind & np.uint64(3)) != 0) & ~change
    known &= (thread != 0) & (number < np.uint64(head["stopped"]))
    where, what, number, thread = where[known], what[known], number[known], thread[known]
    order = np.argsort(number, kind="stable")
    where, what = where[order], what[order]
    high = (where >> np.uint64(56)) << np.uint64(32)
    last = max((head["begin_ns"], head["end_ns"], *times))
    return Events(
        pid=head["pid"],
        address=where & np.uint64((1 << 48) - 1),
        kind=((where >> np.uint64(48)) & np.uint64(7)).astype(np.uint8),
        size=((what >> np.uint64(32)) | high).astype(np.int64),
        log2=((where >> np.uint64(51)) & np.uint64(31)).astype(np.uint8),
        thread=thread[order].astype(np.uint32),
        lost=max(0, head["operations"] - len(order)),
        full=head["stopped"] != WHOLE,
        ended=head["end_ns"] != 0,
        begin_ns=head["begin_ns"],
        last_ns=last,
    )


def _owners(first: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Whose each line is: the chunk's first owner's, or that of the last change before it."""
    owners = np.concatenate((first[:, None], changes), axis=1) & np.uint64(0xFFFFFFFF)
    places = np.where(owners != 0, np.arange(owners.shape[1], dtype=np.uint16), 0)
    return np.take_along_axis(owners, np.maximum.accumulate(places, axis=1), axis=1)[:, 1:]


def _head(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        found = file.read(8 * len(HEAD))
    if len(found) < 8 * len(HEAD):
        raise LabError(f"{path} is no recording: it is cut off")
    head = dict(zip(HEAD, np.frombuffer(found, "<u8").tolist(), strict=True))
    if head["magic"] != MAGIC or head["chunk_bytes"] != CHUNK:
        raise LabError(f"{path} is no recording of this version of hakmem's recorder")
    return head
