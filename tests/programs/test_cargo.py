"""On hakmem, cargo builds a crate that has no dependencies, and runs its tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from finding import WORKLOADS, need_program
from preloading import run_under


def test_cargo_builds_and_tests_a_crate(preload: Path, tmp_path: Path) -> None:
    cargo = need_program("cargo")
    crate = shutil.copytree(WORKLOADS / "crate", tmp_path / "crate")
    env = {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    tested = run_under(preload, [cargo, "test", "--offline"], cwd=crate, env=env)
    assert "3 passed; 0 failed" in tested.stdout
    binaries = {p.exe.name for p in tested.processes if tmp_path in p.exe.parents}
    assert any(name.startswith("wordcount-") for name in binaries), binaries
    # Not rustc: an allocator that is linked into it would take precedence.
    tested.require_served("cargo", *binaries)
