"""What others do with hakmem: run a tool, build a program of their own against a package."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hakmem import project
from standing import need, unset

CONSUMER = project.root() / "tests" / "packages"
VERSION = re.search(r'HK_VERSION "(.+)"', (project.root() / "src/base/base.h").read_text())
# A caller's preload, and what make says to its own children, are not the user's.
CLEAN = unset("LD_PRELOAD", "HAKMEM_", "LAB_", "MAKE")


def run(
    argv: Sequence[str | Path],
    cwd: Path,
    status: int = 0,
    trouble: Sequence[str] = (),
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """`trouble`: what it says where it cannot fetch what it needs, which is no failure."""
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
    """Its programs, in both languages and linked in both ways, are on this version."""
    for name in ("in_c", "in_cxx", "own_operators"):
        for form in ("hakmem", "static"):
            assert run([folder / f"{name}_{form}"], folder).stdout.strip() == version()


def link_by_pkg_config(prefix: Path, folder: Path) -> Path:
    """A program in C, built in `folder` as the hakmem.pc below `prefix` says, that has run."""
    need("pkg-config")
    found = next(prefix.rglob("hakmem.pc")).parent
    flags = run(["pkg-config", "--cflags", "--libs", "hakmem"], folder, PKG_CONFIG_PATH=str(found))
    program = folder / "program"
    run(["gcc", CONSUMER / "in_c.c", "-o", program, *flags.stdout.split()], folder)
    library = next(prefix.rglob("libhakmem.so.0")).parent
    done = run([program], folder, LD_LIBRARY_PATH=str(library))
    assert done.stdout.strip() == version()
    return program
