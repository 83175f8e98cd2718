"""Check the report of what is still in use at exit (HAKMEM_LEAKS) from outside.

Usage: run_leaks.py LIBHAKMEM PROGRAM [NAME]   all checks, or the one of this name
"""

import os
import subprocess
import sys
from pathlib import Path

from checks import environment, expect, main, program
from run_profile import TIMEOUT_S, run


def check_leaks(folder: Path) -> None:
    exactly = {"HAKMEM_LEAKS": "1", "HAKMEM_PROF_SAMPLE_KB": "0"}
    said = run(folder, "keep", **exactly)
    large = said.find("hakmem: leaks: 3000000 bytes in 300 blocks, allocated by\n" + program)
    small = said.find("hakmem: leaks: 8000 bytes in 200 blocks, allocated by\n" + program)
    expect(0 == large < small, said)
    last = said.splitlines()[-1]
    expect(
        last == "hakmem: leaks: 3008000 bytes in 500 blocks in all, still in use; "
        "whether anything points there was not looked at",
        last,
    )
    expect(not list(folder.iterdir()), "a file")
    run(folder, "keep", HAKMEM_LEAKS_STATUS="23", status=23, **exactly)
    expect(run(folder, "clean", HAKMEM_LEAKS_STATUS="23", **exactly) == "", "clean")
    with_buffer = run(folder, "clean", HAKMEM_LEAKS_IGNORE="none_of,these", **exactly)
    expect("_IO_file_doallocate" in with_buffer, with_buffer)
    said = run(folder, "read", out=True, HAKMEM_LEAKS_STATUS="23", status=23, **exactly)
    expect(said == "word\n", said)
    name = Path(program).name
    said = run(
        folder,
        "keep",
        HAKMEM_LEAKS_IGNORE=f"a,{name}",
        HAKMEM_LEAKS_STATUS="23",
        **exactly,
    )
    expect(said == "", said)


def check_many(folder: Path) -> None:
    """The largest ones of more than are told, the most bytes first."""
    said = run(folder, "many", HAKMEM_LEAKS="1", HAKMEM_PROF_SAMPLE_KB="0")
    told = [line for line in said.splitlines() if line.startswith("hakmem: ")]
    told_bytes = range(1039, 1039 - 32, -1)
    expect(
        told[:-1] == [f"hakmem: leaks: {n} bytes in 1 block, allocated by" for n in told_bytes],
        said,
    )
    expect(f" {sum(told_bytes)} bytes in 32 blocks of these stacks, the largest" in told[-1], said)


def check_unreachable(folder: Path) -> None:
    exactly = {"HAKMEM_LEAKS": "unreachable", "HAKMEM_PROF_SAMPLE_KB": "0"}
    for profile in "balanced", "secure":
        lines = run(folder, "lose", HAKMEM_PROFILE=profile, **exactly).splitlines()
        told = [line for line in lines if line.startswith("hakmem: ")]
        expect(
            told
            == [
                "hakmem: leaks: 750000 bytes in 15 blocks, allocated by",
                "hakmem: leaks: 12000 bytes in 40 blocks, allocated by",
                "hakmem: leaks: 6000 bytes in 30 blocks, allocated by",
                "hakmem: leaks: 6000 bytes in 30 blocks, allocated by",
                "hakmem: leaks: 774000 bytes in 115 blocks in all, still in use, and nothing that "
                "can be reached points there",
            ],
            "\n".join([profile, *lines]),
        )
        lines = run(folder, "nothing", HAKMEM_PROFILE=profile, **exactly).splitlines()
        expect(lines[0] == "hakmem: leaks: 0 bytes in 5 blocks, allocated by", "\n".join(lines))
        for what in "keep", "clean", "sparse", "inherit", "busy", "signal", "signal in_frame":
            said = run(
                folder, *what.split(), HAKMEM_LEAKS_STATUS="23", HAKMEM_PROFILE=profile, **exactly
            )
            expect(said == "", f"{what}, {profile}: {said}")
    run(folder, "lose", HAKMEM_LEAKS_STATUS="23", status=23, **exactly)
    lines = run(folder, "shut", **exactly).splitlines()
    expect(any("(" in line or line.startswith("0x") for line in lines), "no frames: " + str(lines))


def check_locked(folder: Path) -> None:
    """That pages of what is freed are locked is no reason to give none back any more."""
    exactly = {"HAKMEM_LEAKS": "unreachable", "HAKMEM_PROF_SAMPLE_KB": "0"}
    said = run(folder, "locked", HAKMEM_SS_OS_STATS="1", **exactly)
    expect(" madvise_disabled=0 " in said, said)


def check_refused(folder: Path) -> None:
    """Where the report cannot be written the process ends as it would have."""
    exactly = {"HAKMEM_LEAKS": "1", "HAKMEM_PROF_SAMPLE_KB": "0"}
    to_file = ("/bin/sh", "-c", f"exec {program} keep 2>said")
    run(folder, *to_file, file_bytes=0, **exactly)
    run(folder, *to_file, file_bytes=0, status=23, HAKMEM_LEAKS_STATUS="23", **exactly)
    expect((folder / "said").stat().st_size == 0, "a word")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [program, "keep"], env=environment(**exactly), stderr=write, timeout=TIMEOUT_S, check=False
    )
    os.close(write)
    expect(done.returncode == 0, f"it ended with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
