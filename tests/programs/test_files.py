"""sort, tar, gzip and xz on large files: the output is the expected one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from finding import need_program
from preloading import run_under

PREFIXES, SUFFIXES = 1000, 10_000  # 10 million lines of 11 bytes


def numbers(prefixes: Iterable[int], suffixes: Iterable[int]) -> Iterable[bytes]:
    """Every prefix with every suffix, as lines of digits, in the given orders."""
    tails = [b""] + [b"%05d\n" % suffix for suffix in suffixes]
    for prefix in prefixes:
        yield (b"%05d" % prefix).join(tails)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_sort_of_a_hundred_megabytes(preload: Path, tmp_path: Path) -> None:
    mixed, ordered = tmp_path / "mixed", tmp_path / "ordered"
    with mixed.open("wb") as file:
        file.writelines(
            numbers(
                (n * 387 % PREFIXES for n in range(PREFIXES)),
                (n * 6007 % SUFFIXES for n in range(SUFFIXES)),
            )
        )
    assert mixed.stat().st_size == 110_000_000
    argv = [need_program("sort"), "--parallel=2", "-S", "64M", "-T", tmp_path, mixed, "-o", ordered]
    run_under(preload, argv, env={"LC_ALL": "C"}).require_served("sort")
    expected = hashlib.sha256()
    for lines in numbers(range(PREFIXES), range(SUFFIXES)):
        expected.update(lines)
    assert digest(ordered) == expected.hexdigest()
    mixed.unlink()  # pytest keeps the folders of several runs, and these files are large.
    ordered.unlink()


def test_tar_gzip_and_xz_round_trips(preload: Path, tmp_path: Path) -> None:
    tar, gzip, xz = (need_program(name) for name in ("tar", "gzip", "xz"))
    source, archive = tmp_path / "source", tmp_path / "archive.tar"
    for n in range(60):
        folder = source / f"folder{n % 6}"
        folder.mkdir(parents=True, exist_ok=True)
        seed = hashlib.sha256(b"%d" % n).digest()
        (folder / f"file{n}").write_bytes(seed * 2000 + b"".join(numbers([n], range(20_000))))
    run_under(preload, [tar, "-C", tmp_path, "-cf", archive, "source"]).require_served("tar")

    for packer, options, ending in ((gzip, ["-6"], ".gz"), (xz, ["-1", "-T2"], ".xz")):
        packed = archive.with_name(archive.name + ending)
        run_under(preload, [packer, "-k", *options, archive]).require_served(packer.name)
        assert packed.stat().st_size < archive.stat().st_size / 2
        run_under(None, [packer, "-t", packed])
        unpacked = tmp_path / f"unpacked{ending}"
        unpacked.mkdir()
        # tar runs the unpacker as a child process.
        result = run_under(preload, [tar, "-C", unpacked, "-xf", packed])
        result.require_served("tar", packer.name)
        files = [path for path in source.rglob("*") if path.is_file()]
        assert len(files) == 60
        for path in files:
            assert digest(path) == digest(unpacked / path.relative_to(tmp_path)), path
