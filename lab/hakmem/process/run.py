"""`hakmem run`: one real program under the allocator, with proof from inside the process."""

import os
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from hakmem import project
from hakmem.cli import Library
from hakmem.errors import LabError
from hakmem.process import children, proof as proofs, scratch
from hakmem.process.library import preloadable

NOT_PROVEN = 3

DEMONSTRATION = """
import json, signal, threading
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends it without a word
row = lambda i: {"id": i, "name": f"row {i}", "tags": [str(i), str(i * 7)], "x": i / 3}
rows = [row(i) for i in range(20000)]
same = []
def trip():
    same.append(json.loads(json.dumps(rows)) == rows)
threads = [threading.Thread(target=trip) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert same == [True] * 4, "a row changed on its way through json"
print("demonstration: 4 threads each sent 20000 rows through json and back: equal")
"""


def run_command(
    command: Annotated[
        list[str] | None, typer.Argument(help="What to run; without it, a demonstration.")
    ] = None,
    lib: Library = None,
) -> None:
    """Run a program under hakmem and say what was proven inside its processes."""
    library = project.library(lib)
    outcome = execute(command or demonstration(), library)
    print(outcome.sentence, file=sys.stderr)
    raise typer.Exit(outcome.exit_status)


@dataclass(frozen=True)
class Outcome:
    """What happened: the command's own status and what was proven inside its processes."""

    status: int
    proven: bool
    sentence: str
    pid: int
    programs: Mapping[int, str]  # process id -> the program executed last in it

    @property
    def exit_status(self) -> int:
        return self.status if self.proven else NOT_PROVEN


def demonstration() -> list[str]:
    """The program that runs when no command is given."""
    return [sys.executable, "-c", DEMONSTRATION]


def preloaded(library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the library preloaded, in front of what was preloaded already.

    The first definition of malloc wins; the other libraries are still loaded.
    """
    before = environment.get("LD_PRELOAD", "")
    own = preloadable(library)
    return {**environment, "LD_PRELOAD": f"{own}:{before}" if before else own}


def execute(
    command: Sequence[str], library: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> Outcome:
    """Runs the command to its end with inherited stdio and reads its proof."""
    program = children.program(command[0])
    with scratch.folder("run") as folder:
        file = folder / "proof.jsonl"
        environment = {**preloaded(library, os.environ), **settings, "HAKMEM_PROOF": str(file)}
        pid, status = _run(command, environment)
        found = proofs.read(file)
        sentence, proven = describe(found, pid, program)
    if not proven:
        sentence += f"; the command itself ended with status {status}"
    programs = {proof.pid: proof.program for proof in found}
    return Outcome(status, proven, sentence, pid, programs)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns the process id and the shell's idea of its exit status (128 + signal)."""
    try:
        child = subprocess.Popen(list(command), env=dict(environment))
    except OSError as error:
        raise LabError(f"cannot run {command[0]}: {error.strerror}", status=126) from error
    # The child shares the terminal: it gets Ctrl-C itself and decides; this process stays to
    # report.
    old = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        old[number] = signal.signal(number, lambda number, _: child.send_signal(number))
    try:
        code = child.wait()
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    return child.pid, code if code >= 0 else 128 - code


def describe(found: Sequence[proofs.Proof], pid: int, program: Path) -> tuple[str, bool]:
    """One sentence about the proof, and whether the command's own process is proven."""
    own = [p for p in found if p.pid == pid]
    below = {p.pid for p in found if p.pid != pid and p.serving}
    tail = ""
    if below:
        tail = f", and in {len(below)} child process{'es' if len(below) > 1 else ''}"
    if own and own[-1].serving:
        last = own[-1]
        return f"hakmem {last.version} served malloc in {last.program} (pid {pid}){tail}", True
    if own:
        why = "the library was loaded, but the program has a malloc of its own"
    else:
        why = f"no proof was written; {_why_unproven(program)}"
    return f"hakmem: NOT proven in {program.name} (pid {pid}){tail}: {why}", False


def _why_unproven(program: Path) -> str:
    """The likeliest reason why a process left no proof, from the program file itself."""
    try:
        with program.open("rb") as file:
            head = file.read(5)
        if head[:2] == b"#!":
            return "it is a script: try its interpreter as the command"
        if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return "it is a setuid or setgid program: preloading is refused"
        if head == b"\x7fELF\x01":
            return "it is a 32-bit program: hakmem is a library of 64 bits"
        loader = _loader(program)
        if loader is None:
            return "it is statically linked: nothing can be preloaded"
        if loader and loader != (_loader(Path(sys.executable)) or loader):
            return f"it is of another C library: its loader is {loader}"
        if "security.capability" in os.listxattr(program):
            return "it has file capabilities: preloading is refused"
    except OSError:
        pass
    return "the library did not load there, or it is not hakmem"


def _loader(program: Path) -> str | None:
    """The name of the dynamic loader that a 64-bit ELF file asks for (PT_INTERP), or None; "" if it
    is no ELF file."""
    with program.open("rb") as file:
        ident = file.read(64)
        if ident[:4] != b"\x7fELF":
            return ""
        order = "<" if ident[5] == 1 else ">"
        # Offset, entry size and number of the program headers.
        (offset,) = struct.unpack_from(f"{order}Q", ident, 32)
        size, count = struct.unpack_from(f"{order}HH", ident, 54)
        file.seek(offset)
        table = file.read(size * count)
        for at in range(0, size * count, size):
            kind, _, begin, _, _, length = struct.unpack_from(f"{order}IIQQQQ", table, at)
            if kind == 3:
                file.seek(begin)
                return Path(os.fsdecode(file.read(length).rstrip(b"\0"))).name
    return None
