"""The metrics: how a recorded sample becomes one number. Pure; samples are plain dictionaries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """A named number of a sample, its unit and its good direction."""

    unit: str
    better: Literal["lower", "higher"]
    of: Callable[[Row], float | None]


def _per_op(row: Row, amount: float | None, scale: float) -> float | None:
    ops = row["result"].get("ops")
    return amount * scale / ops if amount is not None and ops else None


def _timed_user(row: Row) -> float | None:
    return _per_op(row, row["result"].get("user_s"), 1e9)


def _timed_cpu(scale: float) -> Callable[[Row], float | None]:
    """User and system time together: the kernel divides them by its ticks, the sum is exact."""

    def of(row: Row) -> float | None:
        user, system = row["result"].get("user_s"), row["result"].get("sys_s")
        return None if user is None or system is None else _per_op(row, user + system, scale)

    return of


def _counted(event: str) -> Callable[[Row], float | None]:
    return lambda row: _per_op(row, row.get(event), 1.0)


def _timed_wall(scale: float) -> Callable[[Row], float | None]:
    return lambda row: _per_op(row, row["result"].get("seconds"), scale)


def _process_cpu(row: Row) -> float | None:
    return _per_op(row, row["user_s"] + row["sys_s"], 1e9)


def _peak_rss(row: Row) -> float | None:
    kib = row.get("max_rss_kb")
    return kib / 1024 if kib else None


def _idle_rss(row: Row) -> float | None:
    return row["result"].get("rss_kb")


def _left(row: Row) -> float | None:
    """What the process still holds of its peak; what is freed lazily is the kernel's to take."""
    after, lazy, peak = (row["result"].get(key) for key in ("after_kb", "after_lazy_kb", "peak_kb"))
    return None if after is None or lazy is None or not peak else (after - lazy) / peak


def _held(row: Row) -> float | None:
    """Resident bytes per byte of live blocks, the mean over time."""
    return row["result"].get("held")


def _of_calls(name: str) -> Callable[[Row], float | None]:
    return lambda row: row["result"].get(f"{name}_ns")


# Of single calls: the longest of half of them, of 99 in 100 and so on, and of all.
LATENCIES = tuple(
    f"{call}_{share}"
    for call in ("malloc", "free")
    for share in ("p50", "p99", "p999", "p9999", "max")
)

METRICS: dict[str, Metric] = {
    "user_ns": Metric("ns user CPU/op", "lower", _timed_user),
    "user_cycles": Metric("user cycles/op", "lower", _counted("cycles")),
    "user_instructions": Metric("user instructions/op", "lower", _counted("instructions")),
    "cpu_ns": Metric("ns CPU/op", "lower", _timed_cpu(1e9)),
    "cpu_us": Metric("µs CPU/op", "lower", _timed_cpu(1e6)),
    "wall_ns": Metric("ns/op", "lower", _timed_wall(1e9)),
    "wall_us": Metric("µs/op", "lower", _timed_wall(1e6)),
    "process_ns": Metric("ns process CPU/op", "lower", _process_cpu),
    "peak_rss": Metric("MiB", "lower", _peak_rss),
    "idle_rss": Metric("KiB", "lower", _idle_rss),
    "left": Metric("share", "lower", _left),
    "held": Metric("× live", "lower", _held),
    **{name: Metric("ns", "lower", _of_calls(name)) for name in LATENCIES},
}


def value(key: str, row: Row) -> float | None:
    """The metric of a sample, or None where the sample failed or does not carry it."""
    if row.get("error") or not row.get("result"):
        return None
    return METRICS[key].of(row)
