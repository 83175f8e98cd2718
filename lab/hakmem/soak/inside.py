"""Runs what is soaked: a program that prints its epochs, or one that is sampled from outside."""

import contextlib
import os
import random
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import sysconf
from pathlib import Path
from typing import IO

from hakmem.errors import LabError
from hakmem.process import children, host, order, proof as proofs, provenance, scratch
from hakmem.process.library import Library
from hakmem.process.sample import Process, clean_environment, last_json_line
from hakmem.soak import epochs_csv

Row = dict[str, float]
OnEpoch = Callable[[Row, str], None]  # the numbers by name, and their line

OS_STATS_ON = {"HAKMEM_SS_OS_STATS": "1"}
OS_STATS = re.compile(r"^\[SS_OS_STATS\] (.*)$", re.MULTILINE)

WARM_UP_S = 600.0  # how much longer than its length the first epoch may take


@dataclass(frozen=True)
class Ended:
    """How a program ended. `error` None: well, under the intended allocator and settings."""

    status: int
    error: str | None
    epochs: int
    ops: int | None = None
    calls: int | None = None
    proof: proofs.Proof | None = None

    def facts(self) -> dict[str, str]:
        """The facts known only at the end, for the last lines of the CSV."""
        facts = {}
        if self.ops is not None:
            facts["operations"] = str(self.ops)
        facts["os calls"] = "not counted" if self.calls is None else str(self.calls)
        facts["end"] = f"{self.epochs} epochs, {self.error or 'status 0'}"
        return facts


def os_calls(text: str) -> int | None:
    """The number of system calls of all kinds, from the last statistics line of the allocator at
    exit.

    None where there is no such line, or where the library counted only some kinds.
    """
    lines = OS_STATS.findall(text)
    counted = re.search(r"\bcalls=(\d+)", lines[-1]) if lines else None
    return int(counted[1]) if counted else None


@dataclass(frozen=True)
class Started:
    """What is started, its whole environment, and the settings that must be in effect in it."""

    argv: Sequence[str]
    library: Library
    environment: Mapping[str, str]
    settings: Mapping[str, str]

    @classmethod
    def benchmark(
        cls, argv: Sequence[str], library: Library, settings: Mapping[str, str]
    ) -> "Started":
        """A benchmark in the small known environment of them all, with the statistics at exit."""
        process = Process(
            argv=tuple(argv),
            library=library,
            padding=order.padding(random.Random()),
            environment={**OS_STATS_ON, **settings},
        )
        return cls(argv, library, clean_environment(process), settings)


def run_epochs(what: Started, epoch_s: float, on_epoch: OnEpoch) -> Ended:
    """Runs a program that prints a CSV line per epoch and then a JSON line.

    It is killed when it prints nothing for WARM_UP_S and an epoch or, once it has printed, for a
    minute and ten epochs.
    """
    names: list[str] = []
    rest: list[str] = []
    epochs = 0

    def take(line: str) -> None:
        """Takes a line: the names, an epoch, or one of the result lines behind them."""
        nonlocal names, epochs
        if not names and line.startswith("epoch,"):
            names = epochs_csv.parse_names(line)
            return
        try:
            row = dict(zip(names, epochs_csv.parse_row(line), strict=True))
        except ValueError:
            rest.append(line)
            return
        epochs += 1
        on_epoch(row, line)

    with scratch.folder("soak") as folder:
        proof_file, err = folder / "proof.jsonl", folder / "stderr"
        with err.open("wb") as stderr, started(what, proof_file, subprocess.PIPE, stderr) as child:
            late = _read_lines(child, epoch_s, take)
            status = child.wait()
        said = err.read_text(encoding="utf-8", errors="replace")
        proof = proofs.own(proof_file, child.pid)
    ops = (last_json_line("\n".join(rest)) or {}).get("ops")
    found = ended(what, status, said, proof, epochs, late)
    silent = found.error is None and epochs == 0
    error = "printed no epoch" if silent else found.error
    return replace(found, error=error, ops=ops if isinstance(ops, int) else None)


def ended(
    what: Started,
    status: int,
    said: str,
    proof: proofs.Proof | None,
    epochs: int,
    late: str | None = None,
) -> Ended:
    """How a program ended. `late`: why it was killed. One with status 0 must have run under the
    intended library and settings."""
    error = late or (
        children.how_ended(status, said)
        if status != 0
        else provenance.unintended(what.library, proof, what.settings)
    )
    return Ended(status, error, epochs, calls=os_calls(said), proof=proof)


@contextlib.contextmanager
def started(
    what: Started, proof_file: Path, stdout: int | IO[bytes], stderr: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the program; nothing that was started outlives the context, Ctrl-C included. LabError
    where it cannot be started."""
    try:
        environment = {**what.environment, "HAKMEM_PROOF": str(proof_file)}
        child = children.start(what.argv, env=environment, stdout=stdout, stderr=stderr)
    except OSError as error:
        raise LabError(f"cannot run {what.argv[0]}: {error.strerror}", status=126) from error
    try:
        yield child
    finally:
        children.end(child)
        if child.stdout is not None:
            child.stdout.close()


def _read_lines(
    child: subprocess.Popen[bytes], epoch_s: float, take: Callable[[str], None]
) -> str | None:
    """Feeds the child's lines to `take` until it ends. If no more come it kills the child, and
    returns a sentence that says so."""
    assert child.stdout is not None
    descriptor = child.stdout.fileno()
    patience = WARM_UP_S + epoch_s
    pending = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], patience)
        if not ready:
            os.killpg(child.pid, signal.SIGKILL)
            return f"printed nothing for {patience:.0f} s: killed"
        some = os.read(descriptor, 65536)
        if not some:
            break
        *lines, pending = (pending + some).split(b"\n")
        for line in lines:
            take(line.decode("utf-8", errors="replace"))
        patience = 60 + 10 * epoch_s
    if pending:
        take(pending.decode("utf-8", errors="replace"))
    return None


ROLLUP = {
    "rss_kb": "Rss",
    "anon_kb": "Anonymous",
    "lazyfree_kb": "LazyFree",
    "anonhuge_kb": "AnonHugePages",
}
GRACE_S = 5.0  # between asking a program to end and killing it
# Signals of crashes: a program that was only asked to end does not end by them.
CRASHES = {
    *(signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE),
    *(signal.SIGTRAP, signal.SIGSYS),
}


def _counts(pid: int) -> tuple[int, Row] | None:
    """When the process started, and what the kernel has counted of it since, in page faults and
    seconds.

    None where the process is gone or a zombie, which has no memory to read.
    """
    fields = host.stat_of(pid)
    if not fields or fields[0] in "ZX":
        return None
    faults, user, system, begun = (int(fields[at]) for at in (7, 11, 12, 19))
    tick = sysconf("SC_CLK_TCK")
    return begun, {"minflt": faults, "user_s": user / tick, "sys_s": system / tick}


def _memory(pid: int) -> Row | None:
    """The process's memory in KiB; None where it is gone. LabError where it is another user's."""
    try:
        texts = [Path(f"/proc/{pid}/{name}").read_text() for name in ("smaps_rollup", "status")]
    except PermissionError:
        raise LabError(f"process {pid} is another user's: its memory cannot be read") from None
    except OSError:
        return None
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", "".join(texts), re.MULTILINE))
    if "Rss" not in sizes or "VmData" not in sizes:
        return None
    row = {column: float(sizes.get(name, 0)) for column, name in ROLLUP.items()}
    return {**row, "committed_kb": float(sizes["VmData"])}


def sample(pid: int, epoch_s: float, seconds: float | None, on_epoch: OnEpoch) -> int:
    """Samples one epoch after the other until the process ends or the time is over; returns how
    many.

    Only the process itself is read, none of its children. LabError where there is no such process.
    """
    before = _counts(pid)
    if before is None:
        raise LabError(f"there is no process {pid}")
    begin = time.monotonic()
    epoch = 0
    while seconds is None or (epoch + 1) * epoch_s <= seconds + 1e-9:
        time.sleep(max(0.0, begin + (epoch + 1) * epoch_s - time.monotonic()))
        now, memory = _counts(pid), _memory(pid)
        if now is None or memory is None or now[0] != before[0]:
            break
        row = {
            "epoch": epoch,
            "t_s": time.monotonic() - begin,
            **memory,
            **{name: count - before[1][name] for name, count in now[1].items()},
        }
        on_epoch(row, _line(row))
        before = now
        epoch += 1
    return epoch


def _line(row: Mapping[str, float]) -> str:
    return ",".join(f"{v:.6f}" if name.endswith("_s") else f"{v:.0f}" for name, v in row.items())


def run(
    what: Started, epoch_s: float, seconds: float | None, log: Path, on_epoch: OnEpoch
) -> Ended:
    """Starts a command and samples it; its output goes into `log`.

    After `seconds` it is asked to end, and killed after GRACE_S: neither is a failure, but a crash
    before that is. Without `seconds` it runs to its own end.
    """
    with scratch.folder("soak") as folder, _output(log) as (out, older):
        proof_file = folder / "proof.jsonl"

        def seen(row: Row, line: str) -> None:
            older.unlink(missing_ok=True)
            on_epoch(row, line)

        with started(what, proof_file, out, out) as child:
            epochs = sample(child.pid, epoch_s, seconds, seen)
            # An ended process may be gone for sampling shortly before it can be waited for.
            alive = child.poll() is None and _counts(child.pid) is not None
            stopped = seconds is not None and alive
            if stopped:
                child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(GRACE_S)
            else:
                child.wait()
        proof = proofs.own(proof_file, child.pid)
        said = log.read_text(encoding="utf-8", errors="replace")
    crashed = -child.returncode in CRASHES
    status = 0 if stopped and not crashed else child.returncode
    return ended(what, status, said, proof, epochs)


@contextlib.contextmanager
def _output(log: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """The file for the program's output, and the path where an older one waits: it is put back at
    the end unless the caller has removed it. A silent program leaves no file."""
    older = log.with_name(f".{log.name}.older")
    if log.is_file():
        log.rename(older)
    try:
        with log.open("wb") as out:
            yield out, older
    finally:
        if older.exists():
            older.replace(log)
        elif log.is_file() and log.stat().st_size == 0:
            log.unlink()


def mapped_allocator(pid: int) -> str:
    """What the mappings of a running process say of its allocator: a sign, no proof."""
    mappings = host.read(f"/proc/{pid}/maps")
    if mappings is None and not Path(f"/proc/{pid}").exists():
        raise LabError(f"there is no process {pid}")
    sign = f"{'' if 'libhakmem' in (mappings or '') else 'no '}libhakmem in its mappings"
    sign = "its mappings cannot be read" if mappings is None else sign
    return f"{sign}; no proof, it was not asked"
