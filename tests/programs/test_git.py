"""On hakmem, git makes, clones, repacks and checks a repository of some hundred commits."""

from __future__ import annotations

import functools
from pathlib import Path

from finding import need_program
from preloading import run_under

COMMITS = 400
QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "gc.auto",
    "GIT_CONFIG_VALUE_0": "0",
}


def history() -> str:
    """A stream for `git fast-import`: each commit changes one of 25 files and adds a small one."""
    stream = []
    for n in range(COMMITS):
        text = "".join(f"line {line} of version {n // 5}\n" for line in range(200 + n % 50))
        stream.append(
            f"commit refs/heads/main\nmark :{n + 1}\n"
            f"committer Tester <tester@example.org> {1700000000 + n * 60} +0000\n"
            f"data {len(f'change {n}')}\nchange {n}\n"
            f"M 644 inline folder{n % 5}/file{n % 25}\ndata {len(text)}\n{text}\n"
            f"M 644 inline small/{n}\ndata {len(str(n))}\n{n}\n\n"
        )
    return "".join(stream) + "done\n"


def make_repository(lib: Path | None, folder: Path) -> tuple[str, str]:
    """Import, clone, repack and check; return the head's id and the clone's log."""
    git = need_program("git")
    run = functools.partial(run_under, lib, env=QUIET)
    origin, clone = folder / "origin", folder / "clone"
    folder.mkdir()
    run([git, "init", "-q", "-b", "main", origin])
    results = [run([git, "fast-import", "--quiet", "--done"], cwd=origin, stdin=history())]
    results.append(run([git, "clone", "-q", origin.as_uri(), clone]))
    results.append(run([git, "repack", "-q", "-adf", "--window=50"], cwd=clone))
    fsck = run([git, "fsck", "--full", "--strict", "--no-dangling"], cwd=clone)
    assert fsck.stdout + fsck.stderr == ""
    log = run([git, "log", "--stat", "--format=%H %T %s"], cwd=clone)
    head = run([git, "rev-parse", "HEAD"], cwd=clone)
    for result in [*results, fsck, log, head] if lib else []:
        result.require_served("git")
    return head.stdout, log.stdout


def test_repository_is_the_same_as_on_the_system_allocator(preload: Path, tmp_path: Path) -> None:
    head, log = make_repository(preload, tmp_path / "hakmem")
    assert (head, log) == make_repository(None, tmp_path / "system")
    assert log.count(" change ") == COMMITS
    clone = tmp_path / "hakmem" / "clone"
    files = [path for path in clone.rglob("*") if path.is_file() and ".git" not in path.parts]
    assert len(files) == COMMITS + 25
    assert (clone / "small" / "137").read_text() == "137"
