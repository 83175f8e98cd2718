"""What the shell offers for an option's value; the names alone, because it is asked at each Tab."""

from functools import partial

import typer

from hakmem import peers
from hakmem.paired.readings import OF_BENCH
from hakmem.suite import SUITE


def benchmarks() -> list[tuple[str, str]]:
    return [(figure.name, figure.what) for figure in SUITE.figures]


def libraries() -> list[str]:
    return ["hakmem", "system", *peers.names()]


def metrics() -> list[str]:
    return [*OF_BENCH, "regex:"]


of_benchmark = partial(typer.Option, autocompletion=benchmarks)
of_library = partial(typer.Option, autocompletion=libraries)
