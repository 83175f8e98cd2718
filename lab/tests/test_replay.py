"""Traces: what becomes of recorded operations, the file, the replayer, and the three commands."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.hotpath import callgrind
from hakmem.paired import protocol
from hakmem.paired.protocol import Decision
from hakmem.process import provenance
from hakmem.replay import advise, raw, streams, trace
from hakmem.replay.advise import Advice
from hakmem.replay.raw import GIVEN, RESIZED, TAKEN
from hakmem.stats import Interval
from standing import Stand

BUILD = project.root() / "build"
LIBRARY = BUILD / "libhakmem.so"
REPLAYER = BUILD / "bench" / "bench_replay"
MIXED = BUILD / "bench" / "bench_random_mixed"
built = pytest.mark.skipif(
    not (LIBRARY.is_file() and REPLAYER.is_file()), reason="not built: run `make build`"
)
WORDS = {
    streams.MALLOC: 2,
    streams.FREE: 1,
    streams.REALLOC: 2,
    streams.ALIGNED: 3,
    streams.START: 1,
    streams.WAIT: 2,
    streams.POINT: 2,
}
NAMES = ("malloc", "free", "realloc", "aligned", "start", "wait", "point")


def events(*rows: tuple[int, ...]) -> raw.Events:
    """Rows of thread, kind, address, and of what is given size and alignment's logarithm."""
    full = [(*row, *(0, 3)[len(row) - 3 :]) for row in rows]
    thread, kind, address, size, log2 = (np.array(column) for column in zip(*full, strict=True))
    return raw.Events(
        pid=1,
        address=address.astype(np.uint64),
        kind=kind.astype(np.uint8),
        size=size.astype(np.int64),
        log2=log2.astype(np.uint8),
        thread=thread.astype(np.uint32),
        lost=0,
        full=False,
        ended=True,
        begin_ns=10,
        last_ns=10**9 + 10,
    )


def spelled(words: Sequence[int]) -> list[tuple[object, ...]]:
    """A stream in words that can be read, without its points."""
    found: list[tuple[object, ...]] = []
    at = 0
    while at < len(words):
        op = words[at] & 7
        if op != streams.POINT:
            found.append((NAMES[op], words[at] >> 3, *words[at + 1 : at + WORDS[op]]))
        at += WORDS[op]
    return found


def spelled_all(made: streams.Streams) -> list[list[tuple[object, ...]]]:
    return [spelled(words) for words in made.words]


# ---- from events to streams ----


def test_a_block_is_known_by_the_event_before_it_at_its_address() -> None:
    made = streams.make(
        events(
            (2, TAKEN, 999),  # from before the recording
            (2, GIVEN, 100, 8),
            (2, GIVEN, 200, 0),
            (2, TAKEN, 100),
            (2, GIVEN, 100, 64, 6),
            (2, TAKEN, 100),
            (2, TAKEN, 100),  # of what is no block of the recording
        )
    )
    assert spelled_all(made) == [
        [("malloc", 0, 8), ("malloc", 1, 1), ("free", 0), ("aligned", 0, 64, 6), ("free", 0)]
    ]
    assert made.slots == 2
    facts = {"operations": 5, "mallocs": 2, "aligned": 1, "frees": 2, "unknown_frees": 2}
    assert facts.items() <= made.facts.items()
    assert (made.facts["peak_bytes"], made.facts["end_bytes"]) == (65, 1)
    assert made.facts["seconds"] == 1


def test_the_halves_of_a_realloc_are_one_operation_on_the_same_block() -> None:
    made = streams.make(
        events(
            (2, GIVEN, 100, 8),
            (2, TAKEN | RESIZED, 100),
            (2, GIVEN | RESIZED, 300, 80),
            (2, TAKEN | RESIZED, 300),
            (2, GIVEN | RESIZED, 300, 90),
            (2, TAKEN | RESIZED, 999),  # of a block from before: an allocation
            (2, GIVEN | RESIZED, 400, 7),
            (2, TAKEN, 300),
            (2, TAKEN | RESIZED, 400),  # the recording ends amid it
        )
    )
    assert spelled_all(made) == [
        [
            ("malloc", 0, 8),
            ("realloc", 0, 80),
            ("realloc", 0, 90),
            ("malloc", 1, 7),
            ("free", 0),
            ("free", 1),
        ]
    ]
    assert made.facts["peak_bytes"] == 97


def test_another_threads_block_is_waited_for_once_and_threads_start_in_order() -> None:
    made = streams.make(
        events(
            (2, GIVEN, 100, 1),
            (2, GIVEN, 200, 2),
            (3, TAKEN, 100),
            (3, TAKEN, 200),
            (2, GIVEN, 100, 3),
            (3, GIVEN, 500, 4),
        )
    )
    first, second = spelled_all(made)
    # The second free waits for both of what the first thread did; the slot freed last is taken
    # again when its free is done.
    assert first == [
        ("malloc", 0, 1),
        ("malloc", 1, 2),
        ("start", 1),
        ("wait", 1, 2),
        ("malloc", 1, 3),
    ]
    assert second == [
        ("wait", 0, 1),
        ("free", 0),
        ("wait", 0, 2),
        ("free", 1),
        ("malloc", 2, 4),
    ]


def test_what_one_thread_alone_did_without_a_record_is_its_own() -> None:
    rows = [(1, GIVEN, 100, 1), (2, GIVEN, 200, 2), (1, TAKEN, 100)]
    assert len(streams.make(events(*rows)).words) == 1
    assert len(streams.make(events(*rows, (3, GIVEN, 300, 1))).words) == 3


def test_there_are_as_many_points_as_the_form_says_with_what_is_live() -> None:
    rows = [(2, GIVEN, 16 * n, 1024) for n in range(1, 1001)]
    words = list(streams.make(events(*rows)).words[0])
    live, at = [], 0
    while at < len(words):
        if words[at] & 7 == streams.POINT:
            live.append(words[at + 1])
        at += WORDS[words[at] & 7]
    assert live == [1000 * n // 64 for n in range(1, 65)]


def test_a_size_from_2_gib_on_is_in_mib() -> None:
    assert streams.size_word((1 << 31) - 1) == (1 << 31) - 1
    assert streams.size_word(1 << 31) == 1 << 31 | 2048
    assert streams.size_word((5 << 30) + 1) == 1 << 31 | 5121


def test_nothing_recorded_is_said() -> None:
    with pytest.raises(LabError, match="has not allocated"):
        streams.make(events((2, TAKEN, 100)))


# ---- the file ----


@pytest.fixture
def small(tmp_path: Path) -> trace.Trace:
    """Two threads and a thousand blocks of chance."""
    rng, rows, live = random.Random(1), [], []
    for n in range(3000):
        thread = rng.randint(2, 3)
        if live and rng.random() < 0.45:
            rows.append((thread, TAKEN, live.pop(rng.randrange(len(live)))))
        else:
            live.append(16 * n)
            rows.append((thread, GIVEN, 16 * n, rng.randint(1, 3000)))
    path = tmp_path / "small.hktrace"
    trace.write(path, streams.make(events(*rows)), {"command": ["a", "b c"], "host": {}})
    return trace.read(path)


def test_a_trace_is_read_as_it_was_written(small: trace.Trace, tmp_path: Path) -> None:
    target = tmp_path / "streams"
    trace.unpack(small, target)
    assert target.stat().st_size == small.facts["bytes"]
    assert (small.name, small.threads, small.operations) == ("small", 2, 3000)
    said = trace.describe(small.facts)
    assert said.startswith("a 'b c'; 3000 operations of 2 threads; ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.hktrace", "streams"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no trace: `hakmem record -- COMMAND` makes one"),
        (b"hktrace 7\n{}\n", "is a trace of version '7': this hakmem reads 1"),
        (b"hktrace 1\n", "is damaged or cut off: record it again"),
        (b'hktrace 1\n{"operations":1,"threads":1,"bytes":9,"peak_bytes":1}\n', "damaged"),
        (b"\x7fELF\0\0", "is no trace"),
    ],
)
def test_what_is_no_trace_is_one_clear_line(
    tmp_path: Path, stand: Stand, content: bytes, message: str
) -> None:
    path = tmp_path / "x.hktrace"
    path.write_bytes(content)
    with pytest.raises(LabError, match=re.escape(message)):
        trace.unpack(trace.read(path), tmp_path / "streams")
    for command in ("replay", "advise"):
        shutil.copy(sys.executable, stand.folder / "bench" / "bench_replay")
        done = stand.call(command, path)
        (stand.folder / "bench" / "bench_replay").unlink()
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """Cut off somewhere, or with some bytes changed."""
    if rng.random() < 0.3:
        return whole[: rng.randrange(len(whole))]
    found = bytearray(whole)
    for _ in range(rng.randint(1, 3)):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def test_a_damaged_trace_is_refused_or_as_it_was(small: trace.Trace, tmp_path: Path) -> None:
    """A letter of its facts may have become another; of its streams nothing may."""
    good, target = tmp_path / "good", tmp_path / "streams"
    trace.unpack(small, good)
    whole, path, rng = small.path.read_bytes(), tmp_path / "x.hktrace", random.Random(2)
    said = []
    for _ in range(300):
        path.write_bytes(damaged(whole, rng))
        try:
            trace.unpack(trace.read(path), target)
        except LabError as error:
            said.append(str(error))
        else:
            assert target.read_bytes() == good.read_bytes()
    assert len(said) > 250
    assert not [line for line in said if "\n" in line]


@pytest.mark.parametrize(
    "change",
    [{"bytes": 4}, {"bytes": 12124}, {"bytes": 1 << 30}, {"threads": "2"}, {"operations": None}],
)
def test_facts_that_cannot_be_are_damage(small: trace.Trace, change: dict[str, object]) -> None:
    first, _, body = small.path.read_bytes().split(b"\n", 2)
    text = json.dumps({**small.facts, **change}).encode()
    small.path.write_bytes(b"\n".join((first, text, body)))
    with pytest.raises(LabError, match="is damaged or cut off"):
        trace.unpack(trace.read(small.path), small.path.with_suffix(".streams"))


@built
def test_the_replayer_refuses_damaged_streams_or_replays_them(
    small: trace.Trace, tmp_path: Path
) -> None:
    """It neither dies of them nor waits for ever."""
    good, path, rng = tmp_path / "good", tmp_path / "streams", random.Random(3)
    trace.unpack(small, good)
    whole, ends = good.read_bytes(), {0: 0, 1: 0}
    for _ in range(60):
        path.write_bytes(damaged(whole, rng))
        done = subprocess.run([REPLAYER, path], capture_output=True, text=True, timeout=20)
        assert done.returncode in ends, done.stderr
        ends[done.returncode] += 1
        if done.returncode:
            assert re.fullmatch(r"bench: error: .*\n", done.stderr), done.stderr
    assert all(ends.values())


def said_of(path: Path, threads: Sequence[Sequence[int]], slots: int = 1) -> str:
    """What the replayer says of streams in these words."""
    made = streams.Streams([array("I", words) for words in threads], slots)
    path.write_bytes(made.to_bytes())
    done = subprocess.run([REPLAYER, path], capture_output=True, text=True, timeout=20)
    return done.stderr.partition("replayed: ")[2].strip() if done.returncode == 1 else ""


@built
@pytest.mark.parametrize(
    ("threads", "message"),
    [
        ([[0, 8, 1]], ""),
        ([[0, 8, 1, 1]], "a block is used before it is there, or twice"),
        ([[0, 8, 0, 8]], "a block is used before it is there, or twice"),
        ([[2, 8]], "a block is used before it is there, or twice"),
        ([[0, 0]], "a block has no bytes"),
        ([[3, 8, 60]], "an alignment is none"),
        ([[8, 8]], "a block's number is too large"),
        ([[0]], "an operation is unknown or cut off"),
        ([[7]], "an operation is unknown or cut off"),
        ([[8 | 4]], "a thread's number is too large"),
        ([[4]], "a thread starts twice"),
        ([[8 | 4, 8 | 4], [0, 8]], "a thread starts twice"),
        ([[8 | 4, 8 | 5, 1], [5, 1]], "its threads wait for each other for ever"),
        ([[0, 8], [1]], "its threads wait for each other for ever"),
    ],
)
def test_streams_that_cannot_be_replayed_are_refused(
    tmp_path: Path, threads: Sequence[Sequence[int]], message: str
) -> None:
    assert said_of(tmp_path / "streams", threads) == message


# ---- recorded and replayed ----


def mixed(iterations: int, slots: int, seed: int) -> tuple[int, int, int]:
    """What bench/README.md says random_mixed does: mallocs, frees, and live bytes at most."""
    sizes: list[int] = [0] * slots
    mallocs = frees = live = most = 0
    for state, count in (((seed + 0x9E3779B9) % 2**32, iterations // 10), (seed, iterations)):
        for _ in range(count):
            state ^= state << 13 & 0xFFFFFFFF
            state ^= state >> 17
            state ^= state << 5 & 0xFFFFFFFF
            slot = state % slots
            if sizes[slot]:
                live -= sizes[slot]
                sizes[slot] = 0
                frees += 1
            else:
                sizes[slot] = 16 + (state & 0x3FF)
                live += sizes[slot]
                mallocs += 1
            most = max(most, live)
    return mallocs, mallocs, most


def record(folder: Path, *command: object, status: int = 0, **more: str) -> trace.Trace:
    """As a user would, with the product."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_PRE"))}
    argv = [sys.executable, "-c", "from hakmem.cli import main; main()", "record", "--lib"]
    separator = [] if "--" in command else ["--"]
    words = [*argv, str(LIBRARY), "--out", "a.hktrace", *separator, *map(str, command)]
    done = subprocess.run(
        words, cwd=folder, env=environment | more, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == status, done.stderr
    assert "written: a.hktrace: " in done.stderr
    return trace.read(folder / "a.hktrace")


def replayed(found: trace.Trace, *arguments: str) -> dict[str, object]:
    streams_ = found.path.with_suffix(".streams")
    trace.unpack(found, streams_)
    done = subprocess.run(
        [REPLAYER, streams_, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


@built
def test_of_a_known_program_the_trace_has_all_and_the_replay_does_all(tmp_path: Path) -> None:
    found = record(tmp_path, MIXED, 30000, 300, 7)
    mallocs, frees, most = mixed(30000, 300, 7)
    facts = {"mallocs": mallocs, "frees": frees, "peak_bytes": most, "reallocs": 0, "aligned": 0}
    facts |= {"threads": 1, "unknown_frees": 0, "lost": 0, "end_bytes": 0, "ended": True}
    assert facts.items() <= found.facts.items()
    assert found.facts["command"] == [str(MIXED), "30000", "300", "7"]
    result = replayed(found, "--points", "--repeat=2")
    assert (result["mallocs"], result["frees"], result["reallocs"]) == (mallocs, frees, 0)
    assert result["ops"] == 2 * found.operations
    curve = result["curve"]
    assert isinstance(curve, list)
    assert len(curve) == 64
    assert curve[-1][0] == 0
    assert max(live for live, _ in curve) <= -(-most // 1024)
    replayed(found, "--smoke")


THREADS = """
import threading, queue
q = queue.Queue()
def make():
    for n in range(2000):
        q.put(bytearray(600 + n % 4000))
def use():
    for n in range(2000):
        b = q.get(); b.extend(bytes(900))
t = [threading.Thread(target=f) for f in (make, use, make, use)]
[x.start() for x in t]; [x.join() for x in t]
"""


@built
def test_threads_that_hand_blocks_to_each_other_are_replayed_whole(tmp_path: Path) -> None:
    found = record(tmp_path, sys.executable, "-I", "-S", "-c", THREADS, PYTHONMALLOC="malloc")
    assert found.threads >= 5
    assert found.facts["reallocs"] >= 4000
    result = replayed(found, "--smoke", "--repeat=3")
    names = ("mallocs", "frees", "reallocs")
    mallocs, frees, reallocs = (int(str(result[name])) for name in names)
    assert mallocs == found.facts["mallocs"] + found.facts["aligned"]
    assert (frees, reallocs) == (found.facts["frees"], found.facts["reallocs"])
    assert result["ops"] == 3 * found.operations


@built
def test_a_recording_of_the_library_alone_becomes_a_trace(stand: Stand, tmp_path: Path) -> None:
    settings = {"HAKMEM_RECORD": str(tmp_path / "raw.%p"), "LD_PRELOAD": str(LIBRARY)}
    subprocess.run([MIXED, "3000", "30", "7"], env=settings, capture_output=True, check=True)
    found = next(tmp_path.glob("raw.*"))
    out = tmp_path / "b.hktrace"
    done = stand.call("record", "--raw", found, "--out", out)
    assert done.returncode == 0, done.stderr
    assert trace.read(out).facts["mallocs"] == mixed(3000, 30, 7)[0]
    whole, rng, made = found.read_bytes(), random.Random(4), 0
    stopped = raw.HEAD.index("stopped") * 8
    found.write_bytes(whole[:stopped] + (1000).to_bytes(8, "little") + whole[stopped + 8 :])
    assert streams.make(raw.read(found)).facts["operations"] == 1000
    for _ in range(60):
        found.write_bytes(damaged(whole, rng))
        with contextlib.suppress(LabError):
            made += len(streams.make(raw.read(found)).to_bytes()) > 0
    assert made
    found.write_bytes(whole[:50])
    cut = stand.call("record", "--raw", found, "--out", out)
    assert (cut.returncode, cut.stderr.count("\n")) == (2, 1)
    assert "is no recording: it is cut off" in cut.stderr


@built
def test_short_lived_threads_share_chunks_and_are_known_apart(tmp_path: Path) -> None:
    script = "import threading\nfor _ in range(200):\n"
    script += " t = threading.Thread(target=bytearray, args=(5000,)); t.start(); t.join()"
    settings = {"HAKMEM_RECORD": str(tmp_path / "raw.%p"), "LD_PRELOAD": str(LIBRARY)}
    argv = [sys.executable, "-I", "-S", "-c", script]
    subprocess.run(argv, env={**settings, "PYTHONMALLOC": "malloc"}, check=True)
    file = next(tmp_path.glob("raw.*"))
    events = raw.read(file)
    assert len(events.kind) == raw.count(file)
    assert events.lost == 0
    made = streams.make(events)
    assert made.facts["threads"] >= 201
    large = events.thread[(events.size == 5001) & ((events.kind & GIVEN) != 0)]
    assert len(np.unique(large)) >= 200


@built
def test_a_full_file_has_what_came_before_and_says_so(tmp_path: Path) -> None:
    settings = {"HAKMEM_RECORD": str(tmp_path / "raw.%p"), "LD_PRELOAD": str(LIBRARY)}
    settings["HAKMEM_RECORD_MB"] = "1"
    done = subprocess.run(
        [MIXED, "90000", "30", "7"], env=settings, capture_output=True, text=True, check=True
    )
    assert "the file is full (HAKMEM_RECORD_MB); what follows is not recorded" in done.stderr
    made = streams.make(raw.read(next(tmp_path.glob("raw.*"))))
    assert made.facts["operations"] == 31 * 2047
    assert made.facts["full"]
    assert made.facts["operations"] + made.facts["lost"] == 2 * mixed(90000, 30, 7)[0]
    assert "operations are missing: the file was full" in trace.describe(made.facts)


@built
def test_of_several_processes_the_busiest_is_kept_or_all(tmp_path: Path) -> None:
    script = f"{MIXED} 2000 30 7; {MIXED} 9000 30 7; true"
    found = record(tmp_path, "sh", "-c", script)
    assert found.facts["mallocs"] == mixed(9000, 30, 7)[0]
    found = record(tmp_path, "--all", "--", "sh", "-c", script)
    counts = [trace.read(path).facts["mallocs"] for path in tmp_path.glob("a.*.hktrace")]
    assert mixed(2000, 30, 7)[0] in counts
    assert found.facts["mallocs"] == mixed(9000, 30, 7)[0]


@built
def test_a_program_that_is_killed_leaves_a_trace(tmp_path: Path) -> None:
    script = "import os; x = [bytearray(5000) for _ in range(999)]; os.kill(os.getpid(), 9)"
    found = record(tmp_path, sys.executable, "-I", "-S", "-c", script, status=137)
    assert found.facts["ended"] is False
    assert found.facts["end_bytes"] > 999 * 5000
    replayed(found)


def instructions_inside(folder: Path, *command: object) -> int:
    """Those of the allocator alone."""
    out = folder / "callgrind.out"
    argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *map(str, command)]
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    inside = callgrind.parse(out.read_text()).objects()
    return sum(count for file, count in inside.items() if "libhakmem" in file)


@built
def test_a_replay_asks_of_the_allocator_what_the_program_did(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    command = (MIXED, 60000, 400, 7)
    found = record(tmp_path, *command)
    replayed(found)
    original = instructions_inside(tmp_path, *command)
    again = instructions_inside(tmp_path, REPLAYER, found.path.with_suffix(".streams"))
    assert again == pytest.approx(original, rel=0.05)


EXAMPLES = sorted((project.root() / "bench" / "traces").glob("*.hktrace"))


@built
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_traces_that_come_with_the_project_are_whole(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    found = trace.read(tmp_path / path.name)
    facts = {"unknown_frees": 0, "lost": 0, "ended": True, "threads": 1}
    assert facts.items() <= found.facts.items()
    assert replayed(found, "--smoke")["ops"] == found.operations
    assert path.stat().st_size < 300 * 1024


# ---- the commands ----


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("record",), 2, "which program? hakmem record -- COMMAND"),
        (("record", "--raw", "/no/such"), 2, "the recording not found: /no/such"),
        (("record", "--raw", __file__), 2, "is no recording of this version"),
        (("record", "--", "no-such-program"), 127, "command not found"),
        (("record", "--out", "/no/such/x", "--", "true"), 2, "there is no folder /no/such"),
        (("record", "--", "true"), 3, "nothing was recorded: hakmem 0.0-stub served malloc in"),
        (("replay", "/no/such.hktrace"), 2, "cannot read /no/such.hktrace: No such file"),
        (("advise", "/no/such.hktrace"), 2, "cannot read /no/such.hktrace: No such file"),
    ],
)
def test_mistakes_are_one_clear_line(
    stand: Stand, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = stand.call(*arguments)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
    assert message in done.stderr


@pytest.fixture
def real(tmp_path: Path) -> Stand:
    """The command against the product, in this process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_PRE"))}
    environment |= {"LAB_LOCK_FILE": str(tmp_path / "lock"), "COLUMNS": "140", "NO_COLOR": "1"}
    provenance._binary.cache_clear()
    return Stand(BUILD, LIBRARY, LIBRARY, environment)


@built
def test_replay_has_both_tables_and_the_page_has_the_curves(
    real: Stand, small: trace.Trace, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    asked = ("--allocator", "system", "--max-blocks", 8, "--min-seconds", 0, "--page", page)
    done = real.call("replay", small.path, *asked)
    assert done.returncode == 0, done.stderr
    for words in ("ns/op", "× live", "MB·ms", "wall time of hakmem", "memory held per live byte"):
        assert words in done.stdout
    text = page.read_text()
    assert text.count("<polyline") == 2 * 3  # both widths: live, hakmem, the C library
    assert "operations done, %" in text
    assert "<script" not in text


@built
def test_advise_measures_each_set_and_ends_in_a_sentence(
    real: Stand, small: trace.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advise, "SETS", ("HAKMEM_THP=0",))
    done = real.call("advise", small.path, "--max-blocks", 8, "--min-seconds", 0)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^HAKMEM_THP=0 +[\d.]+ +\[", done.stdout, re.MULTILINE)
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(("recommended: HAKMEM_THP=0", "nothing helps", "to be weighed"))


def decision(low: float, high: float, verdict: protocol.Verdict) -> Decision:
    gain = Interval((low + high) / 2, low, high, protocol.KIND)
    return Decision(verdict, gain, (), 8, 0.02, True)


def test_only_a_verdict_is_a_side() -> None:
    assert advise.side(decision(0.02, 0.05, "GO")) == "better"
    assert advise.side(decision(-0.05, -0.02, "NO-GO")) == "worse"
    assert advise.side(decision(-0.02, 0.05, "UNDECIDED")) == "open"
    assert advise.side(decision(-0.002, 0.005, "UNDECIDED")) == "same"
    assert advise.side(decision(0.004, 0.006, "GO")) == "same"
    assert advise.side(None) == "open"


def test_what_is_recommended_costs_nothing_and_nothing_is_an_answer() -> None:
    same = Advice("X=1", "same", "open")
    assert advise.sentence([same]).startswith("nothing helps: no set of options")
    free, dear = replace(same, time="better"), Advice("Y=2", "worse", "better")
    assert advise.sentence([same, free]) == "recommended: X=1 (faster)"
    assert advise.sentence([dear]) == (
        "nothing helps without a price; to be weighed: Y=2 (less memory, but slower)"
    )
    both = advise.sentence([free, dear, Advice("Z=3", "better", "better")])
    assert both == (
        "recommended: X=1 (faster), Z=3 (faster and less memory); "
        "to be weighed: Y=2 (less memory, but slower)"
    )
