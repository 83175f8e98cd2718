"""hakmem as users get it, each in an empty folder: a wheel, an installed package, sources."""

import importlib.util
import platform
import re
import shutil
import sys
import venv
from pathlib import Path

import heap_world
import pytest
from hakmem import project
from standing import need, need_built
from users import CONSUMER, build_consumer, link_by_pkg_config, run, run_consumer, version

# Python that prints the path of the hakmem library in its process.
MAPPED = "print({l.split()[-1] for l in open('/proc/self/maps') if 'libhakmem' in l}.pop())"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release build, installed and then moved to another folder, as packagers do."""
    need_built(project.build_dir() / "libhakmem.a")
    first = tmp_path_factory.mktemp("first") / "prefix"
    run(["cmake", "--install", project.build_dir(), "--prefix", first], first.parent)
    moved = tmp_path_factory.mktemp("moved") / "prefix"
    shutil.move(first, moved)
    return moved


@pytest.mark.built
def test_a_project_finds_the_package(prefix: Path, tmp_path: Path) -> None:
    build_consumer(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run_consumer(tmp_path)


def test_the_headers_need_no_type_information(tmp_path: Path) -> None:
    argv = ["g++", "-std=c++17", "-fno-rtti", f"-I{project.root() / 'include'}"]
    run([*argv, "-fsyntax-only", CONSUMER / "in_cxx.cc"], tmp_path)


FOR_C = ("hakmem/hakmem.h", "hakmem/inline.h")


@pytest.mark.parametrize(
    ("standards", "more", "headers"),
    [
        ("c99 c11 c17", [], FOR_C),
        ("c++11 c++14 c++17 c++20", [], FOR_C),
        ("c++17 c++20", [], ("hakmem/allocator.hpp",)),
        ("c++17 c++20", ["-fno-exceptions", "-fno-rtti"], ("hakmem/allocator.hpp",)),
    ],
)
def test_the_headers_are_of_each_standard(
    standards: str, more: list[str], headers: tuple[str, ...], tmp_path: Path
) -> None:
    """Each header compiles by itself and included twice, without a warning."""
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", *more]
    for standard in standards.split():
        language, compiler = ("c++", "g++") if "+" in standard else ("c", "gcc")
        for header in headers:
            (tmp_path / "alone").write_text(f"#include <{header}>\n" * 2)
            argv = [compiler, f"-std={standard}", *strict, f"-I{project.root() / 'include'}"]
            run([*argv, "-x", language, "alone"], tmp_path)


@pytest.mark.built
def test_pkg_config_says_how_to_link(prefix: Path, tmp_path: Path) -> None:
    link_by_pkg_config(prefix, tmp_path)


def test_a_project_fetches_the_sources(tmp_path: Path) -> None:
    build_consumer(tmp_path, f"-DHAKMEM_FROM={project.root()}")
    run([tmp_path / "in_c_static"], tmp_path)
    run([tmp_path / "in_cxx_hakmem"], tmp_path)
    assert not list(tmp_path.rglob("test_*")), "a part of another project builds the library only"


def test_a_meson_project_has_it_as_a_subproject(tmp_path: Path) -> None:
    need("meson", "ninja")
    for path in CONSUMER.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "subprojects").mkdir()
    (tmp_path / "subprojects" / "hakmem").symlink_to(project.root())
    run(["meson", "setup", "build"], tmp_path)
    run(["ninja", "-C", "build"], tmp_path)
    run_consumer(tmp_path / "build")
    shared = tmp_path / "build" / "subprojects" / "hakmem" / "libhakmem.so"
    said = run(["readelf", "-dW", shared], tmp_path).stdout
    assert re.findall(r"Shared library: \[(\S+)\]", said) == ["libc.so.6"]
    assert "soname: [libhakmem.so.0]" in said


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin/ of a virtual environment with a wheel of this checkout installed."""
    if importlib.util.find_spec("auditwheel") is None:
        pytest.skip("SKIPPED: auditwheel is not installed (tools/setup venv): no wheel is tested")
    folder = tmp_path_factory.mktemp("wheel")
    trouble = ["No matching distribution found for scikit-build-core"]
    tool = project.root() / "tools" / "wheel"
    done = run([tool, folder], folder, trouble=trouble, PYTHON=sys.executable)
    (wheel,) = folder.glob("hakmem-*.whl")
    assert done.stdout.strip() == str(wheel)
    assert wheel.name.startswith(f"hakmem-{version()}-py3-none-manylinux_2_")
    venv.create(folder / "venv", with_pip=True)
    # The dependencies come from the running environment: downloading them would test the network.
    site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    (site / "dependencies.pth").write_text(
        "\n".join(p for p in sys.path if p.endswith("site-packages")) + "\n"
    )
    python = folder / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "--no-deps", "--no-index", wheel], folder)
    return folder / "venv" / "bin"


def test_a_wheel_says_its_version(installed: Path, tmp_path: Path) -> None:
    assert run([installed / "hakmem", "--version"], tmp_path).stdout == f"hakmem {version()}\n"


def test_a_wheel_has_the_licence(installed: Path) -> None:
    (about,) = installed.parent.rglob("hakmem-*.dist-info")
    licence = (project.root() / "LICENSE").read_text()
    assert (about / "licenses" / "LICENSE").read_text() == licence
    metadata = (about / "METADATA").read_text()
    assert "License-Expression: MIT AND Apache-2.0 AND BSD-3-Clause\n" in metadata
    named = re.findall(r"License-File: (.+)", metadata)
    assert {Path(name).name for name in named} == {
        "LICENSE",
        "echarts.LICENSE",
        "echarts.LICENSE-d3",
        "echarts.NOTICE",
    }
    assert all((about / "licenses" / name).is_file() for name in named)


def test_a_wheel_runs_a_program(installed: Path, tmp_path: Path) -> None:
    argv = [installed / "hakmem", "run", "--", sys.executable, "-c", MAPPED]
    done = run(argv, tmp_path, HOME=str(tmp_path))
    assert done.stdout.strip().startswith(str(installed.parent))
    assert done.stdout.strip().endswith("hakmem/native/libhakmem.so")
    assert "served malloc" in done.stderr
    assert not list(installed.parent.rglob("libhakmem.so.*")), "a wheel turns links into copies"


def test_the_wheels_tag_is_true(installed: Path) -> None:
    """The tag's glibc version is the newest among the symbols that the libraries need."""
    (wheel,) = installed.parent.parent.glob("hakmem-*.whl")
    tagged = re.search(r"-manylinux_2_(\d+)_(\w+)\.whl$", wheel.name)
    assert tagged is not None, wheel.name
    needed = set()
    for library in installed.parent.rglob("native/libhakmem*.so"):
        said = run(["objdump", "-T", library], wheel.parent).stdout
        needed |= {int(minor) for minor in re.findall(r"\(GLIBC_2\.(\d+)", said)}
    assert (int(tagged[1]), tagged[2]) == (max(needed), platform.machine())


def test_a_wheel_shows_the_options(installed: Path, tmp_path: Path) -> None:
    done = run([installed / "hakmem", "config"], tmp_path, HAKMEM_PROFILE="lean")
    assert "HAKMEM_PROFILE" in done.stdout
    assert "lean" in done.stdout


def test_a_wheel_compares_a_program(installed: Path, tmp_path: Path) -> None:
    words = ("compare", "--rival", "system", "--min-seconds", "0", "--")
    argv = [installed / "hakmem", *words, "python3", "-c", "[str(i) for i in range(10000)]"]
    done = run(argv, tmp_path, HOME=str(tmp_path), LAB_LOCK_FILE=str(tmp_path / "lock"))
    assert "system" in done.stdout
    assert list((tmp_path / ".local/share/hakmem/evidence/ledger").glob("*.jsonl"))


def test_a_wheel_shows_a_heap(installed: Path, tmp_path: Path) -> None:
    made = heap_world.Made(rows=[(["f", "main"], [1, 1 << 20, 1, 1 << 20])])
    profile, page = made.write(tmp_path / "p.pb.gz"), tmp_path / "heap.html"
    done = run([installed / "hakmem", "heap", "show", profile, "--out", page], tmp_path)
    assert "1.00 MiB were in use" in done.stdout
    assert page.read_text().endswith("</html>")


def test_a_wheel_says_what_needs_a_checkout(installed: Path, tmp_path: Path) -> None:
    for command in ("audit", "conformance"):
        done = run([installed / "hakmem", command], tmp_path, status=2)
        assert done.stderr.startswith(f"hakmem: {command} needs a checkout of hakmem")
        assert "Traceback" not in done.stderr
    done = run([installed / "hakmem", "report"], tmp_path, status=2, HOME=str(tmp_path))
    assert done.stderr.endswith("hakmem compare -- PROGRAM\n"), "what can be done without one"
