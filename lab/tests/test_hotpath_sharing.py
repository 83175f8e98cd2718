"""Locked instructions and cache-line transfers: the emulator's counts where they are known."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.hotpath import sharing, work as hotpath_work
from hakmem.hotpath.work import Amounts
from hakmem.paired.cells import Cell, parse
from standing import PATIENCE_S, PROGRAMS, compile_c

TURNS = 200


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    library = compile_c("known.c", folder / "libknown.so", "-O2", "-shared", "-fPIC")
    program = [PROGRAMS / "turns.c", library, "-o", folder / "turns"]
    subprocess.run(["gcc", "-O2", "-pthread", *program], check=True)
    return folder


def counts(known: Path, *arguments: str, library: str = "libknown.so") -> dict[str, float]:
    """Runs the program `turns` in the emulator; the counts of `library`'s code."""
    out = known / "counts.json"
    out.unlink(missing_ok=True)
    emulator = sharing.emulated(library, out)
    subprocess.run([*emulator, str(known / "turns"), *arguments], check=True, timeout=PATIENCE_S)
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


def test_each_thread_has_a_processor_of_its_own(tmp_path: Path) -> None:
    program = compile_c("processors.c", tmp_path / "processors", "-O2", "-pthread")
    emulator = sharing.emulated("libc.so.6", tmp_path / "counts.json")
    done = subprocess.run([*emulator, program], check=True, capture_output=True, text=True)
    main, *together, later = map(int, done.stdout.split())
    assert main == 0
    assert sorted(together) == [1, 2, 3]
    assert later in together


def test_without_the_library_nothing_is_counted(known: Path) -> None:
    with pytest.raises(LabError, match="no instruction of hakmem ran in the emulator"):
        counts(known, "plain", "same", "3", library="libother.so")


def test_counts_that_are_not_there_are_said() -> None:
    with pytest.raises(LabError, match="the emulator left no counts"):
        sharing.parse("", cell())


def test_a_missing_emulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "qemu-x86_64" else tool)
    assert sharing.refusal() == "qemu-x86_64 not found: apt-get install qemu-user gcc"


def test_a_benchmark_on_any_number_of_threads() -> None:
    buffers = hotpath_work.benchmark("buffers on 8")
    assert {"--min=40K", "--threads=8"} <= set(buffers.more)
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
