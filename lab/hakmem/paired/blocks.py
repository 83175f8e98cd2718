"""Runs a sequential paired comparison: blocks of all cells, a look at them, until it is decided.

A block runs all cells in a random order and back, `turns` times, so that any two of them stand in
it as ABBA or BAAB, again and again. Disturbances of a shared machine come in bursts of seconds, and
its processor has two or three speeds: a hundred short samples of each cell, taken in turn, meet
them all alike (docs/decisions/0014). A cell's figure in a block is the mean of its samples without
the worst tenth, net of the floor's figure in the same block; the block's value is the logarithm of
the ratio. A cell that is decided or has failed is not measured any more.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from hakmem.paired import protocol
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Aim, Decision
from hakmem.paired.readings import Reading, Unreadable
from hakmem.paired.work import Work
from hakmem.process import order
from hakmem.process.sample import Sample
from hakmem.suite import Reference

BASE = "A"
FLOOR = "0"
LEAST_NET = 0.01


@dataclass(frozen=True)
class Track:
    """One work that all cells run, and the figure read off it; `works` may differ by cell.

    `turns` is how often a block goes there and back: it takes 2 × `turns` samples of each cell.
    """

    name: str
    role: Literal["target", "guard"]
    reading: Reading
    works: Mapping[str, Work]
    floor: Reference | None = None
    turns: int = 1


@dataclass(frozen=True)
class Trial:
    """One sample to take on a track: of the cell `letter`, or of the FLOOR."""

    track: Track
    letter: str
    round: int
    position: int
    padding: int

    @property
    def work(self) -> Work:
        """What is run; the floor runs the work of A."""
        return self.track.works[BASE if self.letter == FLOOR else self.letter]


@dataclass(frozen=True)
class Block:
    """The samples of one track in one round. `order` has the letter of each sample, `gains` the
    gain of each contender by letter."""

    track: str
    round: int
    order: str
    samples: tuple[Sample, ...]
    gains: Mapping[str, float]


@dataclass(frozen=True)
class Plan:
    """What to compare and by which rules; the first track is the target.

    Nothing is decided before the look at `first` blocks, because other figures read off the same
    samples need that many blocks too. `margin` is δ, a share.
    """

    cells: Mapping[str, Cell]
    tracks: Sequence[Track]
    seed: int
    most: int = protocol.LOOKS[-1]
    first: int = protocol.LOOKS[0]
    aim: Aim = "improvement"
    margin: float = protocol.LEAST_MARGIN

    @property
    def contenders(self) -> list[str]:
        return [letter for letter in self.cells if letter != BASE]

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of blocks after which something may be decided; the last one is `most`."""
        return tuple(n for n in protocol.looks(self.most) if n >= min(self.first, self.most))

    def samples_per_round(self) -> int:
        return sum(2 * t.turns * (len(self.cells) + (t.floor is not None)) for t in self.tracks)


@dataclass
class Outcome:
    """What was measured and decided. A failed cell has no decision but a reason in `failures`."""

    blocks: list[Block] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """The number of rounds; a track has at most one block in each."""
        return max((block.round + 1 for block in self.blocks), default=0)

    def samples(self, track: str, letter: str) -> list[Sample]:
        """The cell's samples on a track that have no error, in the order taken."""
        return [
            sample
            for block in self.blocks
            if block.track == track
            for at, sample in zip(block.order, block.samples, strict=True)
            if at == letter and sample.error is None
        ]

    def values(self, track: Track, letter: str) -> list[float]:
        return [track.reading.value(sample) for sample in self.samples(track.name, letter)]

    def net(self, track: Track, letter: str) -> float:
        """The cell's figure over all its samples: without the worst tenth, net of the floor."""
        mine, floor = self.values(track, letter), self.values(track, FLOOR)
        return typical(mine, track.reading) - (typical(floor, track.reading) if floor else 0.0)

    def gains(self, track: str, letter: str) -> list[float]:
        return [b.gains[letter] for b in self.blocks if b.track == track and letter in b.gains]


Sampler = Callable[[Trial], Sample]
OnLook = Callable[[int, Mapping[str, Decision]], None]


def nothing(*_: object) -> None:
    """The default callback: does nothing."""


def run(
    plan: Plan,
    sampler: Sampler,
    on_sample: Callable[[Trial, Sample], None] = nothing,
    on_look: OnLook = nothing,
    failures: Mapping[str, str] | None = None,
) -> Outcome:
    """Takes blocks until every contender is decided or has failed, or `plan.most` blocks are taken.

    `failures` are those of cells that failed before the first block. If the base or the floor fails
    in any block, all decisions made before are dropped.
    """
    rng = random.Random(plan.seed)
    outcome = Outcome(failures=dict(failures or {}))
    for number in range(plan.most):
        for track in order.shuffled(plan.tracks, rng):
            letters = [BASE, *_open(plan, outcome)]
            if len(letters) > 1:
                outcome.blocks.append(
                    block(track, letters, number, rng, sampler, on_sample, outcome.failures)
                )
        if number + 1 in plan.looks:
            outcome.failures |= _at_floor(plan, outcome)
        waiting = _open(plan, outcome)
        if waiting and number + 1 in plan.looks:
            found = _look(plan, outcome, waiting, last=number + 1 == plan.most)
            on_look(number + 1, found)
            outcome.decisions |= {name: d for name, d in found.items() if d.final}
            waiting = _open(plan, outcome)
        if not waiting:
            break
    if not sound(outcome.failures):
        outcome.decisions.clear()
    return outcome


def sound(failures: Mapping[str, str]) -> bool:
    """Whether neither the base nor the floor has failed: every comparison depends on both."""
    return not failures.keys() & {BASE, FLOOR}


def _open(plan: Plan, outcome: Outcome) -> list[str]:
    """The contenders still to be measured; none where the base or the floor has failed."""
    if not sound(outcome.failures):
        return []
    closed = outcome.decisions.keys() | outcome.failures.keys()
    return [letter for letter in plan.contenders if letter not in closed]


def _at_floor(plan: Plan, outcome: Outcome) -> dict[str, str]:
    """The base and open cells whose net figure is at most LEAST_NET of the gross one: noise."""
    reasons = {}
    for track in plan.tracks:
        for letter in (BASE, *_open(plan, outcome)) if outcome.values(track, FLOOR) else ():
            gross = typical(outcome.values(track, letter), track.reading)
            if outcome.net(track, letter) <= LEAST_NET * gross:
                reasons[letter] = f"{track.name}: nothing of it is above its floor"
    return reasons


def _look(plan: Plan, outcome: Outcome, waiting: Sequence[str], last: bool) -> dict[str, Decision]:
    gains = {name: [outcome.gains(t.name, name) for t in plan.tracks] for name in waiting}
    given_up = [d for d in outcome.decisions.values() if d.verdict == "UNDECIDED"]
    return protocol.look(gains, plan.aim, plan.margin, last, len(waiting) + len(given_up))


def block(
    track: Track,
    letters: Sequence[str],
    number: int,
    rng: random.Random,
    sampler: Sampler,
    on_sample: Callable[[Trial, Sample], None],
    failures: dict[str, str],
) -> Block:
    """Takes a block's samples. A cell that fails drops out, has no gain, and is in `failures`."""
    taken: list[tuple[str, Sample]] = []
    sides = [*letters, *([FLOOR] if track.floor else [])]
    row = "".join(at for _ in range(track.turns) for at in order.palindrome(sides, rng))
    for position, letter in enumerate(row):
        trial = Trial(track, letter, number, position, order.padding(rng))
        if letter in failures:
            continue
        sample = checked(sampler(trial), track.reading)
        if sample.error is not None:
            failures[letter] = f"{track.name}: {sample.error}"
        taken.append((letter, sample))
        on_sample(trial, sample)
    gains = _gains(track, taken, failures)
    done = "".join(letter for letter, _ in taken)
    return Block(track.name, number, done, tuple(sample for _, sample in taken), gains)


def checked(sample: Sample, reading: Reading) -> Sample:
    """The sample with its output shortened; an error is added if it lacks the reading's figure."""
    if sample.error is None:
        try:
            value = reading.value(sample)
        except Unreadable as error:
            return replace(sample, error=str(error)).shortened()
        if reading.in_output:
            sample = replace(sample, matched=value)
    return sample.shortened()


def _gains(
    track: Track, taken: Sequence[tuple[str, Sample]], failures: Mapping[str, str]
) -> dict[str, float]:
    """ln of the ratio to the base, above 0 where better, of each contender that has not failed."""
    values: dict[str, list[float]] = {}
    for letter, sample in taken if sound(failures) else ():
        if letter not in failures:
            values.setdefault(letter, []).append(track.reading.value(sample))
    changes = change_of(values, track.reading)
    return {letter: track.reading.sign * change for letter, change in changes.items()}


def change_of(values: Mapping[str, Sequence[float]], reading: Reading) -> dict[str, float]:
    """ln (cell ÷ base) for each cell of a block, net of the block's own floor, if there is one.

    A cell at its floor counts as LEAST_NET of its gross figure: such a block is extreme, which does
    no harm where blocks are ranked.
    """
    gross = {at: typical(mine, reading) for at, mine in values.items()}
    floor = gross.pop(FLOOR, 0.0)
    logs = {at: math.log(max(mine - floor, LEAST_NET * mine)) for at, mine in gross.items()}
    return {at: log - logs[BASE] for at, log in logs.items() if at != BASE}


def typical(values: Sequence[float], reading: Reading) -> float:
    """The mean without the worst tenth; of fewer than ten values, of all of them."""
    best_first = sorted(values, reverse=reading.better == "higher")
    return fmean(best_first[: len(values) - len(values) // 10])
