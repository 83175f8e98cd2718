"""Run one corruption program under hakmem and check how it ends.

Usage: run_corrupt.py LIBHAKMEM PROGRAM SOURCE [MODE]

MODE is `expect` (the default profile), `secure`, `sampled`, `checked` (secure, with
libhakmem_check.so beside it), or another of SETTINGS. SOURCE begins with a comment line for each,
`// MODE: ENDING`, where ENDING is one of

    REGEX           SIGABRT, and one line on standard error that matches "hakmem: fatal: REGEX"
    SIGSEGV         and nothing on standard error
    SIGSEGV REGEX   and a first line as above; the stacks follow
    caught REGEX    as one of the two, by where a sampled block lies on its page
    SIGILL REGEX    the same, by a trap
    defused         the program got nowhere, and says so by its exit status
    survives        the program got away with it

PTR in a REGEX is the pointer that the program announced on standard output. A line
`// setting: NAME=VALUE` holds for `secure`.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 200
DEFUSED = 7
FATAL = "hakmem: fatal: "
SETTINGS = {
    "expect": {},
    "secure": {"HAKMEM_PROFILE": "secure"},
    "sampled": {"HAKMEM_GUARD_SAMPLE": "1"},
    "checked": {"HAKMEM_PROFILE": "secure"},
    "sizes": {"HAKMEM_PROFILE": "secure", "HAKMEM_GUARD_MATCH": "sizes"},
    "unmatched": {"HAKMEM_PROFILE": "secure", "HAKMEM_GUARD_MATCH": "off"},
    "untailed": {"HAKMEM_PROFILE": "secure", "HAKMEM_GUARD_TAIL": "0"},
    "uncleared": {"HAKMEM_PROFILE": "secure", "HAKMEM_GUARD_ZERO": "0"},
    "partly": {"HAKMEM_PROFILE": "secure", "HAKMEM_GUARD_ZERO": "100"},
    "unfenced": {"HAKMEM_PROFILE": "secure", "HAKMEM_GUARD_FENCES": "0"},
    "trap": {"HAKMEM_GUARD_SAMPLE": "1", "HAKMEM_ON_FAULT": "trap"},
}


def head(source: Path) -> dict[str, str]:
    """What the first lines of the source say, by their names."""
    said: dict[str, str] = {}
    for line in source.read_text(encoding="utf-8").splitlines():
        found = re.match(r"// ([a-z]+): (.+)", line)
        if not found:
            break
        said[found.group(1)] = found.group(2)
    return said


def no_core_file() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(library: str, program: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    # LIBC_FATAL_STDERR_: older C libraries write their own message to the terminal otherwise.
    env = {
        **os.environ,
        "LD_PRELOAD": library,
        "HK_WORLD_EXPECT": "hakmem",
        "LIBC_FATAL_STDERR_": "1",
        **settings,
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


def ending(status: int) -> str:
    """How the program ended, as a word."""
    if status < 0:
        return signal.Signals(-status).name
    return {0: "survives", DEFUSED: "defused"}.get(status, f"status {status}")


def judge(expected: str, status: int, said: str, pointer: str) -> list[str]:
    """What is not as expected. Pure."""
    word, _, pattern = expected.partition(" ")
    if word not in ("survives", "defused", "SIGSEGV", "SIGILL", "caught"):
        word, pattern = "SIGABRT", expected
    failures = []
    if ending(status) not in (("SIGABRT", "SIGSEGV") if word == "caught" else (word,)):
        failures.append(f"expected {word}, but it was {ending(status)}")
    pattern = pattern.removeprefix(FATAL).replace("PTR", re.escape(pointer))
    lines = said.splitlines()
    stacks = len(lines) > 1 and lines[1].startswith("hakmem: allocated by thread ")
    whole = (
        pattern if pattern.startswith(("free", "realloc")) else re.escape(FATAL) + f"(?:{pattern})"
    )
    first = lines[0] if lines else ""
    if not pattern:
        if said:
            failures.append(f"expected nothing on stderr, but got: {said!r}")
    elif not re.fullmatch(whole, first):
        failures.append(f"expected on stderr: {whole}\nbut got: {said!r}")
    elif len(lines) > 1 and not stacks:
        failures.append(f"expected one line on stderr, but got: {said!r}")
    return failures


def main() -> int:
    library, program, source = sys.argv[1:4]
    mode = sys.argv[4] if len(sys.argv) > 4 else "expect"
    expectations = head(Path(source))
    if mode not in expectations:
        sys.exit(f"{source}: has no line '// {mode}: ENDING'")
    settings = dict(SETTINGS[mode])
    if mode == "checked":
        library = f"{Path(library).with_name('libhakmem_check.so')}:{library}"
    if mode == "secure" and "setting" in expectations:
        name, _, value = expectations["setting"].partition("=")
        settings[name] = value
    done = run(library, program, settings)
    pointer = done.stdout.partition("\n")[0]
    if not re.fullmatch(r"0x[0-9a-f]+", pointer):
        sys.exit(f"the program announced {done.stdout!r}, not a pointer; stderr: {done.stderr!r}")
    failures = judge(expectations[mode], done.returncode, done.stderr, pointer)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
