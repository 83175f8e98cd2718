"""The ledger: records that are only ever added, each chained by its hash to the one before.

One file of JSON lines per host, `ledger/<host>.jsonl`, so that hosts never write the same file.
Raw output lies beside it by the hash of its content, `raw/<2 digits>/<sha256>`. It is kept as it
came: git compresses what it stores anyway, and `sha256sum` and `grep` need no lab to check it.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hakmem import project
from hakmem.errors import LabError

METHOD = "1"  # raised when figures are obtained in another way than before
START = "0" * 64  # `prev` of a host's first record
ID_DIGITS = 12

# Kinds of records that are parts of a result, and none themselves.
PARTS = ("setting", "comparison", "sample", "block", "probe")


@dataclass(frozen=True)
class Record:
    """One entry. `hash` is sha256(prev + canonical JSON of all but id and hash); `id` is its
    beginning.

    `time` is UTC; `raw` maps the names of raw outputs to the hashes they are stored under.
    """

    id: str
    seq: int
    kind: str
    time: str
    body: Mapping[str, Any]
    prev: str
    hash: str
    method: str
    host: str = ""
    raw: Mapping[str, str] = field(default_factory=dict)

    @property
    def when(self) -> tuple[str, int]:
        """The key to sort by: records of one batch may have the same time, so `seq` decides."""
        return self.time, self.seq

    @property
    def title(self) -> str:
        """The question, title or command line of the record."""
        return str(self.body.get("question") or self.body.get("title") or self.typed)

    @property
    def typed(self) -> str:
        """The command line that made it, or its kind where it states none."""
        return " ".join(map(str, self.body.get("argv") or [self.kind]))


def canonical(content: object) -> bytes:
    """The one way to write a value as JSON: sorted keys, no spaces, ASCII; no NaN, no infinity."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def host_name() -> str:
    """This host's name as a file name; LAB_LEDGER_HOST overrides it."""
    name = os.environ.get("LAB_LEDGER_HOST") or platform.node()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:64] or "host"


def stored(value: object) -> object:
    """The value as a record has it: paths inside the project are relative to its root, because a
    record is read elsewhere."""
    return _without(f"{project.root()}/", value)


def _without(prefix: str, value: object) -> object:
    """The value with the prefix taken off every string in it."""
    if isinstance(value, str):
        return value.replace(prefix, "")
    if isinstance(value, Mapping):
        return {key: _without(prefix, part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without(prefix, part) for part in value]
    return value


_repeats: ContextVar[str | None] = ContextVar("repeats", default=None)


@contextlib.contextmanager
def repeating(id: str) -> Iterator[None]:
    """All records appended inside this context state that they repeat the record `id`."""
    before = _repeats.set(id)
    try:
        yield
    finally:
        _repeats.reset(before)


class Ledger:
    """The evidence folder `root`: ledger/ and raw/ in it. Records are added for `host`, or this
    one."""

    def __init__(self, root: Path, host: str | None = None) -> None:
        self.root = root
        self.host = host

    @classmethod
    def default(cls, host: str | None = None) -> "Ledger":
        """The project's own ledger, evidence/; LAB_LEDGER names another folder."""
        root = Path(os.environ.get("LAB_LEDGER") or project.root() / "evidence")
        return cls(root.absolute(), host)

    def append(
        self, kind: str, body: Mapping[str, object], raw: Mapping[str, bytes] | None = None
    ) -> Record:
        """Adds one record, as `together` does. LabError for a body that is not JSON."""
        require_json(kind, body)
        with self.together() as batch:
            return batch.append(kind, body, raw)

    @contextlib.contextmanager
    def together(self) -> Iterator["Batch"]:
        """A batch of records: all of them are added at the end of the context, or none at all.

        At its end they are synced to the disk. Other writers of this host wait meanwhile. LabError
        where the disk refuses.
        """
        host = self.host or host_name()
        path = self.root / "ledger" / f"{host}.jsonl"
        try:
            with _locked(path) as descriptor:
                try:
                    last = _mend(path, descriptor)
                    batch = Batch(self, host, last)
                    yield batch
                    _write(descriptor, b"".join(line + b"\n" for line in batch.lines))
                finally:
                    if os.fstat(descriptor).st_size == 0:
                        path.unlink()  # so that a refused first record leaves no file
                if last is None:
                    _sync_folder(path.parent)
                    _sync_folder(self.root)
        except OSError as error:
            raise LabError(
                f"nothing was recorded: cannot write {error.filename or path}: {error.strerror}"
            ) from error

    def files(self) -> list[Path]:
        """One file per host; none where nothing was ever recorded."""
        try:
            found = [Path(entry) for entry in os.scandir(self.root / "ledger")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LabError(f"cannot read the ledger in {self.root}: {error.strerror}") from error
        return sorted(path for path in found if path.suffix == ".jsonl")

    def read(self, path: Path) -> Iterator[Record]:
        """The records of one host's file; LabError at the first line that is not as written."""
        lines, rest = _lines(path)
        if rest:
            say_torn(path, rest, "the next record, or `hakmem ledger recover`, moves it aside")
        before = None
        for number, line in enumerate(lines, start=1):
            try:
                record = _decode(line)
                _follow(record, before)
            except LabError as error:
                raise LabError(
                    f"{path}, line {number}: {error}; neither it nor what follows can be trusted: "
                    "restore the file from git"
                ) from None
            if f"{record.host}.jsonl" != path.name:
                raise LabError(f"{path}, line {number}: a record of the host {record.host}")
            yield record
            before = record

    def records(self) -> Iterator[Record]:
        """All records of all hosts, each host's in their order."""
        for path in self.files():
            yield from self.read(path)

    def get(self, id: str) -> Record:
        for record in self.records():
            if record.id == id:
                return record
        raise LabError(f"no record {id} in {self.root}: `hakmem ledger list` shows all")

    def raw_path(self, digest: str) -> Path:
        return self.root / "raw" / digest[:2] / digest

    def raw(self, digest: str) -> bytes:
        """A raw output; LabError where it is gone, or not what was recorded."""
        path = self.raw_path(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise LabError(f"raw output {path}: {error.strerror}; restore it from git") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise LabError(f"raw output {path} was changed; restore it from git")
        return data

    def recover(self) -> None:
        """Moves torn last lines aside, as the next record of that host would."""
        for path in self.files():
            try:
                with _locked(path) as descriptor:
                    _mend(path, descriptor)
            except OSError as error:
                raise LabError(f"cannot mend {path}: {error.strerror}") from error

    def store(self, data: bytes) -> None:
        """Stores raw output under its hash, atomically: written apart, synced, then renamed."""
        path = self.raw_path(hashlib.sha256(data).hexdigest())
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        project.replace(path, data, self.root / "raw", ".new-")
        _sync_folder(path.parent)
        _sync_folder(path.parent.parent)


def require_json(kind: str, body: Mapping[str, object]) -> None:
    try:
        canonical(body)
    except (ValueError, TypeError) as error:
        raise LabError(f"a {kind} cannot be recorded as JSON: {error}") from None


class Batch:
    """Records under way into one host's locked file: `lines`, each chained to the one before."""

    def __init__(self, ledger: Ledger, host: str, last: Record | None) -> None:
        self.lines: list[bytes] = []
        self._ledger, self._host, self._last = ledger, host, last

    def append(
        self, kind: str, body: Mapping[str, object], raw: Mapping[str, bytes] | None = None
    ) -> Record:
        """Adds a record, and returns it as it will be read once the batch is written.

        Raw outputs are stored at once, which adds no line. LabError where the body is not JSON (NaN
        and infinity are not).
        """
        here = f"{project.root()}/"
        repeats = _repeats.get()
        if repeats is not None:
            body = {**body, "repeats": repeats}
        raw = {name: data.replace(here.encode(), b"") for name, data in (raw or {}).items()}
        content: dict[str, object] = {
            "kind": kind,
            "body": stored(body),
            "raw": {name: hashlib.sha256(data).hexdigest() for name, data in raw.items()},
            "method": METHOD,
            "host": self._host,
            "seq": self._last.seq + 1 if self._last else 1,
            "prev": self._last.hash if self._last else START,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        require_json(kind, body)
        line = _seal(content)
        for data in raw.values():
            self._ledger.store(data)
        self.lines.append(line)
        self._last = _decode(line)
        return self._last


def say_torn(path: Path, rest: bytes, what: str) -> None:
    print(
        f"hakmem: {path}: the last line is torn ({len(rest)} bytes, its writer did not finish): "
        f"{what}",
        file=sys.stderr,
    )


def _seal(content: Mapping[str, object]) -> bytes:
    digest = hashlib.sha256(str(content["prev"]).encode() + canonical(content)).hexdigest()
    return canonical({**content, "hash": digest, "id": digest[:ID_DIGITS]})


def _decode(line: bytes) -> Record:
    """The record of a line; LabError unless the line is, byte for byte, what was written.

    Hash and id are cut out of the line, instead of encoding the rest anew, because thousands of
    records are read at once. This is as strict: what was hashed was canonical, and no other bytes
    have that hash.
    """
    try:
        row = json.loads(line)
        record = Record(**row)
    except (ValueError, TypeError):
        raise LabError("not a record") from None
    rest = line
    for key, value, after in (("hash", record.hash, "host"), ("id", record.id, "kind")):
        place = f',"{key}":"{value}","{after}":'.encode()
        head, found, tail = rest.rpartition(place)
        rest = head + f',"{after}":'.encode() + tail if found else b""
    digest = hashlib.sha256(str(record.prev).encode() + rest).hexdigest()
    if (record.hash, record.id) != (digest, digest[:ID_DIGITS]):
        raise LabError("the record was changed: its hash does not fit")
    return record


def _follow(record: Record, before: Record | None) -> None:
    """LabError unless the record is the next one after `before`."""
    seq, digest = (before.seq, before.hash) if before else (0, START)
    if (record.seq, record.prev) != (seq + 1, digest):
        raise LabError("the chain is broken: a record before this one is missing or was changed")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """A descriptor for appending, under the file's lock; creates the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # While this process waited, a git checkout may have put another file in its place.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _lines(path: Path) -> tuple[list[bytes], bytes]:
    """The whole lines, and the bytes after the last of them."""
    try:
        with path.open("rb") as file:
            # Under a shared lock: a line that a writer has half written would look torn.
            fcntl.flock(file, fcntl.LOCK_SH)
            data = file.read()
    except OSError as error:
        raise LabError(f"cannot read the ledger {path}: {error.strerror}") from error
    *lines, rest = data.split(b"\n")
    return lines, rest


def _mend(path: Path, descriptor: int) -> Record | None:
    """The last record, or None. A torn line after it is moved into `<file>.torn`, and reported."""
    size = os.fstat(descriptor).st_size
    lines, newline, rest = os.pread(descriptor, size, 0).rpartition(b"\n")
    last = None
    if newline:
        try:
            last = _decode(lines.rpartition(b"\n")[2])
        except LabError as error:
            raise LabError(
                f"nothing was recorded: the last line of {path}: {error}; restore it from git"
            ) from None
    if not rest:
        return last
    with contextlib.suppress(LabError):
        whole = _decode(rest)
        _follow(whole, last)
        _write(descriptor, b"\n")  # only the line's end is missing, as after some editors
        return whole
    aside = path.with_name(path.name + ".torn")
    with aside.open("ab") as out:
        out.write(rest + b"\n")
        out.flush()
        os.fsync(out.fileno())
    os.ftruncate(descriptor, size - len(rest))
    os.fsync(descriptor)
    say_torn(path, rest, f"moved into {aside.name}")
    return last


def _write(descriptor: int, data: bytes) -> None:
    """Appends all of `data` and syncs it; on any error the file has its old size again."""
    size = os.fstat(descriptor).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
