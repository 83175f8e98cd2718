"""A stand-in build, so that no test here needs the real one, a rival, or a timing."""

import os
import shutil
import signal

import pytest
from hakmem.suite import SUITE
from standing import Stand, compile_c

# A shell that starts the tests in the background has SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    environment |= {
        "LAB_BUILD_DIR": str(folder),
        "LAB_LOCK_FILE": str(folder / "lock"),
        "COLUMNS": "140",
        "NO_COLOR": "1",
    }
    return Stand(folder, library, silent, environment)
