"""How the audit reads a text: which figures it finds, which are exempt, how it quotes them."""

import re

import pytest
from hakmem.audit import figures, planted, scanner


@pytest.mark.parametrize(
    "text",
    [
        "It takes 7 ns, or 12.5 µs/op.",
        "It needs 16 user cycles/op.",
        "new ÷ old: 0.92 at 8192 slots",
        "a peak of 324 MiB",
        "| a | ns/op |\n|---|---|\n| x | 12.5 |",
        "| unit | here |\n|---|---|\n| ns/op | 12.5 |",
        "| a | here |\n|---|---|\n| x | 1.81 s, 340 MiB |",
        "```\ncode\n```\nbut here 7 ns",
        "``` never closed\n7 ns",
        "**7** ns, or 1.5<b>×</b>",
        "> It takes 7\n>   ns.",
    ],
)
def test_a_figure_without_a_record_is_found(text: str) -> None:
    assert scanner.scan(text).unbacked


@pytest.mark.parametrize(
    "text",
    [
        "gcc 12, C11, x86-64, 16 × 4 threads at 0x7f000",
        "```\n$ tool\n41.2 M ops/s\n```",
        "| option | default |\n|---|---|\n| `HAKMEM_TCACHE_KB` | 2048 |",
        "<!--noclaim: a limit, not a figure-->within 5 % of it",
        "<!--noclaim: an example-->\n\n41.2 M ops/s",
        "<!-- 41.2 M ops/s -->",
    ],
)
def test_what_is_no_claim_is_left_alone(text: str) -> None:
    assert scanner.scan(text).unbacked == []


def test_each_form_of_speech_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[list[tuple[int, str]]]:
        return [scanner.scan(re.sub("[«»]", "", text)).unbacked for text in planted.FIGURES]

    whole, forms = found(), figures._FORMS
    for form in forms:
        monkeypatch.setattr(figures, "_FORMS", [other for other in forms if other is not form])
        assert found() != whole, form.pattern


def test_an_exemption_has_a_reason_and_an_end() -> None:
    assert scanner.scan("<!--noclaim:-->7 ns").faults
    assert scanner.scan("<!--noclaim: why-->\n\n7 ns\n\n8 ns").unbacked == [(5, "8 ns")]


def test_a_marker_needs_a_figure() -> None:
    found = scanner.scan("fast<!--c:abcdef012345/rate-->")
    assert (found.claims, len(found.faults)) == ([], 1)


def test_a_range_is_two_figures() -> None:
    assert len(scanner.scan("7 to 11 ns<!--c:abcdef012345/time-->").faults) == 1
    assert len(scanner.scan("7 to 11 ns").unbacked) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It does 25.1 Mops, 3 times faster.", ["25.1 Mops", "3 times faster"]),
        ("Throughput of 25.1 Mops/s", ["Throughput of 25.1 Mops/s"]),
        ("IPC went from\n1.8 to 2.12 with it", ["IPC went from 1.8 to 2.12"]),
        ("1.25e-7 per op, 1.25·10⁻⁷ s", ["1.25e-7 per op", "1.25·10⁻⁷ s"]),
        ("hakmem 10.2M vs System 72.9M ops/s", ["10.2M vs System 72.9M ops/s"]),
    ],
)
def test_a_figure_is_shown_whole(text: str, shown: list[str]) -> None:
    assert [words for _, words in scanner.scan(text).unbacked] == shown


def test_a_figure_may_be_wrapped_and_grouped() -> None:
    text = "about **1\u202f224\nKiB**<!--c:abcdef012345/idle_rss-->, 8 ns"
    found = scanner.scan(text)
    assert [(c.number, c.unit, c.address) for c in found.claims] == [
        ("1\u202f224", "KiB", "idle_rss")
    ]
    assert found.unbacked == [(2, "8 ns")]
