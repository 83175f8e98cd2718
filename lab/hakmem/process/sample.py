"""One sample: one fresh process, measured from outside and by its own account."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from hakmem.process import children, host, launch, perf, proof as proofs, provenance, scratch
from hakmem.process.launch import Job
from hakmem.process.library import Library
from hakmem.process.proof import Proof
from hakmem.process.settings import tuning

KEPT_OF_OUTPUT = 1 << 14  # characters
PASSED_ON = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class Sample:
    """What one process cost. Seconds and counts are of the whole process; `result` is its own line.

    `max_rss_kb` is what the benchmark read from its own VmHWM, or what a launcher saw of a user's
    command: the kernel starts its own figure at the size of the process that forked, the lab's.
    `pid` is that of what was started. `output` is all it wrote, stdout first, and is not recorded;
    of a job only its stderr, because its stdout is its result, which has been checked. `matched` is
    what a pattern found in the output, before `shortened` cut all but the end.

    Of a job alone: `memory_mb_s` is resident memory over time (10^6 bytes times seconds) of the
    program and its descendants, `sum_peak_kb` the most they held together, `quiet_kb` what a server
    held when all had been quiet.
    """

    command: str
    round: int = 0
    position: int = 0
    letter: str | None = None
    argv: tuple[str, ...] = ()
    padding: int = 0
    wall_s: float = 0.0
    user_s: float = 0.0
    sys_s: float = 0.0
    minflt: int = 0
    majflt: int = 0
    involuntary_switches: int = 0
    max_rss_kb: int | None = None
    memory_mb_s: float | None = None
    sum_peak_kb: int | None = None
    quiet_kb: int | None = None
    cycles: int | None = None
    instructions: int | None = None
    status: int | None = None
    pid: int | None = None
    result: dict[str, object] | None = None
    proof: Proof | None = None
    error: str | None = None
    matched: float | None = None
    output: str = field(default="", repr=False)

    @property
    def warnings(self) -> list[str]:
        """The messages of the library itself in that process."""
        return [line for line in self.output.splitlines() if line.startswith("hakmem: ")]

    def shortened(self) -> "Sample":
        """The sample with the end of its output, and the library's messages before that: there are
        thousands of samples, and all are kept to the last."""
        if len(self.output) <= KEPT_OF_OUTPUT:
            return self
        end = self.output[-KEPT_OF_OUTPUT:]
        said = dict.fromkeys(self.warnings)
        head = "".join(f"{line}\n" for line in said if line not in end)
        return replace(self, output=head[:KEPT_OF_OUTPUT] + end)

    def stated(self, name: str) -> float | None:
        """A number in its own line; None where it has none of that name."""
        value = (self.result or {}).get(name)
        return value if isinstance(value, int | float) else None


@dataclass(frozen=True)
class Process:
    """Everything needed to start one measured process.

    `environment` is added to the small known one, `passed` are names of further variables of the
    user's. A process without an `own_account`, a JSON line, is a user's command. `counted` asks for
    user cycles where perf can count them. A process with a `job` is a real program. A `tool` is a
    command line that starts the process and watches it from inside: then nothing else does.
    """

    argv: tuple[str, ...]
    library: Library
    padding: int
    starts: str = ""
    timeout_s: float = 300.0
    environment: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    own_account: bool = True
    counted: bool = True
    job: Job | None = None
    tool: tuple[str, ...] = ()

    @property
    def launched(self) -> bool:
        """Whether it is measured from outside, by a launcher."""
        return not (self.own_account or self.tool)


@cache
def counters() -> str | None:
    """None if `perf stat` can count user cycles here; otherwise why not. Asked once."""
    return perf.refusal()


def clean_environment(process: Process) -> dict[str, str]:
    """A small known environment: what the user's shell carries must not decide a benchmark."""
    environment = plain_environment(process.passed) | tuning(os.environ)
    environment["LAB_PADDING"] = "x" * process.padding
    return {**process.library.environment(environment), **process.environment}


def plain_environment(passed: Sequence[str] = ()) -> dict[str, str]:
    """What every measured process has of the user's shell: PASSED_ON, and `passed`."""
    names = (*PASSED_ON, *passed)
    return {**{key: os.environ[key] for key in names if key in os.environ}, "LC_ALL": "C"}


def take(blank: Sample, process: Process) -> Sample:
    """Runs the process and fills in the blank; a failure is a sample with `error`, never a gap."""
    blank = replace(blank, argv=process.argv, padding=process.padding)
    with scratch.folder("sample") as folder:
        sample = _measure(blank, process, folder)
    error = sample.error
    if error is None and process.own_account and sample.result is None:
        error = "printed no JSON line"
    if error is None:
        error = _unintended(sample.proof, process)
    return replace(sample, error=error)


def _unintended(proof: Proof | None, process: Process) -> str | None:
    """Why another allocator, or another setting, was in effect; of a job, in its worker."""
    wrong = provenance.unintended(process.library, proof, process.environment)
    worker = process.job and process.job.worker
    return f"{worker}: {wrong}" if wrong and worker else wrong


def _own_proof(found: list[Proof], process: Process, pid: int | None) -> Proof | None:
    """The first proof of the measured program, or of what it `starts`.

    A user's command is known by its process id: it may be a script that becomes the program. A
    job's workers must all be served: one that is not comes first.
    """
    if process.job and process.job.worker:
        workers = [p for p in found if p.program == process.job.worker]
        return min(workers, key=lambda p: p.serving, default=None)
    if pid is not None:
        return next((p for p in reversed(found) if p.pid == pid), None)
    files = (shutil.which(name) or name for name in (process.argv[0], process.starts))
    names = [Path(file).resolve().name for file in files]
    return next((p for p in found if p.program in names), None)


def _measure(blank: Sample, process: Process, folder: Path) -> Sample:
    proof_file, counts_file = folder / "proof.jsonl", folder / "perf.csv"
    environment = {**clean_environment(process), "HAKMEM_PROOF": str(proof_file)}
    argv = [*process.tool, *process.argv]
    home = _home(process.job, folder) if process.job else None
    if process.counted and counters() is None:
        argv = [*perf.stat_argv(counts_file, perf.NEEDED), *argv]
    if process.launched:
        program = shutil.which(argv[0], path=environment.get("PATH")) or argv[0]
        plain = plain_environment()
        argv = launch.argv_for(program, argv, environment, folder, process.job, plain)
        environment = {}
    try:
        ended = children.finished(argv, folder, process.timeout_s, env=environment, cwd=home)
    except OSError as refusal:
        return replace(blank, error=f"cannot start: {refusal.strerror}")
    # The account is missing where the launcher did not get to its end.
    account = (launch.read(folder) if process.launched else None) or {}
    load_status = account.pop("load_status", 0)
    counts = perf.parse_stat(host.read(str(counts_file)) or "", perf.NEEDED).counted
    sample = replace(
        blank,
        wall_s=ended.wall_s,
        user_s=ended.usage.ru_utime,
        sys_s=ended.usage.ru_stime,
        minflt=ended.usage.ru_minflt,
        majflt=ended.usage.ru_majflt,
        involuntary_switches=ended.usage.ru_nivcsw,
        cycles=counts.get("cycles:u"),
        instructions=counts.get("instructions:u"),
        status=ended.status,
        pid=ended.pid,
        proof=_own_proof(proofs.read(proof_file), process, account.get("pid")),
        output=ended.err if process.job else ended.out + ended.err,
    )
    sample = _own_account(sample, ended.out) if process.own_account else replace(sample, **account)
    error = None
    if ended.status is None:
        error = f"still running after {process.timeout_s:g} s: killed"
    elif sample.status:
        error = children.how_ended(sample.status, ended.err, "" if process.job else ended.out)
    elif process.job and home:
        error = _undone(process.job, home, load_status, folder, ended.err)
    return replace(sample, error=error)


def _home(job: Job, folder: Path) -> Path:
    home = folder / "run"
    home.mkdir()
    (home / "in").symlink_to(job.inputs)
    return home


def _undone(job: Job, home: Path, load_status: int, folder: Path, stderr: str) -> str | None:
    """Why a job that ended well has not done its work; None if it has."""
    if load_status:
        return f"its load ended: {children.how_ended(load_status, stderr)}"
    try:
        return job.wrong(home, (folder / "stdout").read_bytes())
    except OSError as error:
        return f"its result is not there: {error.strerror}"


def _own_account(sample: Sample, text: str) -> Sample:
    result = last_json_line(text)
    rss = result.get("max_rss_kb") if result else None
    peak = int(rss) if isinstance(rss, int | float) else None
    return replace(sample, result=result, max_rss_kb=peak)


def last_json_line(text: str) -> dict[str, object] | None:
    """The benchmark's own account: the last line with a { in front, if it is JSON with `bench`."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                row = json.loads(line)
            except ValueError:
                return None
            return row if isinstance(row, dict) and "bench" in row else None
    return None


def take_shown(blank: Sample, process: Process) -> Sample:
    """A sample, with an error where the library is not shown in the process that does the work.

    In a job that process is its worker; a user's command may become any program, so any process
    will do. Only the GNU loader can be asked. hakmem leaves a proof of its own, the C library's
    allocator needs none, and a benchmark is taken at its word. Asking costs time, so the sample's
    figures are no good: it is for a trial.
    """
    path = process.library.path
    gnu = "CS_GNU_LIBC_VERSION" in os.confstr_names
    if process.own_account or process.library.is_hakmem or path is None or not gnu:
        return take(blank, process)
    with scratch.folder("loader") as folder:
        says = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{folder}/says"}
        sample = take(blank, replace(process, environment={**process.environment, **says}))
        told = [file.read_text(errors="replace") for file in folder.iterdir()]
    mark = f"calling init: {path}"
    if process.job is None:
        worker, shown = "it", any(mark in text for text in told)
    else:
        worker = process.job.worker or Path(process.argv[0]).name
        started = re.compile(rf"initialize program: (.*/)?{re.escape(worker)}$", re.MULTILINE)
        workers = [text for text in told if started.search(text)]
        shown = bool(workers) and all(mark in text for text in workers)
    if sample.error is None and not shown:
        why = "statically linked, or of another libc"
        said = f"{process.library.name} was not loaded into {worker}: is it {why}?"
        return replace(sample, error=said)
    return sample
