"""How numbers and verdicts are written, the same in the terminal and in the report."""

import math
from typing import NamedTuple

from hakmem.stats import Interval


class Look(NamedTuple):
    """How a state is shown: its sign, its colour in a page, and its style in a terminal."""

    sign: str
    colour: str
    style: str


LOOKS = {
    state: Look(*look)
    for look, states in {
        ("▲", "win", "green"): ("win", "better"),
        ("✓", "win", "green"): ("kept", "none", "met"),
        ("✓", "win", "bold green"): ("GO",),
        ("=", "", ""): ("tie", "same", "agrees"),
        ("▼", "loss", "bold red"): ("loss", "worse"),
        ("✗", "loss", "bold red"): ("NO-GO", "broken", "drifts", "missed", "contradicts", "failed"),
        ("✗", "error", "bold red"): ("error",),
        ("?", "undecided", "yellow"): ("UNDECIDED", "undecided", "open"),
        ("~", "", "magenta"): ("stale",),
        ("–", "", "dim"): ("not checked", "not judged", "not measured"),
    }.items()
    for state in states
}
TIE_BAND = 0.05  # a tie in a table of many rows: the whole interval is so near to 1
TIE = f"= : no difference was found, and the whole interval is within {100 * TIE_BAND:.0f} % of 1."
NAME = 48  # characters of a name in a table
SMALL = 0.1  # a ratio below it has three decimals


def number(value: float | None) -> str:
    """At most two decimals: three significant digits from 1 to 999, fewer below, all of the integer
    part above; never an exponent."""
    if value is None:
        return "–"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return count(value, decimals)


def precise(value: float) -> str:
    """The same, but with three significant digits below one too."""
    size = abs(value)
    if not 1e-6 < size < 1:
        return number(value)
    return count(value, 2 - math.floor(math.log10(size)))


def printable(text: str) -> str:
    """Text from elsewhere without what a terminal would act on. Undecodable bytes stay."""
    signs = (s if s.isprintable() or "\udc80" <= s <= "\udcff" else "?" for s in text)
    return "".join(signs)


def count(value: float, decimals: int = 0) -> str:
    return f"{value:,.{decimals}f}".replace(",", "\u202f").replace("-", "−")


def unit(count: float) -> tuple[int, str]:
    """The largest unit of bytes not above the value: its power of two, and its name."""
    known = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
    return next((each for each in known if abs(count) >= 1 << each[0]), (0, "B"))


def size(count: float) -> str:
    """Bytes, in a unit that suits them."""
    power, name = unit(count)
    shown = number(count / (1 << power)) if power else f"{count:.0f}".replace("-", "−")
    return f"{shown} {name}"


def ratio(interval: Interval) -> str:
    return f"{interval.estimate:.{_decimals(interval)}f}"


def ends(interval: Interval, decimals: int | None = None) -> str:
    """The two ends in brackets; a plain range is marked as one. `decimals` None: as in `ratio`."""
    digits = _decimals(interval) if decimals is None else decimals
    low, high = (f"{end:.{digits}f}" for end in (interval.low, interval.high))
    return f"[{low}–{high}]" + " range" * (interval.kind == "range")


def _decimals(ratio: Interval) -> int:
    return 2 if ratio.estimate >= SMALL else 3


def short(name: str) -> str:
    """A function's name, cut to NAME characters."""
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def mark(state: str) -> str:
    """The state's sign alone, for where there is no room for its word."""
    return LOOKS[state].sign


def marked(state: str) -> str:
    """The state's sign and word; the word alone for an unknown state."""
    return f"{LOOKS[state].sign} {state}" if state in LOOKS else state


def style(state: str) -> str:
    return LOOKS[state].style


def colour(state: str) -> str:
    return LOOKS[state].colour if state in LOOKS else "undecided"
