"""Brings back the source that a record was measured from: its commit, checked out and built."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from hakmem import git, project
from hakmem.audit import citing
from hakmem.builds import Builds
from hakmem.errors import LabError
from hakmem.ledger.store import Record
from hakmem.process import host
from hakmem.process.settings import settings_of


@dataclass
class Past:
    """A record with those it was made from; `notes` collect what differs from then.

    `given` has files, by name, for libraries that are gone from their places.
    """

    record: Record
    records: Mapping[str, Record]
    given: Mapping[str, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def body(self) -> Mapping[str, Any]:
        return self.record.body

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def settings(self) -> dict[str, str]:
        """hakmem's variables that the user had set, which reached every process."""
        inputs = (self.records[i] for i in self.body.get("inputs") or () if i in self.records)
        setting = next((r for r in inputs if r.kind == "setting"), self.record)
        return dict(setting.body.get("settings_of_user") or {})

    def with_given(self, word: str) -> str:
        """A word of the command line, in which the given files stand for libraries."""
        for name, path in self.given.items():
            # The name alone, or at the end of a path.
            named = rf"(?<![\w.-])(?:[^\s='\"]*/)?{re.escape(name)}(?![\w./-])"
            word = re.sub(named, str(path), word)
        return word


def binaries(body: Mapping[str, Any]) -> dict[str, str]:
    """The checksums of a record's libraries, by name."""
    found = body.get("binary") or ()
    sides = [found] if isinstance(found, Mapping) else list(found)
    sides += [{"name": name, **one} for name, one in (body.get("libraries") or {}).items()]
    return {
        side.get("name") or Path(str(side.get("path"))).stem: str(side["sha256"])
        for side in sides
        if side.get("sha256")
    }


# What a build is made of; the rest of a commit changes no figure.
PRODUCT = (
    *("src", "include", "shared", "check", "bench", "CMakeLists.txt", "tools/order.ld"),
    ":(exclude)*.md",
)


@contextlib.contextmanager
def as_of(past: Past, console: Console) -> Iterator[None]:
    """Inside the context the lab's own library and benchmarks are those that the record was
    measured with.

    They are the present ones if these are the same. LabError where they cannot be had.
    """
    builds_itself = past.record.kind == "bisect"
    if builds_itself or is_present(past):
        with _settings(past, {}):
            yield
        return
    commit = commit_of(past)
    # Records take the source from a second checkout, in which nothing is built.
    with Builds(project.root()) as builds, Builds(project.root(), ["true"]) as checkouts:
        with console.status(f"building {commit[:12]}, from which it was measured"):
            built = builds.at(commit)
        past.note(f"measured with the library and benchmarks of {commit[:12]}, its own source")
        checkout = checkouts.at(commit).bench
        places = {"LAB_BUILD_DIR": str(built.library.parent), "LAB_SOURCE_DIR": str(checkout)}
        with _settings(past, places):
            yield


def is_present(past: Past) -> bool:
    """Whether the present build is the record's: by its checksum, or by an unchanged source."""
    changed = changed_benchmarks(past.body)
    own = project.default_library()
    known = binaries(past.body).items()
    recorded = {digest for name, digest in known if name in ("hakmem", "libhakmem")}
    if own.is_file() and recorded == {host.sha256(own)} and not changed:
        return True
    if changed:
        past.note(f"since then the definition of {', '.join(changed)} has changed")
    source = past.body["source"]
    if source["dirty"] is not False or not own.is_file():
        return False
    same = git.run(project.root(), "diff", "--quiet", str(source["commit"]), "--", *PRODUCT)
    return same.returncode == 0


def changed_benchmarks(body: Mapping[str, Any]) -> list[str]:
    """The record's benchmarks whose definition has changed since."""
    return [
        name
        for name, work in citing.stated(body).items()
        if work["definition"]
        and (now := citing.definition(name, work, project.source_dir()))
        and now != work["definition"]
    ]


def commit_of(past: Past) -> str:
    """The record's commit in this repository; LabError where there is none to build from."""
    source, root = past.body["source"], project.root()
    commit = str(source["commit"])
    if source["dirty"] is not False:
        raise LabError(
            f"record {past.record.id} was measured from {commit[:12]} with uncommitted changes, "
            "and the present build is not that one: its source cannot be had again"
        )
    if git.ask(root, "cat-file", "-t", commit) == "commit":
        return commit
    # Amending a message makes another commit of the same tree.
    for line in (git.ask(root, "log", "--all", "--format=%H %T") or "").splitlines():
        same, tree = line.split()
        if tree == source.get("tree"):
            return same
    raise LabError(
        f"the commit {commit[:12]} of record {past.record.id} is not in this repository: "
        "`git fetch --all` (or --unshallow) may bring it"
    )


@contextlib.contextmanager
def _settings(past: Past, places: Mapping[str, str]) -> Iterator[None]:
    """The record's own settings in place of those of the user's shell, with `places` added."""
    before = dict(os.environ)
    for name in settings_of(before):
        past.note(f"{name} of your shell was not used: the record's own settings were")
        del os.environ[name]
    own = {**past.settings(), **(past.body.get("environment") or {})}
    os.environ.update(settings_of(own))
    os.environ.update(places)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
