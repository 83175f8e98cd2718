"""The first half: real programs under hakmem, each with proof from inside its process."""

import shutil
from pathlib import Path

from rich.console import Console

from hakmem.errors import INTERRUPTED, LabError
from hakmem.process import run, scratch

C_PROGRAM = "\n".join(
    ["#include <stdio.h>", "#include <string.h>"]
    + [f"static int f{i}(int x) {{ return x * {i} + (x >> {i % 7}); }}" for i in range(2000)]
    + ["int main(void) { int x = 1;", *[f"x = f{i}(x);" for i in range(2000)]]
    + ['printf("%d\\n", x != 0); return 0; }']
)


def show(library: Path, console: Console) -> None:
    """Runs them; one that fails or is not proven ends the demonstration."""
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
