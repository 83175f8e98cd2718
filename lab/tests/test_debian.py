"""The Debian packages of `make deb`: their contents; they are installed, used and removed."""

import gzip
import os
import re
import sys
from pathlib import Path

import pytest
from hakmem import project
from hakmem.cli import PANELS
from hakmem.process import library
from standing import need
from users import build_consumer, link_by_pkg_config, run, run_consumer, version

RUNTIME, SYMBOLS = "libhakmem0", "libhakmem0-dbgsym"
DEVELOPMENT, COMMAND = "libhakmem-dev", "hakmem"
# lintian's complaints about packages that are not meant for Debian's archive.
NOT_IN_DEBIAN = {"bogus-mail-host", "initial-upload-closes-no-bugs"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Builds the packages from this checkout; their files by package name."""
    need("cpack", "dpkg-shlibdeps", "ninja")
    folder = tmp_path_factory.mktemp("debian")
    build, made = folder / "build", folder / "packages"
    run(["cmake", "--preset", "debian", "-B", build], project.root())
    run(["cmake", "--build", build, "--parallel", "2"], folder)
    run(["cpack", "--config", build / "CPackConfig.cmake", "-B", made], folder)
    return {path.name.partition("_")[0]: path for path in made.glob("*.deb")}


def field(package: Path, name: str) -> str:
    return run(["dpkg-deb", "--field", package, name], package.parent).stdout.strip()


def test_the_packages_are_what_they_say(packages: dict[str, Path], tmp_path: Path) -> None:
    assert packages.keys() == {RUNTIME, SYMBOLS, DEVELOPMENT, COMMAND}
    ours = f"{version()}-1"
    for name, package in packages.items():
        assert (field(package, "Package"), field(package, "Version")) == (name, ours)
        run(["dpkg-deb", "--extract", package, tmp_path / name], tmp_path)
        docs = tmp_path / name / "usr" / "share" / "doc" / name
        licence = (docs / "copyright").read_text()
        assert licence.startswith("MIT License")
        assert ("Apache License" in licence and "Mike Bostock" in licence) == (name == COMMAND)
        changes = gzip.decompress((docs / "changelog.Debian.gz").read_bytes()).decode()
        assert changes.startswith(f"hakmem ({ours}) ")
    assert field(packages[RUNTIME], "Depends").startswith("libc6 (>= ")
    for name in (SYMBOLS, DEVELOPMENT, COMMAND):
        assert f"{RUNTIME} (= {ours})" in field(packages[name], "Depends")
    # No maintainer scripts: a trigger updates the loader's cache.
    run(["dpkg-deb", "--control", packages[RUNTIME], tmp_path / "control"], tmp_path)
    assert {path.name: path.read_text() for path in (tmp_path / "control").glob("[!cm]*")} == {
        "shlibs": f"libhakmem 0 {RUNTIME} (>= {version()})\n",
        "triggers": "activate-noawait ldconfig\n",
    }


def test_each_file_is_in_one_package(packages: dict[str, Path], tmp_path: Path) -> None:
    files = {}
    for name, package in packages.items():
        root = tmp_path / name
        run(["dpkg-deb", "--extract", package, root], tmp_path)
        found = {p.relative_to(root / "usr"): p for p in root.rglob("*") if not p.is_dir()}
        files[name] = {path: found[path] for path in found if "doc" not in path.parts}
    # All paths are versioned, so that a later version of the library can be installed beside it.
    places = {path.name: path for path in files[RUNTIME]}
    checked = places.pop("libhakmem_check.so")
    assert places.keys() == {"libhakmem.so.0", f"libhakmem.so.{version()}"}
    # All in the folder for the machine, as lib/x86_64-linux-gnu.
    assert {path.parent for path in places.values()} == {checked.parent.parent}
    assert checked.parent.name == "hakmem0"
    link = files[RUNTIME][places["libhakmem.so.0"]]
    assert link.readlink() == Path(f"libhakmem.so.{version()}")
    development = {path.name: path for path in files[DEVELOPMENT].values()}
    assert development["libhakmem.so"].readlink() == Path("libhakmem.so.0")
    wanted = {"hakmem.h", "allocator.hpp", "inline.h", "libhakmem.a", "hakmem.pc"}
    assert wanted | {"hakmem-config.cmake"} <= development.keys()
    sections = run(["readelf", "-SW", development["libhakmem.a"]], tmp_path).stdout
    assert ".debug_info" not in sections


def test_a_debugger_finds_what_the_library_was_stripped_of(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    for package in (packages[RUNTIME], packages[SYMBOLS]):
        run(["dpkg-deb", "--extract", package, tmp_path], tmp_path)
    (library,) = tmp_path.glob(f"usr/lib/*/libhakmem.so.{version()}")
    (build_id,) = re.findall(r"Build ID: (\w+)", run(["readelf", "-n", library], tmp_path).stdout)
    kept = tmp_path / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    internal = re.compile(r" t hk_\w+$", re.MULTILINE)
    assert not internal.search(run(["nm", "-a", library], tmp_path).stdout)
    assert internal.search(run(["nm", "-a", kept], tmp_path).stdout)
    for path, has in ((library, False), (kept, True)):
        assert (".debug_info" in run(["readelf", "-SW", path], tmp_path).stdout) == has


def test_lintian_has_nothing_to_say(packages: dict[str, Path], tmp_path: Path) -> None:
    need("lintian")
    argv = ["lintian", "--allow-root", "--fail-on", "none", *packages.values()]
    said = re.findall(r"^[EW]: \S+: (\S+).*$", run(argv, tmp_path).stdout, re.MULTILINE)
    assert set(said) <= NOT_IN_DEBIAN


def test_all_commands_run_on_the_least_of_what_is_asked_for(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    run(["dpkg-deb", "--extract", packages[COMMAND], tmp_path / "root"], tmp_path)
    python = tmp_path / "root" / "usr" / "lib" / "python3" / "dist-packages"
    least = re.search(r"python3-typer \(>= ([\d.]+)\)", field(packages[COMMAND], "Depends"))
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "least"]
    run([*fetch, f"typer=={least[1]}.*"], tmp_path, trouble=["No matching distribution"])
    for name in (name for rows in PANELS.values() for name in rows):
        command = [sys.executable, tmp_path / "root" / "usr" / "bin" / "hakmem", name, "--help"]
        done = run(command, tmp_path, PYTHONPATH=f"{tmp_path / 'least'}:{python}")
        assert f"hakmem {name}" in done.stdout


def dpkg(root: Path, *words: str | Path) -> None:
    """Runs dpkg on the system below `root`, which has no other package, not even the C library."""
    as_root = [] if os.geteuid() == 0 else ["fakeroot"]
    need(*as_root)
    places = [f"--root={root}", f"--log={root / 'log'}"]
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # dpkg refuses to run without ldconfig
    run([*as_root, "dpkg", "--force-depends,not-root", *places, *words], root, PATH=path)


def test_installed_it_serves_and_removed_it_is_gone(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for folder in ("info", "updates", "triggers"):
        (root / "var" / "lib" / "dpkg" / folder).mkdir(parents=True)
    (root / "var" / "lib" / "dpkg" / "status").touch()
    dpkg(root, "--install", *packages.values())
    shared = next(root.rglob("libhakmem.so.0"))
    symbols = library.verify(library.hakmem(shared))
    assert symbols["_Znwm"] == symbols["malloc"]

    build_consumer(tmp_path, f"-DCMAKE_PREFIX_PATH={root / 'usr'}")
    run_consumer(tmp_path)
    program = link_by_pkg_config(root / "usr", tmp_path)
    needs = run(["readelf", "-dW", program], tmp_path).stdout
    assert "Shared library: [libhakmem.so.0]" in needs

    # The installed command with the installed library, not the checkout's.
    python = root / "usr" / "lib" / "python3" / "dist-packages"
    command = [sys.executable, root / "usr" / "bin" / "hakmem"]
    said = run([*command, "run", "--", "true"], tmp_path, PYTHONPATH=str(python))
    assert f"hakmem {version()} served malloc in true" in said.stdout + said.stderr
    where = (python / "hakmem" / "native" / "libhakmem.so").resolve()
    assert where == shared.resolve()
    heap = f"heap run --sample-kb 0 --out {tmp_path}/heap.html -- {command[0]} -c 1".split()
    assert "heap.html" in run([*command, *heap], tmp_path, PYTHONPATH=str(python)).stdout

    dpkg(root, "--remove", COMMAND, DEVELOPMENT, SYMBOLS, RUNTIME)
    assert not list((root / "usr").rglob("*hakmem*"))
