"""One process of a hot-path measurement: under a tool, with proof of the allocator inside it."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import LabError
from hakmem.hotpath.work import Amounts, Workload
from hakmem.paired.cells import Cell
from hakmem.process import children, provenance
from hakmem.process import proof as proofs
from hakmem.process.sample import clean_environment, last_json_line

_USUAL = re.compile(r"\[RSS\]|==\d+==|--\d+--")


@dataclass(frozen=True)
class Ran:
    """A process that ended well. `ops` are the operations it timed, `output` all that it wrote."""

    pid: int
    ops: int
    output: str
    proof: Mapping[str, object] | None


def run(
    prefix: Sequence[str],
    workload: Workload,
    cell: Cell,
    amount: int,
    amounts: Amounts | None,
    padding: int,
    folder: Path,
    more: Mapping[str, str] | None = None,
) -> Ran:
    """Runs it under the tool that `prefix` starts. LabError where it failed, or where its malloc
    was not the intended one. `more` is environment that this measurement itself needs."""
    process = workload.process(cell, amount, amounts, padding)
    proof_file = folder / "proof.jsonl"
    proof_file.unlink(missing_ok=True)
    environment = {**clean_environment(process), "HAKMEM_PROOF": str(proof_file), **(more or {})}
    pid, status, out, err = _watch([*prefix, *process.argv], environment, process.timeout_s)
    if status != 0:
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        raise LabError(f"{how}: {last_line(err) or last_line(out)}", status=1)
    found = proofs.read(proof_file)
    # The tool itself is started with the same preload; only the program's own word counts.
    own = next((p for p in reversed(found) if p.program == workload.program), None)
    provenance.require_intended(cell.library, own, cell.environment)
    return Ran(pid, _ops(workload, amount, out), out + err, own.to_dict() if own else None)


def _watch(
    argv: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> tuple[int, int, str, str]:
    """Process number, status and output; nothing that was started outlives the lab."""
    try:
        child = children.start(
            argv,
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as refusal:
        raise LabError(f"cannot start {argv[0]}: {refusal.strerror}", status=1) from None
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise LabError(
            f"still running after {timeout_s:g} s, killed: {shlex.join(argv)}", status=1
        ) from None
    finally:
        children.end(child)
    return child.pid, child.returncode, out, err


def _ops(workload: Workload, amount: int, out: str) -> int:
    if workload.whole:
        return 1
    if workload.command is None:
        return amount
    ops = (last_json_line(out) or {}).get("ops")
    if not isinstance(ops, int) or ops <= 0:
        raise LabError(f"{workload.name} did not say how many operations it timed", status=1)
    return ops


def run_tool(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A tool that answers at once, in words that do not depend on the user's language."""
    return children.said(argv, env={**os.environ, "LC_ALL": "C"}, timeout=120)


def last_line(text: str) -> str:
    """What a program said last; what the benchmarks and valgrind always say is no reason."""
    lines = [line for line in text.strip().splitlines() if not _USUAL.match(line)]
    return lines[-1][:200] if lines else ""
