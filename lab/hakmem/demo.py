"""`hakmem demo`: real programs with proof, a short benchmark in a time budget, the report."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hakmem import project, terminal
from hakmem.cli import Library, of_float
from hakmem.errors import INTERRUPTED, LabError
from hakmem.paired import suite_run
from hakmem.paired.cli import Rivals, Seed
from hakmem.paired.protocol import LOOKS
from hakmem.process import run, scratch
from hakmem.process.argv import own_argv, without_seed
from hakmem.process.library import SUBJECT
from hakmem.report import cli as report

C_PROGRAM = "\n".join(
    ["#include <stdio.h>", "#include <string.h>"]
    + [f"static int f{i}(int x) {{ return x * {i} + (x >> {i % 7}); }}" for i in range(2000)]
    + ["int main(void) { int x = 1;", *[f"x = f{i}(x);" for i in range(2000)]]
    + ['printf("%d\\n", x != 0); return 0; }']
)
# Benchmarks whose samples say the same when they are cut to a quarter. With large blocks or working
# sets so short a sample would be little but the first touch of the pages.
ROWS = (
    *("random_mixed_256", "random_mixed_400", "random_mixed_8192", "batch_fifo", "larson_1"),
    *("larson_2", "larson_16", "larson_generations", "thread_churn", "idle_rss"),
)
SECONDS = 0.05  # seconds of the timed part of each cell in a block, if the budget has room for it


def command(
    budget: Annotated[
        float, of_float(min=5, help="About how many seconds the benchmark takes.")
    ] = 80,
    lib: Library = None,
    rival: Rivals = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("out"),
) -> None:
    """Show hakmem at work: real programs with proof, a short benchmark, the report."""
    console, page = terminal.new_console(), project.place(out, out, folder=True) / "report.html"
    library = project.library(lib)
    console.print("[bold]1. Real programs under hakmem[/]")
    show_programs(library, console)
    console.print("\n[bold]2. A short benchmark against every allocator that is here[/]")
    asked = request(lib, rival or [], budget, seed, without_seed(own_argv()))
    finished = suite_run.run(asked, console)
    report.write_run(page, finished.record, finished.whole, kept=False)
    console.print(Text("the report: ", style="bold").append(str(page.resolve()), style="not bold"))
    if not finished.good:
        raise typer.Exit(1)


def show_programs(library: Path, console: Console) -> None:
    """Runs the real programs; one that fails or is not proven ends the demonstration."""
    _show(run.demonstration(), library, console)
    if shutil.which("gcc") is None:
        console.print("gcc is not installed: the compiler part is left out")
        return
    with scratch.folder("demo") as folder:
        source = folder / "demo.c"
        source.write_text(C_PROGRAM, encoding="utf-8")
        console.print("compiling a C file of 2000 functions with gcc")
        _show(["gcc", "-O1", "-o", str(folder / "demo"), str(source)], library, console)


def _show(program: Sequence[str], library: Path, console: Console) -> None:
    outcome = run.execute(program, library)
    if outcome.status == INTERRUPTED:  # Ctrl-C reached the program; it was meant for the lab too
        raise KeyboardInterrupt
    terminal.say(console, f"  {outcome.sentence}")
    if not outcome.proven or outcome.status != 0:
        raise LabError(
            f"a real program failed under hakmem (status {outcome.status}): no figures from it",
            status=1,
        )


def request(
    library: Path | None,
    rivals: Sequence[str],
    budget_s: float,
    seed: int | None,
    argv: Sequence[str],
) -> suite_run.Request:
    """The suite in a hurry, unrecorded, in about `budget_s` seconds; of `library`, None: as built.

    It has as many blocks as the suite, of shorter samples: fewer blocks could decide nothing once
    correlated neighbours are merged.
    """
    return suite_run.Request(
        names=ROWS,
        library=f"{shlex.quote(str(library.absolute()))} name={SUBJECT}" if library else SUBJECT,
        rivals=rivals,
        most=LOOKS[-1],
        seconds=SECONDS,
        seed=seed,
        record=False,
        argv=argv,
        budget_s=budget_s,
    )
