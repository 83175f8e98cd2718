"""Check what HAKMEM_STATS, HAKMEM_STATS_SIGNAL and HAKMEM_SS_OS_STATS do, from outside.

Usage: run_stats_process.py LIBHAKMEM PROGRAM [NAME]   all checks, or the one of this name
"""

import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from checks import environment, expect, main, program

TIMEOUT_S = 300
POLL_S = 0.01
BUSY_S = 1.5
MANY = 10
OS_LINE = re.compile(
    r"\[SS_OS_STATS\] alloc=(\d+) free=(\d+) madvise=(\d+) madvise_enomem=(\d+) "
    r"madvise_other=(\d+) madvise_disabled=([01]) mmap_total=(\d+) fallback_mmap=(\d+) "
    r"huge_alloc=(\d+) huge_fail=(\d+) lean_decommit=(\d+) lean_retire=(\d+) munmap=(\d+) "
    r"mremap=(\d+) mprotect=(\d+) mincore=(\d+) futex=(\d+) "
    r"other=(\d+) calls=(\d+) pid=(\d+)\n"
)


def run(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [program, *arguments],
        env=environment(**options),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    expect(done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr}")
    return done


@contextmanager
def waiting(
    *words: str,
    preexec: Callable[[], None] | None = None,
    inherited: Sequence[int] = (),
    **options: str,
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that waits, and the number of the one that says it is ready."""
    process = subprocess.Popen(
        [program, "wait", *words],
        env=environment(**options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec,
        pass_fds=inherited,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        expect(ready[:1] == ["ready"], f"the program said {ready}")
        yield process, int(ready[1])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Lets the process end, and returns what it has said."""
    out, err = process.communicate("", timeout=TIMEOUT_S)
    expect(process.returncode == 0, f"it ended with {process.returncode}: {err}")
    return out, err


def wait_for(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + TIMEOUT_S
    while not condition():
        expect(time.monotonic() < limit, f"{what}: not within {TIMEOUT_S} s")
        time.sleep(POLL_S)


def read_pid(path: Path) -> int:
    """The process that wrote the file, which must be whole."""
    number = json.loads(path.read_text(encoding="utf-8"))["pid"]
    expect(isinstance(number, int), f"{path} has the number {number!r}")
    return int(number)


def only(folder: Path, *names: str) -> None:
    found = sorted(path.name for path in folder.iterdir())
    expect(found == sorted(names), f"the folder has {found}, not {sorted(names)}")


# ---- at exit ----


def check_stderr(folder: Path) -> None:
    for form, begin in (("text", "hakmem "), ("json", '{"hakmem"'), ("openmetrics", "# TYPE ")):
        err = run("fork", HAKMEM_STATS=form).stderr
        expect(err.count(begin + "hakmem" if form == "openmetrics" else begin) >= 2, err[:200])
    expect(run("fork").stderr == "", "statistics that nobody asked for")


def check_stderr_that_is_closed(folder: Path) -> None:
    """As coreutils do before they end: what is written then goes to a copy, but nowhere else."""
    leaks = {"HAKMEM_LEAKS": "1", "HAKMEM_PROF_SAMPLE_KB": "0"}
    for options in ({"HAKMEM_STATS": "json"}, {"HAKMEM_SS_OS_STATS": "1"}, leaks):
        expect(run("shut", "stderr", **options).stderr != "", f"nothing of {options}")
        run("shut", "child", **options)
        other = folder / "other"
        expect(run("shut", str(other), **options).stderr == "", f"who wrote that? {options}")
        expect(
            other.read_bytes() == b"", f"written to somebody else's file: {other.read_bytes()!r}"
        )
        other.unlink()


def check_stderr_that_nothing_goes_to(folder: Path) -> None:
    """Where files are written no copy is kept: once it is closed whoever reads it is told so."""
    front = {"HAKMEM_TINY_FRONT_METRICS": "1", "HAKMEM_TINY_FRONT_DUMP": f"{folder}/front"}
    prof = {"HAKMEM_PROF": "1", "HAKMEM_PROF_PATH": f"{folder}/prof"}
    for options in ({"HAKMEM_STATS": f"json:{folder}/stats"}, front, prof):
        with waiting("silent", **options) as (process, _):
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write("\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stderr], [], [], TIMEOUT_S)
            expect(ready != [] and process.stderr.read() == "", f"it is held open: {options}")
            process.stdin.close()
            expect(process.wait(TIMEOUT_S) == 0, f"{options}: {process.returncode}")


def check_modes(folder: Path) -> None:
    """Without a umask. A profile is its user's alone, and goes where no link of its name leads."""
    (folder / "x.0001.exit.pb.gz").symlink_to("elsewhere")
    (folder / "stats").symlink_to("real")
    options = {"HAKMEM_STATS": "json:stats", "HAKMEM_PROF": "1", "HAKMEM_PROF_PATH": "x"}
    options |= {"HAKMEM_TINY_FRONT_DUMP": "front", "HAKMEM_TINY_FRONT_METRICS": "1"}
    for names in ["x.0001.exit.pb.gz", "real", "front", "proof"], ["x.0001.exit.pb.gz", "stats"]:
        subprocess.run(
            [program, "huge", "1"],
            env=environment(HAKMEM_PROOF="proof", **options),
            cwd=folder,
            umask=0,
            timeout=TIMEOUT_S,
            check=True,
        )
        for name in names:
            mode = stat.filemode((folder / name).lstat().st_mode)
            expected = "-rw-------" if name.startswith("x") else "-rw-r--r--"
            expect(mode == expected, f"{name} is {mode}")
        (folder / "stats").unlink()
    only(folder, "x.0001.exit.pb.gz", "real", "front", "proof")


def check_numbered(folder: Path) -> None:
    done = run("fork", HAKMEM_STATS=f"json:{folder}/a-%p-b-%p.json")
    child = done.stdout.strip()
    names = [path.name for path in folder.iterdir()]
    expect(len(names) == 2, f"{names}")
    for path in folder.iterdir():
        number = str(read_pid(path))
        expect(path.name == f"a-{number}-b-{number}.json", f"{path.name} is by {number}")
    expect(f"a-{child}-b-{child}.json" in names, f"the child {child} wrote none of {names}")
    expect(done.stderr == "", done.stderr)


def check_unnumbered(folder: Path) -> None:
    child = run("fork", HAKMEM_STATS=f"json:{folder}/out.json").stdout.strip()
    only(folder, "out.json", f"out.json.{child}")
    expect(read_pid(folder / "out.json") != int(child), "the child has overwritten its parent")
    expect(read_pid(folder / f"out.json.{child}") == int(child), "not by the child")
    (folder / "out.json").write_text("old", encoding="utf-8")
    run("huge", "1", HAKMEM_STATS=f"json:{folder}/out.json")
    read_pid(folder / "out.json")


def check_special(folder: Path) -> None:
    """Never a real device: code that replaces what it should write to would replace that too."""
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run("huge", "1", HAKMEM_STATS=f"json:{folder}/pipe")
    expect(stat.S_ISFIFO((folder / "pipe").stat().st_mode), "a pipe has been replaced")
    expect(os.read(reader, 100).startswith(b'{"hakmem"'), "nothing came through the pipe")
    os.close(reader)
    for option in ("HAKMEM_STATS", "HAKMEM_PROOF", "HAKMEM_TINY_FRONT_DUMP"):
        where = f"json:{folder}/pipe" if option == "HAKMEM_STATS" else f"{folder}/pipe"
        done = run("huge", "1", HAKMEM_TINY_FRONT_METRICS="1", **{option: where})
        expect(option in done.stderr, f"{option}: not a word of a pipe that nobody reads")
    (folder / "real").touch()
    (folder / "link").symlink_to("real")
    run("huge", "1", HAKMEM_STATS=f"json:{folder}/link")
    expect((folder / "link").is_symlink(), "a link has been replaced")
    read_pid(folder / "real")


def check_behind_its_output(folder: Path) -> None:
    """/dev/stdout leads to a file that has something in it already."""
    with (folder / "out").open("w+") as out:
        out.write("before\n")
        out.flush()
        settings = environment(HAKMEM_STATS="json:/dev/stdout")
        subprocess.run([program, "huge", "1"], stdout=out, env=settings, check=True)
        out.seek(0)
        before, _, rest = out.read().partition("\n")
    expect(before == "before", f"overwritten by {before!r}")
    expect("bands" in json.loads(rest[rest.index("{") :]), rest)


def check_folder_that_is_left(folder: Path) -> None:
    """Relative paths are of the folder that the process starts in."""
    start, other = folder / "%p", folder / "other"
    start.mkdir()
    other.mkdir()
    settings = {"HAKMEM_STATS": "json:s", "HAKMEM_PROF": "1", "HAKMEM_RECORD": "r"}
    settings |= {"HAKMEM_TINY_FRONT_DUMP": "d", "HAKMEM_TINY_FRONT_METRICS": "1"}
    process = subprocess.Popen(
        [program, "leave", "../other"],
        env=environment(**settings),
        cwd=start,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, err = process.communicate(timeout=TIMEOUT_S)
    expect(process.returncode == 0 and err == "", f"{process.returncode}: {err}")
    only(other)
    only(start, "s", "d", f"r.{process.pid}", f"hakmem.{process.pid}.0001.exit.pb.gz")


def check_bad(folder: Path) -> None:
    warning = "hakmem: warning: HAKMEM_STATS={}: {}; no statistics are written\n"
    allowed = "allowed are text, json and openmetrics, with a colon and a path or alone"
    for value in ("", "1", "yaml", "json:", "JSON:x", "jsonx:y", "js"):
        err = run("huge", "1", HAKMEM_STATS=value).stderr
        expect(err == warning.format(value, allowed), f"{value!r}: {err}")
    for path, problem in (
        (f"{folder}/none/x", "No such file or directory"),
        (str(folder), "Is a directory"),
        (f"{folder}/{'x' * 1000}", "File name too long"),
    ):
        err = run("huge", "1", HAKMEM_STATS=f"json:{path}").stderr
        shown = warning.format(f"json:{path}", problem)
        expect(err == shown or (len(path) > 900 and err.count("warning") == 1), f"{path}: {err}")
    only(folder)
    (folder / "full").symlink_to("/dev/full")
    for option, where in ("HAKMEM_STATS", "json:full"), ("HAKMEM_TINY_FRONT_DUMP", "full"):
        where = where.replace("full", f"{folder}/full")
        err = run("huge", "1", HAKMEM_TINY_FRONT_METRICS="1", **{option: where}).stderr
        expect(f"{option}={where}: No space left on device" in err, f"{option}: {err}")


# ---- SIGUSR2 ----


def check_signal(folder: Path) -> None:
    path = folder / "out.json"
    with waiting(HAKMEM_STATS=f"json:{path}", HAKMEM_STATS_SIGNAL="1") as (process, number):
        for _ in range(3):
            process.send_signal(signal.SIGUSR2)
            wait_for(path.exists, "the file")
            expect(read_pid(path) == number, "by another process")
            path.unlink()
        only(folder)
        _, err = end(process)
    expect(err == "", err)
    expect(read_pid(path) == number, "at exit")


def check_signal_unasked(folder: Path) -> None:
    with waiting(HAKMEM_STATS=f"json:{folder}/x") as (process, _):
        process.send_signal(signal.SIGUSR2)
        expect(process.wait(TIMEOUT_S) == -signal.SIGUSR2, "SIGUSR2 ends a process")
    threads = {}
    for name, value in (("asked", "1"), ("unasked", "0")):
        options = {"HAKMEM_STATS": f"json:{folder}/x", "HAKMEM_STATS_SIGNAL": value}
        with waiting(**options) as (_, number):
            threads[name] = len(list(Path(f"/proc/{number}/task").iterdir()))
    expect(threads == {"asked": 2, "unasked": 1}, f"threads: {threads}")


def check_signal_is_the_programs(folder: Path) -> None:
    path = folder / "out.json"
    options = {"HAKMEM_STATS": f"json:{path}", "HAKMEM_STATS_SIGNAL": "1"}
    with waiting("own", **options) as (process, _):
        process.send_signal(signal.SIGUSR2)
        assert process.stdout is not None
        expect(process.stdout.readline() == "mine\n", "the program's handler has not run")
        only(folder)
        _, err = end(process)
    expect(err == "", err)
    path.unlink()

    def ignore() -> None:
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

    with waiting(preexec=ignore, **options) as (process, number):
        ignored = int(
            re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{number}/status").read_text())[0], 16
        )
        expect(bool(ignored >> (signal.SIGUSR2 - 1) & 1), "SIGUSR2 is not ignored any more")
        process.send_signal(signal.SIGUSR2)
        _, err = end(process)
    line = "hakmem: warning: HAKMEM_STATS_SIGNAL=1: SIGUSR2 is ignored or handled already; "
    expect(err == line + "SIGUSR2 writes no statistics\n", err)
    expect(path.exists(), "no statistics at exit")


def check_signal_in_child(folder: Path) -> None:
    options = {"HAKMEM_STATS": f"json:{folder}/%p", "HAKMEM_STATS_SIGNAL": "1"}
    with waiting("child", **options) as (process, number):
        expect(number != process.pid, "no child")
        for sent, path in (
            (number, folder / str(number)),
            (process.pid, folder / str(process.pid)),
        ):
            os.kill(sent, signal.SIGUSR2)
            wait_for(path.exists, f"the file of {sent}")
            expect(read_pid(path) == sent, f"{path.name} is not by {sent}")
        only(folder, str(number), str(process.pid))
        _, err = end(process)
    expect(err == "", err)


def check_signal_while_busy(folder: Path) -> None:
    """Threads allocate and fork; each file that a reader finds is whole, and no child hangs."""
    options = {"HAKMEM_STATS": f"json:{folder}/%p.json", "HAKMEM_STATS_SIGNAL": "1"}
    with waiting("threads", **options) as (process, number):
        written = folder / f"{number}.json"
        seen = set()
        limit = time.monotonic() + BUSY_S
        while time.monotonic() < limit or len(seen) < 2 or len(list(folder.glob("*.json"))) <= MANY:
            expect(time.monotonic() < limit + TIMEOUT_S, "few have written, or none again")
            process.send_signal(signal.SIGUSR2)
            wait_for(written.exists, "the file")
            seen.add(written.stat().st_ino)
            expect(read_pid(written) == number, "by another process")
        _, err = end(process)
    expect(err == "", err)
    for path in folder.iterdir():
        expect(path.name == f"{read_pid(path)}.json", f"{path.name} is by another process")


# ---- HAKMEM_SS_OS_STATS ----


def check_main_has_ended(folder: Path) -> None:
    """The thread that waits for signals keeps no process whose other threads have all ended."""
    for more in ({}, {"HAKMEM_LIVE": "1"}):
        path = folder / "out.json"
        done = run("last", HAKMEM_STATS=f"json:{path}", HAKMEM_STATS_SIGNAL="1", **more)
        expect(done.stderr == "", done.stderr)
        read_pid(path)
        path.unlink()


def check_os_line(folder: Path) -> None:
    # Where huge pages are asked for, what they take decides how often.
    settings = {"HAKMEM_SS_OS_STATS": "1", "HAKMEM_REGION_CACHE_MB": "0", "HAKMEM_THP": "0"}
    few, many = (OS_LINE.fullmatch(run("huge", str(n), **settings).stderr) for n in (3, 13))
    if few is None or many is None:
        raise AssertionError("the line is not as it should be")
    grown = {name: value - figures_of(few)[name] for name, value in figures_of(many).items()}
    for name in ("alloc", "free", "huge_alloc"):
        expect(grown[name] == 10, f"{name}: {grown}")
    for name in ("madvise_enomem", "madvise_other", "fallback_mmap", "huge_fail", "lean_decommit"):
        expect(grown[name] == 0, f"{name}: {grown}")
    expect(grown["madvise"] in (0, 10), f"{grown}")
    # more where the kernel's mappings need cutting
    expect(grown["mmap_total"] >= 10 and grown["munmap"] >= 10, f"{grown}")


def figures_of(line: re.Match[str]) -> dict[str, int]:
    """The figures of a line, whose calls are the sum of their kinds."""
    figures = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line[0])}
    kinds = [figures[name] for name in ("mmap_total", "madvise")]
    names = list(figures)
    kinds += [figures[name] for name in names[names.index("munmap") : names.index("calls")]]
    expect(sum(kinds) == figures["calls"], f"calls is not the sum of its kinds: {line[0]}")
    return figures


def check_child_counts_from_its_start(folder: Path) -> None:
    done = run("fork", HAKMEM_SS_OS_STATS="1", HAKMEM_STATS=f"json:{folder}/%p")
    child = int(done.stdout)
    lines = {figures_of(line)["pid"]: figures_of(line) for line in OS_LINE.finditer(done.stderr)}
    expect(len(lines) == 2 and child in lines, f"lines of {list(lines)}")
    parent = next(pid for pid in lines if pid != child)
    for name in ("alloc", "mmap_total", "mprotect"):
        expect(lines[parent][name] > 0, f"the parent's {name} is 0")
        expect(lines[child][name] == 0, f"the child's {name} is {lines[child][name]}")
    heaps = {
        pid: json.loads((folder / str(pid)).read_text(encoding="utf-8"))["heap"] for pid in lines
    }
    for name in ("region_maps", "maps", "refills"):
        expect(heaps[parent][name] > 0, f"the parent's {name} is 0")
        expect(heaps[child][name] == 0, f"the child's {name} is {heaps[child][name]}")
    expect(heaps[child]["calls"] > 0, "the child writes a file without a call")
    for name in ("mapped", "metadata", "peak_mapped"):
        expect(heaps[child][name] == heaps[parent][name], f"{name} is not as it was")


if __name__ == "__main__":
    sys.exit(main())
