"""One soak from its start to its record: the growing CSV, the view, the analysis."""

import contextlib
import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console

from hakmem import __version__, project, terminal
from hakmem.errors import Interrupted, LabError
from hakmem.ledger.claims import WITHIN
from hakmem.ledger.store import Ledger
from hakmem.paired.blocks import BASE
from hakmem.paired.cells import Cell
from hakmem.paired.recording import Facts
from hakmem.process import host, provenance
from hakmem.process.argv import own_argv
from hakmem.process.provenance import NoiseMeter
from hakmem.process.settings import settings_of
from hakmem.soak import analysis as soak_analysis, epochs_csv, inside, view
from hakmem.soak.analysis import Analysis, metric_name
from hakmem.soak.inside import Ended, OnEpoch, Started
from hakmem.suite import Command

Runner = Callable[[OnEpoch], Ended]


@dataclass(frozen=True)
class Plan:
    """A soak to be run. `what` is recorded with it; None: nothing is recorded."""

    title: str
    facts: Mapping[str, str]
    what: Started | None
    seconds: float | None
    path: Path


class Csv(contextlib.AbstractContextManager["Csv"]):
    """The file while the soak runs: each line is written whole, and flushed.

    A file that was there before stays until there is something to write; a new one that is still
    empty at the end is removed.
    """

    def __init__(self, path: Path, facts: Mapping[str, str]) -> None:
        self._path, self._facts = path, facts
        self._file: TextIO | None = None
        self._new = not path.exists()
        with self._said():
            path.open("a").close()

    def __exit__(self, *_: object) -> None:
        if self._file is None:
            if self._new:
                self._path.unlink(missing_ok=True)
            return
        with contextlib.suppress(OSError):  # every line was flushed before
            self._file.close()

    @property
    def begun(self) -> bool:
        return self._file is not None

    def epoch(self, names: Sequence[str], line: str) -> None:
        self._write(("" if self.begun else epochs_csv.header(self._facts, names)) + line + "\n")

    def end(self, facts: Mapping[str, str]) -> None:
        self._write("".join(epochs_csv.fact(k, v) + "\n" for k, v in facts.items()))

    def _write(self, text: str) -> None:
        with self._said():
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8")
            self._file.write(text)
            self._file.flush()

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LabError(f"cannot write {self._path}: {error.strerror}") from error


def facts_of(what: Started) -> dict[str, str]:
    """What the CSV's header says of the soak."""
    library = what.library
    variables = settings_of(what.environment)
    return {
        "command": shlex.join(what.argv),
        "library": f"{library.name} {library.version}",
        "sha256": provenance.binary(library.path).sha256,
        "environment": shlex.join(f"{k}={v}" for k, v in variables.items()),
        "source": json.dumps(provenance.source(project.source_dir())),
        "host": json.dumps(host.facts()),
        "lab": __version__,
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def run(plan: Plan, run_it: Runner, console: Console) -> Analysis:
    """Runs, writes, analyses, prints and records a soak. LabError where the program failed; a crash
    or a kill is recorded before, because a failure is a result too."""
    what = plan.what
    sides = {BASE: Cell(what.library.name, what.library)} if what else {}
    facts = Facts.of(sides, own_argv())
    benches = benchmarks(what.argv) if what else []
    noise = NoiseMeter()
    ended = watched(plan, run_it, console)
    if ended.proof is not None:
        console.print(f"hakmem {ended.proof.version} served malloc (pid {ended.proof.pid})")
    if ended.epochs:
        terminal.say(console, f"written: {plan.path}")
    found: dict[str, object] = {"failures": {plan.title: ended.error}, "ok": False}
    if ended.error is None:
        if not ended.epochs:  # ended before it could be sampled
            raise LabError(f"{plan.title} ended before its first epoch")
        analysis = soak_analysis.analyze(epochs_csv.parse(plan.path.read_text(encoding="utf-8")))
        view.print_analysis(console, analysis)
        found = {"metrics": metrics(analysis), "analysis": analysis.to_dict()}
    if what and (ended.error is None or ended.status):
        facts.require_unchanged(sides)
        body = {
            **facts.stated(),
            "command": list(what.argv),
            "environment": settings_of(what.environment),
            "benchmarks": benches,
            "binary": facts.binaries[BASE],
            "noise": noise.stop(),
            "proof": ended.proof.to_dict() if ended.proof else None,
            **found,
        }
        csv = {"epochs.csv": plan.path.read_bytes()} if ended.epochs else {}
        console.print(f"recorded: {Ledger.default().append('soak', body, csv).id}")
    if ended.error is not None:
        raise LabError(f"the soak failed: {ended.error}", status=1)
    return analysis


def watched(plan: Plan, run_it: Runner, console: Console) -> Ended:
    with Csv(plan.path, plan.facts) as csv, view.Watch(console, plan.title, plan.seconds) as watch:

        def on_epoch(row: inside.Row, line: str) -> None:
            csv.epoch(list(row), line)
            watch.update(row)

        try:
            ended = run_it(on_epoch)
        except KeyboardInterrupt:
            kept = f"{plan.path} keeps the epochs so far" if csv.begun else "before its first epoch"
            said = f"interrupted: {kept}, nothing was recorded"
            raise Interrupted(said) from None
        if csv.begun:
            csv.end(ended.facts())
    return ended


def benchmarks(argv: Sequence[str]) -> list[dict[str, object]]:
    """What was run, in the form in which the audit looks for it: a program of ours with its hash
    and that of its definition.

    Empty where a program of ours has no source: then the audit wants all of bench/ unchanged.
    """
    program = Path(argv[0])
    ours = program.resolve().parent == project.bench_dir().resolve()
    name = program.name
    entry: dict[str, object] = {"arguments": list(argv), "definition": None}
    if ours:
        command = Command(name, name, tuple(argv[1:]))
        try:
            definition = provenance.definition(command, project.source_dir())
        except LabError:
            return []
        entry = {"executable": name, "arguments": list(argv[1:]), "definition": definition}
        entry["sha256"] = host.sha256(program) if program.is_file() else None
    return [{"name": name, "role": "target", "works": {name: entry}}]


def metrics(analysis: Analysis) -> dict[str, dict[str, object]]:
    """The figures of a soak that a document may cite, in base units.

    Percentiles that the epochs do not carry are left out.
    """
    found: dict[str, tuple[float | None, str]] = {
        "calls_per_op": (analysis.calls_per_op, "calls/op"),
        "cpu_share": (analysis.cpu_share, "share"),
    }
    for column, value in analysis.plateau.items():
        memory = column.endswith("_kb")
        found[metric_name(column)] = (value * 1024, "B") if memory else (value, "ops/s")
    for column, spread in analysis.spread.items():
        found[f"{metric_name(column)}_cv"] = (spread.cv, "share")
        found[f"{metric_name(column)}_robust_cv"] = (spread.robust_cv, "share")
    for column, seen in analysis.distributions.items():
        unit = "ns/op" if column == "ns_per_op" else "ops/s"
        known = {"mean": seen.mean, "sd": seen.sd, "min": seen.minimum, "max": seen.maximum}
        known |= {name: p.value for name, p in seen.percentiles.items() if p.carried}
        found |= {f"{metric_name(column)}_{name}": (value, unit) for name, value in known.items()}
    plain = {k: {"value": v, "unit": unit} for k, (v, unit) in found.items() if v is not None}
    return plain | _drifts(analysis)


def _drifts(analysis: Analysis) -> dict[str, dict[str, object]]:
    """The drifts over the run with their intervals; a change within `margin` counts as none.

    An interval is that of this run's series: it says nothing of how another run may drift.
    """
    result: dict[str, dict[str, object]] = {}
    for column, found in analysis.drift.items():
        factor, unit = (1024, "B") if column.endswith("_kb") else (1, "ops/s")
        ends = {"value": found.per_run, "low": found.low, "high": found.high}
        if all(map(math.isfinite, ends.values())):
            known = {
                key: factor * value for key, value in (ends | {"margin": found.margin}).items()
            }
            result[f"{metric_name(column)}_drift"] = {**known, "unit": unit, "kind": WITHIN}
    return result
