"""Check the line of HAKMEM_SS_OS_STATS against what strace counts.

Usage: run_stats_calls.py LIBHAKMEM PROGRAM   exit code 77: nothing to check here, and why

The program takes and gives back N huge blocks. Two runs with different N differ in nothing else,
so their calls must differ by the same numbers for strace and for us.
"""

import ctypes
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT_S = 60
SKIPPED = 77
FEW, MANY = 5, 45
UNIT = 2 << 20


def skip(why: str) -> int:
    print(f"SKIPPED: {why}")
    return SKIPPED


def kernel_aligns() -> bool:
    """Whether mappings of several MiB lie where we need them, so that one call is enough."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    maps = [mmap.mmap(-1, 4 * UNIT, flags=flags) for _ in range(4)]
    starts = [ctypes.addressof(ctypes.c_char.from_buffer(one)) for one in maps]
    return all(start % UNIT == 0 for start in starts)


def count(library: str, program: str, blocks: int) -> tuple[dict[str, int], dict[str, int]]:
    """The calls that strace counts, by name, and the figures of our line."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as summary:
        command = ["strace", "-f", "-c", "-o", summary.name]
        for option in (
            f"LD_PRELOAD={library}",
            "HK_WORLD_EXPECT=hakmem",
            "HAKMEM_SS_OS_STATS=1",
            "HAKMEM_REGION_CACHE_MB=0",
        ):
            command += ["-E", option]
        done = subprocess.run(
            [*command, program, "huge", str(blocks)],
            env={name: value for name, value in os.environ.items() if name[:7] != "HAKMEM_"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if "ptrace" in done.stderr or "PTRACE" in done.stderr:
            raise PermissionError(done.stderr.strip())
        if done.returncode != 0:
            raise OSError(f"the program ended with {done.returncode}: {done.stderr}")
        # % time, seconds, usecs/call, calls, [errors,] name
        rows = [line.split() for line in summary.read().splitlines()]
    calls = {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit()}
    ours = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", done.stderr)}
    return calls, ours


def main(library: str, program: str) -> int:
    if shutil.which("strace") is None:
        return skip("strace is not installed")
    if not kernel_aligns():
        return skip("this kernel's mappings need cutting, which takes calls that are not counted")
    try:
        (few_calls, few), (many_calls, many) = (
            count(library, program, blocks) for blocks in (FEW, MANY)
        )
    except PermissionError as error:
        return skip(f"strace cannot trace: {error}")
    calls = {name: many_calls.get(name, 0) - few_calls.get(name, 0) for name in many_calls}
    ours = {name: many[name] - few[name] for name in many}
    madvise = calls.get("madvise", 0) + calls.get("process_madvise", 0)
    traced = calls.get("mmap", 0) + calls.get("munmap", 0) + madvise
    print(f"{MANY - FEW} more blocks; strace: {calls}; ours: {ours}")
    wrong = []
    if ours["alloc"] != MANY - FEW or ours["free"] != MANY - FEW:
        wrong.append("not one range for each block")
    if ours["mmap_total"] != calls.get("mmap", 0):
        wrong.append("mmap_total is not what strace counts for mmap")
    if ours["madvise"] != madvise:
        wrong.append("madvise is not what strace counts")
    if ours["alloc"] + ours["free"] + ours["madvise"] != traced:
        wrong.append(f"alloc + free + madvise is not the {traced} calls that strace counts")
    print("\n".join(wrong) or "they agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
