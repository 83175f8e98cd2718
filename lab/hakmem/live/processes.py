"""Finds the processes that can be asked for their statistics (HAKMEM_LIVE), and asks them.

The protocol is in docs/statistics.md. Only what the system says of a process is trusted: any
process may listen under such a name, and answer anything.
"""

import contextlib
import json
import os
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hakmem import words
from hakmem.process import host

SOCKETS = Path("/proc/net/unix")
PREFIX = "@hakmem/"
LISTENS = "00010000"  # a flag of /proc/net/unix
PATIENCE_S = 3.0
MOST_BYTES = 1 << 20
AT_ONCE = 16


@dataclass(frozen=True)
class Answer:
    """What the process `pid`, as it is numbered here, has written, and its name for itself."""

    pid: int
    command: str
    text: str


@dataclass(frozen=True)
class Process:
    """A process: `figures` is its JSON document, `page_faults` the system's count of them."""

    pid: int
    command: str
    page_faults: int
    figures: dict[str, Any]

    @property
    def heap(self) -> dict[str, int]:
        return self.figures["heap"]


T = TypeVar("T", Answer, Process)


@dataclass(frozen=True)
class Found(Generic[T]):
    """Processes in the order of their ids, and how many gave no answer."""

    here: list[T]
    silent: int


def listening(sockets: Path = SOCKETS) -> list[str]:
    """The names of the sockets that processes on hakmem listen on."""
    text = sockets.read_text(encoding="utf-8", errors="replace")  # a name may be any bytes
    lines = (line.split() for line in text.splitlines())
    found = {  # a set: while sockets come and go, the system's list may have one twice
        of[7] for of in lines if len(of) == 8 and of[3] == LISTENS and of[7].startswith(PREFIX)
    }
    return sorted(found)


def ask(name: str, form: str) -> Answer | None:
    """The answer; None where the process has gone, is too slow, or is another user's."""
    with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
        connection.settimeout(PATIENCE_S)
        connection.connect("\0" + name.removeprefix("@"))
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, user, _ = struct.unpack("3i", peer)
        if os.geteuid() not in (0, user):
            return None
        connection.sendall(f"{form}\n".encode())
        text = _read(connection).decode("utf-8", "replace")
        return Answer(pid, command_of(pid), text) if text and pid > 0 else None
    return None


def _read(connection: socket.socket) -> bytes:
    """All that comes, up to MOST_BYTES; TimeoutError where that takes longer than PATIENCE_S."""
    until, found = time.monotonic() + PATIENCE_S, bytearray()
    while len(found) < MOST_BYTES:
        connection.settimeout(max(0.001, until - time.monotonic()))
        part = connection.recv(MOST_BYTES - len(found))
        if not part:
            break
        found += part
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(found)


def command_of(pid: int) -> str:
    """The name that the process gave itself, which may be anything, made printable."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    return words.printable(name.removesuffix("\n"))


def page_faults_of(pid: int) -> int:
    """Minor and major page faults since the process began; 0 where the system does not say."""
    fields = host.stat_of(pid)
    return int(fields[7]) + int(fields[9]) if fields else 0


def parse(answer: Answer) -> Process | None:
    """The process; None: the answer is not hakmem's. Figures that another version lacks are 0."""
    try:
        figures = json.loads(answer.text)
        figures["heap"] = counts(figures["heap"])
        figures["bands"] = {name: counts(band) for name, band in figures["bands"].items()}
        if not all(map(str.isprintable, figures["bands"])):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Process(answer.pid, answer.command, page_faults_of(answer.pid), figures)


def counts(figures: dict[str, Any]) -> defaultdict[str, int]:
    """The figures, 0 for missing ones. TypeError where one is no count."""
    if not all(isinstance(n, int) and 0 <= n < 1 << 64 for n in figures.values()):
        raise TypeError
    return defaultdict(int, figures)


def found(form: str, read: Callable[[Answer], T | None]) -> Found[T]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda name: ask(name, form), listening()))
    here = [one for answer in answers if answer and (one := read(answer))]
    return Found(sorted(here, key=lambda one: one.pid), len(answers) - len(here))


def running() -> Found[Process]:
    return found("json", parse)
