"""Where a bisection probes next, and when it has found the commit. Pure: it is only told."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hakmem.bisect.posterior import Measured, Posterior, information, posterior
from hakmem.paired.protocol import Verdict

SURE = 0.95
LEAST_BITS = 0.002  # probing ends where no probe is expected to tell more

Answer = Literal["commit", "range", "none", "open"]


@dataclass(frozen=True)
class Suspect:
    """Commits that no probe can tell apart: some that cannot be run, and the one after them.

    `before` is the last commit below them that may be run; 0 is the good end.
    """

    before: int
    commits: tuple[int, ...]
    chance: float


@dataclass(frozen=True)
class Finding:
    """The answer, and a `verdict` on naming a commit: GO if one is confirmed, NO-GO if none is."""

    answer: Answer
    verdict: Verdict
    sentence: str
    suspect: Suspect | None = None


@dataclass
class Search:
    """A search over commits 1 … `count`; each probe has `blocks`. The last commit must run."""

    count: int
    blocks: int
    gains: dict[int, list[float]] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)

    def tell(self, commit: int, gains: Sequence[float]) -> None:
        """Adds blocks of a commit against the good end to those it may already have."""
        self.gains.setdefault(commit, []).extend(gains)

    def skip(self, commit: int, why: str) -> None:
        """Notes that the commit does not build, or does not run."""
        self.skipped[commit] = why

    def measured(self) -> dict[int, Measured]:
        return {at: Measured.of(gains) for at, gains in self.gains.items()}

    def posterior(self) -> Posterior:
        return posterior(self.count, self.measured())

    def suspects(self, now: Posterior) -> list[Suspect]:
        """All commits, in order; one that cannot be run is together with the next that may be."""
        result, before, together = [], 0, []
        for commit in range(1, self.count + 1):
            together.append(commit)
            if commit not in self.skipped:
                chance = sum(now.chances[at] for at in together)
                result.append(Suspect(before, tuple(together), chance))
                before, together = commit, []
        return result

    def found(self, now: Posterior) -> Suspect | None:
        """The suspect that is sure enough to be put to the test."""
        return next((s for s in self.suspects(now) if s.chance >= SURE), None)

    def next(self, now: Posterior) -> int | None:
        """The commit whose probe is expected to tell most; None where no probe is worth it."""
        if self.found(now) or now.chances[0] >= SURE:
            return None
        open_ones = [at for at in range(1, self.count + 1) if at not in self.skipped]
        bits = information(now, self.measured(), open_ones, self.blocks)
        best = int(bits.argmax())
        return open_ones[best] if bits[best] >= LEAST_BITS else None
