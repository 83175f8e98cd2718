"""Where things are in the project tree, and how results are written whole or not at all."""

import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hakmem.errors import LabError


def checkout() -> Path | None:
    """The checkout that this package belongs to; None where it was installed from a wheel."""
    folder = Path(__file__).resolve().parents[2]
    return folder if (folder / "src" / "base" / "base.h").is_file() else None


def root() -> Path:
    """The checkout or, without one, the user's data folder: evidence/ and out/ are in it."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return checkout() or Path(data) / "hakmem"


def build_dir() -> Path:
    """The folder of the release build; LAB_BUILD_DIR names another one."""
    return Path(os.environ.get("LAB_BUILD_DIR") or root() / "build").absolute()


def source_dir() -> Path:
    """The checkout that build_dir() was built from; LAB_SOURCE_DIR names another one."""
    return Path(os.environ.get("LAB_SOURCE_DIR") or root()).absolute()


def bench_dir() -> Path:
    return build_dir() / "bench"


def default_library() -> Path:
    """The release build's library; without a checkout the one installed with this package."""
    if checkout() is None and "LAB_BUILD_DIR" not in os.environ:
        return Path(__file__).resolve().parent / "native" / "libhakmem.so"
    return build_dir() / "libhakmem.so"


NEEDS_CHECKOUT = (
    "needs a checkout of hakmem, with its benchmarks and sources; installed by itself it runs and "
    "compares programs of yours: hakmem run -- PROGRAM, hakmem compare -- PROGRAM"
)


def require_file(path: Path, what: str) -> Path:
    """The absolute path of a file; LabError, which says what to do, where it is none.

    A link keeps its name: libhakmem.so is one, to a file that has the version in its name.
    """
    if path.is_file():
        return path.parent.resolve() / path.name
    inside_build = path.is_absolute() and path.is_relative_to(build_dir())
    hint = "run `make build` first" if inside_build else "check the path"
    if inside_build and checkout() is None:
        hint = f"this {NEEDS_CHECKOUT}"
    raise LabError(f"{what} not found: {path} ({hint})")


def read(path: Path) -> bytes:
    """The content of a file that the user named; LabError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error


def toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; LabError where it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path} is not TOML: {error}") from error


def library(path: Path | None) -> Path:
    """hakmem's own library: the named file, or the build's. LabError where it is not there."""
    return require_file(path or default_library(), "hakmem's library")


def place(out: Path | None, otherwise: Path, option: str = "--out", folder: bool = False) -> Path:
    """Where results go: the path of the option, in a folder that must exist, or `otherwise`, whose
    folder is made.

    Writing there is tried at once, so that nothing is measured that cannot be kept: LabError. The
    target of a link is replaced, not the link; a device, a pipe or a socket is refused.
    """
    found = out or otherwise
    try:  # all of this: in a closed folder even the kind of a file is hidden
        if found.is_dir() and not folder:
            raise LabError(f"{option} {found}: that is a folder: name a file")
        if found.exists() and not found.is_file() and not found.is_dir():
            raise LabError(f"{option} {found}: that is no ordinary file: name one")
        found = found.resolve() if found.is_symlink() else found
        if out is not None and not found.parent.is_dir():
            raise LabError(f"{option} {out}: there is no folder {found.parent}: make it first")
        found.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=found if found.is_dir() else found.parent).close()
    except OSError as error:
        said = f"{option} {found}: nothing can be written there: {error.strerror}"
        raise LabError(f"{said}: name another place") from error
    return found


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the target and renames: readers see the old file or the new one, never half.

    An undecodable byte of an argument is written as its number. LabError where writing fails.
    """
    try:
        path.parent.mkdir(exist_ok=True)
        replace(path, text.encode(errors="backslashreplace"), path.parent, f".{path.name}.")
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from error


def replace(path: Path, data: bytes, aside: Path, prefix: str) -> None:
    """The same for bytes, with OSError, by a file in `aside`, a folder of the same file system."""
    handle, name = tempfile.mkstemp(prefix=prefix, dir=aside)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)
        Path(name).rename(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
