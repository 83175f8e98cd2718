"""The protocol's rules, and its error rates on simulated blocks."""

import math

import numpy as np
import pytest
from hakmem import stats
from hakmem.paired import protocol
from hakmem.paired.protocol import ALPHA, Aim

MANY = 10_000


def simulate(
    effect: float,
    noise: float,
    alpha: float = ALPHA,
    aim: Aim = "improvement",
    correlation: float = 0.0,
) -> tuple[float, float, float]:
    """Shares of GO and NO-GO over many experiments, and the mean number of blocks."""
    rng = np.random.default_rng(20)
    blocks = rng.standard_normal((MANY, protocol.LOOKS[-1]))
    for n in range(1, blocks.shape[1]):
        fresh = math.sqrt(1 - correlation**2) * blocks[:, n]
        blocks[:, n] = correlation * blocks[:, n - 1] + fresh
    gains = effect + noise * blocks
    open_ones, codes, used = np.ones(MANY, dtype=bool), np.zeros(MANY), np.zeros(MANY)
    for count in protocol.looks(protocol.LOOKS[-1]):
        low, high = (a[:, None] for a in protocol.ends(gains[:, :count], alpha))
        found = protocol.judge(aim, low, high, protocol.LEAST_MARGIN)
        codes = np.where(open_ones, found, codes)
        used = np.where(open_ones, count, used)
        open_ones &= (found == 0) & ~protocol.narrow(low, high)
    return float(np.mean(codes == 1)), float(np.mean(codes == -1)), float(np.mean(used))


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.04])
def test_false_positives_are_at_most_five_per_cent(noise: float) -> None:
    go, no_go, _ = simulate(0.0, noise)
    assert go + no_go <= 0.05


@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_the_same_simulation_convicts_a_careless_protocol(noise: float) -> None:
    """Planted: with 5 % at each look, false positives over all looks exceed 5 %."""
    go, no_go, _ = simulate(0.0, noise, alpha=0.05)
    assert go + no_go > 0.05


def test_true_effects_of_one_and_of_two_per_cent_are_found_at_one_per_cent_of_noise() -> None:
    assert simulate(0.01, 0.01)[0] >= 0.95
    go, no_go, blocks = simulate(0.02, 0.01)
    assert go >= 0.95
    assert no_go == 0
    assert blocks < 12


def test_a_loss_beyond_the_margin_is_hardly_ever_called_neutral() -> None:
    go, no_go, _ = simulate(-0.03, 0.01, aim="neutral")
    assert go <= 0.025
    assert no_go >= 0.95
    assert simulate(0.0, 0.01, aim="neutral")[0] >= 0.95


def test_merging_lowers_the_false_positives_of_correlated_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = sum(simulate(0.0, 0.04, correlation=0.5)[:2])
    monkeypatch.setattr(stats, "CORRELATED", 2.0)
    assert merged < 0.9 * sum(simulate(0.0, 0.04, correlation=0.5)[:2])


@pytest.mark.parametrize("count", [8, 12, 20, 30])
def test_the_ends_are_those_of_the_plain_interval(count: int) -> None:
    """For each row; if neighbours are correlated, of the merged values, or none if these are too
    few."""
    rng = np.random.default_rng(3)
    rows = np.vstack([rng.standard_normal((5, count)), np.sort(rng.standard_normal((5, count)))])
    low, high = protocol.ends(rows)
    for row, a, b in zip(rows, low, high, strict=True):
        merged = stats.merge_neighbours(row.tolist())
        k = stats.rank(len(merged), ALPHA)
        means = sorted(stats.walsh(np.array(merged)))
        if k == 0:
            assert math.isnan(a)
            assert math.isnan(b)
        else:
            assert (a, b) == pytest.approx((means[k - 1], means[-k]))
    assert np.isnan(low[5:]).all() == (count < 14)


# Aim, intervals (low, high) of the target and of one guard, and the verdict at a margin of 1 %.
RULES = [
    ("improvement", (0.001, 0.03), (-0.009, 0.02), 1),
    ("improvement", (0.0, 0.03), (-0.009, 0.02), 0),
    ("improvement", (0.001, 0.03), (-0.011, 0.02), 0),
    ("improvement", (-0.03, -0.001), (-0.009, 0.02), -1),
    ("improvement", (0.001, 0.03), (-0.05, -0.011), -1),
    ("improvement", (0.001, 0.03), (-0.05, -0.009), 0),
    ("neutral", (-0.009, 0.03), (-0.009, 0.02), 1),
    ("neutral", (-0.011, 0.03), (-0.009, 0.02), 0),
    ("neutral", (-0.05, -0.009), (-0.009, 0.02), 0),
    ("neutral", (-0.05, -0.011), (-0.009, 0.02), -1),
    ("neutral", (-0.009, 0.03), (-0.05, -0.011), -1),
    ("neutral", (-0.009, 0.03), (math.nan, math.nan), 0),
    ("improvement", (math.nan, math.nan), (0.1, 0.2), 0),
]


@pytest.mark.parametrize(("aim", "target", "guard", "expected"), RULES)
def test_the_rules_of_the_verdict(
    aim: Aim, target: tuple[float, float], guard: tuple[float, float], expected: int
) -> None:
    low, high = (np.array([pair]) for pair in zip(target, guard, strict=True))
    assert protocol.judge(aim, low, high, 0.01)[0] == expected


def test_looks_end_with_the_last_block() -> None:
    assert protocol.looks(30) == (8, 12, 20, 30)
    assert protocol.looks(12) == (8, 12)
    assert protocol.looks(16) == (8, 12, 16)


def test_the_margin_is_the_noise_floor_and_no_noisy_run_buys_a_wide_one() -> None:
    quiet, middling, noisy = (stats.Interval(0, -w, w, "x") for w in (0.004, 0.015, 0.2))
    assert protocol.margin([]) == protocol.margin([quiet]) == 0.01
    assert protocol.margin([middling]) == pytest.approx(0.015)
    assert protocol.margin([noisy]) == 0.02
    assert protocol.margin([middling, noisy]) == pytest.approx(0.015)
    assert protocol.margin([quiet, noisy]) == 0.01


def family_error(holm: bool, rng: np.random.Generator) -> bool:
    """One experiment with five equal contenders; whether any gets a (false) verdict."""
    gains = {name: rng.normal(0, 0.04, 30) for name in "BCDEF"}
    for count in protocol.LOOKS:
        shown = {name: [values[:count].tolist()] for name, values in gains.items()}
        parts = [shown] if holm else [{name: tracks} for name, tracks in shown.items()]
        for part in parts:
            found = protocol.look(part, "improvement", 0.01, count == 30)
            if any(decision.verdict != "UNDECIDED" for decision in found.values()):
                return True
    return False


def test_many_contenders_share_one_error_rate() -> None:
    """With Holm's rule at most 5 % of the experiments have a false verdict; without it far more."""
    shares = {}
    for holm, experiments in ((True, 200), (False, 50)):
        rng = np.random.default_rng(4)
        shares[holm] = sum(family_error(holm, rng) for _ in range(experiments)) / experiments
    assert shares[True] <= 0.05
    assert shares[False] > 0.1


def test_decided_contenders_leave_the_rest_a_larger_share() -> None:
    rng = np.random.default_rng(1)
    clear = (0.5 + 0.001 * rng.standard_normal(30)).tolist()
    unclear = (0.02 * rng.standard_normal(30)).tolist()
    found = protocol.look({"B": [clear], "C": [unclear]}, "improvement", 0.01, True)
    assert (found["B"].verdict, found["C"].verdict) == ("GO", "UNDECIDED")
    assert found["B"].alpha == ALPHA / 2
    assert found["C"].alpha == ALPHA
    # A contender that ended undecided earlier still counts.
    assert protocol.look({"B": [clear]}, "improvement", 0.01, True, 2)["B"].alpha == ALPHA / 2


def test_a_decision_can_be_read_from_the_other_side() -> None:
    gains = np.random.default_rng(2).normal(0.02, 0.01, 30).tolist()
    found = protocol.look({"B": [gains]}, "improvement", 0.01, True)["B"]
    turned = protocol.look({"B": [[-x for x in gains]]}, "improvement", 0.01, True)["B"]
    assert protocol.swapped(found).verdict == turned.verdict == "NO-GO"
    assert protocol.swapped(found).target.low == pytest.approx(turned.target.low)
    guarded = protocol.look({"B": [gains, gains]}, "improvement", 0.01, True)["B"]
    with pytest.raises(ValueError, match="guards"):
        protocol.swapped(guarded)
