"""Gets a program ready to be measured: installed, its inputs made, its result known."""

import functools
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem import project
from hakmem.errors import LabError
from hakmem.process import children
from hakmem.process.launch import Job
from hakmem.process.library import Library, system
from hakmem.process.sample import Process, Sample, take
from hakmem.programs import inputs
from hakmem.programs.catalogue import PYTHON, WHEELS, Program

_said = functools.partial(children.said, timeout=1800)
# Preloaded with the system's allocator: it comes before any allocator that a program is linked
# with, as a preloaded rival does.
LIBC = "libc.so.6"


@dataclass(frozen=True)
class Ready:
    """A program that can run here; `made` is its digest, `expected` its right outcome."""

    program: Program
    folder: Path
    version: str
    made: str
    expected: str

    def process(
        self, library: Library, environment: Mapping[str, str], padding: int = 0
    ) -> Process:
        """The process of one measured run with that library; `environment` is the cell's."""
        program = self.program
        preload = {} if library.path else {"LD_PRELOAD": LIBC}
        return Process(
            argv=_words(program.argv),
            library=library,
            padding=padding,
            timeout_s=60.0,
            environment={**preload, **program.environment, **environment},
            own_account=False,
            counted=False,
            job=Job(
                inputs=self.folder,
                wrong=self._wrong,
                worker=program.worker,
                load=_words(program.load),
                quiet_s=program.quiet_s,
            ),
        )

    def _wrong(self, folder: Path, output: bytes) -> str | None:
        found = self.program.outcome(folder, output)
        same = found == self.expected
        return None if same else f"wrong result: {found[:40]} instead of {self.expected[:40]}"


def prepare(program: Program, folder: Path | None = None) -> Ready:
    """Installs the program where it can, and makes its inputs unless they are there.

    `folder` holds the inputs of all programs, by default out/programs. LabError says why the
    program cannot run here.
    """
    version = _installed(program)
    made = digest(program)
    home = (folder or inputs_dir()) / program.name
    known = _known(home)
    if (known.get("made"), known.get("version")) != (made, version):
        known = {"made": made, "version": version, "expected": _make(program, home, made, version)}
    return Ready(program, home, version, made, known["expected"])


def inputs_dir() -> Path:
    return project.root() / "out" / "programs"


def make_inputs(program: Program, folder: Path) -> None:
    """Fills the folder with the program's inputs: the same bytes each time."""
    for script in program.scripts:
        shutil.copy(inputs.SCRIPTS / script, folder / script)
    for maker in program.makers:
        maker(folder, random.Random(inputs.SEED))


def digest(program: Program) -> str:
    """A digest of the program's command line, and of all that its inputs are made from."""
    makers = [maker.__name__ for maker in program.makers]
    row = (program.argv, sorted(program.environment.items()), makers, program.scripts, program.load)
    return hashlib.sha256((repr(row) + inputs.source()).encode()).hexdigest()


def _known(home: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((home / "made.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _make(program: Program, home: Path, made: str, version: str) -> str:
    """Makes the inputs aside, learns the outcome from two runs, and moves all into place."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=home.parent) as name:
        new = Path(name) / program.name
        new.mkdir()
        make_inputs(program, new)
        expected = _outcome(program, new)
        if _outcome(program, new) != expected:
            raise LabError(f"{program.name}: its result is not the same each time")
        row = {"made": made, "version": version, "expected": expected}
        project.write_atomically(new / "made.json", json.dumps(row) + "\n")
        shutil.rmtree(home, ignore_errors=True)
        new.rename(home)
    return expected


def _outcome(program: Program, folder: Path) -> str:
    """The outcome of a run on the system's allocator."""
    found: list[str] = []

    def note(run: Path, output: bytes) -> None:
        found.append(program.outcome(run, output))

    process = Ready(program, folder, "", "", "").process(system(), {})
    assert process.job
    process = replace(process, job=replace(process.job, wrong=note))
    sample = take(Sample(program.name), process)
    if sample.error is not None:
        raise LabError(f"{program.name}: on the system's allocator: {sample.error}")
    return found[0]


def _words(words: tuple[str, ...]) -> tuple[str, ...]:
    stands_for = {PYTHON: str(Path(sys.executable).resolve()), WHEELS: str(_wheels_python())}
    return tuple(stands_for.get(word, word) for word in words)


def _wheels_python() -> Path:
    return inputs_dir() / "wheels" / "bin" / "python"


def _installed(program: Program) -> str:
    """The first line of what it says of its version; installs it first where it can."""
    name = program.name
    (command,) = _words((program.command or program.argv[0],))
    trouble = ""
    if program.wheel and (trouble := _install_wheel(program.wheel)):
        raise LabError(f"{name}: {program.wheel} could not be installed. {trouble}")
    if shutil.which(command) is None:
        trouble = _install_packages()
    if shutil.which(command) is None:
        wanted = program.package
        raise LabError(f"{name}: {command} is not here, nor could {wanted} be installed. {trouble}")
    said = _said((command, *program.version))
    text = (said.stdout + said.stderr).strip()
    if said.returncode != 0:
        last = children.last_line(text)
        raise LabError(f"{name}: {command} does not say its version: {last}. {trouble}")
    return text.partition("\n")[0].strip() or "unknown"


@functools.cache
def _install_packages() -> str:
    """Has tools/setup install what is missing of all programs, once; "" or what went wrong."""
    try:
        done = _said((str(project.root() / "tools" / "setup"), "compare"))
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"tools/setup compare: {error}"
    return "" if done.returncode == 0 else " ".join((done.stdout + done.stderr).split())


@functools.cache
def _install_wheel(wheel: str) -> str:
    """Installs a wheel into an environment for wheels; "" or what went wrong. Nothing is compiled:
    a pinned version without a wheel for a newer Python would take half an hour, or fail."""
    python = _wheels_python()
    try:
        if not python.exists():
            home = str(python.parent.parent)
            _said((sys.executable, "-m", "venv", "--clear", home)).check_returncode()
        asks = f"import importlib.metadata as m; print(m.version({wheel.partition('==')[0]!r}))"
        if _said((str(python), "-c", asks)).stdout.strip() == wheel.partition("==")[2]:
            return ""
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        done = _said((*pip, "--only-binary=:all:", wheel))
    except (OSError, subprocess.SubprocessError) as error:
        return f"pip install {wheel}: {error}"
    if done.returncode == 0:
        return ""
    own = ".".join(map(str, sys.version_info[:2]))
    # Of pip's list of versions, hundreds of them, only "none" tells something: no network.
    said = re.sub(r" \(from versions: (?!none).*?\)", "", " ".join(done.stderr.split()))[-300:]
    return f"Is there a wheel of it for Python {own}? pip compiles nothing, and said: {said}"
