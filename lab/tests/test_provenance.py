"""Provenance: what a figure was measured with; an allocator that was not intended is refused."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hakmem.audit import planted
from hakmem.errors import LabError
from hakmem.process import host, library, proof, provenance
from hakmem.process.library import Library
from hakmem.process.proof import Proof
from hakmem.suite import SUITE
from standing import Stand

HAKMEM = Library("hakmem", Path("/b/libhakmem.so"), "0.1.0", "hakmem")
SETTINGS = {"HAKMEM_THP": "0", "HAKMEM_STATS": "json:/tmp/..."}
SAID = Proof("0.1.0", 7, "/b/bench_x", True, "hakmem", settings=SETTINGS)
NOT_STATED = {"HAKMEM_TCACHE_KB": "2048", "HAKMEM_PROOF": "f", "X": "1"}
AS_SAID = {"HAKMEM_THP": "0", "HAKMEM_STATS": "json:/tmp/a long path", **NOT_STATED}


def test_the_source_is_dirty_by_what_can_change_a_figure(tmp_path: Path) -> None:
    site = planted.build(tmp_path / "site")
    clean = provenance.source(site.root)
    assert [len(str(clean[key])) for key in ("commit", "tree")] == [40, 40]
    assert clean["dirty"] is False
    (site.root / "doc.md").write_text("changed")
    (site.root / "evidence" / "more").write_text("grows while it is measured")
    assert provenance.source(site.root) == clean
    (site.root / "bench" / "new.c").write_text("int x;\n")
    assert provenance.source(site.root) == {**clean, "dirty": True}


def test_what_git_does_not_know_is_dirty(tmp_path: Path) -> None:
    assert provenance.source(tmp_path)["dirty"] is True


def test_a_definition_is_the_program_the_harness_and_the_arguments(tmp_path: Path) -> None:
    lifo, fifo = map(SUITE.command, ("batch_lifo", "batch_fifo"))
    harness = tmp_path / "bench" / "harness"
    harness.mkdir(parents=True)
    with pytest.raises(LabError, match="no source of bench_batch"):
        provenance.definition(lifo, tmp_path)
    (tmp_path / "bench" / "batch.c").write_text("1")
    first = provenance.definition(lifo, tmp_path)
    assert provenance.definition(fifo, tmp_path) != first
    assert provenance.definition(replace(lifo, sample=1), tmp_path) == first
    (tmp_path / "bench" / "other.c").write_text("1")
    assert provenance.definition(lifo, tmp_path) == first
    (tmp_path / "bench" / "batch_of_its_own.h").write_text("1")
    second = provenance.definition(lifo, tmp_path)
    assert second != first
    (tmp_path / "bench" / "batch_of_its_own.cc").write_text("1")
    assert provenance.definition(lifo, tmp_path) not in (first, second)
    second = provenance.definition(lifo, tmp_path)
    (harness / "mix.c").write_text("1")
    assert provenance.definition(lifo, tmp_path) not in (first, second)


def test_every_benchmark_has_a_definition() -> None:
    root = Path(__file__).parents[2]
    definitions = {provenance.definition(command, root) for command in SUITE.commands}
    assert len(definitions) == len(SUITE.commands)


def test_a_binary_says_how_it_was_made(stand: Stand) -> None:
    facts = provenance.binary(stand.library)
    assert facts.sha256 == host.sha256(stand.library)
    assert "GCC" in facts.compiler
    assert facts.flags == provenance.UNSTATED  # built without debug information
    assert provenance.binary(None).path.endswith(("libc.so.6", ".so"))
    with pytest.raises(LabError, match="not found"):
        provenance.binary(stand.folder / "absent.so")


def test_a_library_is_recorded_by_the_name_that_leads_to_it(stand: Stand, tmp_path: Path) -> None:
    link = tmp_path / "link.so"
    link.symlink_to(stand.library)
    facts = provenance.binary(link)
    assert (facts.path, facts.sha256) == (str(link), host.sha256(stand.library))


def test_a_library_older_than_its_source_is_refused(tmp_path: Path) -> None:
    for name in ("build/lib.so", "src/a.c"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    built = tmp_path / "build" / "lib.so"
    os.utime(tmp_path / "src" / "a.c", (1, 1))
    provenance.require_current(built, tmp_path)
    os.utime(built, (0, 0))
    with pytest.raises(LabError, match="older than"):
        provenance.require_current(built, tmp_path)
    provenance.require_current(built, tmp_path / "src")


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ("src/api/cxx.cc", "lib.so"),
        ("shared/dlopen.c", "lib.so"),
        ("tools/order.ld", "lib.so"),
        ("CMakeLists.txt", "build.ninja"),
        # A build would remake nothing after a change of these.
        ("shared/unwinder.c", None),
        ("shared/throw.cc", None),
        ("tools/lint", None),
    ],
)
def test_a_library_is_older_than_what_a_build_renews_it_for(
    tmp_path: Path, changed: str, refused: str | None
) -> None:
    names = "src/api/cxx.cc CMakeLists.txt shared/dlopen.c shared/unwinder.c shared/throw.cc"
    built, rules = (tmp_path / "build" / name for name in ("lib.so", "build.ninja"))
    for path in (*(tmp_path / n for n in (*names.split(), "tools/order.ld", "tools/lint")), built):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (2, 2))
    # The rules of a compiler that has no unwinder to link.
    rules.write_text("build lib.so: LINK /r/shared/dlopen.c | /r/tools/order.ld\n")
    os.utime(rules, (2, 2))
    provenance.require_current(built, tmp_path)
    os.utime(tmp_path / changed, (3, 3))
    if refused:
        with pytest.raises(LabError, match=f"{refused} is older than .*{changed}"):
            provenance.require_current(built, tmp_path)
    else:
        provenance.require_current(built, tmp_path)


def test_a_benchmark_older_than_its_source_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "build" / "bench_batch"
    for path in (program, *(tmp_path / "bench" / name for name in ("batch_work.cc", "batch.c"))):
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (2, 2))
    (tmp_path / "bench" / "larson.c").touch()  # not a source of this program
    assert provenance.require_program(program, tmp_path) == program
    os.utime(tmp_path / "bench" / "batch_work.cc", (3, 3))
    with pytest.raises(LabError, match=r"bench_batch is older than .*batch_work\.cc"):
        provenance.require_program(program, tmp_path)


def test_noise_is_what_happened_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = {"/proc/stat": "cpu 10 0 10 70 0 0 0 10\nctxt 100", "/proc/loadavg": "1 2 3 x"}
    monkeypatch.setattr(host, "read", stat.get)
    meter = provenance.NoiseMeter()
    stat["/proc/stat"] = "cpu 20 0 20 120 0 0 0 40\nctxt 150"
    stat["/proc/pressure/io"] = "some avg10=0 total=5"
    noise = meter.stop()
    assert [noise[f"{name}_share"] for name in ("busy", "steal")] == [0.2, 0.3]
    assert noise["context_switches"] == 50
    assert noise["load_before"] == "1 2 3"
    assert noise["stalled_s"] == dict.fromkeys(("cpu", "memory", "io"))


MIB = 1 << 20
GROUPS = {
    "/proc/meminfo": "MemAvailable:     1048576 kB",
    "/sys/fs/cgroup/a/memory.max": str(900 * MIB),
    "/sys/fs/cgroup/a/memory.current": str(500 * MIB),
    "/sys/fs/cgroup/a/cpu.max": "150000 100000",
    "/sys/fs/cgroup/a/b/memory.max": "max",
    "/sys/fs/cgroup/a/b/memory.high": str(800 * MIB),
    "/sys/fs/cgroup/a/b/memory.current": str(100 * MIB),
    "/sys/fs/cgroup/a/b/cpu.max": "max 100000",
    "/sys/fs/cgroup/a/b/c/memory.max": str(600 * MIB),
    "/sys/fs/cgroup/a/b/c/memory.current": str(50 * MIB),
    "/sys/fs/cgroup/a/b/c/cpu.max": "100000 50000",
    "/sys/fs/cgroup/ab/memory.max": str(70 * MIB),
    "/sys/fs/cgroup/ab/memory.current": str(80 * MIB),
    "/sys/fs/cgroup/free/memory.max": "max",
    "/sys/fs/cgroup/free/memory.current": str(80 * MIB),
    "/sys/fs/outside/memory.max": str(3 * MIB),
    "/sys/fs/outside/memory.current": "0",
}
CPU, NONE = "cpu 150000 100000", "cpu not visible"
OLDER = {
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": str(500 * MIB),
    "/sys/fs/cgroup/memory/old/memory.limit_in_bytes": str(300 * MIB),
    "/sys/fs/cgroup/memory/old/memory.usage_in_bytes": str(100 * MIB),
}
MOUNT = {"/sys/fs/cgroup/memory.max": str(20 * MIB), "/sys/fs/cgroup/memory.current": str(5 * MIB)}


@pytest.mark.parametrize(
    ("membership", "more", "available", "limits"),
    [
        ("0::/a/b/c", {}, 400, f"{CPU}, memory {600 * MIB}"),
        ("0::/a/b", {}, 400, f"{CPU}, memory {800 * MIB}"),
        ("4:memory:/ab\n1:name=systemd:/ab\n0::/a", {}, 400, f"{CPU}, memory {900 * MIB}"),
        ("0::/ab", {}, 0, f"{NONE}, memory {70 * MIB}"),
        ("0::/free", {}, 1024, f"{NONE}, memory max"),
        ("0::/", {}, 1024, f"{NONE}, memory not visible"),
        ("0::/a/b/c", MOUNT, 15, f"{CPU}, memory {20 * MIB}"),
        ("0::/the/name/outside", MOUNT, 15, f"{NONE}, memory {20 * MIB}"),
        ("0::/../outside", {}, 1024, f"{NONE}, memory not visible"),
        ("0::/../outside", MOUNT, 15, f"{NONE}, memory {20 * MIB}"),
        ("4:memory:/ab", MOUNT, 15, f"{NONE}, memory {20 * MIB}"),
        ("4:blkio,memory:/old/gone\n0::/", OLDER, 200, f"{NONE}, memory {300 * MIB}"),
        ("4:memory:/\n0::/", OLDER, 1024, f"{NONE}, memory max"),
        (None, {}, 1024, f"{NONE}, memory not visible"),
    ],
)
def test_every_cgroup_around_a_process_bounds_it(
    membership: str | None,
    more: dict[str, str],
    available: int,
    limits: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {**GROUPS, **more, "/proc/self/cgroup": membership}
    monkeypatch.setattr(host, "read", files.get)
    assert host.available_bytes() == available * MIB
    assert host.facts()["cgroup limits"] == limits


def test_the_real_host_states_its_facts() -> None:
    facts = host.facts()
    assert {"cpu", "kernel", "DAMON"} <= facts.keys()
    assert provenance.NoiseMeter().stop()["context_switches"] >= 0


@pytest.fixture(autouse=True)
def _defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {"HAKMEM_THP": "1", "HAKMEM_TCACHE_KB": "2048", "HAKMEM_STATS": ""}
    monkeypatch.setattr(provenance, "_defaults", lambda path: defaults)


@pytest.mark.parametrize(
    ("intended", "said", "environment", "why"),
    [
        (HAKMEM, SAID, AS_SAID, None),
        (HAKMEM, replace(SAID, settings=None), AS_SAID, None),
        (library.system(), None, {}, None),
        (HAKMEM, None, {}, "did not say"),
        (HAKMEM, replace(SAID, serving=False), {}, "not served by it"),
        (HAKMEM, replace(SAID, version="0.0.9"), {}, "ran 0.0.9"),
        (HAKMEM, SAID, {"HAKMEM_TCACHE_KB": "64"}, "2048 was in effect"),
        (HAKMEM, SAID, {"HAKMEM_THP": "1"}, "0 was in effect"),
        (HAKMEM, SAID, {"HAKMEM_NEW": "1"}, "does not know"),
        (library.system(), SAID, {}, "hakmem 0.1.0 was loaded"),
    ],
)
def test_another_allocator_than_intended_is_an_error(
    intended: Library, said: Proof | None, environment: dict[str, str], why: str | None
) -> None:
    found = provenance.unintended(intended, said, environment)
    assert why in found if why else found is None


def test_settings_are_read_from_the_proof() -> None:
    line = '{"hakmem":"0.1.0","pid":7,"exe":"/b/x","serving":true,"allocator":"hakmem"'
    rests = (',"settings":{"HAKMEM_THP":"0"}}', "}", ',"settings":null}', ',"settings":["a"]}')
    found = proof.parse("".join(f"{line}{rest}\n" for rest in rests))
    # The last line is left out: its settings are a list.
    assert [one.settings for one in found] == [{"HAKMEM_THP": "0"}, None, None]
    assert (found[1].serving, found[1].profile) == (True, "")


def test_readelf_that_is_absent_is_not_fatal(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy(stand.library, tmp_path / "copy.so")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.binary(Path(copy)).compiler == provenance.UNSTATED
