"""Reads what the recorder writes while a program runs (src/record/record.h) into arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import LabError
from hakmem.lazy import np

MAGIC = 0x3164726365726B68
CHUNK = 32 * 1024
LINE = 16
NEEDED = 9  # memory that it takes at most to make a trace of a recording ÷ the recording's size
GIVEN, TAKEN, RESIZED = 1, 2, 4
THREAD = 7
WHOLE = 2**64 - 1
TICK_NS = 2e6  # an operation without a time is at most so much later than the last time before it
HEAD = ("magic", "chunk_bytes", "pid", "begin_ns", "end_ns", "chunks", "operations", "stopped")


@dataclass(frozen=True)
class Events:
    """Every recorded operation in the order in which they happened; arrays of equal length.

    `ns` are since the beginning, exact where a pause ends. `lost` operations were begun but not
    written, or came after the file was `full`; `whole_ns` is until the process ended or, without an
    end, until the last noted time. `ended`: the process came to its end by itself.
    """

    pid: int
    address: np.ndarray
    kind: np.ndarray
    size: np.ndarray
    log2: np.ndarray
    thread: np.ndarray
    ns: np.ndarray
    lost: int
    full: bool
    ended: bool
    whole_ns: float


def count(path: Path) -> int:
    """How many operations a file has, by its head; 0: none yet. LabError: no head."""
    head = _head(path)
    return min(head["operations"], head["stopped"])


def read(path: Path) -> Events:
    """All operations of a file. LabError: no recording. What a crash left unwritten is `lost`."""
    head = _head(path)
    whole = path.stat().st_size // CHUNK
    lines = np.fromfile(path, "<u8", count=whole * CHUNK // 8).reshape(whole, CHUNK // LINE, 2)
    where, what = (lines[1 : head["chunks"], :, word].ravel() for word in (0, 1))
    del lines
    number = what & np.uint64(0xFFFFFFFF)
    kind = (where >> np.uint64(48)) & np.uint64(7)
    says_whose = kind == np.uint64(THREAD)
    says_whose[:: CHUNK // LINE] = True
    said = np.maximum.accumulate(np.where(says_whose, np.arange(len(where)), 0))
    thread = where[said] & np.uint64(0xFFFFFFFF)
    known = ((kind & np.uint64(3)) != 0) & ~says_whose
    known &= (thread != 0) & (number < np.uint64(head["stopped"]))
    number = number[known]
    at = np.flatnonzero(known)[np.argsort(number, kind="stable")]
    number.sort()
    ns, whole_ns = _times(number, said[at], what, head)
    where, what = where[at], what[at]
    high = (where >> np.uint64(56)) << np.uint64(32)
    return Events(
        pid=head["pid"],
        address=where & np.uint64((1 << 48) - 1),
        kind=kind[at].astype(np.uint8),
        size=((what >> np.uint64(32)) | high).astype(np.int64),
        log2=((where >> np.uint64(51)) & np.uint64(31)).astype(np.uint8),
        thread=thread[at].astype(np.uint32),
        ns=ns,
        lost=max(0, head["operations"] - len(at)),
        full=head["stopped"] != WHOLE,
        ended=head["end_ns"] != 0,
        whole_ns=whole_ns,
    )


def _times(
    number: np.ndarray, said: np.ndarray, what: np.ndarray, head: dict[str, int]
) -> tuple[np.ndarray, float]:
    """The time of each operation and of the end, in ns since the beginning. The first operation
    behind a noted time has that time; the following ones are spread over what is left until the
    next noted time, or over a tick where that is farther."""
    at, first = np.unique(said, return_index=True)
    first, at = np.sort(first), at[np.argsort(first)]
    begin = float(head["begin_ns"])
    begun = np.maximum.accumulate(np.maximum(what[at] - begin, 0))
    whole_ns = max([0.0, head["end_ns"] - begin, *begun[-1:]])
    over = np.minimum(begun + TICK_NS, np.append(begun[1:], whole_ns)[: len(begun)])
    last = np.append(number[first[1:]], number[-1:] + np.uint64(1)) - 0.5
    places = np.stack((number[first], last), 1).ravel()
    ns = np.interp(number, places, np.stack((begun, over), 1).ravel()) if len(number) else begun
    return ns, float(whole_ns)


def _head(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        found = file.read(8 * len(HEAD))
    if len(found) < 8 * len(HEAD):
        raise LabError(f"{path} is no recording: it is cut off")
    head = dict(zip(HEAD, np.frombuffer(found, "<u8").tolist(), strict=True))
    if head["magic"] != MAGIC or head["chunk_bytes"] != CHUNK:
        raise LabError(f"{path} is no recording of this version of hakmem's recorder")
    return head
