"""g++ makes the same object on hakmem as without it."""

from __future__ import annotations

from pathlib import Path

from finding import WORKLOADS, binary, need_program
from preloading import run_under


def test_gxx_makes_the_same_object_of_many_templates(preload: Path, tmp_path: Path) -> None:
    # g++ names LTO sections by a seed, which is otherwise random in each run.
    gxx = [need_program("g++"), "-std=c++17", "-O1", "-g", "-flto", "-frandom-seed=1", "-pthread"]
    ours, theirs = tmp_path / "hakmem.o", tmp_path / "system.o"
    run_under(None, [*gxx, "-c", WORKLOADS / "templates.cpp", "-o", theirs])
    result = run_under(preload, [*gxx, "-c", WORKLOADS / "templates.cpp", "-o", ours])
    result.require_served("cc1plus", binary("as"))
    assert ours.read_bytes() == theirs.read_bytes()

    program = tmp_path / "templates"
    result = run_under(preload, [*gxx, ours, "-o", program])
    result.require_served("lto1", binary("ld"))
    result = run_under(preload, [program])
    result.require_served("templates")
    assert result.stdout == run_under(None, [program]).stdout
