"""`hakmem bisect` on a small real repository whose program prints a planted cost."""

import re
import subprocess
from pathlib import Path

import pytest
from hakmem import project
from hakmem.bisect import commits as bisect_range
from hakmem.errors import LabError
from hakmem.ledger.store import Record
from hakmem.ledger.verify import verify
from standing import INTERRUPTED, PROGRAMS, Stand, compile_c, ran
from test_builds import CMAKE, Repository

# Prints COST with noise that depends only on how often it ran before (a sum of four uniform numbers
# from a counter in a file), so that a repeated bisection sees the same samples.
PROGRAM = """#include <stdio.h>
static double uniform(unsigned long x) {
    x = (x ^ (x >> 16)) * 0x45d9f3bUL; x = (x ^ (x >> 16)) * 0x45d9f3bUL;
    return (double)((x ^ (x >> 16)) % 10007) / 10007 - 0.5;
}
int main(int argc, char **argv) {
    unsigned long runs = 0;
    FILE *file = argc > 1 ? fopen(argv[1], "r+") : NULL;
    if (file == NULL || fscanf(file, "%lu", &runs) != 1) return 3;
    rewind(file); fprintf(file, "%lu\\n", runs + 1); fclose(file);
    double noise = 0;
    for (unsigned long i = 0; i < 4; i++) noise += uniform(4 * runs + i + 1);
    printf("cost: %.6f\\n", COST * (1 + NOISE * noise));
    return 0;
}
"""
BUILD = "gcc -include work.h -o work work.c"
BROKEN = "this is no C\n"


class World(Repository):
    """A repository whose commits have planted costs, and the command on it."""

    def __init__(self, folder: Path, stand: Stand) -> None:
        super().__init__(folder / "repository")
        self.folder, self.stand = folder, stand

    def grow(self, costs: list[float | None], noise: float = 0.004) -> list[str]:
        """Makes a commit for each cost, the first as the good end; one of None does not build."""
        commits = []
        for number, cost in enumerate(costs):
            header = f"#define COST {cost}\n#define NOISE {noise}\n"
            text = {"work_c": PROGRAM} if number == 0 else {}
            text |= {"work_h": header if cost else BROKEN, "number_txt": str(number)}
            commits.append(self.commit(f"step {number}", **text))
        return commits

    def bisect(self, *more: object, good: str = "HEAD~8") -> subprocess.CompletedProcess[str]:
        (self.folder / "counter").write_text("0\n")
        return self.stand.call(
            *("bisect", good, "HEAD", "--repo", self.root, "--build", BUILD, "--seed", "5"),
            *("--metric", "regex:cost: (.*)", "--probe-blocks", "4", "--max-blocks", "8", *more),
            *("--min-seconds", "0"),
            *("--", "{tree}/work", self.folder / "counter"),
        )

    def record(self) -> Record:
        assert verify(self.stand.ledger).problems == []
        return self.stand.records("bisect")[-1]


@pytest.fixture
def world(own: Stand, tmp_path: Path) -> World:
    return World(tmp_path, own)


def assert_whole(world: World, record: Record) -> None:
    """The bisection's record leads to every comparison, and each of them to all its samples."""
    found = {r.id: r for r in world.stand.records()}
    inputs = [found[one] for one in record.body["inputs"]]
    roles = [one["role"] for one in record.body["comparisons"]]
    kinds = {"ends": "verdict", "probe": "probe", "confirmation": "verdict"}
    assert roles[0] == "ends"
    assert roles[-1] == "confirmation"
    assert roles.count("probe") == len(roles) - 2 > 0
    assert [one.kind for one in inputs] == [kinds[role] for role in roles]
    for one in inputs:
        (setting,) = (found[i] for i in one.body["inputs"])
        rows = world.stand.samples(setting)
        assert len({row["block"] for row in rows}) == one.body["blocks"]


def test_a_planted_slow_down_is_found_past_a_commit_that_does_not_build(world: World) -> None:
    commits = world.grow([100, 100, 100, 100, None, 100, 105, 105, 105])
    done = ran(world.bisect())
    assert re.search(f"GO: {commits[6][:10]} “step 6” changed it: \\+[45]\\.\\d %", done.stdout)
    assert f"skipped, because they cannot be run: {commits[4][:10]} “step 4”" in done.stdout
    record = world.record()
    assert record.body["answer"] == "commit"
    assert record.body["suspects"] == [commits[6]]
    assert record.body["before"] == commits[5]
    assert "this is no C" not in record.body["skipped"][commits[4]]
    assert "error: " in record.body["skipped"][commits[4]]
    chances = {e["commit"]: e["probability"] for e in record.body["posterior"]}
    assert chances[commits[6]] > 0.95
    assert sum(chances.values()) == pytest.approx(1)
    change = record.body["metrics"]["suspect"]
    assert change["low"] < 1.05 < change["high"]
    assert_whole(world, record)
    assert world.worktrees() == 1
    assert not list(Path(world.stand.folder / "commits").glob("*-*"))


def test_a_change_among_commits_that_do_not_build_is_a_range(world: World) -> None:
    commits = world.grow([100, 100, None, None, 94])
    done = ran(world.bisect("--no-record", good="HEAD~4"))
    said = ", ".join(f"{commits[at][:10]} “step {at}”" for at in (2, 3, 4))
    assert f"GO: one of {said} changed it: −" in done.stdout
    assert "not recorded" in done.stdout
    assert not world.stand.evidence.exists()


def test_a_change_that_is_none_under_noise_is_said_to_be_none(world: World) -> None:
    world.grow([100] * 9, noise=0.012)
    done = ran(world.bisect("--max-blocks", "20"))
    assert "NO-GO: no commit changed it" in done.stdout
    record = world.record()
    assert (record.body["answer"], record.body["suspects"]) == ("none", [])
    assert record.body["posterior"][0]["probability"] > 0.9


def test_ends_that_cannot_be_told_apart_are_no_answer(world: World) -> None:
    world.grow([100, 100, 101], noise=0.3)
    done = ran(world.bisect(good="HEAD~2"), 1)
    assert "UNDECIDED: the ends cannot be told apart" in done.stdout
    assert world.record().body["answer"] == "open"


def test_an_improvement_is_not_a_slow_down(world: World) -> None:
    world.grow([100, 90])
    done = world.bisect("--aim", "worse", good="HEAD~1")
    assert "the bad end is better, not worse" in done.stdout
    assert world.record().body["answer"] == "none"


def test_the_commit_of_the_library_is_found_under_a_program_that_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in hakmem's own repository: the library of each commit is built and preloaded."""
    library = (PROGRAMS / "stub_library.c").read_text()
    commits = []
    for number, cost in enumerate((100, 100, 107, 107)):
        text = {"tiny_c": f"{library}\nconst double planted_cost = {cost};\n"}
        text |= {"CMakeLists_txt": CMAKE, "bench__CMakeLists_txt": "", "number_txt": str(number)}
        commits.append(world.commit(f"step {number}", **text))
    monkeypatch.setattr(project, "root", lambda: world.root)
    source, program = world.folder / "work.c", world.folder / "work"
    source.write_text(PROGRAM)
    cost = '-DCOST=(*(const double *)dlsym(RTLD_DEFAULT, "planted_cost"))'
    flags = ("-D_GNU_SOURCE", "-include", "dlfcn.h", cost, "-DNOISE=0.004")
    compile_c(source, program, *flags)
    (world.folder / "counter").write_text("0\n")
    words = ("--min-seconds", 0, "--probe-blocks", 4, "--max-blocks", 8)
    command = ("bisect", "HEAD~3", "HEAD", "--seed", 5, "--metric", "regex:cost: (.*)", *words)
    done = ran(world.stand.call(*command, "--", program, world.folder / "counter"))
    assert f"GO: {commits[2][:10]} “step 2” changed it: +7" in done.stdout
    record = world.record()
    assert record.body["suspects"] == [commits[2]]
    ends = [f"hakmem {commits[at][:10]}" for at in (0, 3)]
    assert [binary["name"] for binary in record.body["binary"]] == ends
    assert world.worktrees() == 1


def test_a_bisection_is_run_again_though_head_has_moved(world: World) -> None:
    world.grow([100, 100, 107])
    assert world.bisect(good="HEAD~2").returncode == 0
    first = world.record()
    world.commit("later", number_txt="later")
    (world.folder / "counter").write_text("0\n")
    ran(world.stand.call("rerun", first.id))
    again = world.record()
    assert again.body["repeats"] == first.id
    for name in ("good", "bad", "suspects", "posterior"):
        assert again.body[name] == first.body[name]


@pytest.mark.parametrize(
    ("costs", "said", "verdict"),
    [
        ([100, 100, 110], "does not show it", "NO-GO"),
        # Any two builds differ a little, half of the time in the suspected direction.
        ([100, 102, 112], "shows too little of it", "UNDECIDED"),
    ],
)
def test_a_change_that_only_the_search_believes_is_not_confirmed(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    costs: list[float | None],
    said: str,
    verdict: str,
) -> None:
    """The search always names the first commit: the last comparison does not confirm it."""
    from hakmem.bisect.search import Search, Suspect

    world.grow(costs)
    monkeypatch.setattr(Search, "found", lambda self, now: Suspect(0, (1,), 0.99))
    done = ran(world.bisect(good="HEAD~2"), 1)
    assert said in done.stdout
    assert world.record().body["verdict"] == verdict


def test_ends_that_do_not_run_are_messages(world: World) -> None:
    world.grow([None, 100, None])
    done = ran(world.bisect(good="HEAD~1"), 2)
    assert re.search("the bad end, .*“step 2”, cannot be measured: .* does not build", done.stderr)
    done = world.bisect(good="HEAD~2")
    assert "the good end" in done.stderr
    done = world.stand.call("bisect", "HEAD~1", "HEAD~1", "--repo", world.root, "--", "true")
    assert "the same commit" in done.stderr
    assert world.worktrees() == 1


def test_an_interrupt_leaves_one_line_no_record_and_no_worktree(world: World) -> None:
    world.grow([100, 105])
    done = world.stand.interrupted(
        (world.folder / "started").exists,
        *("bisect", "HEAD~1", "HEAD", "--repo", world.root, "--build", BUILD),
        *("--", "sh", "-c", "touch $0; sleep 600", world.folder / "started"),
    )
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)
    assert not world.stand.evidence.exists()
    assert world.worktrees() == 1


@pytest.mark.parametrize("what", [("--bench", "nosuch"), ("--", "no-such-program")])
def test_what_is_not_there_is_refused_before_a_commit_is_built(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, what: tuple[str, str]
) -> None:
    monkeypatch.setattr("hakmem.builds.Builds.at", lambda *_: pytest.fail("it was built"))
    done = stand.call("bisect", "HEAD~1", "HEAD", *what)
    assert done.returncode in (2, 127)
    assert what[1] in done.stderr
    assert done.stdout == ""


# ---- the range ----


def test_a_merge_is_one_commit_of_its_line(world: World) -> None:
    first = world.commit("first", a_txt="1")
    world.git("checkout", "-q", "-b", "side")
    inside = world.commit("inside", b_txt="1")
    world.git("checkout", "-q", "main")
    world.commit("second", a_txt="2")
    world.git("merge", "-q", "--no-ff", "-m", "merged", "side")
    found = bisect_range.between(world.root, first, "HEAD")
    assert [(c.subject, c.merge) for c in found] == [
        ("first", False),
        ("second", False),
        ("merged", True),
    ]
    with pytest.raises(LabError, match="came into HEAD by a merge"):
        bisect_range.between(world.root, inside, "HEAD")
    with pytest.raises(LabError, match="is no ancestor of"):
        bisect_range.between(world.root, "HEAD", first)
    with pytest.raises(LabError, match="has no commit nonsense"):
        bisect_range.between(world.root, "nonsense", "HEAD")
