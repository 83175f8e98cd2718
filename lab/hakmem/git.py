"""Questions to git about one checkout."""

import os
import subprocess
from pathlib import Path

from hakmem.errors import LabError


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs git in `root`; status 127 where there is no git.

    The GIT_ variables of a hook are removed: they would lead to another repository.
    """
    environment = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, env=environment, capture_output=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, b"", str(error).encode())


def ask(root: Path, *arguments: str) -> str | None:
    """The stripped output, or None where git refuses or is not there."""
    done = run(root, *arguments)
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def resolved(root: Path, name: str) -> str:
    """A commit's full hash; LabError where the repository has no such commit."""
    full = ask(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if full is None:
        if ask(root, "rev-parse", "--git-dir") is None:
            raise LabError(f"{root} is no git repository: name one that is")
        raise LabError(f"{root} has no commit {name}: `git log` lists what it has")
    return full


def add_worktree(root: Path, tree: Path, commit: str) -> None:
    """Checks the commit out in a new folder. LabError where git cannot."""
    # Hooks are for the user's working tree, not for a measurement.
    add = ("-c", "core.hooksPath=/dev/null", "worktree", "add", "--force", "--detach")
    done = run(root, *add, str(tree), commit)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise LabError(f"git cannot check out {commit[:12]} in a worktree: {said}")


def is_shallow(root: Path) -> bool:
    """Whether this checkout has only the last commits."""
    return ask(root, "rev-parse", "--is-shallow-repository") == "true"
