"""Recordings and traces for the replay tests: made from rows by hand, or by recording a program."""

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hakmem import project
from hakmem.process.children import said
from hakmem.replay import raw, streams, trace
from hakmem.replay.raw import GIVEN, TAKEN
from standing import PATIENCE_S, Stand, ran, unset

BUILD = project.root() / "build"
LIBRARY = BUILD / "libhakmem.so"
REPLAYER = BUILD / "bench" / "bench_replay"
MIXED = BUILD / "bench" / "bench_random_mixed"
# Runs the command on the real build.
REAL = Stand(BUILD, LIBRARY, LIBRARY, unset("HAKMEM_", "LD_PRELOAD"))
built = pytest.mark.skipif(
    not (LIBRARY.is_file() and REPLAYER.is_file()), reason="not built: run `make build`"
)
# Indexed by operation code: its name, and how many words it takes in a stream.
NAMES = ("malloc", "free", "realloc", "aligned", "start", "wait")
WORDS = (2, 1, 2, 3, 1, 2, 2, 1)


def events(*rows: tuple[int, ...]) -> raw.Events:
    """Events from rows of (thread, kind, address[, size[, log2 of the alignment]]), spaced evenly
    over one second."""
    full = [(*row, *(0, 3)[len(row) - 3 :]) for row in rows]
    thread, kind, address, size, log2 = (np.array(column) for column in zip(*full, strict=True))
    return raw.Events(
        pid=1,
        address=address.astype(np.uint64),
        kind=kind.astype(np.uint8),
        size=size.astype(np.int64),
        log2=log2.astype(np.uint8),
        thread=thread.astype(np.uint32),
        ns=np.linspace(0, 1e9, len(full)),
        lost=0,
        full=False,
        ended=True,
        whole_ns=1e9,
    )


def spelled(words: Sequence[int]) -> str:
    """A stream as readable text, without its points and times."""
    found, at = [], 0
    while at < len(words):
        op = words[at] & 7
        if op < streams.POINT:
            numbers = (words[at] >> 3, *words[at + 1 : at + WORDS[op]])
            found.append(f"{NAMES[op]} {' '.join(map(str, numbers))}")
        at += WORDS[op]
    return ", ".join(found)


def record(folder: Path, *command: object, status: int = 0, **more: str) -> trace.Trace:
    """Records a program by `hakmem record`, with the real library."""
    separator = [] if "--" in command else ["--"]
    asked = REAL.command("record", "--lib", LIBRARY, "--out", "a.hktrace", *separator, *command)
    done = ran(said(asked, cwd=folder, env=REAL.environment | more, timeout=PATIENCE_S), status)
    assert "written: a.hktrace: " in done.stderr
    return trace.read(folder / "a.hktrace")


def recorded(folder: Path, *command: object, **more: str) -> Path:
    """The raw recording that the preloaded library writes, before the command converts it."""
    record = {"HAKMEM_RECORD": str(folder / "raw.%p"), "LD_PRELOAD": str(LIBRARY)}
    subprocess.run(
        list(map(str, command)), env=record | more, stdout=subprocess.DEVNULL, check=True
    )
    return next(folder.glob("raw.*"))


def replayed(found: trace.Trace, *arguments: str) -> dict[str, Any]:
    streams_ = found.path.with_suffix(".streams")
    trace.unpack(found, streams_)
    done = ran(said([REPLAYER, streams_, *arguments], timeout=PATIENCE_S))
    return json.loads(done.stdout.splitlines()[-1])


def small_trace(folder: Path) -> trace.Trace:
    """A trace of two threads and some thousand blocks, random but always the same."""
    rng, rows, live = random.Random(1), [], []
    for n in range(3000):
        thread = rng.randint(2, 3)
        if live and rng.random() < 0.45:
            rows.append((thread, TAKEN, live.pop(rng.randrange(len(live)))))
        else:
            live.append(16 * n)
            rows.append((thread, GIVEN, 16 * n, rng.randint(1, 3000)))
    path = folder / "small.hktrace"
    trace.write(path, streams.make(events(*rows)), {"command": ["a", "b c"], "host": {}})
    return trace.read(path)


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """`whole` cut off somewhere, or with one to three bits flipped."""
    if rng.random() < 0.3:
        return whole[: rng.randrange(len(whole))]
    found = bytearray(whole)
    for _ in range(rng.randint(1, 3)):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)
