"""tools/release.py on a copy of this tree: what it writes, and what it refuses."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hakmem import project
from standing import commit
from users import run, version

NEXT = "7.1.2"


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new repository with the present files of this tree, committed here or not."""
    if not (project.root() / ".git").exists():
        pytest.skip("SKIPPED: no git checkout: tools/release.py is NOT tested")
    copy = tmp_path_factory.mktemp("release") / "tree"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(listed, cwd=project.root(), capture_output=True, text=True, check=True)
    for name in said.stdout.split("\0"):
        if name and not name.startswith("evidence/") and (project.root() / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(project.root() / name, copy / name)
    commit(copy)
    return copy


@pytest.fixture
def tree(committed: Path, tmp_path: Path) -> Path:
    run(["git", "clone", "--quiet", committed, tmp_path / "tree"], tmp_path)
    return tmp_path / "tree"


def release(tree: Path, *words: str, status: int = 0, **environment: str) -> str:
    done = run([tree / "tools" / "release.py", *words], tree, status, **environment)
    return done.stderr if status else done.stdout


def prepared(tree: Path) -> Path:
    release(tree, "--prepare", NEXT)
    commit(tree)
    return tree


def test_the_next_version_is_prepared_and_packed(tree: Path) -> None:
    changes = (tree / "CHANGELOG.md").read_text()
    release(tree, "--prepare", NEXT)
    changed = run(["git", "diff", "--stat", "--name-only"], tree).stdout.split()
    assert "CHANGELOG.md" in changed
    assert len(changed) == 5
    assert "rust-version" not in run(["git", "diff", "--unified=0"], tree).stdout
    left = run(["git", "grep", "-lE", f'VERSION "{version()}"|hakmem {version()[:3]} '], tree, 1)
    assert left.stdout == ""
    commit(tree)

    said = release(tree, "--dry")
    assert "no wheel, crates or Debian packages" in said
    out = tree / "out" / "release"
    assert {path.name for path in out.iterdir()} == {
        f"hakmem-{NEXT}.tar.gz",
        "NOTES.md",
        "SHA256SUMS",
    }
    notes = (out / "NOTES.md").read_text()
    assert notes.startswith(f"# hakmem {NEXT}\n\n### Added\n")
    section = changes.partition("## [Unreleased]\n")[2].partition("\n## ")[0]
    assert notes.endswith(section.strip() + "\n")
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    with tarfile.open(out / f"hakmem-{NEXT}.tar.gz") as archive:
        names = set(archive.getnames())
    assert {f"hakmem-{NEXT}/{name}" for name in ("CMakeLists.txt", "src/base/base.h")} <= names
    assert not any(name.startswith(f"hakmem-{NEXT}/out") for name in names)


def test_the_tree_must_be_clean(tree: Path) -> None:
    prepared(tree)
    (tree / "new").touch()
    assert "not committed" in release(tree, "--dry", status=1)
    assert not (tree / "out").exists()


def test_the_version_must_have_notes(tree: Path) -> None:
    changes = tree / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace(f"## [{version()}]", "## [0.0.1]"))
    said = release(tree, "--dry", status=1)
    assert f"nothing under '## [{version()}] - DATE'" in said


def test_a_number_that_was_forgotten_is_found(tree: Path) -> None:
    prepared(tree)
    cargo = tree / "bindings" / "rust" / "Cargo.toml"
    cargo.write_text(cargo.read_text().replace(f'version = "{NEXT}" }}', 'version = "1.0.0" }'))
    said = release(tree, "--dry", status=1)
    assert "bindings/rust/Cargo.toml" in said
    assert f"--prepare {NEXT}" in said
    release(tree, "--prepare", NEXT)
    assert run(["git", "status", "--porcelain"], tree).stdout == ""


def test_a_version_is_given_out_once(tree: Path) -> None:
    prepared(tree)
    run(["git", "tag", f"v{NEXT}"], tree)
    release(tree, "--dry")
    (tree / "new").touch()
    commit(tree)
    assert f"v{NEXT} is another commit" in release(tree, "--dry", status=1)


def test_without_cargo_nothing_is_begun(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, file in (("git", shutil.which("git")), ("python3", sys.executable)):
        (tmp_path / "bin" / name).symlink_to(str(file))
    said = release(prepared(tree), status=1, PATH=str(tmp_path / "bin"))
    assert "cargo is not here" in said
    assert not (tree / "out").exists()


def test_what_is_no_version_is_refused(tree: Path) -> None:
    assert "three numbers" in release(tree, "--prepare", "0.2", status=1)
    assert run(["git", "status", "--porcelain"], tree).stdout == ""
