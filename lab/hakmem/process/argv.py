"""Command lines of the laboratory, as they are recorded and run again: word by word, in order."""

import sys
from collections.abc import Sequence
from pathlib import Path


def own_argv() -> list[str]:
    """The command line as the user would type it again."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lab's own words, and those from -- on, which are the user's command."""
    at = argv.index("--") if "--" in argv else len(argv)
    return list(argv[:at]), list(argv[at:])


def again(seed: int) -> list[str]:
    """This command line with its seed, so that it does the same again."""
    argv = own_argv()
    words, _ = split(argv)
    given = any(word == "--seed" or word.startswith("--seed=") for word in words)
    return argv if given else with_seed(argv, seed)


def without_seed(argv: Sequence[str]) -> list[str]:
    """The command line by which a run is known again: without --seed, --resume and --page."""
    return [word for word in without(argv, "--seed", "--page") if word != "--resume"]


def with_seed(argv: Sequence[str], seed: int) -> list[str]:
    program, name, *rest = argv
    return [program, name, "--seed", str(seed), *rest]


def without(argv: Sequence[str], *options: str) -> list[str]:
    """The command line without these options, which have values, and without their values."""
    words, kept = iter(argv), []
    for word in words:
        if word in options:
            next(words, None)
        elif word.partition("=")[0] not in options:
            kept.append(word)
    return kept


def with_option(argv: Sequence[str], name: str, value: str) -> list[str]:
    """The command line with this option, in place of an earlier one."""
    words, rest = split(argv)
    return [*without(words, name), name, value, *rest]
