"""What `hakmem hotpath` runs: one workload at two amounts of work, of which the difference counts.

Everything before the timed part, and the first `small` operations of it, is the same in both
processes and drops out of the difference. Start-up and warm-up are therefore not estimated but
excluded: what remains is what the later operations cost, in a process that is already warm.
random_mixed touches its memory in an untimed pass that grows with the amount; --warmup makes that
pass of the smaller run as long, so that it drops out too.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hakmem import project
from hakmem.errors import LabError
from hakmem.paired import work as paired_work
from hakmem.paired.cells import Cell
from hakmem.paired.work import Work
from hakmem.process import children, provenance
from hakmem.process.sample import Process, Sample, take
from hakmem.suite import SUITE

CLASSIC = ("random_mixed 16-1024", "random_mixed 129-1024")
_SIZES = re.compile(r"random_mixed[ _](\d+)[-_–](\d+)")
_OF_SIZES = "random_mixed_400"  # the slots of the classic cells
# Benchmarks that run on any number of threads: the benchmark of the suite, the arguments that say
# the number, and the two amounts for each thread.
_ON_THREADS = re.compile(r"(larson|burst|thread_churn|buffers) on (\d+)")
_OF_THREADS = {
    "larson": ("larson_2", ("--slots=500", "--threads={}"), (1000, 5000)),
    "burst": ("burst", ("--style=both", "--threads={}"), (2, 6)),
    "buffers": ("larson_2", ("--slots=16", "--min=40K", "--max=256K", "--threads={}"), (500, 2500)),
    "thread_churn": ("thread_churn", ("--alive={}",), (4, 16)),
}
_MIXED, _MIXED_OPS = "bench_random_mixed", 10_000_000
AMOUNT = "{n}"
TIMEOUT_S = 1800.0

T = TypeVar("T")


@dataclass(frozen=True)
class Amounts:
    """Two amounts of work, in the unit of the program's own argument."""

    small: int
    large: int

    def __post_init__(self) -> None:
        if not 0 < self.small < self.large:
            raise LabError(f"--amounts takes SMALL,LARGE with 0 < SMALL < LARGE, not {self}")

    def __str__(self) -> str:
        return f"{self.small},{self.large}"


@dataclass(frozen=True)
class Workload:
    """A work at two amounts; `more` are arguments of a benchmark behind its own.

    `given` are amounts that the user chose. A user's command without {n} is one operation: its
    whole run, start-up included.
    """

    name: str
    work: Work
    more: tuple[str, ...] = ()
    given: Amounts | None = None

    @property
    def whole(self) -> bool:
        """Whether a whole run is measured, and not a difference."""
        return self.work.command is None and not any(AMOUNT in a for a in self.work.arguments)

    @property
    def unit(self) -> str:
        return "run" if self.whole else "operation"

    def amounts(self, simulated: bool) -> Amounts | None:
        """The two amounts; None where the whole run is measured. A simulated processor is about
        fifty times slower, so it gets less to do."""
        command = self.work.command
        if self.given or command is None:
            return self.given
        large = _MIXED_OPS if command.executable == _MIXED else command.sample
        large = large // 25 if simulated else large
        small = max(1, large // 4)
        return Amounts(small, max(small + 1, large))

    def argv(self, amount: int, amounts: Amounts | None) -> tuple[str, ...]:
        """The command line for one of the amounts."""
        command = self.work.command
        if command is None:
            return tuple(a.replace(AMOUNT, str(amount)) for a in self.work.arguments)
        even: tuple[str, ...] = ()
        if command.executable == _MIXED and amounts:
            even = (f"--warmup={amounts.large // 10 - amount // 10}",)
        return (*command.argv(amount), *self.more, *even)

    def process(self, cell: Cell, amount: int, amounts: Amounts | None, padding: int) -> Process:
        """One process of the workload under a cell; the caller puts its tool around it."""
        process = self.work.process(cell, padding, counted=False)
        argv = self.argv(amount, amounts)
        return replace(process, argv=argv, timeout_s=TIMEOUT_S, counted=False)

    def entry(self, simulated: bool) -> dict[str, object]:
        """The entry of a record, in the form in which the audit looks for a definition."""
        command = self.work.command
        uses = {"counted": self.amounts(simulated), "page faults": self.amounts(False)}
        entry = {
            "arguments": [*self.work.arguments, *self.more],
            "amounts": {use: [a.small, a.large] for use, a in uses.items() if a},
            "definition": provenance.definition(command, project.source_dir()) if command else None,
            "sha256": self.work.sha256 or None,
        }
        return {"name": self.name, "works": {command.name if command else self.name: entry}}


def benchmark(name: str, given: Amounts | None = None) -> Workload:
    """A benchmark by name; `random_mixed 16-1024` is random_mixed_400 with those sizes."""
    more: tuple[str, ...] = ()
    if sizes := _SIZES.fullmatch(name):
        low, high = int(sizes[1]), int(sizes[2])
        if not 1 <= low <= high:
            raise LabError(f"{name}: the smallest size is above the largest")
        command, more = SUITE.command(_OF_SIZES), (str(low), str(high))
        name = f"random_mixed {low}-{high}"
    elif on := _ON_THREADS.fullmatch(name):
        family, threads = on[1], int(on[2])
        if not 1 <= threads <= 256:
            raise LabError(f"{family} runs on 1 to 256 threads, not on {threads}")
        of, arguments, (small, large) = _OF_THREADS[family]
        command, more = SUITE.command(of), tuple(a.format(threads) for a in arguments)
        given = given or Amounts(small * threads, large * threads)
        name = f"{family} on {threads}"
    else:
        command = paired_work.only(name)
        name = command.name
    if command.starts or not any(AMOUNT in a for a in command.arguments):
        raise LabError(f"{name} has no operations in its own process that could be counted")
    sha256 = paired_work.digest(command)
    return Workload(name, Work(command.name, command=command, sha256=sha256), more, given)


def own(argv: Sequence[str], given: Amounts | None = None, passed: Sequence[str] = ()) -> Workload:
    """The user's own command; {n} in it stands for the amount of work, which `given` must name."""
    found = children.program(argv[0]).resolve()
    scales = any(AMOUNT in a for a in argv)
    if scales and given is None:
        raise LabError(f"{AMOUNT} in the command needs --amounts SMALL,LARGE")
    if given and not scales:
        raise LabError(f"--amounts needs {AMOUNT} in the command, where the amount of work stands")
    with found.open("rb") as file:
        if file.read(2) == b"#!":
            raise LabError(
                f"{found} is a script, and only the program that is started is counted: "
                "name its interpreter, such as python3 SCRIPT"
            )
    return Workload(found.name, paired_work.own(argv, passed), given=given)


def amounts(text: str | None) -> Amounts | None:
    """The amounts that --amounts names; None where it is not given."""
    if text is None:
        return None
    small, _, large = text.partition(",")
    if not (small.strip().isdigit() and large.strip().isdigit()):
        raise LabError(f"--amounts takes SMALL,LARGE, such as 1000,5000, not {text!r}")
    return Amounts(int(small), int(large))


def metric(subject: str, what: str, cell: str) -> str:
    """The name of a figure in a record; hakmem as built needs no name of its own."""
    whose = "" if cell == "hakmem" else f" of {cell}"
    return f"{subject} {what}{whose}".replace("/", "-")


class ProgramFailed(LabError):
    """The measured program failed, or another allocator served it; the tool did not fail."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=1)


def run(
    tool: Sequence[str],
    workload: Workload,
    cell: Cell,
    amount: int,
    amounts: Amounts | None,
    padding: int,
) -> tuple[int, Sample]:
    """Runs one process, under a tool or alone; returns how many operations it timed, and the
    sample. ProgramFailed where it failed, or where its malloc was not the intended one."""
    process = replace(workload.process(cell, amount, amounts, padding), tool=tuple(tool))
    taken = take(Sample(workload.name), process)
    if taken.error is not None:
        raise ProgramFailed(taken.error)
    if workload.work.command is None:
        return amount, taken
    ops = taken.stated("ops")
    if not isinstance(ops, int) or ops <= 0:
        raise LabError(f"{workload.name} did not say how many operations it timed", status=1)
    return ops, taken


def difference(
    amounts: Amounts | None, one: Callable[[int], tuple[int, T]], nothing: T
) -> tuple[int, T, T]:
    """The operations that the larger run did more than the smaller one, and what was read after
    each; `one` runs an amount, and returns its operations and what it read.

    Without `amounts` the whole run is the operation: `nothing` stands for the smaller run. LabError
    where more work did no more operations.
    """
    if amounts is None:
        return 1, nothing, one(0)[1]
    (few, small), (many, large) = one(amounts.small), one(amounts.large)
    if many <= few:
        raise LabError(f"more work did not do more operations: {few}, then {many}", status=1)
    return many - few, small, large
