"""`hakmem run` reports proof that hakmem served the program, and says so if there is none."""

import os
import struct
from pathlib import Path

import pytest
from hakmem.process import run
from standing import Stand, compile_c, compile_static, ran, refused


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


def why_not(program: Path) -> str:
    return run.describe([], 1, program)[0]


def test_a_program_of_another_kind_is_named_as_such(tmp_path: Path) -> None:
    musl = "-Wl,--dynamic-linker=/lib/ld-other-c.so.1"
    assert "another C library: its loader is ld-other-c.so.1" in why_not(
        compile_c("stub_bench.c", tmp_path / "other", musl)
    )
    usual = compile_c("stub_bench.c", tmp_path / "usual")
    assert "the library did not load there" in why_not(usual)
    data = bytearray(usual.read_bytes())
    data[4] = 1
    (tmp_path / "narrow").write_bytes(data)
    assert "it is a 32-bit program" in why_not(tmp_path / "narrow")


def test_a_program_with_capabilities_is_named_as_such(tmp_path: Path) -> None:
    program = compile_c("stub_bench.c", tmp_path / "able")
    try:
        os.setxattr(
            program, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
        )
    except OSError as error:
        pytest.skip(f"SKIPPED: no file can be given capabilities here ({error}): NOT tested")
    assert "it has file capabilities: preloading is refused" in why_not(program)


def test_what_was_preloaded_before_is_kept(stand: Stand) -> None:
    done = stand.run("run", "--", "sh", "-c", 'echo "$LD_PRELOAD"', LD_PRELOAD=str(stand.silent))
    assert ran(done).stdout.strip() == f"{stand.library}:{stand.silent}"


def test_death_by_signal_is_the_shells_status(stand: Stand) -> None:
    assert stand.run("run", "--", "sh", "-c", "kill -9 $$").returncode == 137


@pytest.mark.parametrize("command", ["run", "compare"])
def test_what_is_there_and_no_program_is_not_said_to_be_missing(
    stand: Stand, tmp_path: Path, command: str
) -> None:
    (tmp_path / "text").write_text("hello\n")
    done = stand.run(command, "--", tmp_path / "text")
    refused(done, f"cannot run {tmp_path}/text: it is no executable file (chmod +x)", status=126)
    done = stand.run(command, "--", tmp_path)
    refused(done, f"cannot run {tmp_path}: it is a folder", status=126)
