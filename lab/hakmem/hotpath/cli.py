"""The command line of `hakmem hotpath`."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import complete, terminal, words
from hakmem.errors import LabError
from hakmem.hotpath import (
    callgrind,
    profile,
    sections as hotpath_sections,
    sharing,
    work as hotpath_work,
)
from hakmem.hotpath.code import Tally
from hakmem.hotpath.profile import FAULTS, Found, Request, Side
from hakmem.hotpath.work import Workload
from hakmem.ledger.store import Ledger
from hakmem.paired import cli as paired_cli
from hakmem.paired.cells import Cell, distinct, parse
from hakmem.paired.recording import Facts
from hakmem.process import order, perf
from hakmem.process.argv import again
from hakmem.process.lock import host_lock
from hakmem.process.provenance import NoiseMeter

SHOWN = 8  # functions in a table; a record has more


def command(
    argv: Annotated[
        list[str] | None,
        typer.Argument(help="Your own program, after --; {n} in it is the amount of work."),
    ] = None,
    bench_names: Annotated[
        list[str] | None,
        complete.of_benchmark(
            "--bench",
            help="Benchmark, 'random_mixed LOW-HIGH', 'larson on THREADS'; repeatable. "
            "Default: random_mixed 16-1024 and 129-1024.",
        ),
    ] = None,
    lib: Annotated[
        list[str] | None,
        complete.of_library("--lib", help="A cell as in `hakmem ab`; repeatable. Default: hakmem."),
    ] = None,
    method: Annotated[
        profile.Choice,
        complete.one_of(
            profile.Choice,
            help="Counters, or a simulated processor; emulated: locks and lines between threads.",
        ),
    ] = "auto",
    repeat: Annotated[int, typer.Option(min=1, max=50, help="Pairs of processes.")] = 5,
    amounts: Annotated[
        str | None, typer.Option(help="SMALL,LARGE amounts of work, whose difference counts.")
    ] = None,
    sections: Annotated[
        int, typer.Option("--sections-sample", min=0, help="Time each Nth entry; 0: do not.")
    ] = 1,
    seed: paired_cli.Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is recorded.")] = False,
    record: paired_cli.Record = True,
    passed: paired_cli.Pass = None,
) -> None:
    """What one operation costs: instructions, branches, misses, where, and in what code.

    By perf's counters where the machine shows them, otherwise simulated by callgrind.
    """
    given = hotpath_work.amounts(amounts)
    if argv and bench_names:
        raise LabError("--bench and a command of your own are two things to measure: choose one")
    passed = paired_cli.given_to(argv, passed)
    if argv:
        workloads = [hotpath_work.own(argv, given, passed)]
    else:
        names = dict.fromkeys(bench_names or hotpath_work.CLASSIC)
        workloads = [hotpath_work.benchmark(name, given) for name in names]
    paired_cli.require_ledger(record)
    cells = distinct([parse(text) for text in lib or ["hakmem"]])
    seed = order.fresh(seed)
    # With --json only the document goes to stdout.
    console = terminal.new_console(stderr=as_json)
    chosen, refusals = profile.choose(method)
    for line in refusals:
        terminal.say(console, f"not counted: {line}", "yellow")
    request = profile.Request(
        workloads=workloads,
        cells=cells,
        method=chosen,
        repeat=repeat,
        seed=seed,
        sections_every=sections,
    )
    with host_lock():
        facts = Facts.of(request.cells, again(seed))
        meter, began = NoiseMeter(), time.monotonic()
        found = profile.measure(request, console)
        facts.require_unchanged(request.cells)
        body = profile.body(request, found, facts, meter.stop(), began)
    if as_json:
        print(json.dumps(body, indent=1))
    else:
        print_found(console, request, found)
    _record(body, found, record, console)
    if found.failures:
        if as_json:
            for why in found.failures.values():
                print(f"hakmem: {why}", file=sys.stderr)
        raise typer.Exit(1)


def _record(body: dict[str, object], found: profile.Found, record: bool, console: Console) -> None:
    """Records the body, also where hakmem itself failed, which is a result. Where only other
    programs failed nothing is recorded, because the cause is not known."""
    failed = [side for side in found.sides.values() if side.failure]
    if not record or (failed and not any(side.faulty for side in failed)):
        console.print("not recorded" if not record else "not recorded, because a program failed")
        return
    raw = {"runs.txt": "\n".join(found.raw).encode(errors="replace")}
    console.print(f"recorded: {Ledger.default().append('hotpath', body, raw).id}")


WORDS = {
    "perf": f"perf: {perf.WHAT}",
    "callgrind": f"callgrind: {callgrind.WHAT}",
    "emulated": f"qemu: {sharing.WHAT}",
    None: "nothing here counts instructions: page faults only",
}


def print_found(console: Console, request: Request, found: Found) -> None:
    for workload in request.workloads:
        _print_workload(console, request, found, workload)
    _print_code(console, request.cells, found)
    notes = [*_notes(request, found)]
    if notes:
        console.print()
    for line in dict.fromkeys(notes):
        terminal.say(console, line, "dim")
    for (work, letter), why in found.failures.items():
        terminal.say(console, f"✗ {work}, {request.cells[letter].name}: {why}", "red")


def _print_workload(console: Console, request: Request, found: Found, workload: Workload) -> None:
    sides = {at: found.sides[workload.name, at] for at in request.cells}
    console.print()
    console.print(Text(f"{workload.name}, per {workload.unit}", style="bold"))
    for line in (WORDS[request.method], _way(request, workload)):
        console.print(Text(line, style="dim"))
    console.print(figures_table(sides, request.cells))
    for letter, side in sides.items():
        if side.functions:
            console.print()
            console.print(functions_table(side, request, request.cells[letter]))
        if side.sections:
            console.print()
            console.print(sections_table(side, request.cells[letter], workload.unit))


def _way(request: Request, workload: Workload) -> str:
    amounts = workload.amounts(request.by_emulation)
    what = (
        f"amount {amounts.large} less amount {amounts.small}"
        if amounts
        else "whole runs, start-up included"
    )
    once = request.repeat == 1
    return f"{what}, {'once' if once else f'{request.repeat} times: median ± half the range'}"


def figures_table(sides: Mapping[str, Side], cells: Mapping[str, Cell]) -> Table:
    table = terminal.table("", *(f">{cells[at].name}" for at in sides))
    names = list(dict.fromkeys(name for side in sides.values() for name in side.figures))
    # Page faults are counted in another way than the rest and close the table.
    names.sort(key=lambda name: name == FAULTS)
    for name in names:
        table.add_row(name, *(with_spread(side.figures.get(name)) for side in sides.values()))
    return table


def functions_table(side: Side, request: Request, cell: Cell) -> Table:
    """The functions by what was spent in each itself; perf does not tell what it called."""
    of_perf = request.method == "perf"
    what = "cycles" if of_perf else "instructions"
    titles = (f"{what} of {cell.name}", "in", ">itself", ">share")
    table = terminal.table(*titles, *([] if of_perf else [">with callees"]))
    total = sum(spent.own for spent in side.functions)
    for spent in side.functions[:SHOWN]:
        names = Text(words.short(spent.function)), Text(Path(spent.object).name or "?")
        row = [number(spent.own), f"{100 * spent.own / total:.1f} %"]
        table.add_row(*names, *row, *([] if of_perf else [number(spent.inclusive)]))
    return table


def sections_table(side: Side, cell: Cell, per: str) -> Table:
    op = "op" if per == "operation" else per
    titles = (f">entries/{op}", ">timed", ">mean cycles", ">longest", f">cycles/{op}")
    table = terminal.table(f"sections of {cell.name}", *titles)
    for section in side.sections:
        table.add_row(
            section.name,
            number(section.entries_per_op),
            str(section.timed),
            number(section.cycles_per_entry),
            number(section.longest),
            number(section.cycles_per_op),
        )
    return table


def _print_code(console: Console, cells: Mapping[str, Cell], found: Found) -> None:
    titles = ("bytes", "instr.", "branches", "jumps", "loads", "stores", "calls")
    table = terminal.table("code", "of", "", *(f">{title}" for title in titles))
    for letter, rows in found.code.items():
        for code in rows:
            of = Text(cells[letter].name)
            table.add_row(code.function, of, "whole", str(code.size), *_tally(code.whole))
            if code.hit is not None:
                table.add_row("", "", "hit", "", *_tally(code.hit))
    if table.row_count:
        console.print()
        console.print(table)


def _tally(tally: Tally) -> Sequence[str]:
    return [str(count) for count in vars(tally).values()]


def _notes(request: Request, found: Found) -> Iterator[str]:
    for letter, why in found.no_code.items():
        yield f"disassembly of {request.cells[letter].name}: {why}"
    for letter, rows in found.code.items():
        for code in rows:
            if code.hit is None and request.cells[letter].is_hakmem:
                yield f"hit path of {code.function}: {code.why}"
    for (_, letter), side in found.sides.items():
        name = request.cells[letter].name
        yield from (f"{name}: {note}" for note in side.notes)
        yield from (f"{name}: {event} {why}" for event, why in side.absent.items())
    timing = next((side.timing for side in found.sides.values() if side.sections), None)
    if timing is not None:
        empty = timing.get("sections_overhead")
        how = f"; an empty one takes {empty}" if empty else ""
        every = request.sections_every
        each = "each entry" if every == 1 else f"1 entry in {every}"
        yield f"sections, {each} timed: {hotpath_sections.WHAT}{how}"
    threads = any(w.work.command and w.work.command.threads > 1 for w in request.workloads)
    if threads and request.method == "callgrind":
        yield "callgrind runs one thread at a time: what threads do to each other is not in this"
    caches = next((side.caches for side in found.sides.values() if side.caches), ())
    if caches:
        yield "simulated: " + "; ".join(caches)


def with_spread(values: Sequence[float] | None) -> str:
    """The median ± half the range, in per cent; near zero in the figure's own unit."""
    if not values:
        return "–"
    middle, half = median(values), (max(values) - min(values)) / 2
    if len(values) == 1:
        return number(middle)
    if abs(middle) < 0.01:
        return f"{number(middle)} ± {number(half)}"
    return f"{number(middle)} ±{100 * half / abs(middle):4.1f} %"


def number(value: float | None) -> str:
    """Decimals by size: none from 1000 on, one from 100, two from 1, else four (or "<0.0001")."""
    if value is None:
        return "–"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.0001:
        return "<0.0001"
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 0.99995 else 4
    return words.count(value, decimals)
