"""A stand-in build, so that no test here needs the real one, a rival, or a timing."""

import os
import shutil
import signal
from collections.abc import Callable

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


def sample(command: str, library: str, number: int, ns: float, **more: object) -> dict[str, object]:
    """A recorded sample of 1000 operations at `ns` each."""
    seconds = ns * 1000 / 1e9
    return {
        "command": command,
        "library": library,
        "argv": [f"build/bench/bench_{command}", "1000"],
        "round": number,
        "position": 0,
        "block": None,
        "letter": None,
        "user_s": seconds,
        "sys_s": 0.001,
        "minflt": 100,
        "majflt": 0,
        "max_rss_kb": 4096,
        "cycles": None,
        "result": {"bench": command, "ops": 1000, "seconds": seconds, "user_s": seconds},
        "proof": None,
        "error": None,
        **more,
    }


@pytest.fixture
def recorded() -> Callable[..., dict[str, object]]:
    """Makes a small record: one benchmark, hakmem at `ns` each round, rivals at 20 and 30."""

    def make(ns: float, rounds: int = 8) -> dict[str, object]:
        proof = {"version": "0.1.0", "pid": 7, "exe": "/b/bench_x", "serving": True}
        samples = []
        for n in range(rounds):
            noise = 1 + 0.002 * (n % 3)
            samples += [
                sample("batch_fifo", "hakmem", n, ns * noise, proof=proof),
                sample("batch_fifo", "system", n, 30 * noise),
                sample("batch_fifo", "rival", n, 20 * (2.002 - noise)),
            ]
        libraries = [
            {
                "name": name,
                "path": path,
                "sha256": "ab" * 32,
                "version": "1.0",
                "origin": "given",
                "env": {},
                "refused": None,
            }
            for name, path in (("hakmem", "/b/h.so"), ("system", None), ("rival", "/b/r.so"))
        ]
        return {
            "format": 2,
            "lab": "0.1.0",
            "created": "2026-01-01T00:00:00+00:00",
            "rounds": rounds,
            "scale": "quick",
            "seed": 1,
            "argv": ["hakmem", "bench"],
            "host": {"cpu": "a <cpu>", "virtualisation": "none seen"},
            "source": {"commit": "0" * 40, "dirty": False},
            "counters": "perf is not installed",
            "libraries": libraries,
            "commands": [
                {
                    "name": "batch_fifo",
                    "argv": ["bench_batch"],
                    "threads": 1,
                    "starts_others": False,
                    "references": [],
                }
            ],
            "figures": [
                {
                    "name": "batch_fifo",
                    "command": "batch_fifo",
                    "metric": "wall_ns",
                    "floor": None,
                    "what": "blocks <in> order",
                }
            ],
            "samples": samples,
        }

    return make
