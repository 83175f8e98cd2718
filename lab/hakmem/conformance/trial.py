"""One case under one allocator: how the program ended, and on which malloc it ran."""

import re
import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from hakmem.conformance.cases import Case
from hakmem.errors import LabError
from hakmem.paired.cells import Cell
from hakmem.process import children, proof, provenance, scratch
from hakmem.process.sample import plain_environment

State = Literal["kept", "broken", "not checked"]

NOT_CHECKED, OTHER_ALLOCATOR = 77, 78
DEFUSED = 7
FATAL = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP}
KEPT_OF_OUTPUT = 2000
SERVED = re.compile(r"^malloc is in (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    case: str
    allocator: str
    state: State
    reason: str
    seconds: float
    output: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, object]:
        row = asdict(self)
        del row["output"]
        return {**row, "seconds": round(self.seconds, 2)}


def run(case: Case, cell: Cell, fast: bool, timeout_s: float) -> Result:
    """Runs the case. LabError where the process ran on another allocator than the cell's."""
    argv = [str(case.program), *(["--fast"] if fast and not case.is_misuse else [])]
    # Small and known: what is set in the user's shell must not decide a promise.
    environment = {**cell.library.environment(plain_environment()), **cell.environment}
    begun = time.monotonic()
    with scratch.folder("conformance") as folder:
        if cell.is_hakmem:
            environment["HAKMEM_PROOF"] = str(folder / "proof")
        ended = children.finished(argv, folder, timeout_s, env=environment, cwd=folder)
        found = proof.own(folder / "proof", ended.pid)
    if ended.status == OTHER_ALLOCATOR:
        raise LabError(f"{cell.name}: {ended.err.strip()}")
    state, reason = (judge_misuse if case.is_misuse else judge)(ended.status, ended.err, timeout_s)
    served = SERVED.search(ended.out)
    if state == "kept" or served:
        _require_served(cell, served.group(1) if served else None)
    if state == "kept" and cell.is_hakmem:
        provenance.require_intended(cell.library, found, cell.environment)
    seconds = time.monotonic() - begun
    return Result(case.name, cell.name, state, reason, seconds, ended.err[-KEPT_OF_OUTPUT:])


def judge(status: int | None, said: str, timeout_s: float) -> tuple[State, str]:
    """What the end of a program means, and the words for it. Pure."""
    last = children.last_line(said, "")[:200]
    if status == 0:
        return "kept", ""
    if status == NOT_CHECKED:
        return "not checked", last or "it did not say why"
    if status is None:
        return "broken", f"time-out after {timeout_s:g} s" + (f": {last}" if last else "")
    if status < 0:
        how = f"ended by {children.signal_name(-status)}"
        return "broken", f"{how}: {last}" if last else how
    return "broken", last if status == 1 and last else f"status {status}: {last or 'no word'}"


def judge_misuse(status: int | None, said: str, timeout_s: float) -> tuple[State, str]:
    """The same for a program that misuses memory: it must be ended, or get nowhere. Pure."""
    first = next(iter(said.strip().splitlines()), "")[:200]
    if status == DEFUSED:
        return "kept", "it got nowhere"
    if status is not None and -status in FATAL:
        return "kept", f"{children.signal_name(-status)}: {first}" if first else ""
    if status == 0:
        return "broken", "it got away with it"
    return "broken", f"time-out after {timeout_s:g} s" if status is None else f"status {status}"


def _require_served(cell: Cell, served: str | None) -> None:
    """LabError unless malloc was in the cell's library or, for the C library, in that."""
    if served is None:
        raise LabError(f"{cell.name}: the program did not say where its malloc is")
    intended = cell.library.path or provenance.c_library()
    if not Path(served).exists() or not Path(served).samefile(intended):
        raise LabError(f"{cell.name}: malloc was in {served}, not in {intended}")
