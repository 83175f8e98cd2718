"""Soaks of programs that know nothing of it: memory and processor time, sampled from outside."""

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import sysconf
from pathlib import Path
from typing import IO

from hakmem.errors import LabError
from hakmem.process import host, scratch
from hakmem.soak.inside import Ended, OnEpoch, Row, Started, ended, ended_with_us, own_proof, start

COLUMNS = (
    "epoch",
    "t_s",
    "rss_kb",
    "anon_kb",
    "lazyfree_kb",
    "anonhuge_kb",
    "committed_kb",
    "minflt",
    "user_s",
    "sys_s",
)
ROLLUP = {
    "rss_kb": "Rss",
    "anon_kb": "Anonymous",
    "lazyfree_kb": "LazyFree",
    "anonhuge_kb": "AnonHugePages",
}
GRACE_S = 5.0  # between asking a program to end and killing it


@dataclass(frozen=True)
class _Counts:
    """What the kernel has counted of a process since its start."""

    started: int
    minflt: int
    user_s: float
    sys_s: float


def _counts(pid: int) -> _Counts | None:
    """None where the process is gone; a zombie has no memory to read either."""
    text = host.read(f"/proc/{pid}/stat") or ""
    # The name in parentheses may hold anything; the numbers follow its last parenthesis.
    fields = text.rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return None
    tick = sysconf("SC_CLK_TCK")
    return _Counts(
        started=int(fields[19]),
        minflt=int(fields[7]),
        user_s=int(fields[11]) / tick,
        sys_s=int(fields[12]) / tick,
    )


def _memory(pid: int) -> Row | None:
    """None where the process is gone; an error where it is another user's."""
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
    """One epoch after the other until the process ends or the time is over; returns how many.

    Only the process itself is read, none of its children.
    """
    before = _counts(pid)
    if before is None:
        raise LabError(f"there is no process {pid}")
    begin = time.monotonic()
    epoch = 0
    while seconds is None or (epoch + 1) * epoch_s <= seconds + 1e-9:
        time.sleep(max(0.0, begin + (epoch + 1) * epoch_s - time.monotonic()))
        now, memory = _counts(pid), _memory(pid)
        if now is None or memory is None or now.started != before.started:
            break
        row = {
            "epoch": epoch,
            "t_s": time.monotonic() - begin,
            **memory,
            "minflt": now.minflt - before.minflt,
            "user_s": now.user_s - before.user_s,
            "sys_s": now.sys_s - before.sys_s,
        }
        on_epoch(row, _line(row))
        before = now
        epoch += 1
    return epoch


def _line(row: Mapping[str, float]) -> str:
    values = ((name, row[name]) for name in COLUMNS)
    return ",".join(f"{v:.6f}" if name.endswith("_s") else f"{v:.0f}" for name, v in values)


def run(
    what: Started, epoch_s: float, seconds: float | None, log: Path, on_epoch: OnEpoch
) -> Ended:
    """Starts a command and samples it; what it prints goes into `log`.

    After `seconds` it is asked to end, and killed if it does not: that is no failure. Without
    them it runs to its own end.
    """
    with scratch.folder("soak") as folder, _output(log) as out:
        proof_file = folder / "proof.jsonl"
        child = start(what, proof_file, out, out)
        with ended_with_us(child):
            epochs = sample(child.pid, epoch_s, seconds, on_epoch)
            # It may also have vanished for sampling a moment before it can be waited for.
            stopped = seconds is not None and _still_running(child)
            if stopped:
                child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(GRACE_S)
            else:
                child.wait()
        proof = own_proof(proof_file, child.pid)
        said = log.read_text(encoding="utf-8", errors="replace")
    status = 0 if stopped else child.returncode
    return ended(what, status, said, proof, epochs)


@contextlib.contextmanager
def _output(log: Path) -> Iterator[IO[bytes]]:
    """The file for what a program prints; a silent one leaves none."""
    try:
        with log.open("wb") as out:
            yield out
    finally:
        if log.is_file() and log.stat().st_size == 0:
            log.unlink()


def _still_running(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is None and _counts(child.pid) is not None


def mapped_allocator(pid: int) -> str:
    """What can be said about a process that runs already: a sign, no proof."""
    there = "libhakmem" in (host.read(f"/proc/{pid}/maps") or "")
    return f"{'' if there else 'no '}libhakmem in its mappings; no proof, it was not asked"
