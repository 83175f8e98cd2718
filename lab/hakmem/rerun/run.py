"""`hakmem rerun`: measures again what a record says, and holds the two against each other."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from hakmem.errors import LabError
from hakmem.ledger import store as ledger
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import ab, protocol, recording, session
from hakmem.process import provenance
from hakmem.process.lock import host_lock
from hakmem.rerun import record as rerun_record
from hakmem.rerun import source as rerun_source
from hakmem.rerun.record import Past
from hakmem.rerun.verdict import Judgement, judge

PAIRED = ("verdict", "A/A")
BY_COMMAND = ("baseline", "soak", "matrix", "bisect", "hotpath", "conformance")
KINDS = (*PAIRED, "suite", *BY_COMMAND)


@dataclass
class Repetition:
    """What came of one record: the new record and the judgement, or why there is none."""

    past: Past
    again: Record | None = None
    judgement: Judgement | None = None
    failure: str | None = None

    @property
    def state(self) -> str:
        if self.judgement is None:
            return "failed"
        return self.judgement.state


def parts(record: Record, records: Mapping[str, Record]) -> list[Record]:
    """The records that are measured to repeat this one: itself, or a suite's verdicts."""
    if record.kind == "suite":
        return [records[id] for id in record.body["inputs"]]
    if record.kind not in KINDS:
        whole = next((r.id for r in records.values() if rests_on(r, record, records)), None)
        hint = f"repeat {whole}, which rests on it" if whole else "nothing rests on it"
        raise LabError(f"record {record.id} is a {record.kind}, a part of a result: {hint}")
    return [record]


def rests_on(result: Record, part: Record, records: Mapping[str, Record]) -> bool:
    if result.kind not in KINDS:
        return False
    inputs = result.body.get("inputs") or ()
    blocks = (records[i] for i in inputs if i in records and records[i].kind == "block")
    return part.id in inputs or any(part.id in block.body["inputs"] for block in blocks)


def repeat(past: Past, console: Console) -> Repetition:
    """One record that is measured as a whole; where it cannot be, that is part of the answer."""
    record = past.record
    console.print(Text(f"{record.id}: {title(record)}", style="bold"), soft_wrap=True)
    try:
        with rerun_source.as_of(past, console), ledger.repeating(record.id):
            again = paired(past, console) if record.kind in PAIRED else by_command(past, console)
    except LabError as error:
        if error.status == 130:
            raise
        return Repetition(past, failure=str(error))
    return Repetition(past, again, judge(record.body, again.body))


def title(record: Record) -> str:
    body = record.body
    return str(body.get("question") or body.get("title") or " ".join(body.get("argv", ())))


def paired(past: Past, console: Console) -> Record:
    """A verdict or an A/A: the same two cells, amounts, rules and seed."""
    with tempfile.TemporaryDirectory(prefix="hakmem-aa-") as folder, host_lock():
        plan = rerun_record.comparison(past, Path(folder))
        facts = recording.Facts.of(plan.cells, provenance.own_argv())
        done = session.conduct(plan, 1.0, console, say=ab.standing)
        decision = done.outcome.decisions.get("B")
        if decision is None:
            why = "; ".join(done.outcome.failures.values())
            raise LabError(f"it could not be measured again: {why}", 1)
        body = _body(past, done, decision, facts)
        return recording.save(done, facts, {"B": body}, past.record.kind)["B"]


def _body(
    past: Past,
    done: session.Conducted,
    decision: protocol.Decision,
    facts: recording.Facts,
) -> Mapping[str, Any]:
    """The record in the form that the first one has."""
    if "suite" in past.body:
        from hakmem.paired import suite_record
        from hakmem.suite import SUITE

        figure = next(f for f in SUITE.figures if f.name == past.body["suite"])
        return suite_record.verdict_bodies(done, figure, facts)["B"]
    pair = ("A", "B")
    if rerun_record.is_of_the_base(past.body):
        pair, decision = ("B", "A"), protocol.swapped(decision)
    return recording.verdict_body(done.plan, pair, decision, past.body["question"], facts)


def summed_up(suite: Record, done: Sequence[Repetition]) -> Repetition | None:
    """The suite again, from its verdicts that were measured again; None where one is missing."""
    from hakmem.paired import suite_record

    parts = [r for r in done if r.past.record.id in suite.body["inputs"]]
    again = [(r.again.id, r.again.body) for r in parts if r.again]
    if len(again) < len(suite.body["inputs"]):
        return None
    with ledger.repeating(suite.id):
        body = suite_record.body(again, {}, provenance.own_argv())
        record = Ledger.default().append("suite", body)
    return Repetition(Past(suite, {}), record, judge(suite.body, record.body))


# ---- what is repeated by its command line ----


def by_command(past: Past, console: Console) -> Record:
    """Runs its command line again, and finds what that recorded."""
    kind, before = past.record.kind, {r.id for r in Ledger.default().records()}
    folder = Path("out") / f"rerun-{past.record.id}"
    argv = command_line(past, folder)
    console.print(Text(" ".join(argv)), soft_wrap=True)
    run_own(argv)
    new = [r for r in Ledger.default().records() if r.id not in before and r.kind == kind]
    if not new:
        raise LabError("its command ended without a record: what it said stands above", 1)
    return new[-1]


def command_line(past: Past, folder: Path) -> list[str]:
    """Its argv, with results going into a folder of this repetition."""
    argv = [*map(str, past.body["argv"])]
    if past.record.kind == "soak":
        return _with_option(argv, "--out", str(folder / "soak.csv"))
    if past.record.kind == "matrix":
        argv = _with_option(argv, "--out", str(folder))
        argv = [word for word in argv if word != "--fresh"]
        if "--seed" not in argv:
            argv += ["--seed", str(past.body["seed"])]
        argv = _own_file(past, argv, folder)
        if (folder / "matrix.svg").is_file():  # a finished one; an interrupted one goes on
            argv.append("--fresh")
    return argv


def _own_file(past: Past, argv: Sequence[str], folder: Path) -> list[str]:
    """The matrix as it was: its file lies in the ledger, by the checksum of what it said."""
    name = next((n for n in past.record.raw if n.endswith(".toml")), None)
    if name is None:
        return list(argv)
    text = Ledger.default().raw_path(past.record.raw[name]).read_bytes()
    file = folder.with_suffix(".toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
    stem = name.removesuffix(".toml")
    return [str(file) if Path(word).name.removesuffix(".toml") == stem else word for word in argv]


def _with_option(argv: Sequence[str], name: str, value: str) -> list[str]:
    """The command line with this option, in place of one that it may have; before any --."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            return [*kept, name, value, word, *words]
        if word == name:
            next(words, None)
        elif not word.startswith(f"{name}="):
            kept.append(word)
    return [*kept, name, value]


def run_own(argv: Sequence[str]) -> None:
    """A command of the lab inside this process; its exit status is its verdict, and not ours."""
    from hakmem.cli import app  # here, because it registers the command that comes here

    with _argv(argv), suppress(SystemExit):
        app(list(argv[1:]), prog_name="hakmem")


@contextmanager
def _argv(argv: Sequence[str]) -> Iterator[None]:
    """What is recorded as the command line is the one that was repeated."""
    before, sys.argv = sys.argv, list(argv)
    try:
        yield
    finally:
        sys.argv = before


# ---- how long ----


def expected_s(past: Past) -> float | None:
    """Seconds that it took, of the part that is repeated; None where the record does not tell."""
    record, body = past.record, past.body
    if record.kind == "matrix":
        return sum(
            len(stage["judged"])
            * (stage["stage"]["seconds"] + 2 * stage["stage"]["rounds"] * stage["stage"]["pair_s"])
            for stage in body["stages"]
        )
    inputs = (past.records[i] for i in body.get("inputs", ()) if i in past.records)
    setting = next((r for r in inputs if r.kind == "setting"), record)
    seconds = (setting.body.get("noise") or {}).get("seconds")
    if seconds is None:
        return None
    shared = len(setting.body.get("binaries") or ())
    return float(seconds) * (2 / shared if record.kind in PAIRED and shared else 1)
