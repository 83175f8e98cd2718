"""cmake and ninja build this project on hakmem, and the library that comes out works."""

from __future__ import annotations

from pathlib import Path

from finding import ROOT, need_program
from preloading import run_under


def test_hakmem_builds_itself(preload: Path, tmp_path: Path) -> None:
    cmake = need_program("cmake")
    need_program("ninja")
    flags = ["-DHAKMEM_BUILD_TESTS=OFF", "-DHAKMEM_BUILD_BENCH=OFF"]
    configured = run_under(preload, [cmake, "-G", "Ninja", "-S", ROOT, "-B", tmp_path, *flags])
    configured.require_served("cmake", "ninja", "cc1")
    built = run_under(preload, [cmake, "--build", tmp_path, "-j2"])
    built.require_served("cmake", "ninja", "cc1", need_program("ld").resolve().name)

    fresh = tmp_path / "libhakmem.so"
    served = run_under(fresh, [need_program("perl"), "-e", "print join ',', map { $_ x 3 } 1..4"])
    served.require_served("perl")
    assert served.stdout == "111,222,333,444"
