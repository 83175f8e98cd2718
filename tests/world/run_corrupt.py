"""Run one corruption program under hakmem and check how it dies.

Usage: run_corrupt.py LIBHAKMEM PROGRAM SOURCE

The first line of SOURCE is `// expect: REGEX`. The program must be ended by SIGABRT, and its
standard error must be one line that matches REGEX as a whole, where PTR stands for the pointer
that the program announced on standard output.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 20
MARK = "// expect: "


def expected_pattern(source: Path, pointer: str) -> str:
    first_line = source.read_text(encoding="utf-8").split("\n", 1)[0]
    if not first_line.startswith(MARK):
        sys.exit(f"{source}: the first line must be '{MARK}REGEX'")
    return first_line.removeprefix(MARK).replace("PTR", re.escape(pointer))


def no_core_file() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(library: str, program: str) -> subprocess.CompletedProcess[str]:
    # LIBC_FATAL_STDERR_: older C libraries write their own message to the terminal otherwise.
    env = {
        **os.environ,
        "LD_PRELOAD": library,
        "HK_WORLD_EXPECT": "hakmem",
        "LIBC_FATAL_STDERR_": "1",
    }
    return subprocess.run(
        [program],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        preexec_fn=no_core_file,
        check=False,
    )


def main() -> int:
    library, program, source = sys.argv[1:]
    done = run(library, program)
    pointer = done.stdout.strip()
    if not re.fullmatch(r"0x[0-9a-f]+", pointer):
        sys.exit(f"the program announced {done.stdout!r}, not a pointer; stderr: {done.stderr!r}")
    pattern = expected_pattern(Path(source), pointer)
    failures = []
    if done.returncode != -signal.SIGABRT:
        survived = "survived" if done.returncode == 0 else f"ended with {done.returncode}"
        failures.append(f"expected SIGABRT, but the program {survived}")
    if not re.fullmatch(pattern, done.stderr.removesuffix("\n")):
        failures.append(f"expected one line on stderr: {pattern}\nbut got: {done.stderr!r}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
