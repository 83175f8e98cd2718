"""One slice of a comparison on a host of a cluster: some whole rounds, after those taken before.

A comparison follows from its plan, its seed and its samples alone. So any process can continue it
from the samples so far: the protocol is run on them again, and goes on from there.

`main` is a process of its own: it reads a request from stdin and writes the answer to stdout. When
stdin ends it stops, with all that it has started: so the host's lock is free, and nothing goes on
measuring, as soon as the worker that started it is gone.
"""

import hashlib
import io
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from hakmem import project
from hakmem.errors import INTERRUPTED, LabError
from hakmem.ledger.store import host_name
from hakmem.paired import blocks as paired, cells, session
from hakmem.paired.blocks import OnLook, Outcome, Plan, Sampler, Trial, nothing
from hakmem.paired.cells import Cell
from hakmem.paired.recording import Facts
from hakmem.paired.session import Ready
from hakmem.process import host, provenance, scratch
from hakmem.process.lock import host_lock
from hakmem.process.sample import Sample
from hakmem.process.settings import settings_of

# Facts of a host that may change while a comparison runs.
PASSING = ("load before", "frequency")


@dataclass(frozen=True)
class Places:
    """Where the project and its build are on a host; files inside are the same on all hosts."""

    root: Path = field(default_factory=project.root)
    build: Path = field(default_factory=project.build_dir)

    def here(self, path: Path) -> Path:
        """The path on this host of a file at `path` on theirs."""
        ours = Places()
        for theirs, mine in ((self.build, ours.build), (self.root, ours.root)):
            if path.is_relative_to(theirs):
                return mine / path.relative_to(theirs)
        return path


@dataclass(frozen=True)
class Job:
    """A comparison as it is asked for on a host. `twins` is the cell the plan has two copies of.

    The last three are the user's surroundings: folder and settings are the same on the host.
    """

    plan: Plan
    seconds: float
    argv: Sequence[str]
    facts: bool
    drop: bool
    twins: Cell | None
    places: Places
    folder: Path
    environment: Mapping[str, str]

    def files(self) -> dict[str, str]:
        """The files that a host must have too, with checksums: libraries, benchmarks, the user's
        program.

        A program without a slash in its name is found by PATH on each host.
        """
        sides = [self.twins] if self.twins else self.plan.cells.values()
        paths = {str(file) for cell in sides for file in cell.library.files}
        for track in self.plan.tracks:
            if track.floor and track.floor.preload:
                paths.add(str(project.bench_dir() / track.floor.preload))
            for work in track.works.values():
                if work.command:
                    paths.add(str(project.bench_dir() / work.command.executable))
                else:
                    program = work.arguments[0]
                    paths.add(str(Path(program).absolute()) if "/" in program else program)
        return {path: host.sha256(Path(shutil.which(path) or path)) for path in sorted(paths)}


def differing(files: Mapping[str, str], places: Places) -> list[str]:
    """Which of the files this host lacks, or has with another content, in words."""
    problems = []
    for name, digest in files.items():
        there = places.here(Path(name)) if "/" in name else Path(shutil.which(name) or name)
        try:
            found = host.sha256(there)
        except OSError:
            problems.append(f"{there} is not there")
            continue
        if found != digest:
            problems.append(f"{there} is another file (sha256 {found[:12]}, not {digest[:12]})")
    return problems


# ---- continuing from samples ----


class Pause(Exception):
    """The samples so far are used up, and no more are to be taken now."""


class Journal:
    """A sampler: returns the samples so far again, then fresh ones in whole rounds for `seconds`.
    LabError where the samples so far do not fit the plan; Pause at the end."""

    def __init__(
        self, before: Sequence[Sample], sampler: Sampler | None = None, seconds: float = 0.0
    ) -> None:
        self.before, self.sampler, self.seconds = before, sampler, seconds
        self.fresh: list[Sample] = []
        self._given, self._start = 0, time.monotonic()

    def __call__(self, trial: Trial) -> Sample:
        if self._given < len(self.before):
            sample = self.before[self._given]
            self._given += 1
            asked = (trial.track.name, trial.round, trial.position, trial.letter)
            if asked != (sample.command, sample.round, sample.position, sample.letter):
                raise LabError(f"the samples so far are not of this comparison: {asked}")
            return sample
        if self.sampler is None or self._over(trial):
            raise Pause
        self.fresh.append(self.sampler(trial))
        return self.fresh[-1]

    def _over(self, trial: Trial) -> bool:
        begins = bool(self.fresh) and trial.round != self.fresh[-1].round
        return begins and time.monotonic() - self._start >= self.seconds


def outcome_of(
    ready: Ready, samples: Sequence[Sample], on_look: OnLook = nothing
) -> Outcome | None:
    """What the samples decide; None where the comparison needs more of them."""
    try:
        return paired.run(ready.plan, Journal(samples), on_look=on_look, failures=ready.failures)
    except Pause:
        return None


def blocks_of(ready: Ready, samples: Sequence[Sample]) -> list[paired.Block]:
    """The blocks of a comparison that was given up."""
    rounds = len({sample.round for sample in samples})
    outcome = outcome_of(replace(ready, plan=replace(ready.plan, most=rounds)), samples)
    assert outcome is not None
    return outcome.blocks


# ---- on the host ----


@dataclass(frozen=True)
class Request:
    """The next slice of a job: `ready` and `facts` are of its first slice, None for that one."""

    job: Job
    files: Mapping[str, str]
    ready: Ready | None
    facts: Facts | None
    samples: Sequence[Sample]
    seconds: float


@dataclass(frozen=True)
class Slice:
    ready: Ready
    facts: Facts | None
    samples: Sequence[Sample]
    noise: Mapping[str, object]
    seconds: float


@dataclass(frozen=True)
class Refused:
    """It cannot be measured on this host; `for_now`: another benchmark is running there."""

    why: str
    for_now: bool = False


def answer(request: Request) -> Slice | Refused:
    with ExitStack() as stack:
        try:
            stack.enter_context(host_lock())
        except LabError as busy:
            return Refused(str(busy), for_now=True)
        try:
            return _measure(request, stack.enter_context(scratch.folder("slice")))
        except LabError as error:
            return Refused(str(error))


def _measure(request: Request, folder: Path) -> Slice:
    job = request.job
    _require_same_files(request)
    _settle(job)
    plan = replace(job.plan, cells=_cells_here(job, folder))
    facts = request.facts
    if facts:
        _require_same_host(facts.host)
    elif job.facts:
        facts = Facts.of(plan.cells, job.argv)
    quiet = Console(file=io.StringIO())
    ready = request.ready or session.require_ready(plan, job.seconds, quiet, job.drop)
    ready = replace(ready, plan=replace(ready.plan, cells=plan.cells))
    journal = Journal(request.samples, session.sampler(ready.plan), request.seconds)
    meter, started = provenance.NoiseMeter(), time.monotonic()
    with suppress(Pause):
        paired.run(ready.plan, journal, failures=ready.failures)
    took, noise = time.monotonic() - started, meter.stop()
    _require_same_files(request)
    # The answer names the files as they are on the user's host.
    ready = replace(ready, plan=replace(ready.plan, cells=job.plan.cells))
    return Slice(ready, facts, [_sent(job, s) for s in journal.fresh], noise, took)


def _require_same_files(request: Request) -> None:
    problems = differing(request.files, request.job.places)
    if problems:
        raise LabError("; ".join(problems))


def _settle(job: Job) -> None:
    """Takes on the user's folder and settings; LabError where something of these is missing."""
    for name in settings_of(os.environ):
        del os.environ[name]
    os.environ |= job.environment
    works = [work for track in job.plan.tracks for work in track.works.values()]
    unset = next((n for work in works for n in work.passed if n not in os.environ), None)
    if unset:
        raise LabError(f"--pass {unset}: it is set neither here nor where that was asked for")
    folder = job.places.here(job.folder)
    if folder.is_dir():
        os.chdir(folder)
    elif any(work.command is None for work in works):
        raise LabError(f"the folder {folder} is not there: a command runs where it was asked for")


def _cells_here(job: Job, folder: Path) -> Mapping[str, Cell]:
    def here(cell: Cell) -> Cell:
        own = cell.library
        path, beside = (file and job.places.here(file) for file in (own.path, own.beside))
        return replace(cell, library=replace(own, path=path, beside=beside))

    if job.twins:
        return cells.distinct(cells.twins(here(job.twins), folder))
    return {letter: here(cell) for letter, cell in job.plan.cells.items()}


def _require_same_host(before: Mapping[str, str]) -> None:
    """LabError where a fact of the host has changed since the comparison began."""
    for name, value in host.facts().items():
        if name not in PASSING and before.get(name) != value:
            raise LabError(f"the host changed in the middle: {name} was {before.get(name)}")


def _sent(job: Job, sample: Sample) -> Sample:
    """The sample with the project's path as the user has it, so that its record reads the same."""
    root = str(project.root())
    return replace(sample, argv=tuple(a.replace(root, str(job.places.root)) for a in sample.argv))


# ---- the process ----


def main() -> None:
    # A shell makes its background jobs ignore SIGINT, which is inherited; this process needs it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # all other output goes to the worker's log
    source = sys.stdin.buffer
    try:
        request = pickle.loads(source.read(int(source.readline())))
        threading.Thread(target=_stop_at_end, args=(source.fileno(),), daemon=True).start()
        done = answer(request)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    import cloudpickle  # comes with distributed: readings hold functions

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from here on stdin ends as usual
    out.write(cloudpickle.dumps(done))
    out.close()


def _stop_at_end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGINT)


PULSE_S = 0.2
ENDING_S = 30.0  # seconds: children end at once, but may be in the middle of a file


# ---- in a Dask worker ----


@dataclass(frozen=True)
class Probe:
    """A host: its name in the ledger, its facts, the checksum of its laboratory, and which of the
    files asked for it lacks."""

    host: str
    facts: Mapping[str, str]
    laboratory: str
    problems: list[str]


def probe(files: Mapping[str, str], places: Places) -> Probe:
    return Probe(host_name(), host.facts(), laboratory(), differing(files, places))


def laboratory() -> str:
    """The checksum of this package's own code."""
    total = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def measure(request: bytes) -> bytes:
    """A Dask task: the pickled answer to a pickled request, from a process of its own.

    Empty where that process died. Cancelling the task, for whatever reason, ends the process.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", "from hakmem.cluster.slices import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    parts: list[bytes] = []
    try:
        child.stdin.write(b"%d\n" % len(request) + request)
        child.stdin.flush()
        while _wanted():
            if select.select([child.stdout], [], [], PULSE_S)[0]:
                parts.append(os.read(child.stdout.fileno(), 1 << 20))
                if not parts[-1]:
                    break
    except BrokenPipeError:
        pass  # the process died before it had read the request
    finally:
        child.stdin.close()
        try:
            child.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
    return b"".join(parts) if child.returncode == 0 else b""


def _wanted() -> bool:
    """Whether the task is still wanted: not after a cancellation, or the client's end."""
    from distributed import get_worker

    worker = get_worker()
    state = worker.state.tasks.get(worker.get_current_task())
    return state is not None and state.state != "cancelled"
