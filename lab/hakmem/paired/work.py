"""What a cell runs: a benchmark and its amount of work, a real program, or a user's command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem import project
from hakmem.errors import LabError
from hakmem.paired.cells import Cell
from hakmem.process import host, provenance
from hakmem.process.children import program
from hakmem.process.library import system
from hakmem.process.sample import Process, Sample
from hakmem.programs import Program, Ready, prepare
from hakmem.suite import EMPTY, FAST, NULL, SUITE, Command, Reference

# The floors by the names that a user gives them.
FLOORS = {"null": NULL, "empty": EMPTY, "benchfast": FAST}


@dataclass(frozen=True)
class Work:
    """What a cell runs: with `command` a benchmark of `amount` work, with `program` a real program,
    else the user's own `arguments`.

    `planted` is the share of work that a benchmark does beyond what it reports, to show what a
    comparison finds. All but benchmarks are measured from outside. A name holds no slash, because
    records are cited by it. `sha256` is that of a benchmark's program when it was chosen. `stated`
    is what a record has to say of a benchmark that the suite does not have.
    """

    name: str
    arguments: tuple[str, ...] = ()
    command: Command | None = None
    amount: int = 0
    passed: tuple[str, ...] = ()
    timeout_s: float = 300.0
    program: Ready | None = None
    planted: float = 0.0
    sha256: str = ""
    stated: Mapping[str, object] = field(default_factory=dict)

    def nominal(self, sample: Sample) -> Sample:
        """The sample without the planted work in its operations: it only took longer."""
        ops = sample.stated("ops")
        if not self.planted or sample.result is None or ops is None:
            return sample
        return replace(sample, result={**sample.result, "ops": ops / (1 + self.planted)})

    def process(self, cell: Cell | Reference, padding: int, counted: bool) -> Process:
        """The process that runs this work under a cell, or as one of the benchmark's references."""
        if self.program is not None:
            assert isinstance(cell, Cell)
            return self.program.process(cell.library, cell.environment, padding)
        command = self.command
        if isinstance(cell, Reference):
            assert command is not None
            preload = project.bench_dir() / cell.preload if cell.preload else None
            return Process(
                argv=command.argv(self.amount, cell),
                library=replace(system(), path=preload),
                padding=padding,
            )
        amount = round(self.amount * (1 + self.planted))
        return Process(
            argv=command.argv(amount) if command else self.arguments,
            library=cell.library,
            padding=padding,
            starts=command.starts if command else "",
            timeout_s=self.timeout_s,
            environment=cell.environment,
            passed=self.passed,
            own_account=command is not None,
            counted=counted or command is not None,
        )

    @property
    def quiet_s(self) -> float:
        """Seconds that a sample lasts beyond its timed part."""
        return self.program.program.quiet_s if self.program else 0.0

    @property
    def scales(self) -> bool:
        """Whether its amount of work can be chosen."""
        return self.command is not None and any("{n}" in a for a in self.command.arguments)

    def shortened(self, share: float) -> "Work":
        """The same with `share` of its amount of work; unchanged where that cannot be chosen."""
        return replace(self, amount=max(1, round(share * self.amount))) if self.scales else self

    def require_unchanged(self) -> None:
        """LabError where the benchmark's program was built anew since it was chosen."""
        if self.command and self.sha256 not in ("", digest(self.command)):
            why = "was changed during the measurement: nothing of it was recorded"
            raise LabError(f"{self.command.executable} {why}", status=1)

    def floor(self, name: str | None) -> Reference | None:
        """This benchmark's reference of that name, or None."""
        references = self.command.references if self.command else ()
        return next((r for r in references if r.name == name), None)


def benchmark(name: str) -> Work:
    """One benchmark of the suite, with the amount of work of one sample."""
    command = only(name)
    preloads = (reference.preload for reference in command.references)
    for file in filter(None, (command.trace, *preloads)):
        project.require_file(project.bench_dir() / file, "benchmark")
    return Work(command.name, command=command, amount=command.sample, sha256=digest(command))


def digest(command: Command) -> str:
    """The checksum of a benchmark's program; LabError where it is not there, or not current."""
    program = project.bench_dir() / command.executable
    return host.sha256(provenance.require_program(program, project.source_dir()))


def only(name: str) -> Command:
    """The one command of the suite that `name` selects; LabError: none, or several."""
    chosen = SUITE.select([name]).commands
    if len(chosen) != 1:
        names = ", ".join(command.name for command in chosen)
        raise LabError(f"{name} names {len(chosen)} benchmarks, choose one: {names}")
    return chosen[0]


def real(program: Program) -> Work:
    """A real program with its inputs; LabError says why it cannot run here."""
    return Work(program.name, program=prepare(program))


def own(argv: Sequence[str], passed: Sequence[str] = ()) -> Work:
    """The user's own command; LabError here, before anything is measured, where it is not found."""
    program(argv[0])
    return Work(Path(argv[0]).name, tuple(argv), passed=tuple(passed), timeout_s=3600.0)
