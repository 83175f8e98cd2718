"""Check what HAKMEM_LIVE does, from outside.

Usage: run_live.py LIBHAKMEM PROGRAM [NAME]   all checks, or the one of this name
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

from checks import SKIPPED, expect, main
from run_stats_process import BUSY_S, TIMEOUT_S, end, run, wait_for, waiting

NOBODY = 65534
CLONE_NEWUSER = 0x10000000
LISTENS = "00010000"  # a flag of /proc/net/unix


def sockets(number: int) -> list[str]:
    """Those that listen; each of their connections has the same name."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    prefix = f"@hakmem/{number}/"
    return [words[-1] for words in lines if words[3] == LISTENS and words[-1].startswith(prefix)]


def socket_of(number: int) -> str:
    """While others' sockets come and go the list may lack it or have it twice: one look counts."""
    found: list[str] = []

    def is_found() -> bool:
        found[:] = sockets(number)
        return len(found) == 1

    wait_for(is_found, f"the socket of {number}")
    return found[0]


def ask(number: int, word: str = "json\n") -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect("\0" + socket_of(number)[1:])
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        expect(struct.unpack("3i", found)[0] == number, f"{number}'s socket is another's")
        connection.sendall(word.encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile(encoding="utf-8") as answer:
            return answer.read()


def check_formats(folder: Path) -> None:
    with waiting(HAKMEM_LIVE="1") as (process, number):
        for word in ("json\n", "json", ""):
            expect(json.loads(ask(number, word))["pid"] == number, f"{word!r}: another process")
        expect(ask(number, "text").startswith("hakmem "), "text")
        expect(ask(number, "openmetrics\n").endswith("# EOF\n"), "openmetrics")
        for word in ("yaml\n", "js", "x" * 16):
            expect(ask(number, word) == "", f"{word[:9]!r} has an answer")
        _, err = end(process)
    expect(err == "", err)
    expect(sockets(number) == [], "a socket is left")


def check_unasked(folder: Path) -> None:
    with waiting() as (_, number):
        expect(sockets(number) == [], "a socket that nobody asked for")
        threads = list(Path(f"/proc/{number}/task").iterdir())
        expect(len(threads) == 1, f"threads: {threads}")


def check_killed(folder: Path) -> None:
    with waiting(HAKMEM_LIVE="1") as (process, number):
        socket_of(number)
        process.kill()
        process.wait()
    expect(sockets(number) == [], "a killed process leaves its socket")


def check_children(folder: Path) -> None:
    with waiting("child", HAKMEM_LIVE="1") as (process, number):
        expect(number != process.pid, "no child")
        for asked in (number, process.pid):
            expect(json.loads(ask(asked))["pid"] == asked, f"{asked} is another process")
        _, err = end(process)
    expect(err == "", err)


def check_files_are_the_programs(folder: Path) -> None:
    """The thread shares none: what the program closes is closed, and the socket is not among it."""
    ours, theirs = os.pipe()
    with (
        os.fdopen(ours) as pipe,
        waiting("shut", inherited=(theirs,), HAKMEM_LIVE="1") as (process, number),
    ):
        os.close(theirs)
        ask(number)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        for file in (process.stdout, pipe):
            expect(file.read() == "", "what the program has closed is held open")
        kept = [path.readlink() for path in Path(f"/proc/{number}/fd").iterdir()]
        expect(len(kept) == 1, f"the program's files: {kept}")
        own = {
            str(path.readlink())
            for thread in Path(f"/proc/{number}/task").iterdir()
            if (thread / "comm").read_text() == "hakmem-live\n"
            for path in (thread / "fd").iterdir()
        }
        expect(len(own) == 1 and own.pop().startswith("socket:"), f"the thread's: {own}")
        expect(json.loads(ask(number))["pid"] == number, "another process")


def check_slow_readers(folder: Path) -> None:
    """Who connects and says nothing keeps others waiting for a second, not for ever."""
    with waiting(HAKMEM_LIVE="1") as (_, number), socket.socket(socket.AF_UNIX) as idle:
        idle.connect("\0" + socket_of(number)[1:])
        expect(json.loads(ask(number))["pid"] == number, "another process")


def check_other_users(folder: Path) -> None:
    if os.geteuid() != 0:
        print("skipped, needs root to be somebody else: check_other_users")
        return
    with waiting(HAKMEM_LIVE="1") as (_, number):
        socket_of(number)
        child = os.fork()
        if child == 0:
            answer = "?"
            try:
                os.setuid(NOBODY)
                answer = ask(number)
            except ConnectionError:  # closed while we were still asking
                answer = ""
            finally:
                os._exit(0 if answer == "" else 1)
        _, status = os.waitpid(child, 0)
        expect(os.waitstatus_to_exitcode(status) == 0, "another user has an answer")
        expect(json.loads(ask(number))["pid"] == number, "root has none")
    with waiting("nobody", HAKMEM_LIVE="1") as (_, number):
        expect(json.loads(ask(number))["pid"] == number, "root has none of another user's")


def check_unknown_users(folder: Path) -> None:
    """In a namespace that knows no users everybody looks like everybody else."""
    if os.geteuid() != 0:
        print("skipped, needs root to be somebody else: check_unknown_users")
        return

    def enter() -> None:
        if ctypes.CDLL(None).unshare(CLONE_NEWUSER) != 0:
            os._exit(SKIPPED)

    try:
        with waiting(preexec=enter, HAKMEM_LIVE="1") as (_, number):
            name = "\0" + socket_of(number)[1:]
            child = os.fork()
            if child == 0:
                os.setuid(NOBODY - 1)
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(TIMEOUT_S)
                    connection.connect(name)
                    try:
                        connection.sendall(b"text\n")
                        os._exit(len(connection.recv(1)))
                    except ConnectionError:
                        os._exit(0)
            _, status = os.waitpid(child, 0)
            expect(os.waitstatus_to_exitcode(status) == 0, "another user has an answer")
    except AssertionError as error:
        if "the program said []" not in str(error):
            raise
        print("skipped, no namespaces of users here: check_unknown_users")


def check_while_busy(folder: Path) -> None:
    """Threads allocate and fork; each answer is whole."""
    with waiting("threads", HAKMEM_LIVE="1") as (process, number):
        limit = time.monotonic() + BUSY_S
        while time.monotonic() < limit:
            expect(json.loads(ask(number))["pid"] == number, "another process")
        _, err = end(process)
    expect(err == "", err)


def check_main_has_ended(folder: Path) -> None:
    """Nobody is kept who has ended, and what was not written yet is."""
    for where in ([], ["child"]):
        done = run("last", *where, HAKMEM_LIVE="1")
        expect((done.stdout, done.stderr) == ("last", ""), f"{done}")


if __name__ == "__main__":
    sys.exit(main())
