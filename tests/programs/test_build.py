"""cmake, gcc and ninja build this project on hakmem: the objects equal those of a build without it,
and the built library works."""

from __future__ import annotations

from pathlib import Path

from finding import ROOT, binary, need_program
from preloading import Result, run_under


def build(lib: Path | None, folder: Path) -> tuple[Result, Result]:
    """Configure and build the library, with `lib` preloaded into the tools."""
    cmake = need_program("cmake")
    need_program("ninja")
    flags = ["-DHAKMEM_BUILD_TESTS=OFF", "-DHAKMEM_BUILD_BENCH=OFF"]
    compilers = {"CC": str(need_program("gcc")), "CXX": str(need_program("g++"))}
    configure = [cmake, "-G", "Ninja", "-S", ROOT, "-B", folder, *flags]
    configured = run_under(lib, configure, env=compilers)
    return configured, run_under(lib, [cmake, "--build", folder, "-j2"])


def test_hakmem_builds_itself(preload: Path, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    configured, built = build(preload, folder)
    configured.require_served("cmake", "ninja", "cc1")
    built.require_served("cmake", "ninja", "cc1", "cc1plus", binary("as"), binary("ld"))
    ours = folder.rename(tmp_path / "ours")
    served = run_under(
        ours / "libhakmem.so", [need_program("perl"), "-e", "print join ',', map { $_ x 3 } 1..4"]
    )
    served.require_served("perl")
    assert served.stdout == "111,222,333,444"

    build(None, folder)  # in the same folder: the objects contain its name
    made = [path.relative_to(folder) for path in folder.rglob("*.o")]
    compiled = [process for process in built.processes if process.exe.name in ("cc1", "cc1plus")]
    assert len(compiled) >= sum("CMakeFiles" in path.parts for path in made) > 80
    for path in [*made, "libhakmem.so"]:
        assert (ours / path).read_bytes() == (folder / path).read_bytes(), f"{path} differs"
