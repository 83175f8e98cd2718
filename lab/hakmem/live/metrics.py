"""Several processes' OpenMetrics as one document: each sample gets its process's labels. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END = "# EOF\n"
# What hakmem writes. Anybody may answer under its name, and gets no other line through.
ABOUT = re.compile(r"# (?:TYPE|UNIT|HELP) (hakmem(?:_[a-z0-9_]+)?)( .*)?")
SAMPLE = re.compile(r"(hakmem_[a-z0-9_]+)(?:\{([^{}]*)\})?( -?[0-9.]+)")


@dataclass(frozen=True)
class Exposition:
    """What one process has written."""

    pid: int
    command: str
    text: str


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labelled(sample: re.Match[str], process: Exposition) -> str:
    own = f'pid="{process.pid}",command="{escaped(process.command)}"'
    return f"{sample[1]}{{{own}{',' + sample[2] if sample[2] else ''}}}{sample[3]}"


def merged(processes: Iterable[Exposition]) -> str:
    """The families in the order they are first met, each described once."""
    described: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for process in processes:
        family, first = "", False
        for line in process.text.splitlines():
            if about := ABOUT.fullmatch(line):
                if about[1] != family:
                    family, first = about[1], about[1] not in described
                    described.setdefault(family, [])
                    samples.setdefault(family, [])
                if first:
                    described[family].append(line)
            elif family and (sample := SAMPLE.fullmatch(line)):
                samples[family].append(labelled(sample, process))
    lines = [line for name in described for line in (*described[name], *samples[name])]
    return "".join(f"{line}\n" for line in lines) + END
