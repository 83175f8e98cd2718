"""The suite: which programs are run (commands) and which numbers are read off them (figures)."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hakmem.errors import LabError
from hakmem.project import bench_dir

ReferenceName = Literal["null floor", "BenchFast", "empty library"]

NULL: ReferenceName = "null floor"
FAST: ReferenceName = "BenchFast"
EMPTY: ReferenceName = "empty library"

# Percentiles and the maximum of the times of single calls.
LATENCIES = tuple(
    f"{call}_{share}"
    for call in ("malloc", "free")
    for share in ("p50", "p99", "p999", "p9999", "max")
)


@dataclass(frozen=True)
class Reference:
    """A process that is measured beside the libraries of a command, in the same rounds.

    It runs without an allocator under test: with further arguments, or with an empty library.
    """

    name: ReferenceName
    arguments: tuple[str, ...] = ()
    preload: str | None = None


@dataclass(frozen=True)
class Command:
    """One program and its arguments; `{n}` is the amount of work, `{trace}` the file `trace` in the
    folder of the benchmarks.

    `sample` is the amount of work of one of many short processes: as small as it can be without the
    first touch of its pages deciding the figure.

    A command that takes long is run only `by_name`, and says how many `seconds` a run takes. If it
    only `starts` another program, it does nothing worth counting itself.
    """

    name: str
    executable: str
    arguments: tuple[str, ...]
    sample: int = 1
    threads: int = 1
    references: tuple[Reference, ...] = ()
    starts: str = ""
    by_name: bool = False
    seconds: float = 0
    trace: str = ""

    def argv(self, amount: int, reference: Reference | None = None) -> tuple[str, ...]:
        trace = bench_dir() / self.trace
        own = tuple(argument.format(n=amount, trace=trace) for argument in self.arguments)
        extra = reference.arguments if reference else ()
        return (str(bench_dir() / self.executable), *own, *extra)


@dataclass(frozen=True)
class Figure:
    """A number of a command: the metric, and the reference whose figure is subtracted first.

    `counted` is the metric used instead where the machine can count user cycles; `also` are further
    metrics, read off the same samples.
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
    """Commands with the figures read off them; the command of every figure is in it."""

    commands: tuple[Command, ...]
    figures: tuple[Figure, ...]

    def command(self, name: str) -> Command:
        """The command of exactly that name, which must be there."""
        return next(command for command in self.commands if command.name == name)

    def select(self, names: Sequence[str]) -> "Suite":
        """The part named: a figure, a command, a family's first words, or a shell pattern.

        Without names, all but the commands that are run only by name; a pattern does not select
        those either. LabError: unknown.
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


def _alone(
    name: str,
    line: str,
    sample: int,
    metric: str,
    what: str,
    floor: str | None = None,
    counted: str | None = None,
    also: tuple[str, ...] = (),
    **more: Any,
) -> tuple[Command, Figure]:
    """A command, given as the `line` of a program and its arguments, and its only figure, which has
    the same name."""
    program, *arguments = line.split()
    command = Command(name, f"bench_{program}", tuple(arguments), sample, **more)
    return command, Figure(name, name, metric, what, floor, counted, also)


# fmt: off
def _random_mixed(slots: int, sample: int) -> tuple[Command, Figure]:
    return _alone(f"random_mixed_{slots}", f"random_mixed {{n}} {slots} 1234567", sample, "cpu",
                  f"16–1039 B at random over {slots} slots, CPU above the null floor",
                  floor=NULL, counted="cycles", references=_FLOORS)


def _latency(threads: int) -> tuple[Command, Figure]:
    return _alone(f"latency_{threads}", f"latency --threads={threads} --ops={{n}}", 1_000_000,
                  "free_p9999", "every call timed; one free in 10 000 takes longer",
                  also=tuple(other for other in LATENCIES if other != "free_p9999"),
                  threads=threads, by_name=True)


def _replay(name: str, often: int, what: str) -> tuple[Command, Figure]:
    """A real program's trace, repeated so often that a sample has some four million operations."""
    return _alone(f"replay_{name}", "replay {trace} --points --repeat={n}", often, "cpu",
                  f"{what}, replayed", floor=NULL, also=("held",), references=_FLOORS[:1],
                  by_name=True, trace=f"traces/{name}.streams")


_MIXES = (
    _random_mixed(256, 2_000_000),
    _random_mixed(400, 2_000_000),
    _random_mixed(8192, 2_000_000),
    _random_mixed(100_000, 4_000_000),
)

# The figure of one thread is its CPU time, which the kernel counts exactly and no other process
# adds to; that of several threads is the time that the user waits for. Long operations are given in
# microseconds. The peaks wait so long because some allocators give memory back only then.
_OTHERS = (
    _alone("batch_lifo", "batch --order=lifo --rounds={n}", 200, "cpu",
           "20 000 blocks of 64 B allocated, then freed last first"),
    _alone("batch_fifo", "batch --order=fifo --rounds={n}", 200, "cpu",
           "20 000 blocks of 64 B allocated, then freed first first"),
    _alone("prodcons", "prodcons --items={n}", 2_000_000, "wall",
           "one thread allocates, another frees", threads=2),
    _alone("larson_1", "larson --threads=1 --ops={n}", 4_000_000, "cpu",
           "a server's blocks replaced at random"),
    _alone("larson_2", "larson --threads=2 --ops={n}", 6_000_000, "wall",
           "a server's blocks replaced at random", threads=2),
    _alone("larson_16", "larson --threads=16 --slots=1000 --ops={n}", 8_000_000, "wall",
           "a server's blocks replaced at random, more threads than processors", threads=16),
    _alone("larson_generations", "larson --threads=2 --generations=50 --ops={n}", 4_000_000, "wall",
           "threads die and leave their blocks to their successors", threads=2),
    _alone("burst", "burst --batches={n}", 1500, "wall",
           "bursts of equal blocks, freed by another thread", threads=2),
    _alone("containers", "containers --rounds={n}", 100_000, "wall",
           "maps, queues, strings and vectors of C++", threads=2),
    _alone("huge", "huge --ops={n}", 200, "cpu_us",
           "5–25 MiB blocks replaced at random and touched"),
    _alone("large", "large --ops={n}", 10_000, "cpu_us",
           "40 KiB–2 MiB blocks replaced at random"),
    _alone("thread_churn", "thread_churn --total={n}", 2000, "wall_us",
           "short-lived threads that allocate a little"),
    _alone("realloc", "realloc --rounds={n}", 6, "cpu_us",
           "blocks that grow and shrink"),
    _alone("aligned", "aligned --ops={n}", 2_000_000, "cpu",
           "aligned blocks of mixed alignment"),
    _alone("startup", "startup --count={n}", 40, "wall_us",
           "starting a program, above an empty preloaded library", floor=EMPTY,
           references=(Reference(EMPTY, preload="bench_empty.so"),), starts="/bin/true"),
    _alone("idle_rss", "idle_rss", 1, "idle",
           "memory of a process that does nothing"),
    _alone("peak", "peak --wait=10", 1, "left",
           "memory left when most was freed, as a share; 16–1024 B", by_name=True, seconds=20),
    _alone("peak_large", "peak --wait=10 --min=1024 --max=32768", 1, "left",
           "the same; 1–32 KiB", by_name=True, seconds=20),
    _alone("pool", "pool", 1, "left",
           "the same; 16 busy threads have freed all, and sleep", threads=16, by_name=True,
           seconds=15),
    _alone("cache", "cache --ops={n}", 2_000_000, "held",
           "memory held over time by a cache whose sizes shift", by_name=True, seconds=9),
    _alone("threads", "threads --ops={n}", 4000, "held",
           "memory held by 2000 threads with 64 KiB each in use", by_name=True, seconds=3),
    _latency(1),
    _latency(2),
    _replay("jq", 42, "jq groups records"),
    _replay("lua", 8, "lua counts and joins the words of a text"),
    _replay("perl", 24, "perl does the same"),
    _replay("sqlite", 44, "python and sqlite fill a database"),
    _replay("xmllint", 21, "xmllint formats a document"),
)
# fmt: on

SUITE = Suite(
    commands=tuple(command for command, _ in (*_MIXES, *_OTHERS)),
    figures=(
        *(figure for _, figure in _MIXES),
        Figure(
            "random_mixed_100000_process",
            "random_mixed_100000",
            "process_ns",
            "the whole process, user and system CPU, nothing subtracted",
        ),
        *(figure for _, figure in _OTHERS),
    ),
)
