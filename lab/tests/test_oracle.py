"""The oracle, the best rival: chosen on one half of the blocks, scored on the other half."""

import math

import numpy as np
import pytest
from hakmem.paired import oracle, protocol


def equal_rivals(seed: int, rivals: int = 8, blocks: int = 20) -> np.ndarray:
    """ln (subject ÷ rival) by rival and block, where all are equal but for noise."""
    return np.random.default_rng(seed).normal(0, 0.05, (rivals, blocks))


def test_among_equals_the_oracle_is_no_better_than_any() -> None:
    """Planted: the best of eight equal rivals, scored on the same blocks, looks 1.5 % better."""
    tables = [equal_rivals(seed) for seed in range(200)]
    naive = np.mean([table.mean(axis=1).max() for table in tables])
    scores = [oracle.score(table.tolist()) for table in tables]
    honest = np.mean([score.log for score in scores if score])
    assert naive > 0.01
    assert abs(honest) < 0.003


def test_what_bias_is_left_favours_the_subject() -> None:
    """Rivals that differ by less than the noise: sometimes a second-best one is chosen."""
    spread = np.linspace(0, 0.02, 8)[:, None]
    tables = [equal_rivals(seed) + spread for seed in range(200)]
    found = np.mean([oracle.score(table.tolist()).log for table in tables]) - 0.02
    assert -0.01 < found < -0.002


def test_its_interval_covers_what_is_true() -> None:
    scores = [oracle.score(equal_rivals(seed).tolist()) for seed in range(200)]
    covered = [score.interval.low <= 1 <= score.interval.high for score in scores if score]
    assert np.mean(covered) >= 0.95
    assert all(score.interval.high / score.interval.low < 1.2 for score in scores if score)


def test_it_covers_where_neighbouring_blocks_are_alike() -> None:
    """Planted: an interval from blocks resampled as if independent covers only 86 %."""
    scores = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise = np.repeat(rng.normal(0, 0.05, 10), 2) + rng.normal(0, 0.01, (8, 20))
        scores.append(oracle.score(noise.tolist()))
    covered = [score.interval.low <= 1 <= score.interval.high for score in scores if score]
    assert np.mean(covered) >= 0.94


@pytest.mark.parametrize(("blocks", "of"), [(8, 8), (10, 10), (20, 20), (8, 20)])
def test_it_covers_with_few_blocks_and_one_best_rival_too(blocks: int, of: int) -> None:
    """Planted: 1.96 times the plain resampled error covers 87 % with eight blocks, also where the
    other rivals have more."""
    scores = []
    for seed in range(300):
        table = equal_rivals(seed, blocks=of)
        table[3] += math.log(1.5)
        table[3, blocks:] = math.nan
        scores.append(oracle.score(table.tolist()))
    covered = [score.interval.low <= 1.5 <= score.interval.high for score in scores if score]
    assert np.mean(covered) >= 0.93


def test_a_rival_that_is_better_is_the_oracle() -> None:
    table = equal_rivals(1)
    table[3] += math.log(1.2)
    found = oracle.score(table.tolist())
    assert found.interval.low < 1.2 < found.interval.high
    assert found.log > math.log(1.15)


def test_a_rival_that_left_early_counts_with_the_blocks_it_has() -> None:
    table = equal_rivals(2, blocks=20)
    table[0] -= 0.5
    table[0, 12:] = math.nan
    assert oracle.score(table.tolist()) is not None
    table[:, :] = math.nan
    assert oracle.score(table.tolist()) is None


def test_too_few_blocks_or_no_rival_have_no_score() -> None:
    assert oracle.score([]) is None
    assert oracle.score([[0.1, 0.2, 0.3]]) is None


def test_the_mean_over_rows_is_geometric_and_narrower_than_a_row() -> None:
    ends = {"low": 0.9, "high": 1.1, "unit": "ratio", "kind": "95 % CI over all looks"}
    rows = [{"value": 0.5, **ends}, {"value": 2.0, **ends}]
    found = oracle.mean(rows)
    assert found["value"] == pytest.approx(1.0)
    assert (found["rows"], found["kind"]) == (2, "95 % CI over all looks")
    assert math.log(found["high"] / found["low"]) < math.log(1.1 / 0.9)


@pytest.mark.parametrize(("rows", "blocks"), [(1, 12), (6, 10), (18, 20)])
def test_a_mean_of_intervals_over_several_looks_covers_as_often_as_it_says(
    rows: int, blocks: int
) -> None:
    """Planted: a mean from the rows' intervals, which hold over all looks and eight rivals, always
    covers, and is twice as wide."""
    covered, wider = [], []
    for seed in range(200):
        entries = []
        for gains in np.random.default_rng(seed).normal(0, 0.5, (rows, blocks)).tolist():
            found = protocol.look({"B": [gains]}, "neutral", 0.01, last=True, family=8)
            entry = vars(found["B"].target.exp())
            if entry["kind"] == protocol.KIND:
                entries.append({"value": entry["estimate"], "error": oracle.error(gains), **entry})
        if entries:
            mean = oracle.mean(entries)
            older = oracle.mean([{k: e[k] for k in e if k != "error"} for e in entries])
            assert (mean["kind"], older["kind"]) == ("95 % CI", protocol.KIND)
            covered.append(mean["low"] <= 1 <= mean["high"])
            wider.append(math.log(older["high"] / older["low"], mean["high"] / mean["low"]))
    assert 0.93 <= np.mean(covered) <= 0.985
    assert 1.6 < np.mean(wider) < 2.4


def test_means_against_several_rivals_share_one_error_rate() -> None:
    """A mean that excludes 1 alone does not among eight; one that is settled leaves the others a
    larger share."""

    def entries(errors: float) -> list[dict[str, float]]:
        return [{"value": math.exp(0.1 * errors), "low": 0.1, "high": 10.0, "error": 0.1}]

    alone = oracle.means_of_all({"a": entries(2.2)})["a"]
    assert alone["low"] > 1
    equal = {name: entries(0.0) for name in "bcdefgh"}
    among = oracle.means_of_all({"a": entries(2.2), **equal})
    assert among["a"]["low"] < 1 < among["a"]["high"]
    assert among["a"]["alpha"] == pytest.approx(0.05 / 8)
    clear = oracle.means_of_all({"a": entries(5.0), **equal})
    assert clear["a"]["low"] > 1
    assert clear["b"]["alpha"] == pytest.approx(0.05 / 7)
