"""Check that all forms of the statistics say the same, and that each is what it claims to be.

Usage: run_stats_formats.py LIBHAKMEM PROGRAM DOCUMENT   text, JSON and OpenMetrics of one process
                                                         against its hak_stats_t and the document,
                                                         with sections sampled and without
       run_stats_formats.py --self-test                  prove on broken documents that it can fail
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 600
BANDS = ("C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "mid", "large", "huge")
SECTIONS = 12
# Of the whole process, and so not quiet; and the calls that asking takes.
MAY_MOVE = {"peak_resident", "other_calls", "mincore", "calls"}

Figures = dict[str, float]  # "heap0.allocated", "band3.allocated" or "refill.count"


class BrokenError(Exception):
    """A document is not what it claims to be; the text says where."""


# ---- JSON ----


def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise BrokenError(f"a name occurs twice among {names}")
    return dict(pairs)


def read_json(text: str) -> Figures:
    try:
        document = json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        raise BrokenError(f"no JSON: {error}") from error
    if tuple(document["bands"]) != BANDS:
        raise BrokenError(f"the bands are {tuple(document['bands'])}")
    found = {f"heap0.{name}": value for name, value in document["heap"].items()}
    for number, band in enumerate(document["bands"].values()):
        found |= {f"band{number}.{name}": value for name, value in band.items()}
    for section, timings in document["sections"].items():
        found |= {f"{section}.{name}": value for name, value in timings.items()}
        found |= {f"heap0.sections_{n}": document[f"sections_{n}"] for n in ("sample", "overhead")}
    if not all(type(value) is int and value >= 0 for value in found.values()):
        raise BrokenError("not all figures are whole numbers")
    return found


# ---- OpenMetrics: what the specification demands of what we use ----

META = re.compile(r"# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-z_]+)="([^"\\\n]*)"\})? (\d+(?:\.\d+)?)')
SUFFIX = {"gauge": "", "counter": "_total", "info": "_info"}


@dataclass
class Family:
    meta: dict[str, str] = field(default_factory=dict)
    samples: dict[str, float] = field(default_factory=dict)  # label's value -> value


def read_families(text: str) -> dict[str, Family]:
    if not text.endswith("# EOF\n") or text.count("# EOF") != 1:
        raise BrokenError("does not end with its only # EOF")
    families: dict[str, Family] = {}
    name = ""
    for line in text.removesuffix("# EOF\n").splitlines():
        if meta := META.fullmatch(line):
            if meta[2] != name:
                name = meta[2]
                if name in families:
                    raise BrokenError(f"{name} is not in one piece")
                families[name] = Family()
            family = families[name]
            if meta[1] in family.meta or family.samples:
                raise BrokenError(f"{line!r} comes twice, or too late")
            family.meta[meta[1]] = meta[3]
        elif sample := SAMPLE.fullmatch(line):
            family = families.get(name, Family())
            if sample[1] != name + SUFFIX.get(family.meta.get("TYPE", ""), " of no type"):
                raise BrokenError(f"{line!r} is no sample of {name}")
            if (sample[3] or "") in family.samples:
                raise BrokenError(f"{line!r} comes twice")
            family.samples[sample[3] or ""] = float(sample[4])
        else:
            raise BrokenError(f"{line!r} is neither metadata nor a sample")
    for name, family in families.items():
        if not family.samples or not {"TYPE", "HELP"} <= family.meta.keys():
            raise BrokenError(f"{name} lacks samples, its type or its help")
        if "UNIT" in family.meta and not name.endswith("_" + family.meta["UNIT"]):
            raise BrokenError(f"{name} does not end with its unit")
    return families


def figure_of(name: str, family: Family) -> tuple[str, float]:
    """The name in hak_stats_t of a metric, and what one of it is in the metric's unit."""
    unit = family.meta.get("UNIT")
    if unit == "seconds":
        return name.removesuffix("_seconds") + "_ns", 1e9
    if unit == "bytes" and name != "hakmem_purge_bytes":
        return name.removesuffix("_bytes"), 1
    return name, 1


def read_openmetrics(text: str) -> Figures:
    families = read_families(text)
    if families.pop("hakmem", Family()).meta.get("TYPE") != "info":
        raise BrokenError("hakmem's own information is missing")
    found: Figures = {}
    for metric, family in families.items():
        name, scale = figure_of(metric, family)
        if name.startswith("hakmem_band_"):
            if tuple(family.samples) != BANDS:
                raise BrokenError(f"{metric} has the bands {tuple(family.samples)}")
            for number, value in enumerate(family.samples.values()):
                found[f"band{number}.{name.removeprefix('hakmem_band_')}"] = value * scale
        elif name.startswith("hakmem_section_"):
            for section, value in family.samples.items():
                found[f"{section}.{name.removeprefix('hakmem_section_')}"] = value
        else:
            found[f"heap0.{name.removeprefix('hakmem_')}"] = round(family.samples[""] * scale)
    return found


# ---- text ----

TEXT_ROW = re.compile(r"  (\w+) +(\d+) (\w+) +(\S.*)")
TEXT_SECTION = re.compile(r"  (\w+)((?: +\d+){5})  (\S.*)")


def read_text(text: str) -> Figures:
    head, *lines = text.splitlines()
    if not re.fullmatch(r"hakmem \d+\.\d+\.\d+, process \d+", head):
        raise BrokenError(f"begins with {head!r}")
    found: Figures = {}
    columns: list[str] = []
    bands = []
    for line in lines:
        words = line.split()
        if words[0] in ("band", "section"):
            columns = words[1:]
        elif row := TEXT_SECTION.fullmatch(line):
            for name, value in zip(columns, row[2].split(), strict=True):
                found[f"{row[1]}.{name}"] = int(value)
        elif columns and not line.startswith("  sections_"):
            bands.append(words[0])
            for name, value in zip(columns, words[1:], strict=True):
                found[f"band{len(bands) - 1}.{name}"] = int(value)
        elif row := TEXT_ROW.fullmatch(line):
            found[f"heap0.{row[1]}"] = int(row[2])
        else:
            raise BrokenError(f"{line!r} is no figure")
    if tuple(bands) != BANDS:
        raise BrokenError(f"the bands are {bands}")
    return found


# ---- one process ----


def sections_of(output: str) -> dict[str, str]:
    parts = re.split(r"^== (\w+)\n", output, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def differences(is_: Figures, expected: Figures) -> list[str]:
    found = [f"{name} is missing" for name in expected.keys() - is_.keys()]
    found += [f"{name} is no field" for name in is_.keys() - expected.keys()]
    for name in is_.keys() & expected.keys():
        if is_[name] != expected[name] and name.split(".")[1] not in MAY_MOVE:
            found.append(f"{name} is {is_[name]:.0f}, hak_stats_get says {expected[name]:.0f}")
    return sorted(found)


def undocumented(text: str, openmetrics: str, document: str) -> list[str]:
    """The rows of the text form, and what is kept of a section, that the document does not have,
    word by word."""
    wanted = []
    for line in text.splitlines():
        if row := TEXT_ROW.fullmatch(line):
            wanted.append(f"| `{row[1]}` | {row[3]} | {row[4]} |")
        elif row := TEXT_SECTION.fullmatch(line):
            wanted.append(f"| `{row[1]}` | {row[3]} |")
    for name, what in re.findall(r"# HELP hakmem_section_(\w+) (.+)", openmetrics):
        unit = "cycles" if name in ("cycles", "max") else "entries"
        wanted.append(f"| `{name}` | {unit} | {what} |")
    return [f"the document has no row {row}" for row in wanted if row not in document]


def wrong_sections(figures: Figures, sampling: bool) -> list[str]:
    """What is wrong with the figures of the sections by themselves."""
    counts = {name: value for name, value in figures.items() if name.endswith(".count")}
    if len(counts) != (SECTIONS if sampling else 0):
        return [f"{len(counts)} sections"]
    wrong = [
        f"of {section} not each entry has been timed"
        for section in (name.removesuffix(".count") for name in counts)
        if figures[f"{section}.sampled"] + figures[f"{section}.dropped"]
        != counts[f"{section}.count"]
    ]
    if sampling and not all(
        counts[f"{name}.count"] for name in ("malloc_slow", "flush", "region_take")
    ):
        wrong.append(f"nothing came to the boundary: {counts}")
    return wrong


READERS: dict[str, Callable[[str], Figures]] = {
    "text": read_text,
    "json": read_json,
    "openmetrics": read_openmetrics,
}


def check(library: str, program: str, document: str, sample: str) -> list[str]:
    env = {**os.environ, "LD_PRELOAD": library, "HK_WORLD_EXPECT": "hakmem"}
    env["HAKMEM_SECTIONS_SAMPLE"] = sample
    env["HAKMEM_SS_MEM_LEAN_DECOMMIT"] = "OFF"  # nobody changes a figure between two formats
    done = subprocess.run(
        [program, "figures"],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        return [f"{program} ended with {done.returncode}: {done.stderr}"]
    sections = sections_of(done.stdout)
    struct = {name: float(value) for name, value in map(str.split, sections["struct"].splitlines())}
    wrong = [] if len(struct) > 100 else [f"hak_stats_t has only {len(struct)} figures"]
    expected = read_json(sections["json"]) | struct  # the sections are not in the struct
    wrong += wrong_sections(expected, sampling=sample != "0")
    for name, reader in READERS.items():
        try:
            wrong += [f"{name}: {what}" for what in differences(reader(sections[name]), expected)]
        except BrokenError as error:
            wrong.append(f"{name}: {error}")
    return wrong + undocumented(sections["text"], sections["openmetrics"], document)


# ---- the checks themselves ----

GOOD = """\
# TYPE hakmem info
# HELP hakmem who
hakmem_info{version="1"} 1
# TYPE hakmem_x_bytes gauge
# UNIT hakmem_x_bytes bytes
# HELP hakmem_x_bytes some
hakmem_x_bytes 7
# TYPE hakmem_y counter
# HELP hakmem_y others
hakmem_y_total 8
# TYPE hakmem_z_seconds counter
# UNIT hakmem_z_seconds seconds
# HELP hakmem_z_seconds time
hakmem_z_seconds_total 0.000000009
# EOF
"""
GOOD_FIGURES = {"heap0.x": 7.0, "heap0.y": 8.0, "heap0.z_ns": 9.0}
BAD: tuple[tuple[str, str], ...] = (
    ("# EOF\n", ""),
    ("# EOF\n", "# EOF\n# EOF\n"),
    ("hakmem_y_total 8", "hakmem_y 8"),
    ("hakmem_y_total 8\n", ""),
    ("hakmem_y_total 8", "hakmem_y_total 8\nhakmem_y_total 8"),
    ("hakmem_y_total 8", "hakmem_y_total -8"),
    ("hakmem_y_total 8", "hakmem_y_total  8"),
    ("# TYPE hakmem_y counter\n", ""),
    ("# HELP hakmem_y others\n", ""),
    ("# HELP hakmem_y others\nhakmem_y_total 8", "hakmem_y_total 8\n# HELP hakmem_y others"),
    ("# UNIT hakmem_x_bytes bytes", "# UNIT hakmem_x_bytes seconds"),
    ("# TYPE hakmem_y counter", "\n# TYPE hakmem_y counter"),
    ("# TYPE hakmem_z_seconds counter", "# TYPE hakmem_x_bytes gauge"),
    ("# TYPE hakmem info", "# TYPE hakmem gauge"),
)


def self_test() -> list[str]:
    """Everything that the readers get wrong where right and wrong are known."""
    wrong = []
    if read_openmetrics(GOOD) != GOOD_FIGURES:
        wrong.append(f"the good document is read as {read_openmetrics(GOOD)}")
    for old, new in BAD:
        try:
            read_openmetrics(GOOD.replace(old, new))
            wrong.append(f"accepted with {new!r} for {old!r}")
        except BrokenError:
            pass
    for text in ("{", '{"a": 1, "a": 1}', "[1,]"):
        try:
            read_json(text)
            wrong.append(f"accepted as JSON: {text}")
        except BrokenError:
            pass
    timed = {"flush.count": 2.0, "flush.sampled": 1.0, "flush.dropped": 0.0}
    if not wrong_sections(timed, sampling=False) or not wrong_sections(timed, sampling=True):
        wrong.append("sections are accepted where there should be none, or too few")
    if not differences({"heap0.a": 1}, {"heap0.a": 2}) or not differences({}, {"heap0.a": 2}):
        wrong.append("different figures are taken for equal")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        wrong = self_test()
    else:
        library, program, document = arguments
        words = Path(document).read_text(encoding="utf-8")
        wrong = [what for n in ("0", "1") for what in check(library, program, words, n)]
    print("\n".join(wrong) or "all is as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
