"""An error gives one clear message and a status other than 0, and leaves no half-written file.

These tests go through the whole command line and look at its messages; the causes are tested with
the parts that they come from.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hakmem import project
from hakmem.conformance import cases
from hakmem.conformance.cases import Case
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify
from standing import MATRIX, Stand, ended, need, ran, refused, script, until

SHORT = ("--max-blocks", 8, "--min-seconds", 0)
COST = (*SHORT, "--metric", "regex:cost=([0-9.]+)", "--", "sh", "-c", "echo cost=${COST:-100}")


def whole(folder: Path) -> None:
    """The ledger verifies, and no temporary file is left in its folder."""
    problems = verify(Ledger(folder)).problems
    assert not problems, problems
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]


def of_scripts(own: Stand, folder: Path, text: str) -> Stand:
    """A copy of the build in `folder`, each program of which is this shell script."""
    made = own.elsewhere(folder, benches=True)
    for path in (made.folder / "bench").iterdir():
        if path.suffix != ".so":
            path.unlink()
            script(path, text)
    return made


# ---- what is not there ----


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(("comprae",), "'compare'"), (("ledger", "lst"), "'list'"), (("dmeo",), "'demo'")],
)
def test_an_unknown_command_names_the_nearest(
    own: Stand, arguments: tuple[str, ...], nearest: str
) -> None:
    done = ran(own.run(*arguments), 2)
    assert f"No such command '{arguments[-1]}'. Did you mean {nearest}" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_has_not_is_shown_as_its_number(own: Stand, encoding: str) -> None:
    own.ledger.append("matrix", {"title": "modes " * 30})
    done = ran(own.run("ledger", "list", COLUMNS="80", PYTHONIOENCODING=encoding))
    assert "\\u2026" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [("run", "--", "true"), ("compare", "--", "true"), ("soak",)])
def test_a_library_that_was_never_built_says_how(
    own: Stand, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    refused(own.call(*arguments, LAB_BUILD_DIR=str(tmp_path)), "run `make build` first")


@pytest.mark.parametrize(
    "arguments", [("baseline",), ("compare", "--bench", "prodcons", "--rival", "system")]
)
def test_a_benchmark_that_was_never_built_says_how(
    own: Stand, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "libhakmem.so").symlink_to(own.library)
    done = own.call(*arguments, LAB_BUILD_DIR=str(tmp_path))
    refused(done, f"not found: {tmp_path}/bench/bench_", "run `make build` first")


def test_without_perf_cycles_are_refused_and_not_replaced(own: Stand, tmp_path: Path) -> None:
    arguments = ("ab", "--b", "X=1", "--bench", "prodcons", "--metric", "cycles")
    done = own.run(*arguments, PATH=str(tmp_path))
    assert "user cycles cannot be read: " in done.stderr
    refused(done, "perf is not installed: apt-get install linux-perf; take --metric cpu")


# ---- what would have no effect ----


OWN_COMMAND = [
    *(("compare", "--rival", "system"), ("ab", "--b", "X=1"), ("soak",), ("hotpath",)),
    ("bisect", "HEAD~1", "HEAD"),
]


@pytest.mark.parametrize("arguments", OWN_COMMAND, ids=" ".join)
def test_what_is_on_standard_input_is_not_dropped_unsaid(
    own: Stand, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "big.txt").write_text("x\n")
    within = ("sh", "-c", f'exec "$@" <{tmp_path}/big.txt', "sh")
    done = own.run(*arguments, "--", "touch", tmp_path / "ran", within=within)
    refused(done, "there is something on standard input", "sh -c 'touch … <FILE'", "</dev/null")
    assert not (tmp_path / "ran").exists()


# ---- the ledger ----


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def not_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\xff\n")


def one_edited_byte(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"value":1', b'"value":2', 1))


@pytest.mark.parametrize(
    "arguments",
    [
        *(("soak",), ("soak", "--", "true"), ("report",), ("matrix", "lean"), ("demo",)),
        ("report", "no-record"),  # the path is checked before the slow work
        ("compare", "--page", "--bench", "burst"),
    ],
)
def test_results_go_into_a_folder_that_is_there(
    own: Stand, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    name, *rest = arguments
    option = rest.pop(0) if rest[:1] == ["--page"] else "--out"
    where = tmp_path / "gone" / "deeper" / "x"
    done = own.call(name, option, where, *rest)
    refused(done, f"{option} {where}: there is no folder {where.parent}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("/proc/x", "nothing can be written there: "),
        ("{tmp}", "that is a folder"),
        ("{tmp}/" + 300 * "x", "nothing can be written there: File name too long"),
    ],
)
@pytest.mark.parametrize("name", ["soak", "record", "heap"])
def test_no_program_runs_whose_results_could_not_be_kept(
    own: Stand, tmp_path: Path, name: str, where: str, said: str
) -> None:
    where = where.format(tmp=tmp_path)
    done = own.call(name, "--out", where, "--", "touch", tmp_path / "it-ran")
    refused(done, f"--out {where}: {said}")
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    link, page = tmp_path / "link", tmp_path / "deeper" / "page"
    page.parent.mkdir()
    link.symlink_to(page)
    project.write_atomically(project.place(link, link), "x")
    assert link.readlink() == page
    assert page.read_text() == "x"


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LabError, match="pipe: that is no ordinary file: name one"):
        project.place(tmp_path / "pipe", tmp_path)


READING = [("list",), ("show", "{id}"), ("query", "kind=soak"), ("cite", "{id}/x")]


SPOILT = [
    (a_directory, "cannot read the ledger"),
    (not_text, "line 1: not a record"),
    (one_edited_byte, "was changed"),
]


@pytest.mark.parametrize(("spoil", "why"), SPOILT)
@pytest.mark.parametrize("arguments", READING)
def test_a_ledger_that_cannot_be_trusted_is_not_read(
    own: Stand, spoil: Callable[[Path], None], why: str, arguments: tuple[str, ...]
) -> None:
    ledger = own.ledger
    id = ledger.append("soak", {"metrics": {"x": {"value": 1, "unit": "s"}}}).id
    (file,) = ledger.files()
    spoil(file)
    words = tuple(word.format(id=id) for word in arguments)
    refused(own.call("ledger", *words), str(file), why)
    assert own.call("ledger", "verify").returncode == 1


@pytest.mark.parametrize("spoil", [spoil for spoil, _ in SPOILT])
def test_nothing_is_added_to_a_ledger_that_cannot_be_trusted(
    own: Stand, spoil: Callable[[Path], None]
) -> None:
    ledger = own.ledger
    ledger.append("soak", {"metrics": {"x": {"value": 1, "unit": "s"}}})
    (file,) = ledger.files()
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    refused(own.call("ab", "--b", "COST=105", *COST, LAB_LEDGER_HOST=file.stem), str(file))
    with pytest.raises(LabError, match="nothing was recorded"):
        ledger.append("soak", {})
    assert before == (file.read_bytes() if file.is_file() else None)


def test_a_ledger_without_permission_is_named(own: Stand) -> None:
    if os.geteuid() == 0:  # root may read everything: become another user
        need("setpriv")
    # Not in pytest's own folder, which other users cannot enter.
    with tempfile.TemporaryDirectory(prefix="hakmem-test-") as folder:
        Path(folder).chmod(0o755)
        ledger = Ledger(Path(folder))
        ledger.append("soak", {})
        (file,) = ledger.files()
        file.chmod(0)
        somebody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        within = somebody if os.geteuid() == 0 else ()
        done = own.run("ledger", "list", within=within, LAB_LEDGER=folder)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("another user cannot read the lab here")
    refused(done, str(file), "Permission denied")


@pytest.mark.parametrize(
    "call",
    [
        *(("compare", "--rival", "system"), ("ab", "--b", "X=1"), ("compare", "--bench", "burst")),
        *(("bisect", "HEAD~1", "HEAD"), ("soak", "--seconds", "1"), ("hotpath", "--repeat", "1")),
        *(("matrix", "lean", "--scale", "1e-6"), ("conformance", "--case", "errno_kept")),
        ("replay", "bench/traces/jq.hktrace"),
    ],
    ids=" ".join,
)
def test_nothing_is_measured_for_a_ledger_that_cannot_be_written(
    own: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    mark = tmp_path / "ran"
    marking = of_scripts(own, tmp_path / "build", f"touch {mark}")
    case = script(tmp_path / "case", f"touch {mark}")
    only = [Case("errno_kept", "It is promised.", case, case)]
    monkeypatch.setattr(cases, "all_cases", lambda: only)
    # These commands run programs of the build; the others run the program that they are given.
    alone = "--bench" in call or call[0] in ("matrix", "conformance", "replay")
    words = call if alone else (*call, "--", "touch", mark)
    done = marking.call(*words, LAB_LEDGER=str(tmp_path / "file" / "led"))
    refused(done, f"cannot write into {tmp_path / 'file'}; --no-record measures all the same")
    assert done.stdout == ""
    assert not mark.exists()


@pytest.mark.parametrize("columns", [80, 140])
def test_results_are_listed_one_line_each(own: Stand, columns: int) -> None:
    ledger = own.ledger
    ledger.append("sample", {"cell": "A", "track": "job"})
    ledger.append("matrix", {"title": "modes " * 30, "verdict": "NO-GO", "why": "too slow"})
    done = own.call("ledger", "list", COLUMNS=str(columns))
    title, line, said = done.stdout.splitlines()
    assert len(line) == columns
    assert "matrix" in line
    assert "NO-GO: modes modes" in line
    assert ("host" in title) is (columns == 140)
    assert said == "1 of 1 records; 1 of other kinds are not shown (--all, --kind)"
    assert "A on job" in own.call("ledger", "list", "--all").stdout
    other = own.run("ledger", "list", "--kind", "nosuch")
    assert (other.returncode, other.stdout) == (2, "")
    assert "no record of the kind nosuch; there are: matrix, sample" in other.stderr


# ---- a disk that is full ----


def test_a_ledger_that_may_not_grow_keeps_what_it_had(own: Stand) -> None:
    """A full disk at some write, of raw output or of a record: the ledger is as before."""
    need("prlimit")
    ledger = own.ledger
    first = ledger.append("soak", {"fill": "x" * 5000})
    before = [file.read_bytes() for file in ledger.files()]
    done = own.run("ab", "--b", "COST=105", *COST, within=("prlimit", "--fsize=6500"))
    refused(done, "nothing was recorded: cannot write", "File too large")
    assert [file.read_bytes() for file in ledger.files()] == before
    whole(own.evidence)
    assert ledger.append("soak", {}).prev == first.hash


def test_a_page_that_may_not_be_written_whole_is_not_there(own: Stand, tmp_path: Path) -> None:
    need("prlimit")
    short = (*SHORT, "--rival", "system", "--no-record")
    arguments = ("compare", "--bench", "prodcons", *short, "--page", tmp_path / "report.html")
    done = own.run(*arguments, within=("prlimit", "--fsize=6500"))
    refused(done, "cannot write", "File too large")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("ledger", "list"), ("--help",)])
def test_an_output_that_cannot_be_written_is_an_error(
    own: Stand, arguments: tuple[str, ...]
) -> None:
    within = ("sh", "-c", 'exec "$@" >/dev/full', "sh")
    # Short output stays in Python's buffer until the end, so the write fails only then.
    done = own.run(*arguments, within=within, PYTHONUNBUFFERED="")
    refused(done, "No space left on device: free some space and repeat", status=1)


def test_a_reader_that_leaves_early_is_no_error_message(own: Stand) -> None:
    ledger = own.ledger
    for number in range(200):
        ledger.append("soak", {"question": f"number {number} " + "x" * 400})
    within = ("sh", "-c", '"$@" | true', "sh")
    done = own.run("ledger", "list", "--last", 200, within=within, COLUMNS="500")
    assert (done.stdout, done.stderr) == ("", "")


# ---- Ctrl-C ----


@pytest.fixture
def hanging(own: Stand, tmp_path: Path) -> Iterator[Stand]:
    """A build whose programs append their process number to tmp_path/mark and hang."""
    text = f"echo $$ >> {tmp_path}/mark\nexec sleep 600"
    hanging = of_scripts(own, tmp_path / "build", text)
    script(tmp_path / "tools" / "hang", text)
    (tmp_path / "m.toml").write_text(MATRIX)
    yield hanging
    for pid in marked(tmp_path):
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)


def marked(tmp_path: Path) -> list[int]:
    mark = tmp_path / "mark"
    return [int(line) for line in mark.read_text().split()] if mark.exists() else []


LONG = {
    "compare": ("compare", "--", "{tools}/hang"),
    "baseline": ("baseline",),
    "soak": ("soak", "--out", "{tmp}/a.csv"),
    "matrix": ("matrix", "{tmp}/m.toml", "--out", "{out}"),
    "suite": ("compare", "--bench", "prodcons", "--page", "{tmp}/page.html"),
    "demo": ("demo", "--out", "{out}"),
    "audit": ("audit",),
}


# These commands run another program, which hangs instead.
OF_OTHERS = {"demo": "gcc", "audit": "git"}


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_is_one_line_and_leaves_no_half(hanging: Stand, tmp_path: Path, name: str) -> None:
    places = {"tmp": tmp_path, "out": tmp_path / "out", "tools": tmp_path / "tools"}
    more = {}
    if name in OF_OTHERS:
        shutil.copy(tmp_path / "tools" / "hang", tmp_path / "tools" / OF_OTHERS[name])
        more["PATH"] = f"{tmp_path}/tools:{os.environ['PATH']}"
    command = (word.format(**places) for word in LONG[name])
    done = hanging.under(**more).interrupted(lambda: marked(tmp_path), *command)
    status, said = done.returncode, done.stderr
    lines = [line for line in said.splitlines() if line.startswith("hakmem: ")]
    assert marked(tmp_path), said
    assert status == 130, said
    assert "Traceback" not in said
    assert said.count("\n") == len(lines) == 1, said
    assert lines[0].startswith("hakmem: interrupted"), said
    assert until(lambda: all(map(ended, marked(tmp_path))))
    assert not hanging.evidence.exists()
    assert not (tmp_path / "page.html").exists()
    left = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert {p.name for p in left} <= {"state.json", "a.csv", "1-base.csv", "1-x.csv"}
