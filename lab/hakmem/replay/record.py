"""`hakmem record`: a program runs as ever, and what it did with the allocator becomes a trace."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hakmem import __version__
from hakmem.errors import LabError
from hakmem.process import provenance, run, scratch
from hakmem.replay import raw, streams, trace

VARIABLE = "HAKMEM_RECORD"


@dataclass(frozen=True)
class Recorded:
    """How the command ended, and the traces of it that were written, the largest first."""

    outcome: run.Outcome
    traces: Sequence[trace.Trace]
    others: int


def record(
    command: Sequence[str], library: Path, out: Path, megabytes: int, all_: bool
) -> Recorded:
    """Runs it and writes the trace of the process that did most, or of each (beside `out`, with
    its number); LabError where nothing was recorded."""
    with scratch.folder("record") as folder:
        settings = {VARIABLE: str(folder / "raw.%p"), f"{VARIABLE}_MB": str(megabytes)}
        outcome = run.execute(command, library, settings)
        found = sorted(_recordings(folder), reverse=True)
        if not found:
            if any(file.stat().st_size for file in folder.iterdir()):
                raise LabError(streams.NOTHING, outcome.exit_status or 1)
            raise LabError(f"nothing was recorded: {outcome.sentence}", run.NOT_PROVEN)
        chosen = found if all_ else found[:1]
        written = [convert(chosen[0][1], out, command)]
        for _, file in chosen[1:]:
            beside = out.with_name(f"{out.stem}.{file.suffix[1:]}{trace.SUFFIX}")
            with contextlib.suppress(LabError):  # a child that did no more than free
                written.append(convert(file, beside, command))
    return Recorded(outcome, written, len(found) - len(chosen))


def convert(file: Path, out: Path, command: Sequence[str] = ()) -> trace.Trace:
    """The trace of one recording; LabError where it is none, or holds nothing."""
    events = raw.read(file)
    facts = {
        "command": list(command),
        "pid": events.pid,
        "hakmem": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": provenance.host_facts(),
    }
    trace.write(out, streams.make(events), facts)
    return trace.read(out)


def _recordings(folder: Path) -> Iterator[tuple[int, Path]]:
    """Those of processes that allocated, with their numbers of operations."""
    for file in folder.glob("raw.*"):
        try:
            count = raw.count(file)
        except LabError:
            continue  # killed before it had a head
        if count:
            yield count, file
