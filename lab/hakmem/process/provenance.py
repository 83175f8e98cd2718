"""Where a figure comes from: source, benchmark, binary, host, noise, and the allocator loaded."""

import hashlib
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hakmem import config, git, project
from hakmem.errors import LabError
from hakmem.process import children, host
from hakmem.process.library import Library
from hakmem.process.proof import Proof
from hakmem.process.settings import tuning, without_settings
from hakmem.suite import Command

UNSTATED = "not stated"

# What the shared library is made from; the single files only where compiler and linker support
# them. (shared/throw.cc is the archive's alone.)
OF_LIBRARY = ("src", "include", "shared/dlopen.c", "shared/unwinder.c", "tools/order.ld")

# Paths that cannot change a measurement may differ from the commit: the ledger grows while one
# runs.
HARMLESS = (":(exclude)evidence", ":(exclude)docs", ":(exclude)*.md")


# ---- source and benchmark ----


def source(root: Path) -> dict[str, object]:
    """The commit and its tree; `dirty` if anything that can change a figure differs from it.

    Where git cannot say, it counts as dirty.
    """
    changed = git.ask(root, "status", "--porcelain", "--", ".", *HARMLESS)
    return {
        "commit": git.ask(root, "rev-parse", "HEAD") or "no commit",
        "tree": git.ask(root, "rev-parse", "HEAD^{tree}") or "no tree",
        "dirty": changed is None or changed != "",
    }


def definition(command: Command, root: Path) -> str:
    """The hash of what a benchmark does: its program, the harness, its arguments, and its trace if
    that is the project's.

    The amount of work is not part of it. LabError where the program's source is not there.
    """
    total = hashlib.sha256(repr((command.name, command.arguments, command.threads)).encode())
    trace = f"traces/{Path(command.trace).stem}.hktrace"
    traces = (root / "bench").glob(trace) if command.trace else ()
    for path in [*program_sources(command.executable, root), *traces]:
        total.update(f"{path.name} {host.sha256(path)}\n".encode())
    return total.hexdigest()


def program_sources(executable: str, root: Path) -> list[Path]:
    """The files that a benchmark's program is made from; LabError where they are not there."""
    folder = root / "bench"
    stem = executable.removeprefix("bench_")
    names = (f"{stem}.c", f"{stem.removesuffix('_hakmem')}.c")
    program = next((folder / name for name in names if (folder / name).is_file()), None)
    if program is None:
        raise LabError(f"no source of {executable} in {folder}")
    own = sorted(folder.glob(f"{program.stem}_*"))
    return [program, *own, *sorted((folder / "harness").glob("*.[ch]"))]


# ---- binary ----


@dataclass(frozen=True)
class Binary:
    """A library file; `path` is relative to the project if it lies inside. `flags` are those that
    most of its units were compiled with, by its debug information."""

    path: str
    sha256: str
    build_id: str
    compiler: str
    flags: str
    libc: str


def binary(path: Path | None) -> Binary:
    """Facts about a library; None is the C library of this system."""
    file = project.require_file(path or c_library(), "library")
    return _binary(file, file.stat().st_mtime_ns)


def binary_of(library: Library) -> dict[str, object]:
    """A library as records state it: what it is, which file, and which library is beside it."""
    said = {"name": library.name, "version": library.version, "origin": library.origin}
    beside = {"beside": dict(vars(binary(library.beside)))} if library.beside else {}
    return {**said, **vars(binary(library.path)), **beside}


@cache
def _binary(file: Path, changed: int) -> Binary:
    inside = file.is_relative_to(project.root())
    build_id = re.search(r"Build ID: (\w+)", _readelf("-n", str(file)))
    compiler = re.search(r"\]\s+(.+)", _readelf("-p", ".comment", str(file)))
    units = _readelf("--debug-dump=info", "--dwarf-depth=1", str(file))
    producers = Counter(re.findall(r"DW_AT_producer.*?: ([^:\n]*? -[^:\n]*)", units))
    return Binary(
        path=str(file.relative_to(project.root()) if inside else file),
        sha256=host.sha256(file),
        build_id=build_id.group(1) if build_id else UNSTATED,
        compiler=compiler.group(1).strip() if compiler else UNSTATED,
        flags=producers.most_common(1)[0][0].strip() if producers else UNSTATED,
        libc=" ".join(platform.libc_ver()),
    )


def _readelf(*arguments: str) -> str:
    try:
        return children.tool(["readelf", "-W", *arguments]).stdout
    except OSError:
        return ""


def c_library() -> Path:
    """The file that has this process's malloc unless something is preloaded."""
    maps = host.read("/proc/self/maps") or ""
    found = re.search(r"(/\S*/libc[.-]\S*so\S*)", maps)
    if found is None:
        raise LabError("this process does not show which C library it runs on")
    return Path(found.group(1))


def require_current(library: Path, root: Path, sources: Sequence[str] = OF_LIBRARY) -> None:
    """LabError where a library that was built in `root` is older than the source there.

    Only what a build renews is checked: a single file only if the build's rules name it; and
    instead of CMakeLists.txt the rules made from it, because a comment in it changes no library.
    """
    if not library.resolve().is_relative_to(root.resolve()):
        return
    rules = library.parent / "build.ninja"
    said = rules.read_text(encoding="utf-8") if rules.is_file() else ""
    if said:
        _require_newer(rules, [root / "CMakeLists.txt"])
    named = (root / name for name in sources if f"/{name}" in said)
    inside = (path for name in sources for path in (root / name).rglob("*.*"))
    kept = (".c", ".cc", ".h", ".def")
    _require_newer(library, (path for path in inside if path.suffix in kept))
    _require_newer(library, (path for path in named if path.is_file()))


def require_program(file: Path, root: Path) -> Path:
    """A benchmark's program; LabError where it is not there, or older than the source that a record
    would name."""
    program = project.require_file(file, "benchmark")
    if program.resolve().is_relative_to(root.resolve()):
        _require_newer(program, program_sources(program.name, root))
    return program


def _require_newer(built: Path, sources: Iterable[Path]) -> None:
    """LabError where `built` is older than one of its own sources; other sources do not count,
    because it is not built again when they change."""
    for path in sources:
        if path.stat().st_mtime > built.stat().st_mtime:
            raise LabError(f"{built} is older than {path}: run `make build` first")


# ---- host and noise ----


class NoiseMeter:
    """Measures what else the machine does, from its construction to each `stop`."""

    def __init__(self) -> None:
        self._load, self._before = host.load(), _ticks()
        self._start = time.monotonic()

    def stop(self) -> dict[str, object]:
        """What else the machine did meanwhile.

        Shares are of all processors' time; stalls are seconds in which some task waited (PSI);
        context switches are the whole machine's. None where the kernel does not say.
        """
        after = _ticks()

        def grown(name: str) -> float | None:
            old, new = self._before.get(name), after.get(name)
            return None if old is None or new is None else new - old

        def share(name: str) -> float | None:
            part, total = grown(name), grown("total")
            return None if part is None or not total else part / total

        switches = grown("ctxt")
        stalls = {name: grown(f"pressure {name}") for name in ("cpu", "memory", "io")}
        return {
            "seconds": time.monotonic() - self._start,
            "load_before": self._load,
            "load_after": host.load(),
            "busy_share": share("busy"),
            "steal_share": share("steal"),
            "context_switches": None if switches is None else int(switches),
            "stalled_s": {key: None if us is None else us / 1e6 for key, us in stalls.items()},
        }


def _ticks() -> dict[str, float]:
    ticks: dict[str, float] = {}
    for line in (host.read("/proc/stat") or "").splitlines():
        name, *fields = line.split()
        if name == "cpu" and len(fields) >= 8:
            user, nice, system, idle, waiting, interrupts, soft, steal = map(int, fields[:8])
            ticks["busy"] = user + nice + system + interrupts + soft
            ticks["steal"] = steal
            ticks["total"] = ticks["busy"] + idle + waiting + steal
        elif name == "ctxt":
            ticks["ctxt"] = int(fields[0])
    for name in ("cpu", "memory", "io"):
        some = re.search(r"^some .*total=(\d+)", host.read(f"/proc/pressure/{name}") or "", re.M)
        if some:
            ticks[f"pressure {name}"] = int(some.group(1))
    return ticks


# ---- the allocator that was really there ----


def require_intended(library: Library, proof: Proof | None, environment: Mapping[str, str]) -> None:
    """LabError where the allocator of a finished process is not the one intended.

    `environment` is the process's: each option set in it must be in effect, if the process states
    its settings. An allocator that cannot be asked is the library it was started with, which
    `library.verify` showed to answer all entry points.
    """
    if not library.is_hakmem:
        if proof is not None:
            raise LabError(f"{library.name} was intended, but hakmem {proof.version} was loaded")
        return
    if proof is None:
        raise LabError("hakmem was intended, but the process did not say that it was loaded")
    if not proof.serving:
        raise LabError(f"hakmem was intended, but malloc in {proof.program} is not served by it")
    if proof.version != library.version:
        raise LabError(f"hakmem {library.version} was intended, the process ran {proof.version}")
    if proof.settings is not None:
        for name, text in tuning(environment).items():
            _require_setting(name, text, proof.settings, library)


def unintended(library: Library, proof: Proof | None, environment: Mapping[str, str]) -> str | None:
    """The message of `require_intended`, or None where all is as intended."""
    try:
        require_intended(library, proof, environment)
    except LabError as error:
        return str(error)
    return None


def _require_setting(name: str, text: str, settings: Mapping[str, str], library: Library) -> None:
    """LabError unless the setting is in effect. A process states what differs from the defaults; it
    cuts long texts, with dots at the end."""
    stated = settings.get(name)
    if stated is None:
        stated = _defaults(library.path).get(name)
    if stated is None:
        raise LabError(f"{name}={text} was intended, but the process does not know such a setting")
    cut = stated.endswith("...") and text.startswith(stated.removesuffix("..."))
    if stated != text and not cut:
        raise LabError(f"{name}={text} was intended, but {stated or 'nothing'} was in effect")


@cache
def _defaults(library: Path | None) -> dict[str, str]:
    """The default of each option of the library, by environment name."""
    if library is None:
        return {}
    listing = config.ask(library, without_settings(os.environ))
    return {row.name: row.default or "" for row in listing.options}
