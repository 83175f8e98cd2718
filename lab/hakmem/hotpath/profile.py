"""`hakmem hotpath`: what one operation costs, counted or simulated, where, and in what code.

Each figure is a difference: between two processes that differ in their amount of work alone,
divided by the operations that the larger one did more. One repetition is such a pair; shown are the
median and the range of the repetitions. Counted and simulated figures are never in one record.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from rich.console import Console

from hakmem import project
from hakmem.errors import LabError
from hakmem.hotpath import callgrind, code as hotpath_code, sections as hotpath_sections, sharing
from hakmem.hotpath.code import Code
from hakmem.hotpath.sections import Section
from hakmem.hotpath.work import ProgramFailed, Workload, difference, metric, run
from hakmem.paired import recording
from hakmem.paired.cells import Cell
from hakmem.paired.recording import Facts
from hakmem.process import library, order, perf, provenance, scratch
from hakmem.process.library import SUBJECT
from hakmem.process.sample import Sample
from hakmem.terminal import progress_bar

Method = Literal["perf", "callgrind", "emulated"]
Choice = Literal["auto", "perf", "callgrind", "emulated"]
TOP = 40  # functions kept in a record
FAULTS = "page faults"
ENV = "/usr/bin/env"  # absolute, whatever PATH says

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What was asked for. `method` None: nothing here can count; the rest is measured."""

    workloads: Sequence[Workload]
    cells: Mapping[str, Cell]
    method: Method | None
    repeat: int
    seed: int
    sections_every: int

    @property
    def by_emulation(self) -> bool:
        """Whether an emulator runs the program; then it gets less work."""
        return self.method in ("callgrind", "emulated")


@dataclass(frozen=True)
class Spent:
    """One function: instructions (callgrind) or cycles (perf) per operation, in it and below it."""

    object: str
    function: str
    own: float
    inclusive: float | None


@dataclass
class Side:
    """What one cell gave on one workload; a figure has a value per repetition. A `failure` ends its
    measurements; it is `faulty` if a benchmark of ours failed under hakmem."""

    figures: dict[str, list[float]] = field(default_factory=dict)
    functions: list[Spent] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    timing: Mapping[str, object] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    caches: Sequence[str] = ()
    failure: str | None = None
    faulty: bool = False


@dataclass
class Found:
    """Everything that was found: sides by (workload, letter); code, or why none, by letter."""

    sides: dict[tuple[str, str], Side] = field(default_factory=dict)
    code: dict[str, list[Code]] = field(default_factory=dict)
    no_code: dict[str, str] = field(default_factory=dict)
    raw: list[str] = field(default_factory=list)

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        return {key: side.failure for key, side in self.sides.items() if side.failure}


def choose(asked: Choice) -> tuple[Method | None, list[str]]:
    """The method, and why others cannot be used here. LabError where one of these was named."""
    ways: dict[Method, Callable[[], str | None]] = {
        "perf": perf.refusal,
        "callgrind": callgrind.refusal,
        "emulated": sharing.refusal,
    }
    tried: list[Method] = ["perf", "callgrind"] if asked == "auto" else [asked]
    said: list[str] = []
    for method in tried:
        why = ways[method]()
        if why is None:
            return method, said
        said.append(why)
    if asked != "auto":
        raise LabError(said[0], status=1)
    return None, said


def measure(request: Request, console: Console) -> Found:
    """Measures everything; a program that fails under one library does not stop the others."""
    found = Found()
    rng = random.Random(request.seed)
    with progress_bar(console) as progress:
        bar = progress.add_task("hot path", total=None)
        for letter, cell in request.cells.items():
            library.verify(cell.library)
            try:
                file = Path(provenance.binary(cell.library.path).path)
                found.code[letter] = hotpath_code.read(project.root() / file, cell.is_hakmem)
            except LabError as error:
                found.code[letter], found.no_code[letter] = [], str(error)
        for workload in request.workloads:
            found.sides |= {(workload.name, at): Side() for at in request.cells}
            with scratch.folder("hotpath") as folder:
                passes = Meter(workload, folder, rng, found.raw).passes(request)
                steps = [(p, at) for p in passes for at, c in request.cells.items() if p.applies(c)]
                progress.update(bar, total=len(request.workloads) * len(steps))
                for what, letter in steps:
                    cell, side = request.cells[letter], found.sides[workload.name, letter]
                    if side.failure is None:
                        _guarded(what, cell, side, workload)
                    said = f"{workload.name}: {cell.name}: {what.words}"
                    progress.update(bar, advance=1, description=said)
    return found


def _guarded(what: "Pass", cell: Cell, side: Side, workload: Workload) -> None:
    try:
        what.take(cell, side)
    except LabError as error:
        if what.optional:
            side.notes.append(str(error))
        else:
            side.failure = str(error)
            ours = workload.work.command is not None and cell.is_hakmem
            side.faulty = ours and isinstance(error, ProgramFailed)


@dataclass(frozen=True)
class Pass:
    """One step, taken for all cells. If it is `optional` its failure is only a note."""

    words: str
    take: Callable[[Cell, Side], None]
    applies: Callable[[Cell], bool] = lambda cell: True
    optional: bool = False


@dataclass
class Meter:
    """Takes the measurements of one workload, one pair of processes after the other; their outputs
    are added to `_raw`."""

    _work: Workload
    _folder: Path
    _rng: random.Random
    _raw: list[str]

    def passes(self, request: Request) -> list[Pass]:
        every = request.sections_every
        ways = {"perf": self._perf, "callgrind": self._callgrind, "emulated": self._emulated}
        count = ways[request.method] if request.method else None

        def repetition(cell: Cell, side: Side) -> None:
            if count:
                count(cell, side)
            self._faults(cell, side)

        found = [Pass("counting", repetition)] * request.repeat
        if request.method == "perf":
            found.append(Pass("symbols", self._symbols, optional=True))
        if every:
            take = partial(self._sections, every)
            found.append(Pass("sections", take, lambda c: c.is_hakmem, optional=True))
        return found

    def simulated(
        self, cell: Cell, tool: Sequence[str]
    ) -> tuple[int, callgrind.Profile, callgrind.Profile]:
        """The operations done more, and the profiles of the pair under callgrind, started as
        `tool`. LabError where the operations ran no code of the library under test."""

        def profile(ran: Sample) -> callgrind.Profile:
            text = _taken(callgrind.profile_of(self._folder, ran.pid))
            self._raw.append(callgrind.summary_lines(text))
            return profile_of(text, cell)

        ops, small, large = self._pair(cell, tool, profile, callgrind.NOTHING, simulated=True)
        require_served(self._work, cell, small, large)
        return ops, small, large

    def _perf(self, cell: Cell, side: Side) -> None:
        figures: dict[str, float] = {}
        for group in perf.GROUPS:
            figures |= self._counters(group, cell, side)
        if not {"instructions", "cycles"} <= figures.keys():
            raise LabError(f"perf did not count: {side.absent}", status=1)
        if figures["cycles"] > 0:
            figures["instructions per cycle"] = figures["instructions"] / figures["cycles"]
        _add(side, figures)

    def _counters(self, group: Mapping[str, str], cell: Cell, side: Side) -> dict[str, float]:
        out, events = self._folder / "perf.csv", list(group.values())
        ops, before, after = self._pair(
            cell,
            perf.stat_argv(out, events),
            lambda _: perf.parse_stat(self._kept(out), events),
            perf.Counts({}, {}),
        )
        absent = {**after.absent, **before.absent}
        side.absent.update(absent)
        each = per_op(before.counted, after.counted, ops)
        return {name: each[event] for name, event in group.items() if event not in absent}

    def _callgrind(self, cell: Cell, side: Side) -> None:
        ops, small, large = self.simulated(cell, callgrind.argv(self._folder))
        _add(side, per_op(small.figures(), large.figures(), ops))
        side.caches = large.caches
        between = callgrind.functions_between(small, large, ops)
        spent = (Spent(*name, own, inclusive) for name, own, inclusive in between)
        side.functions = sorted(spent, key=lambda s: -s.own)

    def _emulated(self, cell: Cell, side: Side) -> None:
        out = self._folder / "sharing.json"
        nothing: dict[str, float] = {}
        ops, small, large = self._pair(
            cell,
            sharing.argv(cell, out),
            lambda _: sharing.parse(self._kept(out), cell),
            nothing,
            simulated=True,
        )
        _add(side, per_op(small, large, ops))

    def _faults(self, cell: Cell, side: Side) -> None:
        """Page faults of the program alone, without a tool around it, as the kernel counts them."""
        amounts = self._work.amounts(False)
        padding = order.padding(self._rng)

        def one(amount: int) -> tuple[int, int]:
            ops, taken = run([], self._work, cell, amount, amounts, padding)
            return ops, taken.minflt + taken.majflt

        ops, before, after = difference(amounts, one, 0)
        _add(side, {FAULTS: (after - before) / ops})

    def _symbols(self, cell: Cell, side: Side) -> None:
        data = self._folder / "perf.data"
        nothing: Counter[tuple[str, str]] = Counter()
        ops, small, large = self._pair(
            cell, perf.record_argv(data), lambda _: perf.symbols_of(data), nothing
        )
        hits = per_op(small, large, ops)
        side.functions = sorted(
            (Spent(file, name, perf.PERIOD * n, None) for (file, name), n in hits.items() if n > 0),
            key=lambda s: -s.own,
        )

    def _sections(self, every: int, cell: Cell, side: Side) -> None:
        out = self._folder / "statistics.json"
        ops, small, large = self._pair(
            cell,
            [ENV, f"{hotpath_sections.OPTION}={every}", f"HAKMEM_STATS=json:{out}"],
            lambda _: hotpath_sections.parse(self._kept(out), every),
            hotpath_sections.NOTHING,
        )
        side.sections = hotpath_sections.between(small, large, ops)
        side.timing = hotpath_sections.about(large)

    def _kept(self, out: Path) -> str:
        """The text of a file that a process left; it is kept as raw output."""
        text = _taken(out)
        self._raw.append(text)
        return text

    def _pair(
        self,
        cell: Cell,
        tool: Sequence[str],
        read: Callable[[Sample], T],
        nothing: T,
        simulated: bool = False,
    ) -> tuple[int, T, T]:
        """The `difference` of two processes of the workload under the tool."""
        padding = order.padding(self._rng)
        amounts = self._work.amounts(simulated)

        def one(amount: int) -> tuple[int, T]:
            ops, ran = run(tool, self._work, cell, amount, amounts, padding)
            self._raw.append(f"== {self._work.name}, {cell.name}, amount {amount}\n{ran.output}")
            return ops, read(ran)

        return difference(amounts, one, nothing)


def profile_of(text: str, cell: Cell) -> callgrind.Profile:
    """A profile that callgrind wrote of a process under the cell."""
    whole = callgrind.parse(text)
    if cell.library.path is None:
        return whole
    library = cell.library.path.resolve()
    return callgrind.placed(whole, library, hotpath_code.names(library))


def require_served(
    workload: Workload, cell: Cell, small: callgrind.Profile, large: callgrind.Profile
) -> None:
    """LabError unless a benchmark's additional operations ran code of the library under test."""
    if workload.work.command is None or cell.library.path is None:
        return
    before = small.objects()
    grown = {file for file, n in large.objects().items() if n > before.get(file, 0)}
    if not any(Path(f).exists() and Path(f).samefile(cell.library.path) for f in grown):
        raise LabError(f"no instruction of {cell.library.path} ran in the operations", status=1)


def _taken(path: Path) -> str:
    """Reads and removes a file that a process left: the next must write its own; "" without one."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    path.unlink(missing_ok=True)
    return text


def per_op(before: Mapping[K, float], after: Mapping[K, float], ops: int) -> dict[K, float]:
    """The increase of each count per additional operation; one that was missing before was 0."""
    return {name: (n - before.get(name, 0)) / ops for name, n in after.items()}


def _add(side: Side, values: Mapping[str, float]) -> None:
    for name, value in values.items():
        side.figures.setdefault(name, []).append(value)


# ---- the record ----


def body(
    request: Request, found: Found, facts: Facts, noise: Mapping[str, object], began: float
) -> dict[str, Any]:
    """The record, which --json prints. `failures` are benchmarks that hakmem as built failed,
    `left_out` failures of other cells, or of a program of the user's own."""
    failures, left_out = {}, {}
    for (work, at), why in found.failures.items():
        if found.sides[work, at].faulty and request.cells[at].name == SUBJECT:
            failures[work] = why
        else:
            left_out[f"{work}, {request.cells[at].name}"] = why
    return {
        "metrics": metrics(request, found),
        "method": request.method or "none",
        "difference": "two amounts of work, divided by the operations done more",
        "repeat": request.repeat,
        "seed": request.seed,
        "functions": _of_sides(found, lambda s: [vars(f) for f in s.functions[:TOP]]),
        "sections": _of_sides(found, lambda s: [vars(each) for each in s.sections]),
        "sections_sample": request.sections_every,
        "sections_timing": _of_sides(found, lambda s: dict(s.timing)),
        "not_counted": _of_sides(found, lambda s: dict(s.absent)),
        "simulated_caches": next((list(s.caches) for s in found.sides.values() if s.caches), []),
        "code": {at: [asdict(c) for c in rows] for at, rows in found.code.items()},
        "notes": _of_sides(found, lambda s: list(s.notes)),
        "failures": failures,
        "left_out": left_out,
        "cells": [recording.cell_entry(at, cell) for at, cell in request.cells.items()],
        "benchmarks": [w.entry(request.by_emulation) for w in request.workloads],
        **facts.entry(request.cells),
        "noise": dict(noise),
        "seconds": time.monotonic() - began,
        "inputs": [],
        "ok": not found.failures,
    }


def _of_sides(found: Found, of: Callable[[Side], Any]) -> dict[str, dict[str, Any]]:
    """By workload and letter, without what is empty."""
    result: dict[str, dict[str, Any]] = {}
    for (work, letter), side in found.sides.items():
        if value := of(side):
            result.setdefault(work, {})[letter] = value
    return result


def metrics(request: Request, found: Found) -> dict[str, dict[str, object]]:
    """The metrics by name; each states how it was obtained."""
    made: dict[str, dict[str, object]] = {}
    for workload in request.workloads:
        per = workload.unit
        for letter, cell in request.cells.items():
            side = found.sides[workload.name, letter]
            for name, values in side.figures.items():
                ratio = name == "instructions per cycle"
                what = name if ratio else f"{name} per {per}"
                made[metric(workload.name, what, cell.name)] = {
                    "value": median(values),
                    "low": min(values),
                    "high": max(values),
                    "kind": "range",
                    "runs": len(values),
                    "unit": "instructions/cycle" if ratio else unit(name, per),
                    "method": "rusage" if name == FAULTS else request.method,
                }
            for section in side.sections:
                timed = {"entries": section.entries_per_op, "cycles": section.cycles_per_op}
                for name, value in timed.items():
                    if value is not None:
                        what = f"{section.name} {name} per {per}"
                        entry = {"value": value, "unit": unit(name, per), "method": "rdtsc"}
                        made[metric(workload.name, what, cell.name)] = entry
    for letter, cell in request.cells.items():
        for code in found.code[letter]:
            parts = {"instructions": code.whole, "hit path instructions": code.hit}
            for what, tally in parts.items():
                if tally is not None:
                    entry = {"value": tally.instructions, "unit": "instructions"}
                    made[metric(code.function, what, cell.name)] = {**entry, "method": "objdump"}
    return made


def unit(figure: str, per: str) -> str:
    return f"{figure.split()[-1]}/{'op' if per == 'operation' else per}"
