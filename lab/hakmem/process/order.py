"""The order of samples: seeded, interleaved, pure. A fixed order is a bias that no gate can see."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
MAX_PADDING = 4095


def palindrome(items: Sequence[T], rng: random.Random) -> list[T]:
    """All items in a random order and back again, so that every two of them stand as ABBA.

    Two items give A B B A or B A A B at random. An even drift affects all items alike.
    """
    there = shuffled(items, rng)
    return [*there, *reversed(there)]


def fresh(seed: int | None) -> int:
    """The seed as given, or a random one."""
    return random.SystemRandom().randrange(2**31) if seed is None else seed


def padding(rng: random.Random) -> int:
    return rng.randint(0, MAX_PADDING)


def shuffled(items: Sequence[T], rng: random.Random) -> list[T]:
    return rng.sample(list(items), len(items))
