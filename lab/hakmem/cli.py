"""The command `hakmem`: its subcommands, and how failures become messages."""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from typer.core import TyperGroup

from hakmem import config, errors, peers, project
from hakmem.audit import cli as audit_cli
from hakmem.bisect import cli as bisect_cli
from hakmem.conformance import cli as conformance_cli
from hakmem.errors import LabError
from hakmem.hotpath import cli as hotpath_cli
from hakmem.ledger import cli as ledger_cli
from hakmem.matrix import cli as matrix_cli
from hakmem.overview import bench, demo, summary
from hakmem.paired import cli as paired_cli
from hakmem.process import provenance, scratch
from hakmem.process import run as runner
from hakmem.report import cli as report_cli
from hakmem.rerun import cli as rerun_cli
from hakmem.scorecard import cli as scorecard_cli
from hakmem.soak import cli as soak_cli
from hakmem.suite import SUITE


class Commands(TyperGroup):
    """Typer would end an interrupted command without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            message, status = errors.explain(error)
            raise LabError(message, status) from None


app = typer.Typer(
    cls=Commands,
    help="hakmem's laboratory: run programs under the allocator, with proof; compare it honestly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(peers.app, name="peers")
app.add_typer(ledger_cli.app, name="ledger")
app.add_typer(soak_cli.app, name="soak")
app.command("matrix")(matrix_cli.command)
app.command("ab", context_settings=paired_cli.OWN_COMMAND)(paired_cli.ab_command)
app.command("compare", context_settings=paired_cli.OWN_COMMAND)(paired_cli.compare_command)
app.command("baseline")(paired_cli.baseline_command)
app.command("audit")(audit_cli.command)
app.command("scorecard")(scorecard_cli.command)
app.command("bisect")(bisect_cli.command)
app.command("rerun")(rerun_cli.command)
app.command("report")(report_cli.command)
app.command("conformance")(conformance_cli.command)
app.command("hotpath", context_settings=paired_cli.OWN_COMMAND)(hotpath_cli.command)

Out = Annotated[Path, typer.Option(help="Folder for bench.json and report.html.")]
Seed = Annotated[int | None, typer.Option(help="Of the order and padding; default: random.")]
Libraries = Annotated[
    list[str] | None,
    typer.Option("--lib", help="NAME=PATH adds a library; a bare NAME keeps only the named ones."),
]


@app.command(context_settings=paired_cli.OWN_COMMAND)
def run(
    command: Annotated[
        list[str] | None, typer.Argument(help="What to run; without it, a demonstration.")
    ] = None,
    lib: Annotated[
        Path | None, typer.Option(help="Library to preload [default: build/libhakmem.so].")
    ] = None,
) -> None:
    """Run a program under hakmem and say what was proven inside its processes."""
    library = project.require_file(lib or project.default_library(), "hakmem's library")
    outcome = runner.execute(command or runner.demonstration(), library)
    print(outcome.sentence, file=sys.stderr)
    raise typer.Exit(outcome.exit_status)


@app.command("config")
def config_command(
    lib: Annotated[
        Path | None, typer.Option(help="Library to ask [default: build/libhakmem.so].")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=VALUE to set for the process asked.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As the library writes it.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print docs/options.md: the defaults.")
    ] = False,
    check: Annotated[
        Path | None, typer.Option(help="Fail if this page is not what --markdown prints.")
    ] = None,
) -> None:
    """Show every option: what is allowed, what is effective here, and where that comes from."""
    library = project.require_file(lib or project.default_library(), "hakmem's library")
    if as_markdown or check:
        defaults = config.ask(library, config.without_settings(os.environ))
        print(config.check(check, defaults) if check else config.markdown(defaults).rstrip())
        return
    listing = config.ask(library, config.environment(env or [], os.environ))
    print(listing.said, end="", file=sys.stderr)
    if as_json:
        print(json.dumps(listing.document, indent=1))
    else:
        console = Console()
        console.print(config.tables(listing, console.width))


@app.command("bench")
def bench_command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks, families or patterns; default: all.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="The same as naming a benchmark.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short samples and fewer rounds.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds [default: 12, quick 6].")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="ABBA/BAAB blocks per rival instead of rounds.")
    ] = None,
    lib: Libraries = None,
    seed: Seed = None,
    out: Out = Path("out"),
) -> None:
    """Compare hakmem with the system's allocator and every rival that is here."""
    suite = SUITE.select([*(names or []), *(only or [])])
    if pairs and rounds:
        raise LabError("--pairs and --rounds are two ways to measure: choose one")
    libraries = bench.choose_libraries(lib or [])
    if len(libraries) < 2:
        raise LabError("nothing to compare with: name a rival with --lib, or leave --lib out")
    request = bench.Request(
        suite=suite,
        libraries=libraries,
        out=project.place(out, out),
        quick=quick,
        rounds=rounds or (6 if quick else 12),
        pairs=pairs,
        seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
        argv=provenance.own_argv(),
    )
    finish(bench.run(request, Console()))


@app.command("demo")
def demo_command(
    budget: Annotated[float, typer.Option(min=5, help="Seconds for the benchmark.")] = 100,
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


def main() -> None:
    # A polite end is an interrupt: what was started is stopped, and no half is written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        scratch.sweep()
        try:
            app(standalone_mode=True)
        finally:
            # Here, because a disk that is full of what was printed is an error like others.
            if sys.stdout is not None:
                sys.stdout.flush()
    except (LabError, KeyboardInterrupt, MemoryError, OSError) as error:
        message, status = errors.explain(error)
        if isinstance(error, OSError):
            errors.abandon_output()
        if message:
            print(f"hakmem: {message}", file=sys.stderr)
        sys.exit(status)
