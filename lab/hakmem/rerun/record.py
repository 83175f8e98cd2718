"""A comparison again from its record alone: cells, libraries, amounts, metric, rules, seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hakmem import peers, project
from hakmem.errors import LabError
from hakmem.ledger.store import Record
from hakmem.paired import cells as cell_module
from hakmem.paired import readings, work
from hakmem.paired.blocks import BASE, Plan, Track
from hakmem.paired.cells import Cell
from hakmem.paired.readings import Better, Reading
from hakmem.paired.work import Work
from hakmem.process import library, provenance
from hakmem.process.library import Library
from hakmem.suite import SUITE, Command

LETTERS = (BASE, "B")
OF_THE_LAB = ("LC_ALL", "LAB_PADDING", "LD_PRELOAD")


class AsRecorded(Work):
    """A benchmark that does the recorded amount of work, whatever time that takes now."""

    @property
    def scales(self) -> bool:
        return False


@dataclass
class Past:
    """A record with those it was made from; `notes` collect what is not as it was.

    `given` names files for libraries whose own are gone.
    """

    record: Record
    records: Mapping[str, Record]
    given: Mapping[str, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def body(self) -> Mapping[str, Any]:
        return self.record.body

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def samples(self, track: str, letter: str) -> list[Record]:
        """The recorded samples of a cell on a track; none where the record has none."""
        blocks = [self.records[i] for i in self.body.get("inputs", ()) if i in self.records]
        inside = [i for b in blocks if b.body.get("track") == track for i in b.body["inputs"]]
        return [
            self.records[i]
            for i in inside
            if i in self.records and self.records[i].body.get("cell") == letter
        ]


def source(past: Past) -> Mapping[str, Any]:
    """The source the record was measured from: its own word, or its setting's."""
    own = past.body.get("source")
    if isinstance(own, Mapping):
        return own
    raise LabError(f"record {past.record.id} does not say from which source it was measured")


def comparison(past: Past, folder: Path) -> Plan:
    """The plan of a verdict or an A/A. Copies of an A/A's library go into `folder`."""
    body = past.body
    try:
        pairs = sides(body)
        cells = [cell(past, *pairs[0])]
        if past.record.kind == "A/A":
            cells = cell_module.twins(replace(cells[0], name=cells[0].library.name), folder)
        else:
            cells.append(cell(past, *pairs[1]))
        entries = [entry for entry, _ in pairs]
        tracks = [track(past, entry, entries) for entry in body["benchmarks"]]
        plan = dict(zip(LETTERS, cells, strict=True))
        margin, seed, most = float(body["margin"]), int(body["seed"]), int(body["most_blocks"])
        return Plan(plan, tracks, body["aim"], margin, seed, most)
    except (KeyError, TypeError, ValueError, IndexError, StopIteration) as error:
        raise LabError(
            f"record {past.record.id} does not hold enough to repeat it "
            f"({type(error).__name__}: {error}): measure anew"
        ) from None


def sides(body: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Its two cells with their binaries, the one that the other was measured against first."""
    pairs = list(zip(body["cells"], body["binary"], strict=True))
    if len(pairs) != 2:
        raise ValueError(f"{len(pairs)} cells")
    return pairs[::-1] if is_of_the_base(body) else pairs


def is_of_the_base(body: Mapping[str, Any]) -> bool:
    """Whether the verdict is on cell A against another one, as those of `compare` are."""
    return bool(body["cells"][-1]["letter"] == BASE)


def cell(past: Past, entry: Mapping[str, Any], binary: Mapping[str, Any]) -> Cell:
    """A cell with the environment that its processes had, the user's own settings included."""
    found = find(past, entry, binary)
    environment = dict(entry["environment"])
    samples = past.samples(past.body["benchmarks"][0]["name"], entry["letter"])
    for name, value in (samples[0].body["environment"] if samples else {}).items():
        if name not in OF_THE_LAB and name not in found.env:
            environment[name] = value
    return Cell(entry["name"], found, environment, entry.get("bench"))


def find(past: Past, entry: Mapping[str, Any], binary: Mapping[str, Any]) -> Library:
    """The library by its name; what is another file than the recorded one is said."""
    name, digest = str(entry["library"]), str(binary["sha256"])
    found = past.given.get(name)
    chosen = cell_module.from_file(found) if found else _known(name, entry, digest)
    now = provenance.binary(chosen.path).sha256
    if now != digest:
        what = "was built again, and" if name == "hakmem" else "has changed:"
        past.note(f"{name} {what} is not the recorded file (sha256 {now[:12]}, was {digest[:12]})")
    return chosen


def _known(name: str, entry: Mapping[str, Any], digest: str) -> Library:
    if name == "hakmem":
        return library.hakmem()
    known = {lib.name: lib for lib in peers.found()}
    if name in known:
        return known[name]
    # A path inside the project is recorded from its root on.
    path = project.root() / str(entry.get("path", name))
    if path.is_file():
        return cell_module.from_file(path)
    way = (
        f"`hakmem peers build {name}` brings it"
        if name in peers.recipes()
        else f"name the file with --lib {name}=PATH"
    )
    raise LabError(f"the library {name} (sha256 {digest[:12]}) is not here: {way}")


def track(past: Past, entry: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Track:
    """One work of the comparison, with the recorded amounts and reading."""
    works = {at: _work(past, entry, side) for at, side in zip(LETTERS, cells, strict=True)}
    command = works[BASE].command
    floor = None
    if entry["floor"]:
        references = command.references if command else ()
        floor = next((r for r in references if r.name == entry["floor"]), None)
        if floor is None:
            raise LabError(f"{entry['name']} has no {entry['floor']} any more")
    return Track(entry["name"], entry["role"], _reading(past, entry, command), works, floor)


def _work(past: Past, entry: Mapping[str, Any], side: Mapping[str, Any]) -> Work:
    works = entry["works"]
    name = str(side.get("bench") if side.get("bench") in works else next(iter(works)))
    found = works[name]
    if found["definition"] is None:
        return work.own(found["arguments"])
    command = next((c for c in SUITE.commands if c.name == name), None)
    if command is None:
        raise LabError(f"the benchmark {name} is not in the suite any more")
    if provenance.definition(command, project.source_dir()) != found["definition"]:
        past.note(f"{name} was measured with other arguments or another harness than its commit's")
        command = _arguments(past, entry["name"], side["letter"], command)
    amount = found.get("amounts", {}).get(side["letter"], found["amount"])
    return AsRecorded(name, command=command, amount=amount)


def _arguments(past: Past, name: str, letter: str, command: Command) -> Command:
    """The command with the arguments that its samples were started with."""
    samples = past.samples(name, letter)
    own = tuple(samples[0].body["argv"][1:]) if samples else command.arguments
    return replace(command, arguments=own)


def _reading(past: Past, entry: Mapping[str, Any], command: Command | None) -> Reading:
    stated = entry.get("better") or _option(past.body["argv"], "--better")
    better: Better = "higher" if stated == "higher" else "lower"
    name = entry["metric"]
    if command and name not in readings.OF_BENCH and not name.startswith("regex:"):
        return readings.of_figure(next(f for f in SUITE.figures if f.name == entry["name"]))
    return readings.choose(name, command.name if command else None, better)


def _option(argv: Sequence[str], name: str) -> str | None:
    """The value of an option in a command line."""
    for at, word in enumerate(argv):
        if word == name and at + 1 < len(argv):
            return argv[at + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
