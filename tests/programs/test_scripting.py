"""Interpreters and virtual machines: a script prints the same on hakmem as without it."""

from __future__ import annotations

from pathlib import Path

from finding import WORKLOADS, need_program
from preloading import run_under


def test_perl_hashes_regexes_and_sort(preload: Path) -> None:
    result = run_under(preload, [need_program("perl"), WORKLOADS / "words.pl"])
    result.require_served("perl")
    counts: dict[str, int] = {}
    state = 12345
    for _ in range(200_000):
        state = (state * 1103515245 + 12345) % 2**31
        word = f"w{state >> 16}"
        counts[word] = counts.get(word, 0) + 1
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    most = [f"{word} {count}" for word, count in by_count[:20]]
    ends = sum(count for word, count in counts.items() if word.endswith("7"))
    lengths = sum(len(word) * count for word, count in counts.items())
    assert result.stdout.splitlines() == [*most, f"{len(counts)} {ends} {lengths}"]


def test_node_json_buffers_and_workers(preload: Path) -> None:
    argv = [need_program("node"), WORKLOADS / "workers.js"]
    result = run_under(preload, argv)
    result.require_served("node")
    lines = result.stdout.splitlines()
    assert lines[-1] == "4 workers agree"
    assert result.stdout == run_under(None, argv).stdout


def test_java_threads_direct_buffers_and_collections(preload: Path, tmp_path: Path) -> None:
    javac, java = need_program("javac"), need_program("java")
    compiled = run_under(preload, [javac, "-d", tmp_path, WORKLOADS / "Workload.java"])
    compiled.require_served("javac")
    argv = [java, "-Xmx256m", "-XX:MaxDirectMemorySize=128m", "-cp", tmp_path, "Workload"]
    result = run_under(preload, argv)
    result.require_served("java")
    assert result.stdout.splitlines()[-1] == "8 threads agree"
    assert result.stdout == run_under(None, argv).stdout
