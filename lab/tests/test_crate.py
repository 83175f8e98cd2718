"""The Rust crates: they bind all that the C header declares, and work as published."""

import json
import re
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hakmem import project
from standing import need
from users import run, version

RUST = project.root() / "bindings" / "rust"
HEADER = re.sub(
    r"/\*.*?\*/", "", (project.root() / "include/hakmem/hakmem.h").read_text(), flags=re.DOTALL
)
BINDING = (RUST / "hakmem-sys" / "src" / "lib.rs").read_text()
# The Rust type for the type of a field in the header.
TYPES = {
    "uint32_t": "u32",
    "uint64_t": "u64",
    "hak_stats_band_t": "[hak_stats_band_t; HAK_STATS_BANDS]",
}
# The categories of crates.io that fit these crates.
CATEGORIES = {"memory-management", "external-ffi-bindings"}
# Cargo's messages if it cannot download the one crate that the build needs.
NO_NETWORK = ("failed to download", "Could not resolve host", "network failure", "[6] Could not")


def manifest(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "Cargo.toml").read_text())


# ---- without cargo ----


def test_there_is_one_version() -> None:
    workspace = manifest(RUST)["workspace"]
    assert workspace["package"]["version"] == version()
    assert workspace["dependencies"]["hakmem-sys"]["version"] == version()
    for name in workspace["members"]:
        package = manifest(RUST / name)["package"]
        assert (package["name"], package["version"]) == (name, {"workspace": True})


@pytest.mark.parametrize("name", ["hakmem", "hakmem-sys"])
def test_a_crate_says_what_it_is_and_under_which_licence(name: str) -> None:
    """crates.io refuses too many or too long keywords, and unknown categories."""
    package = manifest(RUST / name)["package"]
    shared = manifest(RUST)["workspace"]["package"]
    for field in ("license", "authors"):
        assert package[field] == {"workspace": True}
    licence = (project.root() / "LICENSE").read_text()
    assert licence.startswith(f"{shared['license']} License\n")
    assert f"Copyright (c) 2026 {shared['authors'][0]}\n" in licence
    assert (RUST / name / "LICENSE").read_text() == licence
    assert {"/LICENSE", f"/{package['readme']}"} <= set(package["include"])
    assert (RUST / name / package["readme"]).read_text().startswith(f"# {name}\n")
    assert package["description"]
    assert 0 < len(package["keywords"]) <= 5
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{,19}", word) for word in package["keywords"])
    assert {"memory-management"} <= set(package["categories"]) <= CATEGORIES


def test_the_functions_are_the_headers() -> None:
    functions = re.findall(r"\b(hak_\w+)\(", HEADER)
    assert len(functions) > 10
    assert re.findall(r"pub fn (hak_\w+)\(", BINDING) == functions


def fields_of_header(name: str) -> list[tuple[str, str]]:
    body = re.search(rf"typedef struct {{([^}}]*)}} {name};", HEADER)
    found = []
    for statement in body[1].split(";")[:-1]:
        kind, names = statement.split(maxsplit=1)
        found += [(one.partition("[")[0].strip(), TYPES[kind]) for one in names.split(",")]
    return found


@pytest.mark.parametrize("name", ["hak_stats_band_t", "hak_stats_t"])
def test_the_structs_are_the_headers(name: str) -> None:
    body = re.search(rf"pub struct {name} {{([^}}]*)}}", BINDING)
    assert re.findall(r"pub (\w+): ([^,]+),", body[1]) == fields_of_header(name)


def test_the_constants_are_the_headers() -> None:
    bands = re.findall(r"\b(HAK_\w+) = (\d+)", HEADER)
    assert bands == re.findall(r"pub const (\w+): usize = (\d+);", BINDING)
    formats = re.search(r"typedef enum {([^}]*)} hak_stats_format_t;", HEADER)
    named = dict(re.findall(r"pub const (\w+): hak_stats_format_t = (\d+);", BINDING))
    assert list(named) == formats[1].replace(",", " ").split()
    assert list(named.values()) == [str(value) for value in range(len(named))]


def test_what_is_not_called_vendor_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    done = run([project.root() / "tools" / "vendor-crate", tmp_path], tmp_path, status=1)
    assert "is not called vendor" in done.stderr
    assert (tmp_path / "kept").exists()


# ---- with cargo ----


def need_cargo() -> None:
    least = manifest(RUST)["workspace"]["package"]["rust-version"]
    need("cargo")
    said = run(["cargo", "--version"], RUST).stdout
    found = re.match(r"cargo (\d+)\.(\d+)", said)
    if found is None or [int(n) for n in found.groups()] < [int(n) for n in least.split(".")]:
        pytest.skip(f"SKIPPED: {said.strip()} is older than {least}: the crates are NOT tested")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workspace outside the checkout, with the C sources as in a published crate."""
    need_cargo()
    folder = tmp_path_factory.mktemp("crates") / "rust"
    built = shutil.ignore_patterns("target", "vendor", "Cargo.lock")
    shutil.copytree(RUST, folder, ignore=built)
    run([project.root() / "tools" / "vendor-crate", folder / "hakmem-sys" / "vendor"], folder)
    return folder


def cargo(folder: Path, *words: str, **environment: str) -> str:
    """Runs cargo in a crate's folder; returns its output."""
    target = str(folder.parent / "target")
    return run(
        ["cargo", *words], folder, trouble=NO_NETWORK, CARGO_TARGET_DIR=target, **environment
    ).stdout


@pytest.mark.parametrize("features", [(), ("--features", "override")])
def test_programs_run_on_the_crate(workspace: Path, features: tuple[str, ...]) -> None:
    said = cargo(workspace / "hakmem", "test", *features)
    results = re.findall(r"test result: ok\. (\d+) passed", said)
    # Three files of tests and the README's program; the crates have no tests inside.
    assert sorted(map(int, results))[-4:] == [1, 1, 5, 5]
    said = cargo(workspace / "hakmem", "run", "--quiet", "--example", "global", *features)
    assert f"hakmem {version()}: " in said
    assert f"malloc is {'' if features else 'not '}hakmem's" in said


def test_naming_the_crate_is_enough_for_the_whole_process(workspace: Path, tmp_path: Path) -> None:
    call = ("run", "--quiet", "--features", "override", "--example", "whole")
    said = cargo(workspace / "hakmem", *call, HAKMEM_PROOF=str(tmp_path / "proof"))
    assert said == "allocated by malloc\n"
    proofs = [json.loads(line) for line in (tmp_path / "proof").read_text().splitlines()]
    assert [(Path(p["exe"]).name, p["serving"]) for p in proofs] == [("whole", True)]


def test_the_crates_can_be_published(workspace: Path) -> None:
    # The packed sources are enough to build. -O0: optimized builds are tested above.
    cargo(workspace / "hakmem-sys", "publish", "--dry-run", "--allow-dirty", CFLAGS="-O0")
    listed = cargo(workspace / "hakmem-sys", "package", "--list", "--allow-dirty").splitlines()
    root = project.root()
    sources = [*(root / "src").rglob("*.*"), *(root / "include").rglob("*.*"), root / "LICENSE"]
    assert {f"vendor/{path.relative_to(root)}" for path in sources} <= set(listed)
    assert {"build.rs", "src/lib.rs", "README.md", "LICENSE"} <= set(listed)
    cargo(workspace / "hakmem-sys", "package", "--no-verify", "--allow-dirty")
    with tarfile.open(next((workspace / "target" / "package").glob("*.crate"))) as crate:
        (packed,) = (
            name for name in crate.getnames() if name.count("/") == 1 and "LICENSE" in name
        )
        file = crate.extractfile(packed)
        assert file.read() == (root / "LICENSE").read_bytes()
    # A dry run of publishing hakmem would need hakmem-sys on crates.io, where it may not be yet: so
    # only the list of packed files is checked.
    listed = cargo(workspace / "hakmem", "package", "--list", "--allow-dirty").splitlines()
    wanted = {"src/lib.rs", "README.md", "LICENSE", "examples/global.rs", "tests/serving.rs"}
    assert wanted <= set(listed)
