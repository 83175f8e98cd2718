"""Children of the laboratory: none outlives an interrupt, even one that comes while it starts."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hakmem.errors import LabError
from hakmem.process import children
from standing import ended, until

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
    grandchild = int((tmp_path / "pipe").read_text())
    children.end(child)
    assert until(lambda: ended(grandchild))


def test_how_a_program_ended_has_a_word_for_every_signal() -> None:
    assert children.how_ended(-signal.SIGSEGV, "") == "killed by SIGSEGV"
    assert children.how_ended(-40, "at last\n") == "killed by signal 40: at last"


def test_what_cannot_start_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        children.start(("no-such-program",))


def test_a_tool_answers_in_english_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert children.output(["sh", "-c", 'echo "$LC_ALL"']) == "C\n"
    with pytest.raises(LabError, match="false failed: it said nothing"):
        children.output(["false"])
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(LabError, match="nm is not installed: apt-get install binutils"):
        children.output(["nm"])
