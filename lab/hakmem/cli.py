"""The command `hakmem`: lists and loads the commands, and turns failures into messages."""

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

# The user's own command, with options of its own, may stand at the end. It must follow a --, or a
# mistyped option of the lab would be taken for the command.
OWN_COMMAND = {"allow_interspersed_args": False}
Library = Annotated[
    Path | None, typer.Option("--lib", help="hakmem's library (default: build/libhakmem.so).")
]
MOST = 1e8  # of any number; as seconds three years


def bounded(value: float | None) -> float | None:
    """Refuses nan and inf, which an option's range lets through, and numbers beyond MOST."""
    if value is not None and not abs(value) <= MOST:
        raise typer.BadParameter(f"{value:g} is no number up to {MOST:g}.")
    return value


of_float = partial(typer.Option, callback=bounded)

# Panel -> name -> module and attribute of the command. Its line in the help is the first line of
# its own help.
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
# Commands that need the repository: its sources, benchmarks and targets.
OF_CHECKOUT = {
    *("replay", "advise", "demo", "baseline", "matrix", "rerun", "scorecard", "audit"),
    *("conformance", "hotpath", "bisect"),
}
WITH_OWN_COMMAND = ("run", "record", "compare", "ab", "hotpath")


def load(name: str) -> Any:
    """Loads the command from its module."""
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
    """The first line of a command's help, read from the source without loading it: of a function
    its docstring, of a command with parts the `help` of its Typer."""
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
    """LabError where hakmem was installed by itself, without the checkout it needs here."""
    from hakmem import project  # imported late: the help does not need it

    if project.checkout() is None:
        raise errors.LabError(f"{name} {project.NEEDS_CHECKOUT}")


class Commands(TyperGroup):
    """Lists all commands by stand-ins; a command is loaded when it is named."""

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
        """Raises Interrupted, because Typer would end an interrupted command without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise errors.Interrupted(errors.explain(error)[0]) from None


class RunsByDefault(TyperGroup):
    """A command with parts: `hakmem soak --seconds 5` means `hakmem soak run --seconds 5`."""

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
        from hakmem import __version__  # imported late: most commands do not need it

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
    # SIGTERM and SIGHUP are interrupts: what was started is stopped, and no file is left
    # half-written. If the parent ignores a signal, as nohup does, it stays ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    # A character that the terminal's encoding lacks is shown as its number, not as an error, nor as
    # a ?, which means open.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        scratch.sweep()
        try:
            app(prog_name="hakmem")
        finally:
            # Flushed here, because output that does not fit on the disk is an error like others.
            if sys.stdout is not None:
                sys.stdout.flush()
    except (LabError, KeyboardInterrupt, MemoryError, OSError) as error:
        message, status = errors.explain(error)
        if isinstance(error, OSError):
            errors.abandon_output()
        if message:
            print(f"hakmem: {message}", file=sys.stderr)
        sys.exit(status)
