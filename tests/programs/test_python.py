"""CPython on hakmem: parts of its own test suite, and a pool of forked workers beside threads."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from finding import WORKLOADS, need
from preloading import Result, ending, run_under

ALLOCATORS = {"malloc": {"PYTHONMALLOC": "malloc"}, "pymalloc": {}}


def python_with_tests() -> Path | None:
    """An interpreter that has the package `test`, which Debian ships separately, or None."""
    for name in (getattr(sys, "_base_executable", sys.executable), "python3", "/usr/bin/python3"):
        if path := shutil.which(name):
            # The real interpreter: the program on the PATH may be a shell script.
            ask = "import sys, os, test.test_json; print(os.path.realpath(sys._base_executable))"
            answer = subprocess.run([path, "-c", ask], capture_output=True, text=True)
            if answer.returncode == 0:
                return Path(answer.stdout.strip())
    return None


@pytest.fixture(scope="module")
def python() -> Path:
    return need("a python3 with its package `test`", python_with_tests)


def regression_tests(
    lib: Path | None, python: Path, folder: Path, env: dict[str, str], args: list[str]
) -> tuple[Result, dict[str, bool]]:
    """Run `python -m test`; return the result, and for each test case whether it passed."""
    report = folder / "report.xml"
    argv = [python, "-m", "test", "-j2", "--junit-xml", report, *args]
    result = run_under(lib, argv, cwd=folder, env=env, check=False)
    if not report.exists():
        raise AssertionError(f"no report, {ending(result.returncode)}: {result.stderr}")
    cases = ElementTree.parse(report).iter("testcase")
    bad = {"failure", "error"}
    return result, {str(c.get("name")): not bad & {child.tag for child in c} for c in cases}


@pytest.mark.parametrize(
    ("allocator", "modules"),
    [
        ("malloc", ["test_json", "test_dict", "test_list", "test_threading", "test_subprocess"]),
        ("pymalloc", ["test_json", "test_dict", "test_list"]),
    ],
)
def test_own_test_suite(
    preload: Path, python: Path, tmp_path: Path, allocator: str, modules: list[str]
) -> None:
    suite = functools.partial(
        regression_tests, python=python, folder=tmp_path, env=ALLOCATORS[allocator]
    )
    result, passed = suite(preload, args=modules)
    result.require_served(python.name)
    said = result.stdout[-3000:] + result.stderr[-3000:]
    for module in modules:  # A worker that crashes reports no cases.
        assert any(name.startswith(f"test.{module}.") for name in passed), f"{module}:\n{said}"

    failed = [name for name, ok in passed.items() if not ok]
    if not failed:
        assert result.returncode == 0, said
        return
    # Some of Python's tests fail on some machines under any allocator: repeat those without hakmem.
    again = [word for name in failed for word in ("-m", name)]
    _, passed_on_system = suite(None, args=[*again, *modules])
    assert set(failed) <= set(passed_on_system), "the comparison did not run the same tests"
    ours = [name for name in failed if passed_on_system[name]]
    assert not ours, f"pass on the system's allocator and fail on hakmem: {ours}\n{said}"


@pytest.mark.parametrize("allocator", list(ALLOCATORS))
def test_forked_workers_beside_threads(preload: Path, python: Path, allocator: str) -> None:
    argv = [python, WORKLOADS / "fork_beside_threads.py"]
    result = run_under(preload, argv, env=ALLOCATORS[allocator])
    result.require_served(python.name)
    sums, served = result.stdout.splitlines()
    assert int(sums) == sum(sum(range(n, n + 2000)) for n in range(100))
    # A forked child leaves no line of proof, because it executes no program: the workers report.
    assert served == "served by hakmem: [True]"
    assert os.getpid() not in {p.pid for p in result.processes}
