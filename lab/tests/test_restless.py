"""Many short samples on a simulated restless machine: error rates, power, other estimators.

The machine switches between two speeds and has bursts of load, each for seconds, and single samples
that take longer. A sample is a process of 25 ms; two thirds of it are the floor.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from hakmem.paired import protocol, readings
from hakmem.paired.blocks import BASE, FLOOR, change_of, typical

READING = readings.choose("cpu", None)
SAMPLE_S = 0.025
BLOCKS = 30
TURNS = 10
NET = {BASE: 1.0, "B": 1.0, FLOOR: 0.0}
FLOOR_COST = 2.0
EXPERIMENTS = 120

Figure = Callable[[Sequence[float]], float]
Block = dict[str, list[float]]


def speed(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """The relative time of the same work, sample by sample, over `seconds`."""
    count = int(seconds / SAMPLE_S)
    factor = np.ones(count)
    at = 0
    while at < count:  # two speeds, each for some seconds
        span = max(1, int(rng.exponential(4.0) / SAMPLE_S))
        factor[at : at + span] *= rng.choice((1.0, 1.25))
        at += span
    for _ in range(rng.poisson(seconds / 15)):  # a neighbour's burst
        start, span = rng.integers(count), int(rng.uniform(0.5, 5) / SAMPLE_S)
        factor[start : start + span] *= rng.uniform(1.2, 2.5)
    factor *= np.exp(rng.normal(0, 0.01, count))
    late = rng.random(count) < 0.03
    return np.where(late, factor * (1 + rng.exponential(0.5, count)), factor)


def experiment(seed: int, effect: float, turns: int = TURNS, length: int = 1) -> list[Block]:
    """Blocks of A, B and the floor, in an order and its reverse; B's net cost is 1 + `effect`.

    A sample is `length` samples long, so that fewer turns can take the same time.
    """
    rng = np.random.default_rng(seed)
    cost = {at: FLOOR_COST + net * (1 + effect * (at == "B")) for at, net in NET.items()}
    machine = iter(speed(rng, 1.05 * BLOCKS * 2 * turns * length * len(cost) * SAMPLE_S))
    blocks = []
    for _ in range(BLOCKS):
        block: Block = {at: [] for at in cost}
        for _ in range(turns):
            there = rng.permutation(list(cost))
            for at in (*there, *there[::-1]):
                block[at].append(cost[at] * float(np.mean([next(machine) for _ in range(length)])))
        blocks.append(block)
    return blocks


def gains(blocks: Sequence[Block], figure: Figure | None = None) -> list[float]:
    """The gain of B over A in each block, by the protocol's estimator or by `figure`."""
    if figure is None:
        return [-change_of(block, READING)["B"] for block in blocks]
    found = []
    for block in blocks:
        a, b, floor = (figure(block[at]) for at in (BASE, "B", FLOOR))
        found.append(math.log(max(a - floor, 0.01 * a) / max(b - floor, 0.01 * b)))
    return found


def verdict(values: Sequence[float]) -> str:
    """The verdict at the first of the protocol's looks that decides."""
    for count in protocol.LOOKS:
        found = protocol.look({"B": [[*values[:count]]]}, "improvement", 0.01, count == BLOCKS)
        if found["B"].final:
            return found["B"].verdict
    raise AssertionError("the last look is final")


@cache
def verdicts(effect: float) -> tuple[str, ...]:
    return tuple(verdict(gains(experiment(seed, effect))) for seed in range(EXPERIMENTS))


def share(found: Sequence[str], word: str) -> float:
    return found.count(word) / len(found)


def width(values: Sequence[float]) -> float:
    low, high = protocol.ends(np.array([values]))
    return float(high[0] - low[0]) / 2


def typical_width(make: Callable[[int], list[float]]) -> float:
    return float(np.median([width(make(seed)) for seed in range(40)]))


def test_equal_cells_are_said_to_differ_in_one_case_of_twenty_at_most() -> None:
    wrong = 1 - share(verdicts(0.0), "UNDECIDED")
    assert wrong <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / EXPERIMENTS)


def test_planted_slow_downs_are_found_and_none_is_called_a_gain() -> None:
    """The effect is on the third above the floor: 1 % of that is 0.33 % of the whole."""
    found = {effect: verdicts(effect) for effect in (0.01, 0.02, 0.05)}
    assert all(share(said, "GO") <= 0.02 for said in found.values())
    least = {0.01: 0.2, 0.02: 0.6, 0.05: 0.95}
    assert all(share(said, "NO-GO") >= least[effect] for effect, said in found.items())


def test_many_short_samples_are_sharper_than_few_long_ones_in_the_same_time() -> None:
    short = typical_width(lambda seed: gains(experiment(seed, 0.0)))
    long = typical_width(lambda seed: gains(experiment(seed, 0.0, turns=1, length=TURNS)))
    assert short < 0.5 * long


def test_the_mean_without_the_worst_tenth_is_near_the_best_of_what_was_tried() -> None:
    """Minima and low quantiles are worse on real machines: docs/decisions/0014."""

    def of(figure: Figure | None) -> float:
        return typical_width(lambda seed: gains(experiment(seed, 0.0), figure))

    own = of(None)
    assert own < 0.5 * of(lambda values: float(np.mean(values)))
    assert own < of(min)
    assert own < 1.5 * of(lambda values: float(np.median(values)))


def test_a_tenth_of_the_samples_is_left_out_from_ten_on_and_on_the_bad_side() -> None:
    nine, ten = [1.0] * 8 + [10.0], [1.0] * 9 + [11.0]
    assert typical(nine, READING) == pytest.approx(2.0)
    assert typical(ten, READING) == 1.0
