"""`hakmem record`: runs a program as usual, and makes a trace of its calls of the allocator."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hakmem import __version__
from hakmem.errors import LabError
from hakmem.process import host, run, scratch
from hakmem.replay import raw, streams, trace

VARIABLE = "HAKMEM_RECORD"
USUAL_MB = 1024


class TooLarge(LabError):
    """There is not enough memory to make a trace of the recording."""


@dataclass(frozen=True)
class Recorded:
    """How the command ended, and the traces that were written, that of the busiest process first;
    `others` are recordings left out."""

    outcome: run.Outcome
    traces: Sequence[trace.Trace]
    others: int


def most_mb(asked: int | None) -> int:
    """How many MiB may be recorded: as many as asked for, LabError if a trace of them does not fit
    into memory; None: 1024, or as many as fit."""
    fits = host.available_bytes() // raw.NEEDED >> 20
    if asked is None:
        return max(1, min(USUAL_MB, fits))
    if asked > fits:
        raise LabError(
            f"--mb {asked}: to make a trace of so much takes up to {_gib(asked << 20)} of memory, "
            f"and {_gib(host.available_bytes(), 1)} are available: "
            + (f"--mb {fits} fits" if fits else "free some first")
        )
    return asked


def _gib(size: int, times: int = raw.NEEDED) -> str:
    return f"{size * times / 2**30:.1f} GiB"


def record(
    command: Sequence[str], library: Path, out: Path, megabytes: int, all_: bool
) -> Recorded:
    """Runs the command and writes the trace of the process that did most, or of each (beside `out`,
    with its number). LabError where nothing was recorded, or where a recording is kept because
    memory was too small for its trace."""
    with scratch.folder("record") as folder:
        settings = {VARIABLE: str(folder / "raw.%p"), f"{VARIABLE}_MB": str(megabytes)}
        outcome = run.execute(command, library, settings)
        found = sorted(_recordings(folder), reverse=True)
        if not found:
            if any(file.stat().st_size for file in folder.iterdir()):
                raise LabError(streams.NOTHING, outcome.exit_status or 1)
            raise LabError(f"nothing was recorded: {outcome.sentence}", run.NOT_PROVEN)
        chosen = found if all_ else found[:1]
        written, kept = [], []
        for place, (_, file) in enumerate(chosen):
            beside = out.with_name(f"{out.stem}.{file.suffix[1:]}{trace.SUFFIX}")
            target = beside if place else out
            try:
                written.append(convert(file, target, command, outcome))
            except TooLarge as error:  # other processes took the memory meanwhile
                moved = shutil.move(file, target.with_suffix(".raw"))
                kept.append(f"{error}; the recording is kept: hakmem record --raw {moved}")
            except LabError:
                if not place:
                    raise  # the others: children that only freed
        if kept:
            raise LabError("; ".join(kept))
    return Recorded(outcome, written, len(found) - len(chosen))


def convert(
    file: Path, out: Path, command: Sequence[str] = (), outcome: run.Outcome | None = None
) -> trace.Trace:
    """Writes the trace of one recording. LabError: it is none, holds nothing, or is too large."""
    size = file.stat().st_size
    if size * raw.NEEDED > host.available_bytes():
        raise TooLarge(
            f"to make a trace of {file.name} takes up to {_gib(size)} of memory, "
            f"and {_gib(host.available_bytes(), 1)} are available: make it where there is more"
        )
    events = raw.read(file)
    facts = {
        "command": list(command),
        "pid": events.pid,
        "hakmem": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": host.facts(),
    }
    if outcome and outcome.pid != events.pid:  # a child's own command line is not known
        facts["program"] = outcome.programs.get(events.pid, "")
    trace.write(out, streams.make(events), facts)
    return trace.read(out)


def _recordings(folder: Path) -> Iterator[tuple[int, Path]]:
    """(number of operations, file) of each process that allocated."""
    for file in folder.glob("raw.*"):
        try:
            count = raw.count(file)
        except LabError:
            continue  # killed before it had a head
        if count:
            yield count, file
