"""Find the programs that the tests run, installing the Debian packages of missing ones once."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = Path(__file__).resolve().parent / "workloads"

Found = TypeVar("Found")


@functools.cache
def set_up_programs() -> str:
    """Run `tools/setup programs` once per session; return its error, or "" if all are installed."""
    try:
        done = subprocess.run(
            [ROOT / "tools" / "setup", "programs"], capture_output=True, text=True, timeout=600
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"tools/setup programs: {error}"
    return "" if done.returncode == 0 else " ".join((done.stdout + done.stderr).split())


def need(what: str, find: Callable[[], Found | None]) -> Found:
    """The result of `find`, now or after the set-up; skip the test if there is none."""
    found = find()
    if found is None:
        trouble = set_up_programs()
        found = find()
        if found is None:
            pytest.skip(f"{what} is not on this machine, so hakmem was not tried on it. {trouble}")
    return found


def need_program(name: str) -> Path:
    """The path of program `name`."""

    def find() -> Path | None:
        path = shutil.which(name)
        return Path(path) if path else None

    return need(name, find)


def binary(tool: str) -> str:
    """The name of the executable behind `tool`, which may be a symlink."""
    return need_program(tool).resolve().name
