"""What the checks from outside share: on which library and program they are, and how they are run.

Usage of each: run_X.py LIBHAKMEM PROGRAM [NAME...]   all checks, or those of these names
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

SKIPPED = 77
FAILURES = (AssertionError, KeyError, OSError, ValueError, subprocess.TimeoutExpired)
Check = Callable[[Path], None]

library, program = sys.argv[1:3]


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def environment(**options: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    return kept | {"LD_PRELOAD": library, "HK_WORLD_EXPECT": "hakmem"} | options


def main(with_tools: Mapping[Check, str] | None = None) -> int:
    """What the program calls check_NAME, each in a folder of its own. `with_tools`: what is checked
    only where it is asked for by name, and the tool that it takes."""
    tools = with_tools or {}
    own = vars(sys.modules["__main__"]).items()
    known = {n.removeprefix("check_"): check for n, check in own if n.startswith("check_")}
    names = sys.argv[3:] or [name for name, check in known.items() if check not in tools]
    if unknown := [name for name in names if name not in known]:
        print(f"no such check: {', '.join(unknown)}; known: {', '.join(known)}")
        return 2
    failed = 0
    for name in names:
        tool = tools.get(known[name])
        if tool is not None and shutil.which(tool) is None:
            print(f"SKIPPED: there is no {tool}: {name} is NOT checked")
            return SKIPPED
        with tempfile.TemporaryDirectory() as folder:
            try:
                known[name](Path(folder))
                print(f"{name}: ok")
            except FAILURES as error:
                print(f"{name}: {error!r}")
                failed += 1
    return 1 if failed else 0
