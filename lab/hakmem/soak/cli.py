"""The command lines of soaks: `hakmem soak`, which runs one, and `hakmem soak analyze`."""

import json
import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hakmem import complete, project
from hakmem.commands import OWN_COMMAND, RunsByDefault
from hakmem.errors import LabError
from hakmem.paired import cells, work
from hakmem.paired.cli import Record
from hakmem.process.library import Library, verify
from hakmem.process.lock import host_lock
from hakmem.soak import analysis as soak_analysis
from hakmem.soak import epochs_csv as soak_csv
from hakmem.soak import inside as soak
from hakmem.soak import outside as soak_outside
from hakmem.soak import session as soak_session
from hakmem.soak import view as soak_view
from hakmem.soak.analysis import Analysis
from hakmem.soak.inside import Ended, Started
from hakmem.soak.session import Plan

app = typer.Typer(
    cls=RunsByDefault,
    help="Let a program run for long, epoch by epoch; judge its drift, spread and memory.\n\n"
    "`run` may be left out: hakmem soak --seconds 60. Columns and rules: docs/soak.md.",
)


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise LabError(f"--env takes NAME=VALUE, not {text!r}")
        settings[name] = value
    return settings


@app.command("run", context_settings=OWN_COMMAND)
def run_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Any long-running command, after --; default: the soak benchmark."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Length (default: 60; a command's: to its own end)."),
    ] = None,
    epoch_s: Annotated[float, typer.Option("--epoch-sec", min=0.05, help="Of an epoch.")] = 1.0,
    ws: Annotated[int, typer.Option(min=1, help="Slots of the benchmark.")] = 8192,
    least: Annotated[int, typer.Option("--min", min=1, help="Its smallest block, bytes.")] = 16,
    most: Annotated[int, typer.Option("--max", min=1, help="Its largest block, bytes.")] = 1040,
    seed: Annotated[int, typer.Option(min=1, help="Of its random stream.")] = 1234567,
    lib: Annotated[
        str,
        typer.Option(help="hakmem, system, a peer or a file.", autocompletion=complete.libraries),
    ] = "hakmem",
    env: Annotated[list[str] | None, typer.Option("--env", help="NAME=VALUE; repeatable.")] = None,
    pid: Annotated[int | None, typer.Option(help="Sample this process from outside.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The CSV (default: out/soak-DATE-TIME.csv).")
    ] = None,
    record: Record = True,
) -> None:
    """Soak the benchmark, a command, or a process that runs already.

    Exit status 1 if the program failed, did not run under the allocator, or its memory drifts.
    """
    if pid is not None and command:
        raise LabError("--pid and a command are two things to sample: choose one")
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    settings = parse_settings(env or [])
    if command:
        work.own(command)
    path = project.place(out, Path("out") / f"soak-{stamp}.csv")
    if pid is not None:
        finish(_process(pid, epoch_s, seconds, path))
        return
    library = cells.find(lib)
    verify(library)
    if command:
        surroundings = {**library.environment(os.environ), **soak.OS_STATS_ON, **settings}
        what = Started(command, library, surroundings, settings)
        finish(_command(what, epoch_s, seconds, path, record))
    else:
        mix = [f"--ws={ws}", f"--min={least}", f"--max={most}", f"--seed={seed}"]
        what = benchmark(library, settings, seconds or 60, epoch_s, mix)
        finish(_benchmark(what, epoch_s, seconds or 60, path, record))


def benchmark(
    library: Library,
    settings: dict[str, str],
    seconds: float,
    epoch_s: float,
    mix: Sequence[str],
) -> Started:
    program = project.require_file(project.bench_dir() / "soak_mixed", "the soak benchmark")
    argv = [str(program), f"--seconds={seconds:g}", f"--epoch-sec={epoch_s:g}", *mix]
    return Started(argv, library, soak_session.surroundings(argv, library, settings), settings)


def _benchmark(what: Started, epoch_s: float, seconds: float, path: Path, record: bool) -> Analysis:
    title = f"{Path(what.argv[0]).name} on {what.library.name}"
    plan = Plan(title, soak_session.facts_of(what), what, seconds, path, record)
    with host_lock():
        return soak_session.run(
            plan, lambda on_epoch: soak.run_epochs(what, epoch_s, on_epoch), Console()
        )


def _command(
    what: Started, epoch_s: float, seconds: float | None, path: Path, record: bool
) -> Analysis:
    log = path.with_suffix(".log")
    console = Console()
    console.print(f"what it prints goes into {log}", soft_wrap=True)
    title = f"{shlex.join(what.argv)} on {what.library.name}"
    plan = Plan(title, soak_session.facts_of(what), what, seconds, path, record)
    return soak_session.run(
        plan, lambda on_epoch: soak_outside.run(what, epoch_s, seconds, log, on_epoch), console
    )


def _process(pid: int, epoch_s: float, seconds: float | None, path: Path) -> Analysis:
    """Never recorded: whose allocator serves a process that runs already cannot be proven."""
    said = soak_outside.mapped_allocator(pid)
    console = Console()
    console.print(f"process {pid}: {said}; not recorded", soft_wrap=True)
    plan = Plan(f"process {pid}", {"process": f"{pid}, {said}"}, None, seconds, path, False)

    def sampled(on_epoch: soak.OnEpoch) -> Ended:
        epochs = soak_outside.sample(pid, epoch_s, seconds, on_epoch)
        return Ended(0, None if epochs else "no epoch was seen", None, "", None, epochs)

    return soak_session.run(plan, sampled, console)


def finish(analysis: Analysis) -> None:
    """Memory that drifts is a failure of what was soaked."""
    if any(d.state == "drifts" for name, d in analysis.drift.items() if name.endswith("_kb")):
        raise typer.Exit(1)


@app.command("analyze")
def analyze_command(
    file: Annotated[Path, typer.Argument(help="The CSV of a soak.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the analysis as JSON.")] = False,
) -> None:
    """Judge the CSV of any soak: one of these, the benchmark's bare output, or an older one.

    Exit status 1 if its memory drifts.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"cannot read {file}: {error}") from error
    try:
        analysis = soak_analysis.analyze(soak_csv.parse(text))
    except LabError as error:
        raise LabError(f"{file}: {error}") from error
    if as_json:
        print(json.dumps(analysis.to_dict(), indent=2))
    else:
        soak_view.print_analysis(Console(), analysis)
    finish(analysis)
