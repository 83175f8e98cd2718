"""The stand-in build: what it is made of, and how the command is run against it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def compile_c(source: str, out: Path, *flags: str) -> Path:
    subprocess.run(
        ["gcc", "-O1", *flags, "-o", str(out), str(PROGRAMS / source)], check=True, timeout=60
    )
    return out


@dataclass(frozen=True)
class Stand:
    """A folder that looks like build/, and the command run against it."""

    folder: Path
    library: Path
    silent: Path
    environment: dict[str, str]

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-c", "from hakmem.cli import main; main()", *map(str, arguments)]

    def run(self, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
