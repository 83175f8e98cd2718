"""hakmem as its users have it: runs tools, builds programs against an installed package."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hakmem import project
from standing import need, unset

CONSUMER = project.root() / "tests" / "packages"
VERSION = re.search(r'HK_VERSION "(.+)"', (project.root() / "src/base/base.h").read_text())
# A user's environment: without the preload and options of the caller, or what make passes down.
CLEAN = unset("LD_PRELOAD", "HAKMEM_", "LAB_", "MAKE")


def run(
    argv: Sequence[str | Path],
    cwd: Path,
    status: int = 0,
    trouble: Sequence[str] = (),
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Runs a tool. If it fails with one of `trouble`, a network's failure, the test skips."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**CLEAN, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != status and any(words in done.stderr for words in trouble):
        pytest.skip(f"SKIPPED: no network, NOT tested: {argv}: {done.stderr[-300:]}")
    assert done.returncode == status, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def version() -> str:
    assert VERSION is not None
    return VERSION[1]


def build_consumer(folder: Path, *settings: str) -> None:
    run(["cmake", "-S", CONSUMER, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *settings], folder)
    run(["cmake", "--build", folder, "--parallel", "2"], folder)


def run_consumer(folder: Path) -> None:
    """Each built program, shared or static, reports this version of hakmem."""
    for name in ("in_c", "in_cxx", "own_operators"):
        for form in ("hakmem", "static"):
            assert run([folder / f"{name}_{form}"], folder).stdout.strip() == version()


def link_by_pkg_config(prefix: Path, folder: Path) -> Path:
    """Builds a C program in `folder` by the hakmem.pc below `prefix`, and runs it."""
    need("pkg-config")
    found = next(prefix.rglob("hakmem.pc")).parent
    flags = run(["pkg-config", "--cflags", "--libs", "hakmem"], folder, PKG_CONFIG_PATH=str(found))
    program = folder / "program"
    run(["gcc", CONSUMER / "in_c.c", "-o", program, *flags.stdout.split()], folder)
    library = next(prefix.rglob("libhakmem.so.0")).parent
    done = run([program], folder, LD_LIBRARY_PATH=str(library))
    assert done.stdout.strip() == version()
    return program
