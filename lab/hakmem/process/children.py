"""Children that never outlive the laboratory: each leads a process group of its own."""

import contextlib
import fcntl
import os
import re
import resource
import select
import shutil
import signal
import stat
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem.errors import LabError

_USUAL = re.compile(r"\[[A-Z_]+\]|==\d+==|--\d+--|\s*$")


def input_waits() -> bool:
    """Whether a file or a pipe is the lab's own standard input, with something left to read: it
    would reach no child. One that is empty, closed or not written to yet is nobody's input."""
    with contextlib.suppress(OSError):
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            return any(fcntl.ioctl(0, termios.FIONREAD, bytes(4)))
    return False


def start(argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """The child, with nothing to read; `options` and OSError are Popen's.

    An interrupt while it starts waits until it can be ended, and then ends it.
    """
    with held_back() as interrupts:
        child = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, process_group=0, **options)
    if interrupts:
        end(child)
        raise KeyboardInterrupt
    return child


def program(name: str) -> Path:
    """Where a command is that somebody has asked for; LabError, with the shell's status, where it
    is none that can be run."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    if os.sep in name and Path(name).exists():
        why = "it is a folder" if Path(name).is_dir() else "it is no executable file (chmod +x)"
        raise LabError(f"cannot run {name}: {why}", status=126)
    raise LabError(f"command not found: {name}", status=127)


def said(argv: Sequence[str | Path], **options: Any) -> "subprocess.CompletedProcess[str]":
    """A tool to its end, with nothing to read: its status and its words; `options` are run's."""
    plain = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
    return subprocess.run(list(argv), **{**plain, "errors": "replace", **options})


def last_line(text: str, otherwise: str = "it said nothing") -> str:
    """What a program said last."""
    return (text.strip().splitlines() or [otherwise])[-1]


def tool(argv: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """One that answers at once, in words that do not depend on the user's language."""
    try:
        return said(argv, **{"env": {**os.environ, "LC_ALL": "C"}, "timeout": 120, **options})
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv[:2])} takes more than two minutes", status=1) from None


def output(argv: Sequence[str], **options: Any) -> str:
    """What such a tool answers; LabError where it fails, or is not here."""
    name = argv[0]
    try:
        done = tool(argv, **options)
    except FileNotFoundError:
        package = "linux-perf" if name == "perf" else "binutils"
        raise LabError(f"{name} is not installed: apt-get install {package}", status=1) from None
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv[:2])} failed: {last_line(done.stderr)}", status=1)
    return done.stdout


def how_ended(status: int, *texts: str) -> str:
    """How a program ended, and its last words in the first text that has some.

    What the benchmarks, the statistics and valgrind always say is no reason.
    """
    how = f"killed by {signal_name(-status)}" if status < 0 else f"status {status}"
    lines = (line for text in texts for line in reversed(text.strip().splitlines()))
    last = next((line for line in lines if not _USUAL.match(line)), "")
    return f"{how}: {last[:200]}" if last else how


def signal_name(number: int) -> str:
    """Its name; real-time signals but for two have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end(child: "subprocess.Popen[Any]") -> None:
    """Kills the child's group, of which something may be left where it has ended, and waits."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def logged(argv: Sequence[str], log: Path, mode: str = "wb", **options: Any) -> int:
    """Runs it to its end, all that it says going into the log; its status. `options` are start's.

    Nothing that it started in its group outlives it.
    """
    with log.open(mode) as out:
        child = start(argv, stdout=out, stderr=out, **options)
        try:
            return child.wait()
        finally:
            end(child)


@dataclass(frozen=True)
class Ended:
    """A child that was run to its end; `status` None: it was killed, because it took too long.

    `usage` is its own and that of its children.
    """

    pid: int
    status: int | None
    wall_s: float
    usage: resource.struct_rusage
    out: str
    err: str


def finished(argv: Sequence[str], folder: Path, timeout_s: float, **options: Any) -> Ended:
    """Runs it to its end, its output going through files in the folder; `options` are start's.

    Nothing that it started in its group outlives it.
    """
    files = folder / "stdout", folder / "stderr"
    with files[0].open("wb") as out, files[1].open("wb") as err:
        begun = time.perf_counter()
        child = start(argv, stdout=out, stderr=err, **options)
        late, usage = _reap(child, timeout_s)
        wall_s = time.perf_counter() - begun
    status = None if late else child.returncode
    said = (file.read_text("utf-8", "replace") for file in files)
    return Ended(child.pid, status, wall_s, usage, *said)


def _reap(child: "subprocess.Popen[Any]", timeout_s: float) -> tuple[bool, resource.struct_rusage]:
    """Waits for this child alone, so that the resource usage is its own (and of its children); says
    whether it had to be killed."""
    descriptor = os.pidfd_open(child.pid)
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    late = True
    try:
        late = not poller.poll(timeout_s * 1000)
    finally:
        # Also on Ctrl-C: nothing that was started may outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        _, raw, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(raw)
        os.close(descriptor)
    return late, usage


@contextlib.contextmanager
def held_back() -> Iterator[list[int]]:
    """Interrupts are noted and not acted upon. Only the main thread gets any.

    So that what must not be left half done, as records being written, is done first.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    numbers = [n for n in ends if callable(signal.getsignal(n))]
    before = {n: signal.signal(n, lambda number, _: noted.append(number)) for n in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
