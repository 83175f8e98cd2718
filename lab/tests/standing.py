"""The stand-in build: what it is made of, and how the command is run against it."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from hakmem.cli import main

PROGRAMS = Path(__file__).parent / "programs"
SLOW_TO_LOAD = {"numpy", "scipy", "ruptures", "jinja2", "plotext", "distributed"}


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

    def call(self, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        """The same without a process of its own: quick, for what is no matter of processes."""
        argv = ["hakmem", *map(str, arguments)]
        out, err, status = io.StringIO(), io.StringIO(), 0
        before = signal.getsignal(signal.SIGTERM)
        with (
            mock.patch.dict(os.environ, {**self.environment, **more}, clear=True),
            mock.patch.object(sys, "argv", argv),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                status = int(end.code or 0)
            finally:
                signal.signal(signal.SIGTERM, before)
        return subprocess.CompletedProcess(argv, status, out.getvalue(), err.getvalue())
