"""Run a correct program with hakmem preloaded under a tool of valgrind: it must find nothing wrong.

Usage: run_valgrind.py TOOL LIBHAKMEM PROGRAM   exit code 77: nothing to check here, and why
"""

import os
import re
import shutil
import subprocess
import sys

TIMEOUT_S = 1100
SKIPPED = 77
FOUND_SOMETHING = 99
NOTHING = re.compile(r"ERROR SUMMARY: 0 errors from 0 contexts")


def main(tool: str, library: str, program: str) -> int:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("SKIPPED: valgrind is not installed")
        return SKIPPED
    command = [valgrind, f"--tool={tool}", f"--error-exitcode={FOUND_SOMETHING}", program]
    done = subprocess.run(
        command,
        env={**os.environ, "LD_PRELOAD": library},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode == 0 and NOTHING.search(done.stderr):
        print(f"{tool}: nothing found")
        return 0
    print(f"{tool}: exit code {done.returncode}\n{done.stderr}")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
