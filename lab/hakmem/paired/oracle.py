"""The honest oracle: the best rival of a row, chosen on half of its blocks, scored on the others.

Pure. To pick the best of several noisy rivals and score it on the same data is to pick luck too: of
eight equal rivals the "best" looks better than all of them. A rival that is chosen on the even
blocks and scored on the odd ones, and the other way round, looks as good as it is.

The remaining bias favours the subject: where rivals differ by no more than the noise, half of the
blocks sometimes choose a rival that is not the best, and never one that is better than the best. In
a simulation the bias is half a per cent where blocks differ by five, and none where one rival is
clearly the best, or where all are equal. All rows share it: a mean over many rows has all of it,
while its interval narrows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median, stdev
from typing import Any

from hakmem import stats
from hakmem.lazy import np

ORACLE = "the oracle"  # its name where a rival's stands
KIND = "95 % CI, split halves"
LEVEL = 0.05
WIDE = 1.96  # standard errors from the middle of an interval at LEVEL to its ends
_quantile = NormalDist().inv_cdf
RESAMPLES = 1000
FEWEST = 4  # blocks without which a row has no score


@dataclass(frozen=True)
class Score:
    """ln (subject ÷ oracle) of one row, and its standard error from resampled blocks."""

    log: float
    error: float

    @property
    def interval(self) -> stats.Interval:
        """The 95 % interval, as a ratio."""
        wide = WIDE * self.error
        return stats.Interval(self.log, self.log - wide, self.log + wide, KIND).exp()


def score(costs: Sequence[Sequence[float]]) -> Score | None:
    """The score of one row; None where there is no rival or are too few blocks. `costs` has a row
    per rival and a column per block: ln (subject ÷ rival), negated where more is better; NaN where
    a block lacks the rival.

    The error is the standard deviation over RESAMPLES repetitions: blocks are drawn again within
    each half, and the rival is chosen again. It is widened for few blocks: by n ÷ (n − 1) of a half
    as in a sample's variance, and by Student's t over the normal quantile.
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
    """The standard error of a row's mean over its blocks (NaN where one has none): neighbours
    merged as for its interval, widened for few blocks as in `score`."""
    values = stats.merge_neighbours([log for log in logs if math.isfinite(log)])
    return _few(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def _few(free: int) -> float:
    """Student's t with `free` degrees of freedom at 97.5 %, over the normal quantile."""
    from scipy.stats import t  # imported late: it takes a second

    return float(t.ppf(0.975, free)) / WIDE


def _merged(table: np.ndarray) -> np.ndarray:
    """Merges adjacent blocks in pairs where neighbours are correlated, as protocol.ends does. Here
    the median over the rivals decides, because blocks are drawn for all of them at once."""
    rows = [row[np.isfinite(row)] for row in table]
    lags = [float(stats.lag1(row)) for row in rows if len(row) >= FEWEST]
    if table.shape[1] < 2 * FEWEST or not lags or median(lags) <= stats.CORRELATED:
        return table
    return stats.pairs(table)


def _judged(known: np.ma.MaskedArray, halves: Sequence[np.ndarray]) -> list[int]:
    """How many blocks of each half the score is made from: few if a rival was decided early."""
    one, other = halves
    best = [known[:, half].mean(axis=1).argmax() for half in (other, one)]
    return [int(known[chosen, half].count()) for chosen, half in zip(best, halves, strict=True)]


def _crossed(known: np.ma.MaskedArray, one: np.ndarray, other: np.ndarray) -> np.ma.MaskedArray:
    """Chooses the rival on one half, scores it on the other, both ways, and averages the two
    scores. `one` and `other` are the numbers of blocks, one row per repetition."""
    # Means by rival and repetition, over the blocks that have the rival.
    first, second = (known[:, picks].mean(axis=-1) for picks in (one, other))
    again = np.arange(len(one))
    scores = second[first.argmax(axis=0), again], first[second.argmax(axis=0), again]
    return (scores[0] + scores[1]) / 2


def mean(entries: Sequence[Mapping[str, Any]], alpha: float = LEVEL) -> dict[str, Any]:
    """The geometric mean, with its interval at 1 - `alpha`, over rows of metrics of one kind; the
    rows are fixed, not a sample. An entry's interval over several looks and rivals is wider: its
    `error` is used instead. Older records have none, and the widths of their intervals are used as
    they are.
    """
    logs = [math.log(entry["value"]) for entry in entries]
    errors = [e.get("error", math.log(e["high"] / e["low"]) / (2 * WIDE)) for e in entries]
    wider = _quantile(1 - alpha / 2) / _quantile(1 - LEVEL / 2)
    found = Score(fmean(logs), wider * math.hypot(*errors) / len(entries)).interval
    ends = {"value": found.estimate, "low": found.low, "high": found.high}
    kind = "95 % CI" if all("error" in entry for entry in entries) else entries[0]["kind"]
    shared = {"alpha": alpha} if alpha != LEVEL else {}
    return {**ends, "unit": "ratio", "kind": kind, "rows": len(entries), **shared}


def means_of_all(entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The means against each of several rivals, of which the worst will be looked at: they share
    one error rate by Holm's rule, and a mean whose interval lacks 1 is settled."""
    return stats.holm(
        entries,
        LEVEL,
        lambda rival, alpha: mean(entries[rival], alpha),
        lambda found: not found["low"] <= 1 <= found["high"],
    )
