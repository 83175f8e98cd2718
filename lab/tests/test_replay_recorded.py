"""Recordings of real programs, and their replays."""

import contextlib
import os
import random
import shutil
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.hotpath import callgrind
from hakmem.process import host, provenance
from hakmem.process.children import said
from hakmem.replay import raw, record as recorder, streams, trace
from hakmem.replay.raw import GIVEN
from hakmem.suite import SUITE
from replay_world import (
    LIBRARY,
    MIXED,
    REPLAYER,
    built,
    damaged,
    record,
    recorded,
    replayed,
    small_trace,
)
from standing import Stand, compile_c, need, ran, refused


def mixed(iterations: int, slots: int, seed: int) -> tuple[int, int, int]:
    """Computes random_mixed's work from bench/README.md: mallocs, frees, and peak live bytes."""
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
    assert len(result["curve"]) == 64
    assert max(live for live, _ in result["curve"]) <= -(-most // 1024)
    replayed(found, "--smoke")


PYTHON = (sys.executable, "-I", "-S", "-c")
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
    found = record(tmp_path, *PYTHON, THREADS, PYTHONMALLOC="malloc")
    assert found.threads >= 5
    assert found.facts["reallocs"] >= 4000
    result = replayed(found, "--smoke", "--repeat=3")
    assert result["mallocs"] == found.facts["mallocs"] + found.facts["aligned"]
    assert {n: result[n] for n in ("frees", "reallocs")}.items() <= found.facts.items()
    assert result["ops"] == 3 * found.operations


PAUSE_S = 0.3
PAUSED = f"import time; b = bytearray(5000); time.sleep({PAUSE_S}); c = bytearray(7000)"


@built
def test_a_pause_is_known_and_kept_where_the_pace_is_asked_for(tmp_path: Path) -> None:
    found = record(tmp_path, *PYTHON, PAUSED, PYTHONMALLOC="malloc")
    assert found.seconds > found.facts["idle_seconds"] >= 0.99 * PAUSE_S
    began = time.monotonic()
    result = replayed(found, "--points", "--pace")
    assert time.monotonic() - began >= PAUSE_S
    assert all(live for live, _ in result["curve"])


@built
def test_what_is_mapped_of_a_file_is_not_held_for_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, size = small_trace(tmp_path), 8 << 20
    (tmp_path / "file").write_bytes(b"x" * size)
    maps = compile_c("maps_a_file.c", tmp_path / "maps.so", "-shared", "-fPIC", f"-DBYTES={size}")
    plain = replayed(found, "--points")
    monkeypatch.setenv("LD_PRELOAD", str(maps))
    monkeypatch.setenv("FILE", str(tmp_path / "file"))
    mapped = replayed(found, "--points")
    assert mapped["held"] < 1.5 * plain["held"]
    assert mapped["peak_kb"] > size >> 10


@built
def test_a_recording_of_the_library_alone_becomes_a_trace(stand: Stand, tmp_path: Path) -> None:
    found = recorded(tmp_path, MIXED, 3000, 30, 7)
    out = tmp_path / "b.hktrace"
    ran(stand.call("record", "--raw", found, "--out", out))
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
    refused(stand.call("record", "--raw", found, "--out", out), "is no recording: it is cut off")


@built
def test_short_lived_threads_share_chunks_and_are_known_apart(tmp_path: Path) -> None:
    script = "import threading\nfor _ in range(200):\n"
    script += " t = threading.Thread(target=bytearray, args=(5000,)); t.start(); t.join()"
    file = recorded(tmp_path, *PYTHON, script, PYTHONMALLOC="malloc")
    events = raw.read(file)
    assert len(events.kind) == raw.count(file)
    assert events.lost == 0
    made = streams.make(events)
    assert made.facts["threads"] >= 201
    large = events.thread[(events.size == 5001) & ((events.kind & GIVEN) != 0)]
    assert len(np.unique(large)) >= 200


@built
def test_a_full_file_has_what_came_before_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = recorded(tmp_path, MIXED, 90000, 30, 7, HAKMEM_RECORD_MB="1")
    said = capfd.readouterr().err
    assert "the file is full (HAKMEM_RECORD_MB); what follows is not recorded" in said
    made = streams.make(raw.read(file))
    assert 30 * 2047 < made.facts["operations"] <= 31 * 2047  # times take lines too
    assert made.facts["full"]
    assert made.facts["operations"] + made.facts["lost"] == 2 * mixed(90000, 30, 7)[0]
    assert "operations are missing: the file was full" in trace.describe(made.facts)


@built
def test_a_trace_takes_no_more_memory_than_is_asked_for(tmp_path: Path) -> None:
    file = recorded(tmp_path, MIXED, 400000, 30, 7)
    recorder.convert(file, tmp_path / "warm.hktrace")  # loads modules before memory is counted
    body = len(streams.make(raw.read(file)).to_bytes())
    tracemalloc.start()
    streams.make(raw.read(file)).to_bytes()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert body < most < raw.NEEDED * file.stat().st_size


def test_what_memory_is_not_enough_for_is_refused_before_it_begins(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "available_bytes", lambda: 900 << 20)
    assert recorder.most_mb(None) == recorder.most_mb(100) == 100
    mark = tmp_path / "ran"
    done = stand.call("record", "--mb", 101, "--out", tmp_path / "a.hktrace", "--", "touch", mark)
    assert (done.returncode, done.stdout, mark.exists()) == (2, "", False)
    assert done.stderr == (
        "hakmem: --mb 101: to make a trace of so much takes up to 0.9 GiB of memory, and 0.9 GiB "
        "are available: --mb 100 fits\n"
    )
    monkeypatch.setattr(host, "available_bytes", lambda: 1 << 40)
    assert recorder.most_mb(None) == recorder.USUAL_MB
    assert recorder.most_mb(65536) == 65536


@built
def test_of_several_recordings_those_that_have_become_too_large_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is enough for the first conversion only: the next recording is kept unconverted."""
    available = iter([1 << 40, 1 << 10, 1 << 10])
    monkeypatch.setattr(host, "available_bytes", lambda: next(available, 1 << 40))
    command = ["sh", "-c", f"{MIXED} 2000 30 7; {MIXED} 9000 30 7; true"]
    with pytest.raises(LabError, match=r"are available.*hakmem record --raw .*/a\.\d+\.raw$"):
        recorder.record(command, LIBRARY, tmp_path / "a.hktrace", 1, True)
    assert trace.read(tmp_path / "a.hktrace").facts["mallocs"] == mixed(9000, 30, 7)[0]
    (kept,) = tmp_path.glob("a.*.raw")
    made = recorder.convert(kept, tmp_path / "b.hktrace")
    assert made.facts["mallocs"] == mixed(2000, 30, 7)[0]


@built
def test_who_allocates_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="the program has not allocated") as caught:
        recorder.record(["true"], LIBRARY, tmp_path / "a.hktrace", 1, False)
    assert caught.value.status == 1


@built
def test_of_several_processes_the_busiest_is_kept(tmp_path: Path) -> None:
    script = f"{MIXED} 2000 30 7; {MIXED} 9000 30 7; true"
    found = record(tmp_path, "sh", "-c", script)
    assert found.facts["mallocs"] == mixed(9000, 30, 7)[0]


@built
def test_whose_recording_it_is_is_said_of_each(tmp_path: Path) -> None:
    """Each recording names its process: the command, a program it executes, a forked child."""
    forks = "import os\nif not os.fork(): x = [[i] for i in range(3000)]\nelse: os.wait()"
    script = f"{MIXED} 2000 30 7; {sys.executable} -c '{forks}'; true"
    record(tmp_path, "--all", "--", "sh", "-c", script)
    found = [trace.read(path).facts for path in tmp_path.glob("a*.hktrace")]
    python = Path(sys.executable).resolve().name
    programs = sorted(facts["program"] for facts in found if "program" in facts)
    assert programs == sorted(["", MIXED.name, python])
    for facts in found:
        text = trace.describe(facts)
        assert facts["command"] == ["sh", "-c", script]
        whose = f" ({facts['program']})" if facts.get("program") else ""
        begins = f"process {facts['pid']}{whose} below sh -c " if "program" in facts else "sh -c "
        assert text.startswith(begins), text
    alone = record(tmp_path, "--", MIXED, "2000", "30", "7").facts
    assert "program" not in alone
    assert trace.describe(alone).startswith(f"{MIXED} 2000 30 7; ")


@built
def test_a_program_that_is_killed_leaves_a_trace(tmp_path: Path) -> None:
    script = "import os; x = [bytearray(5000) for _ in range(999)]; os.kill(os.getpid(), 9)"
    found = record(tmp_path, *PYTHON, script, status=137)
    assert found.facts["ended"] is False
    assert found.facts["end_bytes"] > 999 * 5000
    replayed(found)


def instructions_inside(folder: Path, *command: object) -> int:
    """How many instructions a command executes inside the allocator."""
    out = folder / "callgrind.out"
    argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *map(str, command)]
    ran(said(argv, env={**os.environ, "LD_PRELOAD": str(LIBRARY)}, timeout=300))
    inside = callgrind.parse(out.read_text()).objects()
    return sum(count for file, count in inside.items() if "libhakmem" in file)


@built
def test_a_replay_asks_of_the_allocator_what_the_program_did(tmp_path: Path) -> None:
    need("valgrind")
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
    command = SUITE.select([f"replay_{path.stem}"]).commands[0]
    row = Path(command.argv(1)[1])
    assert row.read_bytes() == found.path.with_suffix(".streams").read_bytes()
    assert command.sample * found.operations == pytest.approx(4_000_000, rel=0.1)


def test_a_row_of_the_suite_is_another_once_its_trace_is(tmp_path: Path) -> None:
    shutil.copytree(project.root() / "bench", tmp_path / "bench")
    command = SUITE.select(["replay_jq"]).commands[0]
    before = provenance.definition(command, tmp_path)
    (tmp_path / "bench" / "traces" / "lua.hktrace").unlink()
    assert provenance.definition(command, tmp_path) == before
    (tmp_path / "bench" / "traces" / "jq.hktrace").write_bytes(b"another")
    assert provenance.definition(command, tmp_path) != before


def test_each_trace_of_the_project_is_a_row_that_is_run_by_name() -> None:
    rows = {c.name: c for c in SUITE.commands if c.trace}
    assert sorted(rows) == [f"replay_{path.stem}" for path in EXAMPLES]
    assert not rows.keys() & {c.name for c in SUITE.select([]).commands}
