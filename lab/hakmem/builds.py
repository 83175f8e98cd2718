"""Builds commits, each once and away from the working tree, to be run side by side."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem import git
from hakmem.errors import LabError
from hakmem.process import children
from hakmem.process.lock import folder_lock

DONE = "complete"
PRODUCT = ("-DCMAKE_BUILD_TYPE=Release", "-DHAKMEM_BUILD_TESTS=OFF", "-DHAKMEM_BUILD_BENCH=ON")
# Variables of the caller's shell, or of `make`, that must not decide what is built.
HIDDEN = ("GIT_", "LD_PRELOAD", "HAKMEM_", "MAKEFLAGS", "MAKELEVEL")


class BuildFailed(LabError):
    """This commit does not build; the message ends with what the build said."""


@dataclass(frozen=True)
class Built:
    """What a commit was built to: the library and the folder of benchmark programs.

    If the build was the caller's own command, both are the checkout in which it ran.
    """

    library: Path
    bench: Path


class Builds(contextlib.AbstractContextManager["Builds"]):
    """Builds of the commits of the repository `root`; a context manager that leaves no worktree.

    Each commit has a folder of its own under `cache` (`root`/build/commits). The product's library
    and benchmarks stay there for the next call. A `command` is run in the worktree; what it builds
    lies there, and is removed with it.
    """

    def __init__(
        self, root: Path, command: Sequence[str] | None = None, cache: Path | None = None
    ) -> None:
        self.root = root.absolute()
        self.command = tuple(command) if command is not None else None
        self.cache = (cache or root / "build" / "commits").absolute()
        self._built: dict[str, Built] = {}
        self._folders: list[Path] = []

    def __exit__(self, *_: object) -> None:
        """Removes the worktrees of a command, and what git knows of them."""
        while self._folders:
            self._clear(self._folders[-1])
            self._folders.pop()
        self._built.clear()

    def at(self, commit: str) -> Built:
        """The commit, built now or before. BuildFailed where it does not build."""
        full = git.resolved(self.root, commit)
        if full not in self._built:
            with folder_lock(self.cache):
                own = self.command is not None
                self._built[full] = self._in_worktree(full) if own else self._product(full)
                self._log(full).unlink(missing_ok=True)
        return self._built[full]

    def _product(self, commit: str) -> Built:
        folder = self.cache / commit
        out = folder / "build"
        if not (folder / DONE).is_file():
            try:
                self._make(commit, folder, out)
            except BaseException:
                self._clear(folder)  # while the lock is held: another may build next
                raise
        return Built(out / "libhakmem.so", out / "bench")

    def _make(self, commit: str, folder: Path, out: Path) -> None:
        tree = self._checked_out(commit, folder)
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        setup = ["cmake", *ninja, "-S", str(tree), "-B", str(out), *PRODUCT]
        jobs = str(os.cpu_count() or 1)
        self._run(setup, tree, commit)
        self._run(["cmake", "--build", str(out), "--parallel", jobs], tree, commit)
        if not (out / "libhakmem.so").is_file():
            raise BuildFailed(f"{commit[:12]} builds, but makes no libhakmem.so")
        self._remove_tree(folder)
        (folder / DONE).touch()

    def _in_worktree(self, commit: str) -> Built:
        assert self.command is not None
        # Named by the process, because another one may build the same commit by another command.
        for left in self.cache.glob("*-*"):
            if not Path("/proc", left.name.rpartition("-")[2]).is_dir():
                self._clear(left)
        folder = self.cache / f"{commit}-{os.getpid()}"
        self._folders.append(folder)  # noted before it exists: an interrupt must not leave it
        tree = self._checked_out(commit, folder)
        self._run(self.command, tree, commit)
        return Built(tree, tree)

    def _checked_out(self, commit: str, folder: Path) -> Path:
        """A fresh worktree in the commit's folder."""
        self._clear(folder)
        folder.mkdir(parents=True)
        tree = folder / "tree"
        git.add_worktree(self.root, tree, commit)
        self._log(commit).unlink(missing_ok=True)
        return tree

    def _log(self, commit: str) -> Path:
        return self.cache / f"{commit}.log"

    def _run(self, argv: Sequence[str], tree: Path, commit: str) -> None:
        """Runs one step of a build and keeps its output; BuildFailed has its last words."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(HIDDEN)}
        log = self._log(commit)
        try:
            status = children.logged(argv, log, "ab", cwd=tree, env=environment)
        except OSError as error:
            raise LabError(f"cannot build: {argv[0]}: {error.strerror}") from None
        if status != 0:
            raise BuildFailed(f"{commit[:12]} does not build: {last_words(log)} (all of it: {log})")

    def _clear(self, folder: Path) -> None:
        """Removes what an interrupted or failed build left."""
        self._remove_tree(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def _remove_tree(self, folder: Path) -> None:
        tree = folder / "tree"
        # From inside the worktree if that exists: a killed process may have left one of another
        # repository.
        inside = tree if (tree / ".git").is_file() else self.root
        git.run(inside, "worktree", "remove", "--force", "--force", str(tree))
        shutil.rmtree(tree, ignore_errors=True)


def last_words(log: Path) -> str:
    """The first line of a build's output that names an error, or else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["it said nothing"])[0 if errors else -1][:200]
