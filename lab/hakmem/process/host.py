"""Facts about the machine and the source that a result needs to be understood later."""

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

from hakmem.process import children

UNSEEN = "not visible"


def read(path: str) -> str | None:
    """The stripped content of a kernel file, or None where it is absent or refused."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _line(path: str, key: str) -> str | None:
    for line in (read(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def available_bytes() -> int:
    """Memory that may still be taken: what the system has, or less where the cgroup is bounded."""
    said = _line("/proc/meminfo", "MemAvailable")  # "23498176 kB"
    found = int(said.split()[0]) << 10 if said else sys.maxsize
    most, used = (read(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if most and used and most.isdigit():  # or "max"
        found = min(found, max(0, int(most) - int(used)))
    return found


def _chosen(path: str) -> str:
    """The bracketed word of a kernel choice such as `always [madvise] never`."""
    text = read(path) or ""
    return text[text.find("[") + 1 : text.find("]")] if "[" in text else text or UNSEEN


def _virtualisation() -> str:
    if shutil.which("systemd-detect-virt"):
        names = []
        for flag in ("--vm", "--container"):
            names.append(children.said(["systemd-detect-virt", flag]).stdout.strip())
        known = [name for name in names if name and name != "none"]
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
    # What it runs at now by the kernel's word; a guest's /proc/cpuinfo is only nominal.
    khz = read(f"{cpu}/cpu0/cpufreq/scaling_cur_freq") or ""
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
        "cgroup limits": f"cpu {read('/sys/fs/cgroup/cpu.max') or UNSEEN}, "
        f"memory {read('/sys/fs/cgroup/memory.max') or UNSEEN}",
        "proactive reclaim": read("/sys/module/damon_reclaim/parameters/enabled") or UNSEEN,
        "load before": load(),
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
