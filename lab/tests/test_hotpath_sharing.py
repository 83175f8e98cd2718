"""What threads do to each other: the emulator's counts of programs whose counts are known."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.hotpath import sharing
from hakmem.hotpath import work as hotpath_work
from hakmem.hotpath.work import Amounts
from hakmem.paired.cells import Cell, parse

# Two threads take turns, each turn waiting outside the library; in it each adds 1 to the same word,
# or to one of its own.
LIBRARY = """
long words[2][8] __attribute__((aligned(64)));
void add_locked(int which) { __atomic_fetch_add(&words[which][0], 1, __ATOMIC_SEQ_CST); }
void add_plain(int which) { *(volatile long *)&words[which][0] += 1; }
"""
PROGRAM = """
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
void add_locked(int which);
void add_plain(int which);
static volatile int turn;
static int turns, same;
static void (*add)(int);
static void *take_turns(void *number) {
    const int own = number != NULL;
    for (int i = 0; i < turns; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != own)
            sched_yield();
        add(same ? 0 : own);
        __atomic_store_n(&turn, !own, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t other;
    turns = argc > 3 ? atoi(argv[3]) : 0;
    add = strcmp(argv[1], "locked") == 0 ? add_locked : add_plain;
    same = strcmp(argv[2], "same") == 0;
    pthread_create(&other, NULL, take_turns, &other);
    take_turns(NULL);
    pthread_join(other, NULL);
    return 0;
}
"""
TURNS = 200


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    (folder / "known.c").write_text(LIBRARY)
    (folder / "turns.c").write_text(PROGRAM)
    library, program = folder / "libknown.so", folder / "turns"
    shared = ["-O2", "-shared", "-fPIC", "-o", str(library), str(folder / "known.c")]
    linked = ["-O2", "-pthread", "-o", str(program), str(folder / "turns.c"), str(library)]
    for arguments in (shared, linked):
        subprocess.run(["gcc", *arguments], check=True)
    return folder


def counts(known: Path, *arguments: str) -> dict[str, float]:
    out = known / "counts.json"
    out.unlink(missing_ok=True)
    plugged = f"{sharing.plugin()},library=libknown.so,out={out}"
    emulator = [sharing.EMULATOR, "-plugin", plugged]
    subprocess.run([*emulator, str(known / "turns"), *arguments], check=True, timeout=120)
    return sharing.parse(out.read_text(), cell())


def cell() -> Cell:
    return parse("hakmem")


def test_locked_instructions_are_counted_exactly(known: Path) -> None:
    assert sharing.refusal() is None
    assert counts(known, "locked", "same", str(TURNS))["locked instructions"] == 2 * TURNS
    assert counts(known, "plain", "same", str(TURNS))["locked instructions"] == 0


@pytest.mark.parametrize("how", ["locked", "plain"])
def test_a_line_changes_hands_at_each_turn_or_not_at_all(known: Path, how: str) -> None:
    assert counts(known, how, "same", str(TURNS))["lines taken over"] == 2 * TURNS - 1
    assert counts(known, how, "apart", str(TURNS))["lines taken over"] == 0


def test_without_the_library_nothing_is_counted(known: Path) -> None:
    out = known / "other.json"
    plugged = f"{sharing.plugin()},library=libother.so,out={out}"
    program = [str(known / "turns"), "plain", "same", "3"]
    subprocess.run([sharing.EMULATOR, "-plugin", plugged, *program], check=True, timeout=120)
    with pytest.raises(LabError, match="no instruction of hakmem ran in the emulator"):
        sharing.parse(out.read_text(), cell())


def test_counts_that_are_not_there_are_said() -> None:
    with pytest.raises(LabError, match="the emulator left no counts"):
        sharing.parse("", cell())


def test_a_missing_emulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "qemu-x86_64" else tool)
    assert sharing.refusal() == "qemu-x86_64 not found: apt-get install qemu-user gcc"


def test_a_benchmark_on_any_number_of_threads() -> None:
    work = hotpath_work.benchmark("larson on 64")
    assert work.name == "larson on 64"
    assert work.amounts(True) == Amounts(64_000, 320_000)
    assert "--threads=64" in work.argv(64_000, None)
    with pytest.raises(LabError, match="larson runs on 1 to 256 threads, not on 999"):
        hotpath_work.benchmark("larson on 999")


def test_a_table_of_a_record() -> None:
    figures = {"instructions": 0.12, "locked instructions": 0.5, "lines taken over": 0.004}
    metrics = {
        f"larson on 2 {name} per operation{of}": {"value": value * scale}
        for name, value in {**figures, "futex calls": 0.0}.items()
        for of, scale in (("", 1), (" of rpmalloc", 2))
    }
    body = {
        "cells": [{"name": "hakmem"}, {"name": "rpmalloc"}],
        "benchmarks": [{"name": "larson on 2"}],
        "metrics": metrics,
    }
    assert sharing.markdown(json.loads(json.dumps(body))).splitlines()[2:] == [
        "| larson on 2 | instructions | 120 | 240 |",
        "| larson on 2 | locked instructions | 500 | 1\u202f000 |",
        "| larson on 2 | lines taken over | 4.00 | 8.00 |",
        "| larson on 2 | futex calls | 0.00 | 0.00 |",
    ]
