"""The command lines of heap profiles: `hakmem heap`, which makes some, `show` and `diff`."""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hakmem import project, terminal
from hakmem.cli import OWN_COMMAND, Library, RunsByDefault
from hakmem.errors import LabError

if TYPE_CHECKING:
    from hakmem.heap.page import Page

app = typer.Typer(
    cls=RunsByDefault,
    help="Show what a program's memory is in use for: a flame graph, the functions, growth.\n\n"
    "hakmem heap -- PROGRAM runs it and makes one HTML file; `show` and `diff` read profiles that "
    "are there. How to profile a service, and what a weight means: docs/heap.md.",
)

Out = Annotated[Path | None, typer.Option(help="The page (default: out/heap.html).")]
Pid = Annotated[int | None, typer.Option(help="The process (default: the one with most in use).")]
Wrappers = Annotated[
    str | None,
    typer.Option(
        help="Regular expression of functions that only pass a request on, so that what they "
        "allocate is their caller's (default: malloc and its like, a language's own library)."
    ),
]


@app.command("run", context_settings=OWN_COMMAND)
def run_command(
    command: Annotated[list[str] | None, typer.Argument(help="What to run, after --.")] = None,
    out: Out = None,
    keep: Annotated[
        Path | None, typer.Option(help="A folder for the profiles (default: they are not kept).")
    ] = None,
    sample_kb: Annotated[
        int | None,
        typer.Option(min=0, help="Mean distance of samples; 0: every allocation (default: 512)."),
    ] = None,
    every_mb: Annotated[
        int, typer.Option(min=0, help="A profile for each N MiB allocated; 0: none of these.")
    ] = 256,
    peaks: Annotated[bool, typer.Option(help="A profile at each new peak.")] = True,
    pid: Pid = None,
    wrappers: Wrappers = None,
    lib: Library = None,
) -> None:
    """Run a program under hakmem with heap profiles, and make a page of them.

    Ends with the program's own status, and with 3 where hakmem did not serve it.
    """
    from hakmem.heap import run
    from hakmem.process import scratch

    if not command:
        raise LabError("what is to be run? hakmem heap -- PROGRAM …, or hakmem heap show FILE")
    charged = _pattern(wrappers)
    library = project.library(lib)
    page = project.place(out, Path("out") / "heap.html")
    kept = project.place(keep, Path(), "--keep", folder=True) if keep else None
    with scratch.folder("heap") as folder:
        settings = run.settings(os.environ, sample_kb, every_mb, peaks)
        outcome, files = run.profiled(command, library, settings, folder)
        print(outcome.sentence, file=sys.stderr)
        if kept:
            run.keep(folder, kept)
        if not files:
            if not outcome.proven:
                raise typer.Exit(outcome.exit_status)
            why = run.why_none(outcome)
            raise LabError(f"no profile was written: {why}", status=outcome.exit_status or 1)
        _show(files, page, pid, charged, shlex.join(command))
    if outcome.exit_status:
        said = (
            f"the command ended with status {outcome.status}: the page is of what it did until then"
        )
        raise LabError(said, status=outcome.exit_status)


@app.command("show")
def show_command(
    files: Annotated[list[Path], typer.Argument(help="Profiles, of one process or of several.")],
    out: Out = None,
    pid: Pid = None,
    wrappers: Wrappers = None,
) -> None:
    """Make the page of profiles that are there: of a service, of another machine."""
    charged = _pattern(wrappers)
    _show(files, project.place(out, Path("out") / "heap.html"), pid, charged, "")


@app.command("diff")
def diff_command(
    before: Annotated[Path, typer.Argument(help="A profile.")],
    after: Annotated[Path, typer.Argument(help="A later one, or another process's.")],
    out: Out = None,
    wrappers: Wrappers = None,
) -> None:
    """Show what grew and what shrank from one profile to another."""
    from hakmem.heap import pprof, story

    charged = _pattern(wrappers)
    target = project.place(out, Path("out") / "heap-diff.html")
    sides = [pprof.read(file) for file in (before, after)]
    folders = [file.parent for file in (before, after)]
    _write(story.of_two(sides[0], sides[1], folders, charged), target)


def _show(
    files: list[Path], target: Path, pid: int | None, charged: re.Pattern[str], command: str
) -> None:
    from hakmem.heap import story

    found = story.processes(files)
    chosen = story.choose(found, pid)
    folders = {file.parent for file in files}
    _write(story.of_process(chosen, found, folders, charged, command), target)


def _write(page: "Page", target: Path) -> None:
    from hakmem.heap import page as heap_page, view

    project.write_atomically(target, heap_page.render(page))
    console = terminal.new_console()
    view.show(page, console)
    terminal.say(console, f"written: {target}")


def _pattern(text: str | None) -> re.Pattern[str]:
    from hakmem.heap import weigh

    try:
        return re.compile(weigh.WRAPPERS if text is None else text or r"(?!)")
    except re.error as error:
        raise LabError(f"--wrappers {text!r}: no regular expression: {error}") from None
