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
    """Whether the lab's own standard input is a file or a pipe with data left to read, which no
    child would get. One that is empty, closed or not written to yet does not count."""
    with contextlib.suppress(OSError):
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            return any(fcntl.ioctl(0, termios.FIONREAD, bytes(4)))
    return False


def start(argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Starts a child with nothing to read, in a process group of its own; `options` and OSError are
    Popen's.

    Interrupts during the start are held back; then the child is ended, and KeyboardInterrupt
    raised.
    """
    with held_back() as interrupts:
        child = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, process_group=0, **options)
    if interrupts:
        end(child)
        raise KeyboardInterrupt
    return child


def program(name: str) -> Path:
    """The file of a command that the user named; LabError, with the status that a shell has for it,
    where it cannot be run."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    if os.sep in name and Path(name).exists():
        why = "it is a folder" if Path(name).is_dir() else "it is no executable file (chmod +x)"
        raise LabError(f"cannot run {name}: {why}", status=126)
    raise LabError(f"command not found: {name}", status=127)


def said(argv: Sequence[str | Path], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a tool to its end, with nothing to read: its status and output; `options` are run's."""
    plain = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
    return subprocess.run(list(argv), **{**plain, "errors": "replace", **options})


def last_line(text: str, otherwise: str = "it said nothing") -> str:
    """The last line of what a program said."""
    return (text.strip().splitlines() or [otherwise])[-1]


def tool(argv: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a tool whose words do not depend on the user's language. LabError after two minutes."""
    try:
        return said(argv, **{"env": {**os.environ, "LC_ALL": "C"}, "timeout": 120, **options})
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv[:2])} takes more than two minutes", status=1) from None


def output(argv: Sequence[str], **options: Any) -> str:
    """The standard output of such a tool; LabError where it fails, or is not installed."""
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

    Lines that the benchmarks, the statistics and valgrind always print are skipped.
    """
    how = f"killed by {signal_name(-status)}" if status < 0 else f"status {status}"
    lines = (line for text in texts for line in reversed(text.strip().splitlines()))
    last = next((line for line in lines if not _USUAL.match(line)), "")
    return f"{how}: {last[:200]}" if last else how


def signal_name(number: int) -> str:
    """The name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end(child: "subprocess.Popen[Any]") -> None:
    """Kills the child's group, of which members may outlive the child, and waits for the child."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def logged(argv: Sequence[str], log: Path, mode: str = "wb", **options: Any) -> int:
    """Runs a command to its end, its output going into the log; returns its status. `options` are
    start's.

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
    """A child that was run to its end; `status` None: it took too long and was killed.

    `usage` is that of the child and its children.
    """

    pid: int
    status: int | None
    wall_s: float
    usage: resource.struct_rusage
    out: str
    err: str


def finished(argv: Sequence[str], folder: Path, timeout_s: float, **options: Any) -> Ended:
    """Runs a command to its end, its output going through files in `folder`; `options` are start's.

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
    """Waits for this child alone, so that the resource usage is that of it and its children; says
    whether it took too long. Kills its group in any case."""
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
    """Inside the context interrupts are noted, in the list that it yields, and not acted upon.

    So work that must not be left half done, such as the writing of records, is done first. Without
    effect in other threads than the main one, which alone gets signals.
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
