"""What the shell offers for an option's value: names alone, because it asks at each Tab."""

from functools import partial
from typing import Any, get_args

import typer

from hakmem import peers
from hakmem.paired.readings import OF_BENCH
from hakmem.suite import SUITE


def benchmarks() -> list[tuple[str, str]]:
    return [(figure.name, figure.what) for figure in SUITE.figures]


def libraries() -> list[str]:
    return ["hakmem", "hakmem-checked", "system", *peers.names()]


def metrics() -> list[str]:
    return [*OF_BENCH, "regex:"]


def one_of(kind: Any, *names: str, help: str) -> Any:
    """An option for a word of the Literal `kind`, which Debian 13's Typer does not support."""
    allowed = get_args(kind)

    def parse(word: str) -> str:
        if word not in allowed:
            raise typer.BadParameter(f"{word!r} is not one of {', '.join(allowed)}.")
        return word

    shown = f"[{'|'.join(allowed)}]"
    return typer.Option(
        *names, help=help, parser=parse, metavar=shown, autocompletion=lambda: [*allowed]
    )


of_benchmark = partial(typer.Option, autocompletion=benchmarks)
of_library = partial(typer.Option, autocompletion=libraries)
