"""`hakmem bench`: chooses libraries and benchmarks, measures, and writes the results."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from hakmem import peers, project
from hakmem.errors import LabError
from hakmem.overview import document, summary, tables
from hakmem.overview.collect import collect
from hakmem.process import host, order, provenance
from hakmem.process.library import Library
from hakmem.process.lock import host_lock
from hakmem.process.sample import Sample, counters
from hakmem.progress import progress_bar
from hakmem.report import page as report
from hakmem.suite import EMPTY, FAST, NULL, Suite

RESERVED = (NULL, FAST, EMPTY)


@dataclass(frozen=True)
class Request:
    """What the user asked for; `budget_s` ends a run early."""

    suite: Suite
    libraries: Sequence[Library]
    out: Path
    quick: bool
    rounds: int
    seed: int
    argv: Sequence[str]
    factor: Mapping[str, float] | None = None
    budget_s: float | None = None

    def amount_of(self, name: str) -> int:
        command = next(c for c in self.suite.commands if c.name == name)
        return command.amount(self.quick, (self.factor or {}).get(name, 1.0))

    @property
    def scale(self) -> str:
        if self.factor is not None:
            return "demo, fitted to the time budget: samples are short"
        return "quick" if self.quick else "full"


def choose_libraries(specifications: Sequence[str]) -> list[Library]:
    """hakmem first, then the rivals: all that are here, or those that were named.

    `NAME=PATH` brings a library; a bare `NAME` keeps only the named ones among the known.
    """
    given = {}
    bare = []
    for specification in specifications:
        name, equals, path = specification.partition("=")
        if name in RESERVED or not name or "/" in name:
            raise LabError(f"not a usable library name: {name!r}")
        if equals:
            given[name] = project.require_file(Path(path), f"library {name}")
        else:
            bare.append(name)
    subject = peers.hakmem(given.pop(summary.SUBJECT, None))
    known = {library.name: library for library in peers.found()}
    unknown = [name for name in bare if name not in known and name != summary.SUBJECT]
    if unknown:
        names = ", ".join(known)
        raise LabError(f"unknown library: {', '.join(unknown)}; known: {names}, or NAME=PATH")
    chosen = {name: lib for name, lib in known.items() if not bare or name in bare}
    for name, file in given.items():
        chosen[name] = Library(name, file, "not known", "given")
    return [subject, *chosen.values()]


def require_built(suite: Suite) -> None:
    """All benchmarks of the suite exist, or an error that says how to build them."""
    needed = {command.executable for command in suite.commands}
    for command in suite.commands:
        needed |= {r.preload for r in command.references if r.preload}
    missing = sorted(name for name in needed if not (project.bench_dir() / name).is_file())
    if missing:
        raise LabError(
            f"not built: {', '.join(missing)} in {project.bench_dir()}; run `make build` first"
        )


def checked(libraries: Sequence[Library]) -> tuple[list[Library], list[dict[str, Any]]]:
    """The libraries that proved to serve malloc, and an entry for the record about each.

    A rival that does not is refused, and the result says so; without hakmem there is no run.
    """
    good, entries = [], []
    for library in libraries:
        entry = {
            "name": library.name,
            "path": str(library.path) if library.path else None,
            "sha256": host.sha256(library.path) if library.path else None,
            "version": library.version,
            "origin": library.origin,
            "env": dict(library.env),
            "refused": None,
        }
        try:
            peers.verify(library)
            good.append(library)
        except LabError as error:
            if library.name == summary.SUBJECT:
                raise
            entry["refused"] = str(error)
        entries.append(entry)
    return good, entries


def run(request: Request, console: Console) -> list[summary.Row]:
    """Measures, prints the table and writes bench.json and report.html into the out folder."""
    require_built(request.suite)
    # Before an hour of measuring, not after it.
    request.out.mkdir(exist_ok=True)
    with host_lock():
        libraries, entries = checked(request.libraries)
        for entry in entries:
            if entry["refused"]:
                console.print(Text(f"✗ not measured: {entry['refused']}", style="red"))
        announce(request, libraries, console)
        facts = host.facts()
        started = time.monotonic()
        samples = measure(request, libraries, console)
        facts["load after"] = host.load()
        facts["measured for"] = f"{time.monotonic() - started:.0f} s"
    recorded = document.build(
        request.suite,
        samples,
        entries,
        {
            "rounds": max((s.round for s in samples), default=-1) + 1,
            "scale": request.scale,
            "seed": request.seed,
            "argv": list(request.argv),
            "host": facts,
            "source": provenance.source(project.root()).to_dict(),
        },
        request.amount_of,
        counters(),
    )
    rows = summary.rows(recorded)
    tables.print_results(console, rows)
    write(recorded, request.out)
    console.print(f"written: {request.out / 'bench.json'} and {request.out / 'report.html'}")
    return rows


def write(recorded: Mapping[str, Any], out: Path) -> None:
    """Both files, each complete or not there; the report is made from the same record."""
    page = report.render(recorded)
    project.write_atomically(out / "bench.json", document.dump(recorded))
    project.write_atomically(out / "report.html", page)


def announce(request: Request, libraries: Sequence[Library], console: Console) -> None:
    names = ", ".join(library.name for library in libraries)
    console.print(f"{len(request.suite.commands)} commands × {len(libraries)} allocators: {names}")
    console.print(f"up to {request.rounds} rounds, scale {request.scale}, seed {request.seed}")
    why = counters()
    if why is not None:
        console.print(f"user cycles are not visible ({why}): CPU time is used instead")


def measure(request: Request, libraries: Sequence[Library], console: Console) -> list[Sample]:
    commands = request.suite.commands
    tasks = order.rounds(commands, [lib.name for lib in libraries], request.seed, request.rounds)
    cells = sum(len(libraries) + len(command.references) for command in commands)
    deadline = time.monotonic() + request.budget_s if request.budget_s else None
    with progress_bar(console) as progress:
        bar = progress.add_task("measuring", total=request.rounds * cells)
        return collect(
            tasks,
            {library.name: library for library in libraries},
            request.amount_of,
            _ticker(progress, bar),
            deadline,
        )


def _ticker(progress: Progress, bar: Any) -> Callable[[Sample], None]:
    def tick(sample: Sample) -> None:
        progress.update(bar, advance=1, description=f"{sample.command}: {sample.library}")

    return tick
