"""Check the checkers: every lie of liar.c must be caught by the tests named for it here.

Usage: run_liars.py LIBLIAR DIRECTORY_OF_THE_TESTS

Each test must pass on the honest allocator and fail on the lie.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 600
SKIPPED = 77

TORTURE = "torture 1 20000 20000"
CATCHERS: dict[str, list[str]] = {
    "misaligned": ["api_basic"],
    "overlap": [TORTURE, "threads_alive"],
    "dirty-calloc": ["api_calloc", TORTURE],
    "overflow": ["api_calloc"],
    "silent-refusal": ["api_limits", "api_realloc"],
    "forgetful-realloc": ["api_realloc", TORTURE],
    "leak": ["api_realloc", "api_trim", "thread_churn"],
    "errno": ["api_basic"],
    "unaligned-memalign": ["api_aligned", TORTURE],
    "any-alignment": ["api_aligned"],
    "memalign-errno": ["api_aligned"],
    "alignment-errno": ["api_aligned"],
    "boastful-size": ["api_basic"],
    "short-size": ["api_basic", "api_aligned", TORTURE],
}


def no_core_file() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def outcome(library: str, directory: Path, test: str, lie: str) -> int:
    program, *arguments = test.split()
    env = {**os.environ, "LD_PRELOAD": library, "WORLD_LIE": lie, "HK_WORLD_EXPECT": "hakmem"}
    return subprocess.run(
        [directory / program, *arguments],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        preexec_fn=no_core_file,
        check=False,
    ).returncode


def main() -> int:
    library, directory = sys.argv[1], Path(sys.argv[2])
    failures = []
    for test in sorted({test for tests in CATCHERS.values() for test in tests}):
        if code := outcome(library, directory, test, ""):
            failures.append(f"{test}: ended with {code} on the honest allocator")
    for lie, tests in CATCHERS.items():
        for test in tests:
            if outcome(library, directory, test, lie) in (0, SKIPPED):
                failures.append(f"{test}: did not notice the lie '{lie}'")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
