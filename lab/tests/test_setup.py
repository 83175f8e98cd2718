"""tools/setup installs everything missing in one call, and reports what is optional and missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hakmem import project
from hakmem.process.children import said
from standing import PATIENCE_S, ran, script

PACKAGES = """
# a comment
build   tool-a  a-tool
lint    tool-b  {folder}/b-*.so
peers   tool-c  c-tool
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with a stand-in for apt-get: it notes its calls and refuses those in `refused`."""
    (tmp_path / "tools").mkdir()
    shutil.copy(project.root() / "tools" / "setup", tmp_path / "tools")
    packages = PACKAGES.format(folder=tmp_path)
    (tmp_path / "tools" / "apt-packages.txt").write_text(packages)
    (tmp_path / "refused").write_text("nothing\n")
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "cmake", "echo cmake version 3.25.1; echo; echo more")
    script(tools / "id", "echo 0")
    script(
        tools / "apt-get",
        f'cd {tmp_path}; echo "$@" >>asked; [ "$1" = install ] || exit 0\n'
        'for word; do grep -qxe "$word" refused && exit 100; done\n'
        "for word; do case $word in tool-b) touch b-1.so ;;\n"
        'tool-*) cp bin/id "bin/${word#tool-}-tool" ;; esac; done',
    )
    return tmp_path


def setup(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "PATH": f"{tree / 'bin'}:/usr/bin:/bin"}
    return said([tree / "tools" / "setup", *arguments], env=own, timeout=PATIENCE_S)


def asked(tree: Path) -> list[str]:
    """The packages that apt-get was asked to install, call by call."""
    lines = (tree / "asked").read_text().splitlines()
    return [line.partition("recommends ")[2] for line in lines if line.startswith("install")]


def test_all_that_is_missing_is_installed_in_one_call_and_then_is_there(tree: Path) -> None:
    done = setup(tree, "build", "lint", "--or-without", "peers")
    assert (done.returncode, done.stderr) == (0, "")
    assert asked(tree) == ["tool-a tool-b tool-c"]
    assert setup(tree, "build", "lint", "peers").stdout == ""
    assert len(asked(tree)) == 1


def test_what_may_be_missing_is_said_and_does_not_keep_the_rest_away(tree: Path) -> None:
    (tree / "refused").write_text("tool-c\n")
    done = ran(setup(tree, "build", "--or-without", "peers"))
    assert "could not install tool-c" in done.stderr
    assert "GOING ON WITHOUT: tool-c" in done.stderr
    assert (tree / "bin" / "a-tool").is_file()


def test_what_is_needed_and_cannot_be_installed_is_a_failure(tree: Path) -> None:
    (tree / "refused").write_text("tool-b\n")
    done = ran(setup(tree, "build", "lint"), 1)
    assert "still missing: tool-b" in done.stderr
    assert setup(tree, "build").returncode == 0


def test_who_may_not_install_is_told_the_command(tree: Path) -> None:
    script(tree / "bin" / "id", "echo 1000")
    done = ran(setup(tree, "build", "lint"), 1)
    assert "Run as root: apt-get install tool-a tool-b" in done.stderr
    done = ran(setup(tree, "--or-without", "peers"))
    assert "GOING ON WITHOUT: tool-c" in done.stderr


@pytest.mark.parametrize(("version", "status"), [("3.22.1", 1), ("3.9", 1), ("3.100.0-rc1", 0)])
def test_a_cmake_that_is_too_old_is_said(tree: Path, version: str, status: int) -> None:
    script(tree / "bin" / "cmake", f"echo cmake version {version}")
    done = ran(setup(tree, "build"), status)
    said = f"setup: cmake {version} is too old: CMake 3.25 or newer is needed"
    assert (said in done.stderr) == bool(status)
    assert setup(tree, "lint").returncode == 0


def test_an_unknown_group_is_refused(tree: Path) -> None:
    done = setup(tree, "biuld")
    assert (done.returncode, done.stdout) == (1, "")
    assert "unknown group 'biuld'" in done.stderr
