"""Runs a program that prints its epochs, to its end: the soak benchmark, or one like it."""

import contextlib
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from hakmem.errors import LabError
from hakmem.process import children, provenance, scratch
from hakmem.process import proof as proofs
from hakmem.process.library import Library
from hakmem.process.sample import last_json_line
from hakmem.soak import epochs_csv as soak_csv

Row = dict[str, float]
OnEpoch = Callable[[Row, str], None]  # the numbers by name, and the line they stood in

OS_STATS_ON = {"HAKMEM_SS_OS_STATS": "1"}
OS_STATS = re.compile(r"^\[SS_OS_STATS\] (.*)$", re.MULTILINE)

WARM_UP_S = 600.0  # how long the first epoch may take besides its length


@dataclass(frozen=True)
class Ended:
    """How a program ended. `error` None: well, and under the allocator and settings intended."""

    status: int
    error: str | None
    result: Mapping[str, object] | None
    stderr: str
    proof: Mapping[str, object] | None
    epochs: int

    @property
    def calls(self) -> int | None:
        return os_calls(self.stderr)

    @property
    def ops(self) -> int | None:
        ops = (self.result or {}).get("ops")
        return ops if isinstance(ops, int) else None

    def facts(self) -> dict[str, str]:
        """What is known only now, for the last lines of the CSV."""
        facts = {}
        if self.ops is not None:
            facts["operations"] = str(self.ops)
        facts["os calls"] = "not counted" if self.calls is None else str(self.calls)
        facts["end"] = f"{self.epochs} epochs, {self.error or 'status 0'}"
        return facts


def os_calls(text: str) -> int | None:
    """System calls of all kinds by the allocator's own last line at exit.

    None where there is no line, or one by a library that counted only some kinds.
    """
    lines = OS_STATS.findall(text)
    counted = re.search(r"\bcalls=(\d+)", lines[-1]) if lines else None
    return int(counted[1]) if counted else None


@dataclass(frozen=True)
class Started:
    """What is started: its whole environment, and the settings that must be in effect in it."""

    argv: Sequence[str]
    library: Library
    environment: Mapping[str, str]
    settings: Mapping[str, str]


def run_epochs(what: Started, epoch_s: float, on_epoch: OnEpoch) -> Ended:
    """Runs a program that prints a CSV line per epoch and then a JSON line.

    It is killed when it stops printing: after the first epoch by a minute and ten epochs.
    """
    reader = _Reader(on_epoch)
    with scratch.folder("soak") as folder:
        proof_file, err = folder / "proof.jsonl", folder / "stderr"
        with err.open("wb") as stderr:
            child = start(what, proof_file, subprocess.PIPE, stderr)
            with ended_with_us(child):
                late = _read_lines(child, epoch_s, reader.take)
                status = child.wait()
        said = err.read_text(encoding="utf-8", errors="replace")
        proof = own_proof(proof_file, child.pid)
    result = last_json_line("\n".join(reader.rest))
    found = ended(what, status, said, proof, reader.epochs, late, result)
    silent = found.error is None and reader.epochs == 0
    return replace(found, error="printed no epoch") if silent else found


def ended(
    what: Started,
    status: int,
    said: str,
    proof: proofs.Proof | None,
    epochs: int,
    late: str | None = None,
    result: Mapping[str, object] | None = None,
) -> Ended:
    """`late`: why it was killed. One that ended well must have been what it was meant to be."""
    error = late or (ending(status, said) if status != 0 else unintended(what, proof))
    return Ended(status, error, result, said, proof.to_dict() if proof else None, epochs)


class _Reader:
    """Tells epochs from the result lines after them."""

    def __init__(self, on_epoch: OnEpoch) -> None:
        self.names: list[str] = []
        self.epochs = 0
        self.rest: list[str] = []
        self._on_epoch = on_epoch

    def take(self, line: str) -> None:
        if not self.names and line.startswith("epoch,"):
            self.names = soak_csv.parse_names(line)
            return
        try:
            row = dict(zip(self.names, soak_csv.parse_row(line), strict=True))
        except ValueError:
            self.rest.append(line)
            return
        self.epochs += 1
        self._on_epoch(row, line)


def start(
    what: Started, proof_file: Path, stdout: int | IO[bytes], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        environment = {**what.environment, "HAKMEM_PROOF": str(proof_file)}
        return children.start(what.argv, env=environment, stdout=stdout, stderr=stderr)
    except OSError as error:
        raise LabError(f"cannot run {what.argv[0]}: {error.strerror}", status=126) from error


@contextlib.contextmanager
def ended_with_us(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Nothing that was started outlives the lab, Ctrl-C included."""
    try:
        yield
    finally:
        children.end(child)
        if child.stdout is not None:
            child.stdout.close()


def own_proof(file: Path, pid: int) -> proofs.Proof | None:
    return next((p for p in reversed(proofs.read(file)) if p.pid == pid), None)


def unintended(what: Started, proof: proofs.Proof | None) -> str | None:
    """Why the process was not what it was meant to be, or None."""
    try:
        provenance.require_intended(what.library, proof, what.settings)
    except LabError as error:
        return str(error)
    return None


def ending(status: int, stderr: str) -> str:
    """How it ended, with the last thing it said."""
    lines = [line for line in stderr.strip().splitlines() if not line.startswith("[")]
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    return f"{how}: {lines[-1][:160]}" if lines else how


def _read_lines(
    child: subprocess.Popen[bytes], epoch_s: float, take: Callable[[str], None]
) -> str | None:
    """Feeds its lines until it ends; kills it, and says so, where they stop coming."""
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
