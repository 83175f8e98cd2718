"""The real programs, a row each: what runs, on what, and what of it must come out the same."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem.errors import LabError
from hakmem.programs import inputs

# Placeholders in a row: the laboratory's own interpreter, and that of the environment with wheels.
PYTHON = "{python}"
WHEELS = "{wheels}"

Maker = Callable[[Path, random.Random], None]
Outcome = Callable[[Path, bytes], str]


def of_output(folder: Path, output: bytes) -> str:
    """A digest of what the program wrote on its standard output."""
    return hashlib.sha256(output).hexdigest()


def of_file(name: str) -> Outcome:
    """The outcome that is a digest of the file that the program left under that name."""

    def of(folder: Path, output: bytes) -> str:
        return hashlib.sha256((folder / name).read_bytes()).hexdigest()

    return of


def objects_packed(folder: Path, output: bytes) -> str:
    """How many objects the packs hold; their bytes depend on which thread finds a delta first."""
    packs = list((folder / "pack").glob("*.pack"))
    counts = [int.from_bytes(pack.read_bytes()[8:12], "big") for pack in packs]
    return f"{sum(counts)} objects in {len(packs)} packs"


@dataclass(frozen=True)
class Program:
    """One program and its work, of a second or so. Records are cited by `name`: no slash, no blank.

    It runs in an empty folder in which `in` is the folder of its inputs: what `makers` make, and
    `scripts`. `package` is Debian's, `wheel` a requirement NAME==VERSION of pip; `command` is what
    they bring, and `worker` the executable that does the work, each only where it is not argv[0]. A
    program with a `load` is a server: the load drives it and runs on the system's allocator; then
    all is quiet for `quiet_s` seconds, then the server is told to end. `outcome` must equal that of
    a run on the system's allocator. `version` makes the command say its version.
    """

    name: str
    what: str
    argv: tuple[str, ...]
    package: str | None = None
    command: str | None = None
    wheel: str | None = None
    makers: tuple[Maker, ...] = ()
    scripts: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    worker: str | None = None
    load: tuple[str, ...] = ()
    quiet_s: float = 0.0
    outcome: Outcome = of_output
    version: tuple[str, ...] = ("--version",)


def _redis(name: str, what: str, maker: Maker, quiet_s: float = 0.0) -> Program:
    return Program(
        name,
        what,
        (
            *("in/redis-server", "--port", "0", "--unixsocket", "socket", "--logfile", "log"),
            *("--save", "", "--jemalloc-bg-thread", "no"),
        ),
        package="redis-tools",
        command="redis-check-rdb",
        makers=(maker,),
        scripts=("load.py",),
        load=(PYTHON, "-I", "-S", "in/load.py", "socket", "in/requests"),
        quiet_s=quiet_s,
    )


def _python(name: str, what: str, *argv: str, **more: str) -> Program:
    """A script of ours and its arguments, with the settings of Python that `more` has."""
    return Program(
        name,
        what,
        (PYTHON, "-S", f"in/{argv[0]}", *argv[1:]),
        makers=(inputs.text,) if "in/text" in argv else (),
        scripts=(argv[0],),
        environment={"PYTHONHASHSEED": "0", **more},
    )


def _on_text(name: str, what: str, package: str, *argv: str, version: str = "--version") -> Program:
    """A script of ours, the last word of `argv`, that works on the text."""
    script = Path(argv[-1]).name
    words, makers = (*argv, "in/text"), (inputs.text,)
    return Program(name, what, words, package, makers=makers, scripts=(script,), version=(version,))


PROGRAMS = (
    _redis("redis", "a server under a mixed load of all common types", inputs.mixed_requests),
    _redis(
        "redis-deleted",
        "a server filled with 300 000 keys of mixed sizes, nine in ten deleted, then quiet for 3 s",
        inputs.fill_and_delete,
        quiet_s=3.0,
    ),
    replace(
        _python("sqlite", "a database in memory, from python", "database.py", "70000"),
        version=("-c", "import sqlite3; print('sqlite', sqlite3.sqlite_version)"),
    ),
    _python(
        "python-malloc",
        "python with every object from malloc",
        *("objects.py", "in/text"),
        PYTHONMALLOC="malloc",
    ),
    _python("python", "python with its own small blocks", "objects.py", "in/text"),
    Program(
        "g++",
        "compiles templates",
        ("g++", "-std=c++17", "-O1", "-c", "in/templates.cpp", "-o", "out.o"),
        package="g++",
        makers=(inputs.cxx_file,),
        worker="cc1plus",
        outcome=of_file("out.o"),
    ),
    Program(
        "gcc",
        "compiles C with optimisation",
        ("gcc", "-O2", "-c", "in/many.c", "-o", "out.o"),
        package="gcc",
        makers=(inputs.c_file,),
        worker="cc1",
        outcome=of_file("out.o"),
    ),
    _on_text(
        "lua", "tables, strings and closures", "lua5.4", "lua5.4", "in/text.lua", version="-v"
    ),
    replace(
        _on_text("perl", "hashes, lists and regular expressions", "perl", "perl", "in/text.pl"),
        environment={"PERL_HASH_SEED": "0"},
        version=("-e", "print $^V"),
    ),
    Program(
        "jq",
        "groups and sorts JSON",
        (
            *("jq", "-c", "[group_by(.group)[] | {n: length, sum: (map(.score) | add), all: .}]"),
            "in/records.json",
        ),
        package="jq",
        makers=(inputs.records,),
    ),
    Program(
        "xmllint",
        "reads XML into a tree and formats it",
        ("xmllint", "--format", "--output", "out.xml", "in/document.xml"),
        package="libxml2-utils",
        makers=(inputs.document,),
        outcome=of_file("out.xml"),
    ),
    _on_text(
        "node",
        "objects of the engine, buffers and compression beside them",
        *("nodejs", "node", "in/buffers.js"),
    ),
    Program(
        "z3",
        "solves equalities of uninterpreted terms",
        ("z3", "in/formula.smt2"),
        package="z3",
        makers=(inputs.formula,),
    ),
    Program(
        "duckdb",
        "joins, groups and sorts on two threads, from python",
        (WHEELS, "in/analytics.py"),
        wheel="duckdb==1.0.0",
        scripts=("analytics.py",),
        environment={"PYTHONHASHSEED": "0"},
        version=("-c", "import duckdb; print('duckdb', duckdb.__version__)"),
    ),
    Program(
        "git",
        "repacks a repository on two threads",
        ("git", "-c", "pack.threads=2", "repack", "-a", "-f", "-q"),
        package="git",
        makers=(inputs.repository,),
        environment={
            "GIT_DIR": "in/repository",
            "GIT_OBJECT_DIRECTORY": ".",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": "in/repository/objects",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        },
        worker="git",
        outcome=objects_packed,
    ),
    Program(
        "ghostscript",
        "draws pages of text and curves",
        (
            *("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r72"),
            *("-o", "out.ppm", "in/pages.ps"),
        ),
        package="ghostscript",
        makers=(inputs.drawing,),
        outcome=of_file("out.ppm"),
    ),
    Program(
        "sort",
        "sorts lines on two threads",
        ("sort", "--parallel=2", "-S", "200M", "-o", "out", "in/lines"),
        package="coreutils",
        makers=(inputs.lines,),
        outcome=of_file("out"),
    ),
    _on_text("gawk", "arrays and strings", "gawk", "gawk", "-f", "in/text.awk"),
    _on_text("ruby", "hashes, arrays and structs", "ruby", "ruby", "in/text.rb"),
    replace(
        _on_text(
            "php",
            "arrays, objects and JSON, all from malloc",
            *("php-cli", "php", "-n", "-d", "memory_limit=-1", "in/text.php"),
        ),
        environment={"USE_ZEND_ALLOC": "0"},
    ),
    Program(
        "graphviz",
        "lays out a graph",
        ("dot", "-Tplain", "in/graph.dot"),
        package="graphviz",
        makers=(inputs.graph,),
        version=("-V",),
    ),
)


def find(names: Sequence[str] = ()) -> list[Program]:
    """The programs of those names, in the table's order; without names all. LabError: unknown."""
    known = {program.name: program for program in PROGRAMS}
    for name in names:
        if name not in known:
            raise LabError(f"unknown program: {name}; known: {', '.join(known)}")
    return [program for program in PROGRAMS if not names or program.name in names]
