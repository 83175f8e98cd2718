"""The site of the docs: it builds, and the build fails for each kind of broken link."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hakmem import project
from users import CLEAN, run

ROOT = project.root()
COPIED = ("docs", "tools", "README.md", "mkdocs.yml")


@pytest.fixture(scope="module")
def mkdocs() -> str:
    """The path of mkdocs, in the environment that tools/site makes for it."""
    found = ROOT / "build" / "site" / "bin" / "mkdocs"
    if not found.exists():
        made = [ROOT / "tools" / "site", ROOT / "out" / "site"]
        done = subprocess.run(made, capture_output=True, text=True, check=False, env=CLEAN)
        if not found.exists():
            pytest.skip(f"SKIPPED: mkdocs cannot be had, NO site is built: {done.stderr[-300:]}")
    return str(found)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the pages, to be changed, beside symlinks to the files that they may link to."""
    for path in ROOT.iterdir():
        if path.name not in COPIED:
            (tmp_path / path.name).symlink_to(path)
        elif path.is_dir():
            shutil.copytree(path, tmp_path / path.name)
        else:
            shutil.copy(path, tmp_path)
    return tmp_path


def build(tree: Path, mkdocs: str, status: int = 0) -> str:
    done = run([tree / "tools" / "site", tree / "made"], tree, status, MKDOCS=mkdocs)
    return done.stdout + done.stderr


def test_the_site_has_every_page(tree: Path, mkdocs: str) -> None:
    build(tree, mkdocs)
    pages = {path.relative_to(tree / "docs") for path in (tree / "docs").rglob("*.md")}
    made = {path.relative_to(tree / "made") for path in (tree / "made").rglob("*.html")}
    assert {page.with_suffix(".html") for page in pages} <= made
    first = (tree / "made" / "index.html").read_text()
    assert 'href="start.html"' in first
    listed = (tree / "made" / "decisions" / "index.html").read_text()
    assert "0001-whole-heap-orphans.html" in listed


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("docs/faq.md", "nowhere.md"),
        ("docs/faq.md", "start.md#nowhere"),
        ("docs/faq.md", "../src/nowhere.c"),
        ("docs/decisions/0001-whole-heap-orphans.md", "../nowhere.md"),
        ("README.md", "docs/nowhere.md"),
        ("README.md", "#nowhere"),
    ],
)
def test_a_link_to_nothing_is_found(tree: Path, mkdocs: str, page: str, link: str) -> None:
    with (tree / page).open("a") as file:
        file.write(f"\n[here]({link})\n")
    assert "nowhere" in build(tree, mkdocs, status=1)
