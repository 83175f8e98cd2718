"""Check heap profiles from outside, and that pprof reads them.

Usage: run_profile.py LIBHAKMEM PROGRAM             all checks but those that take a tool
       run_profile.py LIBHAKMEM PROGRAM pprof       what `go tool pprof` says
       run_profile.py LIBHAKMEM PROGRAM NAME        the check of this name
"""

import gzip
import itertools
import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checks import environment, expect, library, main, program

TIMEOUT_S = 600
TYPES = [
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
]
LARGE = [300, 300 * 10000, 300, 300 * 10000]
SMALL = [200, 200 * 40, 200, 200 * 40]
BRIEF = [0, 0, 1000, 1000 * 500]
IN_CHILD = [100, 100 * 7000, 100, 100 * 7000]


def run(
    folder: Path,
    *command: str,
    status: int = 0,
    out: bool = False,
    file_bytes: int | None = None,
    **options: str,
) -> str:
    """What it says on stderr, or on stdout; its files may have so many bytes."""

    def limit() -> None:
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    done = subprocess.run(
        [*(command if "/" in command[0] else (program, *command))],
        env=environment(**options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        preexec_fn=limit,
    )
    expect(
        done.returncode == status,
        f"{command} ended with {done.returncode}: {done.stderr}",
    )
    return done.stdout if out else done.stderr


# ---- the form ----


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: int | bytes
        value, at = varint(data, at)
        if key & 7 == 2:
            length = value
            value, at = data[at : at + length], at + length
            expect(len(value) == length, "a field is cut off")
        else:
            expect(key & 7 == 0, f"a field of wire type {key & 7}")
        yield key >> 3, value


def packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


@dataclass
class Profile:
    types: list[tuple[str, str]] = field(default_factory=list)
    samples: list[tuple[list[int], list[int]]] = field(default_factory=list)
    mappings: dict[int, dict[int, int]] = field(default_factory=dict)
    locations: dict[int, dict[int, int]] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    period_type: tuple[str, str] = ("", "")

    def having(self, values: list[int]) -> list[list[int]]:
        return [places for places, has in self.samples if has == values]

    def path_of(self, location: int) -> str:
        mapping = self.mappings[self.locations[location][2]]
        expect(mapping[2] <= self.locations[location][3] < mapping[3], "not in its mapping")
        return self.strings[mapping[5]]

    def in_use(self) -> int:
        return sum(values[1] for _, values in self.samples)


def numbers(data: int | bytes) -> dict[int, int]:
    assert isinstance(data, bytes)
    return {number: value for number, value in fields(data) if isinstance(value, int)}


def decode(path: Path) -> Profile:
    profile, types, comments = Profile(), [], []
    for number, value in fields(gzip.decompress(path.read_bytes())):
        match number, value:
            case 1, bytes():
                types.append(numbers(value))
            case 2, bytes():
                of = dict(fields(value))
                profile.samples.append((packed(of[1]), packed(of[2])))  # type: ignore[arg-type]
            case 3, bytes():
                profile.mappings[numbers(value)[1]] = numbers(value)
            case 4, bytes():
                of_place = numbers(value)
                expect(of_place[1] not in profile.locations, "a location is told twice")
                profile.locations[of_place[1]] = of_place
            case 6, bytes():
                profile.strings.append(value.decode())
            case 11, bytes():
                profile.numbers[11] = 0
                period = numbers(value)
            case 13, int():
                comments.append(value)
            case _, int():
                profile.numbers[number] = value
            case _:
                raise AssertionError(f"field {number}")
    name = profile.strings.__getitem__
    profile.types = [(name(of[1]), name(of[2])) for of in types]
    profile.period_type = (name(period[1]), name(period[2]))
    profile.comments = dict(name(comment).split(" ", 1) for comment in comments)
    return profile


def only(folder: Path, *reasons: str) -> list[Path]:
    """The files of one process, which are these, numbered from 1."""
    found = sorted(path.name for path in folder.iterdir())
    match = re.match(r"hakmem\.(\d+)\.", found[0] if found else "")
    expect(match is not None, f"no file: {found}")
    assert match is not None
    names = [f"hakmem.{match[1]}.{i:04}.{why}.pb.gz" for i, why in enumerate(reasons, 1)]
    expect(found == names, f"{found}, not {names}")
    return [folder / name for name in names]


# ---- files ----

EXACTLY = {"HAKMEM_PROF": "1", "HAKMEM_PROF_SAMPLE_KB": "0"}


def check_exact(folder: Path) -> None:
    expect(run(folder, "keep", **EXACTLY) == "", "a word on stderr")
    (path,) = only(folder, "exit")
    profile = decode(path)
    expect(profile.types == TYPES, f"{profile.types}")
    expect(profile.period_type == ("space", "bytes"), f"{profile.period_type}")
    expect(profile.numbers[12] == 1, f"period {profile.numbers[12]}")
    expect(profile.strings[profile.numbers[14]] == "inuse_space", "the default type")
    expect(profile.numbers[9] > 0 and profile.numbers[10] > 0, "no time")
    expect(profile.strings[0] == "", "the first string")
    for values in (LARGE, SMALL, BRIEF):
        (places,) = profile.having(values)
        expect(
            profile.path_of(places[0]) == program,
            f"{values} by {profile.path_of(places[0])}",
        )
        expect(len(places) >= 4, f"{len(places)} frames")
    pid = path.name.split(".")[1]
    comments = profile.comments
    expect(comments["pid"] == pid and comments["reason"] == "exit", f"{comments}")
    expect(re.fullmatch(r"\d+\.\d+\.\d+", comments["hakmem"]) is not None, f"{comments}")
    expect(int(comments["live_bytes"]) >= profile.in_use(), f"{comments}")
    expect(int(comments["rss_bytes"]) > 1 << 20, f"{comments}")
    expect("lost_samples" not in comments, f"{comments}")


def check_build_id(folder: Path) -> None:
    run(folder, "keep", **EXACTLY)
    profile = decode(only(folder, "exit")[0])
    of_file = {profile.strings[of[5]]: profile.strings[of[6]] for of in profile.mappings.values()}
    for path in (program, str(Path(library).resolve())):
        data = Path(path).read_bytes()
        at = data.find(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
        expect(at > 0, f"{path} has no build id to compare with")
        expect(of_file[path] == data[at + 16 : at + 36].hex(), f"{path}: {of_file[path]}")


def check_sampled(folder: Path) -> None:
    """The default rate; that weights are right is left to the unit test."""
    run(folder, "grow", HAKMEM_PROF="1")
    profile = decode(only(folder, "exit")[0])
    expect(profile.numbers[12] == 512 << 10, f"{profile.numbers}")
    allocated = sum(values[3] for _, values in profile.samples)
    expect(32 << 20 < allocated < 128 << 20, f"{allocated} bytes of 64 MiB")


def check_names(folder: Path) -> None:
    run(folder, "keep", HAKMEM_PROF_PATH="a%p-%p", **EXACTLY)
    (path,) = folder.iterdir()
    expect(re.fullmatch(r"a(\d+)-\1\.0001\.exit\.pb\.gz", path.name) is not None, path.name)
    path.unlink()
    run(folder, "keep", "1", HAKMEM_PROF_PATH="fixed", **EXACTLY)
    child, parent = sorted(folder.iterdir(), key=lambda path: -len(path.name))
    expect(parent.name == "fixed.0001.exit.pb.gz", parent.name)
    expect(
        re.fullmatch(r"fixed\.\d+\.0001\.exit\.pb\.gz", child.name) is not None,
        child.name,
    )


def check_child(folder: Path) -> None:
    run(folder, "keep", "1", **EXACTLY)
    files = {decode(path).comments["pid"]: path for path in folder.iterdir()}
    expect(len(files) == 2, f"{files}")
    for pid, path in files.items():
        expect(path.name == f"hakmem.{pid}.0001.exit.pb.gz", path.name)
    has_child = [bool(decode(path).having(IN_CHILD)) for path in files.values()]
    has_parent = [bool(decode(path).having(LARGE)) for path in files.values()]
    expect(sorted(has_child) == [False, True], f"{has_child}")
    expect(has_parent == [not has for has in has_child], "the child tells of its parent's")


def check_peaks(folder: Path) -> None:
    run(folder, "grow", HAKMEM_PROF_PEAK="1", **EXACTLY)
    peaks = [decode(path) for path in sorted(folder.iterdir())]
    expect(len(peaks) > 10, f"{len(peaks)} files")
    expect(peaks.pop().comments["reason"] == "exit", "the last one")
    sizes = [peak.in_use() for peak in peaks]
    expect(all(peak.comments["reason"] == "peak" for peak in peaks), "another reason")
    expect(all(b > a * 9 / 8 for a, b in itertools.pairwise(sizes)), f"{sizes}")
    expect(sizes[-1] * 9 / 8 >= 64 << 20, f"the last peak has {sizes[-1]}")


def check_multiples(folder: Path) -> None:
    run(folder, "grow", HAKMEM_PROF_EVERY_MB="10", **EXACTLY)
    files = only(folder, *["bytes"] * 6, "exit")
    for i, path in enumerate(files[:-1], 1):
        allocated = sum(values[3] for _, values in decode(path).samples)
        expect(10 * i <= allocated >> 20 <= 10 * i + 1, f"{path.name}: {allocated}")


def check_small_stack(folder: Path) -> None:
    """A profile is written by whoever allocates, on whatever stack."""
    run(folder, "small", HAKMEM_PROF_EVERY_MB="10", **EXACTLY)
    only(folder, *["bytes"] * 6, "exit")


def check_main_has_ended(folder: Path) -> None:
    """What the system says of a process is of its main thread, which has nothing any more."""
    figures = folder / "figures"
    run(folder, "last", HAKMEM_STATS=f"json:{figures}", **EXACTLY)
    profile = decode(next(folder.glob("*.pb.gz")))
    (places,) = profile.having(LARGE)
    expect(profile.path_of(places[0]) == program, f"by {profile.path_of(places[0])}")
    expect(int(profile.comments.get("rss_bytes", "0")) > 1 << 20, f"{profile.comments}")
    heap = json.loads(figures.read_text())["heap"]
    expect(heap["peak_resident"] > 1 << 20 and heap["mincore"] == 0, f"{heap}")
    run(folder, "last", HAKMEM_PROF_FORMAT="text", HAKMEM_PROF_PATH="text", **EXACTLY)
    listed = next(folder.glob("text*")).read_text().partition("\nMAPPED_LIBRARIES:\n")[2]
    expect(program in listed, f"mappings: {listed}")


def check_unwritable(folder: Path) -> None:
    path = f"{folder}/none/x"
    said = run(folder, "grow", HAKMEM_PROF_PATH=path, HAKMEM_PROF_PEAK="1", **EXACTLY)
    line = f"hakmem: warning: HAKMEM_PROF_PATH={path}.0001.peak.pb.gz: No such file or directory; "
    expect(said == line + "no profile is written\n", said)


def check_refused(folder: Path) -> None:
    """What the system refuses to write it answers by a signal too, by which no process ends."""
    line = f"hakmem: warning: HAKMEM_PROF_PATH={folder}/x.0001.exit.pb.gz: File too large; "
    said = run(folder, "keep", file_bytes=0, HAKMEM_PROF_PATH=f"{folder}/x", **EXACTLY)
    expect(said == line + "no profile is written\n", said)
    expect(not list(folder.iterdir()), "a file")
    run(folder, "keep", file_bytes=1000, HAKMEM_STATS=f"json:{folder}/x", HAKMEM_PROOF="proof")
    expect([path.name for path in folder.iterdir()] == ["proof"], "files")
    run(folder, "keep", file_bytes=0, HAKMEM_PROOF="proof")


def listening(folder: Path, mode: str) -> "subprocess.Popen[bytes]":
    """A program that profiles every block once it gets a signal, and talks by pipes."""
    return subprocess.Popen(
        [program, mode],
        env=environment(HAKMEM_PROF_SIGNAL="1", HAKMEM_PROF_SAMPLE_KB="0"),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def check_signal(folder: Path) -> None:
    """Nothing is sampled at first: one signal begins, the next one writes."""
    process = listening(folder, "wait")
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        expect(process.stdout.readline() == b"ready\n", "not ready")

        def keep() -> int:
            process.stdin.write(b"x")
            process.stdin.flush()
            expect(process.stdout.readline() == b"kept\n", "not kept")
            return 1

        before = keep()
        process.send_signal(signal.SIGUSR1)
        path = folder / f"hakmem.{process.pid}.0001.signal.pb.gz"
        between = 0
        while not path.exists():  # the one that begins may be one with the next
            expect(process.poll() is None, "it has ended")
            between += keep()
            process.send_signal(signal.SIGUSR1)
        expect(decode(path).comments["reason"] == "signal", "another reason")
        after = keep() + keep()
    finally:
        process.stdin.close()
        status = process.wait(TIMEOUT_S)
    expect(status == 0, f"it ended with {status}")
    at_exit = decode(max(folder.iterdir()))
    expect(at_exit.comments["reason"] == "exit", "no file at exit")
    (blocks,) = (of[0] for _, of in at_exit.samples if of[0] != 0 and of[1] == 3000 * of[0])
    expect(after <= blocks <= between + after, f"{blocks}: {before}, {between}, {after}")


def check_signal_in_fork(folder: Path) -> None:
    """The first one comes while a fork holds all threads, for longer than others wait for that."""
    process = listening(folder, "forks")
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        expect(process.stdout.readline() == b"forks\n", "no fork")
        process.send_signal(signal.SIGUSR1)
        process.stdin.write(b"x")
        path = folder / f"hakmem.{process.pid}.0001.signal.pb.gz"
        has_begun = False
        while not has_begun:
            expect(process.poll() is None, "it has ended")
            process.send_signal(signal.SIGUSR1)
            has_begun = path.exists()
            process.stdin.write(b"x")
            process.stdin.flush()
            expect(process.stdout.readline() == b"kept\n", "not kept")
    finally:
        process.stdin.close()
        status = process.wait(TIMEOUT_S)
    expect(status == 0, f"it ended with {status}")
    at_exit = decode(max(folder.iterdir()))
    kept = [of[0] for _, of in at_exit.samples if of[0] != 0 and of[1] == 3000 * of[0]]
    expect(kept != [], "nothing is sampled")


def check_off(folder: Path) -> None:
    said = run(folder, "keep", HAKMEM_PROF_PATH="x", HAKMEM_PROF_SAMPLE_KB="1")
    note = "hakmem: note: HAKMEM_PROF_SAMPLE_KB=1, HAKMEM_PROF_PATH=x have no effect: "
    expect(said == note + "HAKMEM_PROF=0 writes none until hak_ctl sets it\n", said)
    expect(not list(folder.iterdir()), "a file")


def check_secure(folder: Path) -> None:
    run(folder, "keep", HAKMEM_PROFILE="secure", **EXACTLY)
    profile = decode(only(folder, "exit")[0])
    for values in (LARGE, SMALL, BRIEF):
        expect(len(profile.having(values)) == 1, f"no {values}")


def check_without_unwinder(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "libgcc_s.so.1").touch()
    """The library has its own; one that was built without says that it has none."""
    said = run(folder, "keep", LD_LIBRARY_PATH=f"{folder}/lib", **EXACTLY)
    why = "no libgcc_s.so.1, or a static program linked without --eh-frame-hdr"
    line = f"hakmem: warning: HAKMEM_PROF=1: {why}; all stacks are empty\n"
    expect(said in ("", line), said)
    profile = decode(next(folder.glob("*.pb.gz")))
    if said == "":
        expect(len(profile.having(LARGE)) == 1, "no stack")
    else:
        (sample,) = profile.samples
        expect(sample[0] == [] and sample[1][0] >= 500, f"{sample}")


def check_python(folder: Path) -> None:
    code = "kept = [str(i) * 100 for i in range(10000)]"
    said = run(folder, sys.executable, "-c", code, PYTHONMALLOC="malloc", **EXACTLY)
    expect(said == "", said)
    profile = decode(only(folder, "exit")[0])
    expect(sum(values[2] for _, values in profile.samples) > 10000, "few allocations")


# ---- pprof ----


def pprof(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["go", "tool", "pprof", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    expect(done.returncode == 0, done.stderr)
    return done.stdout


def flat(top: str) -> dict[str, str]:
    """What each function has itself, from -top."""
    rows = [line.split() for line in top.splitlines()]
    return {row[5]: row[0] for row in rows if len(row) >= 6 and row[1].endswith("%")}


def pprof_reads(folder: Path, form: str) -> None:
    run(folder, "keep", HAKMEM_PROF_FORMAT=form, **EXACTLY)
    (path,) = folder.iterdir()
    top = flat(pprof("-top", "-unit=B", "-nodefraction=0", path))
    expect(top.get("keep_large") == "3000000B", f"{top}")
    expect(top.get("keep_small") == "8000B", f"{top}")
    top = flat(pprof("-top", "-unit=B", "-nodefraction=0", "-sample_index=alloc_space", path))
    expect(top.get("use_for_a_while") == "500000B", f"{top}")
    expect("keep_large" in pprof("-raw", path), "-raw")
    path.unlink()


def check_pprof(folder: Path) -> None:
    pprof_reads(folder, "pprof")
    pprof_reads(folder, "text")


# ---- probes ----


def check_probes(folder: Path) -> None:
    """Where each probe is, what it has and which counter turns it on is in the file's notes."""
    said = subprocess.run(
        ["readelf", "-nW", library], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    pattern = (
        r"Provider: otel_memory\s+Name: (\w+)\s+"
        r"Location: (\w+), Base: (\w+), Semaphore: (\w+)\s+Arguments: (.*)"
    )
    found = {name: (places, has) for name, *places, has in re.findall(pattern, said)}
    expect(sorted(found) == ["alloc", "free"], said)
    expect(all(int(place, 16) != 0 for places, _ in found.values() for place in places), said)
    expect(
        {name: has.count("8@") for name, (_, has) in found.items()} == {"alloc": 3, "free": 1}, said
    )


def check_traced(folder: Path) -> None:
    """gdb is a tracer: it turns the counters on, and hears of each sample."""
    lines = ["set startup-with-shell off", f"set env LD_PRELOAD {library}"]
    lines += [f"set env {name} {value}" for name, value in EXACTLY.items()]
    lines += ["set breakpoint pending on", "start"]
    for name, said in {
        "alloc": '"alloc %lu %lu\\n", $_probe_arg1, $_probe_arg2',
        "free": '"free %d\\n", $_probe_argc',
    }.items():
        lines += [f"break -probe-stap otel_memory:{name}", "commands", "silent"]
        lines += [f"printf {said}", "cont", "end"]
    (folder / "commands").write_text("\n".join([*lines, "cont", ""]))
    said = run(
        folder, "/usr/bin/env", "-u", "LD_PRELOAD", "gdb", "-q", "-batch", "-nx",
        "-ex", "set pagination off", "-x", "commands", "--args", program, "keep", out=True,
    )  # fmt: skip
    counts = {line: said.splitlines().count(line) for line in said.splitlines()}
    for line, times in {
        "alloc 10000 10000": 300,
        "alloc 40 40": 200,
        "alloc 500 500": 1000,
    }.items():
        expect(counts.get(line) == times, f"{line}: {counts.get(line)} times: {said[-500:]}")
    expect(counts.get("free 1", 0) >= 1000, f"{counts.get('free 1')} frees")


WITH_TOOLS = {check_pprof: "go", check_probes: "readelf", check_traced: "gdb"}


if __name__ == "__main__":
    sys.exit(main(WITH_TOOLS))
