"""The commits that a bisection is about: from git, along first parents."""

from dataclasses import dataclass
from pathlib import Path

from hakmem import git
from hakmem.errors import LabError


@dataclass(frozen=True)
class Commit:
    """A commit by its full hash, with the first line of its message."""

    hash: str
    subject: str
    merge: bool

    @property
    def short(self) -> str:
        return self.hash[:10]

    def __str__(self) -> str:
        return f"{self.short} “{self.subject}”"


def between(root: Path, good: str, bad: str) -> list[Commit]:
    """The good end, then all commits up to the bad one, oldest first; a merge counts as one.

    LabError where the good end does not lead to the bad one by first parents.
    """
    ends = [git.resolved(root, name) for name in (good, bad)]
    if ends[0] == ends[1]:
        raise LabError(f"{good} and {bad} are the same commit: there is nothing between them")
    line = git.ask(root, "log", "--first-parent", "--format=%H%x00%P%x00%s", ends[1])
    found: list[Commit] = []
    rows = line.removesuffix("\n").split("\n") if line else []  # a subject may have other line ends
    for row in rows:
        full, parents, subject = row.split("\0")
        found.append(Commit(full, subject, len(parents.split()) > 1))
        if full == ends[0]:
            return found[::-1]
    ancestor = git.run(root, "merge-base", "--is-ancestor", *ends).returncode == 0
    if ancestor:
        raise LabError(
            f"{good} came into {bad} by a merge: name a commit that `git log --first-parent {bad}` "
            "lists, or the tip of the branch that holds both"
        )
    raise LabError(
        f"{good} is no ancestor of {bad}: the good end comes first, and is the older one"
    )
