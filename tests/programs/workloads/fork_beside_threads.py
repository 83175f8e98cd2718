"""Fork workers, again and again, out of a process whose other threads allocate all the while."""

from __future__ import annotations

import ctypes
import multiprocessing
import threading


def work(start: int) -> tuple[int, bool]:
    """Allocate, free, and say whether hakmem serves this worker."""
    blocks = [bytes(size) for size in range(1, 4000, 7)]
    texts = {str(n): n for n in range(start, start + 2000)}
    assert sum(map(len, blocks)) == sum(range(1, 4000, 7))
    return sum(texts.values()), bool(ctypes.CDLL(None).hak_is_serving())


def churn(stop: threading.Event) -> None:
    while not stop.is_set():
        kept = [bytearray(size) for size in range(16, 60000, 997)]
        kept.clear()


def main() -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=churn, args=(stop,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    answers: list[tuple[int, bool]] = []
    context = multiprocessing.get_context("fork")
    for first in range(0, 100, 20):
        with context.Pool(4, maxtasksperchild=3) as pool:
            answers += pool.map(work, range(first, first + 20))
    stop.set()
    for thread in threads:
        thread.join()
    print(sum(total for total, _ in answers))
    print("served by hakmem:", sorted({served for _, served in answers}))


main()
