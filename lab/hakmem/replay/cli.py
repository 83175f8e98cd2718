"""The command lines `hakmem record`, `hakmem replay` and `hakmem advise`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from hakmem import complete, project, terminal
from hakmem.cli import Library
from hakmem.errors import LabError
from hakmem.paired import cells, compare
from hakmem.paired.cli import Most, Record, Seconds, Seed, end, end_of_table, require_ledger
from hakmem.paired.protocol import LOOKS
from hakmem.process.argv import again
from hakmem.process.order import fresh
from hakmem.replay import advise, measure, page as pages, record as recording, trace

Path_ = Annotated[Path, typer.Argument(help="A file that `hakmem record` has written.")]


Touch = Literal["pages", "first"]
Touched = Annotated[
    Touch,
    complete.one_of(
        Touch, help="What a replay writes to: each OS page of a block, or its first byte."
    ),
]


def record_command(
    command: Annotated[list[str] | None, typer.Argument(help="Your program, after --.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The trace (default: PROGRAM.hktrace here).")
    ] = None,
    megabytes: Annotated[
        int | None,
        typer.Option(
            "--mb",
            min=1,
            max=65536,
            help="Stop after so much, 16 bytes each (default: 1024, or what memory is enough for).",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="A trace of every process, not of the one that did most.")
    ] = False,
    raw: Annotated[
        Path | None,
        typer.Option(help="Instead of a program: what HAKMEM_RECORD has left, made a trace."),
    ] = None,
    lib: Library = None,
) -> None:
    """Run a program and record its allocations, as a trace to replay under any allocator."""
    if bool(command) == bool(raw):
        raise LabError("which program? hakmem record -- COMMAND …, or --raw FILE")
    if raw:
        target = project.place(out, Path(raw.name + trace.SUFFIX))
        made = recording.convert(project.require_file(raw, "the recording"), target)
        print(f"written: {made.path}: {trace.describe(made.facts)}", file=sys.stderr)
        return
    assert command
    library = project.library(lib)
    target = project.place(out, Path(Path(command[0]).name + trace.SUFFIX))
    most_mb = recording.most_mb(megabytes)
    found = recording.record(command, library, target, most_mb, all_)
    for written in found.traces:
        print(f"written: {written.path}: {trace.describe(written.facts)}", file=sys.stderr)
    if found.others:
        said = f"{found.others} smaller recordings of other processes left out (--all keeps them)"
        print(said, file=sys.stderr)
    raise typer.Exit(found.outcome.exit_status)


def replay_command(
    path: Path_,
    lib: Annotated[str, complete.of_library(help="The cell that is compared.")] = "hakmem",
    allocator: Annotated[
        list[str] | None,
        complete.of_library(
            help="Only against this one; repeatable. Default: system and all peers found."
        ),
    ] = None,
    touch: Touched = "pages",
    pace: Annotated[
        bool,
        typer.Option(
            "--pace", help="Read the memory at the recorded pace: what comes back in pauses."
        ),
    ] = False,
    max_blocks: Most = LOOKS[2],
    min_seconds: Seconds = 0.2,
    page: Annotated[
        Path | None, typer.Option(help="Write tables and memory curves as an HTML page too.")
    ] = None,
    seed: Seed = None,
    record: Record = True,
) -> None:
    """Replay a trace under hakmem and every other allocator: time, peak, memory held.

    Ends as `hakmem compare` does: a rival that fails is left out, and is no failure.
    """
    found = trace.read(path)
    target = project.place(page, page, "--page") if page else None
    rivals = compare.rivals(allocator or [])
    chosen = cells.distinct([cells.parse(lib), *rivals])
    require_ledger(record)
    seed = fresh(seed)
    argv = again(seed) if record else None
    asked = measure.Request(found, chosen, touch, max_blocks, min_seconds, seed, pace, argv)
    console = terminal.new_console()
    done = measure.run(asked, console)
    measure.tell(done, console)
    if target:
        project.write_atomically(target, pages.render(done))
        print(f"written: {target}")
    end_of_table([done.time.outcome, done.memory.outcome])


def advise_command(
    path: Path_,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Also 'VARIABLE=VALUE …' of hakmem's; repeatable."),
    ] = None,
    touch: Touched = "pages",
    max_blocks: Most = LOOKS[2],
    min_seconds: Seconds = 0.1,
    seed: Seed = None,
) -> None:
    """Find the options of hakmem that help a trace, by measured replays; often none does."""
    found = trace.read(path)
    console = terminal.new_console()
    asked = measure.Request(
        found, advise.cells_of(setting or []), touch, max_blocks, min_seconds, fresh(seed)
    )
    done = measure.run(asked, console)
    advise.tell(done, console)
    end(done.time.outcome, done.memory.outcome)
