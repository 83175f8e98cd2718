"""One benchmark at a time on this host: two at once would measure each other. And one build."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hakmem.errors import LabError


@contextlib.contextmanager
def host_lock() -> Iterator[None]:
    """Holds the host's benchmark lock; refuses at once if another holds it."""
    # The same file for every user of the host, so it does not follow TMPDIR.
    path = Path(os.environ.get("LAB_LOCK_FILE", "/tmp/hakmem-bench.lock"))
    with contextlib.suppress(FileExistsError):
        # Sticky folders refuse O_CREAT on another user's file, so create and open are apart.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        path.chmod(0o666)
    with path.open("r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "unknown"
            raise LabError(
                f"another benchmark runs on this host (process {holder}): wait for it, "
                f"because two at once would measure each other (lock: {path})"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """One build at a time in the folder, which is made: a second one waits for the first."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise LabError(f"{folder} cannot be written: {error.strerror}") from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
