"""Child processes of the lab: an interrupt ends all, even if it comes while one starts."""

import os
import signal
import subprocess
import sys
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


def test_what_is_logged_leaves_nothing_behind(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert children.logged(("sh", "-c", "sleep 60 & echo $!; exit 3"), log) == 3
    assert until(lambda: ended(int(log.read_text())))


def test_how_a_program_ended_has_a_word_for_every_signal() -> None:
    assert children.how_ended(-signal.SIGSEGV, "") == "killed by SIGSEGV"
    assert children.how_ended(-40, "at last\n") == "killed by signal 40: at last"


def test_a_tool_answers_in_english_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert children.output(["sh", "-c", 'echo "$LC_ALL"']) == "C\n"
    with pytest.raises(LabError, match="false failed: it said nothing"):
        children.output(["false"])
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(LabError, match="nm is not installed: apt-get install binutils"):
        children.output(["nm"])


WAITS = "from hakmem.process import children; print(children.input_waits())"
# Redirections of stdin, and whether input waits there: not if it is empty or already read, as under
# cron, in CI or at the end of a shell's loop.
INPUTS = {
    "<text": True,
    "<pipe": True,
    "<text; read -r _": False,
    "<pipe; read -r _": False,
    "<empty": False,
    "</dev/null": False,
    "<&-": False,
}


@pytest.mark.parametrize("what", INPUTS)
def test_only_what_can_still_be_read_is_an_input(tmp_path: Path, what: str) -> None:
    (tmp_path / "text").write_text("x\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    argv = ["sh", "-c", f'exec {what}; exec "$@"', "sh", sys.executable, "-c", WAITS]
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(writer, b"x\n")
    done = children.said(argv, cwd=tmp_path)
    os.close(writer)
    assert done.stdout == f"{INPUTS[what]}\n", done.stderr


def test_a_pipe_that_nobody_writes_to_any_more_is_no_input() -> None:
    done = children.said([sys.executable, "-c", WAITS], stdin=None, input="")
    assert done.stdout == "False\n", done.stderr
