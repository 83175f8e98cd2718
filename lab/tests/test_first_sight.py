"""What a user with a problem reads first: the issue forms, SECURITY.md, docs/versioning.md."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hakmem import cli as commands, project

ROOT = project.root()
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
OPTIONS = set(re.findall(r'"(HAKMEM_\w+)"', (ROOT / "src/config/options.def").read_text()))
COMMANDS = {name for panel in commands.PANELS.values() for name in panel}


def problems_of(form: dict[str, Any]) -> list[str]:
    """What GitHub would refuse in the form, and the options or commands in it that do not exist."""
    found = [f"no {key}" for key in ("name", "description", "body") if not form.get(key)]
    fields = [part for part in form.get("body", []) if part["type"] != "markdown"]
    names = [field.get("id") for field in fields]
    found += [] if len(set(names)) == len(names) > 0 and all(names) else [f"fields are {names}"]
    found += [f"{f['id']}: no label" for f in fields if not f["attributes"].get("label")]
    text = str(form)
    found += [
        f"no option {name}" for name in sorted(set(re.findall(r"HAKMEM_\w+", text)) - OPTIONS)
    ]
    said = set(re.findall(r"\bhakmem ([a-z]+) --", text))
    return found + [f"no command {name}" for name in sorted(said - COMMANDS)]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_can_be_filled_in(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert problems_of(form) == []
    required = {part["id"] for part in form["body"] if part.get("validations", {}).get("required")}
    assert {"confirm", "where"} <= required


def test_there_is_a_form_for_each_kind_of_problem() -> None:
    assert [path.stem for path in FORMS] == ["bug", "memory", "performance"]
    assert "hakmem compare --" in FORMS[2].read_text()


def test_what_is_wrong_with_a_form_is_found() -> None:
    field = {"type": "input", "id": "a", "attributes": {"label": "HAKMEM_NONE hakmem nothing -- x"}}
    form = {"name": "x", "description": "", "body": [field, field]}
    assert problems_of(form) == [
        "no description",
        "fields are ['a', 'a']",
        "no option HAKMEM_NONE",
        "no command nothing",
    ]


@pytest.mark.parametrize("name", ["SECURITY.md", "docs/versioning.md"])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_no_page_puts_off_what_may_be_there_by_now() -> None:
    off = re.compile(r"\b(none|not there|(no|has no) limits?( of its own)?) yet\b", re.IGNORECASE)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert [
        (page.name, found[0]) for page in pages for found in off.finditer(page.read_text())
    ] == []


def test_no_page_writes_into_a_folder_that_is_not_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    places = [
        found for page in pages for found in re.findall(r"--(?:out|page) (\S+)", page.read_text())
    ]
    assert "report.html" in places
    assert [place for place in places if "/" in place and not place.startswith("/")] == []


def test_the_levels_of_options_are_those_that_versions_promise() -> None:
    levels = set(re.findall(r"\b(STABLE|EXPERIMENTAL|RESEARCH)\b", options_alone()))
    promised = set(re.findall(r"`(stable|experimental|research)`", promises()))
    assert {level.lower() for level in levels} <= promised


def options_alone() -> str:
    return re.sub(r"/\*.*?\*/", "", (ROOT / "src/config/options.def").read_text(), flags=re.DOTALL)


def promises() -> str:
    return (ROOT / "docs" / "versioning.md").read_text()


def test_the_name_that_is_promised_is_the_librarys() -> None:
    number = re.search(r'HK_VERSION "(\d+)\.', (ROOT / "src/base/base.h").read_text())
    assert f"`libhakmem.so.{number[1]}` (SONAME)" in promises()
