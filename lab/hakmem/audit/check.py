"""The audit: no figure in a document or a commit message without a record behind it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem import git, pages, project
from hakmem.audit import blocks, scanner
from hakmem.audit.citing import Evidence, differences
from hakmem.audit.settings import Settings
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify

# Why a scorecard is neither checked nor made in a shallow clone.
WITHOUT_HISTORY = "without the whole history nobody can say what is stale"


@dataclass
class Audit:
    """One pass over documents and messages: what was seen, and what is wrong.

    Documents of `history` say what was measured when, so their evidence may be stale.
    """

    root: Path
    evidence: Evidence
    history: Collection[Path] = ()
    cited: int = 0
    generated: int = 0
    dated: int = 0
    documents: int = 0
    messages: int = 0
    exempt: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, root: Path, ledger: Ledger, stale_after: int, history: Collection[Path] = ()
    ) -> "Audit":
        """A new audit. It verifies the ledger first: only records that verify are evidence."""
        checked = verify(ledger)
        problems = [f"ledger: {problem}" for problem in checked.problems]
        notes = [f"ledger: {note}" for note in checked.notes]
        evidence = Evidence(root, checked.records, stale_after)
        return cls(root, evidence, history, problems=problems, notes=notes)

    @property
    def seen(self) -> int:
        return self.cited + self.generated

    def document(self, path: Path) -> None:
        name = str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self.problems.append(f"{name}: cannot be read: {error}")
            return
        self.documents += 1
        fresh = path.resolve() not in self.history
        before = self.seen
        for block in blocks.find(text):
            self._block(f"{name}:{block.line}", path.parent, block, fresh)
        rest, stray = blocks.without(text)
        self.problems += [f"{name}:{line}: a mark that makes no block" for line in stray]
        self._figures(name, scanner.scan(rest), fresh)
        self.dated += 0 if fresh else self.seen - before

    def message(self, commit: str, text: str) -> None:
        self.messages += 1
        self._figures(f"commit {commit[:10]}", scanner.scan(text, "["), fresh=False)

    def floor(self, least: int) -> None:
        if self.seen < least:
            self.problems.append(
                f"only {self.seen} claims seen, the floor is {least}: were markers lost? "
                "(the floor is set in evidence/audit.toml)"
            )

    def incomplete(self) -> None:
        """Adds a note on what cannot be checked in a shallow clone."""
        if self.evidence.shallow:
            self.notes.append(
                "the history is incomplete (a shallow clone): commit messages before its first "
                f"commit were not read, and of {len(self.evidence.unplaced)} cited records neither "
                "the age was checked nor that their commit is in it; `git fetch --unshallow` "
                "brings it"
            )

    def _figures(self, name: str, found: scanner.Found, fresh: bool) -> None:
        self.cited += len(found.claims)
        self.exempt += found.exempt
        for claim in found.claims:
            where = f"{name}:{claim.line}: {claim.number} {claim.unit}".rstrip()
            objections = self.evidence.objections(claim.id, fresh)
            record = self.evidence.records.get(claim.id)
            wrong = [*objections, *(differences(claim, record) if record else ())]
            self.problems += [f"{where}: {why}" for why in wrong]
        self.problems += [f"{name}:{line}: {what}" for line, what in found.faults]
        self.problems += [
            f"{name}:{line}: unbacked: {what!r} cites no record" for line, what in found.unbacked
        ]

    def _block(self, where: str, folder: Path, block: blocks.Block, fresh: bool) -> None:
        """Checks a block. A scorecard must always be fresh; a picture lies relative to `folder`."""
        self.generated += block.rows
        tried = block.kind == "corruption"  # it names its record, which has a date
        fresh = not tried and (fresh or block.kind == "scorecard")
        for id in block.ids:
            self.problems += [f"{where}: {why}" for why in self.evidence.objections(id, fresh)]
            if not fresh and not tried and not self._says_when(block, id):
                self.problems.append(f"{where}: the table does not say when {id} was measured")
        if block.kind == "scorecard" and self.evidence.shallow:
            self.notes.append(f"{where}: the scorecard was not made again: {WITHOUT_HISTORY}")
            return
        try:
            right = blocks.render(block, self.root, self.evidence.records)
            if block.kind == "picture":
                drawn = blocks.drawing(block, self.evidence.records)
                remedy = "`hakmem audit --write`"
                pages.require_same(folder / block.file, drawn, "its records give", remedy)
        except (LabError, KeyError, TypeError, ValueError) as error:
            self.problems.append(f"{where}: the table cannot be made again: {error}")
            return
        if right.strip() != block.text.strip():
            self.problems.append(
                f"{where}: the table is not what its source gives: `hakmem audit --write`"
            )

    def _says_when(self, block: blocks.Block, id: str) -> bool:
        """Whether the table has the date of the record, and the commit at which it was measured."""
        record = self.evidence.records.get(id)
        if record is None:
            return True
        return record.time[:10] in block.text and record.body["source"]["commit"][:10] in block.text

    def __str__(self) -> str:
        ages = self.evidence.ages.values()
        oldest = f", the oldest {max(ages)} source commits old" if ages else ""
        state = f"{len(self.problems)} problems" if self.problems else "all backed"
        return (
            f"{self.seen} claims ({self.cited} cited, {self.generated} in generated tables, "
            f"{self.dated} of all are history{oldest}), {self.exempt} paragraphs exempt, "
            f"in {self.documents} documents and {self.messages} commit messages: {state}"
        )


def is_checkout(root: Path) -> bool:
    """Whether `root` is the top of a git checkout, and not an archive unpacked inside one."""
    top = git.ask(root, "rev-parse", "--show-toplevel")
    return top is not None and Path(top).resolve() == root.resolve()


def documents(root: Path) -> list[Path]:
    """All Markdown files that are or would be committed; LabError for no git checkout."""
    listed = git.ask(root, "ls-files", "-z", "-co", "--exclude-standard", "*.md")
    if listed is None or not is_checkout(root):
        raise LabError(f"{root} is no git checkout: name the files to audit")
    return sorted(root / name for name in listed.split("\0") if name and (root / name).exists())


def messages(root: Path, settings: Settings, shallow: bool = False) -> list[tuple[str, str]]:
    """(commit, message) since the last release and since `messages_from`, without the excused ones.

    In a shallow clone that does not reach back so far: all there are.
    """
    release = git.ask(root, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    ends = [commit for commit in (settings.messages_from, release) if commit]
    if shallow:
        ends = [commit for commit in ends if _has(root, commit)]
    log = git.ask(root, "log", "--format=%H%x00%B%x1e", "HEAD", *(f"^{end}" for end in ends))
    if log is None:
        raise LabError(f"git cannot list the commits after {settings.messages_from} in {root}")
    rows = [row.strip().partition("\0") for row in log.split("\x1e") if row.strip()]
    return [(commit, text) for commit, _, text in rows if commit not in settings.excused]


def _has(root: Path, commit: str) -> bool:
    return git.run(root, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def write(root: Path, files: Sequence[Path], ledger: Ledger) -> None:
    """Makes the generated tables and pictures of the files again. LabError, before anything is
    written, where there is a scorecard and the clone is shallow."""
    records = verify(ledger).records
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    for path, text in texts.items():
        if git.is_shallow(root) and any(b.kind == "scorecard" for b in blocks.find(text)):
            raise LabError(f"{path}: {WITHOUT_HISTORY}: git fetch --unshallow, or name the others")
    for path, text in texts.items():
        for block in blocks.find(text):
            if block.kind == "picture":
                file = path.parent / block.file
                project.write_atomically(file, blocks.drawing(block, records))
        made = blocks.rewrite(text, root, records)
        if made != text:
            project.write_atomically(path, made)
            print(f"written: {path}")
