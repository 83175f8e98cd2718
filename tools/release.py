#!/usr/bin/env python3
"""Makes the files of a release in out/release: the source archive; from it a wheel, the crates and
Debian packages; their checksums; and release notes from the version's section of CHANGELOG.md.

Usage: tools/release.py                    release the version that the tree states
       tools/release.py --dry              only checks, sources, notes and sums: no lint, no builds
       tools/release.py --prepare X.Y.Z    write this number and today's date into the tree

It tags, publishes and commits nothing. HAKMEM_MAINTAINER='NAME <ADDRESS>' names the maintainer of
the Debian packages.
"""

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "release"
CHANGES = Path("CHANGELOG.md")
UNRELEASED = "## [Unreleased]\n"
# Where the version stands: file, pattern around it, how many times, whether as X.Y without Z.
NUMBERS = [
    (Path("src/base/base.h"), r'(#define HK_VERSION ")[0-9.]+(")', 1, False),
    (Path("bindings/rust/Cargo.toml"), r'((?<![\w-])version = ")[0-9.]+(")', 2, False),
    (Path("docs/start.md"), r"(find_package\(hakmem )[0-9.]+( )", 1, True),
    (Path("tests/packages/CMakeLists.txt"), r"(find_package\(hakmem )[0-9.]+( )", 1, True),
]


class NotReadyError(Exception):
    """Why there is no release, and what to do."""


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    print("release:", *words, flush=True)
    if subprocess.run(words, cwd=cwd, env={**os.environ, **environment}, check=False).returncode:
        raise NotReadyError(f"this failed: {' '.join(map(str, words))}")


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReadyError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


# ---- the version ----


def number_of(version: str, short: bool) -> str:
    return version.rpartition(".")[0] if short else version


def version_of_tree() -> str:
    """The version of the tree; fails unless all places state the same one."""
    said = re.search(r'#define HK_VERSION "([0-9.]+)"', (ROOT / NUMBERS[0][0]).read_text())
    if said is None:
        raise NotReadyError(f"{NUMBERS[0][0]} has no HK_VERSION")
    for path, pattern, count, short in NUMBERS:
        found = [match[0] for match in re.finditer(pattern, (ROOT / path).read_text())]
        wanted = number_of(said[1], short)
        if len(found) != count or any(not re.search(rf"\b{re.escape(wanted)}\b", f) for f in found):
            raise NotReadyError(
                f"{path} says {found}, HK_VERSION is {said[1]}; "
                f"to write it everywhere: tools/release.py --prepare {said[1]}"
            )
    return said[1]


def prepare(version: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReadyError(f"{version} is no version: three numbers, as 0.2.0")
    changes = (ROOT / CHANGES).read_text()
    if f"## [{version}]" not in changes:
        if UNRELEASED not in changes:
            raise NotReadyError(f"{CHANGES} has no section [Unreleased] to become [{version}]")
        section = f"{UNRELEASED}\n## [{version}] - {datetime.date.today()}\n"
        (ROOT / CHANGES).write_text(changes.replace(UNRELEASED, section, 1))
    for path, pattern, _, short in NUMBERS:
        text = (ROOT / path).read_text()
        (ROOT / path).write_text(re.sub(pattern, rf"\g<1>{number_of(version, short)}\g<2>", text))
    print(f"release: the tree is {version}; look at it, commit it, then: make release")


def notes_of(version: str) -> str:
    """The version's section of CHANGELOG.md."""
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)",
        (ROOT / CHANGES).read_text(),
        re.DOTALL | re.MULTILINE,
    )
    if section is None or not section[1].strip():
        raise NotReadyError(
            f"{CHANGES} has nothing under '## [{version}] - DATE'; "
            f"to move [Unreleased] there: tools/release.py --prepare {version}"
        )
    return f"# hakmem {version}\n\n{section[1].strip()}\n"


def check_the_tree(version: str) -> None:
    if git("status", "--porcelain"):
        raise NotReadyError("the tree has changes that are not committed (git status)")
    if git("tag", "--list", f"v{version}") and git("rev-parse", f"v{version}^{{}}") != git(
        "rev-parse", "HEAD"
    ):
        raise NotReadyError(f"v{version} is another commit: a version is given out once")


# ---- the files of a release ----


def pack_sources(version: str) -> Path:
    path = OUT / f"hakmem-{version}.tar.gz"
    git("archive", "--format=tar.gz", f"--prefix=hakmem-{version}/", f"--output={path}", "HEAD")
    return path


def build(sources: Path) -> None:
    """Builds everything from the packed sources, so that the archive is proven complete."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sources) as archive:
            archive.extractall(scratch, filter="data")
        (tree,) = Path(scratch).iterdir()
        run(tree / "tools" / "wheel", OUT, cwd=tree, PYTHON=str(ROOT / ".venv/bin/python"))
        rust, target = tree / "bindings" / "rust", Path(scratch) / "target"
        run(tree / "tools" / "vendor-crate")
        run(
            "cargo",
            "package",
            "--workspace",
            "--allow-dirty",
            cwd=rust,
            CARGO_TARGET_DIR=str(target),
        )
        for crate in (target / "package").glob("*.crate"):
            shutil.copy(crate, OUT)
        who = os.environ.get("HAKMEM_MAINTAINER")
        run(
            "cmake",
            "--preset",
            "debian",
            *([f"-DHAKMEM_MAINTAINER={who}"] if who else []),
            cwd=tree,
        )
        run("cmake", "--build", "--preset", "debian", cwd=tree)
        run("cpack", "--config", "build/debian/CPackConfig.cmake", "-B", OUT, cwd=tree)
        shutil.rmtree(OUT / "_CPack_Packages", ignore_errors=True)


def write_sums() -> None:
    files = sorted(path for path in OUT.iterdir() if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (OUT / "SHA256SUMS").write_text("".join(lines))


def release(dry: bool) -> None:
    version = version_of_tree()
    notes = notes_of(version)
    check_the_tree(version)
    if not dry and shutil.which("cargo") is None:
        raise NotReadyError("cargo is not here, which packs the crates: https://rustup.rs")
    if not dry:
        run(ROOT / "tools" / "lint")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    sources = pack_sources(version)
    if dry:
        print("release: DRY: not linted; no wheel, crates or Debian packages are built")
    else:
        build(sources)
    (OUT / "NOTES.md").write_text(notes)
    write_sums()
    print((OUT / "SHA256SUMS").read_text() + f"release: hakmem {version} is in {OUT}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry", action="store_true", help="lint and build nothing")
    parser.add_argument("--prepare", metavar="X.Y.Z", help="write this version into the tree")
    arguments = parser.parse_args()
    try:
        if arguments.prepare:
            prepare(arguments.prepare)
        else:
            release(arguments.dry)
    except NotReadyError as reason:
        print(f"release: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
