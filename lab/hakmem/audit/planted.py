"""Planted violations: before each audit, a small project of its own in which each is refused, and
in which harmless sentences are not."""

import html
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem import git
from hakmem.audit import blocks as audit_blocks
from hakmem.audit.check import Audit
from hakmem.audit.sentences import FIGURES, HARMLESS
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.process import provenance, scratch

CLAIMS = 9
LEDGER = "evidence/ledger"


@dataclass
class Site:
    """The small project: a benchmark, a source, a ledger, a document, one that is history, and a
    commit message, with CLAIMS good claims in all.

    `sample`, `dirty` and `verdict` are the ids of its records.
    """

    root: Path
    sample: str
    dirty: str
    verdict: str
    message: str = ""

    def problems(self) -> list[str]:
        history = (self.root / "old.md").resolve()
        audit = Audit.of(self.root, Ledger(self.root / "evidence"), 0, {history})
        audit.document(self.root / "doc.md")
        audit.document(history)
        audit.message("planted", self.message)
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

    def tell(self, old: str, new: str) -> None:
        if old not in self.message:
            raise LabError(f"cannot plant {new!r}: {old!r} is not in the commit message")
        self.message = self.message.replace(old, new)

    def edit_ledger(self, old: str, new: str) -> None:
        path = next((self.root / LEDGER).glob("*.jsonl"))
        self.edit(f"{LEDGER}/{path.name}", old, new)


def build(root: Path) -> Site:
    """A checkout with all of it committed."""
    for name in ("bench/a.c", "src/a.c"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("int a;\n")
    _git(root, "init", "-q", "--template=")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "source")
    source = provenance.source(root)
    rate = {"ok": True, "metrics": {"rate": {"value": 41.2345e6, "unit": "ops/s"}}}
    cost = {"estimate": 0.876, "low": 0.851, "high": 0.902, "unit": "ratio"}
    ledger = Ledger(root / "evidence")
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
    made = audit_blocks.rewrite(text, root, {verdict: record})
    for name in ("doc.md", "old.md"):
        (root / name).write_text(made, encoding="utf-8")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "evidence")
    return Site(root, sample, dirty, verdict, f"cost 0.88 [0.85–0.90] [c:{verdict}/cost]")


def _git(root: Path, *arguments: str) -> None:
    own = ("user.name=audit", "user.email=audit@localhost", "commit.gpgsign=false")
    options = [word for text in (*own, "core.hooksPath=/dev/null") for word in ("-c", text)]
    done = git.run(root, *options, *arguments)
    if done.returncode != 0:
        raise LabError(f"the audit needs git: {done.stderr.decode(errors='replace').strip()}")


@dataclass(frozen=True)
class Violation:
    """What is done to a good site, and words of the problem that must be found then.

    Those that are planted `together` share a site, so their words must not be the same.
    """

    what: str
    plant: Callable[[Site], None]
    words: str
    together: bool = False


def _typed(sentence: str) -> Violation:
    """A figure in the document; it must be shown as what stands between « and »."""
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
    Violation("a dirty record", lambda s: s.say(s.sample, s.dirty), "dirty"),
    Violation("no record", lambda s: s.say(s.sample, "0" * 12), "no record"),
    Violation("a ratio without interval", lambda s: s.say(" [0.85–0.90]", ""), "its interval"),
    Violation("a changed interval", lambda s: s.say("–0.90]", "–0.91]"), "shows the interval"),
    Violation("an edited byte", lambda s: s.edit_ledger("41234500.0", "41234600.0"), "was changed"),
    Violation("an edited table", lambda s: s.say("0.851", "0.852"), "not what its source gives"),
    Violation("a message's figure", lambda s: s.tell("cost", "7 ns/op, cost"), "unbacked"),
    Violation("a lost claim", lambda s: s.say(f"<!--c:{s.sample}/rate/M-->", ""), "the floor"),
    Violation("in history a figure", lambda s: s.edit("old.md", "It", "7 ns. It"), "unbacked"),
    Violation("in history a digit", lambda s: s.edit("old.md", "41.2", "41.3"), "says 41.2"),
    Violation("in history a dirty record", lambda s: s.edit("old.md", s.sample, s.dirty), "dirty"),
    *map(_typed, FIGURES),
)


def rehearse(violations: Sequence[Violation] = VIOLATIONS) -> list[str]:
    """What was let through or wrongly refused; nothing, if the audit can be trusted."""
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
