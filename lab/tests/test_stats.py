"""The statistics against known values and against scipy."""

import numpy as np
import pytest
from hakmem import stats
from hakmem.paired import protocol
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
    """scipy's test rejects a shift just outside an end of the interval, not one just inside."""
    low, high = (float(end[0]) for end in protocol.ends(np.array([DATA]), alpha))

    def p(shift: float) -> float:
        return float(wilcoxon(np.asarray(DATA) - shift, method="exact").pvalue)

    tiny = 1e-9
    assert p(low + tiny) > alpha >= p(low - tiny)
    assert p(high - tiny) > alpha >= p(high + tiny)
    assert low < stats.hodges_lehmann(DATA) < high


def test_correlated_neighbours_are_merged_and_others_are_not() -> None:
    slow = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert stats.lag1(np.array(slow)) > 0.2
    assert stats.merge_neighbours(slow) == [0, 1, 2, 3, 4]
    quick = [0, 1, 0, 1, 0, 1]
    assert stats.merge_neighbours(quick) == quick
