"""One allocator library, and the proof that a process's malloc really is that library's."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from hakmem import project
from hakmem.errors import LabError
from hakmem.process import children
from hakmem.process.children import last_line

Origin = Literal["system", "cargo", "debian", "hakmem", "given"]

# Names of the two that are always there, and of hakmem with checked copying beside it.
SUBJECT = "hakmem"
CHECKED = "hakmem-checked"
SYSTEM = "system"

# If another allocator than malloc's answered one of these, a free would get a foreign block.
ENTRY_POINTS = (
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "malloc_usable_size",
)

# Prints which file each symbol binds to, in the global scope that the whole process uses, and then
# sends blocks through all of them. Runs in a child, because the preload must precede everything.
_CHILD = """
import ctypes, json, os, sys

class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]

here = ctypes.CDLL(None)
here.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]
files = {}
for symbol in sys.argv[1:]:
    function = getattr(here, symbol, None)
    info = Info()
    if function and here.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info)):
        files[symbol] = os.fsdecode(info.file)
print(json.dumps(files), flush=True)

size, pointer = ctypes.c_size_t, ctypes.c_void_p
def entry(name, result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)((name, here))
malloc, calloc = entry("malloc", pointer, size), entry("calloc", pointer, size, size)
realloc, free = entry("realloc", pointer, pointer, size), entry("free", None, pointer)
usable = entry("malloc_usable_size", size, pointer)
aligned_alloc = entry("aligned_alloc", pointer, size, size)
posix_memalign = entry("posix_memalign", ctypes.c_int, ctypes.POINTER(pointer), size, size)

zeroed = calloc(10, 100)
assert ctypes.string_at(zeroed, 1000) == bytes(1000), "calloc's block is not zero"
plain = malloc(100)
ctypes.memset(plain, 7, 100)
grown = realloc(plain, 100000)
assert ctypes.string_at(grown, 100) == bytes([7]) * 100, "realloc lost bytes"
assert usable(grown) >= 100000, "malloc_usable_size is too small"
aligned, out = aligned_alloc(64, 640), pointer()
assert posix_memalign(ctypes.byref(out), 4096, 100) == 0, "posix_memalign failed"
assert aligned % 64 == 0 and out.value % 4096 == 0, "an aligned block is not aligned"
for block in (zeroed, grown, aligned, out):
    free(block)
"""


@dataclass(frozen=True)
class Library:
    """An allocator that a program can be started with. `path` None is the C library's own.

    `env` has the variables that this allocator needs to run as its authors intend. `beside` is no
    allocator, but is preloaded before it.
    """

    name: str
    path: Path | None
    version: str
    origin: Origin
    env: Mapping[str, str] = field(default_factory=dict)
    beside: Path | None = None

    @property
    def is_hakmem(self) -> bool:
        """Whether its processes must leave a proof; those of another library must leave none."""
        return self.origin == "hakmem"

    @property
    def files(self) -> list[Path]:
        """The files to preload, in this order."""
        return [file for file in (self.beside, self.path) if file is not None]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with this library, and no other, preloaded."""
        result = {**base, **self.env}
        result.pop("LD_PRELOAD", None)
        if self.path is not None:
            result["LD_PRELOAD"] = ":".join(map(preloadable, self.files))
        return result


def preloadable(file: Path) -> str:
    """The path as LD_PRELOAD takes it; LabError where it cannot."""
    if any(separator in str(file) for separator in " :"):
        raise LabError(f"the loader cannot preload a path with a space or colon: {file}")
    return str(file)


def system() -> Library:
    """The C library's allocator."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (ValueError, OSError):
        version = "unknown"
    return Library(name=SYSTEM, path=None, version=version, origin="system")


def hakmem(path: Path | None = None) -> Library:
    """Our own library: `build/libhakmem.so`, or the given file. LabError: not hakmem."""
    file = project.library(path)
    asks = "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).hak_version; "
    asks += "f.restype = ctypes.c_char_p; print(f().decode())"
    done = _python(asks, [str(file)], system())
    if done.returncode != 0:
        raise LabError(f"{file} is not hakmem: {last_line(done.stderr)}")
    return Library(name=SUBJECT, path=file, version=done.stdout.strip(), origin="hakmem")


def checked() -> Library:
    """Our own library with `libhakmem_check.so` beside it."""
    check = project.default_library().with_name("libhakmem_check.so")
    beside = project.require_file(check, "the library of checked copying")
    return replace(hakmem(), name=CHECKED, beside=beside)


def verify(library: Library) -> Mapping[str, str]:
    """Starts a small process with the library and proves that its malloc is the library's, and its
    memcpy that of the library beside it, if any.

    Returns the file that answers each entry point there, and C++'s operator new (_Znwm) if any.
    LabError if an entry point binds elsewhere, or if the allocator fails in simple use.
    """
    if library.path is not None and not library.path.is_file():
        raise LabError(f"{library.name}: {library.path} does not exist")
    done = _python(_CHILD, [*ENTRY_POINTS, "memcpy", "_Znwm", "getpid"], library)
    how = children.how_ended(done.returncode, done.stderr)
    ended = f"{library.name}: a process under it ended: {how}"
    try:
        symbols: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        raise LabError(ended) from None
    # The C library is wherever getpid is.
    expected = str(library.path or symbols["getpid"])
    for entry in ENTRY_POINTS:
        file = symbols.get(entry)
        if file is None:
            raise LabError(f"{library.name}: nothing in the process defines {entry}")
        if not Path(file).exists() or not Path(file).samefile(expected):
            hint = last_line(done.stderr) if "cannot be preloaded" in done.stderr else ""
            raise LabError(
                f"{library.name}: {entry} binds to {file}, not to {expected}"
                + (f" ({hint})" if hint else "")
            )
    copies = symbols.get("memcpy")
    if library.beside and not (copies and Path(copies).samefile(library.beside)):
        raise LabError(f"{library.name}: memcpy binds to {copies}, not to {library.beside}")
    if done.returncode != 0:
        raise LabError(ended)
    return symbols


def _python(code: str, arguments: list[str], library: Library) -> subprocess.CompletedProcess[str]:
    return bare_python(code, arguments, library.environment(os.environ), library.name)


def bare_python(
    code: str, arguments: Sequence[str], environment: Mapping[str, str], name: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a bare interpreter under the library `name`; LabError after 60 s."""
    try:
        argv = [sys.executable, "-I", "-S", "-c", code, *arguments]
        return children.said(argv, env=dict(environment), timeout=60)
    except subprocess.TimeoutExpired:
        raise LabError(f"{name}: a process under it hung for 60 s") from None
