"""Runs a program under hakmem with heap profiles on, and finds what it wrote."""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem.errors import LabError
from hakmem.process import run
from hakmem.process.run import Outcome

PATTERN = "*.pb.gz"


def settings(
    environment: Mapping[str, str], sample_kb: int | None, every_mb: int, peaks: bool
) -> dict[str, str]:
    """The variables that turn profiles on. HAKMEM_PROF_PEAK and HAKMEM_PROF_EVERY_MB of the user's
    environment take precedence; `sample_kb` None leaves the distance to it, or to the default."""
    peak = {"HAKMEM_PROF_PEAK": "1"} if peaks else {}
    every = {"HAKMEM_PROF_EVERY_MB": str(every_mb)} if every_mb else {}
    own = {name: environment[name] for name in (*peak, *every) if name in environment}
    exact = {} if sample_kb is None else {"HAKMEM_PROF_SAMPLE_KB": str(sample_kb)}
    form = {"HAKMEM_PROF_FORMAT": "pprof"} if "HAKMEM_PROF_FORMAT" in environment else {}
    return {"HAKMEM_PROF": "1", **form, **peak, **every, **own, **exact}


def profiled(
    command: Sequence[str], library: Path, settings: Mapping[str, str], folder: Path
) -> tuple[Outcome, list[Path]]:
    """Runs the command to its end; its profiles, and those of its children, are in the folder."""
    name = Path(command[0]).name.replace("%", "_")
    place = {"HAKMEM_PROF_PATH": str(folder / f"{name}.%p")}
    outcome = run.execute(command, library, {**settings, **place})
    files = sorted(folder.glob(PATTERN))
    for pid in {file.name.rsplit(".", 5)[1] for file in files if file.name.count(".") >= 5}:
        with contextlib.suppress(OSError):
            shutil.copy(f"/tmp/perf-{pid}.map", folder)
    return outcome, files


def why_none(outcome: Outcome) -> str:
    """The likeliest reason why a program that hakmem served left no profile."""
    if outcome.status > 128:
        return (
            f"a signal ended it (status {outcome.status}) before it could write one: "
            "--every-mb N writes one for each N MiB that it allocates"
        )
    return (
        "it left by _exit or exec, which write none (--every-mb N writes some on the way), or this "
        "libhakmem.so knows no profiles (then it has said so above)"
    )


def keep(folder: Path, target: Path) -> None:
    """Copies all files of the run into `target`; other files there stay. LabError: refused."""
    try:
        shutil.copytree(folder, target, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise LabError(f"cannot keep the profiles in {target}: {error}") from error
