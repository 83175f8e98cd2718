"""Which commit changed a figure first: what paired probes against the good end say of each.

Pure. Commits are numbered 1 … n from the good end, which is 0, to the bad one. Hypothesis i is
"commit i is the first changed one", hypothesis 0 "no commit changed it". Under hypothesis i the
commits before i have the good end's figure, and all from i on another one, which differs by an
unknown change. That is integrated over, in both directions, with a prior that is uniform in the
logarithm of its magnitude from LEAST to MOST.

What was measured at a commit enters as the estimate of its blocks, with Student's distribution
around the value that a hypothesis demands:

- its width is that of this commit's own blocks, because noise differs from one probe to the next;
- correlated neighbours are merged first, which leaves fewer blocks and a wider distribution;
- it has at most TAIL degrees of freedom, so that no one commit, however often probed, is certain;
- OWN is added: a build differs from its neighbour by how its code happens to lie in memory, and no
  number of blocks averages that away.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hakmem import stats
from hakmem.lazy import np
from hakmem.paired import protocol

METHOD = "bisect-1"
NONE = 0.5  # the prior probability that no commit changed it; the rest is shared by all commits
LEAST = protocol.NARROW  # changes smaller than this are not looked for
MOST = math.log(100)
OWN = LEAST / 3
TAIL = 12
FEWEST = 4  # blocks; fewer say too little of their own noise


@dataclass(frozen=True)
class Measured:
    """What the blocks of one commit say: a gain, the spread of the blocks, and their number."""

    gain: float
    spread: float
    count: int

    @classmethod
    def of(cls, gains: Sequence[float]) -> Measured:
        """From the gains of the commit's blocks over the good end, in the order they were taken.
        ValueError: too few."""
        if len(gains) < FEWEST:
            raise ValueError(f"{len(gains)} blocks are too few: {FEWEST} at least")
        merged = stats.merge_neighbours(gains)
        spread = float(np.std(merged, ddof=1))
        return cls(stats.hodges_lehmann(merged), spread, len(merged))

    @property
    def width(self) -> float:
        return math.hypot(self.spread / math.sqrt(self.count), OWN)

    @property
    def freedom(self) -> float:
        """Degrees of freedom by Welch and Satterthwaite; OWN counts as known exactly."""
        share = self.spread**2 / self.count / self.width**2
        return min((self.count - 1) / max(share**2, 1e-9), TAIL)

    def log_likelihood(self, means: np.ndarray) -> np.ndarray:
        """The log-likelihood of each mean, up to a constant that is the same for all."""
        off = (self.gain - means) / self.width
        return -(self.freedom + 1) / 2 * np.log1p(off**2 / self.freedom)


@dataclass(frozen=True)
class Posterior:
    """`chances[0]`: no commit changed it; `chances[i]`: commit i did. They sum to 1.

    `change` is the gain of the changed commits over the good end, on average over hypotheses.
    """

    chances: tuple[float, ...]
    change: float

    def changed_by(self, commit: int) -> float:
        """The probability that this commit has the changed figure."""
        return sum(self.chances[1 : commit + 1])


def posterior(count: int, measured: Mapping[int, Measured]) -> Posterior:
    """The posterior after these measurements, by commit, of a range of `count` commits."""
    changes, weights = _changes(measured.values())
    unchanged = np.zeros(count + 1)
    changed = np.zeros((count + 2, len(changes)))
    for commit, found in measured.items():
        unchanged[commit] = found.log_likelihood(np.zeros(1))[0]
        changed[commit] = found.log_likelihood(changes)
    before = np.concatenate(([0.0], np.cumsum(unchanged)))  # [i]: of all commits below i
    after = np.cumsum(changed[::-1], axis=0)[::-1]  # [i]: of commit i and all above
    joint = before[1 : count + 1, None] + after[1 : count + 1] + np.log(weights)
    joint += math.log((1 - NONE) / count)
    none = math.log(NONE) + before[count + 1]
    top = max(none, float(joint.max()))
    likely = np.exp(joint - top)
    chances = np.concatenate(([math.exp(none - top)], likely.sum(axis=1)))
    change = float((likely.sum(axis=0) * changes).sum() / max(likely.sum(), 1e-300))
    return Posterior(tuple(float(p) for p in chances / chances.sum()), change)


def _changes(measured: Collection[Measured]) -> tuple[np.ndarray, np.ndarray]:
    """The changes integrated over, dense near what was measured, and their prior weights."""
    sizes = [np.geomspace(LEAST, MOST, 150)]
    for found in measured:
        near = np.abs(found.gain + found.width * np.linspace(-5, 5, 41))
        sizes.append(near[(near > LEAST) & (near < MOST)])
    size = np.unique(np.concatenate(sizes).round(7))
    share = np.gradient(np.log(size))
    share /= 2 * share.sum()
    return np.concatenate((-size[::-1], size)), np.concatenate((share[::-1], share))


def information(
    now: Posterior, measured: Mapping[int, Measured], candidates: Sequence[int], blocks: int
) -> np.ndarray:
    """Bits that `blocks` more at each candidate are expected to tell about which commit it was.

    A probe only tells whether its commit is changed. How well follows from the change as it is
    estimated now, and from the noise of this commit's blocks, or of a typical commit's. OWN is
    drawn once for a commit: further blocks there can only narrow what the first ones left open.
    """
    typical = float(np.median([found.spread for found in measured.values()])) if measured else OWN
    noise = []
    for commit in candidates:
        found = measured.get(commit)
        if found is None:
            noise.append(math.hypot(typical / math.sqrt(blocks), OWN))
        else:
            before = found.width**2
            after = found.spread**2 / (found.count + blocks) + OWN**2
            noise.append(math.sqrt(after * before / max(before - after, 1e-12 * before)))
    changed = np.array([now.changed_by(commit) for commit in candidates])
    return _channel(changed, abs(now.change) / np.array(noise))


def _channel(chance: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Bits that a normal value tells about a yes or no; `chance` is that of yes, at which the value
    is shifted by `distance` standard deviations."""
    chance = np.clip(chance, 1e-12, 1 - 1e-12)[:, None]
    distance = np.minimum(distance, 20.0)[:, None]  # well below that nothing is left open
    grid, step = np.linspace(-6, 26, 401, retstep=True)
    no, yes = (-((grid - at) ** 2) / 2 - math.log(2 * math.pi) / 2 for at in (0.0, distance))
    both = np.logaddexp(np.log(chance) + yes, np.log1p(-chance) + no)
    told = chance * np.exp(yes) * (yes - both) + (1 - chance) * np.exp(no) * (no - both)
    bits: np.ndarray = told.sum(axis=1) * float(step) / math.log(2)
    return np.maximum(bits, 0.0)
