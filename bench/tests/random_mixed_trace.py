"""Checks that bench_random_mixed runs the trace its description gives.

Usage: random_mixed_trace.py BENCH_RANDOM_MIXED. The trace is computed here a second time, and the
number of mallocs and the sum of their sizes must agree with the program's own count.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

WORD = 0xFFFFFFFF


def xorshift32(x: int) -> Iterator[int]:
    while True:
        x ^= x << 13 & WORD
        x ^= x >> 17
        x ^= x << 5 & WORD
        yield x


def expected(
    iterations: int, ws: int, seed: int, low: int, high: int, warmup: int
) -> tuple[int, int]:
    """Mallocs and bytes of the timed part."""
    occupied = [False] * ws
    mallocs = total = 0
    other = (seed + 0x9E3779B9) & WORD or 1
    for ops, stream in ((iterations // 10 + warmup, other), (iterations, seed)):
        mallocs = total = 0
        for _, r in zip(range(ops), xorshift32(stream), strict=False):
            slot = r % ws
            occupied[slot] = not occupied[slot]
            if occupied[slot]:
                mallocs += 1
                total += min(max(16 + (r & 0x3FF), low), high)
    return mallocs, total


def result_of(program: str, arguments: list[int], **extra: int) -> dict[str, object]:
    environment = os.environ | {f"HAKMEM_BENCH_{key}": str(value) for key, value in extra.items()}
    command = [program, *map(str, arguments), "--mode=check"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def main(program: str) -> int:
    failures = 0
    cases: list[tuple[list[int], dict[str, int], tuple[int, int, int]]] = [
        ([100_000, 8192, 1234567], {}, (16, 1040, 0)),
        ([50_000, 777, 42], {}, (16, 1040, 0)),
        ([50_000, 256, WORD, 100, 300], {}, (100, 300, 0)),
        ([50_000, 1000, 0x61C88647], {"MIN_SIZE": 64, "WARMUP": 3000}, (64, 1040, 3000)),
        ([50_000, 1000, 9], {"MIN_SIZE": 8, "MAX_SIZE": 8}, (8, 8, 0)),
        ([50_000, 1000, 9, 2000, 3000], {"MIN_SIZE": 8}, (2000, 3000, 0)),
    ]
    for arguments, environment, (low, high, warmup) in cases:
        want = expected(*arguments[:3], low, high, warmup)
        result = result_of(program, arguments, **environment)
        have = (result["mallocs"], result["bytes"])
        if have != want or result["ops"] != arguments[0]:
            print(f"{arguments} {environment}: (mallocs, bytes) {have}, expected {want}")
            failures += 1
    print(f"{len(cases)} traces, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
