"""The command line `hakmem run`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hakmem import project
from hakmem.process import run


def run_command(
    command: Annotated[
        list[str] | None, typer.Argument(help="What to run; without it, a demonstration.")
    ] = None,
    lib: Annotated[
        Path | None, typer.Option(help="Library to preload (default: build/libhakmem.so).")
    ] = None,
) -> None:
    """Run a program under hakmem and say what was proven inside its processes."""
    library = project.require_file(lib or project.default_library(), "hakmem's library")
    outcome = run.execute(command or run.demonstration(), library)
    print(outcome.sentence, file=sys.stderr)
    raise typer.Exit(outcome.exit_status)
