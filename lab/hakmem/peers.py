"""The rivals: which of them are here, how they are built, and the `hakmem peers` commands."""

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from hakmem import project, terminal
from hakmem.cli import require_checkout
from hakmem.errors import LabError
from hakmem.process import children
from hakmem.process.library import Library, hakmem, system, verify
from hakmem.process.lock import folder_lock

# Tools that a build may need, and the Debian package of each.
TOOLS = {"cc": "gcc", "c++": "g++", "cmake": "cmake", "make": "make"}

NO_CARGO = "cargo not found: install Rust with rustup (https://rustup.rs) and open a new shell"

# cargo's own words for not reaching its registry, and what the user can do about each.
DIAGNOSES = (
    (
        ("Could not resolve host", "failed to download", "network failure", "[6] Could not"),
        "no network: cargo could not fetch the sources; go online once and repeat",
    ),
    (
        ("requires rustc", "is not supported by the following package"),
        "rustc is too old for it: `rustup update stable`",
    ),
    (("No space left on device",), "the disk is full: free some space and repeat"),
    (
        ("anonymous version tag cannot be combined",),
        "its linker is GNU ld, which takes only one version script: `apt-get install lld`, write "
        'rustflags = ["-Clink-arg=-fuse-ld=lld"] under [build] in ~/.cargo/config.toml, and repeat',
    ),
)


# Variables of the user's shell that would change what is built.
FLAGS = re.compile(r"(^|_)(C|CXX|CPP|LD|RUST)FLAGS(_|$)|^CARGO_PROFILE_|JEMALLOC_SYS_")
COMPILERS = {"cc": "CC", "c++": "CXX", "rustc": "RUSTC"}  # and their variables


@dataclass(frozen=True)
class Recipe:
    """A peer that can be built: what its `Cargo.toml` under lab/peers says about it."""

    name: str
    version: str
    tools: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    build_env: Mapping[str, str] = field(default_factory=dict)


# Debian's packages of peers (tools/apt-packages.txt), by the name that the loader knows.
DEBIAN = {
    "gperftools": "libtcmalloc_minimal.so.4",
    "jemalloc-debian": "libjemalloc.so.2",
    "mimalloc2-debian": "libmimalloc.so.2",
}

# --- finding -------------------------------------------------------------------------------------


def recipes() -> dict[str, Recipe]:
    """Every peer with a build recipe, by name."""
    result = {}
    for manifest in sorted((project.root() / "lab" / "peers").glob("*/Cargo.toml")):
        package = project.toml(manifest)["package"]
        peer = package.get("metadata", {}).get("peer")
        if peer is not None:
            name = manifest.parent.name
            result[name] = Recipe(name, **peer)
    return result


def found() -> list[Library]:
    """The system's allocator and, by name, every peer that is here right now."""
    peers = [
        Library(recipe.name, file, _recorded_version(file), "cargo", recipe.env)
        for recipe, file in _built()
    ]
    peers += [
        Library(name, file, _package_version(file), "debian")
        for name, file in _debian_files().items()
    ]
    return [system(), *sorted(peers, key=lambda library: library.name)]


def names() -> list[str]:
    """The names of the peers that are here, without the versions, which take long to find."""
    return sorted([*(recipe.name for recipe, _ in _built()), *_debian_files()])


def _built() -> list[tuple[Recipe, Path]]:
    folder = project.root() / "build" / "peers"
    known = [(recipe, folder / f"{recipe.name}.so") for recipe in recipes().values()]
    return [(recipe, file) for recipe, file in known if file.is_file()]


def _recorded_version(file: Path) -> str:
    """The version that was built into this file; the recipe may be newer by now."""
    try:
        return str(json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError):
        return "unknown"


def _debian_files() -> dict[str, Path]:
    """The files of Debian's peers, by the cache of the loader."""
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig is None:
        return {}
    done = children.said([ldconfig, "-p"])
    known = [line.split(" => ") for line in done.stdout.splitlines() if " => " in line]
    result: dict[str, Path] = {}
    for name, soname in DEBIAN.items():
        for label, path in known:
            if label.split()[0] == soname and _same_machine(Path(path)):
                result.setdefault(name, Path(path).resolve())
    return result


def _same_machine(file: Path) -> bool:
    """Whether an ELF file is for the machine of this interpreter."""

    def machine(path: Path) -> bytes:
        with path.open("rb") as opened:
            header = opened.read(20)
        return header[:6] + header[18:20]

    try:
        return machine(file) == machine(Path(sys.executable))
    except OSError:
        return False


def _package_version(file: Path) -> str:
    """The version of the Debian package; without dpkg, that in the name of the file."""
    from_name = file.name.partition(".so.")[2] or "unknown"
    if shutil.which("dpkg-query") is None:
        return from_name
    # By pattern: dpkg may know the file under / while the loader found it under /usr.
    owner = _output(["dpkg-query", "-S", f"*/{file.name}"]).partition(": ")[0]
    return (owner and _output(["dpkg-query", "-W", "-f", "${Version}", owner])) or from_name


def _output(command: Sequence[str]) -> str:
    done = children.said(command)
    return done.stdout.strip() if done.returncode == 0 else ""


# --- building ------------------------------------------------------------------------------------


def _build_one(recipe: Recipe, target: Path) -> None:
    root = project.root()
    cargo = shutil.which("cargo")
    if cargo is None:
        raise LabError(NO_CARGO)
    for tool in recipe.tools:
        if shutil.which(tool) is None:
            raise LabError(f"{tool} not found: `apt-get install {TOOLS[tool]}`")
    log = target / f"{recipe.name}.log"
    # One package at a time: built together, the features of shared crates would unify.
    command = [cargo, "build", "--release", "--locked", "-p", f"peer-{recipe.name}"]
    plain = {name: value for name, value in os.environ.items() if not FLAGS.search(name)}
    environment = {**plain, **recipe.build_env, "CARGO_TARGET_DIR": str(target)}
    if children.logged(command, log, cwd=root / "lab" / "peers", env=environment) != 0:
        raise LabError(_diagnosis(log))
    made = target / "release" / f"libpeer_{recipe.name.replace('-', '_')}.so"
    stated = {
        "version": recipe.version,
        "compilers": _compilers(recipe),
        "sources": _sources(recipe, root / "lab" / "peers" / "Cargo.lock"),
        "build_env": dict(recipe.build_env),
    }
    _install(made, recipe, root / "build" / "peers", stated)


def _compilers(recipe: Recipe) -> dict[str, str]:
    """The version line of each compiler that the build used."""
    said = {}
    for name in (*recipe.tools, "rustc"):
        chosen = shlex.split(os.environ.get(COMPILERS.get(name, ""), name)) or [name]
        if name in COMPILERS and shutil.which(chosen[0]):
            said[name] = _output([*chosen, "--version"]).partition("\n")[0]
    return said


def _sources(recipe: Recipe, lock: Path) -> dict[str, str]:
    """The checksum of each crate that the peer depends on, which cargo checked when it built."""
    if not lock.is_file():
        return {}
    packages = project.toml(lock)["package"]
    own = f"peer-{recipe.name}"
    # A dependency is "name", or "name version" where several versions are there.
    wanted = {d for p in packages if p["name"] == own for d in p.get("dependencies", ())}
    named = {f"{p['name']} {p['version']}": p for p in packages}
    return {
        name: package["checksum"]
        for name, package in named.items()
        if "checksum" in package and wanted & {name, package["name"]}
    }


def _diagnosis(log: Path) -> str:
    """One line from cargo's output: advice on a known trouble, or the first error and the log."""
    text = log.read_text(encoding="utf-8", errors="replace")
    for words, advice in DIAGNOSES:
        if any(word in text for word in words):
            return advice
    errors = (line for line in text.splitlines() if line.startswith("error"))
    return f"{next(errors, 'cargo failed')} (all of it: {log})"


def _install(made: Path, recipe: Recipe, folder: Path, stated: Mapping[str, object]) -> None:
    """Verifies the library and renames it into place: a process that has the old one keeps that.
    The facts about it lie beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{recipe.name}.so"
    library = Library(recipe.name, fresh, recipe.version, "cargo", recipe.env)
    shutil.copy2(made, fresh)
    try:
        verify(library)
        file = fresh.rename(folder / f"{recipe.name}.so")
    finally:
        fresh.unlink(missing_ok=True)
    project.write_atomically(file.with_suffix(".json"), json.dumps(stated) + "\n")


# --- commands ------------------------------------------------------------------------------------

app = typer.Typer(help="The rival allocators: build them, list them.", no_args_is_help=True)


@app.command("build")
def build_command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Peers to build; all when none is named.")
    ] = None,
) -> None:
    """Build the peers into build/peers/, one after the other, and verify each."""
    require_checkout("peers build")
    known = recipes()
    chosen = dict.fromkeys(names or known)
    if unknown := [name for name in chosen if name not in known]:
        raise LabError(f"unknown peer: {', '.join(unknown)} (known: {', '.join(known)})")
    target = project.root() / "build" / "peers-target"
    failed = defaultdict(list)  # reason -> names; a failure does not stop the others
    console = terminal.new_console()
    with console.status("") as status:
        for name in chosen:
            status.update(f"{name}: building")
            start = time.monotonic()
            try:
                with folder_lock(target):
                    _build_one(known[name], target)
                console.print(f"{name}: built and verified in {time.monotonic() - start:.0f} s")
            except LabError as error:
                failed[str(error)].append(name)
                console.print(f"{name}: failed")
    for reason, these in failed.items():
        said = Text(", ".join(these), style="red").append(f": {reason}", style="default")
        console.print(said, soft_wrap=True)
    good = len(chosen) - sum(map(len, failed.values()))
    console.print(f"{good} of {len(chosen)} peers ready; `hakmem peers list` shows all")
    if failed:
        raise typer.Exit(1)


@app.command("list")
def list_command() -> None:
    """List every allocator that is here, and prove for each that malloc binds to it."""
    libraries = found()
    if project.default_library().is_file():
        libraries.append(hakmem())
    table = terminal.table("name", "version", "origin", "path", "verified")
    failures = []
    for library in libraries:
        try:
            verify(library)
            verdict = "[green]yes[/]"
        except LabError as error:
            verdict = "[red]no[/]"
            failures.append(str(error))
        path = library.path or "the C library"
        table.add_row(library.name, library.version, library.origin, str(path), verdict)
    console = terminal.new_console()
    console.print(table)
    here = {library.name for library in libraries}
    if missing := [name for name in recipes() if name not in here]:
        console.print(f"not built: {', '.join(missing)} (`hakmem peers build`)")
    if missing := [name for name in DEBIAN if name not in here]:
        how = "`tools/setup peers`, as root"
        if project.checkout() is None:
            how = "packages of Debian; to build the others needs a checkout of hakmem"
        console.print(f"not installed: {', '.join(missing)} ({how})")
    for failure in failures:
        terminal.say(console, failure, "red")
    if failures:
        raise typer.Exit(1)
