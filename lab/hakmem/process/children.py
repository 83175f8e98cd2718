"""Children that never outlive the laboratory: each leads a process group of its own."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any


def start(argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """The child, with nothing to read; `options` and OSError are Popen's.

    An interrupt while it starts waits until it can be ended, and then ends it.
    """
    with _held_back() as interrupts:
        child = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, process_group=0, **options)
    if interrupts:
        end(child)
        raise KeyboardInterrupt
    return child


def end(child: "subprocess.Popen[Any]") -> None:
    """Kills the child's group unless it has ended, and waits for it."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def end_group(leader: int) -> None:
    """Kills what is left of a group whose leader has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@contextlib.contextmanager
def _held_back() -> Iterator[list[int]]:
    """Interrupts are noted and not acted upon. Only the main thread gets any."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(n))]
    before = {n: signal.signal(n, lambda number, _: noted.append(number)) for n in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
