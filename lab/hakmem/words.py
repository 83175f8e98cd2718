"""How numbers and verdicts are written, the same in the terminal and in the report."""

import math
from typing import NamedTuple

from hakmem.stats import Interval


class Look(NamedTuple):
    """Of a state, whatever it is one of: its sign, and its colour in a page and in a terminal."""

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
TIE_BAND = 0.05  # a tie of many rows: the whole interval so near to 1
TIE = f"= : no difference was found, and the whole interval is within {100 * TIE_BAND:.0f} % of 1."
NAME = 48  # characters of one in a table
SMALL = 0.1  # a ratio below it has three decimals


def number(value: float | None) -> str:
    """Three significant digits, fewer below one, more where the integer part needs them; never an
    exponent."""
    if value is None:
        return "–"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return count(value, decimals)


def precise(value: float) -> str:
    """The same, with three of them below one too: such figures may differ in the third decimal."""
    size = abs(value)
    if not 1e-6 < size < 1:
        return number(value)
    return count(value, 2 - math.floor(math.log10(size)))


def printable(text: str) -> str:
    """Of others' making: without what a terminal would act on. What is no text stays a number."""
    signs = (s if s.isprintable() or "\udc80" <= s <= "\udcff" else "?" for s in text)
    return "".join(signs)


def count(value: float, decimals: int = 0) -> str:
    return f"{value:,.{decimals}f}".replace(",", "\u202f").replace("-", "−")


def unit(count: float) -> tuple[int, str]:
    """The power of two, and its name, in which so many bytes have the fewest digits."""
    known = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
    return next((each for each in known if abs(count) >= 1 << each[0]), (0, "B"))


def size(count: float) -> str:
    """Bytes, in the unit that suits them."""
    power, name = unit(count)
    shown = number(count / (1 << power)) if power else f"{count:.0f}".replace("-", "−")
    return f"{shown} {name}"


def ratio(interval: Interval) -> str:
    return f"{interval.estimate:.{_decimals(interval)}f}"


def ends(interval: Interval, decimals: int | None = None) -> str:
    """In brackets; the range of values too few for an interval is called so. None: as `ratio`."""
    digits = _decimals(interval) if decimals is None else decimals
    low, high = (f"{end:.{digits}f}" for end in (interval.low, interval.high))
    return f"[{low}–{high}]" + " range" * (interval.kind == "range")


def _decimals(ratio: Interval) -> int:
    return 2 if ratio.estimate >= SMALL else 3


def short(name: str) -> str:
    """Of a function, which may be long beyond all measure."""
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def mark(state: str) -> str:
    """Its sign alone, for where there is no room for its word."""
    return LOOKS[state].sign


def marked(state: str) -> str:
    """With its word; one that is not known by its word alone."""
    return f"{LOOKS[state].sign} {state}" if state in LOOKS else state


def style(state: str) -> str:
    return LOOKS[state].style


def colour(state: str) -> str:
    return LOOKS[state].colour if state in LOOKS else "undecided"
