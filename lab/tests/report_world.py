"""A small ledger with one of each kind that a report shows, and a browser to look at the page."""

import re
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from hakmem.ledger.store import Ledger
from hakmem.soak import analysis as soak_analysis
from hakmem.soak import epochs_csv as soak_csv

PLANTED = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
EPOCHS = 120
COLUMNS = ("epoch", "t_s", "ops_per_s", "ns_per_op", "rss_kb", "anon_kb", "lazyfree_kb", "live_kb")
SOURCE = {"commit": "c" * 40, "dirty": False, "tree": "d" * 40}
COMMON = {"source": SOURCE, "host": {"cpu": "a <cpu>"}, "argv": ["hakmem", "ab"], "ok": True}


def epochs() -> bytes:
    """A soak whose rate steps up after 70 s and whose memory rises by 20 MiB over the run."""
    text = soak_csv.header({"command": "soak_mixed"}, COLUMNS)
    for n in range(EPOCHS):
        rate = (40e6 if n < 70 else 60e6) + 1e5 * (n % 5)
        rss = 100_000 + 20_480 * n // EPOCHS
        row = (n, n + 1, rate, 1e9 / rate, rss, rss - 4096, 0, 50_000)
        text += ",".join(f"{value:.10g}" for value in row) + "\n"
    return (text + soak_csv.fact("end", "whole") + "\n").encode()


def add_soak(ledger: Ledger, name: str = "soak_mixed") -> str:
    csv = epochs()
    analysis = soak_analysis.analyze(soak_csv.parse(csv.decode())).to_dict()
    body = {
        **COMMON,
        "command": [name, "--seconds=120"],
        "environment": {"HAKMEM_X": "1"},
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
        "metrics": {"batch": entry(ratio), "guard fifo": entry(1.003)},
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


def add_suite(ledger: Ledger, what: str = "blocks in order") -> str:
    """One row that hakmem loses to the fast one of two rivals, and one that it could not do."""

    def against(ratio: float, verdict: str | None, kind: int = 0) -> list[object]:
        return [ratio, ratio - 0.02, ratio + 0.02, kind, 20, verdict]

    part = {
        "suite": "batch",
        "subject": "hakmem",
        "what": what,
        "unit": "ns/op",
        "reading": "user",
        "better": "lower",
        "program": None,
        "figures": {
            "hakmem": {"value": 15.0, "memory_kb": 2048},
            "fast": {"value": 12.0, "memory_kb": 4000},
            "slow": {"value": 20.0, "memory_kb": 4000},
        },
        "left_out": {"gone": "killed by SIGSEGV"},
        "ratios": {
            "time": {
                "fast": against(1.25, "loss"),
                "slow": against(0.75, "win"),
                "the oracle": against(1.2, None, 2),
            },
            "memory": {"fast": against(0.5, "win"), "the oracle": against(0.6, None, 2)},
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
            for name in ("hakmem", "fast", "slow")
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


# ---- the browser ----

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--enable-logging=stderr --virtual-time-budget=5000 "
    # Frames without scripts in the process of their page, whose clock waits for them.
    "--disable-features=IsolateSandboxedIframes --disable-site-isolation-trials"
)


LEAST_WINDOW = 500


@dataclass(frozen=True)
class Browser:
    program: str
    folder: Path

    def _run(self, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        argv = [self.program, *FLAGS.split(), f"--user-data-dir={self.folder / 'profile'}"]
        return subprocess.run(
            [*argv, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )

    def dom(self, page: Path) -> str:
        """The page after its scripts ran; none of them said anything on the console."""
        done = self._run(page, "--dump-dom", "--window-size=1300,900")
        assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
        return done.stdout

    def seen(self, page: Path, selector: str) -> int:
        """How many elements are to be seen where no script of the page may run.

        The page is in a frame that forbids them; the page around it looks.
        """
        look = (
            f"const all = [...this.contentDocument.querySelectorAll('{selector}')];"
            "const some = all.filter((e) => e.checkVisibility());"
            "document.body.append(`seen ${some.length}.`);"
        )
        found = re.search(r"seen (\d+)\.", self.says(page, look, "allow-same-origin"))
        assert found
        return int(found[1])

    def says(self, page: Path, script: str, sandbox: str | None = None) -> str:
        """What a script appends to the page around this one, whose frame is `this` in it."""
        forbids = "" if sandbox is None else f'sandbox="{sandbox}"'
        around = self._frame(page, 1200, 3000, f'{forbids} onload="{script}"')
        done = self._run(around, "--dump-dom", "--allow-file-access-from-files")
        return done.stdout.rpartition("</iframe>")[2]

    def picture(self, page: Path, width: int, dark: bool = False, scripts: bool = True) -> bytes:
        """In a frame, which may be narrower than the browser's least window."""
        around = self._frame(page, width, 3000, "" if scripts else "sandbox")
        file = self.folder / "picture.png"
        flags = ["--force-dark-mode"] if dark else []
        size = max(width, LEAST_WINDOW), 3000
        self._run(around, "--window-size={},{}".format(*size), f"--screenshot={file}", *flags)
        data = file.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", data[16:24]) == size
        return data

    def _frame(self, page: Path, width: int, height: int, attributes: str) -> Path:
        around = self.folder / "around.html"
        style = f"border:0;width:{width}px;height:{height}px"
        around.write_text(
            f'<body style="margin:0"><iframe src="{page.as_uri()}" style="{style}" {attributes}>'
            "</iframe></body>",
            encoding="utf-8",
        )
        return around


def corner(png: bytes) -> tuple[int, ...]:
    """Red, green and blue of the first pixel, which no filter of PNG changes."""
    parts, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            parts += png[at + 8 : at + 8 + size]
        at += 12 + size
    return tuple(zlib.decompress(parts)[1:4])


def drawn(dom: str) -> dict[str, list[int]]:
    """By the end of a figure's id: the points of each series that ECharts says it has drawn."""
    found = {}
    for tag in re.findall(r"<figure[^>]*data-points[^>]*>", dom):
        kind = re.search(r'id="[^"]*-(\w+)"', tag)
        points = re.search(r'data-points="([^"]*)"', tag)
        assert kind
        assert points
        found[kind[1]] = [int(number) for number in points[1].split()]
    return found
