"""The stand-in build, how tests run the command against it, and helpers that most tests share."""

import contextlib
import csv
import io
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import pytest
from hakmem.cli import main
from hakmem.ledger.store import Ledger, Record

PROGRAMS = Path(__file__).parent / "programs"
INTERRUPTED = "hakmem: interrupted: nothing more was recorded, no file left half-written\n"
# A matrix of two modes of the soak benchmark.
MATRIX = """
title = "t"
baseline = "base"
command = ["soak_mixed"]
[[mode]]
name = "base"
[[mode]]
name = "x"
environment = { HAKMEM_X = 1 }
[[stage]]
name = "1"
seconds = 60
modes = ["base", "x"]
pairs = { rounds = 14, seconds = 0.5 }
rules = { throughput_floor = -0.2 }
"""
# A timeout far beyond what any step takes, even on a busy machine.
PATIENCE_S = 300.0
SLOW_TO_LOAD = {"numpy", "scipy", "ruptures", "jinja2", "plotext", "distributed"}


def compile_c(source: str | Path, out: Path, *flags: str) -> Path:
    """Compiles a C file, absolute or relative to programs/."""
    subprocess.run(
        ["gcc", "-O1", *flags, "-o", str(out), str(PROGRAMS / source)],
        check=True,
        timeout=PATIENCE_S,
    )
    return out


def compile_static(source: str | Path, out: Path) -> Path:
    try:
        return compile_c(source, out, "-static")
    except subprocess.CalledProcessError:
        pytest.skip("SKIPPED: nothing can be linked statically here: NOT tested")


def need(*tools: str) -> None:
    """Skips the test if a tool is missing."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"SKIPPED: {tool} is not installed (tools/setup): NOT tested")


def need_built(*files: Path) -> None:
    for file in files:
        if not file.is_file():
            pytest.skip(f"SKIPPED: {file} is not built, run `make build`: NOT tested")


def script(path: Path, text: str) -> Path:
    """Writes an executable shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def unset(*prefixes: str) -> dict[str, str]:
    """This process's environment without the variables whose names begin so."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def git(folder: Path, *arguments: str) -> str:
    """The output of git in that repository, under a fixed author."""
    own = ("user.name=a", "user.email=a@localhost", "commit.gpgsign=false")
    words = ["git", "-C", str(folder), *(word for text in own for word in ("-c", text)), *arguments]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=unset("GIT_"))
    return done.stdout.strip()


def commit(folder: Path, message: str = "x") -> str:
    """Commits all files of the folder, a repository from now on; returns the commit's id."""
    git(folder, "init", "-q", "-b", "main", "--template=")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def until(what: Callable[[], object]) -> bool:
    """Polls until `what` is true; False after PATIENCE_S, which no test reaches unless it hangs."""
    give_up = time.monotonic() + PATIENCE_S
    while not (found := bool(what())) and time.monotonic() < give_up:
        time.sleep(0.02)
    return found


def ended(pid: int) -> bool:
    """Whether the process is gone, or a zombie that its new parent has not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def ran(
    done: subprocess.CompletedProcess[str], status: int = 0
) -> subprocess.CompletedProcess[str]:
    """`done` itself; fails unless it ended with that status."""
    assert done.returncode == status, done.stdout + done.stderr
    return done


def refused(done: subprocess.CompletedProcess[str], *words: str, status: int = 2) -> None:
    """Checks for that status, and for one line of error that contains all `words`."""
    ran(done, status)
    assert done.stderr.startswith("hakmem: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def flat(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class Stand:
    """A folder that looks like build/, and the command run against it."""

    folder: Path
    library: Path
    silent: Path
    environment: dict[str, str]

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-c", "from hakmem.cli import main; main()", *map(str, arguments)]

    def under(self, **more: object) -> "Stand":
        """The same build with more environment variables."""
        return replace(self, environment={**self.environment, **{k: str(more[k]) for k in more}})

    @property
    def evidence(self) -> Path:
        return Path(self.environment["LAB_LEDGER"])

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.evidence)

    def records(self, kind: str | None = None) -> list[Record]:
        """The records in its ledger, all or of one kind."""
        return [record for record in self.ledger.records() if kind in (None, record.kind)]

    def output(self) -> str:
        """All that the programs of the last comparison printed."""
        return self.ledger.raw(self.records("setting")[-1].raw["output.txt"]).decode()

    def samples(self, setting: Record | None = None) -> list[dict[str, str]]:
        """The rows of a setting's table of samples, by column; of the last setting by default."""
        chosen = setting or self.records("setting")[-1]
        data = lzma.decompress(self.ledger.raw(chosen.raw["samples.tsv.xz"])).decode()
        return list(csv.DictReader(data.splitlines(), delimiter="\t"))

    def interrupted(
        self, ready: Callable[[], object], *arguments: object, number: int = signal.SIGINT
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command; once `ready`, signals its process group, as a terminal does."""
        with subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as child:
            assert until(lambda: ready() or child.poll() is not None)
            os.killpg(child.pid, number)
            _, said = child.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(child.args, child.returncode, "", said)

    def elsewhere(self, folder: Path, benches: bool = False) -> "Stand":
        """A copy of the build in `folder`, with `benches` its programs too."""
        (folder / "bench").mkdir(parents=True, exist_ok=True)
        if benches:
            shutil.copytree(self.folder / "bench", folder / "bench", dirs_exist_ok=True)
        library = Path(shutil.copy(self.library, folder))
        moved = self.under(LAB_BUILD_DIR=folder, LAB_LOCK_FILE=folder / "lock")
        return replace(moved, folder=folder, library=library)

    def run(
        self, *arguments: object, within: Sequence[object] = (), **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command in a process of its own, started through `within`, say `env`."""
        return subprocess.run(
            [*map(str, within), *self.command(*arguments)],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def call(self, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs the command inside this process: faster, for tests that need no other one."""
        argv = ["hakmem", *map(str, arguments)]
        out, err, status = io.StringIO(), io.StringIO(), 0
        before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)}
        with (
            mock.patch.dict(os.environ, {**self.environment, **more}, clear=True),
            mock.patch.object(sys, "argv", argv),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                status = int(end.code or 0)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        return subprocess.CompletedProcess(argv, status, out.getvalue(), err.getvalue())
