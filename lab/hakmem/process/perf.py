"""perf: which counters it was asked for, what it counted, and whether that is the same thing.

perf may count nothing and exit with 0, count for a part of the time and extrapolate, or record
another event than the one asked for (cpu-clock where cycles are refused). Each of these is detected
here, and gives no figure. Pure but for `refusal` and `symbols_of`.
"""

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import LabError
from hakmem.process import host
from hakmem.process.children import last_line, output, tool

WHAT = "user mode only, by the processor's counters"

# Events by our names. Each group has a process of its own, so that none needs more counters than
# the processor has.
GROUPS: Sequence[Mapping[str, str]] = (
    {
        "instructions": "instructions:u",
        "cycles": "cycles:u",
        "branches": "branches:u",
        "branch misses": "branch-misses:u",
    },
    {
        "cache misses": "cache-misses:u",
        "L1 data loads": "L1-dcache-loads:u",
        "L1 data load misses": "L1-dcache-load-misses:u",
    },
)
NEEDED = ("cycles:u", "instructions:u")
SAMPLED = "cycles:u"
PERIOD = 100_003  # a prime, so that no loop keeps step with it

PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_HYBRID = re.compile(r"cpu_(?:core|atom)/([\w-]+)/(\w*)")
_SAMPLE = re.compile(r"\s*\S.*?\s(\d+)\s+(\S+):\s+[0-9a-f]+\s+(.*?)\s+\((.*)\)\s*$")
_SOFTWARE = 1


@dataclass(frozen=True)
class Counts:
    """What was counted all the time, by event; for the other events why they have no figure."""

    counted: Mapping[str, int]
    absent: Mapping[str, str]


def refusal() -> str | None:
    """None if cycles and instructions can be counted here, else why not and what to do."""
    if shutil.which("perf") is None:
        return "perf is not installed: apt-get install linux-perf"
    done = tool([*stat_argv(Path("/dev/stderr"), NEEDED), "true"])
    return refused(done.returncode, done.stderr, host.read(PARANOID))


def refused(status: int, said: str, paranoid: str | None) -> str | None:
    """The answer of `refusal`, from what `perf stat` of NEEDED said."""
    if status != 0:
        if re.search(r"paranoid|permi(t|ssion)|access", said, re.IGNORECASE):
            return (
                f"perf may not count for this user (perf_event_paranoid is {paranoid or '?'}): "
                "sysctl kernel.perf_event_paranoid=2, or give perf CAP_PERFMON"
            )
        return f"perf fails here: {last_line(said, f'status {status}')}"
    counts = parse_stat(said, NEEDED)
    if counts.absent:
        why = ", ".join(f"{event} {why}" for event, why in counts.absent.items())
        return f"perf counts nothing here ({why}): a machine that shows its counters is needed"
    return None


def stat_argv(out: Path, events: Sequence[str]) -> list[str]:
    return ["perf", "stat", "-x,", "-o", str(out), "-e", ",".join(events), "--"]


def parse_stat(text: str, asked: Sequence[str]) -> Counts:
    """`perf stat -x,`: value, unit, event, time it ran, share of the time in %, …

    Processors with two kinds of cores have a line for each kind: these are added.
    """
    counted: dict[str, int] = {}
    absent: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("#") or len(fields) < 5:
            continue
        value, event, share = fields[0], _plain(fields[2]), fields[4]
        if value.startswith("<"):
            absent.setdefault(event, value.strip("<>"))
        elif not value.isdigit():
            absent[event] = f"has no count ({value})"
        elif share != "100.00":
            absent[event] = f"was counted for {share} % of the time only"
        else:
            counted[event] = counted.get(event, 0) + int(value)
    kept = {event: n for event, n in counted.items() if event in asked}
    missing = {e: absent.get(e, "was not counted") for e in asked if e not in kept}
    partial = {e: why for e, why in absent.items() if e in kept and not why.startswith("not ")}
    return Counts({e: n for e, n in kept.items() if e not in partial}, {**missing, **partial})


def _plain(event: str) -> str:
    hybrid = _HYBRID.fullmatch(event)
    return f"{hybrid[1]}:{hybrid[2]}" if hybrid else event


# ---- symbols ----


def record_argv(out: Path) -> list[str]:
    """Samples at a fixed period: each stands for PERIOD cycles, so samples can be subtracted."""
    return ["perf", "record", "-q", "-e", SAMPLED, "-c", str(PERIOD), "-o", str(out), "--"]


def require_event(evlist: str) -> None:
    """LabError where `perf evlist -v` names another event than SAMPLED."""
    found = [
        (line.split(": ", 1)[0], re.search(r"\btype: (\d+)", line))
        for line in evlist.splitlines()
        if line.strip() and not line.startswith("#")
    ]
    if not found:
        raise LabError(f"perf does not say which event it recorded instead of {SAMPLED}", status=1)
    for name, kind in found:
        if not _sampled(name) or (kind and int(kind[1]) == _SOFTWARE):
            raise LabError(f"perf recorded {name} where {SAMPLED} was asked for", status=1)


def parse_script(text: str) -> Counter[tuple[str, str]]:
    """Samples by (object, symbol). LabError where one is of another event, or unreadable."""
    samples: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _SAMPLE.match(line)
        if found is None:
            raise LabError(f"not a sample as perf script writes it: {line.strip()!r}", status=1)
        if not _sampled(found[2]):
            raise LabError(f"perf sampled {found[2]} where {SAMPLED} was asked for", status=1)
        if int(found[1]) != PERIOD:
            raise LabError(f"perf sampled each {found[1]} events, not each {PERIOD}", status=1)
        samples[found[4], found[3]] += 1
    return samples


def symbols_of(data: Path) -> Counter[tuple[str, str]]:
    """The samples of a perf.data, after checking that it holds what was asked for."""
    require_event(output(["perf", "evlist", "-v", "-i", str(data)]))
    fields = "comm,period,event,ip,sym,dso"
    return parse_script(output(["perf", "script", "-F", fields, "-i", str(data)]))


def _sampled(event: str) -> bool:
    """Whether it is SAMPLED, in user mode; perf adds letters of its own after the colon."""
    name, _, modifiers = _plain(event).partition(":")
    wanted, _, mode = SAMPLED.partition(":")
    return name == wanted and set(mode) <= set(modifiers)
