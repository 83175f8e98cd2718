"""A setuid program runs as without hakmem: it must not trust the caller's environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from finding import need_program
from preloading import Process, Result, read_proof, run_under

NOBODY = 65534


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="hakmem-setuid-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def run_as_nobody(lib: Path | None, program: Path) -> tuple[Result, tuple[Process, ...]]:
    """Run a copy of `id` as the user nobody, with a proof file that this user may write."""
    proof = program.with_name("proof")
    proof.unlink(missing_ok=True)
    proof.touch()
    proof.chmod(0o666)
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    argv = [need_program("setpriv"), *user, program, "-u"]
    result = run_under(lib, argv, env={"HAKMEM_PROOF": str(proof)})
    return result, read_proof(proof)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a setuid program of root's")
def test_setuid_program_is_left_alone(preload: Path, public: Path) -> None:
    lib = Path(shutil.copy(preload, public))
    program = Path(shutil.copy(need_program("id"), public / "id-of-mine"))
    program.chmod(0o755)
    result, processes = run_as_nobody(lib, program)
    assert result.stdout == f"{NOBODY}\n"
    assert [p.serving for p in processes if p.exe == program] == [True], "the control run"

    program.chmod(0o4755)
    result, processes = run_as_nobody(None, program)
    if result.stdout != "0\n":
        pytest.skip(f"setuid has no effect in {public} on this machine")
    result, processes = run_as_nobody(lib, program)
    assert (result.stdout, result.stderr) == ("0\n", "")
    assert [p.exe.name for p in processes] == ["setpriv"]
