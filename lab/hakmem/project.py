"""Where things are in the project tree, and how results are written without halves."""

import os
import tempfile
from pathlib import Path

from hakmem.errors import LabError


def root() -> Path:
    """The project root: the checkout this package belongs to."""
    return Path(__file__).resolve().parents[2]


def build_dir() -> Path:
    """Where the release build is; LAB_BUILD_DIR measures another one."""
    return Path(os.environ.get("LAB_BUILD_DIR") or root() / "build").absolute()


def source_dir() -> Path:
    """The checkout that build_dir() is of; LAB_SOURCE_DIR says so where it is not this one."""
    return Path(os.environ.get("LAB_SOURCE_DIR") or root()).absolute()


def bench_dir() -> Path:
    return build_dir() / "bench"


def default_library() -> Path:
    return build_dir() / "libhakmem.so"


def require_file(path: Path, what: str) -> Path:
    """The path itself if it is a file; otherwise an error that names the way out."""
    if path.is_file():
        return path.resolve()
    inside_build = path.is_absolute() and path.is_relative_to(build_dir())
    hint = "run `make build` first" if inside_build else "check the path"
    raise LabError(f"{what} not found: {path} ({hint})")


def place(out: Path | None, otherwise: Path, option: str = "--out") -> Path:
    """Where results go: where the option says, in a folder that is there; or in one made for it."""
    if out is not None and not out.parent.is_dir():
        raise LabError(f"{option} {out}: there is no folder {out.parent}: make it first")
    found = out or otherwise
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the target and renames: readers see the old file or the new one, never half."""
    try:
        path.parent.mkdir(exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)
        Path(name).rename(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
