"""The command line `hakmem demo`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hakmem import project
from hakmem.demo import benchmark, programs
from hakmem.paired import suite_run
from hakmem.paired.cli import Rivals, Seed, without_seed
from hakmem.process import provenance
from hakmem.report import cli as report


def command(
    budget: Annotated[
        float, typer.Option(min=5, help="About how many seconds the benchmark takes.")
    ] = 80,
    lib: Annotated[
        Path | None, typer.Option(help="hakmem's library (default: build/libhakmem.so).")
    ] = None,
    rival: Rivals = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("out"),
) -> None:
    """Show hakmem at work: real programs with proof, a short benchmark, the report."""
    console, page = Console(), project.place(out, out) / "report.html"
    library = project.require_file(lib or project.default_library(), "hakmem's library")
    console.print("[bold]1. Real programs under hakmem[/]")
    programs.show(library, console)
    console.print("\n[bold]2. A short benchmark against every allocator that is here[/]")
    argv = without_seed(provenance.own_argv())
    asked = benchmark.request(lib, rival or [], budget, seed, argv)
    finished = suite_run.run(asked, console)
    report.write_run(page, finished.record, finished.whole, kept=False)
    console.print(f"[bold]the report:[/] {page.resolve()}")
    if not finished.good:
        raise typer.Exit(1)
