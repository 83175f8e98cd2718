"""Checks that no program ignores a HAKMEM_BENCH_* variable: it ends, and names those it reads.

Usage: unknown_environment.py PROGRAM... (absolute paths)
"""

import os
import re
import subprocess
import sys
from pathlib import Path

UNKNOWN = "HAKMEM_BENCH_MIN_SIZES"  # one letter more than a name that exists


def run(program: str, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [program, *arguments]
    return subprocess.run(command, env=os.environ | extra, capture_output=True, text=True)


def wrong_with(program: str) -> str:
    """What is wrong, or nothing."""
    helped = run(program, "--help", **{UNKNOWN: "1"})
    if helped.returncode != 0:
        return f"--help: exit status {helped.returncode}"
    known = list(dict.fromkeys(re.findall(r"HAKMEM_BENCH_\w+", helped.stdout)))
    expected = ", ".join(known) or "no HAKMEM_BENCH_* in this program"
    line = f"bench: error: unknown variable {UNKNOWN}=1: expected {expected}; see --help\n"
    refused = run(program, "--smoke", **{UNKNOWN: "1"})
    if (refused.returncode, refused.stderr) != (2, line):
        return f"exit status {refused.returncode}: {refused.stderr.strip()}"
    accepted = run(program, "--smoke", **dict.fromkeys(known, ""))
    return f"refuses its own: {accepted.stderr.strip()}" if accepted.returncode != 0 else ""


def main(programs: list[str]) -> int:
    failures = 0
    for program in programs:
        wrong = wrong_with(program)
        failures += bool(wrong)
        print(f"{Path(program).name}: {wrong or 'ok'}")
    return 1 if failures or not programs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
