"""Checks that the benchmarks' --smoke runs can fail: each must notice a broken allocator.

Usage: smoke_notices.py BAD_MALLOC PROGRAM... (absolute paths)
"""

import os
import subprocess
import sys
from pathlib import Path


def main(library: str, programs: list[str]) -> int:
    failures = 0
    for program in programs:
        environment = os.environ | {"LD_PRELOAD": library}
        done = subprocess.run([program, "--smoke"], env=environment, capture_output=True, text=True)
        lines = done.stderr.splitlines() or ["(silent)"]
        print(f"{Path(program).name}: exit status {done.returncode}: {lines[0]}")
        failures += done.returncode == 0
    print(f"{len(programs)} programs, {failures} noticed nothing")
    return 1 if failures or not programs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
