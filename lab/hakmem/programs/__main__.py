"""python -m hakmem.programs [--lib LIBRARY] [NAME]...: a run of each program, and what it cost."""

import argparse
import sys

from hakmem import errors
from hakmem.errors import LabError
from hakmem.paired import cells
from hakmem.process.sample import Sample, take_shown
from hakmem.programs import find, prepare


def main() -> int:
    parser = argparse.ArgumentParser(prog="hakmem.programs", description=__doc__)
    parser.add_argument("--lib", default="system", help="hakmem, system, a rival's name, or a path")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    cell = cells.parse(asked.lib)
    failed = 0
    print("program         wall s    cpu s    sys s  peak MiB     MB·s  quiet MiB   faults")
    for program in find(asked.names):
        try:
            ready = prepare(program)
            process = ready.process(cell.library, cell.environment, 0, cell.is_hakmem)
            sample = take_shown(Sample(program.name), process)
        except LabError as error:
            print(f"{program.name:14} left out: {error}", flush=True)
            failed += 1
            continue
        failed += sample.error is not None
        print(_line(sample), flush=True)
    return 1 if failed else 0


def _line(s: Sample) -> str:
    if s.error is not None:
        return f"{s.command:14} FAILED: {s.error}"
    quiet = f"{s.quiet_kb / 1024:10.1f}" if s.quiet_kb else " " * 10
    return (
        f"{s.command:14} {s.wall_s:7.2f}  {s.user_s + s.sys_s:7.2f}  {s.sys_s:7.2f}"
        f"  {(s.max_rss_kb or 0) / 1024:8.1f} {s.memory_mb_s or 0:8.1f} {quiet} {s.minflt:8}"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LabError, OSError, KeyboardInterrupt) as error:
        message, status = errors.explain(error)
        print(message, file=sys.stderr)
        sys.exit(status)
