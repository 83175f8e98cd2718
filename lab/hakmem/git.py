"""Questions to git about one checkout."""

import os
import subprocess
from pathlib import Path


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """git in `root`; status 127 where there is no git.

    A hook's GIT_ variables are taken away: they would lead to another repository than `root`'s.
    """
    environment = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, env=environment, capture_output=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, b"", str(error).encode())


def ask(root: Path, *arguments: str) -> str | None:
    """The stripped answer, or None where git refuses or is not there."""
    done = run(root, *arguments)
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def is_shallow(root: Path) -> bool:
    """Whether this checkout has the last commits only."""
    return ask(root, "rev-parse", "--is-shallow-repository") == "true"
