"""The file NAME.hktrace: a line that says what it is, a line of facts, the streams compressed."""

from __future__ import annotations

import json
import lzma
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem import project, words
from hakmem.errors import LabError
from hakmem.replay import streams

SUFFIX = ".hktrace"
FIRST = b"hktrace "
VERSION = 2
MOST_FACTS = 1 << 26  # bytes: the longest command line, each byte of it escaped
LARGE = 32 << 20  # bytes, from which on the best compression would take minutes
PIECE = 1 << 20
MOST_SHOWN = 80  # characters of a command


@dataclass(frozen=True)
class Trace:
    """A trace's `facts` (docs/replay.md), and where in the file its streams begin (`at`)."""

    path: Path
    facts: Mapping[str, Any]
    at: int

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(SUFFIX)

    @property
    def threads(self) -> int:
        return int(self.facts["threads"])

    @property
    def operations(self) -> int:
        return int(self.facts["operations"])

    @property
    def pages(self) -> int:
        """How many whole OS pages of 4 KiB its blocks add up to."""
        return int(self.facts["asked_bytes"]) >> 12

    @property
    def seconds(self) -> float:
        return float(self.facts["seconds"])


def write(path: Path, made: streams.Streams, facts: Mapping[str, Any]) -> None:
    """Writes the file, whole or not at all. The facts of the streams are added."""
    body = made.to_bytes()
    whole = {**facts, **made.facts, "bytes": len(body)}
    preset = 6 if len(body) < LARGE else 1
    text = json.dumps(whole, ensure_ascii=True, separators=(",", ":"))
    data = FIRST + f"{VERSION}\n{text}\n".encode() + lzma.compress(body, preset=preset)
    project.replace(path, data, path.parent, f".{path.name}.")


def read(path: Path) -> Trace:
    """The trace in a file, without its streams; LabError says in a line why it is none."""
    try:
        with path.open("rb") as file:
            first, second = file.readline(64), file.readline(MOST_FACTS)
            at = file.tell()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    if not first.startswith(FIRST):
        raise LabError(f"{path} is no trace: `hakmem record -- COMMAND` makes one")
    if first != FIRST + f"{VERSION}\n".encode():
        said = first[len(FIRST) :].decode(errors="replace").strip()
        raise LabError(
            f"{path} is a trace of version {said!r}: this hakmem reads {VERSION}: record again"
        )
    try:
        facts = json.loads(second)
        if not second.endswith(b"\n"):
            raise ValueError
        for name in ("operations", "threads", "bytes", "asked_bytes", "peak_bytes"):
            if not (isinstance(facts[name], int) and facts[name] >= 0):
                raise ValueError
        if not (isinstance(facts["seconds"], float) and 0 <= facts["seconds"] < math.inf):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise _damaged(path) from None
    return Trace(path, facts, at)


def unpack(trace: Trace, target: Path) -> None:
    """The streams as a file for bench_replay; LabError where they are not as they were written."""
    left = int(trace.facts["bytes"])
    try:
        with trace.path.open("rb") as file, target.open("wb") as out:
            file.seek(trace.at)
            with lzma.open(file, format=lzma.FORMAT_XZ) as packed:
                # Asks for one byte more than there should be: the check of the whole comes with the
                # end.
                while piece := packed.read(min(left + 1, PIECE)):
                    left -= len(piece)
                    if left < 0:
                        raise _damaged(trace.path)
                    out.write(piece)
    except (lzma.LZMAError, EOFError):
        raise _damaged(trace.path) from None
    if left:
        raise _damaged(trace.path)
    with target.open("rb") as file:
        if file.read(len(streams.MAGIC)) != streams.MAGIC:
            raise _damaged(trace.path)


def _damaged(path: Path) -> LabError:
    return LabError(f"{path} is damaged or cut off: record it again")


def describe(facts: Mapping[str, Any]) -> str:
    """What is in the trace, in a line."""
    threads = facts["threads"]
    parts = [
        f"{facts['operations']} operations of {threads} thread{'s' * (threads != 1)}",
        f"{facts['peak_bytes'] / 2**20:.1f} MiB in use at most",
    ]
    idle = facts.get("idle_seconds")
    parts[0] += f" in {facts['seconds']:.3g} s" + (f", idle for {idle:.3g} of them" if idle else "")
    if facts.get("command"):
        command = " ".join(shlex.join(facts["command"]).split())
        command = command if len(command) <= MOST_SHOWN else f"{command[:MOST_SHOWN]} …"
        if (program := facts.get("program")) is not None:  # a child: the command is its parent's
            named = f" ({program})" if program else ""
            command = f"process {facts['pid']}{named} below {command}"
        parts.insert(0, words.printable(command))
    if facts.get("lost"):
        why = "the file was full" if facts.get("full") else "the program was killed"
        parts.append(f"{facts['lost']} operations are missing: {why}")
    if facts.get("unknown_frees"):
        parts.append(f"{facts['unknown_frees']} frees of blocks from before left out")
    return "; ".join(parts)
