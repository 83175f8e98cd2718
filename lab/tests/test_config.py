"""`hakmem config` prints the real library's options; --check finds a page that differs."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hakmem import config, project
from hakmem.process import proof as proofs
from hakmem.process.settings import without_settings
from standing import PATIENCE_S, Stand, need_built, ran, refused

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "options.md"


@pytest.fixture
def built() -> Path:
    need_built(project.default_library())
    return project.default_library()


@pytest.fixture
def clean() -> dict[str, str]:
    """This process's environment without any hakmem option."""
    return without_settings(os.environ)


def option(listing: config.Listing, name: str) -> config.Option:
    return next(row for row in listing.options if row.name == name)


def test_every_row_is_whole(built: Path, clean: dict[str, str]) -> None:
    listing = config.ask(built, clean)
    assert listing.said == ""
    assert len({row.name for row in listing.options}) == len(listing.options) >= 33
    for row in listing.options:
        assert row.name.startswith("HAKMEM_")
        assert row.doc
        assert row.allowed
        assert row.built
        assert row.value == row.default or row.origin == "cgroup"
        assert row.level in {"stable", "experimental", "research"}
        assert row.when in {"start", "run time"}
    assert [profile.name for profile in listing.profiles] == [
        word.strip() for word in option(listing, "HAKMEM_PROFILE").allowed.split(",")
    ]


def test_profile_and_environment_are_told_apart(stand: Stand, built: Path) -> None:
    done = stand.run(
        *("config", "--lib", built, "--json", "--env", "HAKMEM_PROFILE=MIXED_TINYV3_C7_SAFE"),
        *("--env", "HAKMEM_TINY_PREWARM_C3=7"),
        HAKMEM_TCACHE_KB="4096",
    )
    assert (done.returncode, done.stderr) == (0, "")
    listing = config.parse(json.loads(done.stdout))
    found = {row.name: (row.value, row.origin) for row in listing.options}
    assert found["HAKMEM_PROFILE"] == ("speed", "environment")
    assert found["HAKMEM_TINY_PREWARM_C2"] == ("128", "profile")
    assert found["HAKMEM_TINY_PREWARM_C3"] == ("7", "environment")
    assert found["HAKMEM_TCACHE_KB"] == ("4096", "environment")
    assert found["HAKMEM_THP"] == ("1", "default")


@pytest.mark.parametrize("columns", ["80", "160"])
def test_the_table_has_every_option(stand: Stand, built: Path, columns: str) -> None:
    done = ran(stand.run("config", "--lib", built, HAKMEM_PROFILE="lean", COLUMNS=columns))
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("HAK")}
    assert len(lines) == len(config.ask(built).options)
    assert lines["HAKMEM_PROFILE"].split("environment")[0].endswith(" lean  ")
    assert lines["HAKMEM_SS_MEM_LEAN_DECOMMIT"].split("profile")[0].endswith(" FREE  ")
    assert ("what it is" in done.stdout) == (columns == "160")


def test_what_the_library_complains_about_is_passed_on(stand: Stand, built: Path) -> None:
    done = ran(stand.run("config", "--lib", built, "--env", "HAKMEM_THP=maybe", HAKMEM_TPH="0"))
    assert "HAKMEM_THP=maybe: one of 0|1 is allowed" in done.stderr
    assert "the nearest known name is HAKMEM_THP" in done.stderr


@pytest.mark.parametrize("path", ['/tmp/a "b"\\c\t', "/tmp/" + 'é"' * 1500])
def test_any_text_survives_the_listing(built: Path, clean: dict[str, str], path: str) -> None:
    listing = config.ask(built, clean | {"HAKMEM_STATS": f"json:{path}"})
    assert option(listing, "HAKMEM_STATS").value == f"json:{path}"


def test_a_wrong_assignment_and_a_wrong_library_are_one_clear_line(
    stand: Stand, built: Path
) -> None:
    for arguments, message in (
        (("--lib", built, "--env", "HAKMEM_THP"), "--env takes NAME=VALUE"),
        (("--lib", stand.library), "cannot list its options"),
        (("--lib", PAGE), "no list of options came out of it"),
    ):
        refused(stand.run("config", *arguments), message)


# ---- docs/options.md ----


def test_the_page_is_what_the_library_says(stand: Stand, built: Path) -> None:
    done = stand.run("config", "--lib", built, "--check", PAGE, HAKMEM_PROFILE="speed")
    assert (done.returncode, done.stderr) == (0, "")
    assert "as the library has them" in done.stdout
    printed = stand.run("config", "--lib", built, "--markdown")
    assert printed.stdout == PAGE.read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [("`2048`", "`2049`"), ("128", "127"), ("| run time |", "| start |"), ("\n## Lean\n", "\n")],
)
def test_a_stale_page_is_found(
    stand: Stand, built: Path, tmp_path: Path, old: str, new: str
) -> None:
    text = PAGE.read_text()
    assert old in text
    page = tmp_path / "options.md"
    page.write_text(text.replace(old, new, 1))
    done = ran(stand.run("config", "--lib", built, "--check", page), 1)
    line = 1 + text[: text.index(old)].count("\n") + old.startswith("\n")
    assert f"options.md:{line}: not what the library says" in done.stderr
    assert "hakmem config --markdown" in done.stderr


# ---- the proof line ----


def proof_of(library: Path, tmp_path: Path, settings: dict[str, str]) -> proofs.Proof:
    file = tmp_path / "proof"
    environment = without_settings(os.environ) | settings
    environment |= {"LD_PRELOAD": str(library), "HAKMEM_PROOF": str(file)}
    subprocess.run(["/bin/true"], env=environment, check=True, timeout=PATIENCE_S)
    assert len(file.read_text().splitlines()) == 1
    [proof] = proofs.read(file)
    assert proof.serving
    return proof


def test_a_process_without_settings_proves_that_it_has_none(built: Path, tmp_path: Path) -> None:
    proof = proof_of(built, tmp_path, {})
    assert (proof.profile, proof.settings) == ("balanced", {})


def test_the_proof_has_the_profile_and_all_that_is_not_default(built: Path, tmp_path: Path) -> None:
    settings = {"HAKMEM_PROFILE": "speed", "HAKMEM_TCACHE_KB": "4096", "HAKMEM_THP": "1"}
    proof = proof_of(built, tmp_path, settings)
    assert proof.profile == "speed"
    assert proof.settings == {
        "HAKMEM_PROFILE": "speed",
        "HAKMEM_TCACHE_KB": "4096",
        "HAKMEM_SS_MEM_LEAN": "0",
        "HAKMEM_TINY_PREWARM_C2": "128",
        "HAKMEM_TINY_PREWARM_C3": "128",
        "HAKMEM_TINY_PREWARM_C4": "64",
        "HAKMEM_TINY_PREWARM_C5": "64",
    }


def test_every_option_at_once_is_still_one_line_of_json(built: Path, tmp_path: Path) -> None:
    settings = {}
    for row in config.ask(built, without_settings(os.environ)).options:
        if row.allowed == "text":
            settings[row.name] = '/dev/null "\\' + "\t" * 500
        elif " to " in row.allowed:
            bounds = row.allowed.split(" to ")
            settings[row.name] = next(bound for bound in reversed(bounds) if bound != row.default)
        else:
            words = row.allowed.split(", ")
            settings[row.name] = next(word for word in words if word != row.default)
    del settings["HAKMEM_PROOF"]
    proof = proof_of(built, tmp_path, settings)
    assert proof.settings.keys() == settings.keys()
    assert proof.settings["HAKMEM_TCACHE_KB"] == "1048576"
    assert proof.settings["HAKMEM_STATS"].startswith('/dev/null "\\\t\t')
    assert proof.settings["HAKMEM_STATS"].endswith("\t...")
