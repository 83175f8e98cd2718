"""The command `hakmem`: how its failures become messages."""

import io
import signal
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from hakmem import errors
from hakmem.errors import LabError
from hakmem.process import scratch

# A command may stand at the end, with options of its own; what it must follow is --, or a mistyped
# option of the lab would be taken for one.
OWN_COMMAND = {"allow_interspersed_args": False}
Library = Annotated[
    Path | None, typer.Option("--lib", help="Library to preload (default: build/libhakmem.so).")
]
MOST = 1e8  # of any number; of seconds three years


def bounded(value: float | None) -> float | None:
    """Neither nan nor inf, both of which an option's range lets through."""
    if value is not None and not abs(value) <= MOST:
        raise typer.BadParameter(f"{value:g} is no number up to {MOST:g}.")
    return value


of_float = partial(typer.Option, callback=bounded)

# By panel and name: the first line of each command's help.
PANELS = {
    "Run and compare": {
        "run": "Run a program under hakmem and say what was proven inside its processes.",
        "heap": "Show what a program's memory is in use for: a flame graph, the functions, growth.",
        "demo": "Show hakmem at work: real programs with proof, a short benchmark, the report.",
        "compare": "Try hakmem on your own program, against the system's allocator and every peer "
        "found.",
        "ab": "Decide whether B is better than A (or no worse), by interleaved blocks, and record "
        "it.",
        "record": "Run a program and record its allocations, as a trace to replay under any "
        "allocator.",
        "replay": "Replay a trace under hakmem and every other allocator: time, peak, memory held.",
        "advise": "Find the options of hakmem that help a trace, by measured replays; often none "
        "does.",
        "baseline": "What this host gives today: random_mixed under hakmem and the C library, and "
        "its spread.",
        "config": "Show every option: what is allowed, what is effective here, and where that "
        "comes from.",
        "peers": "The rival allocators: build them, list them.",
    },
    "Watch over time": {
        "top": "Show every process here that runs on hakmem with HAKMEM_LIVE=1: memory, purges, "
        "faults.",
        "export": "Serve OpenMetrics of every process here that runs on hakmem with HAKMEM_LIVE=1.",
        "soak": "Let a program run for long, epoch by epoch; judge its drift, spread and memory.",
        "matrix": "Run modes through stages with pass rules, and end in GO, NO-GO or UNDECIDED.",
    },
    "Evidence": {
        "report": "Make one HTML file of what was measured: verdicts, soaks, matrices, how to "
        "repeat each.",
        "ledger": "The recorded evidence: list, show, verify, query.",
        "rerun": "Measure a record again, from the record alone, and show both side by side.",
        "scorecard": "Show every target with the last figure of it that may be cited, and whether "
        "it is met.",
        "audit": "Check that every figure in the docs and commit messages is what a record says.",
    },
    "Work on an allocator": {
        "conformance": "Hold allocators to the promises of tests/conformance: kept, broken and "
        "why, or not checked.",
        "hotpath": "What one operation costs: instructions, branches, misses, where, and in what "
        "code.",
        "bisect": "Find the commit that changed a benchmark's or a command's cost, or that none "
        "did.",
    },
}
# Where a command is that is not `command` in the cli of its own folder.
PLACES = {
    "run": "process.run:run_command",
    "compare": "paired.cli:compare_command",
    "ab": "paired.cli:ab_command",
    "record": "replay.cli:record_command",
    "replay": "replay.cli:replay_command",
    "advise": "replay.cli:advise_command",
    "baseline": "paired.cli:baseline_command",
    "config": "config:command",
    "demo": "demo:command",
    "top": "live.cli:top_command",
    "export": "live.cli:export_command",
    "peers": "peers:app",
    "heap": "heap.cli:app",
    "soak": "soak.cli:app",
    "ledger": "ledger.cli:app",
}
# What is about this repository: its sources, benchmarks and targets.
OF_CHECKOUT = {
    *("replay", "advise", "demo", "baseline", "matrix", "rerun", "scorecard", "audit"),
    *("conformance", "hotpath", "bisect"),
}
WITH_OWN_COMMAND = ("run", "record", "compare", "ab", "hotpath")


def load(name: str) -> Any:
    """The command itself, from its module."""
    module, _, attribute = PLACES.get(name, f"{name}.cli:command").partition(":")
    found = getattr(import_module(f"hakmem.{module}"), attribute)
    alone = typer.Typer()
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        settings = OWN_COMMAND if name in WITH_OWN_COMMAND else None
        alone.command(name, context_settings=settings)(found)
    return get_group(alone).commands[name]


def require_checkout(name: str) -> None:
    """LabError where hakmem was installed by itself: the command is about what is not there."""
    from hakmem import project  # here, because the help needs none of it

    if project.checkout() is None:
        raise errors.LabError(f"{name} {project.NEEDS_CHECKOUT}")


class Commands(TyperGroup):
    """Has stand-ins for all commands, which know enough to be listed; one is loaded when named."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        if name in OF_CHECKOUT and "--help" not in rest:
            require_checkout(name)
        return name, load(name) if found is not None and name else found, rest

    def invoke(self, ctx: Any) -> Any:
        """Typer would end an interrupted command without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise errors.Interrupted(errors.explain(error)[0]) from None


class RunsByDefault(TyperGroup):
    """Of a command with parts: `hakmem soak --seconds 5` means `hakmem soak run --seconds 5`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _stand_in() -> None:
    raise AssertionError("only listed: what is named is loaded")


app = typer.Typer(
    cls=Commands,
    help="hakmem's laboratory: run programs under the allocator, with proof; compare it honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from hakmem import __version__  # here, because the commands need it not, or later

        print(f"hakmem {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """What stands before a command."""


for panel, rows in PANELS.items():
    for name, line in rows.items():
        app.command(name, help=line, rich_help_panel=panel)(_stand_in)


def main() -> None:
    # A polite end, or the terminal's, is an interrupt: what was started is stopped, and no half is
    # written. What whoever started this has ignored, as nohup does, stays so.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    # What the terminal's encoding has not is shown as its number, not as an error, nor as a ?,
    # which says that something is open.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        scratch.sweep()
        try:
            app(prog_name="hakmem")
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
