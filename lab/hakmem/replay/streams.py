"""Makes of a recording what is replayed: a stream of operations for each thread, by block.

docs/replay.md has the form. A block's number is a slot, in which the replay keeps its address. A
thread takes a slot again only when the block in it was freed, so a replay that runs freely never
has more blocks than the program had.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hakmem.errors import LabError
from hakmem.lazy import np
from hakmem.replay.raw import GIVEN, RESIZED, TAKEN, Events

VERSION = 2
MAGIC = b"hkreplay"
MALLOC, FREE, REALLOC, ALIGNED, START, WAIT, POINT, TIME = range(8)
POINTS = 64
TIMES = 1 << 12  # times in a thread's stream at most; they are no closer than a millisecond
MOST_MS = (1 << 29) - 1
IDLE_NS = 1e8  # the shortest pause of all threads that counts as idle
NATURAL = 3  # base-2 logarithm of the alignment that malloc is recorded with
MOST_SLOTS = 1 << 29
NOBODY = 1  # the thread number of operations whose thread is not known
BATCH = 1 << 14
NOTHING = "nothing was recorded: the program has not allocated"


@dataclass(frozen=True)
class Operations:
    """All operations in order: what is done, in which thread, to the block of which earlier event
    (or -1), with how many bytes and what alignment, and when; `live` are the bytes in use
    afterwards, `unknown` counts frees that were left out."""

    event: np.ndarray
    op: np.ndarray
    thread: np.ndarray
    match: np.ndarray
    size: np.ndarray
    log2: np.ndarray
    ns: np.ndarray
    live: np.ndarray
    unknown: int


@dataclass
class Streams:
    """The words of each thread's stream, how many slots they need, and facts about them."""

    words: list[array[int]]
    slots: int
    facts: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        head = np.array([VERSION, len(self.words), self.slots, POINTS], "<u4").tobytes()
        counts = np.array([len(words) for words in self.words], "<u8").tobytes()
        bodies = (np.frombuffer(words, np.uint32).astype("<u4").tobytes() for words in self.words)
        return b"".join((MAGIC, head, counts, *bodies))


def operations(events: Events) -> Operations:
    """Finds which block each event is about: that of the event before it at its address.

    Frees of blocks from before the recording are left out, and counted. The two halves of a
    realloc, adjacent in their thread, are one operation.
    """
    given = (events.kind & GIVEN) != 0
    match = _before_at_its_address(events)
    match[given] = -1
    match[(match >= 0) & ~given[match]] = -1
    unknown = int(np.count_nonzero(~given & (match < 0)))
    first, second = _halves(events)
    op = np.where(given, MALLOC, FREE).astype(np.uint8)
    op[given & (events.log2 > NATURAL)] = ALIGNED
    resized = match[first] >= 0
    op[second[resized]] = REALLOC
    match[second] = match[first]
    done = given | (match >= 0)
    done[first] = False

    size = np.maximum(events.size, 1)
    live = np.where(op == FREE, 0, size)
    live -= np.where(match >= 0, size[match], 0)
    live[~done] = 0
    np.cumsum(live, out=live)
    event = np.flatnonzero(done)
    return Operations(
        event,
        op[event],
        _merged(events.thread)[event],
        match[event],
        size[event],
        events.log2[event],
        events.ns[event],
        live[event],
        unknown,
    )


def _before_at_its_address(events: Events) -> np.ndarray:
    """For each event the one before it at the same address, or -1."""
    by_address = np.argsort(events.address, kind="stable")
    here = events.address[by_address]
    same = here[1:] == here[:-1]
    match = np.full(len(here), -1, np.int64)
    match[by_address[1:][same]] = by_address[:-1][same]
    return match


def _halves(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """Of each realloc the event that took the old block, and the one that gave the new one."""
    by_thread = np.argsort(events.thread, kind="stable")
    kind, thread = events.kind[by_thread], events.thread[by_thread]
    pair = (kind[:-1] == TAKEN | RESIZED) & (kind[1:] == GIVEN | RESIZED)
    pair &= thread[:-1] == thread[1:]
    return by_thread[:-1][pair], by_thread[1:][pair]


def _merged(thread: np.ndarray) -> np.ndarray:
    """If only one thread is known, the operations without a known thread are that one's too."""
    known = np.unique(thread)
    alone = len(known) == 2 and known[0] == NOBODY
    return np.full_like(thread, known[1]) if alone else thread


def make(events: Events) -> Streams:
    """The streams; LabError where there is nothing to replay."""
    ops = operations(events)
    if not len(ops.event):
        raise LabError(NOTHING, status=1)
    made = _by_thread(ops, events)
    pauses = np.diff(np.append(ops.ns, events.whole_ns))
    kinds = np.bincount(ops.op, minlength=4).tolist()
    made.facts |= {
        "operations": len(ops.event),
        "mallocs": kinds[MALLOC],
        "aligned": kinds[ALIGNED],
        "reallocs": kinds[REALLOC],
        "frees": kinds[FREE],
        "threads": len(made.words),
        "asked_bytes": int(ops.size[ops.op != FREE].sum()),
        "peak_bytes": int(ops.live.max()),
        "end_bytes": int(ops.live[-1]),
        "unknown_frees": ops.unknown,
        "lost": events.lost,
        "full": events.full,
        "ended": events.ended,
        "seconds": events.whole_ns / 1e9,
        "idle_seconds": float(pauses[pauses >= IDLE_NS].sum()) / 1e9,
    }
    return made


def size_word(size: int) -> int:
    """A size as streams have it: bytes; from 2 GiB on MiB, rounded up, with the highest bit."""
    return size if size < 1 << 31 else 1 << 31 | -(-size >> 20)


def milliseconds(ns: np.ndarray) -> np.ndarray:
    return np.minimum(ns / 1e6, MOST_MS).astype(np.int64)


def _by_thread(ops: Operations, events: Events) -> Streams:
    """Goes through the operations in order, gives slots to blocks and writes the streams.

    An operation on a slot that another thread used last waits until that thread has done as many
    operations as it had done then. A thread is started by the one that did the operation before its
    first. Points lie at equal distances in time, each behind the last operation before it.
    """
    times = np.linspace(ops.ns[0], events.whole_ns, POINTS + 1)[1:]
    points = ops.ns.searchsorted(times, side="right").tolist()
    points[-1] = len(ops.ns)
    step = max(1, int(events.whole_ns / 1e6) // TIMES)
    slot_of = array("I", bytes(4 * len(events.kind)))
    words: list[array[int]] = []
    lane_of: dict[int, int] = {}
    owner, last, last_at = array("I"), array("I"), array("I")
    free: list[array[int]] = []
    done: list[int] = []
    seen: list[dict[int, int]] = []
    next_ms: list[int] = []
    lane = 0
    due = iter(enumerate([*zip(points, milliseconds(times).tolist(), strict=True), (-1, 0)]))
    point, (at, at_ms) = next(due)
    rows = enumerate(_rows(ops), 1)
    for number, (event, op, thread, match, size, log2, ms, live) in rows:
        before, lane = lane, lane_of.get(thread, -1)
        if lane < 0:
            lane = lane_of[thread] = len(words)
            words.append(array("I"))
            free.append(array("I"))
            done.append(0)
            seen.append({})
            next_ms.append(0)
            if lane:
                words[before].append(lane << 3 | START)
        out = words[lane]
        if ms >= next_ms[lane]:
            next_ms[lane] = ms + step
            out.append(ms << 3 | TIME)
        if op in (MALLOC, ALIGNED):
            if free[lane]:
                slot = free[lane].pop()
            else:
                slot = len(owner)
                owner.append(lane)
                last.append(lane)
                last_at.append(0)
        else:
            slot = slot_of[match]
        other = last[slot]
        if other != lane:
            if seen[lane].get(other, 0) < last_at[slot]:
                seen[lane][other] = last_at[slot]
                out.extend((other << 3 | WAIT, last_at[slot]))
            last[slot] = lane
        out.append(slot << 3 | op)
        if op == FREE:
            free[owner[slot]].append(slot)
        else:
            slot_of[event] = slot
            out.append(size if size < 1 << 31 else size_word(size))
            if op == ALIGNED:
                out.append(log2)
        done[lane] += 1
        last_at[slot] = done[lane]
        while number == at:
            out.extend((at_ms << 3 | TIME, point << 3 | POINT, -(-live >> 10)))
            point, (at, at_ms) = next(due)
    if len(owner) > MOST_SLOTS:
        raise LabError(f"{len(owner)} blocks at once are too many to replay", status=1)
    return Streams(words, len(owner))


def _rows(ops: Operations) -> Iterator[tuple[int, ...]]:
    """The operations as Python's own numbers, converted a batch at a time."""
    ms = milliseconds(ops.ns)
    columns = (ops.event, ops.op, ops.thread, ops.match, ops.size, ops.log2, ms, ops.live)
    for at in range(0, len(ops.event), BATCH):
        yield from zip(*(c[at : at + BATCH].tolist() for c in columns), strict=True)
