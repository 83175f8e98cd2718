"""The command `hakmem`: how its failures become messages."""

import ast
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
    Path | None, typer.Option("--lib", help="hakmem's library (default: build/libhakmem.so).")
]
MOST = 1e8  # of any number; of seconds three years


def bounded(value: float | None) -> float | None:
    """Neither nan nor inf, both of which an option's range lets through."""
    if value is not None and not abs(value) <= MOST:
        raise typer.BadParameter(f"{value:g} is no number up to {MOST:g}.")
    return value


of_float = partial(typer.Option, callback=bounded)

# By panel and name, where each command is: the module, and what in it. The line of the help is the
# first that the command says of itself.
PANELS = {
    "Run and compare": {
        "run": "process.run:run_command",
        "heap": "heap.cli:app",
        "demo": "demo:command",
        "compare": "paired.cli:compare_command",
        "ab": "paired.cli:ab_command",
        "record": "replay.cli:record_command",
        "replay": "replay.cli:replay_command",
        "advise": "replay.cli:advise_command",
        "baseline": "paired.cli:baseline_command",
        "config": "config:command",
        "peers": "peers:app",
    },
    "Watch over time": {
        "top": "live.cli:top_command",
        "export": "live.cli:export_command",
        "soak": "soak.cli:app",
        "matrix": "matrix.cli:command",
    },
    "Evidence": {
        "report": "report.cli:command",
        "ledger": "ledger.cli:app",
        "rerun": "rerun.cli:command",
        "scorecard": "scorecard.page:command",
        "audit": "audit.cli:command",
    },
    "Work on an allocator": {
        "conformance": "conformance.cli:command",
        "hotpath": "hotpath.cli:command",
        "bisect": "bisect.cli:command",
    },
}
PLACES = {name: place for rows in PANELS.values() for name, place in rows.items()}
# What is about this repository: its sources, benchmarks and targets.
OF_CHECKOUT = {
    *("replay", "advise", "demo", "baseline", "matrix", "rerun", "scorecard", "audit"),
    *("conformance", "hotpath", "bisect"),
}
WITH_OWN_COMMAND = ("run", "record", "compare", "ab", "hotpath")


def load(name: str) -> Any:
    """The command itself, from its module."""
    module, attribute = PLACES[name].split(":")
    found = getattr(import_module(f"hakmem.{module}"), attribute)
    alone = typer.Typer()
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        settings = OWN_COMMAND if name in WITH_OWN_COMMAND else None
        alone.command(name, context_settings=settings)(found)
    return get_group(alone).commands[name]


def first_line(name: str) -> str:
    """What the command says of itself, read and not loaded: of a function its docstring, of one
    with parts what its Typer is given as `help`."""
    module, attribute = PLACES[name].split(":")
    file = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(file.read_bytes()).body:
        match node:
            case ast.FunctionDef(name=found) if found == attribute:
                return (ast.get_docstring(node) or "").partition("\n")[0]
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(keywords=given)):
                said = next((k.value for k in given if k.arg == "help"), None)
                if found == attribute and said is not None:
                    return str(ast.literal_eval(said)).partition("\n")[0]
    raise AssertionError(f"{PLACES[name]} is not there, or says nothing of itself")


def require_checkout(name: str) -> None:
    """LabError where hakmem was installed by itself: the command is about what is not there."""
    from hakmem import project  # here, because the help needs none of it

    if project.checkout() is None:
        raise errors.LabError(f"{name} {project.NEEDS_CHECKOUT}")


class Commands(TyperGroup):
    """Has stand-ins for all commands, which know enough to be listed; one is loaded when named."""

    def get_command(self, ctx: Any, name: str) -> Any:
        found = super().get_command(ctx, name)
        if found is not None:
            found.help = first_line(name)
        return found

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
    for name in rows:
        app.command(name, rich_help_panel=panel)(_stand_in)


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
