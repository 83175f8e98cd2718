"""What the samples weigh: by stack and by function, at several times, and how exactly. Pure."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hakmem.heap.pprof import Location, Profile
from hakmem.heap.symbols import Frame

Stack = tuple[Frame, ...]  # outermost first
K = TypeVar("K")

# Functions that only pass a request on: what they allocate is their caller's. Told by name or, in
# LANGUAGES_OWN, by source file, because inlined functions of C++ come without their namespace.
WRAPPERS = (
    r"[mMz]alloc|(?<!lo)[cC]alloc|(?<!p)[rR]ealloc|memalign|strn?dup|^operator new"
    r"|^<?(std|__gnu_cxx|alloc|core|hashbrown)::|^__rust_"
)
LANGUAGES_OWN = re.compile(r"/include/c\+\+/|^/rustc/\w+/library/")
# The allocator keeps so many frames of a stack (src/profile/sample.c); the callers above are not
# known.
FRAMES = 64
CUT = Frame("[deeper: callers not kept]", "")
# Beginnings of hakmem's own functions: where it is linked into the program, the allocator cannot
# tell them from others, and leaves them in the stacks.
OURS = ("hk_watched_", "new_slow", "derived_new_slow", "derived_nothrow_slow")
SIDE = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True)
class Weight:
    """Bytes and objects. `variance` is that of the bytes, by the chance of which were sampled."""

    bytes: int = 0
    objects: int = 0
    variance: float = 0.0

    def __add__(self, other: "Weight") -> "Weight":
        return Weight(
            self.bytes + other.bytes, self.objects + other.objects, self.variance + other.variance
        )

    def __sub__(self, other: "Weight") -> "Weight":
        return self + -other

    def __neg__(self) -> "Weight":
        return Weight(-self.bytes, -self.objects, self.variance)

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the bytes."""
        return SIDE * math.sqrt(self.variance)


def weight(bytes: int, objects: int, interval: int) -> Weight:
    """The weight of objects of one size: each was sampled with a chance p that its size decides,
    and counts for 1/p.

    So n of them are n·p samples, and their sum has the variance n·size²·(1 − p)/p.
    """
    if interval <= 1 or objects <= 0:
        return Weight(bytes, objects)
    size = bytes / objects
    chance = -math.expm1(-size / interval)
    return Weight(bytes, objects, objects * size**2 * (1 - chance) / chance if chance else 0.0)


@dataclass(frozen=True)
class Weighed:
    """A profile's stacks with their weights; stacks of no weight are left out."""

    stacks: Sequence[tuple[Stack, Weight]]

    @property
    def total(self) -> Weight:
        return sum((each for _, each in self.stacks), Weight())


def weigh(profile: Profile, what: str, names: Mapping[Location, tuple[Frame, ...]]) -> Weighed:
    rows = []
    for sample in profile.samples:
        if sample.bytes[what] > 0:
            stack = tuple(frame for place in sample.stack for frame in names[place])[::-1]
            ours = (at for at, frame in enumerate(stack) if frame.name.startswith(OURS))
            stack = stack[: next(ours, None)]
            if len(sample.stack) == FRAMES:
                stack = (CUT, *stack)
            rows.append((stack, weight(sample.bytes[what], sample.objects[what], profile.interval)))
    return Weighed(rows)


def _sums(rows: Iterable[tuple[K, Weight]]) -> defaultdict[K, Weight]:
    """The sum of the weights of each kind."""
    found: defaultdict[K, Weight] = defaultdict(Weight)
    for kind, each in rows:
        found[kind] += each
    return found


def change(
    before: Weighed, after: Weighed, between: Weighed | None = None, interval: int = 0
) -> dict[Stack, Weight]:
    """By stack, how much more there is after than before.

    What one process has in use at both times was sampled once, and adds nothing to the variance. So
    the variance is also bounded by that of what was allocated `between` the two, and of what must
    therefore have been freed.
    """
    then, now = _sums(before.stacks), _sums(after.stacks)
    came = _sums(between.stacks if between else ())
    found = {}
    for stack in {**then, **now}:
        found[stack] = now[stack] - then[stack]
        if between is not None:
            new = came[stack]
            gone = new - found[stack]
            sides = (weight(side.bytes, side.objects, interval) for side in (new, gone))
            least = min(found[stack].variance, sum(side.variance for side in sides))
            found[stack] = replace(found[stack], variance=least)
    return found


def grown(changed: Mapping[Stack, Weight]) -> Weighed:
    return Weighed([(stack, each) for stack, each in changed.items() if each.bytes > 0])


def shrunk(changed: Mapping[Stack, Weight]) -> Weighed:
    """The stacks that have less, as positive weights."""
    return Weighed([(stack, -each) for stack, each in changed.items() if each.bytes < 0])


# ---- functions ----


@dataclass
class Function:
    """The weight allocated for a function itself, and for it and all that it called."""

    frame: Frame
    own: Weight = Weight()
    total: Weight = Weight()
    places: Counter[tuple[bool, str, int]] = field(default_factory=Counter)

    @property
    def place(self) -> str:
        """Its file, and the line that weighs most, first among those that allocate."""
        _, file, line = max(self.places, key=lambda place: (place[0], self.places[place]))
        return f"{file}:{line}" if line else file


def owner(stack: Stack, wrappers: re.Pattern[str]) -> Frame:
    """The innermost function that does more than pass the request on."""
    for frame in reversed(stack):
        if not (wrappers.search(frame.name) or LANGUAGES_OWN.search(frame.file)):
            return frame
    return stack[0] if stack else Frame("[no stack]", "?")


def functions(weighed: Weighed, wrappers: re.Pattern[str]) -> list[Function]:
    """The functions, heaviest first. One that calls itself counts once for a stack."""
    found: dict[Frame, Function] = {}
    for stack, each in weighed.stacks:
        own = owner(stack, wrappers)
        inner = {frame: frame for frame in stack} or {own: own}
        for frame in inner.values():
            row = found.setdefault(frame, Function(frame))
            row.total += each
            if frame == own:
                row.own += each
            row.places[frame == own, frame.file, frame.line] += each.bytes
    return sorted(
        found.values(), key=lambda row: (-row.own.bytes, -row.total.bytes, row.frame.name)
    )


@dataclass(frozen=True)
class Change:
    """What is in use for a function itself, before and after."""

    frame: Frame
    before: Weight
    after: Weight
    change: Weight

    @property
    def is_clear(self) -> bool:
        """Whether the change is more than chance can make of it, at 95 %."""
        return abs(self.change.bytes) > self.change.margin


def changes(
    before: Weighed, after: Weighed, changed: Mapping[Stack, Weight], wrappers: re.Pattern[str]
) -> list[Change]:
    """The changes by function, the largest first."""
    rows = (before.stacks, after.stacks, changed.items())
    then, now, more = (_owned(each, wrappers) for each in rows)
    moved = [
        Change(frame, then[frame], now[frame], each) for frame, each in more.items() if each.bytes
    ]
    return sorted(moved, key=lambda row: (-abs(row.change.bytes), row.frame.name))


def _owned(
    rows: Iterable[tuple[Stack, Weight]], wrappers: re.Pattern[str]
) -> defaultdict[Frame, Weight]:
    """The weight allocated for each function itself."""
    return _sums((owner(stack, wrappers), each) for stack, each in rows)


# ---- stacks as a tree ----


@dataclass
class Node:
    """A function as called from its parent, with all below it."""

    frame: Frame
    weight: Weight = Weight()
    below: dict[Frame, "Node"] = field(default_factory=dict)

    def children(self) -> list["Node"]:
        return sorted(self.below.values(), key=lambda node: (-node.weight.bytes, node.frame.name))


def tree(weighed: Weighed, name: str) -> Node:
    root = Node(Frame(name, ""))
    for stack, each in weighed.stacks:
        node = root
        node.weight += each
        for frame in stack:
            node = node.below.setdefault(frame, Node(frame))
            node.weight += each
    return root


# ---- time ----


@dataclass(frozen=True)
class Growth:
    """Bytes in use at each time, in seconds since the process started: of the heaviest functions,
    and of all others together."""

    seconds: Sequence[float]
    names: Sequence[Frame]
    bytes: Sequence[Sequence[int]]
    rest: Sequence[int]

    @property
    def layers(self) -> list[Sequence[int]]:
        return [*self.bytes, self.rest]

    @property
    def highest(self) -> int:
        return max(map(sum, zip(*self.layers, strict=True)))


def growth(
    profiles: Sequence[Profile], weighed: Sequence[Weighed], wrappers: re.Pattern[str], most: int
) -> Growth:
    at = [_owned(each.stacks, wrappers) for each in weighed]
    highest: Counter[Frame] = Counter()
    for owned in at:
        highest |= Counter({frame: each.bytes for frame, each in owned.items()})
    names = [frame for frame, _ in highest.most_common(most)]
    layers = [[owned[name].bytes for owned in at] for name in names]
    begin = profiles[0].time_ns - profiles[0].duration_ns
    return Growth(
        seconds=[(profile.time_ns - begin) / 1e9 for profile in profiles],
        names=names,
        bytes=layers,
        rest=[
            each.total.bytes - sum(layer[number] for layer in layers)
            for number, each in enumerate(weighed)
        ],
    )
