"""Trace files: whole, damaged and foreign ones, to the reader and to the replayer."""

import json
import random
import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.process import children
from hakmem.replay import streams, trace
from replay_world import REPLAYER, built, damaged, small_trace
from standing import PATIENCE_S, Stand, refused


@pytest.fixture
def small(tmp_path: Path) -> trace.Trace:
    return small_trace(tmp_path)


def test_a_trace_is_read_as_it_was_written(small: trace.Trace, tmp_path: Path) -> None:
    target = tmp_path / "streams"
    trace.unpack(small, target)
    assert target.stat().st_size == small.facts["bytes"]
    assert (small.name, small.threads, small.operations) == ("small", 2, 3000)
    said = trace.describe(small.facts)
    assert said.startswith("a 'b c'; 3000 operations of 2 threads in 1 s; ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.hktrace", "streams"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no trace: `hakmem record -- COMMAND` makes one"),
        (b"hktrace 1\n{}\n", "is a trace of version '1': this hakmem reads 2: record again"),
        (b"hktrace 2\n", "is damaged or cut off: record it again"),
        (b'hktrace 2\n{"operations":1,"threads":1,"bytes":9,"peak_bytes":1}\n', "damaged"),
        (b"\x7fELF\0\0", "is no trace"),
    ],
)
def test_what_is_no_trace_is_one_clear_line(
    tmp_path: Path, stand: Stand, content: bytes, message: str
) -> None:
    path = tmp_path / "x.hktrace"
    path.write_bytes(content)
    for command in ("replay", "advise"):
        refused(stand.call(command, path), message)


def test_a_damaged_trace_is_refused_or_as_it_was(small: trace.Trace, tmp_path: Path) -> None:
    """A damaged file is refused, or its streams are intact: damage to a fact's text may pass."""
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
    [{"bytes": n} for n in (4, 12124, 1 << 30)]
    + [{"threads": "2"}, {"operations": None}, {"seconds": None}],
)
def test_facts_that_cannot_be_are_damage(small: trace.Trace, change: dict[str, object]) -> None:
    first, _, body = small.path.read_bytes().split(b"\n", 2)
    text = json.dumps({**small.facts, **change}).encode()
    small.path.write_bytes(b"\n".join((first, text, body)))
    with pytest.raises(LabError, match="is damaged or cut off"):
        trace.unpack(trace.read(small.path), small.path.with_suffix(".streams"))


def test_a_command_may_be_as_long_as_the_system_takes_it(small: trace.Trace) -> None:
    first, _, body = small.path.read_bytes().split(b"\n", 2)
    facts = {**small.facts, "command": ["\033", *["\udcff" * 100_000] * 20], "program": "\033"}
    small.path.write_bytes(b"\n".join((first, json.dumps({**facts, "pid": 1}).encode(), body)))
    said = trace.describe(trace.read(small.path).facts)
    assert len(said) < 300
    assert "\033" not in said


@built
def test_the_replayer_refuses_damaged_streams_or_replays_them(
    small: trace.Trace, tmp_path: Path
) -> None:
    """It neither crashes nor hangs."""
    good, path, rng = tmp_path / "good", tmp_path / "streams", random.Random(3)
    trace.unpack(small, good)
    whole, ends = good.read_bytes(), {0: 0, 1: 0}
    for _ in range(60):
        path.write_bytes(damaged(whole, rng))
        done = children.said([REPLAYER, path], timeout=PATIENCE_S)
        assert done.returncode in ends, done.stderr
        ends[done.returncode] += 1
        if done.returncode:
            assert re.fullmatch(r"bench: error: .*\n", done.stderr), done.stderr
    assert all(ends.values())


def said_of(path: Path, threads: Sequence[Sequence[int]]) -> str:
    """The replayer's error for streams of these words with one slot; "" if there is none."""
    made = streams.Streams([array("I", words) for words in threads], 1)
    path.write_bytes(made.to_bytes())
    done = children.said([REPLAYER, path], timeout=PATIENCE_S)
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
        ([[7, 0, 8, 8 | 7, 6, 1]], ""),
        ([[0]], "an operation is cut off"),
        ([[64 << 3 | 6, 1]], "a point's number is too large"),
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
