"""gcc and g++: the objects that they make on hakmem are those that they make without it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from finding import ROOT, WORKLOADS, need_program
from preloading import run_under


def compile_commands(folder: Path) -> list[tuple[Path, list[str]]]:
    """Each source of the library with its compiler's command line, less the output's name."""
    flags = ["-DHAKMEM_BUILD_TESTS=OFF", "-DHAKMEM_BUILD_BENCH=OFF"]
    cmake = [need_program("cmake"), "-G", "Ninja", "-S", ROOT, "-B", folder, *flags]
    need_program("ninja")
    run_under(None, cmake, env={"CC": str(need_program("gcc")), "CXX": str(need_program("g++"))})
    commands = []
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        argv = shlex.split(entry["command"])
        at = argv.index("-o")
        commands.append((Path(entry["file"]), argv[:at] + argv[at + 2 :]))
    return [(source, argv) for source, argv in commands if (ROOT / "src") in source.parents]


def test_gcc_makes_the_same_objects_of_this_project(preload: Path, tmp_path: Path) -> None:
    commands = compile_commands(tmp_path)
    assert commands, "the build compiles no file of src/"
    for number, (source, argv) in enumerate(commands):
        ours, theirs = tmp_path / f"{number}-hakmem.o", tmp_path / f"{number}-system.o"
        run_under(None, [*argv, "-o", theirs], cwd=tmp_path)
        result = run_under(preload, [*argv, "-o", ours], cwd=tmp_path)
        driver = Path(argv[0]).resolve().name
        result.require_served(driver, "cc1" if source.suffix == ".c" else "cc1plus", binary("as"))
        assert ours.read_bytes() == theirs.read_bytes(), f"{source}: the objects differ"


def test_gxx_makes_the_same_object_of_many_templates(preload: Path, tmp_path: Path) -> None:
    # The seed names the sections of link-time code; without it g++ draws one for each run.
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


def binary(tool: str) -> str:
    """The name of the executable that runs as `tool`, which may be a link to it."""
    return need_program(tool).resolve().name
