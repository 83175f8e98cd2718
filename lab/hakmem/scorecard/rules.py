"""When a target is met, missed or undecided. Pure.

Three states, as every verdict here: met where the whole interval is within the bound, missed where
all of it is beyond, undecided between them. A figure without an interval decides only where its
target says that it needs none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["met", "missed", "undecided", "stale", "not measured"]
STATES: tuple[State, ...] = ("met", "missed", "undecided", "stale", "not measured")

OF_VERDICT: Mapping[str, State] = {"GO": "met", "NO-GO": "missed"}


@dataclass(frozen=True)
class Figure:
    """A recorded value; `low` and `high` are its interval, None where it has none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Bound:
    """The value that is allowed, at most or at least; `tie` is what beyond it counts as equal."""

    side: Literal["at most", "at least"]
    value: float
    tie: float = 0.0

    @property
    def limit(self) -> float:
        return self.value + self.tie if self.side == "at most" else self.value - self.tie

    def excess(self, figure: Figure) -> tuple[float, float]:
        """How far the figure's good end and its bad end are beyond the limit; below 0 is within."""
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        if self.side == "at most":
            return low - self.limit, high - self.limit
        return self.limit - high, self.limit - low


def judge(figure: Figure, bound: Bound, plain: bool = False) -> State:
    """`plain`: the target needs no interval."""
    if not plain and (figure.low is None or figure.high is None):
        return "undecided"
    good, bad = bound.excess(figure)
    if bad <= 0:
        return "met"
    return "missed" if good > 0 else "undecided"


def decide(
    figures: Mapping[str, Figure], bound: Bound, plain: bool = False
) -> tuple[State, str | None]:
    """The state over all rivals, and the one that decides it.

    One that beats the bound is enough to miss it; to meet it, all must keep to it.
    """
    if not figures:
        return "not measured", None
    states = {name: judge(figure, bound, plain) for name, figure in figures.items()}
    state: State = next(s for s in ("missed", "undecided", "met") if s in states.values())
    end = 0 if state == "missed" else 1
    among = [name for name, found in states.items() if found == state]
    return state, max(among, key=lambda name: bound.excess(figures[name])[end])
