"""The command lines `hakmem bench` and `hakmem demo`."""

import random
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from hakmem import complete, project
from hakmem.errors import LabError
from hakmem.overview import bench, demo, summary
from hakmem.process import provenance
from hakmem.suite import SUITE

Out = Annotated[Path, typer.Option(help="Folder for bench.json and report.html.")]
Seed = Annotated[int | None, typer.Option(help="Of the order and padding; default: random.")]
Libraries = Annotated[
    list[str] | None,
    typer.Option(
        "--lib",
        help="NAME=PATH adds a library; a bare NAME keeps only the named ones.",
        autocompletion=complete.libraries,
    ),
]


def bench_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Benchmarks, families or patterns; default: all.",
            autocompletion=complete.benchmarks,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short samples and fewer rounds.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds (default: 12, quick 6).")
    ] = None,
    lib: Libraries = None,
    seed: Seed = None,
    out: Out = Path("out"),
) -> None:
    """Compare hakmem with the system's allocator and every rival that is here."""
    suite = SUITE.select(names or [])
    libraries = bench.choose_libraries(lib or [])
    if len(libraries) < 2:
        raise LabError("nothing to compare with: name a rival with --lib, or leave --lib out")
    request = bench.Request(
        suite=suite,
        libraries=libraries,
        out=project.place(out, out),
        quick=quick,
        rounds=rounds or (6 if quick else 12),
        seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
        argv=provenance.own_argv(),
    )
    finish(bench.run(request, Console()))


def demo_command(
    budget: Annotated[float, typer.Option(min=5, help="Seconds for the benchmark.")] = 80,
    lib: Libraries = None,
    seed: Seed = None,
    out: Out = Path("out"),
) -> None:
    """Show hakmem at work: real programs with proof, a short benchmark, the report."""
    console, out = Console(), project.place(out, out)
    libraries = bench.choose_libraries(lib or [])
    demo.programs(cast(Path, libraries[0].path), console)  # hakmem is always a file
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    rows = demo.benchmark(libraries, budget, seed, out, console)
    console.print(f"[bold]the report:[/] {(out / 'report.html').resolve()}")
    finish(rows)


def finish(rows: list[summary.Row]) -> None:
    """A run in which any cell failed does not end as a success."""
    cells = [cell for row in rows for cell in [*row.cells.values(), *row.references.values()]]
    if any(cell.error for cell in cells) or any(row.verdict == "error" for row in rows):
        raise typer.Exit(1)
