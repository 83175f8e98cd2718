"""Temporary folders, of which none is left: those of a lab that was killed are swept by the next.

They are named `hakmem-<what>-<process>-…`. The owner holds a lock on each as long as it lives; the
kernel releases the lock when the owner ends, however it ends.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

OURS = re.compile(r"hakmem-[a-z]+-\d+-\w+")


@contextlib.contextmanager
def folder(what: str) -> Iterator[Path]:
    """An empty folder, locked, that is removed at the end of the context."""
    path, lock = _locked(what)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _locked(what: str) -> tuple[Path, int]:
    """A new folder and its lock. If a sweep removes it before it is locked, another is made."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"hakmem-{what}-{os.getpid()}-"))
        with contextlib.suppress(FileNotFoundError):
            lock = _opened(path)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)


def sweep() -> None:
    """Removes the folders whose owner is gone; what cannot be opened or removed is left."""
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).iterdir():
            if OURS.fullmatch(path.name):
                _remove_orphan(path)


def _remove_orphan(path: Path) -> None:
    with contextlib.suppress(OSError):
        lock = _opened(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
