"""Children of the laboratory: none outlives an interrupt, even one that comes while it starts."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hakmem.process import children

SLEEP = ("sh", "-c", "sleep 60 & wait")


def test_an_interrupt_while_it_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(real(*words, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        children.start(SLEEP)
    assert started[0].returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_whole_group_ends(tmp_path: Path) -> None:
    with (tmp_path / "pipe").open("wb") as out:
        child = children.start(("sh", "-c", "sleep 60 & echo $!; wait"), stdout=out)
        while not (tmp_path / "pipe").read_text().strip():
            assert child.poll() is None
    grandchild = Path("/proc", (tmp_path / "pipe").read_text().strip(), "stat")
    children.end(child)
    deadline = time.monotonic() + 60
    while grandchild.exists() and grandchild.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_cannot_start_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        children.start(("no-such-program",))
