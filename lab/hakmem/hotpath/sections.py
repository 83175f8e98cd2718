"""Cycles spent in the named sections of the boundary, as the allocator itself times them.

With HAKMEM_SECTIONS_SAMPLE=N the allocator reads the time-stamp counter around each Nth entry of a
section, and writes the sums into its statistics. It counts all entries, so these are subtracted
between two amounts of work. Cycles are not subtracted: one interrupted entry among the few of a
start-up would make the mean of the others wrong, even negative. The mean is that of the larger run.
Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakmem.errors import LabError

OPTION = "HAKMEM_SECTIONS_SAMPLE"
WHAT = (
    "one may lie inside another, so they are not added; cycles are the timer's, reading it included"
)


# The statistics of a process before the first entry.
NOTHING: Mapping[str, Any] = {"sections": {}}


@dataclass(frozen=True)
class Section:
    """How often additional operations enter the section, and what an entry takes in the larger run,
    its start-up included. Cycles are None where no entry was timed."""

    name: str
    entries_per_op: float
    timed: int
    cycles_per_entry: float | None
    longest: int
    cycles_per_op: float | None


def parse(text: str, every: int) -> Mapping[str, Any]:
    """The statistics of one process. LabError where the library has no sections, or timed at
    another rate than the one asked for."""
    try:
        document: dict[str, Any] = json.loads(text or "{}")
        sections, stated = document.get("sections"), document.get("sections_sample")
    except (ValueError, AttributeError):
        raise LabError("the statistics are not JSON", status=1) from None
    if not isinstance(sections, dict) or not sections:
        raise LabError(f"this library has no {OPTION}: its sections cannot be timed", status=1)
    if stated != every:
        raise LabError(f"{OPTION}={every} was intended, {stated} was in effect", status=1)
    for name, row in sections.items():
        if not all(isinstance(row.get(k), int) for k in ("count", "sampled", "cycles", "max")):
            raise LabError(f"the section {name} has no count, sampled, cycles and max", status=1)
    return document


def between(small: Mapping[str, Any], large: Mapping[str, Any], ops: int) -> list[Section]:
    """The sections that were entered, most expensive first; `ops` are the operations done more."""
    found = []
    for name, after in large["sections"].items():
        entries = (after["count"] - small["sections"].get(name, {}).get("count", 0)) / ops
        timed = after["sampled"]
        mean = after["cycles"] / timed if timed > 0 else None
        in_all = 0.0 if entries == 0 else None if mean is None else mean * entries
        if after["count"] > 0:
            found.append(Section(name, entries, timed, mean, after["max"], in_all))
    return sorted(found, key=lambda s: (-(s.cycles_per_op or 0), s.name))


def about(document: Mapping[str, Any]) -> dict[str, object]:
    """What the statistics say of the timer, and how long it takes to time an empty entry."""
    keys = ("sections_timer", "sections_overhead")
    return {key: document[key] for key in keys if key in document}
