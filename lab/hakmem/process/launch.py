"""A small process between the lab and a user's command, which measures the command from outside.

The kernel starts a process's peak memory at the size of the process that forked it. For the lab
itself that is far too much, so a bare interpreter forks instead; below its own size the peak is not
visible, and is reported so. Its start is not in the times.
"""

import ast
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# Only modules that a bare interpreter holds anyway: each further one raises the lowest peak seen.
# Memory is that of the command and its descendants: where these share pages, once for each.
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
    seen = {"kb_s": 0.0, "sum_peak_kb": 0}
    last, held, until = begin, 0, None
    while True:
        _signal.sigtimedwait({_signal.SIGCHLD}, every)
        gone, status, usage = os.wait4(pid, os.WNOHANG)
        now = time.perf_counter()
        before, held = held, held if gone else pages(pid) * page
        seen["kb_s"] += (now - last) * (before + held) / 2
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
seen.update(
    user_s=usage.ru_utime, sys_s=usage.ru_stime, minflt=usage.ru_minflt, majflt=usage.ru_majflt,
    involuntary_switches=usage.ru_nivcsw, peak_kb=usage.ru_maxrss, floor_kb=own,
    status=os.waitstatus_to_exitcode(status), pid=pid)
with open(out, "w") as file:
    print(seen, file=file)
"""


EVERY_S = 0.01  # memory over time is read so often


@dataclass(frozen=True)
class Job:
    """What a real program is given to do: it runs in an empty folder where `in` is `inputs`, and
    the memory of it and its descendants is watched over time.

    `wrong` sees that folder and what was written on standard output, and says what is not as it
    must be, or None. `worker` is the executable that does the work where it is not argv[0]. A
    `load` makes the program a server: once the load has ended well and `quiet_s` are over, or at
    once where it failed, the server is told to end by SIGTERM.
    """

    inputs: Path
    wrong: Callable[[Path, bytes], str | None]
    worker: str | None = None
    load: tuple[str, ...] = ()
    quiet_s: float = 0.0


@dataclass(frozen=True)
class Account:
    """What the command cost, seconds and counts of the whole process and its children.

    `peak_kb` None: not above `floor_kb`, the launcher's own size, so not visible. The rest only
    where it was watched: `kb_s` is the integral of resident memory, `sum_peak_kb` the most that all
    processes held together; pages that they share count in each. A server's `wall_s` ends with its
    load, `quiet_kb` is its memory when it was told to end.
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
    kb_s: float | None = None
    sum_peak_kb: int | None = None
    quiet_kb: int | None = None
    load_status: int | None = None


def argv_for(
    program: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    job: Job | None,
    plain: Mapping[str, str],
) -> list[str]:
    """The launcher's command line; the command's environment goes through a file in `folder`. A
    job's load gets the `plain` one, which has nothing of the cell's."""
    watch = None
    if job:
        words = list(job.load)
        load = (shutil.which(words[0]) or words[0], words, dict(plain)) if words else None
        watch = (EVERY_S, load, job.quiet_s)
    asked = {"program": program, "environment": dict(environment), "watch": watch}
    (folder / "request").write_bytes(ascii(asked).encode())
    files = [str(folder / "account"), str(folder / "request")]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, *files, *argv]


def read(folder: Path) -> Account | None:
    """The account, or None where the launcher was stopped before it wrote it whole."""
    try:
        account = Account(**ast.literal_eval((folder / "account").read_text()))
    except (FileNotFoundError, SyntaxError):
        return None
    assert account.peak_kb is not None
    return account if account.peak_kb > account.floor_kb else replace(account, peak_kb=None)
