"""The metrics: how a sample becomes one number. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hakmem.process.sample import Sample

Of = Callable[["Sample"], float | None]


def _said(name: str) -> Of:
    """What the benchmark itself states."""
    return lambda sample: sample.stated(name)


def _per_op(of: Of, scale: float = 1.0) -> Of:
    def number(sample: Sample) -> float | None:
        amount, ops = of(sample), sample.stated("ops")
        return amount * scale / ops if amount is not None and ops else None

    return number


def _cpu(sample: Sample) -> float | None:
    """User and system time together: the kernel divides them by its ticks, the sum is exact."""
    user, system = (sample.stated(key) for key in ("user_s", "sys_s"))
    return None if user is None or system is None else user + system


def _left(sample: Sample) -> float | None:
    """What the process still holds of its peak; what is freed lazily is the kernel's to take."""
    names = ("after_kb", "after_lazy_kb", "peak_kb")
    after, lazy, peak = (sample.stated(key) for key in names)
    return None if after is None or lazy is None or not peak else (after - lazy) / peak


# Of single calls: the longest of half of them, of 99 in 100 and so on, and of all.
LATENCIES = tuple(
    f"{call}_{share}"
    for call in ("malloc", "free")
    for share in ("p50", "p99", "p999", "p9999", "max")
)

# The unit, and the number of a sample; of all of them the lower is the better one. Of a benchmark
# by the names that a user knows; `held` are resident bytes per byte of live blocks, the mean over
# time.
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
# And those that only the table of all benchmarks has.
OF_FIGURE: dict[str, tuple[str, Of]] = {
    "cpu_us": ("µs CPU/op", _per_op(_cpu, 1e6)),
    "wall_us": ("µs/op", _per_op(_said("seconds"), 1e6)),
    "process_ns": ("ns process CPU/op", _per_op(lambda s: s.user_s + s.sys_s, 1e9)),
}
