"""What runs inside a Dask worker: it says which host this is, and has slices measured there."""

import hashlib
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.cluster.slices import Places, differing
from hakmem.ledger.store import host_name

PULSE_S = 0.2
ENDING_S = 30.0  # what was started ends at once, but it may be in the middle of a file


@dataclass(frozen=True)
class Probe:
    """A host: its name in the ledger, its laboratory, and what it lacks of the files asked for."""

    host: str
    laboratory: str
    problems: list[str]


def probe(files: Mapping[str, str], places: Places) -> Probe:
    return Probe(host_name(), laboratory(), differing(files, places))


def laboratory() -> str:
    """The checksum of this package's own code."""
    total = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def measure(request: bytes) -> bytes:
    """A task: the pickled answer to a pickled request, from a process of its own.

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
        pass  # it died before it had read the request
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
    """Whether somebody still waits for this task: not after a cancellation, or the client's end."""
    from distributed import get_worker

    worker = get_worker()
    state = worker.state.tasks.get(worker.get_current_task())
    return state is not None and state.state != "cancelled"
