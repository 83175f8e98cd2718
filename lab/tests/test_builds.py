"""Builds of commits: a complete one is cached, an interrupted one is not; no worktree is left."""

import subprocess
from pathlib import Path

import pytest
from hakmem import git as hakmem_git
from hakmem.builds import BuildFailed, Builds
from hakmem.errors import LabError
from standing import commit, git

CMAKE = """cmake_minimum_required(VERSION 3.20)
project(tiny C)
add_library(hakmem SHARED tiny.c)
add_subdirectory(bench)
"""


class Repository:
    """A small git repository whose commits are made from whole files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return commit(self.root, subject)

    def worktrees(self) -> int:
        return self.git("worktree", "list").count("\n") + 1


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_a_command_builds_in_a_worktree_that_is_gone_afterwards(repository: Repository) -> None:
    first = repository.commit("one", a_txt="one")
    second = repository.commit("two", a_txt="two")
    (repository.root / "a.txt").write_text("not committed")
    with Builds(repository.root, ["sh", "-c", "cp a.txt made; pwd >> made"]) as builds:
        made = {at: (builds.at(at).bench / "made").read_text() for at in ("HEAD~1", "HEAD")}
        for at, commit in (("HEAD", second), ("HEAD~1", first)):
            assert git(builds.at(at).bench, "rev-parse", "HEAD") == commit
        assert made["HEAD~1"].startswith("one")
        assert made["HEAD"].startswith("two")
        assert repository.worktrees() == 3
        tree = builds.at(first).bench
        assert (tree / "made").read_text() == made["HEAD~1"], "built once only"
    assert repository.worktrees() == 1
    assert not tree.exists()
    assert (repository.root / "a.txt").read_text() == "not committed"


def test_a_commit_that_does_not_build_says_why_and_leaves_nothing(repository: Repository) -> None:
    repository.commit("one", a_txt="one")
    command = ["sh", "-c", "echo first; echo 'x.c:3: error: planted' >&2; echo last; exit 2"]
    with Builds(repository.root, command) as builds:
        for _ in range(2):
            with pytest.raises(BuildFailed, match=r"x\.c:3: error: planted"):
                builds.at("HEAD")
    assert repository.worktrees() == 1
    logs = list((repository.root / "build" / "commits").glob("*.log"))
    assert [log.read_text().split("\n")[0] for log in logs] == ["first"]


def test_an_interrupted_build_is_stopped_and_not_taken_for_a_finished_one(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.commit("one", a_txt="one")
    children: list[subprocess.Popen[bytes]] = []
    wait = subprocess.Popen.wait

    def interrupted(self: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if list(self.args) != ["sleep", "60"] or self in children:
            return wait(self, timeout)
        children.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), Builds(repository.root, ["sleep", "60"]) as builds:
        builds.at(commit)
    assert children[0].returncode == -9
    assert repository.worktrees() == 1


def test_the_product_is_built_once_kept_and_built_again_where_not_whole(
    repository: Repository,
) -> None:
    commit = repository.commit(
        "one",
        CMakeLists_txt=CMAKE,
        tiny_c="int tiny;\n",
        bench__CMakeLists_txt="add_executable(bench ../main.c)\n",
        main_c="int main(void) { return 0; }\n",
    )
    broken = repository.commit("two", tiny_c="int tiny\n")
    with Builds(repository.root) as builds:
        built = builds.at(commit)
        with pytest.raises(BuildFailed, match="error: expected"):
            builds.at(broken)
        assert repository.worktrees() == 1, "here, under the lock: then another may build there"
    assert built.library.is_file()
    assert (built.bench / "bench").is_file()
    assert not (repository.root / "build" / "commits" / broken).exists()
    before = built.library.stat().st_mtime_ns
    with Builds(repository.root) as builds:
        assert builds.at(commit) == built
    assert built.library.stat().st_mtime_ns == before
    (built.library.parents[1] / "complete").unlink()
    with Builds(repository.root) as builds:
        assert builds.at(commit) == built
    assert built.library.stat().st_mtime_ns > before


def test_what_a_killed_process_left_is_cleared(repository: Repository) -> None:
    commit = repository.commit("one", a_txt="one")
    killed = Builds(repository.root, ["true"])
    tree = killed.at(commit).bench
    gone = tree.parent.with_name(f"{commit}-999999999")
    gone.mkdir()
    repository.git("worktree", "move", str(tree), str(gone / "tree"))
    assert repository.worktrees() == 2
    with Builds(repository.root, ["true"]) as builds:
        builds.at(commit)
        assert not gone.exists()
    assert repository.worktrees() == 1


def test_no_commit_and_no_repository_are_messages(repository: Repository, tmp_path: Path) -> None:
    repository.commit("one", a_txt="one")
    with pytest.raises(LabError, match="has no commit nonsense"):
        Builds(repository.root).at("nonsense")
    (tmp_path / "empty").mkdir()
    if hakmem_git.ask(tmp_path, "rev-parse", "--git-dir") is None:
        with pytest.raises(LabError, match="is no git repository"):
            Builds(tmp_path / "empty").at("HEAD")
