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
    block: str | None = None
    letter: str | None = None

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
        for command in _shuffled(commands, rng):
            cells = [(name, None) for name in libraries]
            cells += [(reference.name, reference) for reference in command.references]
            for name, reference in _shuffled(cells, rng):
                tasks.append(Task(command, name, reference, number, _padding(rng)))
        yield tasks


def pairs(
    commands: Sequence[Command], subject: str, rivals: Sequence[str], seed: int, count: int
) -> Iterator[list[Task]]:
    """Each round takes one block per command and rival: A B B A or B A A B by a seeded coin.

    A is the rival, B the subject; the references of a command are taken once per round.
    """
    rng = random.Random(seed)
    for number in range(count):
        units: list[list[Task]] = []
        for command in commands:
            units += [_block(command, subject, rival, number, rng) for rival in rivals]
            units += [
                [Task(command, reference.name, reference, number, _padding(rng))]
                for reference in command.references
            ]
        yield [task for unit in _shuffled(units, rng) for task in unit]


def _block(
    command: Command, subject: str, rival: str, number: int, rng: random.Random
) -> list[Task]:
    block = f"{command.name}/{rival}/{number}"
    names = {"A": rival, "B": subject}
    return [
        Task(command, names[letter], None, number, _padding(rng), block, letter)
        for letter in rng.choice(("ABBA", "BAAB"))
    ]


def _padding(rng: random.Random) -> int:
    return rng.randint(0, MAX_PADDING)


def _shuffled(items: Sequence[T], rng: random.Random) -> list[T]:
    return rng.sample(list(items), len(items))
