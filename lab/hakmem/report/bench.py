"""The report's part on a recorded run of the benchmarks (bench.json). Pure."""

import shlex
from collections.abc import Mapping
from typing import Any

from hakmem import stats, words
from hakmem.overview import summary
from hakmem.process.metrics import value
from hakmem.report import charts


def context(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows of a recorded run. Losses are said as plainly as wins."""
    rows = summary.rows(document)
    strips = peak_memory(document)
    title = "Peak resident memory per benchmark and library"
    return {
        "document": document,
        "rows": rows,
        "tally": summary.tally(rows),
        "names": [x["name"] for x in document["libraries"] if not x.get("refused")],
        "refused": [x for x in document["libraries"] if x.get("refused")],
        "forest": charts.both(charts.forest, charts.of_rows(rows)),
        "memory": charts.both(charts.dots, strips, "MiB", title),
        "system_work": system_work(document),
        "errors": words.failures(rows),
        "proof": first_proof(document),
        "rerun": rerun(document),
        "one_sample": one_sample(document),
    }


def _samples(document: Mapping[str, Any], command: str, library: str) -> list[Mapping[str, Any]]:
    return [
        s
        for s in document["samples"]
        if s["command"] == command and s["library"] == library and not s.get("error")
    ]


def peak_memory(document: Mapping[str, Any]) -> list[charts.Strip]:
    """Median peak RSS in MiB per command and library; libraries that failed are absent.

    A command that only starts others has no memory worth showing.
    """
    strips = []
    for command in (c for c in document["commands"] if not c["starts_others"]):
        values = {}
        for library in document["libraries"]:
            taken = _samples(document, command["name"], library["name"])
            known = [v for s in taken if (v := value("peak_rss", s)) is not None]
            if known:
                values[library["name"]] = stats.median(known)
        if values:
            strips.append(charts.Strip(command["name"], values))
    return strips


def system_work(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Per command: median page faults and system time of the whole process, for each library."""
    table = []
    for command in document["commands"]:
        cells = {}
        for library in document["libraries"]:
            taken = _samples(document, command["name"], library["name"])
            if taken:
                cells[library["name"]] = {
                    "faults": stats.median([s["minflt"] + s["majflt"] for s in taken]),
                    "sys_ms": 1000 * stats.median([s["sys_s"] for s in taken]),
                }
        table.append({"name": command["name"], "cells": cells})
    return table


def first_proof(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """A proof line from a measured process, with how many samples carry one."""
    mine = [s for s in document["samples"] if s["library"] == summary.SUBJECT]
    proven = [s for s in mine if s.get("proof")]
    if not proven:
        return None
    return {**proven[0]["proof"], "samples": len(proven), "of": len(mine)}


def rerun(document: Mapping[str, Any]) -> str:
    """The command that repeats the run with the same order of samples."""
    argv = list(document["argv"])
    if "--seed" not in argv:
        argv += ["--seed", str(document["seed"])]
    return shlex.join(argv)


def one_sample(document: Mapping[str, Any]) -> str:
    """The command of a single sample, to be run by hand."""
    mine = next((s for s in document["samples"] if s["library"] == summary.SUBJECT), None)
    path = next(x["path"] for x in document["libraries"] if x["name"] == summary.SUBJECT)
    argv = shlex.join(mine["argv"]) if mine else "…"
    return f"HAKMEM_PROOF=/tmp/proof.jsonl LD_PRELOAD={shlex.quote(str(path))} {argv}"
