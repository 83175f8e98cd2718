"""What a soak's epochs say: drift, spread, tails, change points, the split of memory. Pure.

Epochs of one process describe that process and are never samples of anything else. Neighbouring
epochs resemble each other, so a regression through them finds trends that are not there; medians
of long blocks of epochs are nearly independent, and the drift is judged on those.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

from hakmem import stats
from hakmem.errors import LabError
from hakmem.lazy import np
from hakmem.soak import epochs_csv
from hakmem.soak.epochs_csv import Soak

METHOD = 2  # of this analysis, for records: raised when the same CSV gets another result

BLOCKS = 20
FEWER_BLOCKS = 10  # where the medians of neighbouring blocks are still correlated
WARM_UP_SHARE = 0.25
CV_GATE = 0.05

# The percentiles of each column on its slow side: low for rates, high for times.
SLOWEST_RATES = ("p0.1", "p1", "p5", "p10", "p50")
PERCENTILES = {
    "ops_per_s": SLOWEST_RATES,
    "ops_per_cpu_s": SLOWEST_RATES,
    "ns_per_op": ("p50", "p90", "p95", "p99", "p99.9"),
}

DriftState = Literal["none", "drifts", "open"]


@dataclass(frozen=True)
class Margin:
    """How much change over one run counts as none: a share of the plateau, at least `floor`."""

    share: float
    floor: float
    bad: Literal["rise", "fall"]

    def around(self, plateau: float) -> float:
        return max(self.share * abs(plateau), self.floor)


# Memory, in KiB: 1 % of the plateau, but at least 1 MiB. Throughput: a fall of 5 % over the run,
# which is what the gate on the coefficient of variation lets pass as noise; a smaller fall cannot
# be told from the host's own changes of speed within a soak.
MEMORY = Margin(share=0.01, floor=1024, bad="rise")
RATE = Margin(share=0.05, floor=0, bad="fall")
MARGINS = {"rss_kb": MEMORY, "resident_kb": MEMORY, "ops_per_s": RATE, "ops_per_cpu_s": RATE}


def metric_name(column: str) -> str:
    """The name of a column in records and targets."""
    names = {"ops_per_s": "throughput", "ops_per_cpu_s": "throughput_by_cpu"}
    return names.get(column) or column.removesuffix("_kb")


@dataclass(frozen=True)
class Drift:
    """The Theil-Sen slope times the length of the run, in the unit of the column.

    `drifts`: the interval's near end is beyond the margin in the bad direction; `none`: its far end
    is within the margin; `open`: neither, so a longer soak has to tell. If the last tenth of the
    run is beyond the margin in the bad direction, which few of the slopes show, the far end is at
    least as far away as that.
    """

    state: DriftState
    blocks: int
    per_run: float
    low: float
    high: float
    margin: float


@dataclass(frozen=True)
class Percentile:
    """`carried`: with 95 % certainty one of the epochs lies beyond the true percentile.

    Otherwise there were fewer than `needs` epochs, and the true one may be worse than any value
    seen.
    """

    value: float
    carried: bool
    needs: int


@dataclass(frozen=True)
class Distribution:
    """How a column's epochs are distributed, each epoch being one value."""

    mean: float
    sd: float
    cv: float
    minimum: float
    maximum: float
    percentiles: Mapping[str, Percentile]


@dataclass(frozen=True)
class Spread:
    """Both coefficients of variation: the classic one gates, the robust one explains it."""

    cv: float
    robust_cv: float


@dataclass(frozen=True)
class Change:
    """A lasting step from one level to another at a time since the soak's start."""

    t_s: float
    before: float
    after: float


@dataclass(frozen=True)
class Analysis:
    """What the epochs after the warm-up, the first quarter, say; only `epochs`, `run_s` and
    `calls_per_op` are of all epochs."""

    method: int
    epochs: int
    used: int
    run_s: float
    plateau: Mapping[str, float]
    drift: Mapping[str, Drift]
    spread: Mapping[str, Spread]
    changes: Mapping[str, Sequence[Change]]
    distributions: Mapping[str, Distribution]
    cpu_share: float | None
    calls_per_op: float | None
    remarks: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which knows neither NaN nor infinity: what is not finite is null."""
        written = json.dumps(asdict(self))
        result: dict[str, Any] = json.loads(written, parse_constant=lambda name: None)
        return result


def read(name: str, data: bytes) -> tuple[Soak, Analysis]:
    """The soak in a CSV, and its analysis; LabError with the name where it is no soak's."""
    try:
        soak = epochs_csv.parse(data.decode())
        return soak, analyze(soak)
    except UnicodeDecodeError:
        raise LabError(f"{name}: no text in UTF-8, and so no CSV of a soak") from None
    except LabError as error:
        raise LabError(f"{name}: {error}") from None


def analyze(soak: Soak) -> Analysis:
    """Judges every column that is there. LabError where fewer than three epochs are left."""
    warm_up = math.ceil(soak.epochs * WARM_UP_SHARE)
    used = soak.epochs - warm_up
    if used < 3:
        raise LabError(f"{soak.epochs} epochs are too few to say anything: let it run longer")
    whole = with_derived(soak.columns)
    kept = {name: column[warm_up:] for name, column in whole.items()}
    times = soak.columns["t_s"]
    run_s = float(times[-1] - times[0]) * soak.epochs / (soak.epochs - 1)
    judged = [name for name in MARGINS if name in kept and np.all(np.isfinite(kept[name]))]
    remarks = list(soak.remarks)
    steps: dict[str, Sequence[Change]] = {}
    try:
        steps = {name: changes(kept["t_s"], kept[name], MARGINS[name]) for name in judged}
    except ImportError:  # Debian has no package of ruptures
        remarks.append("lasting steps were not searched for: Python's ruptures is not installed")
    return Analysis(
        method=METHOD,
        epochs=soak.epochs,
        used=used,
        run_s=run_s,
        plateau={
            name: float(np.nanmedian(column))
            for name, column in kept.items()
            if _is_level(name, column)
        },
        drift={name: drift(kept["t_s"], kept[name], run_s, MARGINS[name]) for name in judged},
        spread={name: spread(kept[name]) for name in judged},
        changes=steps,
        distributions=distributions(kept),
        cpu_share=_cpu_share(whole, warm_up),
        calls_per_op=calls_per_op(soak),
        remarks=tuple(remarks),
    )


def with_derived(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Adds `resident_kb`, what is resident and not given back lazily, and `ops_per_cpu_s`.

    The latter is the rate per second of the process's own processor time: neighbours disturb it
    less. If one of `ops_per_s` and `ns_per_op` is missing, it is made from the other.
    """
    result = dict(columns)
    for name, other in (("ops_per_s", "ns_per_op"), ("ns_per_op", "ops_per_s")):
        if name not in columns and other in columns:
            with np.errstate(divide="ignore"):
                result[name] = 1e9 / columns[other]
    if "rss_kb" in columns and "lazyfree_kb" in columns:
        result["resident_kb"] = columns["rss_kb"] - columns["lazyfree_kb"]
    if {"ops", "user_s", "sys_s"} <= columns.keys():
        cpu_s = columns["user_s"] + columns["sys_s"]
        if np.all(cpu_s > 0):
            result["ops_per_cpu_s"] = columns["ops"] / cpu_s
    return result


def _is_level(name: str, column: np.ndarray) -> bool:
    return (name.endswith("_kb") or name in MARGINS) and bool(np.any(np.isfinite(column)))


def block_medians(values: np.ndarray, blocks: int) -> np.ndarray:
    """Medians of equal blocks; epochs too many for equal blocks are left out in front.

    Works along the last axis, so that many soaks can be simulated at once.
    """
    size = values.shape[-1] // blocks
    kept = values[..., values.shape[-1] - size * blocks :]
    medians: np.ndarray = np.median(kept.reshape(*values.shape[:-1], blocks, size), axis=-1)
    return medians


def slope(times: np.ndarray, values: np.ndarray) -> tuple[int, float, float, float]:
    """Blocks used, Theil-Sen slope per second through their medians, its 95 % interval."""
    from scipy.stats import theilslopes  # imported late: it takes a second

    for blocks in (BLOCKS, FEWER_BLOCKS):
        x, y = block_medians(times, blocks), block_medians(values, blocks)
        if np.ptp(y) == 0:
            return blocks, 0.0, 0.0, 0.0
        found = theilslopes(y, x, alpha=0.95)
        residues = y - found.slope * x
        if stats.lag1(residues) <= stats.CORRELATED:
            break
    return blocks, float(found.slope), float(found.low_slope), float(found.high_slope)


def drift(times: np.ndarray, values: np.ndarray, run_s: float, margin: Margin) -> Drift:
    """Judges a column by the margin; `open`, with an infinite interval, below BLOCKS epochs."""
    allowed = margin.around(float(np.median(values)))
    if len(values) < BLOCKS:
        return Drift("open", 0, math.nan, -math.inf, math.inf, allowed)
    blocks, *slopes = slope(times, values)
    middle, low, high = (run_s * each for each in slopes)
    end = float(block_medians(values, FEWER_BLOCKS)[-1] - np.median(values))
    # The direction that is bad counts as positive for the verdict.
    rise = margin.bad == "rise"
    near, far, end = (low, high, end) if rise else (-high, -low, -end)
    if end > allowed:
        far = max(far, end)
    state: DriftState = "open"
    if near > allowed:
        state = "drifts"
    elif far < allowed:
        state = "none"
    low, high = (near, far) if rise else (-far, -near)
    return Drift(state, blocks, middle, low, high, allowed)


def spread(values: np.ndarray) -> Spread:
    mean, middle = float(np.mean(values)), float(np.median(values))
    away = float(np.median(np.abs(values - middle)))
    return Spread(
        cv=float(np.std(values, ddof=1)) / mean if mean else math.nan,
        robust_cv=1.4826 * away / middle if middle else math.nan,
    )


def epochs_needed(percentile: str) -> int:
    """Epochs of which one lies beyond the true percentile with 95 % certainty: 59 for p5 and p95.

    All of n lie on its near side with the chance (1 - q)^n, q being the share beyond it.
    """
    share = float(percentile[1:]) / 100
    return math.ceil(math.log(0.05) / math.log1p(-min(share, 1 - share)))


def distributions(columns: Mapping[str, np.ndarray]) -> dict[str, Distribution]:
    """The distributions of the columns whose every epoch is a finite number."""
    found = {}
    for name, percentiles in PERCENTILES.items():
        values = columns.get(name)
        if values is None or not np.all(np.isfinite(values)):
            continue
        quantiles = np.percentile(values, [float(p[1:]) for p in percentiles])
        found[name] = Distribution(
            mean=float(np.mean(values)),
            sd=float(np.std(values, ddof=1)),
            cv=spread(values).cv,
            minimum=float(np.min(values)),
            maximum=float(np.max(values)),
            percentiles={
                p: Percentile(float(value), len(values) >= epochs_needed(p), epochs_needed(p))
                for p, value in zip(percentiles, quantiles, strict=True)
            },
        )
    return found


def changes(times: np.ndarray, values: np.ndarray, margin: Margin) -> list[Change]:
    """Lasting steps larger than the margin, found by PELT on at most 100 medians.

    The penalty is the long-run variance times 4 ln n. Variance and correlation are estimated from
    first differences, clipped where a step and not noise makes them: for an AR(1) series their
    lag-1 autocorrelation is -(1 - rho) / 2.
    """
    bins = min(100, len(values))
    if bins < 10:
        return []
    import ruptures  # imported late, like SciPy

    x, y = block_medians(times, bins), block_medians(values, bins)
    steps = np.diff(y)
    middle = np.median(steps)
    away = 3 * 1.4826 * np.median(np.abs(steps - middle))
    steps = np.clip(steps, middle - away, middle + away)
    rho = float(np.clip(1 + 2 * stats.lag1(steps), 0, 0.9))
    variance = float(np.var(steps)) / (2 * (1 - rho))
    allowed = margin.around(float(np.median(y)))
    # The noise is at least a tenth of the margin: smaller steps of an almost constant series are
    # harmless.
    long_run = max(variance * (1 + rho) / (1 - rho), (allowed / 10) ** 2)
    search = ruptures.Pelt(model="l2", min_size=max(3, bins // 20), jump=1).fit(y)
    ends = [0, *search.predict(pen=4 * long_run * math.log(bins))]
    levels = [float(np.median(y[a:b])) for a, b in pairwise(ends)]
    found = zip(ends[1:-1], levels, levels[1:], strict=False)
    return [Change(float(x[at]), a, b) for at, a, b in found if abs(b - a) > allowed]


def _cpu_share(columns: Mapping[str, np.ndarray], warm_up: int) -> float | None:
    """Processor seconds per second after the warm-up; reading /proc between epochs is in both."""
    if "user_s" not in columns or "sys_s" not in columns:
        return None
    used = columns["user_s"][warm_up:] + columns["sys_s"][warm_up:]
    return float(np.sum(used)) / float(columns["t_s"][-1] - columns["t_s"][warm_up - 1])


def calls_per_op(soak: Soak) -> float | None:
    """The allocator's system calls of all kinds, per operation; None if they were not counted.

    The allocator counts over the whole life of the process, so start and end are included.
    """
    try:
        calls, ops = int(soak.facts["os calls"]), int(soak.facts["operations"])
    except (KeyError, ValueError):
        return None
    return calls / ops if ops > 0 else None
