"""Records of each kind that a report shows, for a small ledger, and what a page's charts drew."""

import re

from hakmem.ledger.store import Ledger
from hakmem.soak import analysis as soak_analysis, epochs_csv

PLANTED = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
EPOCHS = 120
COLUMNS = ("epoch", "t_s", "ops_per_s", "ns_per_op", "rss_kb", "anon_kb", "lazyfree_kb", "live_kb")
SOURCE = {"commit": "c" * 40, "dirty": False, "tree": "d" * 40}
COMMON = {"source": SOURCE, "host": {"cpu": "a <cpu>"}, "argv": ["hakmem", "ab"], "ok": True}


def epochs() -> bytes:
    """A soak whose rate steps up after 70 s and whose memory rises by 20 MiB over the run."""
    text = epochs_csv.header({"command": "soak_mixed"}, COLUMNS)
    for n in range(EPOCHS):
        rate = (40e6 if n < 70 else 60e6) + 1e5 * (n % 5)
        rss = 100_000 + 20_480 * n // EPOCHS
        row = (n, n + 1, rate, 1e9 / rate, rss, rss - 4096, 0, 50_000)
        text += ",".join(f"{value:.10g}" for value in row) + "\n"
    return (text + epochs_csv.fact("end", "whole") + "\n").encode()


def add_soak(ledger: Ledger, name: str = "soak_mixed") -> str:
    csv = epochs()
    analysis = soak_analysis.analyze(epochs_csv.parse(csv.decode())).to_dict()
    body = {
        **COMMON,
        "command": [name, "--seconds=120"],
        "environment": {"HAKMEM_SS_OS_STATS": "1", "HAKMEM_X": "1"},
        "binary": {"name": "hakmem", "version": "0.1.0"},
        "metrics": {},
        "analysis": analysis,
    }
    return ledger.append("soak", body, {"epochs.csv": csv}).id


def add_verdict(ledger: Ledger, question: str, verdict: str, ratio: float) -> str:
    def entry(middle: float) -> dict[str, object]:
        ends = {"low": middle - 0.01, "high": middle + 0.01}
        return {"estimate": middle, **ends, "kind": "95 %", "unit": "ratio", "of": "CPU time"}

    body = {
        **COMMON,
        "question": question,
        "verdict": verdict,
        "cells": [{"name": "old"}, {"name": "new"}],
        # In a record's order, by name: here the guard comes before the target.
        "metrics": {"guard fifo": {**entry(1.003), "kind": "range"}, "random_mixed": entry(ratio)},
        "margin": 0.01,
        "blocks": 8,
    }
    return ledger.append("verdict", body).id


def judged(state: str, words: str, rule: str = "RSS") -> dict[str, str]:
    return {"rule": rule, "state": state, "words": words}


def add_matrix(ledger: Ledger, title: str = "what does it cost?") -> str:
    ratio = {"estimate": 0.97, "low": 0.95, "high": 0.99, "kind": "99 %", "unit": "ratio"}
    stage = {"name": "1", "seconds": 60.0, "modes": ["plain", "lean", "free"]}
    through = judged("kept", "-3.0 % [-5.0 … -1.0]", "throughput")
    body = {
        **COMMON,
        "title": title,
        "scale": 0.01,
        "rehearsal": True,
        "baseline": "plain",
        "modes": {"plain": {}, "lean": {}, "free": {}},
        "stages": [
            {
                "stage": stage,
                "judged": {
                    "plain": [judged("kept", "none", "no crash")],
                    "lean": [judged("kept", "none", "no crash"), through],
                    "free": [judged("broken", "44.0 of 33.0 MiB"), judged("open", "?", "CV")],
                },
            }
        ],
        "standings": {"lean": {"verdict": "GO", "why": "kept every rule"}},
        "metrics": {"stage 1/lean/throughput": ratio},
        "verdict": "GO",
        "why": "kept every rule: lean",
        "definition": "e" * 64,
    }
    return ledger.append("matrix", body).id


def add_suite(ledger: Ledger, what: str = "blocks in order", slow: str = "slow") -> str:
    """One row that hakmem loses to the faster of two rivals, and one that failed."""

    def against(ratio: float, verdict: str | None, kind: int = 0) -> list[object]:
        return [ratio, ratio - 0.02, ratio + 0.02, kind, 20, verdict]

    part = {
        "suite": "batch",
        "subject": "hakmem",
        "what": what,
        "unit": "ns/op",
        "reading": "user CPU time",
        "better": "lower",
        "program": None,
        "figures": {
            "hakmem": {"value": 15.0, "memory_kb": 2048},
            "fast": {"value": 12.0, "memory_kb": 4000},
            slow: {"value": 20.0, "memory_kb": 4000},
        },
        "left_out": {"gone": "killed by SIGSEGV"},
        "ratios": {
            "time": {
                "fast": against(1.25, "loss"),
                slow: against(0.75, "win"),
                "the oracle": against(1.2, None, 2),
            },
            "memory": {
                "fast": against(0.5, "win"),
                slow: against(0.5, "win"),
                "the oracle": against(0.6, None, 2),
            },
        },
    }
    inside = ledger.append("comparison", {**COMMON, **part}).id
    ends = {"low": 1.18, "high": 1.22, "unit": "ratio", "kind": "95 %", "rows": 1}
    body = {
        **COMMON,
        "inputs": [inside],
        "failures": {"larson": "killed by SIGABRT"},
        "libraries": {
            name: {"version": "1.0", "origin": "cargo", "sha256": "ab" * 32}
            for name in ("hakmem", "fast", slow)
        },
        "blocks": [20, 20],
        "seed": 7,
        "metrics": {"time against the oracle": {"value": 1.2, **ends}},
    }
    return ledger.append("suite", body).id


def add_bisect(ledger: Ledger, inputs: list[str]) -> str:
    chances = [{"commit": None, "probability": 0.02}]
    chances += [{"commit": "a" * 40, "subject": PLANTED, "probability": 0.98, "blocks": 12}]
    body = {
        **COMMON,
        "inputs": inputs,
        "question": "which commit first changed CPU time on batch?",
        "verdict": "GO",
        "finding": "aaaaaaa made it slower",
        "posterior": chances,
        "metrics": {"bad end": {"estimate": 1.1, "low": 1.05, "high": 1.15, "unit": "ratio"}},
    }
    return ledger.append("bisect", body).id


def add_baseline(ledger: Ledger) -> str:
    rate = {"value": 41.2e6, "low": 40e6, "high": 42e6, "unit": "ops/s", "kind": "range"}
    return ledger.append("baseline", {**COMMON, "metrics": {"batch system": rate}}).id


def drawn(dom: str) -> dict[str, list[int]]:
    """How many points ECharts says it drew of each series, by the last part of the figure's id."""
    found = {}
    for tag in re.findall(r"<figure[^>]*data-points[^>]*>", dom):
        kind = re.search(r'id="[^"]*-(\w+)"', tag)
        points = re.search(r'data-points="([^"]*)"', tag)
        found[kind[1]] = [int(number) for number in points[1].split()]
    return found
