"""The command line of `hakmem hotpath`."""

import json
import sys
import time
from typing import Annotated

import typer
from rich.console import Console

from hakmem import complete
from hakmem.errors import LabError
from hakmem.hotpath import profile as hotpath
from hakmem.hotpath import view as hotpath_view
from hakmem.hotpath import work as hotpath_work
from hakmem.ledger.store import Ledger
from hakmem.paired import cli as paired_cli
from hakmem.paired.cells import distinct, parse
from hakmem.paired.recording import Facts
from hakmem.process.lock import host_lock
from hakmem.process.provenance import NoiseMeter
from hakmem.terminal import progress_bar


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
        hotpath.Choice,
        typer.Option(
            help="Counters, or a simulated processor; emulated: locks and lines between threads."
        ),
    ] = "auto",
    repeat: Annotated[int, typer.Option(min=1, max=50, help="Pairs of processes.")] = 5,
    amounts: Annotated[
        str | None, typer.Option(help="SMALL,LARGE amounts of work, whose difference counts.")
    ] = None,
    sections: Annotated[
        int, typer.Option("--sections-sample", min=0, help="Time each Nth entry; 0: do not.")
    ] = 1,
    top: Annotated[int, typer.Option(min=1, max=hotpath.TOP, help="Functions shown.")] = 8,
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
    if argv:
        workloads = [hotpath_work.own(argv, given, passed or [])]
    else:
        names = dict.fromkeys(bench_names or hotpath_work.CLASSIC)
        workloads = [hotpath_work.benchmark(name, given) for name in names]
    seed = paired_cli.fresh(seed)
    # With --json stdout is the document's alone.
    console = Console(stderr=as_json)
    chosen, refusals = hotpath.choose(method)
    for line in refusals:
        console.print(f"not counted: {line}", style="yellow", soft_wrap=True, highlight=False)
    request = hotpath.Request(
        workloads=workloads,
        cells=distinct([parse(text) for text in lib or ["hakmem"]]),
        method=chosen,
        repeat=repeat,
        seed=seed,
        sections_every=sections,
    )
    with host_lock():
        facts = Facts.of(request.cells, paired_cli.again(seed))
        meter, began = NoiseMeter(), time.monotonic()
        found = _measure(request, console)
        body = hotpath.body(request, found, facts, meter.stop(), began)
    if as_json:
        print(json.dumps(body, indent=1))
    else:
        hotpath_view.print_found(console, request, found, top)
    _record(body, found, record, console)
    if found.failures:
        if as_json:
            for why in found.failures.values():
                print(f"hakmem: {why}", file=sys.stderr)
        raise typer.Exit(1)


def _measure(request: hotpath.Request, console: Console) -> hotpath.Found:
    try:
        with progress_bar(console) as progress:
            bar = progress.add_task("hot path", total=hotpath.steps(request))
            return hotpath.measure(
                request, lambda words: progress.update(bar, advance=1, description=words)
            )
    except KeyboardInterrupt:
        raise LabError("interrupted: nothing was recorded", status=130) from None


def _record(body: dict[str, object], found: hotpath.Found, record: bool, console: Console) -> None:
    if not record or found.failures:
        console.print("not recorded" if not record else "not recorded, because a program failed")
        return
    raw = {"runs.txt": "\n".join(found.raw).encode(errors="replace")}
    console.print(f"recorded: {Ledger.default().append('hotpath', body, raw).id}")
