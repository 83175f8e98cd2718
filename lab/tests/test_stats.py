"""The statistics against known values, against scipy, and against their own promise."""

import numpy as np
import pytest
from hakmem import stats
from scipy.stats import wilcoxon

DATA = [0.031, -0.012, 0.044, 0.008, 0.027, -0.003, 0.019, 0.052, 0.011, 0.036]


def test_hodges_lehmann_on_values_done_by_hand() -> None:
    # Walsh averages of 1, 2, 6: 1, 1.5, 2, 3.5, 4, 6.
    assert sorted(stats.walsh(np.array([6, 1, 2]))) == [1, 1.5, 2, 3.5, 4, 6]
    assert stats.hodges_lehmann([6, 1, 2]) == 2.75


def test_signed_rank_distribution_against_counting() -> None:
    # n = 3: the eight subsets of {1, 2, 3} sum to 0, 1, 2, 3, 3, 4, 5, 6.
    assert stats.signed_rank_cdf(3) * 8 == pytest.approx([1, 2, 3, 5, 6, 7, 8])


@pytest.mark.parametrize("alpha", [0.05, 0.0182])
def test_interval_inverts_the_test_of_scipy(alpha: float) -> None:
    """Just inside an end the test does not reject; just outside it does."""
    interval = stats.wilcoxon_interval(DATA, alpha)

    def p(shift: float) -> float:
        return float(wilcoxon(np.asarray(DATA) - shift, method="exact").pvalue)

    tiny = 1e-9
    assert p(interval.low + tiny) > alpha >= p(interval.low - tiny)
    assert p(interval.high - tiny) > alpha >= p(interval.high + tiny)
    assert interval.low < stats.hodges_lehmann(DATA) == interval.estimate < interval.high


def test_too_few_values_give_a_range_that_is_called_so() -> None:
    assert stats.wilcoxon_interval(DATA[:5]) is None
    assert stats.wilcoxon_interval(DATA[:6]) is not None


def test_coverage_of_the_interval() -> None:
    """Over 3000 simulated sets, also skewed by one heavy side, at least 94 % cover the centre."""
    rng = np.random.default_rng(11)
    for draw in (rng.standard_normal, lambda n: rng.standard_t(3, n)):
        hits = 0
        for _ in range(1500):
            interval = stats.wilcoxon_interval(draw(9) + 0.5)
            hits += interval.low <= 0.5 <= interval.high
        assert 0.94 <= hits / 1500 <= 0.985


def test_correlated_neighbours_are_merged_and_others_are_not() -> None:
    slow = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert stats.lag1(np.array(slow)) > 0.2
    assert stats.merge_neighbours(slow) == [0, 1, 2, 3, 4]
    quick = [0, 1, 0, 1, 0, 1]
    assert stats.merge_neighbours(quick) == quick
