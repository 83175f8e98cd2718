"""`hakmem matrix`: runs the stages of a matrix, cell by cell, to its verdict."""

import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from hakmem import project
from hakmem.errors import Interrupted, LabError
from hakmem.matrix import rules, view
from hakmem.matrix.plan import Matrix, Stage, file_name
from hakmem.matrix.rules import Conclusion, Evidence, Result
from hakmem.paired import blocks, readings
from hakmem.paired.blocks import Plan, Track
from hakmem.paired.cells import Cell, distinct, find
from hakmem.paired.recording import Facts
from hakmem.paired.session import sampler
from hakmem.paired.work import Work
from hakmem.process import children, host, library, order, provenance
from hakmem.process.argv import own_argv
from hakmem.process.library import Library
from hakmem.process.lock import host_lock
from hakmem.process.settings import tuning
from hakmem.soak import analysis as soak_analysis, inside as soak, session
from hakmem.soak.inside import Started
from hakmem.suite import Command
from hakmem.terminal import progress_bar

FORMAT = 2
NAME = "state.json"
PAGE = "matrix.html"


@dataclass
class State:
    """The folder of one run: state.json, written whole after each cell, and the CSV of every soak.

    A cell is what is repeated after an interruption: one soak, or one round of pairs. `setting`
    must be the same when a run goes on, or its cells would not belong together. `record` is the id
    under which the finished matrix was recorded.
    """

    folder: Path
    setting: Mapping[str, Any]
    seed: int
    cells: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    record: str | None = None

    @classmethod
    def open(cls, folder: Path, setting: Mapping[str, Any], seed: int | None) -> "State":
        """The state in the folder, or a new one. LabError: unreadable, other setting or seed."""
        try:
            text = (folder / NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            state = cls(folder, setting, order.fresh(seed))
            state.save()
            return state
        except OSError as error:
            raise LabError(f"cannot read {folder / NAME}: {error.strerror}") from error
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                raise ValueError
            state = cls(folder, **content)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LabError(f"{folder / NAME} cannot be read: begin anew with --fresh") from None
        for key, value in setting.items():
            if state.setting.get(key) != value:
                raise LabError(
                    f"the {key} of the run in {folder} was another one: its cells do not fit; "
                    "begin anew with --fresh, or choose another folder with --out"
                )
        if seed is not None and state.seed != seed:
            raise LabError(f"the run in {folder} has seed {state.seed}: --fresh, or no --seed")
        return state

    def has(self, key: str) -> bool:
        """Whether the cell is done; not if a soak's CSV is missing or has changed."""
        cell = self.cells.get(key)
        if cell is None or "csv" not in cell:
            return cell is not None
        path = self.folder / cell["csv"]
        return path.is_file() and host.sha256(path) == str(cell["sha256"])

    def dump(self) -> str:
        content = {key: value for key, value in vars(self).items() if key != "folder"}
        return json.dumps({"format": FORMAT, **content}, indent=1, ensure_ascii=False) + "\n"

    def save(self) -> None:
        project.write_atomically(self.folder / NAME, self.dump())


def soak_key(stage: str, mode: str) -> str:
    return f"stage {stage}, soak, {mode}"


def round_key(stage: str, number: int) -> str:
    return f"stage {stage}, round {number}"


def rounds_of(state: State, stage: Stage) -> list[Mapping[str, Any]]:
    """The finished rounds of a stage."""
    keys = (round_key(stage.name, number) for number in range(stage.rounds))
    return [state.cells[key] for key in keys if key in state.cells]


def failure_of(state: State, stage: Stage, mode: str) -> str | None:
    """How the first failed process of a mode failed; None if none did."""
    errors = [found["failed"].get(mode) for found in rounds_of(state, stage)]
    return next(filter(None, [state.cells[soak_key(stage.name, mode)]["error"], *errors]), None)


def evidence(state: State, stage: Stage, mode: str) -> Evidence:
    """All that the cells of a stage say of a mode."""
    cell, analysis = state.cells[soak_key(stage.name, mode)], None
    found = (done["gains"] for done in rounds_of(state, stage))
    gains = [each[mode] for each in found if mode in each]
    if cell["error"] is None:
        csv = state.folder / cell["csv"]
        _, analysis = soak_analysis.read(str(csv), csv.read_bytes())
    return Evidence(failure_of(state, stage, mode), analysis, cell["ops"], gains)


REFUSED_SETTING = re.compile(r"^hakmem: warning: ((HAKMEM_\w+)=.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Finished:
    """A matrix at its end, or where a `failure` of its baseline ended it."""

    results: Sequence[Result]
    conclusion: Conclusion
    state: State
    facts: Facts
    failure: str | None = None


class Runner:
    """Runs the cells of one matrix that are not done yet."""

    def __init__(
        self,
        matrix: Matrix,
        cells: Mapping[str, Cell],
        facts: Facts,
        state: State,
        progress: Progress,
        bar: TaskID,
    ) -> None:
        self.matrix, self.state = matrix, state
        self._cells, self._facts, self._progress, self._bar = cells, facts, progress, bar
        self._program = program(matrix)
        others = (cell for name, cell in cells.items() if name != matrix.baseline)
        self._sides = distinct([cells[matrix.baseline], *others])

    def stage(self, stage: Stage, names: Sequence[str]) -> None:
        """The soaks in a random order, then the rounds of pairs, each in a random order."""
        rng = random.Random(f"{self.state.seed}/{stage.name}")
        for name in order.shuffled(names, rng):
            key = soak_key(stage.name, name)
            with self._cell(key, stage.seconds):
                if not self.state.has(key):
                    self._keep(key, self._soak(stage, name))
        for number in range(stage.rounds):
            key = round_key(stage.name, number)
            with self._cell(key, 2 * len(names) * stage.pair_s):
                if not self.state.has(key):
                    self._keep(key, self._round(stage, self._alive(stage, names), number))

    def _keep(self, key: str, cell: Mapping[str, Any]) -> None:
        self._facts.require_unchanged(self._cells)
        self.state.cells[key] = cell
        self.state.save()

    @contextmanager
    def _cell(self, key: str, seconds: float) -> Iterator[None]:
        """Moves the bar, at the end of the cell, to where it is planned to be then."""
        before = self._progress.tasks[self._bar].completed
        self._progress.update(self._bar, description=key)
        yield
        self._progress.update(self._bar, completed=before + seconds)

    def _alive(self, stage: Stage, names: Sequence[str]) -> list[str]:
        """Modes of which no process has failed in this stage; none where the baseline's has."""
        found = [name for name in names if failure_of(self.state, stage, name) is None]
        return found if self.matrix.baseline in found else []

    def _soak(self, stage: Stage, name: str) -> dict[str, Any]:
        cell, argv = self._cells[name], self._argv(stage.seconds, stage.epoch_s)
        what = Started.benchmark(argv, cell.library, cell.environment)
        facts = {"matrix": self.matrix.title, "stage": stage.name, "mode": name}
        path = self.state.folder / f"{file_name(stage.name)}-{file_name(name)}.csv"
        with session.Csv(path, {**facts, **session.facts_of(what)}) as csv:

            def on_epoch(row: soak.Row, line: str) -> None:
                csv.epoch(list(row), line)
                self._progress.advance(self._bar, stage.epoch_s)

            ended = soak.run_epochs(what, stage.epoch_s, on_epoch)
            csv.end(ended.facts())
        error = _crash_only(name, ended.status, ended.error)
        found = {"csv": path.name, "sha256": host.sha256(path), "error": error, "ops": ended.ops}
        return {**found, "proof": ended.proof.to_dict() if ended.proof else None}

    def _round(self, stage: Stage, names: Sequence[str], number: int) -> dict[str, Any]:
        """One block of a comparison, in which each mode runs twice, there and back."""
        program, *words = self._argv(stage.pair_s, stage.pair_s)
        plain = (word.replace("{", "{{").replace("}", "}}") for word in words)
        command = Command(self._program.name, program, tuple(plain))
        work = Work(command.name, command=command, timeout_s=soak.WARM_UP_S + 10 * stage.pair_s)
        reading = readings.choose(self.matrix.clock, command.name)
        track = Track(command.name, "target", reading, dict.fromkeys(self._sides, work))
        taken = blocks.block(
            track,
            [at for at, cell in self._sides.items() if cell.name in names],
            number,
            random.Random(f"{self.state.seed}/{stage.name}/{number}"),
            sampler(Plan(self._sides, [track], self.state.seed)),
            lambda *_: self._progress.advance(self._bar, stage.pair_s),
            {},
        )
        run = [self._sides[letter].name for letter in taken.order]
        figures: dict[str, list[float]] = {name: [] for name in run}
        failed: dict[str, str] = {}
        for name, sample in zip(run, taken.samples, strict=True):
            if error := _crash_only(name, sample.status, sample.error):
                failed[name] = error
            else:
                figures[name].append(reading.value(sample))
        gains = {self._sides[letter].name: gain for letter, gain in taken.gains.items()}
        return {"order": run, "figures": figures, "gains": gains, "failed": failed}

    def _argv(self, seconds: float, epoch_s: float) -> list[str]:
        work = self.matrix.command[1:]
        return [str(self._program), *work, f"--seconds={seconds:g}", f"--epoch-sec={epoch_s:g}"]


def _crash_only(mode: str, status: int | None, error: str | None) -> str | None:
    """How the process failed, or None. LabError where it ran well, but not as the mode says."""
    if error is not None and status == 0:
        raise LabError(f"mode {mode}: {error}")
    return error


def program(matrix: Matrix) -> Path:
    """What every mode runs: a benchmark by name, or a program by its path."""
    name = matrix.command[0]
    if "/" in name:
        return project.require_file(Path(name).absolute(), "the matrix's program")
    return provenance.require_program(project.bench_dir() / name, project.source_dir())


# ---- before the first cell ----


def prepare(matrix: Matrix) -> tuple[dict[str, Cell], Facts]:
    """The modes as cells, and the facts. LabError at once for what would spoil the run later."""
    foreign = sorted(tuning(os.environ))  # would change what the modes say
    if foreign:
        raise LabError(f"a mode is what the file says: unset {', '.join(foreign)} first")
    program(matrix)
    named = dict.fromkeys(mode.library for mode in matrix.modes.values())
    libraries = {name: find(name) for name in named}
    for lib in libraries.values():
        library.verify(lib)
    cells = {
        name: Cell(name, libraries[mode.library], mode.environment)
        for name, mode in matrix.modes.items()
    }
    for name, cell in cells.items():
        refused = refused_settings(cell.library, cell.environment)
        if refused:
            raise LabError(f"mode {name} is not what it says: {'; '.join(refused)}")
    return cells, Facts.of(cells, own_argv())


def refused_settings(lib: Library, settings: Mapping[str, str]) -> list[str]:
    """The allocator's own warnings about these settings."""
    true = shutil.which("true") or "/bin/true"
    done = children.said([true], env=Started.benchmark([true], lib, settings).environment)
    return [line for line, name in REFUSED_SETTING.findall(done.stderr) if name in settings]


def expected_s(matrix: Matrix) -> float:
    """Seconds that all stages take if as many modes go on as there is room for."""
    total = 0.0
    inside: Sequence[str] = matrix.candidates
    for stage in matrix.stages:
        names = matrix.modes_of(stage, inside)
        total += len(names) * (stage.seconds + 2 * stage.rounds * stage.pair_s)
        inside = inside[: stage.keep]
    return total


# ---- the run ----


def run(matrix: Matrix, folder: Path, seed: int | None, console: Console) -> Finished:
    """Runs the matrix under the host's lock; goes on where a run in the folder stopped."""
    with host_lock():
        cells, facts = prepare(matrix)
        setting = {"digest": matrix.digest, "scale": matrix.scale, "source": facts.source}
        libraries = {name: facts.binaries[name]["sha256"] for name in cells}
        state = State.open(folder, {**setting, "libraries": libraries}, seed)
        if state.cells:
            console.print(f"goes on where it stopped: {len(state.cells)} cells are done")
        results: list[Result] = []
        failure = None
        with progress_bar(console, counted=False) as progress:
            bar = progress.add_task("", total=expected_s(matrix))
            runner = Runner(matrix, cells, facts, state, progress, bar)
            try:
                inside: Sequence[str] = matrix.candidates
                for stage in matrix.stages:
                    names = matrix.modes_of(stage, inside)
                    if not inside:
                        break
                    runner.stage(stage, names)
                    base, seen = matrix.baseline, {n: evidence(state, stage, n) for n in names}
                    if base in seen and (why := seen[base].error):
                        failure = f"stage {stage.name}: the baseline itself failed: {why}"
                        break
                    result = rules.judge(stage, matrix.clock, base, seen)
                    results.append(result)
                    view.print_stage(progress.console, result, matrix)
                    if stage.modes is None or stage is matrix.stages[0]:
                        inside = result.going
            except KeyboardInterrupt:
                raise Interrupted(
                    f"interrupted: {folder} keeps all finished cells, the same command goes on"
                ) from None
    return Finished(results, rules.conclude(matrix, results, failure), state, facts, failure)
