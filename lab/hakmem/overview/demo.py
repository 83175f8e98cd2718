"""`hakmem demo`: real programs under hakmem with proof, then a benchmark in a time budget."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from hakmem.errors import INTERRUPTED, LabError
from hakmem.overview import bench, summary
from hakmem.process import provenance, run, scratch
from hakmem.process.library import Library
from hakmem.process.order import rounds
from hakmem.suite import SUITE, Suite

FIGURES = (
    "random_mixed_400",
    "random_mixed_8192",
    "random_mixed_100000",
    "batch_fifo",
    "prodcons",
    "larson_2",
    "large",
    "huge",
    "realloc",
    "idle_rss",
)
ROUNDS = 6
LONGEST = 30
SHORTEST_FACTOR = 0.02

C_PROGRAM = "\n".join(
    ["#include <stdio.h>", "#include <string.h>"]
    + [f"static int f{i}(int x) {{ return x * {i} + (x >> {i % 7}); }}" for i in range(2000)]
    + ["int main(void) { int x = 1;", *[f"x = f{i}(x);" for i in range(2000)]]
    + ['printf("%d\\n", x != 0); return 0; }']
)


def programs(library: Path, console: Console) -> None:
    """Runs real programs under hakmem; one that fails or is not proven ends the demo."""
    console.print("[bold]1. Real programs under hakmem[/]")
    _show(run.execute(run.demonstration(), library), console)
    if shutil.which("gcc") is None:
        console.print("gcc is not installed: the compiler part is left out")
        return
    with scratch.folder("demo") as folder:
        source = folder / "demo.c"
        source.write_text(C_PROGRAM, encoding="utf-8")
        command = ["gcc", "-O1", "-o", str(source.with_suffix("")), str(source)]
        console.print("compiling a C file of 2000 functions with gcc")
        _show(run.execute(command, library), console)


def _show(outcome: run.Outcome, console: Console) -> None:
    if outcome.status == INTERRUPTED:  # Ctrl-C reached the program, and was meant for us all
        raise KeyboardInterrupt
    console.print(f"  {outcome.sentence}", soft_wrap=True, highlight=False)
    if not outcome.proven or outcome.status != 0:
        raise LabError(
            f"a real program failed under hakmem (status {outcome.status}): no figures from it",
            status=1,
        )


def fitted(
    suite: Suite, libraries: Sequence[Library], budget_s: float
) -> tuple[dict[str, float], int]:
    """The share of the quick amount that each command may do, and how many rounds then fit.

    Each command runs once, under the system's allocator and untimed by the record: a warm-up that
    also tells how long it takes here.
    """
    took = {}
    probe = next(lib for lib in libraries if lib.path is None)
    request = bench.Request(suite, [probe], Path(), True, 1, 0, [])
    for command in suite.commands:
        start = time.monotonic()
        tasks = rounds([replace(command, references=())], [probe.name], 0, 1)
        samples = bench.collect(tasks, {probe.name: probe}, request.amount_of, lambda _: None)
        if samples[0].error:
            raise LabError(f"{command.name} fails even without hakmem: {samples[0].error}", 1)
        took[command.name] = time.monotonic() - start
    processes = {c.name: len(libraries) + len(c.references) for c in suite.commands}
    total = sum(took[name] * processes[name] for name in took)
    share = budget_s / ROUNDS / sum(processes.values())
    if total * ROUNDS <= budget_s:
        return dict.fromkeys(took, 1.0), min(LONGEST, int(budget_s / total))
    return {name: min(1.0, max(SHORTEST_FACTOR, share / took[name])) for name in took}, ROUNDS


def benchmark(
    libraries: Sequence[Library], budget_s: float, seed: int, out: Path, console: Console
) -> list[summary.Row]:
    """The quick benchmark: fewer figures, short samples, as many rounds as the budget allows."""
    console.print("\n[bold]2. A short benchmark against every allocator that is here[/]")
    suite = SUITE.select(FIGURES)
    bench.require_built(suite)
    start = time.monotonic()
    with console.status("fitting the benchmarks to the time budget"):
        factor, count = fitted(suite, libraries, budget_s * 0.9)
    request = bench.Request(
        suite=suite,
        libraries=libraries,
        out=out,
        quick=True,
        rounds=count,
        seed=seed,
        argv=provenance.own_argv(),
        factor=factor,
        budget_s=budget_s - (time.monotonic() - start),
    )
    return bench.run(request, console)
