"""Machines other than this one: what docs/start.md gives to copy, and the next Debian.

For `make portability`: this takes minutes, and fetches some hundred MB. The images are made
here, so that neither a daemon nor a registry is needed: a root by mmdebstrap, under the name that a
container file begins with.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hakmem import project
from standing import need
from users import CLEAN, version

SUITES = {"12": "bookworm", "13": "trixie"}
TO_BUILD = ("cmake", "g++", "ninja-build", "python3")


def said(argv: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=CLEAN,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, f"{argv}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()


class Images:
    """A store of images below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        at = [f"--root={folder / 'images'}", f"--runroot={folder / 'runs'}"]
        self.command = ["buildah", "--storage-driver=vfs", *at]

    def do(self, *words: str | Path) -> str:
        return said([*self.command, *words], self.folder)

    def debian(self, release: str, *packages: str) -> str:
        """The image that container files know by this name, of a Debian with these packages."""
        root, name = self.folder / "root.tar", f"docker.io/library/debian:{release}-slim"
        include = [f"--include={','.join(packages)}"] if packages else []
        said(["mmdebstrap", "--variant=minbase", *include, SUITES[release], root], self.folder)
        container = self.do("from", "scratch")
        self.do("add", container, root, "/")
        root.unlink()
        self.do("commit", "--rm", container, name)
        return name

    def run(self, image: str, script: str, *volumes: str) -> str:
        """What a shell in it says."""
        container = self.do("from", "--pull-never", image)
        bound = [f"--volume={volume}" for volume in volumes]
        return self.do("run", "--isolation=chroot", *bound, container, "sh", "-ec", script)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Images]:
    need("buildah", "mmdebstrap")
    yield Images(tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What somebody else has of this project."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    folder = tmp_path / "context" / "hakmem"
    for name in said(listed, project.root()).split("\0"):
        source = project.root() / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return folder


def to_copy(language: str) -> str:
    """The one block of docs/start.md in this language."""
    page = (project.root() / "docs" / "start.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```{language}\n(.+?)```", page, re.DOTALL)
    return str(block)


def test_the_container_file_of_the_docs(images: Images, checkout: Path) -> None:
    images.debian("12")
    (checkout.parent / "Dockerfile").write_text(to_copy("dockerfile"), encoding="utf-8")
    images.do("build", "--isolation=chroot", "--pull-never", "--tag=app", checkout.parent)
    # Every process of the container is on it, as the file says.
    ended = images.run("app", "cat /proc/self/maps; HAKMEM_STATS=text perl -e 1 2>&1")
    assert "/usr/local/lib/libhakmem.so" in ended
    assert f"hakmem {version()}, process" in ended


def test_the_systemd_drop_in_of_the_docs(tmp_path: Path) -> None:
    need("systemd-analyze")
    drop_in = tmp_path / "app.service.d" / "override.conf"
    drop_in.parent.mkdir()
    (tmp_path / "app.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    for text, is_right in (to_copy("ini"), True), (to_copy("ini").replace("StateD", "SD"), False):
        drop_in.write_text(text.replace("NAME", "app"), encoding="utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", "./app.service"],
            cwd=tmp_path,
            env={**CLEAN, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        assert (str(drop_in) not in done.stderr) is is_right, done.stderr


def test_the_next_debian_builds_it(images: Images, checkout: Path) -> None:
    image = images.debian("13", *TO_BUILD)
    script = """cmake -S /src -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DHAKMEM_BUILD_BENCH=OFF
        cmake --build /build --parallel 2
        ctest --test-dir /build --parallel 2 --label-regex 'unit|world' --timeout 300"""
    assert "100% tests passed" in images.run(image, script, f"{checkout}:/src:ro")


def test_the_next_debian_installs_what_this_one_packed(images: Images) -> None:
    need("cpack", "dpkg-shlibdeps", "ninja")
    made = images.folder / "packages"
    # Distributions build all they have with optimisation at link time.
    flags = [f"-DCMAKE_{language}_FLAGS=-flto" for language in ("C", "CXX")]
    configure = ["cmake", "--preset", "debian", "-B", images.folder / "build", *flags]
    said(configure, project.root())
    said(["cmake", "--build", images.folder / "build", "--parallel", "2"], images.folder)
    configuration = images.folder / "build" / "CPackConfig.cmake"
    said(["cpack", "--config", configuration, "-B", made], images.folder)
    script = """export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -qq -y --no-install-recommends /packages/*.deb >/dev/null
        hakmem run -- python3 -c 'print(len([bytes(i) for i in range(1000)]))'
        apt-get remove -qq -y libhakmem0 >/dev/null
        test ! -e /usr/bin/hakmem"""
    ended = images.run(images.debian("13"), script, f"{made}:/packages:ro")
    assert ended.startswith("1000")
