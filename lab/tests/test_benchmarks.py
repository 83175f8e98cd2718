"""The suite's benchmarks: each is built, how they are chosen, how their output is read."""

import os

import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.process.children import said
from hakmem.process.sample import last_json_line
from hakmem.suite import SUITE
from standing import PATIENCE_S, need_built, ran


def test_every_entry_of_the_suite_is_built() -> None:
    folder = project.root() / "build" / "bench"
    if not folder.is_dir():
        pytest.skip("nothing is built: run `make build`")
    programs = {command.executable for command in SUITE.commands}
    assert [name for name in sorted(programs) if not os.access(folder / name, os.X_OK)] == []


@pytest.mark.parametrize("command", SUITE.commands, ids=lambda command: command.name)
def test_the_real_benchmark_knows_its_options(command: object) -> None:
    program = project.root() / "build" / "bench" / command.executable
    need_built(program)
    ran(said([program, *command.argv(1)[1:], "--help"], timeout=PATIENCE_S))


def test_families_patterns_and_figures_select() -> None:
    assert {f.name for f in SUITE.select(["larson"]).figures} == {
        "larson_1",
        "larson_2",
        "larson_16",
        "larson_generations",
    }
    assert [c.name for c in SUITE.select(["*_process"]).commands] == ["random_mixed_100000"]
    with pytest.raises(LabError, match="known: aligned"):
        SUITE.select(["lars"])


def test_the_last_json_line_is_the_benchmarks_own() -> None:
    assert last_json_line('Throughput = 1\n{"bench":"x","ops":1}\n') == {"bench": "x", "ops": 1}
    assert last_json_line('{"bench":"x"') is None
    assert last_json_line('{"other":1}') is None
