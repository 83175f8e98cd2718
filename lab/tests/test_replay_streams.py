"""Recorded operations become a stream for each thread, with blocks named by number."""

from dataclasses import replace

import numpy as np
import pytest
from hakmem.errors import LabError
from hakmem.replay import streams
from hakmem.replay.raw import GIVEN, RESIZED, TAKEN
from replay_world import WORDS, events, spelled


def test_a_block_is_known_by_the_event_before_it_at_its_address() -> None:
    made = streams.make(
        events(
            (2, TAKEN, 999),  # a block from before the recording
            (2, GIVEN, 100, 8),
            (2, GIVEN, 200, 0),
            (2, TAKEN, 100),
            (2, GIVEN, 100, 64, 6),
            (2, TAKEN, 100),
            (2, TAKEN, 100),  # no block of the recording
        )
    )
    (words,) = map(spelled, made.words)
    assert words == "malloc 0 8, malloc 1 1, free 0, aligned 0 64 6, free 0"
    assert made.slots == 2
    facts = {"operations": 5, "mallocs": 2, "aligned": 1, "frees": 2, "unknown_frees": 2}
    assert facts.items() <= made.facts.items()
    assert (made.facts["peak_bytes"], made.facts["end_bytes"]) == (65, 1)
    assert made.facts["seconds"] == 1


def test_the_halves_of_a_realloc_are_one_operation_on_the_same_block() -> None:
    made = streams.make(
        events(
            (2, GIVEN, 100, 8),
            (2, TAKEN | RESIZED, 100),
            (2, GIVEN | RESIZED, 300, 80),
            (2, TAKEN | RESIZED, 300),
            (2, GIVEN | RESIZED, 300, 90),
            (2, TAKEN | RESIZED, 999),  # a block from before the recording: an allocation
            (2, GIVEN | RESIZED, 400, 7),
            (2, TAKEN, 300),
            (2, TAKEN | RESIZED, 400),  # the recording ends inside this realloc
        )
    )
    (words,) = map(spelled, made.words)
    assert words == "malloc 0 8, realloc 0 80, realloc 0 90, malloc 1 7, free 0, free 1"
    assert made.facts["peak_bytes"] == 97


def test_another_threads_block_is_waited_for_once_and_threads_start_in_order() -> None:
    made = streams.make(
        events(
            (2, GIVEN, 100, 1),
            (2, GIVEN, 200, 2),
            (3, TAKEN, 100),
            (3, TAKEN, 200),
            (2, GIVEN, 100, 3),
            (3, GIVEN, 500, 4),
        )
    )
    first, second = map(spelled, made.words)
    # The second thread's frees wait for the first thread's mallocs. The first thread's third malloc
    # waits for the last free, and takes the slot that this freed.
    assert first == "malloc 0 1, malloc 1 2, start 1, wait 1 2, malloc 1 3"
    assert second == "wait 0 1, free 0, wait 0 2, free 1, malloc 2 4"


def test_what_one_thread_alone_did_without_a_record_is_its_own() -> None:
    rows = [(1, GIVEN, 100, 1), (2, GIVEN, 200, 2), (1, TAKEN, 100)]
    assert len(streams.make(events(*rows)).words) == 1
    assert len(streams.make(events(*rows, (3, GIVEN, 300, 1))).words) == 3


def times_and_points(made: streams.Streams) -> list[tuple[int, int, int]]:
    """For each point its number, the last time before it in ms, and the live KiB."""
    words, found, at, ms = list(made.words[0]), [], 0, 0
    while at < len(words):
        op, number = words[at] & 7, words[at] >> 3
        if op == streams.TIME:
            assert number >= ms
            ms = number
        if op == streams.POINT:
            found.append((number, ms, words[at + 1]))
        at += WORDS[op]
    return found


def test_points_lie_at_equal_times_with_what_is_live_then() -> None:
    made = events(*((2, GIVEN, 16 * n, 1024) for n in range(1, 1001)))
    even = [(n - 1, 1000 * n // 64, 1 + 999 * n // 64) for n in range(1, 65)]
    assert times_and_points(streams.make(made)) == even
    # All events in the first millisecond, but for the last, which comes half a second later.
    late = np.append(np.linspace(0, 1e6, 999), 5e8)
    paused = streams.make(replace(made, ns=late))
    live = [(n - 1, 1000 * n // 64, 999 if n < 32 else 1000) for n in range(1, 65)]
    assert times_and_points(paused) == live
    assert paused.facts["idle_seconds"] == pytest.approx(0.999)


def test_of_a_long_time_no_more_is_said_than_what_is_coarse() -> None:
    made = replace(events(*((2, GIVEN, 16 * n, 1) for n in range(1, 20001))), whole_ns=3.6e12)
    words = streams.make(replace(made, ns=np.linspace(0, 3.6e12, 20000))).words[0]
    assert len(words) < 2 * 20000 + streams.TIMES + 4 * streams.POINTS


def test_a_size_from_2_gib_on_is_in_mib() -> None:
    assert streams.size_word((1 << 31) - 1) == (1 << 31) - 1
    assert streams.size_word(1 << 31) == 1 << 31 | 2048
    assert streams.size_word((5 << 30) + 1) == 1 << 31 | 5121


def test_nothing_recorded_is_said() -> None:
    with pytest.raises(LabError, match="has not allocated"):
        streams.make(events((2, TAKEN, 100)))
