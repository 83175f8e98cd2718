"""The command lines of soaks: `hakmem soak`, which runs one, and `hakmem soak analyze`."""

import contextlib
import json
import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hakmem import complete, config, project, terminal
from hakmem.cli import OWN_COMMAND, RunsByDefault, of_float
from hakmem.errors import LabError
from hakmem.paired import cells, work
from hakmem.paired.cli import Record, given_to, require_ledger
from hakmem.process import provenance
from hakmem.process.library import verify
from hakmem.process.lock import host_lock
from hakmem.soak import analysis as soak_analysis, inside, session, view
from hakmem.soak.analysis import Analysis
from hakmem.soak.inside import Ended, Started
from hakmem.soak.session import Plan

app = typer.Typer(
    cls=RunsByDefault,
    help="Let a program run for long, epoch by epoch; judge its drift, spread and memory.\n\n"
    "`run` may be left out: hakmem soak --seconds 60. Columns and rules: docs/soak.md.",
)


# Parameters about anything that is started, and those about the benchmark alone.
OF_STARTED, OF_BENCHMARK = ("lib", "env"), ("ws", "least", "most", "seed")


@app.command("run", context_settings=OWN_COMMAND)
def run_command(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Any long-running command, after --; default: the soak benchmark."),
    ] = None,
    seconds: Annotated[
        float | None,
        of_float(min=0.1, help="Length (default: 60; a command's: to its own end)."),
    ] = None,
    epoch_s: Annotated[float, of_float("--epoch-sec", min=0.05, help="Of an epoch.")] = 1.0,
    ws: Annotated[int, typer.Option(min=1, help="Slots of the benchmark.")] = 8192,
    least: Annotated[int, typer.Option("--min", min=1, help="Its smallest block, bytes.")] = 16,
    most: Annotated[int, typer.Option("--max", min=1, help="Its largest block, bytes.")] = 1040,
    seed: Annotated[int, typer.Option(min=1, help="Of its random stream.")] = 1234567,
    lib: Annotated[str, complete.of_library(help="hakmem, system, a peer or a file.")] = "hakmem",
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
    if pid is not None:
        require_without(ctx, (*OF_STARTED, *OF_BENCHMARK), "a process that runs already")
    if command:
        require_without(ctx, OF_BENCHMARK, "a command")
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    settings = config.environment(env or [], {})
    if command:
        work.own(command)
        given_to(command)
    path = project.place(out, Path("out") / f"soak-{stamp}.csv")
    console = terminal.new_console()
    if pid is not None:
        # Never recorded: which allocator serves a process that runs already cannot be proven.
        said = inside.mapped_allocator(pid)
        terminal.say(console, f"process {pid}: {said}; not recorded")
        plan = Plan(f"process {pid}", {"process": f"{pid}, {said}"}, None, seconds, path)

        def sampled(on_epoch: inside.OnEpoch) -> Ended:
            epochs = inside.sample(pid, epoch_s, seconds, on_epoch)
            return Ended(0, None if epochs else "no epoch was seen", epochs)

        finish(session.run(plan, sampled, console))
        return
    library = cells.find(lib)
    verify(library)
    require_ledger(record)
    if command:
        name, argv, log = shlex.join(command), command, path.with_name(f"{path.name}.log")
        terminal.say(console, f"what it prints goes into {log}")
        own = {**library.environment(os.environ), **inside.OS_STATS_ON, **settings}
        what = Started(argv, library, own, settings)
        soaked: session.Runner = partial(inside.run, what, epoch_s, seconds, log)
    else:
        program = project.bench_dir() / "soak_mixed"
        provenance.require_program(program, project.source_dir())
        name, seconds = program.name, seconds or 60
        length = (f"--seconds={seconds:g}", f"--epoch-sec={epoch_s:g}")
        blocks = (f"--ws={ws}", f"--min={least}", f"--max={most}", f"--seed={seed}")
        argv = [str(program), *length, *blocks]
        what = Started.benchmark(argv, library, settings)
        soaked = partial(inside.run_epochs, what, epoch_s)
    title = f"{name} on {library.name}"
    plan = Plan(title, session.facts_of(what), what if record else None, seconds, path)
    with host_lock() if record or not command else contextlib.nullcontext():
        finish(session.run(plan, soaked, console))


def require_without(ctx: typer.Context, names: Sequence[str], what: str) -> None:
    """LabError where the command line sets one of `names`, which does nothing to `what`."""
    for option in ctx.command.params:
        source = ctx.get_parameter_source(str(option.name))
        if option.name in names and source and source.name == "COMMANDLINE":
            raise LabError(f"{option.opts[0]} does nothing to {what}: leave it out")


def finish(analysis: Analysis) -> None:
    """Exits with status 1 where memory drifts: that is a failure of what was soaked."""
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
    _, analysis = soak_analysis.read(str(file), project.read(file))
    if as_json:
        print(json.dumps(analysis.to_dict(), indent=2))
    else:
        view.print_analysis(terminal.new_console(), analysis)
    finish(analysis)
