"""`hakmem soak` as a user runs it, on a stand-in program that fails in every way."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hakmem import project
from hakmem.process.library import system
from hakmem.soak import epochs_csv, inside
from standing import MATRIX, Stand, need_built, ran, refused, until
from users import run

QUICK = ("--seconds", "30", "--epoch-sec", "0.5")
Quick = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.fixture
def quick(own: Stand, out: Path) -> Quick:
    return partial(own.call, "soak", *QUICK, "--out", out)


def test_a_soak_is_written_proven_judged_and_recorded(own: Stand, out: Path) -> None:
    done = ran(own.run("soak", *QUICK, "--out", out, "--env", "HAKMEM_X=1"))
    assert "hakmem 0.0-stub served malloc" in done.stdout
    assert "60 epochs in 30 s; judged are the last 45" in done.stdout
    table = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    assert [figure.endswith("*") for figure in table["p5"] + table["p10"]] == [True] * 2 + [
        False
    ] * 2
    assert "* not supported with 45 epochs, may be worse: p0.1 (needs 2995), p1" in done.stdout
    assert "system calls of the allocator: 3.3e-07 per operation" in done.stdout
    found = epochs_csv.parse(out.read_text())
    assert list(found.columns) == list(epochs_csv.COLUMNS)
    assert "HAKMEM_X=1" in found.facts["environment"]
    (record,) = own.records()
    assert record.kind == "soak"
    body = record.body
    assert body["environment"]["HAKMEM_X"] == "1"
    assert body["proof"]["serving"] is True
    assert body["metrics"]["throughput"]["value"] == pytest.approx(1e6, rel=0.01)
    assert body["analysis"]["drift"]["rss_kb"]["state"] == "none"
    assert own.ledger.raw(record.raw["epochs.csv"]) == out.read_bytes()


def test_the_library_and_the_settings_are_the_users_choice(quick: Quick, out: Path) -> None:
    done = ran(quick("--lib", "system", "--no-record"))
    assert "served malloc" not in done.stdout
    assert epochs_csv.parse(out.read_text()).facts["library"].startswith("system ")
    refused(quick("--env", "oops"), "--env takes NAME=VALUE, not 'oops'")


@pytest.mark.parametrize(
    ("planted", "status", "message"),
    [
        ("leak", 1, "✗ drifts"),
        ("silent", 1, "the soak failed: printed no epoch"),
        ("shaky", 0, "NOT within the gate"),
    ],
)
def test_planted_faults_are_seen(
    own: Stand, quick: Quick, planted: str, status: int, message: str
) -> None:
    done = ran(quick("--env", f"HAKMEM_TEST_SOAK={planted}"), status)
    assert message in done.stdout + done.stderr
    assert len(own.records()) == (planted != "silent")


@pytest.mark.parametrize("lib", ["hakmem", "system"])
def test_a_crash_is_on_record_and_shown(own: Stand, quick: Quick, tmp_path: Path, lib: str) -> None:
    ran(quick("--lib", lib))
    done = quick("--lib", lib, "--env", "HAKMEM_TEST_SOAK=crash")
    refused(done, "the soak failed: killed by SIGSEGV: planted crash", status=1)
    record = own.records("soak")[-1]
    why = {f"soak_mixed on {lib}": "killed by SIGSEGV: planted crash"}
    assert (record.body["ok"], record.body["failures"]) == (False, why)
    assert (record.body["binary"]["name"], record.raw) == (lib, {})
    ran(own.call("ledger", "verify"))
    ran(own.call("report", record.id, "--out", tmp_path / "page"))
    assert "killed by SIGSEGV: planted crash</li>" in (tmp_path / "page").read_text()
    quick("--no-record", "--env", "HAKMEM_TEST_SOAK=crash")
    assert own.records("soak")[-1] == record


def test_a_library_that_is_built_again_meanwhile_is_not_recorded(
    own: Stand, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, soaked = own.elsewhere(tmp_path / "build", benches=True), inside.run_epochs

    def rebuilt(*arguments: Any) -> inside.Ended:
        with built.library.open("ab") as library:
            library.write(b"another build")
        return soaked(*arguments)

    monkeypatch.setattr(inside, "run_epochs", rebuilt)
    done = built.call("soak", *QUICK, "--out", out)
    refused(done, "was changed during the measurement", status=1)
    file = tmp_path / "m.toml"
    file.write_text(MATRIX)
    done = built.call("matrix", file, "--out", tmp_path / "run")
    refused(done, "was changed during the measurement", status=1)
    assert not built.records()


def test_a_library_that_does_not_serve_is_no_soak(own: Stand, quick: Quick) -> None:
    # The silent stand-in claims to be hakmem, but leaves no proof in the process.
    done = ran(quick("--lib", own.silent), 1)
    assert "the process did not say that it was loaded" in done.stderr


def test_a_full_disk_is_one_clear_line(quick: Quick, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "place", lambda *_: Path("/dev/full"))
    refused(quick(), "cannot write /dev/full: No space left on device")


def test_a_mistyped_option_is_no_command(quick: Quick, tmp_path: Path) -> None:
    for arguments in (("--epoch", "1"), ("--epoch", "1", "--", "true")):
        done = ran(quick(*arguments), 2)
        assert "No such option: --epoch" in done.stderr
        assert "--epoch-sec" in done.stderr
    done = quick("no-such-program", "--epoch", "1")
    refused(done, "command not found: no-such-program", status=127)
    assert list(tmp_path.iterdir()) == []


def test_a_soak_that_failed_before_its_first_epoch_leaves_no_file(
    quick: Quick, out: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    silent = ("--env", "HAKMEM_TEST_SOAK=silent")
    for arguments, status in ((silent, 1), (("--", program), 126), (("--", "true"), 2)):
        ran(quick(*arguments), status)
        assert list(tmp_path.iterdir()) == [program]
    log = out.with_name("a.csv.log")
    for file in (out, log):
        file.write_text("an older one\n")
    ran(quick(*silent), 1)
    ran(quick("--", "echo", "a newer one"), 2)
    assert {out.read_text(), log.read_text()} == {"an older one\n"}
    assert {*tmp_path.iterdir()} == {program, out, log}


def test_a_hanging_program_is_killed(quick: Quick, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "WARM_UP_S", 0.2)
    done = quick("--env", "HAKMEM_TEST_SOAK=hang")
    refused(done, "printed nothing for 1 s: killed", status=1)


SLEEPY = "import time; x = bytearray(9 << 20); time.sleep({})"


def test_any_command_is_sampled_from_outside(own: Stand, out: Path) -> None:
    # The command ends after it has been sampled with its whole memory.
    held = "import sys, time; x = bytearray(9 << 20)"
    waits = "epochs = lambda: sum(line[0].isdigit() for line in open(sys.argv[1]))\n"
    waits += "before = epochs()\nwhile epochs() < before + 10: time.sleep(0.01)"
    command = (sys.executable, "-c", f"{held}\n{waits}\nprint('done')", out)
    out.with_suffix(".log").write_text("of its own\n")
    done = ran(own.run("soak", "--epoch-sec", "0.05", "--out", out, "--", *command))
    assert "served malloc" in done.stdout
    assert out.with_suffix(".csv.log").read_text() == "done\n"
    assert out.with_suffix(".log").read_text() == "of its own\n"
    found = epochs_csv.parse(out.read_text())
    assert "ops_per_s" not in found.columns
    assert found.columns["rss_kb"].max() > 9000  # in the last epoch it may be exiting
    assert found.facts["end"].endswith("status 0")


def test_a_commands_failure_is_told_and_its_length_can_be_cut(own: Stand, out: Path) -> None:
    fails = (sys.executable, "-c", "raise SystemExit('sorry')")
    done = own.call("soak", "--epoch-sec", "0.05", "--out", out, "--", *fails)
    refused(done, "the soak failed: status 1: sorry", status=1)
    long = (sys.executable, "-c", SLEEPY.format(60))
    cut = ("--epoch-sec", "0.05", "--seconds", "0.5", "--no-record")
    ran(own.call("soak", *cut, "--out", out, "--", *long))
    assert epochs_csv.parse(out.read_text()).epochs == 10


DIES = """
import os, signal
def died(*_):
    signal.signal({0}, signal.SIG_DFL)
    os.kill(os.getpid(), {0})
signal.signal(signal.SIGTERM, died)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", ["SIGSEGV", "SIGABRT", "SIGHUP"])
def test_a_crash_of_what_was_asked_to_end_is_one(tmp_path: Path, number: str) -> None:
    def is_ready(*_: object) -> None:
        assert until(lambda: log.read_text() == "ready\n")

    argv, log = [sys.executable, "-c", DIES.format(f"signal.{number}")], tmp_path / "log"
    what = inside.Started(argv, system(), os.environ, {})
    found = inside.run(what, 0.05, 0.1, log, is_ready)
    assert found.epochs == 2
    assert found.error == (None if number == "SIGHUP" else f"killed by {number}: ready")


def test_two_soaks_in_a_folder_have_a_log_each(own: Stand, tmp_path: Path) -> None:
    for name in ("run.a", "run.b"):
        own.call("soak", "--no-record", "--out", tmp_path / name, "--", "echo", name)
        assert (tmp_path / f"{name}.log").read_text() == f"{name}\n"


def test_a_process_that_runs_already_is_sampled_and_left_alone(own: Stand, out: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPY.format(60)]) as child:
        try:
            asked = ("--pid", child.pid, "--epoch-sec", "0.05", "--seconds", "0.4")
            done = ran(own.call("soak", *asked, "--out", out))
            assert "no libhakmem in its mappings" in done.stdout
            assert child.poll() is None
        finally:
            child.kill()
    assert epochs_csv.parse(out.read_text()).epochs == 8
    assert own.records() == []
    done = own.call("soak", "--pid", child.pid, "--out", out)
    refused(done, f"there is no process {child.pid}")
    assert "libhakmem" not in done.stdout


@pytest.mark.parametrize("option", ["--lib=system", "--env=A=1", "--ws=9", "--min=9", "--seed=9"])
def test_what_would_do_nothing_is_refused(quick: Quick, option: str) -> None:
    said = f"{option.partition('=')[0]} does nothing to "
    refused(quick("--pid", 1, option), said + "a process that runs already")
    if option not in ("--lib=system", "--env=A=1"):
        refused(quick(option, "--", "true"), said + "a command")


def test_an_interrupted_soak_keeps_its_epochs(own: Stand, out: Path) -> None:
    sleeper = (sys.executable, "-c", SLEEPY.format(60))
    done = own.interrupted(
        lambda: out.exists() and out.read_text().count("\n") >= 30,
        *("soak", "--epoch-sec", "0.05", "--out", out, "--", *sleeper),
    )
    kept = f"{out} keeps the epochs so far, nothing was recorded"
    refused(done, f"hakmem: interrupted: {kept}\n", status=130)
    done = ran(own.call("soak", "analyze", out))
    assert "did not reach its end" in done.stdout


def test_analyze_reads_any_soak(own: Stand, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    lines = [f"{i},{i}.5,{2.5e6 + 1000 * (i % 2)},{1024 * (10 + i)}" for i in range(80)]
    file.write_text("\n".join(["epoch,t_s,ops_per_s,rss_kb", *lines]) + "\n")
    done = ran(own.call("soak", "analyze", file), 1)  # its memory grows by 1 MiB with each epoch
    assert re.search(r"^p5 +2\.50 *$", done.stdout, re.MULTILINE)
    found = json.loads(own.call("soak", "analyze", "--json", file).stdout)
    assert found["drift"]["rss_kb"]["per_run"] == pytest.approx(80 * 1024)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot read {file}: No such file or directory\n"),
        (b"\xff\xfe", "{file}: no text in UTF-8"),
        (b"nothing here\n", "{file}: "),
    ],
)
def test_what_is_no_soak_is_one_clear_line(
    own: Stand, tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "x.csv"
    if content is not None:
        file.write_bytes(content)
    refused(own.call("soak", "analyze", file), why.format(file=file))


def test_statistics_line_is_the_last_and_the_budget_counts_calls_of_all_kinds() -> None:
    text = "x\n[SS_OS_STATS] alloc=9 calls=9 pid=1\n[SS_OS_STATS] alloc=1 madvise=4 calls=7 pid=2\n"
    assert inside.os_calls(text) == 7
    assert inside.os_calls("[SS_OS_STATS] alloc=1 free=2 madvise=3\n") is None, "not all kinds"
    assert inside.os_calls("nothing") is None


@pytest.mark.built
def test_the_benchmark_prints_the_documented_columns_and_counts_live_bytes() -> None:
    program = project.bench_dir() / "soak_mixed"
    need_built(program)
    argv = [program, "--seconds=0.2", "--epoch-sec=0.05", "--ws=200000", "--min=512", "--max=512"]
    found = epochs_csv.parse(run(argv, project.root()).stdout)
    assert list(found.columns) == list(epochs_csv.COLUMNS)
    # About half of the slots are occupied, with blocks of 512 bytes each.
    assert found.columns["live_kb"][-1] == pytest.approx(200000 / 2 * 0.5, rel=0.1)
    assert (found.columns["committed_kb"] > found.columns["live_kb"]).all()
    assert (found.columns["rss_kb"] > found.columns["live_kb"]).all()
