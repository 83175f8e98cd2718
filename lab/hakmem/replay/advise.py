"""Which of hakmem's options help a trace: measured, and recommended only where that is decided."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import terminal, words
from hakmem.errors import LabError
from hakmem.paired import cells as cell_module, protocol, recording, tables
from hakmem.paired.blocks import BASE
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.session import Conducted
from hakmem.replay.measure import Replayed

# The sets of options that are tried: profiles, sizes around the default, features switched off.
SETS = (
    "HAKMEM_PROFILE=speed",
    "HAKMEM_PROFILE=lean",
    "HAKMEM_TCACHE_KB=256",
    "HAKMEM_TCACHE_KB=8192",
    "HAKMEM_THP=0",
    "HAKMEM_LEARN_SIZES=0",
    "HAKMEM_SS_MEM_LEAN_TARGET_MB=64",
)

Side = Literal["better", "worse", "same", "open"]


@dataclass(frozen=True)
class Advice:
    """What is known of one set of options: its name, and how time and memory come out."""

    name: str
    time: Side
    memory: Side

    @property
    def helps(self) -> bool:
        return "better" in (self.time, self.memory)


def cells_of(more: Sequence[str]) -> Mapping[str, Cell]:
    """hakmem as it is, then with each set of options; LabError where one of `more` is no set."""
    for text in more:
        if not text or not all(re.match(r"HAKMEM_\w+=", word) for word in text.split()):
            raise LabError(f"--set {text!r}: a set is written 'HAKMEM_X=1 HAKMEM_Y=2'")
    return cell_module.distinct([cell_module.parse(text) for text in ("", *SETS, *more)])


def side(decision: Decision | None) -> Side:
    """How a set compares with the default; better only if the whole interval is beyond 1 %."""
    if decision is None:
        return "open"
    gain = decision.target
    if protocol.near(gain):
        return "same"
    if decision.verdict == "NO-GO":
        return "worse"
    return "better" if decision.verdict == "GO" and gain.low >= protocol.NARROW else "open"


def advices(done: Replayed) -> list[Advice]:
    cells = done.request.cells
    decided = (done.time.outcome.decisions, done.memory.outcome.decisions)
    return [
        Advice(cell.name, *(side(found.get(letter)) for found in decided))
        for letter, cell in cells.items()
        if letter != BASE
    ]


def sentence(found: Sequence[Advice]) -> str:
    """The recommendation: sets that help and cost nothing; then what must be weighed."""
    free = [a for a in found if a.helps and "worse" not in (a.time, a.memory)]
    dear = [a for a in found if a.helps and a not in free]
    gain = partial(_words, which="better", words=("faster", "less memory"))
    loss = partial(_words, which="worse", words=("slower", "more memory"))
    parts = [f"{a.name} ({gain(a)})" for a in free]
    traded = [f"{a.name} ({gain(a)}, but {loss(a)})" for a in dear]
    if not (parts or traded):
        return "nothing helps: no set of options is shown to be better than hakmem as it is"
    said = f"recommended: {', '.join(parts)}" if parts else "nothing helps without a price"
    return said + (f"; to be weighed: {', '.join(traded)}" if traded else "")


def _words(advice: Advice, which: Side, words: tuple[str, str]) -> str:
    sides = zip((advice.time, advice.memory), words, strict=True)
    return " and ".join(word for side, word in sides if side == which)


def tell(done: Replayed, console: Console) -> None:
    for conducted, _ in done.parts:
        tables.print_warnings(console, conducted)
        tables.print_measured(console, conducted, ())
    console.print(table(done))
    console.print(
        Text("ratios to hakmem as it is, with intervals: ▲ better, ▼ worse, = within 1 %, ? open")
    )
    terminal.say(console, sentence(advices(done)), "bold")


def table(done: Replayed) -> Table:
    """A row per set: time and memory as ratios to the default, with their intervals."""
    units = (conducted.plan.tracks[0].reading.unit for conducted, _ in done.parts)
    made = terminal.table("", *units)
    for letter, cell in done.request.cells.items():
        shown = (_cell(conducted, letter) for conducted, _ in done.parts)
        made.add_row(Text(cell.name), *shown)
    return made


def _cell(done: Conducted, letter: str) -> Text:
    """The default's own figure, or a set's ratio to it."""
    track = done.plan.tracks[0]
    if letter == BASE:
        return Text(tables.typical(track, done.outcome, BASE))
    decision = done.outcome.decisions.get(letter)
    if decision is None:
        return tables.no_verdict(done.outcome, letter)
    ratio = recording.ratio(track, decision.target)
    found = words.LOOKS[side(decision)]
    return Text(f"{ratio.estimate:.3f} {words.ends(ratio, 3)} {found.sign}", style=found.style)
