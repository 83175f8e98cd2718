"""`hakmem rerun`: measures a record again, and compares the two."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from hakmem import terminal
from hakmem.errors import Interrupted, LabError
from hakmem.ledger import claims, store as ledger
from hakmem.ledger.store import PARTS, Ledger, Record
from hakmem.paired import suite_record
from hakmem.process.argv import with_option
from hakmem.rerun import source
from hakmem.rerun.source import Past, binaries

# ---- whether a repetition agrees with what was recorded ----

# Two figures agree if their intervals overlap. Two verdicts contradict each other only if one is GO
# and the other NO-GO: UNDECIDED contradicts nothing. Shown but not judged are figures without an
# interval, or with a plain range of a few runs; those with the interval of a single run, which does
# not hold for the next (a drift is judged by its word); and those that depend on the machine (all
# but ratios) where they were measured on another one.
State = Literal["agrees", "contradicts", "not judged"]

MEANING = (
    "agrees: the two intervals overlap, no GO stands against a NO-GO (UNDECIDED stands against "
    "nothing), and two bisections suspect a commit in common; figures of single runs and those "
    "without an interval are shown, not judged"
)
NOT_JUDGED = {"range", claims.WITHIN}
SUSPECTS = "suspects"
OPPOSITE = {
    frozenset(("GO", "NO-GO")),
    frozenset(("win", "loss")),
    frozenset(("drifts", "none")),
    frozenset(("kept", "broken")),
}


@dataclass(frozen=True)
class Figure:
    """One metric, as it was recorded and as it is now; None where one of the records lacks it."""

    name: str
    recorded: Mapping[str, Any] | None
    repeated: Mapping[str, Any] | None
    state: State


@dataclass(frozen=True)
class Judgement:
    """The comparison of a repetition with its record: figures, and words (verdicts) by name."""

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
    """Compares the bodies of two records of one kind."""
    same_machine = machine(recorded) == machine(repeated)
    before, now = recorded.get("metrics") or {}, repeated.get("metrics") or {}
    figures = [
        Figure(name, before.get(name), now.get(name), of_figure(before, now, name, same_machine))
        for name in dict.fromkeys((*before, *now))
    ]
    said, says = answers(recorded), answers(repeated)
    words: dict[str, tuple[str, str, State]] = {
        name: (word, says[name], "contradicts" if contradict(name, word, says[name]) else "agrees")
        for name, word in said.items()
        if name in says
    }
    return Judgement(figures, words)


def contradict(name: str, one: str, other: str) -> bool:
    """Whether two words are opposites, or two sets of suspects have no commit in common."""
    if name == SUSPECTS:
        return set(one.split()).isdisjoint(other.split())
    return {one, other} in OPPOSITE


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
    if ends is None or their_ends is None:
        return "not judged"
    overlap = ends[0] <= their_ends[1] and their_ends[0] <= ends[1]
    return "agrees" if overlap else "contradicts"


def answers(body: Mapping[str, Any]) -> dict[str, str]:
    """A record in words: its verdict, those of its metrics, a soak's drifts, standings, a
    bisection's suspects."""
    found = {"verdict": body["verdict"]} if "verdict" in body else {}
    if body.get("suspects"):
        found[SUSPECTS] = " ".join(body["suspects"])
    for name, metric in (body.get("metrics") or {}).items():
        if isinstance(metric, Mapping) and "verdict" in metric:
            found[name] = str(metric["verdict"])
    for name, drift in ((body.get("analysis") or {}).get("drift") or {}).items():
        found[f"drift of {name}"] = drift["state"]
    for name, standing in (body.get("standings") or {}).items():
        found[name] = standing["verdict"]
    return found


@dataclass
class Repetition:
    """The result for one record: the new record and the judgement, or why there is none."""

    past: Past
    again: Record | None = None
    judgement: Judgement | None = None
    failure: str | None = None

    @property
    def state(self) -> str:
        return self.judgement.state if self.judgement else "failed"


def require_whole(record: Record, records: Mapping[str, Record]) -> None:
    """LabError for a part of a result; it names a result that rests on the part, if any."""
    if record.kind in PARTS:
        of_setting = (r.id for r in records.values() if r.body.get("setting") == record.id)
        parts = {record.id, *of_setting}
        results = (r for r in records.values() if r.kind not in PARTS)
        rests = (r.id for r in results if not parts.isdisjoint(r.body.get("inputs") or ()))
        whole = next(rests, None)
        hint = f"repeat {whole}, which rests on it" if whole else "nothing rests on it"
        raise LabError(f"record {record.id} is a {record.kind}, a part of a result: {hint}")


def repeat(past: Past, console: Console) -> Repetition:
    """Measures one record again. A failure is a result too; an interrupt is raised."""
    record = past.record
    terminal.say(console, f"{record.id}: {record.title}", "bold")
    try:
        with source.as_of(past, console), ledger.repeating(record.id):
            again = by_command(past, console)
    except Interrupted:
        raise
    except LabError as error:
        return Repetition(past, failure=str(error))
    note_libraries(past, again)
    records = {**past.records, **{r.id: r for r in Ledger.default().records()}}
    before, now = (_with_parts(r, records) for r in (record, again))
    return Repetition(past, again, judge(before, now))


def _with_parts(record: Record, records: Mapping[str, Record]) -> Mapping[str, Any]:
    """A record's body; for a suite with the figures of its benchmarks."""
    whole = suite_record.whole(record, records) if record.kind == "suite" else None
    return whole or record.body


def note_libraries(past: Past, again: Record) -> None:
    """Notes which libraries are other files than the recorded ones."""
    now = binaries(again.body)
    for name, digest in binaries(past.body).items():
        if name in now and now[name] != digest:
            past.note(
                f"{name} is not the recorded file (sha256 {now[name][:12]}, was {digest[:12]})"
            )


def by_command(past: Past, console: Console) -> Record:
    """Runs the record's command line again, and finds what that recorded."""
    kind, before = past.record.kind, {r.id for r in Ledger.default().records()}
    folder = Path("out") / f"rerun-{past.record.id}"
    argv = command_line(past, folder)
    terminal.say(console, " ".join(argv))
    run_own(argv)
    new = [r for r in Ledger.default().records() if r.id not in before and r.kind == kind]
    # Of several verdicts that the command recorded, the one of the same cells for the same metric.
    # If a given library has another name, the one in the same place.
    new = [r for r in new if _metric(r) == _metric(past.record)]
    same = [r for r in new if _cells(r) == _cells(past.record)]
    if len(same) == 1:
        return same[0]
    inputs = past.body.get("inputs")
    together = [
        r.id
        for r in past.records.values()
        if r.kind == kind and r.body.get("inputs") == inputs and _metric(r) == _metric(past.record)
    ]
    if not new or (inputs and len(new) != len(together)):
        raise LabError("its command ended without such a record: what it said stands above", 1)
    return new[together.index(past.record.id) if inputs else 0]


def _metric(record: Record) -> object:
    first = next(iter(record.body.get("benchmarks") or ()), None)
    return first.get("metric") if first else None


def _cells(record: Record) -> list[object]:
    return [cell.get("name") for cell in record.body.get("cells") or ()]


def command_line(past: Past, folder: Path) -> list[str]:
    """The record's command line, with results going into a folder of this repetition."""
    argv = [past.with_given(str(word)) for word in past.body["argv"]]
    if past.record.kind in ("verdict", "A/A") and "--bench" in argv and argv[1] == "compare":
        raise LabError("it is of a suite of an earlier method: repeat its command line", 1)
    if past.record.kind in ("soak", "matrix"):
        folder.mkdir(parents=True, exist_ok=True)
    if past.record.kind == "soak":
        return with_option(argv, "--out", str(folder / "soak.csv"))
    if past.record.kind == "matrix":
        argv = with_option(argv, "--out", str(folder))
        argv = [word for word in argv if word != "--fresh"]
        if "--seed" not in argv:
            argv += ["--seed", str(past.body["seed"])]
        argv = _own_file(past, argv, folder)
        if (folder / "matrix.html").is_file():  # it has finished; an interrupted one goes on
            argv.append("--fresh")
    return argv


def _own_file(past: Past, argv: Sequence[str], folder: Path) -> list[str]:
    """The command line with the matrix file as it was: the ledger keeps it as raw output."""
    name = next((n for n in past.record.raw if n.endswith(".toml")), None)
    if name is None:
        return list(argv)
    text = Ledger.default().raw(past.record.raw[name])
    file = folder.with_suffix(".toml")
    file.write_bytes(text)
    stem = name.removesuffix(".toml")
    return [str(file) if Path(word).name.removesuffix(".toml") == stem else word for word in argv]


def run_own(argv: Sequence[str]) -> None:
    """Runs a command of the lab inside this process; its exit status, a verdict, is ignored."""
    from hakmem.cli import app  # imported late: it registers this command

    before, sys.argv = sys.argv, list(argv)  # the command line that gets recorded
    try:
        with suppress(SystemExit):
            app(sys.argv[1:], prog_name="hakmem")
    finally:
        sys.argv = before


# ---- how long ----


def expected_s(past: Past) -> float | None:
    """Seconds that the record took; None where it does not tell."""
    record, body = past.record, past.body
    if record.kind == "matrix":
        return sum(
            len(stage["judged"])
            * (stage["stage"]["seconds"] + 2 * stage["stage"]["rounds"] * stage["stage"]["pair_s"])
            for stage in body["stages"]
        )
    inputs = [past.records[i] for i in body.get("inputs", ()) if i in past.records]
    known = [(r.body.get("noise") or {}).get("seconds") for r in (inputs or [record])]
    return sum(map(float, filter(None, known))) if any(known) else None
