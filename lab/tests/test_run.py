"""`hakmem run`: proof where there is proof, and a plain no where there is none."""

import shutil
from pathlib import Path

import pytest
from standing import Stand, compile_static, ran, refused


def test_says_what_was_proven_and_keeps_the_status(stand: Stand) -> None:
    done = ran(stand.run("run", "--", "sh", "-c", "/bin/true; /bin/true; exit 7"), 7)
    assert "hakmem 0.0-stub served malloc in" in done.stderr
    assert done.stderr.rstrip().endswith("and in 2 child processes")


def test_stdio_is_inherited(stand: Stand) -> None:
    done = stand.run("run", "--", "echo", "--hello")
    assert (done.returncode, done.stdout) == (0, "--hello\n")


def test_without_a_command_a_demonstration_runs(stand: Stand) -> None:
    done = ran(stand.run("run"))
    assert "through json and back: equal" in done.stdout
    assert "served malloc in python" in done.stderr


def test_missing_proof_is_said_and_exits_3(stand: Stand) -> None:
    done = stand.run("run", "--lib", stand.silent, "--", "sh", "-c", "exit 5")
    refused(done, "NOT proven", "status 5", status=3)


def test_a_static_program_is_named_as_such(stand: Stand, tmp_path: Path) -> None:
    program = compile_static("stub_bench.c", tmp_path / "static")
    refused(stand.run("run", "--", program), "statically linked", status=3)


def test_what_was_preloaded_before_is_kept(stand: Stand) -> None:
    done = stand.run("run", "--", "sh", "-c", 'echo "$LD_PRELOAD"', LD_PRELOAD=str(stand.silent))
    assert ran(done).stdout.strip() == f"{stand.library}:{stand.silent}"


def test_death_by_signal_is_the_shells_status(stand: Stand) -> None:
    assert stand.run("run", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_a_program_that_is_not_there_is_named(stand: Stand) -> None:
    done = stand.run("run", "--", "no-such-program")
    refused(done, "command not found: no-such-program", status=127)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_what_is_there_and_no_program_is_not_said_to_be_missing(
    stand: Stand, tmp_path: Path, command: str
) -> None:
    (tmp_path / "text").write_text("hello\n")
    done = stand.run(command, "--", tmp_path / "text")
    refused(done, f"cannot run {tmp_path}/text: it is no executable file (chmod +x)", status=126)
    done = stand.run(command, "--", tmp_path)
    refused(done, f"cannot run {tmp_path}: it is a folder", status=126)


def test_another_build_can_be_named(stand: Stand, tmp_path: Path) -> None:
    shutil.copy(stand.library, tmp_path / "libhakmem.so")
    assert stand.run("run", "--", "true", LAB_BUILD_DIR=str(tmp_path)).returncode == 0
