"""What goes wrong is one clear message and a status that is not 0, and leaves nothing half-written.

Each through the real command line, in a process of its own: the messages of the whole are the
subject here, the reasons for them belong to the tests of the parts.
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify
from standing import Stand, compile_c, ended, script, until

Done = subprocess.CompletedProcess[str]
COST = ("--metric", "regex:cost=([0-9.]+)", "--", "sh", "-c", "echo cost=${COST:-100}")


@pytest.fixture
def own(stand: Stand, tmp_path: Path) -> Stand:
    """The stand-in build with a ledger of its own."""
    return stand.under(LAB_LEDGER=tmp_path / "led")


def one_message(done: Done, *words: str) -> None:
    assert done.returncode not in (0, -signal.SIGINT), done.stdout
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("hakmem: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def whole(folder: Path) -> None:
    """The ledger in the folder is as it was written, and no file beside it was left unfinished."""
    problems = verify(Ledger(folder)).problems
    assert not problems, problems
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]


# ---- what is not there ----


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(("comprae",), "'compare'"), (("ledger", "lst"), "'list'"), (("dmeo",), "'demo'")],
)
def test_an_unknown_command_names_the_nearest(
    own: Stand, arguments: tuple[str, ...], nearest: str
) -> None:
    done = own.run(*arguments)
    assert done.returncode == 2
    assert f"No such command '{arguments[-1]}'. Did you mean {nearest}" in done.stderr


MISSING = [
    ("run", "--lib", "/no/such.so", "--", "true"),
    ("config", "--lib", "/no/such.so"),
    ("demo", "--lib", "/no/such.so"),
    ("ab", "--b", "lib=/no/such.so", "--bench", "prodcons"),
    ("compare", "--lib", "/no/such.so", "--", "true"),
    ("soak", "--lib", "/no/such.so"),
]


@pytest.mark.parametrize("arguments", MISSING)
def test_a_missing_library_is_named(own: Stand, arguments: tuple[str, ...]) -> None:
    one_message(own.call(*arguments), "not found: /no/such.so (check the path)")


@pytest.mark.parametrize("arguments", [("run", "--", "true"), ("compare", "--", "true"), ("soak",)])
def test_a_library_that_was_never_built_says_how(
    own: Stand, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    one_message(own.call(*arguments, LAB_BUILD_DIR=str(tmp_path)), "run `make build` first")


def test_without_perf_cycles_are_refused_and_not_replaced(own: Stand, tmp_path: Path) -> None:
    arguments = ("ab", "--b", "X=1", "--bench", "prodcons", "--metric", "cycles")
    done = own.run(*arguments, PATH=str(tmp_path))
    assert "user cycles cannot be read: " in done.stderr
    one_message(done, "perf is not installed: apt-get install linux-perf; take --metric cpu")


def test_without_the_peer_it_is_said_which_are_here(own: Stand) -> None:
    done = own.call("compare", "--rival", "no-such-peer", "--", "true")
    one_message(done, "unknown library: no-such-peer; known: hakmem, hakmem-checked, system")


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
    assert done.returncode == 2
    one_message(done, f"{option} {where}: there is no folder {where.parent}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "said"),
    [("/proc/x", "nothing can be written there: "), ("{tmp}", "that is a folder")],
)
@pytest.mark.parametrize("name", ["soak", "record", "heap"])
def test_no_program_runs_whose_results_could_not_be_kept(
    own: Stand, tmp_path: Path, name: str, where: str, said: str
) -> None:
    where = where.format(tmp=tmp_path)
    done = own.call(name, "--out", where, "--", "touch", tmp_path / "it-ran")
    assert done.returncode == 2
    one_message(done, f"--out {where}: {said}")
    assert list(tmp_path.iterdir()) == []


READING = [
    ("list",),
    ("show", "{id}"),
    ("query", "kind=soak"),
    ("cite", "{id}/x"),
]


@pytest.mark.parametrize("spoil", [a_directory, not_text, one_edited_byte])
@pytest.mark.parametrize("arguments", READING)
def test_a_ledger_that_cannot_be_trusted_is_not_read(
    own: Stand, tmp_path: Path, spoil: Callable[[Path], None], arguments: tuple[str, ...]
) -> None:
    ledger = Ledger(tmp_path / "led")
    id = ledger.append("soak", {"metrics": {"x": {"value": 1, "unit": "s"}}}).id
    (file,) = ledger.files()
    spoil(file)
    words = tuple(word.format(id=id) for word in arguments)
    one_message(own.call("ledger", *words), str(file))
    assert own.call("ledger", "verify").returncode == 1


@pytest.mark.parametrize("spoil", [a_directory, not_text, one_edited_byte])
def test_nothing_is_added_to_a_ledger_that_cannot_be_trusted(
    own: Stand, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    ledger = Ledger(tmp_path / "led")
    ledger.append("soak", {"metrics": {"x": {"value": 1, "unit": "s"}}})
    (file,) = ledger.files()
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    one_message(own.call("ab", "--b", "COST=105", *COST, LAB_LEDGER_HOST=file.stem), str(file))
    assert before == (file.read_bytes() if file.is_file() else None)


def test_a_ledger_without_permission_is_named(own: Stand) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may read everything, and setpriv is not here to become somebody else")
    # Not in pytest's own folder, which is closed to others.
    with tempfile.TemporaryDirectory(prefix="hakmem-test-") as folder:
        Path(folder).chmod(0o755)
        ledger = Ledger(Path(folder))
        ledger.append("soak", {})
        (file,) = ledger.files()
        file.chmod(0)
        command = own.command("ledger", "list")
        if os.geteuid() == 0:
            somebody = ("--reuid=65534", "--regid=65534", "--clear-groups")
            command = ["setpriv", *somebody, *command]
        done = subprocess.run(
            command,
            env={**own.environment, "LAB_LEDGER": folder},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("another user cannot read the lab here")
    one_message(done, str(file), "Permission denied")


@pytest.mark.parametrize(
    "call",
    [
        *(("compare", "--rival", "system"), ("ab", "--b", "X=1"), ("compare", "--bench", "burst")),
        *(("bisect", "HEAD~1", "HEAD"), ("soak", "--seconds", "1"), ("hotpath", "--repeat", "1")),
        *(("matrix", "lean", "--scale", "1e-6"), ("conformance", "--case", "errno_kept")),
    ],
    ids=" ".join,
)
def test_nothing_is_measured_for_a_ledger_that_cannot_be_written(
    own: Stand, tmp_path: Path, call: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    ran = tmp_path / "ran"
    # These have work of their own; the others run what they are given.
    alone = "--bench" in call or call[0] in ("matrix", "conformance")
    words = call if alone else (*call, "--", "touch", ran)
    done = own.call(*words, LAB_LEDGER=str(tmp_path / "file" / "led"))
    one_message(done, f"cannot write into {tmp_path / 'file'}; --no-record measures all the same")
    assert done.stdout == ""
    assert not ran.exists()


@pytest.mark.parametrize("columns", [80, 140])
def test_results_are_listed_one_line_each(own: Stand, tmp_path: Path, columns: int) -> None:
    ledger = Ledger(tmp_path / "led")
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


def test_a_torn_last_line_is_reported_and_the_rest_read(own: Stand, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "led")
    id = ledger.append("soak", {}).id
    (file,) = ledger.files()
    with file.open("ab") as out:
        out.write(b'{"kind":"so')
    done = own.call("ledger", "list")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "the last line is torn" in done.stderr
    assert id in done.stdout


# ---- a disk that is full ----


def limited(own: Stand, most: int, *arguments: object) -> Done:
    """The command, whose files may not grow above `most` bytes; what fits is written before."""
    return subprocess.run(
        own.command(*arguments),
        env=own.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )


# From the raw output, which is stored first, to the last of the records.
@pytest.mark.parametrize("most", [6500])
def test_a_ledger_that_may_not_grow_keeps_what_it_had(
    own: Stand, tmp_path: Path, most: int
) -> None:
    ledger = Ledger(tmp_path / "led")
    ledger.append("soak", {"fill": "x" * (most - 1500)})
    before = [file.read_bytes() for file in ledger.files()]
    done = limited(own, most, "ab", "--b", "COST=105", *COST)
    one_message(done, "nothing was recorded: cannot write", "File too large")
    assert [file.read_bytes() for file in ledger.files()] == before
    whole(tmp_path / "led")


def on_full_disk(own: Stand, tmp_path: Path, kib: int, *arguments: object) -> Done:
    """The command with DISK a file system of `kib` KiB; what it holds then is in tmp_path/kept."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed: no small file system can be mounted")
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size="$1"k tmpfs "$2" || exit 99; d="$2"; k="$3"; shift 3; "$@"; s=$?; '
        'cp -a "$d" "$k"; exit $s'
    )
    words = [str(word).replace("DISK", str(disk)) for word in own.command(*arguments)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(kib), str(disk), str(kept), *words],
        env={**own.environment, "LAB_LEDGER": str(disk / "led"), "LAB_LEDGER_HOST": "here"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode in (1, 99) and not kept.exists():
        pytest.skip(f"no small file system can be mounted: {done.stderr.strip()}")
    return done


@pytest.mark.parametrize("kib", [8])
def test_a_full_disk_adds_nothing_to_the_ledger(own: Stand, tmp_path: Path, kib: int) -> None:
    done = on_full_disk(own, tmp_path, kib, "ab", "--b", "COST=105", *COST)
    one_message(done, "nothing was recorded: cannot write", "No space left on device")
    whole(tmp_path / "kept" / "led")
    assert not list(Ledger(tmp_path / "kept" / "led").records())


@pytest.mark.parametrize("kib", [8])
def test_a_full_disk_leaves_no_half_page(own: Stand, tmp_path: Path, kib: int) -> None:
    short = ("--rival", "system", "--max-blocks", 8, "--min-seconds", 0, "--no-record")
    arguments = ("compare", "--bench", "prodcons", *short, "--page", "DISK/report.html")
    done = on_full_disk(own, tmp_path, kib, *arguments)
    one_message(done, "cannot write", "No space left on device")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_full_disk_ends_a_soak_in_words(own: Stand, tmp_path: Path) -> None:
    compile_c("stub_soak.c", own.folder / "bench" / "soak_mixed")
    arguments = ("soak", "--seconds", 300, "--epoch-sec", 1, "--out", "DISK/a.csv")
    done = on_full_disk(own, tmp_path, 8, *arguments)
    one_message(done, "cannot write", "a.csv: No space left on device")


@pytest.mark.parametrize("arguments", [("ledger", "list"), ("--help",)])
def test_an_output_that_cannot_be_written_is_an_error(
    own: Stand, arguments: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            own.command(*arguments),
            env={**own.environment, "PYTHONUNBUFFERED": ""},  # what is short stays in the buffer
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    done.stdout = ""
    one_message(done, "No space left on device: free some space and repeat")


def test_a_reader_that_leaves_early_is_no_error_message(own: Stand, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "led")
    for number in range(200):
        ledger.append("soak", {"question": f"number {number} " + "x" * 400})
    shell = subprocess.run(
        ["sh", "-c", '"$@" | true', "sh", *own.command("ledger", "list", "--last", 200)],
        env={**own.environment, "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shell.stdout, shell.stderr) == ("", "")


# ---- Ctrl-C ----


@pytest.fixture
def hanging(own: Stand, tmp_path: Path) -> Iterator[Stand]:
    """A build whose programs say their process number in tmp_path/mark and then hang."""
    folder = tmp_path / "build"
    shutil.copytree(own.folder / "bench", folder / "bench")
    shutil.copy(own.library, folder)
    tools = tmp_path / "tools"
    names = [p for p in (folder / "bench").iterdir() if p.suffix != ".so"]
    for path in (*names, folder / "bench" / "soak_mixed", tools / "hang"):
        path.unlink(missing_ok=True)
        script(path, f"echo $$ >> {tmp_path}/mark\nexec sleep 600")
    (tmp_path / "m.toml").write_text(
        'title = "t"\nbaseline = "a"\ncommand = ["soak_mixed"]\n[[mode]]\nname = "a"\n'
        'environment = {}\n[[mode]]\nname = "b"\nenvironment = {X = "1"}\n[[stage]]\nname = "1"\n'
        'seconds = 60\nmodes = ["a", "b"]\npairs = { rounds = 16, seconds = 1 }\n'
        "rules = { throughput_floor = -0.2 }\n"
    )
    yield own.under(LAB_BUILD_DIR=folder)
    for pid in marked(tmp_path):
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)


def marked(tmp_path: Path) -> list[int]:
    mark = tmp_path / "mark"
    return [int(line) for line in mark.read_text().split()] if mark.exists() else []


LONG = {
    "ab": ("ab", "--b", "X=1", "--bench", "prodcons"),
    "compare": ("compare", "--", "{tools}/hang"),
    "baseline": ("baseline",),
    "soak": ("soak", "--out", "{tmp}/a.csv"),
    "matrix": ("matrix", "{tmp}/m.toml", "--out", "{out}"),
    "suite": ("compare", "--bench", "prodcons", "--page", "{tmp}/page.html"),
    "demo": ("demo", "--out", "{out}"),
    "audit": ("audit",),
}


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_is_one_line_and_leaves_no_half(hanging: Stand, tmp_path: Path, name: str) -> None:
    places = {"tmp": tmp_path, "out": tmp_path / "out", "tools": tmp_path / "tools"}
    more = {}
    if name == "audit":  # what takes it long is git
        shutil.copy(tmp_path / "tools" / "hang", tmp_path / "tools" / "git")
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
    assert until(lambda: all(map(ended, marked(tmp_path))), 10)
    assert not (tmp_path / "led").exists()
    assert not (tmp_path / "page.html").exists()
    left = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert {p.name for p in left} <= {"state.json", "a.csv", "1-a.csv", "1-b.csv"}


def test_ctrl_c_in_the_demonstration_is_one_line(own: Stand, tmp_path: Path) -> None:
    """While a real program runs under hakmem, which gets the interrupt as well."""
    gcc = script(tmp_path / "tools" / "gcc", f"echo $$ >> {tmp_path}/mark\nexec sleep 600")
    done = own.under(PATH=f"{gcc.parent}:{os.environ['PATH']}").interrupted(
        lambda: marked(tmp_path), "demo", "--out", tmp_path / "out"
    )
    said = done.stderr
    assert done.returncode == 130, said
    assert said == "hakmem: interrupted: no file was left half-written\n"
    assert not (tmp_path / "out").exists()
