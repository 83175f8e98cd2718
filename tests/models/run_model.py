"""Explores a model of tests/models exhaustively with spin: unchanged, and with each planted bug.

`run_model.py MODEL.pml` exits with 0 if spin finds no error in the unchanged model and at least one
with each BUG that its head comment lists; with 1 otherwise; with 77 (skipped) without spin.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
SECONDS = 1800
COMPILE = ("gcc", "-w", "-DSAFETY", "-DVECTORSZ=4096", "-DMEMLIM=3000", "-o", "pan", "pan.c")


def explore(model: Path, bug: int) -> tuple[int, str, str]:
    """Compile and run the model with BUG=`bug`; the number of errors, of states, and all output.

    Raises RuntimeError if the search was cut short without an error: that proves nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        for command in (
            ["spin", f"-DBUG={bug}", "-a", str(model)],
            [*COMPILE, "-O0" if bug else "-O1"],  # a bug is found before -O1 would pay
            ["./pan", "-m1000000", "-n"],
        ):
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=SECONDS
            )
            said = done.stdout + done.stderr
            if done.returncode != 0 and command[0] != "./pan":
                raise RuntimeError(f"{command[0]}: {said}")
    errors = re.search(r"errors: (\d+)", said)
    if errors is None or "error: " in said or "max search depth too small" in said:
        raise RuntimeError(f"not explored to the end: {said}")
    found = int(errors[1])
    if found == 0 and "Search not completed" in said:
        raise RuntimeError(f"not explored to the end: {said}")
    states = re.search(r"(\S+) states, stored", said)
    return found, states[1] if states else "?", said


def main(model: Path) -> int:
    """Print one line for the unchanged model and one for each bug; return the exit code."""
    if shutil.which("spin") is None:
        print("SKIPPED: no spin (Debian package spin)")
        return SKIPPED
    bugs = [int(n) for n in re.findall(r"^ \* BUG (\d+):", model.read_text(), re.MULTILINE)]
    if len(bugs) < 3:
        print(f"{model}: fewer than three planted bugs")
        return 1
    failed = False
    for bug in [0, *bugs]:
        found, states, said = explore(model, bug)
        right = (found == 0) == (bug == 0)
        failed |= not right
        what = f"BUG {bug}" if bug else "as it is"
        print(f"{model.stem}, {what}: {found} errors, {states} states{'' if right else ': WRONG'}")
        if not right:
            print(said)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
