"""Hold the allocator's count of its calls to the system, kind by kind, against what strace sees.

Usage: run_stats_calls.py LIBHAKMEM STATS_PROCESS BENCHMARKS
                                        every program of the folder BENCHMARKS, small, and some
                                        runs that reach rare kinds; 77: nothing to check, and why
       run_stats_calls.py --self-test   prove on doctored lines and traces that it can fail

The C library, the loader and the program make calls of the same names. `strace -k` prints the
stack of each call, which tells them apart exactly: a call is the allocator's where the first frame
outside the C library and the loader is its own. One rule more: what pthread_create() does when the
allocator starts a thread of its own (a stack, its guard, signals) is the C library's, but for the
clone: that is the one call as which starting a thread is counted. (No stack can be read of a clone;
it is that of the call before, with which pthread_create() blocks signals.)

So each kind must be equal, and each process has its own line (pid=), of what came before the write
of that line, to which the call belongs that holds back the signals it may cause. The one slack:
where a thread of the allocator's own runs, it may be between counting and calling just then, which
makes a difference of one call.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 1000
SKIPPED = 77

# As the line calls each kind, and as strace does.
KINDS = {
    "mmap_total": ("mmap",),
    "munmap": ("munmap",),
    "mremap": ("mremap",),
    "mprotect": ("mprotect",),
    "madvise": ("madvise",),
    "mincore": ("mincore",),
    "futex": ("futex",),
}
OTHER = "other"  # all other calls
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
LEAST_SEEN = ("mmap_total", "munmap", "mremap", "mprotect", "madvise", "futex", OTHER)

STARTS = ("clone", "clone3", "fork", "vfork")
SYSTEM = re.compile(r"(ld-|libc[.-]|libpthread[.-]|linux-vdso|\[vdso\])")
LEAN = "HAKMEM_SS_MEM_LEAN"
LINE = re.compile(r"^\[SS_OS_STATS\] (.*)$", re.MULTILINE)

# ---- what strace prints ----

BEGUN = re.compile(r"(\d+) +(\w+)\((.*)")
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
FRAME = re.compile(r" > ([^(\[]*)\(?([^+)]*)[^\[]*\[")
RESULT = re.compile(r".*= (\d+)")


@dataclass
class Call:
    thread: int
    name: str
    text: str
    stack: list[tuple[str, str]] = field(default_factory=list)  # module, function; innermost first

    @property
    def result(self) -> int | None:
        found = RESULT.match(self.text)
        return int(found[1]) if found else None


def read_trace(text: str) -> list[Call]:
    """The calls in the order in which they were begun."""
    calls: list[Call] = []
    open_calls: dict[int, Call] = {}
    latest: dict[int, Call] = {}
    last: Call | None = None  # whose stack comes next
    for line in text.splitlines():
        if frame := FRAME.match(line):
            if last is not None and last.name not in STARTS:
                last.stack.append((frame[1], frame[2]))
        elif resumed := RESUMED.match(line):
            last = open_calls.pop(int(resumed[1]), None)
            if last is not None:
                last.text += resumed[3]
        elif begun := BEGUN.match(line):
            last = Call(int(begun[1]), begun[2], begun[3])
            if last.name in STARTS and last.thread in latest:
                last.stack = latest[last.thread].stack
            calls.append(last)
            latest[last.thread] = last
            if "<unfinished" in line:
                open_calls[last.thread] = last
                last = None
        else:
            last = None
    return calls


# ---- whose a call is ----

IsOurs = Callable[[str, str], bool]  # of a module and a function


def caller(call: Call) -> tuple[str, tuple[str, str]]:
    """The C library's function that was called, and the frame that called it."""
    entry = ""
    for module, function in call.stack:
        if not SYSTEM.match(Path(module).name):
            return entry, (module, function)
        entry = function
    return entry, ("", "")


def is_allocators(call: Call, ours: IsOurs, workers: set[int]) -> bool:
    if not call.stack:
        return call.thread in workers  # asleep when the process ended: there is no stack then
    entry, frame = caller(call)
    return ours(*frame) and (entry == "pthread_create") == (call.name in STARTS)


def leaders(calls: Sequence[Call]) -> dict[int, int]:
    """The process of each thread that another one started."""
    parents = {
        call.result: call.thread
        for call in calls
        if call.name in STARTS and "CLONE_THREAD" in call.text and call.result
    }

    def leader(thread: int) -> int:
        return leader(parents[thread]) if thread in parents else thread

    return {thread: leader(thread) for thread in parents}


@dataclass
class Seen:
    calls: Counter[str] = field(default_factory=Counter)  # of the allocator, before its line
    total: int = 0  # of whomsoever
    threads: int = 0  # of the allocator's own
    said: bool = False
    last: dict[int, str] = field(default_factory=dict)  # of each thread, the allocator's


def count(calls: Sequence[Call], ours: IsOurs) -> dict[int, Seen]:
    """What each process has done before it wrote its line."""
    process_of = leaders(calls)
    workers = {
        call.result
        for call in calls
        if call.name in STARTS and call.stack and call.result and is_allocators(call, ours, set())
    }
    found: dict[int, Seen] = {}
    for call in calls:
        pid = process_of.get(call.thread, call.thread)
        seen = found.setdefault(pid, Seen())
        seen.total += 1
        if call.name == "execve" and call.result == 0:
            found[pid] = Seen()
        if not is_allocators(call, ours, workers):
            continue
        if call.name == "write" and "[SS_OS_STATS]" in call.text:
            seen.calls[OTHER] -= not seen.said and seen.last.get(call.thread) == "rt_sigprocmask"
            seen.said = True
        if not seen.said:
            seen.last[call.thread] = call.name
            seen.calls[KIND_OF.get(call.name, OTHER)] += 1
            seen.threads += call.name in STARTS
    return found


# ---- the comparison ----


def differences(line: dict[str, int], seen: Seen) -> list[str]:
    """What is wrong with one line."""
    wrong = []
    missing = [name for name in (*KINDS, OTHER, "calls", "pid") if name not in line]
    if missing:
        return [f"the line has no {', '.join(missing)}"]
    if sum(line[kind] for kind in (*KINDS, OTHER)) != line["calls"]:
        wrong.append("calls is not the sum of the kinds")
    for kind in (*KINDS, OTHER):
        if abs(line[kind] - seen.calls[kind]) > seen.threads:
            wrong.append(f"{kind} is {line[kind]}, strace sees {seen.calls[kind]}")
    if abs(line["calls"] - seen.calls.total()) > seen.threads:
        wrong.append(f"calls is {line['calls']}, strace sees {seen.calls.total()}")
    return wrong


def read_lines(text: str) -> list[dict[str, int]]:
    return [
        {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
        for line in LINE.findall(text)
    ]


def compare(trace: str, stderr: str, ours: IsOurs) -> tuple[list[str], Counter[str], int]:
    """What is wrong, and the allocator's calls by kind, and how many calls there were at all."""
    found = count(read_trace(trace), ours)
    wrong = []
    lines = read_lines(stderr)
    for line in lines:
        seen = found.get(line.get("pid", 0))
        if seen is None:
            wrong.append(f"no process {line.get('pid')} has been traced")
        else:
            wrong += [f"process {line['pid']}: {what}" for what in differences(line, seen)]
    if not lines:
        wrong.append("no process has written its line")
    if sum(seen.said for seen in found.values()) != len(lines):
        wrong.append("not as many lines as were written")
    sums: Counter[str] = sum((seen.calls for seen in found.values()), Counter())
    return wrong, sums, sum(seen.total for seen in found.values())


# ---- running ----


@dataclass(frozen=True)
class Run:
    argv: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()
    linked: bool = False  # the program has the allocator in itself

    def __str__(self) -> str:
        settings = [f"{name}={value}" for name, value in self.settings]
        return " ".join((*settings, Path(self.argv[0]).name, *self.argv[1:]))


def traced(run: Run, library: Path, log: Path) -> str:
    """What the process said on stderr; the trace is in `log`."""
    options = {"HAKMEM_SS_OS_STATS": "1", "HK_WORLD_EXPECT": "hakmem", **dict(run.settings)}
    if not run.linked:
        options["LD_PRELOAD"] = str(library)
    command = ["strace", "-f", "-q", "-k", "-o", str(log)]
    for name, value in options.items():
        command += ["-E", f"{name}={value}"]
    done = subprocess.run(
        [*command, *run.argv],
        env={name: value for name, value in os.environ.items() if name[:7] != "HAKMEM_"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if "ptrace" in done.stderr.lower():
        raise PermissionError(done.stderr.strip())
    if done.returncode != 0:
        raise OSError(f"{run} ended with {done.returncode}: {done.stderr}")
    return done.stderr


def functions(program: Path) -> set[str]:
    """Its functions by name, those that the compiler made from others (f.cold) included."""
    done = subprocess.run(["nm", program], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[2].split(".")[0] for row in rows if len(row) == 3 and row[1] in "tT"}


def owner(run: Run, library: Path) -> IsOurs:
    if not run.linked:
        return lambda module, _: module == str(library)
    ours = functions(library) - {"_init", "_fini"}
    return lambda module, function: module == run.argv[0] and function.split(".")[0] in ours


def benchmarks_in(folder: Path) -> list[Path]:
    return sorted(
        path
        for pattern in ("bench_*", "soak_*")
        for path in folder.glob(pattern)
        if path.is_file() and os.access(path, os.X_OK) and path.suffix == ""
    )


def runs(program: str, folder: Path, scratch: Path) -> list[Run]:
    lean = ((f"{LEAN}_TARGET_MB", "2"),)
    files = (
        ("HAKMEM_PROOF", f"{scratch}/proof"),
        ("HAKMEM_STATS", f"json:{scratch}/%p.json"),
        ("HAKMEM_TINY_FRONT_METRICS", "1"),
        ("HAKMEM_TINY_FRONT_DUMP", f"{scratch}/front"),
    )
    found = [
        Run((program, "huge", "20"), (("HAKMEM_REGION_CACHE_MB", "0"),)),
        Run((program, "fork"), files),
        Run((program, "figures"), (("HAKMEM_SECTIONS_SAMPLE", "1"), ("HAKMEM_SS_MEM_LEAN", "0"))),
    ]
    for path in benchmarks_in(folder):
        found.append(Run((str(path), "--smoke"), linked="_hakmem" in path.name))
        if path.name == "bench_realloc":
            found.append(Run((str(path), "--max=8M", "--rounds=4")))
        if path.name == "bench_peak":
            for how in ("FREE", "DONTNEED"):
                found.append(
                    Run((str(path), "--smoke", "--wait=1"), (*lean, (f"{LEAN}_DECOMMIT", how)))
                )
    return found


def check(library: Path, program: str, folder: Path) -> int:
    wrong: list[str] = []
    all_seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "trace"
        for run in runs(program, folder, Path(scratch)):
            said = traced(run, library, log)
            trace = log.read_text(encoding="utf-8", errors="replace")
            found, kinds, total = compare(trace, said, owner(run, library))
            wrong += [f"{run}: {what}" for what in found]
            all_seen += kinds
            shown = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
            print(f"{run}: {total} calls, {kinds.total()} the allocator's: {shown}")
    wrong += [f"{kind}: none seen in any run" for kind in LEAST_SEEN if not all_seen[kind]]
    print("\n".join(wrong) or "strace and the allocator agree")
    return 1 if wrong else 0


# ---- the check itself ----

LIB = "/b/libhakmem.so"
TRACE = f"""\
7 execve("/b/x", ["x"], 0x1 /* 1 var */) = 0
 > /l/ld-linux-x86-64.so.2(a+0x1) [0x1]
7 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f
 > /l/ld-linux-x86-64.so.2(a+0x1) [0x1]
 > /l/ld-linux-x86-64.so.2(b+0x1) [0x1]
7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7f
 > /l/libc.so.6(mmap+0x1) [0x1]
 > {LIB}(hk_os_map+0x1) [0x1]
 > /l/libc.so.6(fopen+0x1) [0x1]
 > /b/x(main+0x1) [0x1]
7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7f
 > /l/libc.so.6(mmap+0x1) [0x1]
 > /b/x(main+0x1) [0x1]
7 mmap(NULL, 99, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7f
 > /l/libc.so.6(mmap+0x1) [0x1]
 > /l/libc.so.6(pthread_create+0x1) [0x1]
 > {LIB}(hk_worker_start+0x1) [0x1]
7 rt_sigprocmask(SIG_BLOCK, ~[], NULL, 8) = 0
 > /l/libc.so.6(pthread_create+0x1) [0x1]
 > {LIB}(hk_worker_start+0x1) [0x1]
7 clone3({{flags=CLONE_VM|CLONE_THREAD}} <unfinished ...>
8 rseq(0x1) = 0
 > /l/libc.so.6(clone3+0x1) [0x1]
7 <... clone3 resumed> => {{parent_tid=[8]}}, 88) = 8
 > /l/libc.so.6(clone3+0x1) [0x1]
8 futex(0x1, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
7 futex(0x1, FUTEX_WAIT_PRIVATE, 1, 0x1) = 0
 > /l/libc.so.6(syscall+0x1) [0x1]
 > {LIB}(hk_lock_wait.cold+0x1) [0x1]
7 mremap(0x1, 4096, 8192, 0) = -1 ENOMEM (Cannot allocate memory)
 > /l/libc.so.6(mremap+0x1) [0x1]
 > {LIB}(hk_os_move+0x1) [0x1]
7 mremap(0x1, 4096, 8192, 0) = 0x1
 > /l/libc.so.6(mremap+0x1) [0x1]
 > {LIB}(hk_os_move+0x1) [0x1]
7 mremap(0x1, 4096, 8192, 0) = 0x1
 > /l/libc.so.6(mremap+0x1) [0x1]
 > {LIB}() [0x1]
7 rt_sigprocmask(SIG_BLOCK, [PIPE XFSZ], [], 8) = 0
 > /l/libc.so.6(syscall+0x1) [0x1]
 > {LIB}(hk_write_begin+0x1) [0x1]
7 write(2, "[SS_OS_STATS] alloc=1 free=0 mad"..., 300) = 300
 > /l/libc.so.6(write+0x1) [0x1]
 > {LIB}(hk_line_write+0x1) [0x1]
7 munmap(0x1, 4096) = 0
 > /l/libc.so.6(munmap+0x1) [0x1]
 > {LIB}(hk_os_unmap+0x1) [0x1]
7 exit_group(0) = ?
8 <... futex resumed>) = ?
7 +++ exited with 0 +++
"""
GOOD = (
    "[SS_OS_STATS] alloc=1 madvise=0 mmap_total=1 munmap=0 mremap=3 mprotect=0 mincore=0 "
    "futex=2 other=1 calls=7 pid=7\n"
)
BAD = (
    ("mremap=3", "mremap=1"),  # and calls is no sum
    ("mremap=3", "mremap=5"),
    ("mmap_total=1", "mmap_total=3"),
    ("calls=7", "calls=5"),
    ("calls=7", "calls=8"),
    ("calls=7 ", ""),
    ("other=1 ", ""),
    ("pid=7", "pid=8"),
    (" pid=7", ""),
    (GOOD, ""),
    (GOOD, GOOD + GOOD),
)
# Calls that the line has not counted: two of them, because one thread runs beside.
BAD_TRACES = tuple(
    (
        "7 write(2",
        2 * f"7 {call}) = 0\n > /l/libc.so.6(f+0x1) [0x1]\n > {LIB}(f+0x1) [0x1]\n" + "7 write(2",
    )
    for call in ("munmap(0x1, 1", "getpid(", "mprotect(0x1, 1, 1", 'openat(1, "/x"', "mincore(1")
)


def self_test() -> int:
    def ours(module: str, _: str) -> bool:
        return module == LIB

    wrong = [f"the good line: {what}" for what in compare(TRACE, GOOD, ours)[0]]
    for old, new in BAD:
        if not compare(TRACE, GOOD.replace(old, new), ours)[0]:
            wrong.append(f"accepted with {new!r} for {old!r}")
    for old, new in BAD_TRACES:
        if not compare(TRACE.replace(old, new), GOOD, ours)[0]:
            wrong.append(f"accepted though {new!r} is in the trace")
    without_thread = TRACE.replace(f" > {LIB}(hk_worker_start", " > /b/x(main")
    exact = GOOD.replace("futex=2", "futex=1").replace("other=1", "other=0")
    exact = exact.replace("calls=7", "calls=5")
    if compare(without_thread, exact, ours)[0]:
        wrong.append(f"without a thread: {compare(without_thread, exact, ours)[0]}")
    by_one = exact.replace("mremap=3", "mremap=2").replace("calls=5", "calls=4")
    if not compare(without_thread, by_one, ours)[0]:
        wrong.append("one call too few is accepted where no thread runs beside")
    print("\n".join(wrong) or "all is as it should be")
    return 1 if wrong else 0


def why_not(folder: str) -> str | None:
    """Why nothing can be checked here, or None."""
    if not benchmarks_in(Path(folder)):
        return f"no benchmarks are built in {folder}"
    if shutil.which("strace") is None:
        return "strace is not installed: tools/setup test"
    said = subprocess.run(["strace", "-V"], capture_output=True, text=True, check=False).stdout
    return None if "stack-trace=" in said else "this strace cannot print the stack of a call"


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        return self_test()
    library, program, folder = arguments
    why = why_not(folder)
    try:
        if why is None:
            return check(Path(library).resolve(), program, Path(folder).resolve())
    except PermissionError as error:
        why = f"strace cannot trace: {error}"
    print(f"SKIPPED: {why}")
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
