"""hakmem's variables in an environment: they reach every process that is measured."""

from collections.abc import Mapping

PREFIX = "HAKMEM_"
# Variables of the benchmarks and of the proof, which change nothing that is measured.
HARMLESS = ("HAKMEM_BENCH_", "HAKMEM_PROOF")


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that concern the allocator."""
    return {name: value for name, value in environment.items() if name.startswith(PREFIX)}


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without these: a process then has the defaults."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}


def tuning(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that change what is measured."""
    found = settings_of(environment).items()
    return {name: value for name, value in found if not name.startswith(HARMLESS)}
