"""Runs every benchmark's --smoke on a preloaded hakmem, and checks that hakmem really served it.

Usage: smoke_preloaded.py LIBHAKMEM PROGRAM... (absolute paths)
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def served(proof: Path) -> list[str]:
    """Names of the executables whose malloc was hakmem's."""
    lines = proof.read_text().splitlines() if proof.exists() else []
    return [Path(p["exe"]).name for p in map(json.loads, lines) if p["serving"]]


def run(library: str, program: str, folder: Path) -> str:
    """What is wrong, or nothing."""
    name = Path(program).name
    proof = folder / name
    environment = os.environ | {"LD_PRELOAD": library, "HAKMEM_PROOF": str(proof)}
    done = subprocess.run([program, "--smoke"], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr.strip()}"
    # bench_startup keeps the library out of itself: its children are what is preloaded.
    wanted = Path("/bin/true").resolve().name if name == "bench_startup" else name
    if wanted not in served(proof):
        return f"hakmem did not serve {wanted}"
    result = json.loads(done.stdout.splitlines()[-1])
    return "" if f"bench_{result['bench']}".endswith(name) else "its result has another name"


def main(library: str, programs: list[str]) -> int:
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            wrong = run(library, program, Path(folder))
            failures += bool(wrong)
            print(f"{Path(program).name}: {wrong or 'ok'}")
    return 1 if failures or not programs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
