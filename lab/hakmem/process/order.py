"""The order of samples: seeded, interleaved, pure. A fixed order is a bias that no gate can see."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hakmem.suite import Command, Reference

T = TypeVar("T")
MAX_PADDING = 4095


@dataclass(frozen=True)
class Task:
    """One sample to take: a command under a library, or one of the command's references."""

    command: Command
    library: str
    reference: Reference | None
    round: int
    padding: int

    @property
    def cell(self) -> tuple[str, str]:
        return self.command.name, self.library


def rounds(
    commands: Sequence[Command], libraries: Sequence[str], seed: int, count: int
) -> Iterator[list[Task]]:
    """Each round takes every cell once: commands shuffled, and within each its libraries.

    What is compared with each other thus runs close together in time, in no fixed order.
    """
    rng = random.Random(seed)
    for number in range(count):
        tasks = []
        for command in shuffled(commands, rng):
            cells: list[tuple[str, Reference | None]] = [(name, None) for name in libraries]
            cells += [(reference.name, reference) for reference in command.references]
            for name, reference in shuffled(cells, rng):
                tasks.append(Task(command, name, reference, number, padding(rng)))
        yield tasks


def palindrome(items: Sequence[T], rng: random.Random) -> list[T]:
    """All items in a random order and back again, so that every two of them stand as ABBA.

    Two items give A B B A or B A A B by the coin. Whatever drifts evenly is the same for all.
    """
    there = shuffled(items, rng)
    return [*there, *reversed(there)]


def padding(rng: random.Random) -> int:
    return rng.randint(0, MAX_PADDING)


def shuffled(items: Sequence[T], rng: random.Random) -> list[T]:
    return rng.sample(list(items), len(items))
