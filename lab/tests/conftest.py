"""Fixtures. Most tests run against a stand-in build, so that they need neither the real library nor
a rival allocator, and depend on no timing."""

import shutil
import signal
from pathlib import Path

import hakmem
import pytest
from browser_world import Browser
from hakmem import project
from hakmem.process import provenance
from hakmem.suite import SUITE
from scorecards import TARGETS, Site
from standing import Stand, commit, compile_c, unset
from suite_world import World

# A shell that starts the tests in the background ignores SIGINT, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    """Refuses to run if the imported `hakmem` is another checkout's, as when .venv is a symlink."""
    lab = Path(__file__).parents[1]
    if not Path(hakmem.__file__).is_relative_to(lab):
        raise pytest.UsageError(
            f"{hakmem.__file__} is not of {lab}: remove .venv and run tools/setup venv"
        )


@pytest.fixture(scope="session")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: the stand-in library cannot be built")
    folder = tmp_path_factory.mktemp("build")
    bench = folder / "bench"
    bench.mkdir()
    library = compile_c("stub_library.c", folder / "libhakmem.so", "-shared", "-fPIC")
    silent = compile_c("stub_library.c", folder / "silent.so", "-shared", "-fPIC", "-DSILENT")
    program = compile_c("stub_bench.c", folder / "stub")
    for name in {command.executable for command in SUITE.commands}:
        shutil.copy(program, bench / name)
    shutil.copy(silent, bench / "bench_empty.so")
    compile_c("stub_soak.c", bench / "soak_mixed")
    environment = unset("LD_PRELOAD") | {
        "LAB_BUILD_DIR": str(folder),
        "LAB_LOCK_FILE": str(folder / "lock"),
        "COLUMNS": "140",
        "NO_COLOR": "1",
    }
    return Stand(folder, library, silent, environment)


@pytest.fixture
def own(stand: Stand, tmp_path: Path) -> Stand:
    """The stand-in build with a ledger of its own."""
    return stand.under(LAB_LEDGER=tmp_path / "led")


@pytest.fixture(scope="session")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that is not hakmem, in a folder of its own."""
    flags = ("-shared", "-fPIC", "-DSILENT", "-Dhak_version=other_version")
    return compile_c("stub_library.c", tmp_path_factory.mktemp("rival") / "rival.so", *flags)


@pytest.fixture
def world(own: Stand, rival: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A World over the stand-in build; its source is fixed, whatever is committed meanwhile."""
    for name, value in own.environment.items():
        monkeypatch.setenv(name, value)
    source = {"commit": "c" * 40, "tree": "d" * 40, "dirty": False}
    monkeypatch.setattr(provenance, "source", lambda root: source)
    shutil.copy(rival, tmp_path / "rival.so")
    return World(own, tmp_path)


@pytest.fixture(scope="session")
def scorecard_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template")
    for name, text in {
        "bench/a.c": "int a;\n",
        "src/a.c": "int a;\n",
        "evidence/targets.toml": TARGETS,
        "evidence/audit.toml": 'floor = 0\nstale-after = 0\nmessages-from = ""\n',
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    commit(root)
    return root


@pytest.fixture
def site(tmp_path: Path, scorecard_template: Path) -> Site:
    shutil.copytree(scorecard_template, tmp_path / "site")
    return Site(tmp_path / "site")


@pytest.fixture
def here(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(project, "root", lambda: site.root)
    monkeypatch.setenv("LAB_LEDGER", str(site.root / "evidence"))
    return site


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed: the report was not looked at in a browser")
    return Browser(program, tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="session")
def blank(browser: Browser) -> int:
    """The size in bytes of a screenshot of an empty page."""
    file = browser.folder / "blank.html"
    file.write_text("<body></body>", encoding="utf-8")
    return len(browser.picture(file, 1360))
