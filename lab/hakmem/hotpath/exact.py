"""`hakmem ab --metric instructions` where no counter works: executed instructions, by callgrind.

Exact for one thread: runs differ only in where addresses fall. So a few runs of each cell are
enough, with another padding each, and the margin is a tenth of the least one of times. Counts
explain and guard; what a user waits for is time, which they do not replace (docs/hotpath.md).
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from hakmem import terminal, words
from hakmem.errors import LabError
from hakmem.hotpath import callgrind, profile, work
from hakmem.ledger.store import Ledger
from hakmem.paired import ab, cells as cell_module, recording, tables
from hakmem.paired.blocks import BASE
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Aim, Verdict
from hakmem.process import library, order, scratch
from hakmem.process.lock import host_lock
from hakmem.stats import Interval

RUNS = 3
MARGIN = 0.001
KIND = f"range of {RUNS} exact counts"


# Instructions per operation by the cells' letters, a value per run.
Counts = Mapping[str, Sequence[float]]


def ratio_of(counts: Counts, letter: str) -> Interval:
    """The mean of the cell ÷ that of A; the ends are the extremes over any two runs."""
    mine, base = counts[letter], counts[BASE]
    ends = (min(mine) / max(base), max(mine) / min(base))
    return Interval(fmean(mine) / fmean(base), *ends, KIND)


def verdict(ratio: Interval, aim: Aim) -> Verdict:
    """The verdict by the protocol's rules, with MARGIN on either side of 1."""
    if ratio.low > 1 + MARGIN:
        return "NO-GO"
    if aim == "neutral":
        return "GO" if ratio.high <= 1 + MARGIN else "UNDECIDED"
    return "GO" if ratio.high < 1 - MARGIN else "UNDECIDED"


def run(request: ab.Request, console: Console) -> dict[str, Verdict]:
    """Counts, prints and records; the verdicts by the cells' letters."""
    workload = workload_of(request)
    with scratch.folder("aa") as twins, host_lock():
        cells = cell_module.distinct(ab.sides(request, twins))
        facts = recording.Facts.of(cells, request.argv)
        tables.print_settings(console)
        for cell in cells.values():
            library.verify(cell.library)
        with scratch.folder("exact") as folder:
            counts, raw = count(workload, cells, request.seed, folder, console)
        facts.require_unchanged(cells)
        found = {at: verdict(ratio_of(counts, at), request.aim) for at in cells if at != BASE}
        console.print(table(workload.unit, cells, counts, found))
        for letter, word in found.items() if request.record else ():
            made = body(request, workload, cells, letter, counts, word, facts)
            kind = "A/A" if request.twins else "verdict"
            said = Ledger.default().append(kind, made, {"callgrind.txt": raw.encode()}).id
            console.print(f"recorded: {said}")
    return found


def workload_of(request: ab.Request) -> work.Workload:
    why = callgrind.refusal()
    if why:
        raise LabError(why)
    margin = request.margin is not None and not request.twins  # for copies it is always set
    two = (request.command and request.bench) or any(cell.bench for cell in request.cells)
    if two or margin or request.guards or request.floor or request.plant:
        raise LabError(
            "exact counts take one benchmark or one command: no margin, guards, floors, planted "
            "work or bench="
        )
    if len(request.cells) < 2 and not request.twins:
        raise LabError("one cell is nothing to compare: add --b, or --aa")
    if request.command:
        return work.own(request.command, passed=request.passed)
    if not request.bench:
        raise LabError("what shall they run? --bench NAME, or -- command …")
    found = work.benchmark(request.bench)
    if found.work.command and found.work.command.threads > 1:
        raise LabError(
            f"{found.name} has {found.work.command.threads} threads: counts are not exact"
        )
    return found


def count(
    workload: work.Workload, cells: Mapping[str, Cell], seed: int, folder: Path, console: Console
) -> tuple[Counts, str]:
    """Counts all cells in turn, each as the difference of two amounts of work; returns the counts
    and the summaries of callgrind's profiles."""
    rng = random.Random(seed)
    said: list[str] = []
    meter = profile.Meter(workload, folder, rng, said)
    values: dict[str, list[float]] = {letter: [] for letter in cells}
    with terminal.progress_bar(console) as progress:
        bar = progress.add_task("counting", total=RUNS * len(cells))
        for _ in range(RUNS):
            for letter in order.shuffled(list(cells), rng):
                ops, small, large = meter.simulated(cells[letter], callgrind.counting(folder))
                figures = profile.per_op(small.figures(), large.figures(), ops)
                values[letter].append(figures["instructions"])
                progress.update(bar, advance=1)
    return values, "\n".join(said)


def table(
    unit: str, cells: Mapping[str, Cell], counts: Counts, found: Mapping[str, Verdict]
) -> Table:
    made = terminal.table("", f"instructions per {unit}", "÷ A", "range", "")
    for letter, cell in cells.items():
        row = [f"{letter} {cell.name}", words.number(fmean(counts[letter]))]
        if letter == BASE:
            made.add_row(*row)
            continue
        ratio = ratio_of(counts, letter)
        word = terminal.state(found[letter])
        made.add_row(*row, f"{ratio.estimate:.4f}", words.ends(ratio, 4), word)
    return made


def body(
    request: ab.Request,
    workload: work.Workload,
    cells: Mapping[str, Cell],
    letter: str,
    counts: Counts,
    word: Verdict,
    facts: recording.Facts,
) -> dict[str, Any]:
    """The record of a verdict."""
    pair = (BASE, letter)
    a, b = (cells[at].name for at in pair)
    return {
        "question": f"does {b} execute fewer instructions than {a} on {workload.name}?",
        "aim": request.aim,
        "cells": [recording.cell_entry(at, cells[at]) for at in pair],
        "metrics": {
            workload.name: {**vars(ratio_of(counts, letter)), "unit": "ratio", "of": "instructions"}
        },
        "values": {at: list(counts[at]) for at in pair},
        "verdict": word,
        "margin": MARGIN,
        "blocks": RUNS,
        "seed": request.seed,
        "protocol": "exact counts",
        "benchmarks": [workload.entry(simulated=True)],
        **facts.entry(pair),
    }
