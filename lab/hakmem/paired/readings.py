"""The figures read off one sample of a comparison: a benchmark's own, or what a command cost."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hakmem.errors import LabError
from hakmem.process.sample import Sample, counters
from hakmem.suite import LATENCIES, SUITE, Figure

Better = Literal["lower", "higher"]
Of = Callable[[Sample], float | None]


def _said(name: str) -> Of:
    """A number that the benchmark itself states."""
    return lambda sample: sample.stated(name)


def _per_op(of: Of, scale: float = 1.0) -> Of:
    def number(sample: Sample) -> float | None:
        amount, ops = of(sample), sample.stated("ops")
        return amount * scale / ops if amount is not None and ops else None

    return number


def _cpu(sample: Sample) -> float | None:
    """User and system time, seconds: the kernel divides them by its ticks, the sum is exact."""
    user, system = (sample.stated(key) for key in ("user_s", "sys_s"))
    return None if user is None or system is None else user + system


def _left(sample: Sample) -> float | None:
    """The share of its peak that the process still holds; lazily freed pages do not count."""
    names = ("after_kb", "after_lazy_kb", "peak_kb")
    after, lazy, peak = (sample.stated(key) for key in names)
    return None if after is None or lazy is None or not peak else (after - lazy) / peak


# Figures of a benchmark by the names that a user knows: the unit, and the function that reads it
# off a sample. Lower is better in all of them. `held` is resident bytes per byte of live blocks,
# the mean over time.
OF_BENCH: dict[str, tuple[str, Of]] = {
    "user": ("ns user CPU/op", _per_op(_said("user_s"), 1e9)),
    "cpu": ("ns CPU/op", _per_op(_cpu, 1e9)),
    "cycles": ("user cycles/op", _per_op(lambda s: s.cycles)),
    "instructions": ("user instructions/op", _per_op(lambda s: s.instructions)),
    "wall": ("ns/op", _per_op(_said("seconds"), 1e9)),
    "rss": ("MiB", lambda s: (s.max_rss_kb or 0) / 1024 or None),
    "idle": ("KiB", _said("rss_kb")),
    "left": ("share", _left),
    "held": ("× live", _said("held")),
    **{name: ("ns", _said(f"{name}_ns")) for name in LATENCIES},
}
# Figures that only the table of all benchmarks has.
OF_FIGURE: dict[str, tuple[str, Of]] = {
    "cpu_us": ("µs CPU/op", _per_op(_cpu, 1e6)),
    "wall_us": ("µs/op", _per_op(_said("seconds"), 1e6)),
    "process_ns": ("ns process CPU/op", _per_op(lambda s: s.user_s + s.sys_s, 1e9)),
}
# Figures of a command, whose seconds and bytes are measured from outside.
OF_COMMAND: dict[str, tuple[str, Of]] = {
    "user": ("s", lambda s: s.user_s),
    "cpu": ("s", lambda s: s.user_s + s.sys_s),
    "cycles": ("cycles", lambda s: s.cycles),
    "instructions": ("instructions", lambda s: s.instructions),
    "wall": ("s", lambda s: s.wall_s),
    "rss": ("MiB", lambda s: s.max_rss_kb / 1024 if s.max_rss_kb else None),
    "mbs": ("MB·s", lambda s: s.memory_mb_s),
    "quiet": ("MiB", lambda s: s.quiet_kb / 1024 if s.quiet_kb else None),
    "faults": ("faults", lambda s: s.minflt + s.majflt),
    "sys": ("s", lambda s: s.sys_s),
}
WORDS = {
    "user": "user CPU time",
    "cpu": "CPU time",
    "cycles": "user cycles",
    "instructions": "user instructions",
    "wall": "wall time",
    "rss": "peak memory",
    "idle": "idle memory",
    "left": "memory left after the peak",
    "held": "memory held over time",
    "mbs": "memory over time",
    "quiet": "memory after the quiet",
    "faults": "page faults",
    "sys": "system CPU time",
    **{name: f"{name.replace('_', ' ')} of single calls" for name in LATENCIES},
    "wall_us": "wall time",
    "cpu_us": "CPU time",
    "process_ns": "CPU time of the whole process",
}
COUNTED = ("cycles", "instructions")
MEMORY = ("rss", "idle", "left", "held", "mbs", "quiet")
# Words of the readings that may enter a mean of CPU times, or of times. The tail of single calls
# may not: it is not the time that a load takes.
OF_CPU = frozenset(WORDS[name] for name in ("user", "cpu", "cycles", "cpu_us", "process_ns"))
OF_TIME = OF_CPU | {WORDS["wall"]}
# Benchmarks whose operations are mostly work of the kernel, so that user cycles would miss it.
_KERNEL_WORK = ("huge", "large", "realloc", "thread_churn", "startup")


class Unreadable(Exception):
    """A sample that ran but does not carry the figure asked for."""


@dataclass(frozen=True)
class Reading:
    """One figure: its short name, unit, better direction, and how to read it off a sample."""

    name: str
    unit: str
    better: Better
    words: str
    of: Of
    in_output: bool = False  # read off the output, of which later only the end is kept

    def value(self, sample: Sample) -> float:
        """The figure, above 0; Unreadable, with the reason, where it is missing or not above 0."""
        found = self.of(sample)
        if found is None:
            raise Unreadable(f"no figure for {self.words} in this sample")
        if not found > 0:
            raise Unreadable(f"{self.words} is {found:g}: a ratio needs figures above 0")
        return found

    @property
    def sign(self) -> int:
        """The factor from ln B - ln A to a gain."""
        return -1 if self.better == "lower" else 1


def choose(metric: str | None, bench: str | None, better: Better = "lower") -> Reading:
    """The reading named by `metric`, or the default one of the benchmark or, where `bench` is None,
    of a command. LabError where it is unknown, or where its counters cannot be read."""
    name = metric or default_for(bench)
    if name.startswith("regex:"):
        return _by_pattern(name.removeprefix("regex:"), better)
    known = OF_BENCH if bench else OF_COMMAND
    if name not in known:
        raise LabError(f"unknown metric: {name}; known here: {', '.join(known)}, regex:PATTERN")
    why = counters() if name in COUNTED else None
    if why is not None:
        other = ", or count them by `hakmem hotpath --lib A --lib B`" * (name == "instructions")
        raise LabError(f"{WORDS[name]} cannot be read: {why}; take --metric cpu{other}")
    if bench is None:
        unit, of = OF_COMMAND[name]
        return Reading(name, unit, "lower", WORDS[name], of)
    return _of_bench(name)


def of_figure(figure: Figure) -> Reading:
    """The reading in the table of all benchmarks: the counted one where counters can be read."""
    return _of_bench(figure.counted if figure.counted and counters() is None else figure.metric)


def _of_bench(name: str) -> Reading:
    unit, of = (OF_BENCH | OF_FIGURE)[name]
    words = WORDS[name]
    return Reading(
        name, unit, "lower", words, lambda s: of(s) if s.result and not s.error else None
    )


def default_for(bench: str | None) -> str:
    """The default metric: that of the suite for a benchmark about memory or single calls; else
    cycles where they can be counted and the kernel does little of the work; else CPU time."""
    for figure in SUITE.figures:
        if figure.name == bench and figure.metric in (*MEMORY, *LATENCIES):
            return figure.metric
    counted = bench is not None and bench not in _KERNEL_WORK and counters() is None
    return "cycles" if counted else "cpu"


def _by_pattern(pattern: str, better: Better) -> Reading:
    """Reads the last match in all output: its first group or, without groups, the whole match."""
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise LabError(f"not a regular expression: {pattern!r}: {error}") from None

    def of(sample: Sample) -> float:
        if sample.matched is not None:
            return sample.matched
        matches = list(compiled.finditer(sample.output))
        if not matches:
            raise Unreadable(f"nothing in its output matches {pattern!r}")
        text = matches[-1][1 if compiled.groups else 0]
        try:
            return float(text.replace(",", ""))
        except (AttributeError, ValueError):
            raise Unreadable(f"{pattern!r} matched {text!r}, which is not a number") from None

    return Reading(f"regex:{pattern}", "as printed", better, f"“{pattern}”", of, in_output=True)
