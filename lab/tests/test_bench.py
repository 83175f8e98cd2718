"""`hakmem bench` over stand-ins for the benchmarks, with planted failures."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.process import lock
from hakmem.process.order import MAX_PADDING, rounds
from hakmem.process.sample import last_json_line, parse_perf
from hakmem.suite import SUITE
from standing import Stand


def bench(stand: Stand, out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return stand.run("bench", "--lib", "system", "--seed", 5, "--out", out, *arguments)


def test_record_report_and_table(stand: Stand, tmp_path: Path) -> None:
    done = bench(stand, tmp_path, "--rounds", 3, "prodcons", "random_mixed_400", "startup")
    assert done.returncode == 0, done.stderr
    assert "seed 5" in done.stdout
    record = json.loads((tmp_path / "bench.json").read_text())
    samples = record["samples"]
    # Three commands under two libraries, and three references, each in three rounds.
    assert len(samples) == 3 * (3 * 2 + 3)
    for sample in samples:
        assert sample["error"] is None
        assert (sample["proof"] is not None) == (sample["library"] == "hakmem")
    assert len({sample["padding"] for sample in samples}) > 10
    assert record["host"]["kernel"]
    assert record["libraries"][0]["sha256"]
    assert "hakmem against its rivals" in (tmp_path / "report.html").read_text()


def test_a_failing_benchmark_is_an_error_in_the_table(stand: Stand, tmp_path: Path) -> None:
    done = bench(stand, tmp_path, "--rounds", 3, "huge", "large", "prodcons")
    assert done.returncode == 1
    assert "huge, hakmem: status 9: planted failure (2 of 2 samples)" in done.stdout
    assert "large, system: printed no JSON line" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "What failed" in page
    assert "planted failure" in page


def test_hakmem_without_proof_is_an_error(stand: Stand, tmp_path: Path) -> None:
    done = bench(stand, tmp_path, "--rounds", 1, "--lib", f"hakmem={stand.silent}", "prodcons")
    assert done.returncode == 1
    assert "no proof that hakmem served malloc" in done.stdout


def test_a_rival_that_is_hakmem_is_an_error(stand: Stand, tmp_path: Path) -> None:
    done = bench(stand, tmp_path, "--rounds", 1, "--lib", f"twin={stand.library}", "prodcons")
    assert done.returncode == 1
    assert "prodcons, twin: hakmem was loaded although it is not under test" in done.stdout


def test_a_library_that_serves_nothing_is_refused(stand: Stand, tmp_path: Path) -> None:
    fake = tmp_path / "fake.so"
    source = tmp_path / "fake.c"
    source.write_text("int nothing;")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(fake), str(source)], check=True)
    done = bench(stand, tmp_path, "--rounds", 1, "--lib", f"fake={fake}", "prodcons")
    assert "not measured: fake: malloc binds to" in done.stdout
    assert "was not measured" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "known"),
    [(("no_such",), "larson_16"), (("--lib", "no_such"), "system")],
)
def test_unknown_names_list_the_known(
    stand: Stand, tmp_path: Path, arguments: tuple[str, ...], known: str
) -> None:
    done = bench(stand, tmp_path / "out", *arguments)
    assert done.returncode == 2
    assert "no_such" in done.stderr
    assert known in done.stderr
    assert not (tmp_path / "out").exists()


def test_missing_benchmarks_say_make_build(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "libhakmem.so").symlink_to(stand.library)
    done = stand.run("bench", "--lib", "system", "prodcons", LAB_BUILD_DIR=str(tmp_path))
    assert done.returncode == 2
    assert "bench_prodcons" in done.stderr
    assert "make build" in done.stderr


def test_interrupt_leaves_no_output_and_no_process(stand: Stand, tmp_path: Path) -> None:
    running = subprocess.Popen(
        stand.command("bench", "--lib", "system", "--out", tmp_path, "burst"),
        env=stand.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The stand-in for burst waits for ever, so it is there to be seen.
    give_up = time.monotonic() + 60
    while not (found := children(running.pid, "bench_burst")) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert found
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stderr == "hakmem: interrupted: nothing was written\n"
    assert list(tmp_path.iterdir()) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


def children(parent: int, name: str) -> list[int]:
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except OSError:
            continue
        if head.endswith(f"({name}") and int(tail.split()[1]) == parent:
            pids.append(int(stat.parent.name))
    return pids


def test_only_one_benchmark_at_a_time(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_LOCK_FILE", stand.environment["LAB_LOCK_FILE"])
    with lock.host_lock():
        done = bench(stand, tmp_path, "prodcons")
    assert done.returncode == 2
    assert f"another benchmark runs on this host (process {os.getpid()})" in done.stderr


def test_every_entry_of_the_suite_is_built() -> None:
    folder = project.root() / "build" / "bench"
    if not folder.is_dir():
        pytest.skip("nothing is built: run `make build`")
    programs = {command.executable for command in SUITE.commands}
    assert [name for name in sorted(programs) if not os.access(folder / name, os.X_OK)] == []


@pytest.mark.parametrize("command", SUITE.commands, ids=lambda command: command.name)
def test_the_real_benchmark_knows_its_options(command: object) -> None:
    program = project.root() / "build" / "bench" / command.executable
    if not program.is_file():
        pytest.skip(f"{command.executable} is not built: run `make build`")
    argv = [str(program), *command.argv(1)[1:], "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_order_is_seeded_shuffled_and_complete() -> None:
    commands, names = SUITE.commands[:4], ["hakmem", "system", "rival"]
    first, again, other = (
        [[t.cell for t in tasks] for tasks in rounds(commands, names, seed, 3)]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len({tuple(cells) for cells in first}) == 3
    tasks = (t for part in rounds(commands, names, 1, 3) for t in part)
    assert all(0 <= t.padding <= MAX_PADDING for t in tasks)
    assert all(sorted(cells) == sorted(first[0]) for cells in first)


def test_families_patterns_and_figures_select() -> None:
    assert {f.name for f in SUITE.select(["larson"]).figures} == {
        "larson_1",
        "larson_2",
        "larson_16",
        "larson_generations",
    }
    assert [c.name for c in SUITE.select(["*_process"]).commands] == ["random_mixed_100000"]
    with pytest.raises(LabError, match="known: aligned"):
        SUITE.select(["lars"])


def test_parsers_read_what_the_tools_write() -> None:
    text = "# started on x\n\n1234,,cycles:u,99,100.00,,\n<not supported>,,instructions:u,0,100,,\n"
    assert parse_perf(text) == {"cycles:u": 1234}
    assert last_json_line('Throughput = 1\n{"bench":"x","ops":1}\n') == {"bench": "x", "ops": 1}
    assert last_json_line('{"bench":"x"') is None
    assert last_json_line('{"other":1}') is None
