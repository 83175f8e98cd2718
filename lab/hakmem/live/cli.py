"""The command lines of `hakmem top` and `hakmem export`."""

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from hakmem import terminal
from hakmem.cli import of_float
from hakmem.errors import LabError
from hakmem.live import processes, view
from hakmem.live.dashboard import board
from hakmem.live.processes import Found, Process

LEAST_S = 0.2


def only(everybody: Found[Process], pid: int | None) -> Found[Process]:
    """The process `pid` alone, or all without one. LabError where it is not among them."""
    if pid is None:
        return everybody
    here = [process for process in everybody.here if process.pid == pid]
    if not here:
        raise LabError(
            f"process {pid} gives no statistics: it has ended, is another user's, or was not "
            "started on hakmem with HAKMEM_LIVE=1"
        )
    return Found(here, 0)


def as_json(found: Found[Process]) -> str:
    return json.dumps(
        [
            {"command": one.command, "page_faults": one.page_faults, **one.figures, "pid": one.pid}
            for one in found.here
        ],
        indent=1,
    )


class Looks:
    """One look after another, each shown with the work since the one before."""

    def __init__(self, pid: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._pid, self._clock = pid, clock
        self._before: dict[int, Process] | None = None
        self._seen: set[int] = set()
        self._at = 0.0

    def next(self) -> RenderableType:
        found, now = only(processes.running(), self._pid), self._clock()
        seconds = None if self._before is None else max(now - self._at, LEAST_S / 2)
        here = {one.pid: one for one in found.here}
        # If a process gave no answer last time, it is unknown how much of its work is of this
        # interval.
        silent = here.keys() & (self._seen - (self._before or {}).keys())
        earlier = self._before
        if earlier is not None:
            earlier = earlier | {pid: here[pid] for pid in silent}
        made = view.rows(found.here, earlier, seconds)
        self._before, self._at, self._seen = here, now, self._seen | here.keys()
        if self._pid is None:
            return view.table(made, found.silent, seconds is not None)
        return view.detail(found.here[0], made[0], seconds is not None)


def watch(looks: Looks, console: Console, interval: float) -> None:
    from rich.live import Live  # imported late: one look does not need it

    with Live(looks.next(), console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.refresh()
            time.sleep(interval)
            live.update(looks.next())


def top_command(
    pid: Annotated[
        int | None, typer.Argument(help="A process to show by band (default: all, a line each).")
    ] = None,
    interval: Annotated[float, of_float(min=LEAST_S, help="Seconds between two looks.")] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="One look, with counts since each began; as in a pipe.")
    ] = False,
    json_only: Annotated[
        bool, typer.Option("--json", help="One look, with all figures of each process.")
    ] = False,
) -> None:
    """Show every process here that runs on hakmem with HAKMEM_LIVE=1: memory, purges, faults.

    Ctrl-C ends it. What the columns are: docs/statistics.md.
    """
    console = terminal.new_console()
    if json_only:
        print(as_json(only(processes.running(), pid)))
    elif once or not sys.stdout.isatty():
        console.print(Looks(pid).next())
    else:
        try:
            watch(Looks(pid), console, interval)
        except KeyboardInterrupt:
            return  # how it ends


def export_command(
    listen: Annotated[
        str, typer.Option(help="HOST:PORT; another than loopback lets others read it.")
    ] = "127.0.0.1:9712",
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Print the page in the older text format and end: for node_exporter."
        ),
    ] = False,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Print a dashboard for Grafana (JSON) and end.")
    ] = False,
) -> None:
    """Serve OpenMetrics of every process here that runs on hakmem with HAKMEM_LIVE=1.

    Each sample has the labels pid and command; names and units: docs/statistics.md. Ctrl-C ends it.
    """
    from hakmem.live import export  # imported late: `top` needs no server

    if dashboard:
        print(json.dumps(board(), indent=1))
        return
    if once:
        found = export.running()
        print(export.as_text_format(export.document(found)), end="")
        for said in (*([] if found.here else [view.NOBODY]), *view.silent(found.silent)):
            print(f"hakmem: {said}", file=sys.stderr)
        return
    host, port = export.parse_address(listen)
    with export.server(host, port) as server:
        shown = f"[{host}]" if ":" in host else host
        print(f"serving http://{shown}:{server.server_address[1]}{export.PAGE}", flush=True)
        if not export.is_loopback(host):
            print(
                f"hakmem: note: whoever reaches {shown} may read it; it is not encrypted",
                file=sys.stderr,
            )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return  # how it ends
