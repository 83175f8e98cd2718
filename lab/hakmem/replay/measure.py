"""Replays measured: a trace is one more benchmark, under several allocators or settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import project, terminal
from hakmem.ledger.store import Record
from hakmem.paired import compare, protocol, readings, session, tables
from hakmem.paired.blocks import Plan, Track
from hakmem.paired.cells import Cell
from hakmem.paired.readings import Reading
from hakmem.paired.recording import Facts
from hakmem.paired.session import Conducted
from hakmem.paired.work import Work
from hakmem.process import host, scratch
from hakmem.process.lock import host_lock
from hakmem.process.sample import Sample
from hakmem.replay import trace
from hakmem.suite import NULL, Command, Reference

PROGRAM = "bench_replay"
OPERATIONS = 4_000_000  # of one sample; a shorter trace is replayed several times over
A_PAGE = 32  # about so many operations take as long as the first touch of an OS page
OF_THREADS = 400_000  # the same for a trace of several threads, which wait for each other


def _peak(sample: Sample) -> float | None:
    kib = sample.stated("peak_kb")
    return None if kib is None else kib / 1024


def points_of(sample: Sample) -> list[tuple[float, float]]:
    """Live and resident KiB at the trace's points, which lie at equal distances in time."""
    found: Any = (sample.result or {}).get("curve") or []
    return [(live, rss) for live, rss in found]


def _over(seconds: float) -> Any:
    def of(sample: Sample) -> float | None:
        held = [rss for _, rss in points_of(sample)]
        return fmean(held) * 1024e-6 * seconds if held else None

    return of


PEAK = Reading("rss", "MiB", "lower", "peak memory", _peak)
HELD = Reading("held", "× live", "lower", "memory held per live byte", lambda s: s.stated("held"))


@dataclass(frozen=True)
class Request:
    """What is replayed, and under which cells; the first one is compared with the others. `argv`
    repeats the command; None: nothing is recorded."""

    trace: trace.Trace
    cells: Mapping[str, Cell]
    touch: str
    most: int
    seconds: float
    seed: int
    pace: bool = False
    argv: Sequence[str] | None = None


@dataclass(frozen=True)
class Replayed:
    """Two comparisons of the same cells: by time, with the peak read off the same samples; and by
    the memory held at the trace's points, with the memory over the recorded time."""

    request: Request
    time: Conducted
    memory: Conducted
    records: Sequence[Mapping[str, Record]]

    @property
    def parts(self) -> tuple[tuple[Conducted, Reading], ...]:
        over = _over(self.request.trace.seconds)
        over_time = Reading("mbs", "MB·s", "lower", "memory over time", over)
        return (self.time, PEAK), (self.memory, over_time)


def run(request: Request, console: Console) -> Replayed:
    """Measures both comparisons, under the host's lock, and says before what it is about to do.
    LabError as for a comparison."""
    project.require_file(project.bench_dir() / PROGRAM, "the replayer")
    protocol.require_decidable(len(request.cells) - 1, request.most)
    console.print(Text(f"{request.trace.name}: {trace.describe(request.trace.facts)}"))
    if thin := protocol.thin(len(request.cells) - 1, request.most):
        terminal.say(console, thin)
    with host_lock(), scratch.folder("replay") as folder:
        file = folder / "streams"
        trace.unpack(request.trace, file)
        facts = None if request.argv is None else Facts.of(request.cells, request.argv)
        time, memory = (
            session.conduct(plan, request.seconds, console, drop=True, say=compare.standing)
            for plan in (plan_of(request, file, points) for points in (False, True))
        )
    return Replayed(request, time, memory, [compare.keep(part, facts) for part in (time, memory)])


def plan_of(request: Request, file: Path, points: bool) -> Plan:
    """By time per operation, of one thread CPU time net of the null floor; or by memory."""
    work = work_of(request, file, points)
    floor, reading = None, HELD
    if not points:
        reading = readings.choose("cpu" if request.trace.threads == 1 else "wall", "replay")
        floor = next(iter(work.command.references), None) if work.command else None
    works = dict.fromkeys(request.cells, work)
    track = Track(request.trace.name, "target", reading, works, floor)
    return Plan(request.cells, [track], request.seed, request.most)


def work_of(request: Request, file: Path, points: bool) -> Work:
    """The trace as a benchmark. There is no floor with several threads, because their waiting for
    each other is in it too. Where the memory is read the replay may keep the trace's pauses."""
    found = request.trace
    enough = OPERATIONS if found.threads == 1 else OF_THREADS
    often = 1 if points else max(1, round(enough / max(1, found.operations + A_PAGE * found.pages)))
    reading = ["--points", *(["--pace"] if request.pace else [])] if points else []
    command = Command(
        found.name,
        PROGRAM,
        ("{trace}", f"--touch={request.touch}", *reading, "--repeat={n}"),
        references=(Reference(NULL, ("--mode=null",)),) if found.threads == 1 else (),
        trace=str(file),
    )
    return Work(
        found.name,
        command=command,
        amount=often,
        timeout_s=300 + found.seconds,
        stated={
            "executable": PROGRAM,
            "arguments": list(command.arguments),
            "trace": host.sha256(found.path),
        },
    )


def tell(done: Replayed, console: Console) -> None:
    for (conducted, second), records in zip(done.parts, done.records, strict=True):
        tables.print_warnings(console, conducted)
        console.print(compare.table(conducted, second))
        console.print(compare.summary(conducted))
        console.print(compare.SAME)
        tables.print_measured(console, conducted, records.values())


def plain(table: Table) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a terminal's table, as text."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return [str(column.header) for column in table.columns], [
        list(row) for row in zip(*columns, strict=True)
    ]


def curves(done: Replayed) -> Mapping[str, Sequence[tuple[float, float]]]:
    """For each cell live and resident MiB at the trace's points, from its first replay."""
    track = done.memory.plan.tracks[0]
    found = {}
    for letter, cell in done.memory.plan.cells.items():
        samples = done.memory.outcome.samples(track.name, letter)
        if samples:
            points = points_of(samples[0])
            found[cell.name] = [(live / 1024, rss / 1024) for live, rss in points]
    return found
