"""Run a program on hakmem, unchanged, and learn which of its processes hakmem really served.

Every process that loads the library with HAKMEM_PROOF set appends one line to that file: its
executable, and whether its own `malloc` is hakmem's. A process without a line never loaded the
library, so a run that did not use hakmem cannot pass as one that did.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HANG_SECONDS = 300  # Far beyond any run: a process that reaches it is deadlocked, not slow.
TAIL = 3000  # Characters of output worth showing when a program fails.

Argv = Sequence[object]  # words are converted by str()
Env = Mapping[str, str]


@dataclass(frozen=True)
class Process:
    """One line of the proof file: a process that loaded the library."""

    pid: int
    exe: Path
    serving: bool


@dataclass(frozen=True)
class Result:
    """A finished run: what the program said, and the processes that gave proof (in any order)."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    processes: tuple[Process, ...]

    def require_served(self, *names: str) -> None:
        """Assert that hakmem served every process of each name, of which there is at least one."""
        __tracebackhide__ = True
        require_served(self.processes, *names)


def require_served(processes: Sequence[Process], *names: str) -> None:
    """Assert that every executable in `names` left proof, and that hakmem was the allocator in each
    of its processes."""
    __tracebackhide__ = True
    assert names, "name at least one executable, or nothing is checked"
    seen = sorted({f"{p.exe.name} ({'served' if p.serving else 'NOT served'})" for p in processes})
    for name in names:
        proofs = [p.serving for p in processes if p.exe.name == name]
        assert proofs, f"{name} left no proof that hakmem was loaded; seen: {seen or 'none'}"
        assert all(proofs), f"{name} has the library loaded but its malloc is not hakmem's: {seen}"


def environment(lib: Path | None, proof: Path, extra: Env | None = None) -> dict[str, str]:
    """The environment for a run on `lib`; on the system's allocator when `lib` is None."""
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "HAKMEM_PROOF")}
    env |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "HAKMEM_PROOF": str(proof)}
    if lib is not None:
        env["LD_PRELOAD"] = str(lib)
    return env | dict(extra or {})


def read_proof(proof: Path) -> tuple[Process, ...]:
    """The lines of the file `proof`; none if no process wrote one."""
    if not proof.exists():
        return ()
    lines = [json.loads(line) for line in proof.read_text().splitlines()]
    return tuple(Process(line["pid"], Path(line["exe"]), line["serving"]) for line in lines)


@contextmanager
def started_under(
    lib: Path | None, argv: Argv, *, cwd: Path | None = None, env: Env | None = None
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a program in its own process group; yield it and its proof file; kill the group at the
    end."""
    with tempfile.TemporaryDirectory(prefix="hakmem-proof-") as folder:
        proof = Path(folder, "proof")
        with subprocess.Popen(
            [str(arg) for arg in argv],
            cwd=cwd,
            env=environment(lib, proof, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as program:
            try:
                yield program, proof
            finally:
                with suppress(ProcessLookupError):  # Usually the whole group has ended already.
                    os.killpg(program.pid, signal.SIGKILL)


def run_under(
    lib: Path | None,
    argv: Argv,
    *,
    cwd: Path | None = None,
    env: Env | None = None,
    stdin: str = "",
    check: bool = True,
) -> Result:
    """Run a program to its end on `lib` (None: the system's allocator).

    With `check`, an exit status other than 0 fails the test; a hang always does.
    """
    __tracebackhide__ = True
    words = tuple(str(arg) for arg in argv)
    again = ("" if lib is None else f"LD_PRELOAD={lib} ") + shlex.join(words)
    with started_under(lib, argv, cwd=cwd, env=env) as (program, proof):
        try:
            stdout, stderr = program.communicate(stdin, timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired as hang:
            said = (hang.stderr or b"").decode(errors="replace")
            raise AssertionError(
                f"still running after {HANG_SECONDS} s; run it again and attach gdb:\n"
                f"  cd {cwd or Path.cwd()} && {again}\n{said[-TAIL:]}"
            ) from None
        result = Result(words, program.returncode, stdout, stderr, read_proof(proof))
    if check and result.returncode != 0:
        raise AssertionError(
            f"{ending(result.returncode)}; to see it again:\n"
            f"  cd {cwd or Path.cwd()} && {again}\n{stdout[-TAIL:]}\n{stderr[-TAIL:]}"
        )
    return result


def ending(returncode: int) -> str:
    """How a program ended, in words."""
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"
