"""Whether a repetition agrees with what was recorded. Pure.

Two figures agree if their intervals overlap; two verdicts, unless one says GO and the other NO-GO:
UNDECIDED contradicts nothing. Shown and not judged are a figure without an interval, with a plain
range of a few runs, or with the interval of a single run, which does not hold for the next (a drift
is judged by its word), and one that depends on the machine (any but a ratio) where it was measured
on another one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hakmem.ledger import claims

State = Literal["agrees", "contradicts", "not judged"]

MEANING = (
    "agrees: the two intervals overlap, and no GO stands against a NO-GO (UNDECIDED stands "
    "against nothing); figures of single runs and those without an interval are shown, not judged"
)
NOT_JUDGED = {"range", claims.WITHIN}
OPPOSITE = {
    frozenset(("GO", "NO-GO")),
    frozenset(("win", "loss")),
    frozenset(("drifts", "none")),
    frozenset(("kept", "broken")),
}


@dataclass(frozen=True)
class Figure:
    """One metric, as it was recorded and as it is now; None where one of them has it not."""

    name: str
    recorded: Mapping[str, Any] | None
    repeated: Mapping[str, Any] | None
    state: State


@dataclass(frozen=True)
class Judgement:
    """A repetition held against its record: figures, words (verdicts) by name, and what follows."""

    figures: Sequence[Figure]
    words: Mapping[str, tuple[str, str, State]]

    @property
    def state(self) -> State:
        """Contradicts if anything does; agrees if anything was judged at all."""
        found = [f.state for f in self.figures] + [state for _, _, state in self.words.values()]
        if "contradicts" in found:
            return "contradicts"
        return "agrees" if "agrees" in found else "not judged"


def judge(recorded: Mapping[str, Any], repeated: Mapping[str, Any]) -> Judgement:
    """Both bodies of records of one kind."""
    same_machine = machine(recorded) == machine(repeated)
    before, now = recorded.get("metrics") or {}, repeated.get("metrics") or {}
    figures = [
        Figure(name, before.get(name), now.get(name), of_figure(before, now, name, same_machine))
        for name in dict.fromkeys((*before, *now))
    ]
    said, says = answers(recorded), answers(repeated)
    words = {
        name: (said[name], says[name], of_words(said[name], says[name]))
        for name in said
        if name in says
    }
    return Judgement(figures, words)


def machine(body: Mapping[str, Any]) -> tuple[object, ...]:
    host = body.get("host") or {}
    return (host.get("cpu"), host.get("cpus"), host.get("kernel"))


def of_figure(
    before: Mapping[str, Any], now: Mapping[str, Any], name: str, same_machine: bool
) -> State:
    one, other = before.get(name), now.get(name)
    if not one or not other or one.get("unit") != other.get("unit"):
        return "not judged"
    if one.get("unit") != "ratio" and not same_machine:
        return "not judged"
    ends, their_ends = claims.ends(one), claims.ends(other)
    if not NOT_JUDGED.isdisjoint((one.get("kind"), other.get("kind"))):
        return "not judged"
    if ends is None or their_ends is None or not all(map(math.isfinite, (*ends, *their_ends))):
        return "not judged"
    overlap = ends[0] <= their_ends[1] and their_ends[0] <= ends[1]
    return "agrees" if overlap else "contradicts"


def of_words(said: str, says: str) -> State:
    return "contradicts" if frozenset((said, says)) in OPPOSITE else "agrees"


def answers(body: Mapping[str, Any]) -> dict[str, str]:
    """What a record says in words: its verdict, a soak's drifts, a bisection's culprit."""
    found = {"verdict": body["verdict"]} if "verdict" in body else {}
    for name, metric in (body.get("metrics") or {}).items():
        if isinstance(metric, Mapping) and "verdict" in metric:
            found[name] = str(metric["verdict"])
    for name, drift in ((body.get("analysis") or {}).get("drift") or {}).items():
        found[f"drift of {name}"] = drift["state"]
    for name, standing in (body.get("standings") or {}).items():
        found[name] = standing["verdict"]
    return found
