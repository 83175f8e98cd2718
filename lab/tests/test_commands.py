"""All commands together: what the help lists, which modules it loads, the shell's completions."""

import inspect
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from click import Context
from hakmem import cli as commands, project
from hakmem.cli import PANELS
from hakmem.process.children import said
from standing import PATIENCE_S, SLOW_TO_LOAD, Stand, flat, ran
from typer.main import get_group
from users import version

NAMES = [name for rows in PANELS.values() for name in rows]
REFUSED = [
    *("comprae", "heap show nope", "demo --budget x", "compare", "ab --max-blocks 1"),
    *("soak --seconds x", "matrix nope", "rerun", "report nope.json", "audit nope.md"),
    "bisect no-such HEAD --bench larson_1",
]
SHORT = ["run -- true", "ledger list"]


def modules(stand: Stand, command: str) -> set[str]:
    """The modules that Python loads to run the command."""
    done = stand.run(*command.split(), PYTHONPROFILEIMPORTTIME="1")
    ran(done)
    return {line.rpartition("|")[2].strip() for line in done.stderr.split("\n") if "|" in line}


def test_the_help_loads_no_command_and_of_rich_only_what_prints_it(stand: Stand) -> None:
    loaded = modules(stand, "--help")
    ours = {name for name in loaded if name.startswith("hakmem.")}
    process = {"hakmem.process", "hakmem.process.scratch"}
    assert ours == {"hakmem.cli", "hakmem.errors", *process}
    assert not loaded & {*SLOW_TO_LOAD, "rich.progress", "rich.live", "rich.status"}
    assert "rich.console" in loaded  # the check can fail: loaded modules are seen


# Runs commands one after the other; writes each one's status and the modules loaded by then.
ONE_BY_ONE = """
import json, sys
from hakmem.cli import main
file, *commands = sys.argv[1:]
seen = []
for command in commands:
    sys.argv = ["hakmem", *command.split()]
    try:
        status = main() or 0
    except SystemExit as end:
        status = end.code or 0
    seen.append((command, status, list(sys.modules)))
with open(file, "w") as out:
    json.dump(seen, out)
"""


def test_help_and_refusals_load_nothing_that_only_results_need(
    stand: Stand, tmp_path: Path
) -> None:
    commands = [*(f"{name} --help" for name in NAMES), *REFUSED]
    argv = [sys.executable, "-c", ONE_BY_ONE, tmp_path / "seen", *commands]
    done = said(argv, env=stand.environment | {"LAB_LEDGER": str(tmp_path)}, timeout=PATIENCE_S)
    ran(done)
    seen = json.loads((tmp_path / "seen").read_text())
    assert [command for command, _, _ in seen] == commands
    for command, status, loaded in seen:
        assert status == (2 if command in REFUSED else 0), command
        assert not SLOW_TO_LOAD & set(loaded), command


@pytest.mark.parametrize("command", SHORT)
def test_short_commands_load_nothing_that_only_results_need(
    stand: Stand, tmp_path: Path, command: str
) -> None:
    assert not modules(stand.under(LAB_LEDGER=tmp_path), command) & SLOW_TO_LOAD


def test_what_the_help_lists_is_what_each_command_says_of_itself() -> None:
    group = get_group(commands.app)
    listed = {name: group.get_command(Context(group), name).help for name in NAMES}
    said = {name: inspect.cleandoc(commands.load(name).help).split("\n\n")[0] for name in NAMES}
    assert listed == said


def test_what_a_command_says_of_itself_is_written_once() -> None:
    """A command's help stands in its own module only, not also in the table of commands."""
    folder = Path(commands.__file__).parent
    texts = [flat(file.read_text()).replace('" "', "") for file in folder.rglob("*.py")]
    for name in NAMES:
        line = commands.load(name).help.partition("\n")[0]
        assert sum(text.count(line) for text in texts) == 1, name


def test_the_help_has_a_panel_for_each_kind_of_command_first_what_users_need(stand: Stand) -> None:
    said = stand.call("--help").stdout
    places = [said.index(f" {title} ") for title in PANELS]
    assert places == sorted(places)
    assert next(iter(PANELS)) == "Run and compare"


def test_the_version_is_the_trees_wherever_it_is_asked_for(stand: Stand) -> None:
    done = stand.call("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hakmem {version()}\n", "")
    assert stand.call("--version", "config").stdout == done.stdout


def offered(stand: Stand, words: str) -> list[str]:
    """The completions that bash gets for the last word."""
    count = len(words.split(" ")) - 1
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(count)}
    return ran(stand.call(_HAKMEM_COMPLETE="complete_bash", **asked)).stdout.split()


def test_the_shell_completes_commands_options_and_their_values(stand: Stand) -> None:
    assert offered(stand, "hakmem com") == ["compare"]
    assert offered(stand, "hakmem ledger ver") == ["verify"]
    assert offered(stand, "hakmem ab --bench larson_1") == ["larson_1", "larson_16"]
    assert offered(stand, "hakmem ab --metric r") == ["rss", "regex:"]
    assert offered(stand, "hakmem compare --rival sy") == ["system"]
    assert "--max-blocks" in offered(stand, "hakmem compare --max")
    assert offered(stand, "hakmem compare --rival no-such") == []


def test_in_the_docs_the_options_of_a_table_stand_before_its_names() -> None:
    """`hakmem compare` refuses options that follow the names."""
    root = project.root()
    texts = [file.read_text() for file in (*root.glob("*.md"), *(root / "docs").rglob("*.md"))]
    rows = re.compile(r"hakmem compare (--(?:programs|suite|bench)\b.*?)(?:[`,;]|  +#|$)", re.M)
    found = [
        line for text in [*texts, commands.load("compare").help] for line in rows.findall(text)
    ]
    assert len(found) > 10
    for line in found:
        read = commands.load("compare").make_context("compare", shlex.split(line))
        assert not [name for name in read.params["command"] or () if name.startswith("-")], line


def test_no_help_is_taken_for_markup() -> None:
    """Rich would take words in brackets for markup and drop them: no help has a bracket."""
    texts = [param.help or "" for name in NAMES for param in params(commands.load(name))]
    assert len(texts) > 100
    assert not [text for text in texts if "[" in text]


@pytest.mark.parametrize("text", ["nan", "inf", "1e300"])
@pytest.mark.parametrize(
    ("command", "option"),
    [("compare", "--min-seconds"), ("top", "--interval"), ("soak", "--seconds")],
)
def test_what_is_no_number_to_wait_for_is_refused(
    stand: Stand, command: str, option: str, text: str
) -> None:
    done = ran(stand.call(command, option, text), 2)
    assert f"Invalid value for '{option}'" in done.stderr


def test_every_option_for_a_float_refuses_the_same() -> None:
    count = 0
    for command in map(commands.load, NAMES):
        for each in getattr(command, "commands", {"": command}).values():
            types = get_type_hints(inspect.unwrap(each.callback))
            floats = {name for name, kind in types.items() if float in (kind, *get_args(kind))}
            assert floats <= {p.name for p in each.params if p.callback}, each.name
            count += len(floats)
    assert count >= 10


def params(command: Any) -> list[Any]:
    below = getattr(command, "commands", {}).values()
    return [*command.params, *(found for each in below for found in params(each))]
