"""Temporary folders: removed when the lab ends or is interrupted; else the next start does it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hakmem.process import scratch
from standing import PATIENCE_S, Stand, refused

HOLDS = """
import time
from hakmem.process import scratch
with scratch.folder("test") as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


def holder(tmp_path: Path) -> tuple["subprocess.Popen[str]", Path]:
    """A process that holds a temporary folder in tmp_path, and that folder."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    return child, Path(child.stdout.readline().strip())


def test_the_next_start_sweeps_what_a_killed_lab_left_and_nothing_else(
    stand: Stand, tmp_path: Path
) -> None:
    (killed, orphan), (alive, owned) = holder(tmp_path), holder(tmp_path)
    others = [tmp_path / name for name in ("hakmem-run-ab12cd_x", "hakmem-x", "other")]
    for folder in others:
        folder.mkdir()
    try:
        killed.kill()
        killed.communicate()
        assert (orphan / "file").exists()
        assert stand.run("peers", "list", TMPDIR=str(tmp_path)).returncode == 0
        assert sorted(tmp_path.iterdir()) == sorted([owned, *others])
        assert (owned / "file").exists()
    finally:
        alive.kill()
        alive.communicate()


def test_a_folder_swept_before_it_is_locked_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, left = scratch.tempfile.mkdtemp, [1, 2]

    def swept(**words: str) -> str:
        name = real(**words)
        if left:
            left.pop()
            scratch.sweep()
        return name

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", swept)
    with scratch.folder("test") as folder:
        assert not left
        assert list(tmp_path.iterdir()) == [folder]
        scratch.sweep()
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_polite_end_leaves_no_folder_and_no_process(
    stand: Stand, tmp_path: Path, number: int
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("nohup has started this, whose children ignore it too")
    pid_file, temp = tmp_path / "pid", tmp_path / "temp"
    temp.mkdir()
    command = ("sh", "-c", f"echo $$ > {pid_file}; sleep 60")
    seen: list[Path] = []

    def runs() -> object:
        started = pid_file.exists() and pid_file.read_text().strip()
        seen[:] = temp.iterdir()
        return started

    words = ("soak", "--epoch-sec", "0.05", "--out", tmp_path / "a.csv", "--", *command)
    done = stand.under(TMPDIR=temp).interrupted(runs, *words, number=number)
    refused(done, status=130)
    (folder,) = seen
    assert re.fullmatch(r"hakmem-soak-\d+-\w+", folder.name)
    assert list(temp.iterdir()) == []
    assert not Path("/proc", pid_file.read_text().strip()).exists()


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    program = "import atexit, signal; from hakmem.cli import main; "
    program += "atexit.register(lambda: print(signal.getsignal(signal.SIGHUP).name)); main()"
    argv = ["nohup", sys.executable, "-c", program, "--version"]
    assert subprocess.check_output(argv, text=True, timeout=PATIENCE_S).endswith("\nSIG_IGN\n")
