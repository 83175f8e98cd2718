"""Facts about the machine and the source that a result needs to be understood later."""

import hashlib
import math
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from hakmem.process import children

UNSEEN = "not visible"
# By cgroup tree ("": version 2; "memory": version 1): the files of limits, and of what is used.
MEMORY = {
    "": (("memory.max", "memory.high"), "memory.current"),
    "memory": (("memory.limit_in_bytes",), "memory.usage_in_bytes"),
}
UNLIMITED = 1 << 62  # v1 writes "max" as a number above it


def read(path: str) -> str | None:
    """The stripped content of a kernel file, or None where it is absent or refused."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none where the process is gone.

    The name in parentheses before them may contain anything, so they are split off at the last one.
    """
    return (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()


def _line(path: str, key: str) -> str | None:
    for line in (read(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _groups(tree: str = "") -> list[str]:
    """The folders of this process's cgroup and of all around it, as src/os/proc.c has them.

    In a container the cgroup's name may be the host's: then only the mount itself is there.
    """
    lines = (line.split(":", 2) for line in (read("/proc/self/cgroup") or "").splitlines())
    named = (parts[2] for parts in lines if len(parts) == 3 and tree in parts[1].split(","))
    name = next((name for name in named if name.startswith("/")), "/")  # of "0::/a/b"
    own = PurePosixPath("/" if "/.." in name else name)
    mount = f"/sys/fs/cgroup/{tree}".rstrip("/")
    return [f"{mount}{group}".rstrip("/") for group in (own, *own.parents)]


def _tightest(files: Iterable[str]) -> str | None:
    """The lowest limit in these files: "1048576" or "max"; for the CPU "50000 100000"."""

    def amount(text: str) -> float:
        most, _, period = text.partition(" ")
        return int(most) / int(period or 1) if most.isdigit() else math.inf

    found = min((text for file in files if (text := read(file))), key=amount, default=None)
    return found if found is None or amount(found) < UNLIMITED else "max"


def available_bytes() -> int:
    """Memory that may still be taken: what the system has, or less where a cgroup is bounded."""
    said = _line("/proc/meminfo", "MemAvailable")  # "23498176 kB"
    found = int(said.split()[0]) << 10 if said else sys.maxsize
    for tree, (limits, usage) in MEMORY.items():
        for group in _groups(tree):
            most = _tightest(f"{group}/{name}" for name in limits)
            used = read(f"{group}/{usage}")
            if most and used and most.isdigit():
                found = min(found, max(0, int(most) - int(used)))
    return found


def _chosen(path: str) -> str:
    """The bracketed word of a kernel choice such as `always [madvise] never`."""
    text = read(path) or ""
    return text[text.find("[") + 1 : text.find("]")] if "[" in text else text or UNSEEN


def _virtualisation() -> str:
    if shutil.which("systemd-detect-virt"):
        asked = (children.said(["systemd-detect-virt", kind]) for kind in ("--vm", "--container"))
        known = [name for done in asked if (name := done.stdout.strip()) not in ("", "none")]
        return " + ".join(known) or "none seen"
    flags = (_line("/proc/cpuinfo", "flags") or "").split()
    return "a hypervisor" if "hypervisor" in flags else "none seen"


def load() -> str:
    return " ".join((read("/proc/loadavg") or UNSEEN).split()[:3])


def facts() -> dict[str, str]:
    """What decides a timing on this host, in words; what cannot be seen says so."""
    memory = (_line("/proc/meminfo", "MemTotal") or UNSEEN).split()[0]
    swap = (_line("/proc/meminfo", "SwapTotal") or UNSEEN).split()[0]
    cpu = "/sys/devices/system/cpu"
    huge = "/sys/kernel/mm/transparent_hugepage"
    processors = _tightest(f"{group}/cpu.max" for group in _groups())
    most = _tightest(
        f"{group}/{name}"
        for tree, (limits, _) in MEMORY.items()
        for group in _groups(tree)
        for name in limits
    )
    # The present frequency by the kernel; a guest's /proc/cpuinfo has only the nominal one.
    khz = read(f"{cpu}/cpu0/cpufreq/scaling_cur_freq") or ""
    damon = Path("/sys/kernel/mm/damon")
    daemons = [read(str(path)) or UNSEEN for path in sorted(damon.glob("admin/kdamonds/*/state"))]
    return {
        "cpu": _line("/proc/cpuinfo", "model name") or platform.machine(),
        "cpus": f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}",
        "architecture": platform.machine(),
        "microcode": _line("/proc/cpuinfo", "microcode") or UNSEEN,
        "virtualisation": _virtualisation(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "governor": read(f"{cpu}/cpu0/cpufreq/scaling_governor") or UNSEEN,
        "frequency": f"{int(khz) // 1000} MHz" if khz.isdigit() else UNSEEN,
        "turbo off": read(f"{cpu}/intel_pstate/no_turbo") or UNSEEN,
        "huge pages": f"{_chosen(f'{huge}/enabled')}, defrag {_chosen(f'{huge}/defrag')}",
        "page size": f"{os.sysconf('SC_PAGE_SIZE')} bytes",
        "ASLR": read("/proc/sys/kernel/randomize_va_space") or UNSEEN,
        "memory": f"{int(memory) >> 10} MiB" if memory.isdigit() else memory,
        "swap": f"{int(swap) >> 10} MiB" if swap.isdigit() else swap,
        "cgroup limits": f"cpu {processors or UNSEEN}, memory {most or UNSEEN}",
        "proactive reclaim": read("/sys/module/damon_reclaim/parameters/enabled") or UNSEEN,
        "load before": load(),
        "DAMON": ", ".join(daemons) or ("idle" if damon.is_dir() else UNSEEN),
    }


# The facts that must be equal for a result to be continued, or to apply to another one.
MACHINE = ("cpu", "architecture", "kernel", "libc")


def other_machine(recorded: Mapping[str, object], now: Mapping[str, object]) -> str:
    """How a record's machine differs from this one, in words; "" where it does not.

    Host names are not enough: one virtual machine after the other is given the same.
    """
    other = [n for n in MACHINE if recorded.get(n) != now.get(n)]
    return ", ".join(f"{n} {recorded.get(n, 'not recorded')}" for n in other)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
