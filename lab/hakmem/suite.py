"""The suite: which programs are run (commands) and which numbers are read off them (figures)."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from hakmem.errors import LabError
from hakmem.process.metrics import LATENCIES
from hakmem.project import bench_dir

ReferenceName = Literal["null floor", "BenchFast", "empty library"]

NULL: ReferenceName = "null floor"
FAST: ReferenceName = "BenchFast"
EMPTY: ReferenceName = "empty library"


@dataclass(frozen=True)
class Reference:
    """A process that is measured beside the libraries of a command, in the same rounds.

    It runs without an allocator under test: with more arguments, or with an empty library.
    """

    name: ReferenceName
    arguments: tuple[str, ...] = ()
    preload: str | None = None


@dataclass(frozen=True)
class Command:
    """One program and its arguments; `{n}` is the amount of work: `full`, `quick` or `sample`, and
    `{trace}` the file of that name in the folder of the benchmarks.

    `sample` is what one of many short processes does: as little as can be without its beginning,
    the pages touched for the first time, being part of the figure.

    One that takes long is run only `by_name`. One that only `starts` another program does nothing
    that is worth counting itself.
    """

    name: str
    executable: str
    arguments: tuple[str, ...]
    full: int = 1
    quick: int = 1
    sample: int = 1
    threads: int = 1
    references: tuple[Reference, ...] = ()
    starts: str = ""
    by_name: bool = False
    trace: str = ""

    def argv(self, amount: int, reference: Reference | None = None) -> tuple[str, ...]:
        trace = bench_dir() / self.trace
        own = tuple(argument.format(n=amount, trace=trace) for argument in self.arguments)
        extra = reference.arguments if reference else ()
        return (str(bench_dir() / self.executable), *own, *extra)


@dataclass(frozen=True)
class Figure:
    """A number of a command: the metric, and the reference whose median is subtracted first.

    `counted` is the metric that takes over where the machine lets us count user cycles; `also` are
    metrics that are read off the same samples.
    """

    name: str
    command: str
    metric: str
    what: str
    floor: str | None = None
    counted: str | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Commands with the figures read off them; every figure's command is in it."""

    commands: tuple[Command, ...]
    figures: tuple[Figure, ...]

    def command(self, name: str) -> Command:
        """The one that is called exactly so; it must be there."""
        return next(command for command in self.commands if command.name == name)

    def select(self, names: Sequence[str]) -> "Suite":
        """The part named: a figure, a command, a family's first words, or a shell pattern.

        No names are all but those that are run by name; a pattern does not name them either.
        """
        long = {command.name for command in self.commands if command.by_name}
        chosen = {f.name for f in self.figures if not names and f.command not in long}
        for name in names:
            hits = {
                f.name
                for f in self.figures
                if name == f.name or (f.command not in long and _matches(name, f))
            }
            alone = [f.name for f in self.figures if _matches(name, f)]
            if not hits and alone:
                raise LabError(f"{name}: by its whole name only: {', '.join(alone)}")
            if not hits:
                known = ", ".join(sorted({f.name for f in self.figures}))
                raise LabError(f"unknown benchmark: {name}; known: {known}")
            chosen |= hits
        figures = tuple(f for f in self.figures if f.name in chosen)
        commands = {f.command for f in figures}
        return Suite(tuple(c for c in self.commands if c.name in commands), figures)


def _matches(name: str, figure: Figure) -> bool:
    return (
        name in (figure.name, figure.command)
        or figure.name.startswith(f"{name}_")
        or fnmatch.fnmatchcase(figure.name, name)
    )


_FLOORS = (Reference(NULL, arguments=("--mode=null",)), Reference(FAST, arguments=("--mode=fast",)))


def _random_mixed(slots: int, full: int, quick: int, sample: int) -> Command:
    return Command(
        f"random_mixed_{slots}",
        "bench_random_mixed",
        ("{n}", str(slots), "1234567"),
        full,
        quick,
        sample,
        references=_FLOORS,
    )


def _above_floor(slots: int) -> Figure:
    return Figure(
        f"random_mixed_{slots}",
        f"random_mixed_{slots}",
        "cpu",
        f"16–1039 B at random over {slots} slots, CPU above the null floor",
        floor=NULL,
        counted="cycles",
    )


def _larson(name: str, amounts: tuple[int, int, int], threads: int, *more: str) -> Command:
    arguments = (f"--threads={threads}", *more, "--ops={n}")
    return Command(name, "bench_larson", arguments, *amounts, threads=threads)


_MIXES = (
    (256, 40_000_000, 10_000_000, 2_000_000),
    (400, 40_000_000, 10_000_000, 2_000_000),
    (8192, 40_000_000, 10_000_000, 2_000_000),
    (100_000, 30_000_000, 10_000_000, 4_000_000),
)

_WALL = (
    Command("batch_lifo", "bench_batch", ("--order=lifo", "--rounds={n}"), 2000, 300, 200),
    Command("batch_fifo", "bench_batch", ("--order=fifo", "--rounds={n}"), 2000, 300, 200),
    Command(
        "prodcons", "bench_prodcons", ("--items={n}",), 20_000_000, 3_000_000, 2_000_000, threads=2
    ),
    _larson("larson_1", (20_000_000, 4_000_000, 4_000_000), 1),
    _larson("larson_2", (40_000_000, 8_000_000, 6_000_000), 2),
    _larson("larson_16", (40_000_000, 8_000_000, 8_000_000), 16, "--slots=1000"),
    _larson("larson_generations", (20_000_000, 4_000_000, 4_000_000), 2, "--generations=50"),
    Command("burst", "bench_burst", ("--batches={n}",), 8000, 1500, 1500, threads=2),
    Command(
        "containers", "bench_containers", ("--rounds={n}",), 2_000_000, 300_000, 100_000, threads=2
    ),
    Command("huge", "bench_huge", ("--ops={n}",), 500, 60, 200),
    Command("large", "bench_large", ("--ops={n}",), 200_000, 30_000, 10_000),
    Command("thread_churn", "bench_thread_churn", ("--total={n}",), 20_000, 3000, 2000),
    Command("realloc", "bench_realloc", ("--rounds={n}",), 40, 6, 6),
    Command("aligned", "bench_aligned", ("--ops={n}",), 20_000_000, 3_000_000, 2_000_000),
)

_WHAT = {
    "batch_lifo": "20 000 blocks of 64 B allocated, then freed last first",
    "batch_fifo": "20 000 blocks of 64 B allocated, then freed first first",
    "prodcons": "one thread allocates, another frees",
    "larson_1": "a server's blocks replaced at random",
    "larson_2": "a server's blocks replaced at random",
    "larson_16": "a server's blocks replaced at random, more threads than processors",
    "larson_generations": "threads die and leave their blocks to their successors",
    "burst": "bursts of equal blocks, freed by another thread",
    "containers": "maps, queues, strings and vectors of C++",
    "huge": "5–25 MiB blocks replaced at random and touched",
    "large": "40 KiB–2 MiB blocks replaced at random",
    "thread_churn": "short-lived threads that allocate a little",
    "realloc": "blocks that grow and shrink",
    "aligned": "aligned blocks of mixed alignment",
}

# One thread's time is its CPU time, which the kernel counts exactly and nobody else adds to; of
# several threads it is what the user waits for. Where an operation is long, in microseconds.
_UNITS = {
    **{command.name: "cpu" for command in _WALL if command.threads == 1},
    **dict.fromkeys(("huge", "large", "realloc"), "cpu_us"),
    "thread_churn": "wall_us",
}

_STARTUP = Command(
    "startup",
    "bench_startup",
    ("--count={n}",),
    500,
    100,
    40,
    references=(Reference(EMPTY, preload="bench_empty.so"),),
    starts="/bin/true",
)

_IDLE = Command("idle_rss", "bench_idle_rss", ())

# Quiet for so long because some give back only then.
_PEAK = partial(Command, executable="bench_peak", by_name=True)
_PEAKS = (
    _PEAK("peak", arguments=("--wait=10",)),
    _PEAK("peak_large", arguments=("--wait=10", "--min=1024", "--max=32768")),
)
_CACHE = Command(
    "cache", "bench_cache", ("--ops={n}",), 2_000_000, 500_000, 2_000_000, by_name=True
)
_THREADS = Command("threads", "bench_threads", ("--ops={n}",), 4000, 1000, 4000, by_name=True)
_LATENCIES = tuple(
    Command(
        f"latency_{threads}",
        "bench_latency",
        (f"--threads={threads}", "--ops={n}"),
        4_000_000,
        1_000_000,
        1_000_000,
        threads=threads,
        by_name=True,
    )
    for threads in (1, 2)
)

# Real programs' traces, each so often that a sample has some four million operations.
_REPLAYED = {
    "jq": (42, "jq groups records, replayed"),
    "lua": (8, "lua counts and joins the words of a text, replayed"),
    "perl": (24, "perl does the same, replayed"),
    "sqlite": (44, "python and sqlite fill a database, replayed"),
    "xmllint": (21, "xmllint formats a document, replayed"),
}
_TRACES = tuple(
    Command(
        f"replay_{name}",
        "bench_replay",
        ("{trace}", "--points", "--repeat={n}"),
        4 * often,
        often,
        often,
        references=(Reference(NULL, arguments=("--mode=null",)),),
        by_name=True,
        trace=f"traces/{name}.streams",
    )
    for name, (often, _) in _REPLAYED.items()
)

SUITE = Suite(
    commands=(
        *(_random_mixed(*mix) for mix in _MIXES),
        *_WALL,
        _STARTUP,
        _IDLE,
        *_PEAKS,
        _CACHE,
        _THREADS,
        *_LATENCIES,
        *_TRACES,
    ),
    figures=(
        *(_above_floor(slots) for slots, *_ in _MIXES),
        Figure(
            "random_mixed_100000_process",
            "random_mixed_100000",
            "process_ns",
            "the whole process, user and system CPU, nothing subtracted",
        ),
        *(Figure(c.name, c.name, _UNITS.get(c.name, "wall"), _WHAT[c.name]) for c in _WALL),
        Figure(
            "startup",
            "startup",
            "wall_us",
            "starting a program, above an empty preloaded library",
            floor=EMPTY,
        ),
        Figure("idle_rss", "idle_rss", "idle", "memory of a process that does nothing"),
        Figure("peak", "peak", "left", "memory left when most was freed, as a share; 16–1024 B"),
        Figure("peak_large", "peak_large", "left", "the same; 1–32 KiB"),
        Figure("cache", "cache", "held", "memory held over time by a cache whose sizes shift"),
        Figure("threads", "threads", "held", "memory held by 2000 threads with 64 KiB each in use"),
        *(
            Figure(
                c.name,
                c.name,
                "free_p9999",
                "every call timed; one free in 10 000 takes longer",
                also=tuple(name for name in LATENCIES if name != "free_p9999"),
            )
            for c in _LATENCIES
        ),
        *(
            Figure(f"replay_{name}", f"replay_{name}", "cpu", what, NULL, also=("held",))
            for name, (_, what) in _REPLAYED.items()
        ),
    ),
)
