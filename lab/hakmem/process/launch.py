"""A small process between the lab and a user's command, which measures the command from outside.

The kernel starts a process's peak memory at the size of the process that forked it. For the lab
itself that is far too much, so a bare interpreter forks instead; below its own size the peak is not
visible, and is reported so. Its start is not in the times.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Only modules that a bare interpreter holds anyway: each further one raises the lowest peak seen.
_LAUNCHER = r"""
import os, sys, time
out, request = sys.argv[1:3]
with open(request, "rb") as file:
    program, *rest = file.read().split(b"\0")
argv = sys.argv[3:]
environment = dict(entry.split(b"=", 1) for entry in rest if entry)
begin = time.perf_counter()
try:
    pid = os.posix_spawn(program, argv, environment)
except OSError as error:
    sys.exit("cannot start: " + error.strerror)
_, status, usage = os.wait4(pid, 0)
wall = time.perf_counter() - begin
with open("/proc/self/status") as file:
    own = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
with open(out, "w") as file:
    print(wall, usage.ru_utime, usage.ru_stime, usage.ru_minflt, usage.ru_majflt, usage.ru_nivcsw,
          usage.ru_maxrss, own, os.waitstatus_to_exitcode(status), pid, file=file)
"""


@dataclass(frozen=True)
class Account:
    """What the command cost, seconds and counts of the whole process and its children.

    `peak_kb` None: not above `floor_kb`, the launcher's own size, so not visible.
    """

    wall_s: float
    user_s: float
    sys_s: float
    minflt: int
    majflt: int
    involuntary_switches: int
    peak_kb: int | None
    floor_kb: int
    status: int
    pid: int


def argv_for(
    program: str, argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> list[str]:
    """The launcher's command line; the command's environment goes through a file in `folder`."""
    entries = [program, *(f"{name}={value}" for name, value in environment.items())]
    (folder / "request").write_bytes(b"\0".join(os.fsencode(entry) for entry in entries))
    files = [str(folder / "account"), str(folder / "request")]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, *files, *argv]


def read(folder: Path) -> Account | None:
    """The account, or None where the launcher was stopped before it wrote it whole."""
    try:
        fields = (folder / "account").read_text().split()
    except FileNotFoundError:
        return None
    if len(fields) != 10:
        return None
    wall, user, system = (float(field) for field in fields[:3])
    minflt, majflt, switches, peak, floor, status, pid = (int(field) for field in fields[3:])
    seen = peak if peak > floor else None
    return Account(wall, user, system, minflt, majflt, switches, seen, floor, status, pid)
