"""Planted violations: before each audit, a small project is made in which each violation must be
refused, and harmless sentences must not be."""

import html
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem import git
from hakmem.audit import blocks
from hakmem.audit.check import Audit
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.process import provenance, scratch

# The audit must report what stands between « and »; it reads the sentence without these.
FIGURES = (
    # rates
    "It does «25.1 Mops» here.",
    "It does «25 Mop/s» here.",
    "A thread does «25.1 million ops a second».",
    "We saw «3 billion calls every minute».",
    "It serves «12k allocs/s».",
    "It serves «12 million allocations per second».",
    "It copies at «3.2 GB/s».",
    "The server answers «900 kqps» on it.",
    "A run gives «1.25·10⁷ ops/s».",
    "It does «**25.1** Mops/s» here.",
    # times
    "A hit takes «1.25e-7 per op».",
    "A pair costs «10 µs/alloc».",
    "Frees take «0.8 ns each».",
    "Its «latency: 35ns».",
    "It takes «1.5&nbsp;ms».",
    "It needs «1.5\nhours».",
    "All was done in «1m32s».",
    "It ends in at most «2 ms».",
    "A miss takes «ten nanoseconds».",
    # a quantity by its name
    "We measured «throughput 25.1M».",
    "Its «IPC is 2.12».",
    "It has «cycles≈109.8M».",
    "It has «p99 of 120».",
    "The «p99.9 went from 340» to less.",
    "The «RSS dropped to 33M».",
    "That is a «speedup of 1.8».",
    "The «page faults of the whole process were 178».",
    "All «page faults fell to 2 627» in the end.",
    "Their number went «27 665 → 2 627».",
    "It has a «ratio of 0.92».",
    "It moves «25.1M» in all.",
    "We count «5.1M misses».",
    # comparisons
    "It does «10.2M vs System 72.9M».",
    "It keeps «33 MiB against 40 MiB» there.",
    "It is «twice as fast».",
    "A pair costs «half as much again».",
    "It is «three times faster».",
    "It is «2-3x faster».",
    "It is «1.8× faster».",
    "It is «3 points faster».",
    "It is «0.88 [0.85–0.90]» of it.",
    "It is faster «by a factor of 3».",
    "It grew «by a factor of two».",
    "It is a «3.5-fold gain».",
    "It is a «tenfold gain».",
    "It has «1.8 times the speed» of the other.",
    "It is a «3x improvement».",
    "It needs «half the time».",
    "It needs «half of glibc's memory».",
    "It needs «a third less memory».",
    "It is «a fifth faster».",
    "It runs at «0.92 of the system's time».",
    "It needs «0.84 of the oracle».",
    "It needs «0.83 of the best rival».",
    "It needs «0.91 of mimalloc2».",
    "It needs «about 12», and the other more.",
    "It is «an order of magnitude faster».",
    "It is faster «by orders of magnitude».",
    "It «doubles the throughput».",
    "The «peak has halved».",
    "It «cuts the peak in half».",
    "The «footprint shrank by a third».",
    "It needs «twice as much memory».",
    "It is «fifty percent faster».",
    "It is «12 pct less».",
    "It needs «three times the CPU time».",
    # memory
    "A program «uses 33 MiB of memory».",
    "It «saves 40 MB».",
    "It needs «20 MB less».",
    "The resident set is «33 megabytes».",
    # tables
    "| | throughput |\n|---|---|\n| hakmem | «25.1» |",
    "| | result |\n|---|---|\n| hakmem | «half as slow» |",
    "allocator | ns/op\n---|--:\nhakmem | «26.2»",
    "Measured:\n| | throughput |\n| :-- | --: |\n| hakmem | «27.3» |",
)

HARMLESS = (
    "It holds twice as many entries.",
    "Twice as much is asked for at each miss in a row.",
    "The list has three times the length it had.",
    "A block of 33 MiB has a mapping of its own.",
    "A superslab holds 2 MiB in 32 slices of 64 KiB.",
    "It was refused three times in a row.",
    "Half of the blocks go back.",
    "A magazine grows by doubling, up to 2048 KiB.",
    "5 % of them may be late.",
    "A sleeper waits at most 60 seconds.",
    "Section 4.2 is about latency, section 2.1.3 about throughput.",
    "It is compiled by gcc 12.2.0, clang 16 and Python 3.11.",
    "Version 1.8.2 came on 2026-11-22 at 12:30.",
    "Throughput at 8192 slots and latency of 16 threads are compared.",
    "The p99 of 5 runs is taken.",
    "They are of the same order of magnitude.",
    "9 commands × 9 allocators, each 3 times.",
    "Issue #1234, commit 54322e7a9, 0x7f000 and x86-64.",
    "A run has 2 million operations over 400 slots.",
    "The window moves from 64 to 48 blocks.",
    "In the second half of the run memory comes back.",
    "A third of the slabs are empty.",
    "A superslab takes 2 MiB of address space.",
    "The ratio of two medians, the mean of 10 runs.",
    "The load factor of 2 is fixed.",
    "One in ten calls fails; the count dropped to 3.",
    "The time of the first 5 blocks is left out.",
    "It is called once a second, with 16 threads.",
    "It serves about 12 blocks, around 16 threads and nearly 100 programs.",
    "option | default\n---|---\na | 12.5",
)


CLAIMS = 9
HOST, LEDGER = "planted", "evidence/ledger/planted.jsonl"
MESSAGE = "message"  # a file in place of the commit message


@dataclass
class Site:
    """The small project: a benchmark, a source, a ledger, a document, a document of history and a
    commit message, with CLAIMS good claims in all.

    `sample`, `dirty` and `verdict` are the ids of its records.
    """

    root: Path
    sample: str
    dirty: str
    verdict: str

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.root / "evidence", HOST)

    def problems(self) -> list[str]:
        history = (self.root / "old.md").resolve()
        audit = Audit.of(self.root, self.ledger, 0, {history})
        audit.document(self.root / "doc.md")
        audit.document(history)
        audit.message("planted", (self.root / MESSAGE).read_text(encoding="utf-8"))
        audit.floor(CLAIMS)
        return audit.problems

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        if old not in text:
            raise LabError(f"cannot plant {new!r}: {old!r} is not in {name}")
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def say(self, old: str, new: str) -> None:
        self.edit("doc.md", old, new)


def build(root: Path) -> Site:
    """Makes a checkout with all of that committed."""
    for name in ("bench/a.c", "src/a.c"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("int a;\n")
    _git(root, "init", "-q", "--template=")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "source")
    source = provenance.source(root)
    rate = {"ok": True, "metrics": {"rate": {"value": 41.2345e6, "unit": "ops/s"}}}
    cost = {"estimate": 0.876, "low": 0.851, "high": 0.902, "unit": "ratio"}
    ledger = Ledger(root / "evidence", HOST)
    sample = ledger.append("sample", {**rate, "source": source}, {"stdout": b"41234500\n"}).id
    dirty = ledger.append("sample", {**rate, "source": {**source, "dirty": True}}).id
    body = {"question": "less?", "verdict": "GO", "metrics": {"cost": cost}, "ok": True}
    record = ledger.append("verdict", {**body, "source": source, "inputs": [sample]})
    verdict = record.id
    text = (
        f"It does 41.2 M ops/s<!--c:{sample}/rate/M-->, at\n"
        f"0.88 [0.85–0.90]<!--c:{verdict}/cost--> of the cost: "
        f"−12 % [−15–−10]<!--c:{verdict}/cost/%-->.\n\n"
        f"<!--claims:begin verdict={verdict}-->\n<!--claims:end-->\n"
    )
    made = blocks.rewrite(text, root, {verdict: record})
    for name in ("doc.md", "old.md"):
        (root / name).write_text(made, encoding="utf-8")
    told = f"cost 0.88 [0.85–0.90] [c:{verdict}/cost]"
    (root / MESSAGE).write_text(told, encoding="utf-8")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "evidence")
    return Site(root, sample, dirty, verdict)


def _git(root: Path, *arguments: str) -> None:
    own = ("user.name=audit", "user.email=audit@localhost", "commit.gpgsign=false")
    options = [word for text in (*own, "core.hooksPath=/dev/null") for word in ("-c", text)]
    done = git.run(root, *options, *arguments)
    if done.returncode != 0:
        raise LabError(f"the audit needs git: {done.stderr.decode(errors='replace').strip()}")


@dataclass(frozen=True)
class Violation:
    """What is done to a good site, and words of the problem that the audit must then report.

    All violations with `together` are planted in one site, so their words must differ.
    """

    what: str
    plant: Callable[[Site], None]
    words: str
    together: bool = False


def _typed(sentence: str) -> Violation:
    """A figure typed into the document; the audit must report what stands between « and »."""
    shown = re.sub(r"[*`]", "", html.unescape("".join(re.findall("«(.*)»", sentence, re.DOTALL))))
    text = re.sub("[«»]", "", sentence)
    return Violation(
        f"the figure {' '.join(text.split())!r}",
        lambda site: site.say("It does", f"{text}\n\nIt does"),
        f"unbacked: {' '.join(shown.split())!r}",
        together=True,
    )


VIOLATIONS = (
    Violation("a figure typed by hand", lambda s: s.say("It does", "7 ns/op. It does"), "unbacked"),
    Violation("a changed last digit", lambda s: s.say("41.2", "41.3"), "the record says 41.2"),
    Violation("another unit", lambda s: s.say("M ops", "G ops"), "shows the unit"),
    Violation("a stale benchmark", lambda s: s.edit("bench/a.c", "a", "b"), "bench/ has changed"),
    Violation("an old source", lambda s: s.edit("src/a.c", "a", "b"), "is stale"),
    Violation("no metric", lambda s: s.say("/rate/M", "/none/M"), "no metric"),
    Violation("no scale", lambda s: s.say("/rate/M", "/rate/Q"), "no scale"),
    Violation("a dirty record", lambda s: s.say(s.sample, s.dirty), "dirty"),
    Violation("no record", lambda s: s.say(s.sample, "0" * 12), "no record"),
    Violation("a ratio without interval", lambda s: s.say(" [0.85–0.90]", ""), "its interval"),
    Violation("a changed interval", lambda s: s.say("–0.90]", "–0.91]"), "shows the interval"),
    Violation("an interval of one's own", lambda s: s.say("ops/s<", "ops/s [40–42]<"), "has none"),
    Violation("two digits of a ratio", lambda s: s.say("0.85–0.90", "0.8–0.9"), "with 3 digits"),
    Violation("a lost sign", lambda s: s.say("−12 % [−15–−10]", "12 % [10–15]"), "says -12"),
    Violation(
        "an edited byte", lambda s: s.edit(LEDGER, "41234500.0", "41234600.0"), "was changed"
    ),
    Violation("an edited table", lambda s: s.say("0.851", "0.852"), "not what its source gives"),
    Violation("a message's figure", lambda s: s.edit(MESSAGE, "cost", "7 ns/op, cost"), "unbacked"),
    Violation("a lost claim", lambda s: s.say(f"<!--c:{s.sample}/rate/M-->", ""), "the floor"),
    Violation("in history a figure", lambda s: s.edit("old.md", "It", "7 ns. It"), "unbacked"),
    Violation("in history a digit", lambda s: s.edit("old.md", "41.2", "41.3"), "says 41.2"),
    Violation("in history a table", lambda s: s.edit("old.md", "| GO |", "| NO-GO |"), "not what"),
    Violation("in history a dirty record", lambda s: s.edit("old.md", s.sample, s.dirty), "dirty"),
    *map(_typed, FIGURES),
)


def rehearse(violations: Sequence[Violation] = VIOLATIONS) -> list[str]:
    """Violations let through and harmless sentences refused; none, if the audit can be trusted."""
    wrong = []
    with scratch.folder("audit") as folder:
        good = build(folder / "good")
        wrong += [f"a good claim refused ({problem})" for problem in good.problems()]
        harmless = _copy(good)
        harmless.say("It does", "\n\n".join((*HARMLESS, "It does")))
        wrong += [f"a harmless sentence refused ({problem})" for problem in harmless.problems()]
        alone = [[violation] for violation in violations if not violation.together]
        for group in (*alone, [violation for violation in violations if violation.together]):
            site = _copy(good)
            for violation in group:
                violation.plant(site)
            problems = site.problems()
            wrong += [v.what for v in group if not any(v.words in found for found in problems)]
    return wrong


def _copy(good: Site) -> Site:
    root = Path(tempfile.mkdtemp(dir=good.root.parent)) / "site"
    shutil.copytree(good.root, root)
    return replace(good, root=root)
