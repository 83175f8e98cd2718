"""The peers module, without a real peer, cargo or a network."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hakmem import peers
from hakmem.errors import LabError
from hakmem.paired import cells, compare
from hakmem.process import library
from hakmem.process.library import Library
from standing import PROGRAMS, Stand, compile_c, flat, ran, refused, script
from typer.testing import CliRunner

BUMP_ALLOCATOR = (PROGRAMS / "bump_allocator.c").read_text(encoding="utf-8")


def shared_library(folder: Path, source: str) -> Library:
    file = folder / "planted.c"
    file.write_text(source)
    made = compile_c(file, folder / "planted.so", "-fPIC", "-shared", "-fno-builtin")
    return Library("planted", made, "1", "cargo")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree in place of this project."""
    monkeypatch.setattr(peers.project, "root", lambda: tmp_path)
    return tmp_path


def add_recipe(root: Path, name: str = "tiny", tools: str = "[]") -> Path:
    """Adds the recipe of a peer; returns the folder where built peers belong."""
    manifest = root / "lab" / "peers" / name / "Cargo.toml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(
        f'[package]\nname = "peer-{name}"\n'
        f'[package.metadata.peer]\nversion = "7.1"\ntools = {tools}\n'
        '[package.metadata.peer.env]\nTINY_MODE = "fast"\n'
        '[package.metadata.peer.build_env]\nJEMALLOC_SYS_TINY = "1"\n'
    )
    return root / "build" / "peers"


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Replaces cargo with a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return lambda text: script(tmp_path / "bin" / "cargo", text)


@pytest.fixture
def no_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the distribution's peers."""
    monkeypatch.setattr(peers, "DEBIAN", {})


# --- verify --------------------------------------------------------------------------------------


def test_the_system_allocator_is_proven() -> None:
    symbols = library.verify(library.system())
    assert set(library.ENTRY_POINTS) <= set(symbols)
    assert len({symbols[entry] for entry in library.ENTRY_POINTS}) == 1


def test_a_complete_allocator_is_proven(tmp_path: Path) -> None:
    planted = shared_library(tmp_path, BUMP_ALLOCATOR)
    symbols = library.verify(planted)
    assert {symbols[entry] for entry in library.ENTRY_POINTS} == {str(planted.path)}
    assert symbols.get("_Znwm") != symbols["malloc"]


NO_MALLOC = "int unrelated(void) { return 1; }"
HOLED = BUMP_ALLOCATOR.replace("int posix_memalign", "int other_memalign")
DIRTY = BUMP_ALLOCATOR.replace(
    "return take(16, count * size);",
    "void *p = take(16, count * size); if (p && count == 10) memset(p, 1, size); return p;",
)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (NO_MALLOC, r"planted: malloc binds to .*libc.*planted\.so"),
        (HOLED, r"posix_memalign binds to .*libc"),
        (DIRTY, "calloc's block is not zero"),
    ],
)
def test_what_is_no_whole_allocator_is_refused(tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(LabError, match=why):
        library.verify(shared_library(tmp_path, source))


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("not an ELF file")
    with pytest.raises(LabError, match="cannot be preloaded"):
        library.verify(Library("text", file, "1", "cargo"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"gone\.so does not exist"):
        library.verify(Library("gone", tmp_path / "gone.so", "1", "cargo"))


def test_hakmem_must_be_hakmem(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is not hakmem"):
        library.hakmem(shared_library(tmp_path, NO_MALLOC).path)
    with pytest.raises(LabError, match=r"hakmem's library not found: .*gone\.so"):
        library.hakmem(tmp_path / "gone.so")


def test_hakmem_says_its_own_version(tmp_path: Path) -> None:
    source = 'const char *hak_version(void) { return "9.8.7"; }'
    ours = library.hakmem(shared_library(tmp_path, source).path)
    assert (ours.version, ours.origin) == ("9.8.7", "hakmem")


def test_the_environment_holds_this_library_alone() -> None:
    base = {"LD_PRELOAD": "/other.so", "KEEP": "1"}
    peer = Library("p", Path("/p.so"), "1", "cargo", {"MODE": "x"})
    assert peer.environment(base) == {"LD_PRELOAD": "/p.so", "KEEP": "1", "MODE": "x"}
    assert library.system().environment(base) == {"KEEP": "1"}
    with pytest.raises(LabError, match="space or colon"):
        Library("p", Path("/a b.so"), "1", "cargo").environment(base)


# --- found ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_debian")
def test_found_tells_what_was_built_and_not_what_the_recipe_says_now(root: Path) -> None:
    folder = add_recipe(root)
    assert peers.found() == [library.system()]
    folder.mkdir(parents=True)
    (folder / "tiny.so").touch()
    assert peers.found()[1].version == "unknown"
    (folder / "tiny.json").write_text(json.dumps({"version": "7.0"}))
    expected = Library("tiny", folder / "tiny.so", "7.0", "cargo", {"TINY_MODE": "fast"})
    assert peers.found() == [library.system(), expected]


def test_installed_peers_are_found_by_the_loaders_cache(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = shared_library(root, BUMP_ALLOCATOR)
    real = root / "libplanted.so.4.5.6"
    planted.path.rename(real)
    foreign = root / "libforeign.so.4"
    foreign.write_bytes(b"\x7fELF\x01\x01" + bytes(12) + b"\x03\x00")
    lines = [
        f"\tlibplanted.so.4 (libc6) => {foreign}",
        f"\tlibplanted.so.4 (libc6,x86-64) => {real}",
    ]
    bin_folder = root / "bin"
    script(bin_folder / "ldconfig", "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines))
    monkeypatch.setenv("PATH", f"{bin_folder}")
    monkeypatch.setattr(peers, "DEBIAN", {"planted": "libplanted.so.4"})
    assert peers.found()[1:] == [Library("planted", real, "4.5.6", "debian")]


def test_where_there_are_no_rivals_it_is_said_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = [library.system()]
    monkeypatch.setattr(peers, "found", lambda: alone)
    assert [cell.library for cell in compare.rivals([])] == alone
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no rival is here but the system's allocator: `hakmem peers list` says how" in said
    compare.rivals(["system"])
    monkeypatch.setattr(peers, "found", lambda: [*alone, replace(alone[0], name="rpmalloc")])
    compare.rivals([])
    assert capsys.readouterr().err == ""


def test_a_rival_that_is_known_and_not_here_is_no_unknown_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "found", lambda: [library.system()])
    for name in ("jemalloc-debian", "rpmalloc"):
        with pytest.raises(LabError, match=f"^{name} is not here: `hakmem peers list` says how"):
            cells.find(name)
    with pytest.raises(LabError, match=r"^unknown library: nope; known: "):
        cells.find("nope")


def test_the_real_workspace_is_read() -> None:
    known = peers.recipes()
    assert {"jemalloc", "mimalloc", "mimalloc2", "snmalloc", "tcmalloc"} <= set(known)
    assert known["tcmalloc"].env == {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    assert known["jemalloc"].build_env == {"JEMALLOC_SYS_WITH_LG_VADDR": "48"}
    assert all(tool in peers.TOOLS for recipe in known.values() for tool in recipe.tools)


# --- build ---------------------------------------------------------------------------------------


def build(*names: str) -> list[str]:
    """Runs `peers build`; its lines of output."""
    return CliRunner().invoke(peers.app, ["build", *names]).output.splitlines()


def test_an_unknown_peer_is_answered_with_the_known_ones() -> None:
    with pytest.raises(LabError, match=r"unknown peer: nosuch \(known: jemalloc, .*tcmalloc\)"):
        peers.build_command(["nosuch"])


def test_no_cargo_is_said_for_each_peer_and_stops_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_recipe(root, "one")
    add_recipe(root, "two")
    monkeypatch.setenv("PATH", str(root))
    one, two, why, _ = build()
    assert (one, two) == ("one: failed", "two: failed")
    assert why.startswith("one, two: cargo not found: install Rust")


def test_a_missing_tool_is_named_with_its_package(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_recipe(root, tools='["cmake"]')
    script(root / "bin" / "cargo", "exit 0")
    monkeypatch.setenv("PATH", str(root / "bin"))
    assert "tiny: cmake not found: `apt-get install cmake`" in build()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("warning: spurious network error: [6] Could not resolve hostname", "no network"),
        ("error: package `x` cannot be built because it requires rustc 2.0", "rustup update"),
        ("ld: anonymous version tag cannot be combined with other version tags", "GNU ld"),
        ("noise\nerror: linking failed\nmore", r"^error: linking failed \(all of it: .*tiny\.log"),
        ("nothing of use", "^cargo failed"),
    ],
)
def test_cargos_failures_become_one_line(
    root: Path, cargo: Callable[[str], Path], said: str, expected: str
) -> None:
    add_recipe(root)
    cargo(f"printf '%s\\n' '{said}' >&2\nexit 101")
    _, error, _ = build()
    assert re.search(expected, error.removeprefix("tiny: "))


LOCK = """
[[package]]
name = "peer-tiny"
version = "7.1"
dependencies = ["core", "shared 2.0", "ours"]
[[package]]
name = "core"
version = "1.5"
checksum = "aa"
[[package]]
name = "shared"
version = "1.0"
checksum = "bb"
[[package]]
name = "shared"
version = "2.0"
checksum = "cc"
[[package]]
name = "ours"
version = "0.1"
"""


def test_a_users_flags_build_no_other_peer_and_what_built_it_is_stated(
    root: Path, cargo: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_recipe(root, tools='["cc"]')
    (root / "lab" / "peers" / "Cargo.lock").write_text(LOCK)
    made = shared_library(root, BUMP_ALLOCATOR).path
    plain = [f"{of}FLAGS" for of in ("C", "CXX", "CPP", "LD", "RUST")]
    flags = [*plain, "CFLAGS_x86_64", "HOST_CFLAGS", "JEMALLOC_SYS_WITH_LG_PAGE"]
    of_cargo = ("BUILD_RUSTFLAGS", "ENCODED_RUSTFLAGS", "TARGET_X_RUSTFLAGS", "PROFILE_RELEASE_LTO")
    for name in (*flags, *(f"CARGO_{name}" for name in of_cargo)):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("KEPT", "planted")
    script(root / "bin" / "compiler", "echo planted compiler 1; echo more")
    monkeypatch.setenv("CC", "compiler -m64")
    target = '"$CARGO_TARGET_DIR/release"'
    cargo(f"env > {root}/seen; mkdir -p {target}; cp {made} {target}/libpeer_tiny.so")
    assert build("tiny")[-1].startswith("1 of 1 peers ready")
    seen = (root / "seen").read_text().splitlines()
    assert [line for line in seen if line.endswith("=planted")] == ["KEPT=planted"]
    assert "JEMALLOC_SYS_TINY=1" in seen
    stated = json.loads((folder / "tiny.json").read_text())
    assert stated["version"] == "7.1"
    assert stated["compilers"]["cc"] == "planted compiler 1"
    assert stated["sources"] == {"core 1.5": "aa", "shared 2.0": "cc"}
    assert stated["build_env"] == {"JEMALLOC_SYS_TINY": "1"}


@pytest.mark.parametrize("complete", [True, False])
def test_only_a_verified_library_is_put_in_place(
    root: Path, cargo: Callable[[str], Path], complete: bool
) -> None:
    folder = add_recipe(root)
    source = BUMP_ALLOCATOR if complete else NO_MALLOC
    made = shared_library(root, source).path
    # A stand-in for cargo: puts the library where cargo would; notes its arguments, and whether the
    # lock on the target folder is held meanwhile.
    target = '"$CARGO_TARGET_DIR/release"'
    alone = 'flock -n "$CARGO_TARGET_DIR/lock" true || echo alone'
    cargo(
        f'(echo "$@"; {alone}) > {root}/asked; '
        f"mkdir -p {target}; cp {made} {target}/libpeer_tiny.so"
    )
    said = build("tiny")
    assert (root / "asked").read_text() == "build --release --locked -p peer-tiny\nalone\n"
    if complete:
        assert said[-1].startswith("1 of 1 peers ready")
        assert peers.found()[-1].path == folder / "tiny.so"
        assert sorted(file.name for file in folder.iterdir()) == ["tiny.json", "tiny.so"]
    else:
        assert "malloc binds to" in said[1]
        assert list(folder.iterdir()) == []


# --- commands ------------------------------------------------------------------------------------


def test_advice_with_brackets_is_shown_whole(
    root: Path, cargo: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_recipe(root)
    cargo("echo 'anonymous version tag cannot be combined' >&2\nexit 101")
    done = CliRunner().invoke(peers.app, ["build", "tiny"])
    assert "tiny: its linker is GNU ld" in done.output
    assert "under [build] in" in done.output


def test_build_says_a_shared_reason_once_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = CliRunner().invoke(peers.app, ["build", "mimalloc", "jemalloc"])
    assert done.exit_code == 1
    assert done.output.count("cargo not found") == 1
    assert "mimalloc, jemalloc: cargo not found" in done.output
    assert "0 of 2 peers ready" in done.output


@pytest.mark.parametrize("good", [True, False])
def test_list_shows_what_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: bool
) -> None:
    source = BUMP_ALLOCATOR if good else NO_MALLOC
    planted = shared_library(tmp_path, source)
    monkeypatch.setattr(peers, "found", lambda: [library.system(), planted])
    monkeypatch.setattr(peers.project, "default_library", lambda: tmp_path / "gone.so")
    done = CliRunner().invoke(peers.app, ["list"])
    assert done.exit_code == (0 if good else 1)
    assert "planted" in done.output
    assert ("malloc binds to" in done.output) is not good


def test_what_was_installed_by_itself_builds_none_and_says_so(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers.project, "checkout", lambda: None)
    for names in ((), ("mimalloc",)):
        refused(stand.call("peers", "build", *names), "peers build needs a checkout of hakmem")
    monkeypatch.setattr(peers, "DEBIAN", {"none": "libnone.so.0"})
    said = flat(ran(stand.call("peers", "list")).stdout)
    assert "not installed: none (packages of Debian; to build the others needs a checkout" in said


def test_set_up_installs_every_peer_that_debian_has() -> None:
    lines = (peers.project.root() / "tools" / "apt-packages.txt").read_text().splitlines()
    files = [line.split()[2] for line in lines if line.startswith("peers ")]
    assert sorted(file.rpartition("/")[2] for file in files) == sorted(peers.DEBIAN.values())
