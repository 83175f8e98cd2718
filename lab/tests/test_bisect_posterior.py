"""The posterior over commits, and the search by it, on simulated comparisons with known truth."""

import io
import math
import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hakmem.bisect import posterior as bisect_posterior, view
from hakmem.bisect.commits import Commit
from hakmem.bisect.course import Compared, Course, Request
from hakmem.bisect.posterior import Measured, Posterior, information, posterior
from hakmem.bisect.search import SURE, Search
from hakmem.paired import protocol
from hakmem.paired.blocks import Block, Outcome
from hakmem.paired.session import Conducted
from rich.console import Console
from test_ab import plan

RUNS = 40
REQUEST = Request(
    **{"most": 30, "seconds": 1.0, "seed": 1, "record": False, "argv": (), "good": "", "bad": ""},
    **{"repository": None, "build": None, "bench": None, "command": (), "aim": "any"},
    **{"blocks": 8, "probes": 30},
)
STEADY = [0.0005, -0.0005, 0.0005, -0.0005, 0.001, -0.001, 0.0005, -0.0005]


def blocks(gain: float, noise: float = 1.0) -> list[float]:
    return [gain + noise * value for value in STEADY]


@dataclass(frozen=True)
class World:
    """Commits, one of which changes the cost, on a noisy host: simulates what each probe sees.

    Each build has an offset of its own (`own`), each probe a noise level around `noise`. `tails` is
    the share of blocks that are six times as noisy, `lag` the correlation of neighbouring blocks.
    """

    count: int = 16
    change: float = -0.05
    noise: float = 0.01
    tails: float = 0.0
    lag: float = 0.0
    own: float = 0.002

    def bisect(self, seed: int, culprit: int | None) -> tuple[str, int]:
        """The answer ("none", "open" or the named commit), and the number of probes."""
        rng = random.Random(seed)
        own = [rng.gauss(0, self.own) for _ in range(self.count + 1)]

        def compare(role: str, base: int, commit: int, most: int) -> Compared:
            gains = self._blocks(rng, own, base, commit, culprit, most)
            for count in protocol.looks(most):
                shown = {"B": [gains[:count]]}
                decision = protocol.look(shown, "improvement", 0.01, count == most)["B"]
                if decision.final:
                    break
            taken = [Block("job", n, "", (), {"B": gain}) for n, gain in enumerate(gains[:count])]
            done = Conducted(plan(), Outcome(taken, {"B": decision}), {}, 0.0)
            course.compared.append(Compared(role, base, commit, done, None))
            return course.compared[-1]

        commits = [Commit(str(number), "", False) for number in range(self.count + 1)]
        quiet = Console(file=io.StringIO())
        course = Course(REQUEST, commits, None, plan().tracks[0].reading, quiet)
        course._compare = compare
        found = course.go()
        named = str(found.suspect.commits[0]) if found.answer == "commit" else found.answer
        return named, sum(one.role == "probe" for one in course.compared)

    def _blocks(
        self,
        rng: random.Random,
        own: list[float],
        base: int,
        commit: int,
        culprit: int | None,
        count: int,
    ) -> list[float]:
        level = self.noise * math.exp(rng.uniform(-0.7, 0.7))
        changed = culprit is not None and base < culprit <= commit
        mean = own[commit] - own[base] + (self.change if changed else 0.0)
        before, gains = 0.0, []
        for _ in range(count):
            fresh = rng.gauss(0, 1) * (6 if rng.random() < self.tails else 1)
            before = self.lag * before + math.sqrt(1 - self.lag**2) * fresh
            gains.append(mean + level * before)
        return gains


WORLDS = {
    "a 5 % loss": World(),
    "a 3 % gain": World(change=0.03),
    "a 2 % loss": World(change=-0.02, noise=0.007),
    "40 commits": World(count=40, change=-0.03),
    "heavy tails": World(noise=0.015, tails=0.1),
    "correlated blocks": World(noise=0.015, lag=0.4),
    "a factor of two": World(change=-0.7, noise=0.03),
}


# ---- error rates ----


def runs(world: World, planted: bool, count: int = RUNS) -> Counter[str]:
    """How often the answer was the right commit, a wrong one, "none" or "open"."""
    said = Counter[str]()
    for seed in range(count):
        culprit = 1 + seed * 7 % world.count if planted else None
        named, _ = world.bisect(seed, culprit)
        said[("right" if named == str(culprit) else "wrong") if named.isdigit() else named] += 1
    return said


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_a_planted_change_is_found(world: World) -> None:
    said = runs(world, planted=True)
    assert said["right"] >= 0.95 * RUNS, said
    assert said["wrong"] <= 0.03 * RUNS, said


@pytest.mark.parametrize(
    "world",
    [World(noise=0.004), World(noise=0.004, lag=0.4), World(noise=0.004, count=40)],
    ids=["quiet", "correlated", "40 commits"],
)
def test_where_nothing_changed_none_is_what_is_said(world: World) -> None:
    said = runs(world, planted=False)
    assert said["none"] >= 0.8 * RUNS, said
    assert said["wrong"] == 0, said


@pytest.mark.parametrize("tails", [0.0, 0.1])
def test_where_noise_hides_a_change_of_one_per_cent_no_commit_is_named(tails: float) -> None:
    """Nothing changed, but noise could hide a change: "open" is right, naming a commit is not."""
    said = runs(World(noise=0.03, tails=tails), planted=False)
    assert said["wrong"] == 0, said
    assert said["open"] >= 0.1 * RUNS, said


def test_a_clear_change_takes_about_as_many_probes_as_halving() -> None:
    probes = [World(count=32).bisect(seed, 1 + 2 * seed)[1] for seed in range(16)]
    assert np.mean(probes) < 1.25 * math.log2(32)


# ---- what one measurement says ----


def test_chances_sum_to_one_and_follow_the_measurements() -> None:
    measured = {8: Measured.of(blocks(-0.05)), 4: Measured.of(blocks(0.0))}
    now = posterior(8, measured)
    assert sum(now.chances) == pytest.approx(1)
    assert len(now.chances) == 9
    assert sum(now.chances[5:]) > 0.99
    assert now.chances[5] == pytest.approx(now.chances[8])
    assert now.change == pytest.approx(-0.05, abs=0.005)
    assert now.changed_by(4) < 0.01
    assert now.changed_by(8) > 0.99


def test_nothing_measured_is_the_prior() -> None:
    now = posterior(5, {})
    assert now.chances == pytest.approx([0.5] + [0.1] * 5)


def test_noise_is_each_probes_own() -> None:
    """The same estimate counts for much if its blocks agree, and for little if they scatter."""
    ends = {8: Measured.of(blocks(-0.05))}
    calm = posterior(8, ends | {4: Measured.of(blocks(-0.05))})
    wild = posterior(8, ends | {4: Measured.of(blocks(-0.05, noise=80))})
    assert calm.changed_by(4) > 0.99
    assert 0.4 < wild.changed_by(4) < 0.95


def test_correlated_neighbours_count_as_fewer() -> None:
    slow = [-0.01, -0.01, -0.01, -0.01, 0.01, 0.01, 0.01, 0.01]
    apart = [0.01, -0.01] * 4
    assert Measured.of(slow).count == 4
    assert Measured.of(apart).count == 8
    assert Measured.of(slow).width > Measured.of(apart).width


def test_an_outlier_among_blocks_does_not_move_the_estimate_far() -> None:
    seen = Measured.of([*blocks(-0.05)[:7], 0.6])
    assert seen.gain == pytest.approx(-0.05, abs=0.002)
    assert seen.width > 0.05


def test_without_noise_a_build_may_still_be_off_by_its_own() -> None:
    """Code layout alone can make half a per cent; five per cent is a change."""
    ends = {8: Measured.of(blocks(-0.05))}
    near = posterior(8, ends | {4: Measured.of([-0.005] * 8)})
    far = posterior(8, ends | {4: Measured.of([-0.045] * 8)})
    assert near.changed_by(4) < 0.01
    assert far.changed_by(4) > 0.99
    assert 0.05 < posterior(4, {4: Measured.of([-0.012] * 8)}).chances[0] < 0.95


def test_a_change_of_less_than_one_per_cent_is_none() -> None:
    assert posterior(4, {4: Measured.of(blocks(-0.004))}).chances[0] > 0.9
    assert posterior(4, {4: Measured.of(blocks(-0.03))}).chances[0] < 0.01


def test_too_few_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        Measured.of([0.0, 0.1, 0.0])


# ---- where to probe ----


def test_the_middle_tells_most_and_a_probe_again_tells_little() -> None:
    measured = {16: Measured.of(blocks(-0.05))}
    now = posterior(16, measured)
    bits = information(now, measured, range(1, 17), 8)
    assert int(bits.argmax()) + 1 == 8
    assert bits[7] == pytest.approx(1, abs=0.02)
    assert bits[15] < 0.01
    measured[8] = Measured.of(blocks(-0.025))
    now = posterior(16, measured)
    assert 0.05 < now.changed_by(8) < 0.95
    again, half_way = information(now, measured, [8, 4], 8)
    assert again < 0.1 < half_way


def test_commits_that_cannot_be_run_are_one_suspect_with_the_next() -> None:
    search = Search(8, 8)
    search.tell(8, blocks(-0.05))
    assert search.next(search.posterior()) == 4
    for commit in (4, 5):
        search.skip(commit, "does not build")
    assert search.next(search.posterior()) == 3
    search.tell(3, blocks(0.0))
    search.tell(6, blocks(-0.05))
    now = search.posterior()
    found = search.found(now)
    assert (found.before, found.commits) == (3, (4, 5, 6))
    assert search.next(now) is None
    assert max(now.chances) < 0.5


def test_a_commit_is_found_from_a_chance_of_95_per_cent_on() -> None:
    search = Search(2, 8)
    assert search.found(Posterior((0.01, 0.94, 0.05), -0.05)) is None
    found = search.found(Posterior((0.01, 0.95, 0.04), -0.05))
    assert found.commits == (1,)


def test_equal_ends_end_the_search_at_once() -> None:
    search = Search(8, 8)
    search.tell(8, blocks(0.0))
    now = search.posterior()
    assert now.chances[0] > SURE
    assert search.next(now) is None
    assert search.found(now) is None


def test_changes_are_looked_for_in_both_directions_and_up_to_a_factor_of_a_hundred() -> None:
    for gain in (-0.02, 0.02, 0.5, -4.0):
        now = posterior(4, {4: Measured.of(blocks(gain)), 2: Measured.of(blocks(0.0))})
        assert sum(now.chances[3:]) > 0.95
        assert now.change == pytest.approx(gain, rel=0.2)


def test_the_prior_over_changes_is_a_distribution() -> None:
    changes, weights = bisect_posterior._changes([Measured.of(blocks(-0.05))])
    assert weights.sum() == pytest.approx(1)
    assert weights[changes < 0].sum() == pytest.approx(0.5)
    assert np.abs(changes).min() == pytest.approx(bisect_posterior.LEAST)
    small = weights[np.abs(changes) < math.sqrt(bisect_posterior.LEAST * bisect_posterior.MOST)]
    assert small.sum() == pytest.approx(0.5, abs=0.01)


def test_the_strip_shows_where_the_chances_are() -> None:
    assert view.strip([0.0, 0.5, 0.5, 0.0], 10) == " ██ "
    assert view.strip([0.1] * 100, 40) == "█" * 33 + "▃"
