"""The real programs that hakmem is compared on: their catalogue, reproducible inputs, judged runs.

Small scripts stand in for the programs, so that no package is needed.
"""

import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.paired import readings, recording, work
from hakmem.paired.blocks import Track
from hakmem.paired.cells import Cell
from hakmem.process.library import Library, hakmem, system
from hakmem.process.sample import Process, Sample, take, take_shown
from hakmem.programs import PROGRAMS, Program, Ready, find, inputs, prepare, ready as ready_module
from hakmem.programs.catalogue import PYTHON, WHEELS, Maker
from hakmem.programs.ready import make_inputs
from standing import Stand

Toy = Callable[..., Ready]


def script(name: str, text: str) -> Maker:
    def maker(folder: Path, rng: random.Random) -> None:
        (folder / name).write_text(text)

    return maker


def run(process: Process) -> Sample:
    return take(Sample("toy"), process)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """Makes a shell or Python script ready to run as a program of the catalogue."""

    def make(sh: str = "", python: str = "", **more: object) -> Ready:
        makers = (script("toy.sh", sh), script("toy.py", python), script("requests", "hello\n"))
        argv = (PYTHON, "-I", "-S", "in/toy.py") if python else ("sh", "in/toy.sh")
        program = Program("toy", "a toy", argv, makers=makers, version=("-c", ""))
        return prepare(replace(program, **more), tmp_path)

    return make


def test_the_catalogue_is_sane() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(names) >= 15
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9+-]+", name) for name in names)
    packages = (project.root() / "tools" / "apt-packages.txt").read_text()
    listed = {tuple(line.split()) for line in packages.splitlines()}
    for program in PROGRAMS:
        if program.package:
            assert ("compare", program.package, program.command or program.argv[0]) in listed
        else:
            assert program.wheel or program.argv[0] == PYTHON
        assert all((inputs.SCRIPTS / name).is_file() for name in program.scripts)
        assert bool(program.load) >= bool(program.quiet_s)


def test_programs_are_found_by_name_in_the_tables_order() -> None:
    assert find() == list(PROGRAMS)
    assert [program.name for program in find(["jq", "redis"])] == ["redis", "jq"]
    with pytest.raises(LabError, match=r"unknown program: emacs; known: redis"):
        find(["emacs"])


@pytest.mark.parametrize("name", ["perl", "gcc", "g++", "jq", "z3", "ghostscript", "graphviz"])
def test_inputs_are_the_same_each_time(tmp_path: Path, name: str) -> None:
    (program,) = find([name])
    found = []
    for side in "ab":
        folder = tmp_path / side
        folder.mkdir()
        make_inputs(program, folder)
        found.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert found[0] == found[1]
    assert all(found[0].values())


def test_inputs_are_made_once_and_again_after_a_change(toy: Toy) -> None:
    made = toy("echo 42")
    before = (made.folder / "made.json").stat().st_mtime_ns
    assert (toy("echo 43").folder / "made.json").stat().st_mtime_ns == before
    again = toy("echo 44", environment={"A": "B"})
    assert again.expected != made.expected
    assert again.made != made.made


def test_a_wrong_result_is_a_failed_sample(toy: Toy) -> None:
    ready = toy('echo "${ANSWER:-42}"')
    assert run(ready.process(system(), {})).error is None
    wrong = run(ready.process(system(), {"ANSWER": "43"}))
    assert wrong.error.startswith("wrong result: ")
    failed = run(
        toy("exit ${ANSWER:-0}", environment={"X": "1"}).process(system(), {"ANSWER": "7"})
    )
    assert failed.error == "status 7"


def test_a_result_that_is_not_the_same_each_time_is_refused(toy: Toy) -> None:
    with pytest.raises(LabError, match="not the same each time"):
        toy("echo $$")


def test_what_cannot_be_installed_is_left_out_with_the_reason(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hakmem.programs.ready._install_packages", lambda: "no network")
    with pytest.raises(LabError, match=r"toy: no-such is not here, nor could nosuch .* no network"):
        toy(argv=("no-such",), package="nosuch")


def test_a_wheel_that_is_not_there_is_not_compiled_and_said(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(argv)
        failed = "install" in argv
        why = "Not found (from versions: 1, 2)\nNo match\n" * failed
        return subprocess.CompletedProcess(argv, int(failed), "1.9", why)

    asked: list[Sequence[str]] = []
    monkeypatch.setattr(ready_module, "inputs_dir", lambda: tmp_path)
    monkeypatch.setattr(ready_module, "_said", said)
    why = (
        r"toy: none-such==2\.0 could not .* a wheel .* Python 3\.\d+\? .* said: Not found No match"
    )
    with pytest.raises(LabError, match=why):
        toy(wheel="none-such==2.0", command=WHEELS)
    assert "--only-binary=:all:" in asked[-1]


def test_the_system_is_the_c_librarys_allocator_whatever_a_program_is_linked_with(toy: Toy) -> None:
    environment = toy("echo").process(system(), {}).environment
    assert environment["LD_PRELOAD"] == "libc.so.6"
    other = Library("other", Path("/o.so"), "1", "given")
    assert "LD_PRELOAD" not in toy("echo").process(other, {}).environment


# Holds a block until the launcher, its parent's parent, has read its memory before and after a
# pause, and writes a lower bound: its memory times the seconds of the pause.
HOLDER = """
import os, re, time
def of(pid, name):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search("^%s:[^0-9]*([0-9]+)" % name, file.read(), re.M)[1])
launcher = of(os.getppid(), "PPid")
def read_again():
    # It waits between its readings: at the second wait from now it has read.
    waits = of(launcher, "voluntary_ctxt_switches")
    while of(launcher, "voluntary_ctxt_switches") < waits + 2:
        time.sleep(0.01)
block = bytearray(b"x") * (100 << 20)
read_again()
begin = time.perf_counter()
time.sleep(0.5)
seconds = time.perf_counter() - begin
held = of(os.getpid(), "VmRSS")
read_again()
with open("own", "w") as file:
    print(held * seconds * 1024e-6, file=file)
"""


def test_memory_over_time_is_that_of_all_descendants(toy: Toy) -> None:
    told: list[float] = []

    def own_figure(folder: Path, output: bytes) -> str:
        told.append(float((folder / "own").read_text()))
        return ""

    parent = f"{sys.executable} -I -S -c '{HOLDER}' && true"
    sample = run(toy(parent, outcome=own_figure).process(system(), {}))
    assert sample.error is None
    assert told[-1] < sample.memory_mb_s < sample.sum_peak_kb * sample.wall_s * 1024e-6
    assert sample.sum_peak_kb > sample.max_rss_kb > 100 << 10
    assert sample.quiet_kb is None


SERVER = r"""
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
block = bytearray(b"x") * (80 << 20)
kept = bytearray(b"x") * (40 << 20)
listening = socket.socket(socket.AF_UNIX)
listening.bind("socket")
listening.listen()
link = listening.accept()[0]
asked = b""
while not asked.endswith(b"end\r\n"):
    asked += link.recv(100)
assert asked.startswith(b"hello\n")
del block
if "CRASH" in os.environ:
    os.abort()
link.sendall(os.environ.get("ANSWER", "+OK").encode() + b"\r\n$3\r\nend\r\n")
while True:
    signal.pause()
"""
LOAD = (PYTHON, "-I", "-S", "in/load.py", "socket", "in/requests")


def server(toy: Toy, **more: object) -> Ready:
    return toy(python=SERVER, scripts=("load.py",), load=LOAD, quiet_s=0.3, **more)


def test_a_server_is_measured_and_its_load_is_not(toy: Toy) -> None:
    sample = run(server(toy).process(system(), {}))
    assert sample.error is None
    assert 40 << 10 < sample.quiet_kb < 70 << 10
    assert sample.sum_peak_kb is not None
    assert 120 << 10 < sample.max_rss_kb < 150 << 10
    assert readings.choose("quiet", None).value(sample) == sample.quiet_kb / 1024
    assert readings.choose("mbs", None).value(sample) == sample.memory_mb_s
    assert readings.choose("faults", None).value(sample) >= 120 << 8


def test_a_server_that_answers_wrongly_or_dies_is_a_failed_sample(toy: Toy) -> None:
    ready = server(toy)
    error = run(ready.process(system(), {"ANSWER": "-NO"})).error
    assert error.startswith("wrong result: ")
    error = run(ready.process(system(), {"CRASH": "1"})).error
    assert error.startswith("killed by SIGABRT")


def test_a_load_has_nothing_of_the_cells_and_fails_the_sample(toy: Toy) -> None:
    asleep = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(0))\n"
    asleep += "open('ready', 'w').close()\nsignal.pause()"
    waits = "import os, sys, time\nwhile not os.path.exists('ready'): time.sleep(0.01)\n"
    says = waits + "sys.exit(os.environ.get('ANSWER'))"
    ready = toy(python=asleep, load=(PYTHON, "-c", says))
    assert run(ready.process(system(), {"ANSWER": "the cell's"})).error is None
    fails = (PYTHON, "-c", waits + "1/0")
    failing = replace(ready.program, load=fails)
    sample = run(replace(ready, program=failing).process(system(), {}))
    assert sample.error == "its load ended: status 1: ZeroDivisionError: division by zero"
    assert sample.status == 0


def test_the_process_that_works_must_be_served(toy: Toy, stand: Stand) -> None:
    ready = toy("/usr/bin/env true\n/usr/bin/env true")
    ours = hakmem(stand.library)
    other = Library("other", stand.silent, "0", "given")
    for worker, fine in (("env", True), ("cc1", False)):
        named = replace(ready, program=replace(ready.program, worker=worker))
        proven = run(named.process(ours, {}))
        shown = take_shown(Sample("toy"), named.process(other, {}))
        if fine:
            assert (proven.error, shown.error) == (None, None)
        else:
            assert proven.error.startswith("cc1: hakmem was intended, but the process did not say")
            assert "other was not loaded into cc1" in shown.error


def test_work_of_a_real_program_makes_its_process(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = toy("echo 42")
    monkeypatch.setattr(work, "prepare", lambda program: ready)
    job = work.real(ready.program)
    process = job.process(Cell("a", system(), {"A": "B"}), 7, counted=True)
    assert (job.name, process.padding, process.environment["A"]) == ("toy", 7, "B")
    track = Track("toy", "target", readings.choose("cpu", None), {"A": job})
    assert recording.track_entry(track)["works"]["toy"]["definition"] == ready.made
    assert run(process).error is None
