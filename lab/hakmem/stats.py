"""The statistics of comparisons: pure functions over numbers, no I/O.

Ratios are handled as natural logarithms, where a gain and the equal loss have the same size.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar, cast

from hakmem.lazy import np

T = TypeVar("T")

CORRELATED = 0.2  # lag1 above which neighbours count as correlated


@dataclass(frozen=True)
class Interval:
    """An estimate with its ends. `kind` says what the ends are: an interval, or a "range"."""

    estimate: float
    low: float
    high: float
    kind: str

    def exp(self) -> Interval:
        """From the log scale back to a ratio."""
        return Interval(math.exp(self.estimate), math.exp(self.low), math.exp(self.high), self.kind)


def variation(values: Sequence[float]) -> float:
    """Standard deviation ÷ mean."""
    return statistics.stdev(values) / statistics.fmean(values)


def walsh(values: np.ndarray) -> np.ndarray:
    """The Walsh averages of each row: all pairwise means (x_i + x_j) / 2 with i <= j."""
    i, j = np.triu_indices(values.shape[-1])
    return cast(np.ndarray, (values[..., i] + values[..., j]) / 2)


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the Walsh averages: the location estimate that belongs to Wilcoxon's test."""
    return float(np.median(walsh(np.asarray(values, dtype=float))))


def signed_rank_cdf(n: int) -> np.ndarray:
    """P(W <= w) of Wilcoxon's signed-rank sum, w = 0 … n(n+1)/2, under the null. Exact: each rank
    is in the sum with probability 1/2."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, n + 1):
        counts[rank:] = counts[rank:] / 2 + counts[: len(counts) - rank] / 2
        counts[:rank] /= 2
    return np.cumsum(counts)


@cache
def rank(count: int, alpha: float) -> int:
    """k, where the k-th Walsh averages from both sides end the interval at level 1 - `alpha`; 0
    where `count` values are too few for that level."""
    return int(np.searchsorted(signed_rank_cdf(count), alpha / 2, side="right"))


def lag1(values: np.ndarray) -> np.ndarray:
    """Correlation of each value with the next, along the last axis; 0 for a constant series."""
    around = values - values.mean(axis=-1, keepdims=True)
    total = (around**2).sum(axis=-1)
    shared = (around[..., :-1] * around[..., 1:]).sum(axis=-1)
    return np.divide(shared, total, out=np.zeros_like(total), where=total > 0)


def pairs(values: np.ndarray) -> np.ndarray:
    """Means of neighbours, two by two along the last axis; an odd one at the end is dropped."""
    half = values.shape[-1] // 2
    return cast(np.ndarray, values[..., : 2 * half].reshape(*values.shape[:-1], half, 2).mean(-1))


def merge_neighbours(values: Sequence[float]) -> list[float]:
    """The `pairs` if the values' lag1 is above CORRELATED; else unchanged."""
    array = np.asarray(values, dtype=float)
    if len(values) < 4 or lag1(array) <= CORRELATED:
        return list(values)
    return [float(value) for value in pairs(array)]


def holm(
    names: Iterable[str],
    alpha: float,
    judge: Callable[[str, float], T],
    settled: Callable[[T], bool],
    family: int = 0,
) -> dict[str, T]:
    """Holm's rule, which keeps the error rate of several hypotheses together at `alpha`.

    With m of them open `judge` judges each at alpha / m; those that are `settled` leave, and the
    rest are judged again. `family` counts the open hypotheses where there are more than `names`.
    """
    waiting = list(names)
    done: dict[str, T] = {}
    count = max(family, len(waiting))
    while waiting:
        found = {name: judge(name, alpha / (count - len(done))) for name in waiting}
        fresh = {name: finding for name, finding in found.items() if settled(finding)}
        if not fresh:
            return done | found
        done |= fresh
        waiting = [name for name in waiting if name not in fresh]
    return done
