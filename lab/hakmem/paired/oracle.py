"""The honest oracle: the best rival of a row, chosen on half of its blocks, scored on the others.

Pure. Whoever picks the best of several noisy rivals and scores it on the same data picks luck too:
of eight equal rivals the "best" is better than all of them. Chosen on the even blocks and scored on
the odd ones, and the other way round, it is as good as it is.

The bias that is left favours the subject: where rivals are as near to each other as the noise is
wide, half of the blocks choose now and then one that is not the best, and never a better one than
the best. Simulated, that is half a per cent where blocks are apart by five, and nothing where one
rival is clearly the best, or where all are equal. All rows share it: a mean over many of them has
it whole, while its interval narrows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from hakmem import stats
from hakmem.lazy import np

ORACLE = "the oracle"  # as rivals are named
KIND = "95 % CI, split halves"
WIDE = 1.96  # standard errors from the middle of an interval to its ends
RESAMPLES = 1000
FEWEST = 4  # blocks of a row


@dataclass(frozen=True)
class Score:
    """ln (subject ÷ oracle) of one row, and its standard error from resampled blocks."""

    log: float
    error: float

    @property
    def interval(self) -> stats.Interval:
        """As a ratio, at 95 %."""
        wide = WIDE * self.error
        return stats.Interval(self.log, self.log - wide, self.log + wide, KIND).exp()


def score(costs: Sequence[Sequence[float]]) -> Score | None:
    """Of one row. `costs` are ln (subject ÷ rival), or turned round where more is better, rivals by
    blocks, NaN where a block has none.

    The error is that of whole repetitions: blocks drawn again within each half, the rival chosen
    again; widened for what so few blocks hide, by n ÷ (n − 1) of a half as in a sample's variance,
    and by Student's t over the normal quantile. None where there is no rival or are too few blocks.
    """
    table = np.asarray(costs, dtype=float)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < FEWEST:
        return None
    known = np.ma.masked_invalid(_merged(table))
    halves = [np.arange(start, known.shape[1], 2) for start in (0, 1)]
    rng = np.random.default_rng(1)
    log = _crossed(known, halves[0][None], halves[1][None])[0]
    drawn = [rng.choice(half, (RESAMPLES, len(half))) for half in halves]
    again = _crossed(known, *drawn).compressed()
    if log is np.ma.masked or len(again) < 2:
        return None
    judged = _judged(known, halves)
    if min(judged) < 2:
        return None
    few = math.sqrt(min(judged) / (min(judged) - 1)) * _few(sum(judged) - 2)
    return Score(float(log), float(few * again.std(ddof=1)))


def error(logs: Sequence[float]) -> float:
    """The standard error of a row's mean over its blocks, NaN where one has none; neighbours merged
    as for its interval, and widened for few of them as above."""
    values = stats.merge_neighbours([log for log in logs if math.isfinite(log)])
    return _few(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def _few(free: int) -> float:
    """Student's t with so many degrees of freedom over the normal quantile."""
    from scipy.stats import t  # here, because every command would wait a second for it

    return float(t.ppf(0.975, free)) / WIDE


def _merged(table: np.ndarray) -> np.ndarray:
    """Adjacent blocks as one where neighbours are correlated, as in protocol.ends; here by most
    rivals, for blocks are drawn for all of them at once."""
    rows = [row[np.isfinite(row)] for row in table]
    lags = [float(stats.lag1(row)) for row in rows if len(row) >= FEWEST]
    if table.shape[1] < 2 * FEWEST or not lags or median(lags) <= stats.CORRELATED:
        return table
    return stats.pairs(table)


def _judged(known: np.ma.MaskedArray, halves: Sequence[np.ndarray]) -> list[int]:
    """How many blocks of each half its score is from: a rival that was decided early has few."""
    one, other = halves
    best = [known[:, half].mean(axis=1).argmax() for half in (other, one)]
    return [int(known[chosen, half].count()) for chosen, half in zip(best, halves, strict=True)]


def _crossed(known: np.ma.MaskedArray, one: np.ndarray, other: np.ndarray) -> np.ma.MaskedArray:
    """Chosen on the one, scored on the other, both ways, averaged; blocks by repetition."""
    # Of each rival in each repetition, over the blocks that have it.
    first, second = (known[:, picks].mean(axis=-1) for picks in (one, other))
    again = np.arange(len(one))
    scores = second[first.argmax(axis=0), again], first[second.argmax(axis=0), again]
    return (scores[0] + scores[1]) / 2


def mean(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The geometric mean over rows of metrics of one kind, the rows being what they are; with its
    ends. Of an interval over several looks and rivals, which is wider, the `error` counts; older
    records do not have it, and their widths are taken as they stand."""
    logs = [math.log(entry["value"]) for entry in entries]
    errors = [e.get("error", math.log(e["high"] / e["low"]) / (2 * WIDE)) for e in entries]
    found = Score(fmean(logs), math.hypot(*errors) / len(entries)).interval
    ends = {"value": found.estimate, "low": found.low, "high": found.high}
    kind = "95 % CI" if all("error" in entry for entry in entries) else entries[0]["kind"]
    return {**ends, "unit": "ratio", "kind": kind, "rows": len(entries)}
