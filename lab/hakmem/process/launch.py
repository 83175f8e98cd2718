"""A small process between the lab and a user's command, which measures the command from outside.

The kernel starts a process's peak memory at the size of the process that forked it. For the lab
itself that is far too much, so a bare interpreter forks instead; a peak below its own size is not
visible, and is reported so. The interpreter's own start is not in the times.
"""

import ast
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The launcher imports only modules that a bare interpreter has anyway: each further one would raise
# the lowest peak that can be seen. Memory is that of the command and its descendants; a page that
# several of them share counts in each.
_LAUNCHER = r"""
import os, sys, time
out, request = sys.argv[1:3]
with open(request, "rb") as file:
    asked = eval(file.read())
every, load, quiet = asked["watch"] or (None, None, None)

def start(program, argv, environment):
    try:
        return os.posix_spawn(program, argv, environment, setsigmask=())
    except OSError as error:
        sys.exit("cannot start: " + error.strerror)

def pages(pid):
    held = 0
    try:
        with open("/proc/%d/statm" % pid, "rb", 0) as file:
            held = int(file.read().split()[1])
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), "rb", 0) as file:
                for child in file.read().split():
                    held += pages(int(child))
    except OSError:
        pass
    return held

def watched():
    page = os.sysconf("SC_PAGE_SIZE") // 1024
    loading = start(*load) if load else None
    seen = {"memory_mb_s": 0.0, "sum_peak_kb": 0}
    last, held, until = begin, 0, None
    while True:
        _signal.sigtimedwait({_signal.SIGCHLD}, every)
        gone, status, usage = os.wait4(pid, os.WNOHANG)
        now = time.perf_counter()
        before, held = held, held if gone else pages(pid) * page
        seen["memory_mb_s"] += (now - last) * (before + held) / 2 * 1024e-6
        seen["sum_peak_kb"] = max(seen["sum_peak_kb"], held)
        last = now
        if loading and "load_status" not in seen:
            if gone:
                os.kill(loading, _signal.SIGKILL)
            done, ended = os.waitpid(loading, 0 if gone else os.WNOHANG)
            if done:
                seen["load_status"] = os.waitstatus_to_exitcode(ended)
                seen["wall_s"] = now - begin
                until = now if seen["load_status"] else now + quiet
        if gone:
            return status, usage, {"wall_s": now - begin, **seen}
        if until is not None and now >= until:
            seen["quiet_kb"], until = held, None
            os.kill(pid, _signal.SIGTERM)

if every:
    import _signal
    _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGCHLD})
begin = time.perf_counter()
pid = start(asked["program"], sys.argv[3:], asked["environment"])
if every:
    status, usage, seen = watched()
else:
    _, status, usage = os.wait4(pid, 0)
    seen = {"wall_s": time.perf_counter() - begin}
with open("/proc/self/status") as file:
    own = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
peak = usage.ru_maxrss
seen.update(
    user_s=usage.ru_utime, sys_s=usage.ru_stime, minflt=usage.ru_minflt, majflt=usage.ru_majflt,
    involuntary_switches=usage.ru_nivcsw, max_rss_kb=peak if peak > own else None,
    status=os.waitstatus_to_exitcode(status), pid=pid)
with open(out, "w") as file:
    print(seen, file=file)
"""


EVERY_S = 0.01  # seconds between two readings of memory over time


@dataclass(frozen=True)
class Job:
    """The work of a real program: it runs in an empty folder where `in` is `inputs`, and the memory
    of it and its descendants is watched over time.

    `wrong` gets that folder and the standard output, and says what is not as it must be, or None.
    `worker` is the executable that does the work where it is not argv[0]. A `load` makes the
    program a server: `quiet_s` seconds after the load has ended well, or at once where it failed,
    the server gets SIGTERM.
    """

    inputs: Path
    wrong: Callable[[Path, bytes], str | None]
    worker: str | None = None
    load: tuple[str, ...] = ()
    quiet_s: float = 0.0


def argv_for(
    program: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    job: Job | None,
    plain: Mapping[str, str],
) -> list[str]:
    """The launcher's command line; the command's environment goes through a file in `folder`. A
    job's load gets the environment `plain`, which has nothing of the cell's."""
    watch = None
    if job:
        words = list(job.load)
        load = (shutil.which(words[0]) or words[0], words, dict(plain)) if words else None
        watch = (EVERY_S, load, job.quiet_s)
    asked = {"program": program, "environment": dict(environment), "watch": watch}
    (folder / "request").write_bytes(ascii(asked).encode())
    files = [str(folder / "account"), str(folder / "request")]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, *files, *argv]


def read(folder: Path) -> dict[str, Any] | None:
    """What the launcher measured, by the names that a sample has for it, and how a load ended
    (`load_status`); None where the launcher did not write it, or not all of it.

    Seconds and counts are of the command and its children. A peak that is not above the launcher's
    own size is None, not visible. Pages that processes share count in each of them. A server's
    `wall_s` ends with its load; `quiet_kb` is its memory when it was told to end.
    """
    try:
        found: dict[str, Any] = ast.literal_eval((folder / "account").read_text())
    except (FileNotFoundError, SyntaxError):
        return None
    return found
