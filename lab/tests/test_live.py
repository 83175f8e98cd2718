"""`hakmem top` and `hakmem export`: which processes are found and believed, what is shown."""

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hakmem import project, words
from hakmem.live import cli, export, processes, view
from hakmem.live.processes import Answer, Process
from rich.console import Console
from standing import PATIENCE_S, Stand, need_built, refused

ROOT = Path(__file__).parents[2]
HEAP = {
    **dict.fromkeys((name for name, _ in view.HEAP), 0),
    **{"allocated": 3 << 20, "resident": 5 << 20, "dirty": 1 << 20, "mapped": 9 << 20},
    **{"purge_bytes": 7 << 20, "calls": 400, "refused": 2},
}
BANDS = {"C0": {**dict.fromkeys(view.BAND, 0), "blocks": 12, "carved": 65536}}
PAGE = """\
# TYPE hakmem info
# HELP hakmem the allocator that wrote this
hakmem_info{version="0.1.0"} 1
# TYPE hakmem_free_bytes gauge
# HELP hakmem_free_bytes blocks that are free
hakmem_free_bytes 30
# TYPE hakmem_band_free_bytes gauge
hakmem_band_free_bytes{band="C0"} 10
hakmem_band_free_bytes{band="C1"} 20
# EOF
"""


def process(pid: int = 7, faults: int = 0, command: str = "prog", **heap: int) -> Process:
    return Process(pid, command, faults, {"heap": HEAP | heap, "bands": BANDS})


def printed(shown: object, width: int = 120) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


# ---- which processes are found ----


@contextmanager
def answering(answer: Callable[[str], bytes]) -> Iterator[str]:
    """Makes this process answer on a socket as a process on hakmem does."""
    name = f"hakmem/{os.getpid()}/{threading.get_ident()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    word = connection.makefile().readline()
                    connection.sendall(answer(word.strip()))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield "@" + name
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def waiting(code: str, **more: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A Python that runs `code`, which must print a line at its end, and then stays alive."""
    argv = [sys.executable, "-c", f"{code}; sys.stdin.read()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env={**os.environ, **more}, **pipes) as child:
        child.stdout.readline()
        yield child
        child.communicate(b"")


def write(word: str) -> bytes:
    assert word in ("json", "openmetrics")
    return (
        json.dumps({"heap": HEAP, "bands": BANDS, "pid": 1}) if word == "json" else PAGE
    ).encode()


def test_sockets_that_listen_under_its_name_are_found(tmp_path: Path) -> None:
    table = tmp_path / "unix"
    rows = (
        "Num RefCount Protocol Flags Type St Inode Path",
        "0: 00000002 00000000 00010000 0001 01 11 @hakmem/12/0xab",
        "0: 00000003 00000000 00000000 0001 03 12 @hakmem/12/0xab",
        "0: 00000002 00000000 00010000 0001 01 13 /run/hakmem/1",
        "0: 00000002 00000000 00010000 0001 01 14",
        "0: 00000002 00000000 00010000 0001 01 15 @hakmem/9/0x1",
    )
    anything = b"0: 00000002 00000000 00010000 0001 01 16 @\xff\n"  # a name may be any bytes
    table.write_bytes("\n".join(rows).encode() + b"\n" + anything)
    assert processes.listening(table) == ["@hakmem/12/0xab", "@hakmem/9/0x1"]


def test_an_answer_is_whose_the_system_says_and_not_whose_it_says() -> None:
    with answering(write) as name:
        assert name in processes.listening()
        answer = processes.ask(name, "json")
    assert answer.pid == os.getpid()
    found = processes.parse(answer)
    assert (found.pid, found.heap) == (os.getpid(), HEAP)
    assert found.command == Path("/proc/self/comm").read_text().strip()
    assert found.page_faults > 0
    assert processes.ask(name, "json") is None  # nothing listens any more


@pytest.mark.parametrize(
    "text",
    [
        *("", "nonsense", "[]", '{"heap": {}}', '{"heap": 1, "bands": {}}'),
        *('{"heap": {"x": "\\u001b[2J"}, "bands": {}}', '{"heap": {}, "bands": {"C0": 1}}'),
        *("[" * 100000, f'{{"heap": {{"x": 1{"0" * 400}}}, "bands": {{}}}}'),
        '{"heap": {}, "bands": {"\\u001b[2J": {}}}',
    ],
)
def test_what_is_no_document_of_its_is_no_process(text: str) -> None:
    assert processes.parse(Answer(1, "prog", text)) is None


def test_a_name_commands_no_terminal() -> None:
    rename = "import sys; open('/proc/self/comm', 'w').write('a\\x1b[2Jb'); print(flush=True)"
    with waiting(rename) as renamed:
        assert processes.command_of(renamed.pid) == "a?[2Jb"
    assert processes.command_of(renamed.pid) == "?"


def test_what_another_version_does_not_have_is_nought() -> None:
    old = processes.parse(
        Answer(1, "prog", '{"heap": {"calls": 3}, "bands": {"C0": {"blocks": 1}}}')
    )
    said = printed(view.detail(old, view.row(old, None, None), False))
    assert re.search(r"^C0\s+1\s+0\s+0\s+0\s+0$", said, re.M)


# ---- what is shown ----


def test_the_first_look_has_counts_and_the_next_ones_rates() -> None:
    before, now = process(faults=100), process(faults=150, purge_bytes=9 << 20, calls=406)
    first = view.rows([before], None, None)[0]
    assert [first.figures[name] for name in view.WORK] == [7 << 20, 100, 400, 2]
    second = view.rows([now], {7: before}, 2.0)[0]
    assert [second.figures[name] for name in view.WORK] == [1 << 20, 25, 3, 0]


def test_a_process_that_has_come_since_has_done_all_since_and_none_runs_backwards() -> None:
    def faults(before: dict[int, Process]) -> float:
        return view.rows([process(faults=40)], before, 4.0)[0].figures["page faults"]

    assert faults({}) == 10
    assert faults({7: process(faults=90)}) == 0


def test_the_largest_comes_first() -> None:
    made = view.rows([process(1, resident=1), process(2, resident=9), process(3)], None, None)
    assert [row.pid for row in made] == [3, 2, 1]


def test_a_line_has_its_figures_in_mebibytes_and_a_name_is_no_markup() -> None:
    made = view.rows([process(command="[red]x[/]")], None, None)
    said = printed(view.table(made, 3, False))
    assert re.search(
        r"^\s*7\s+\[red\]x\[/\]\s+3.00\s+5.00\s+1.00\s+9.00\s+7.00\s+0\s+400\s+2$", said, re.M
    )
    assert "page faults/s" not in said
    assert "3 processes gave no answer" in said
    assert "page faults/s" in printed(view.table(made, 0, True))


def test_a_narrow_terminal_has_fewer_columns_and_whole_figures() -> None:
    """Down to a width of 46, where the last four columns just fit."""
    heap = dict.fromkeys(("allocated", "resident", "dirty", "mapped"), 1234567 << 20)
    rows = view.rows([process(1234567, 7654321, "fifteen.letters", **heap)], None, None)
    figures = {"1234567", "7654321", "fifteen.letters", words.number(1234567), "7.00", "400", "2"}
    seen = set()
    for width in range(46, 121):
        said = printed(view.table(rows, 0, True), width)
        assert max(map(len, said.splitlines())) <= width
        (line,) = [line for line in said.splitlines() if "fifteen" in line]
        assert set(re.split(" +", line.strip())) <= figures, f"cut at {width}: {line}"
        dropped = re.search(r"no room for ([^$]*)", said)
        names = tuple(" ".join(dropped[1].split()).split(", ")) if dropped else ()
        assert len(re.split(" +", line.strip())) + len(names) == 10
        seen.add(names)
    assert {(), ("mapped",), ("mapped", "calls"), ("mapped", "page faults", "calls")} <= seen
    assert printed(view.table(rows, 0, True), 120).startswith("    pid  command")


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_a_process_is_shown_whole_in_a_narrow_terminal(width: int) -> None:
    one = process(peak_resident=1234567 << 20, peak_mapped=7654321 << 20)
    said = printed(view.detail(one, view.row(one, None, None), False), width)
    for name, figure in (("peak_resident", 1234567), ("peak_mapped", 7654321)):
        assert re.search(rf"{name} +{words.number(figure)} ", said)


def test_nobody_there_says_how_to_begin() -> None:
    assert "HAKMEM_LIVE=1 hakmem run" in printed(view.table([], 0, False))


def test_one_process_is_shown_by_band() -> None:
    one = process(limit=64 << 20)
    said = printed(view.detail(one, view.row(one, None, None), False))
    assert re.search(r"^C0\s+12\s+0\s+0\s+0\s+0.06$", said, re.M)
    assert re.search(r"\blimit\s+64.0\s+MiB", said)
    assert re.search(r"\bcalls\s+400\b", said)


def looked(monkeypatch: pytest.MonkeyPatch, *faults: int | None) -> list[str]:
    """What looks show, five seconds apart, at a process with `faults`; None: no answer."""
    looks = iter([[] if n is None else [process(faults=n)] for n in faults])
    times = itertools.count(100.0, 5.0)
    monkeypatch.setattr(processes, "running", lambda: processes.Found(next(looks), 0))
    watch = cli.Looks(None, lambda: next(times))
    return [printed(watch.next()) for _ in faults]


def test_looks_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = looked(monkeypatch, 10, 20, None)
    assert re.search(r"prog.*\s10\s+400\s+2$", first, re.M)
    assert re.search(r"prog.*\s2\s+0\s+0$", second, re.M)
    assert "no process" in third


def test_what_one_did_that_gave_no_answer_is_no_work_of_one_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = looked(monkeypatch, 10, None, 1000, 1020)
    assert re.search(r"prog.*\s0\s+0\s+0$", shown[2], re.M), shown[2]
    assert re.search(r"prog.*\s4\s+0\s+0$", shown[3], re.M), shown[3]


def test_one_look_where_nobody_watches_and_all_figures_as_json(stand: Stand) -> None:
    with answering(write):
        line = stand.run("top", os.getpid())
        listed = stand.run("top", "--json")
    assert re.search(rf"^\s*{os.getpid()}\s.*\s3.00\s+5.00\s", line.stdout, re.M), line.stderr
    assert re.search(r"^C0\s+12\s", line.stdout, re.M)
    own = [one for one in json.loads(listed.stdout) if one["pid"] == os.getpid()]
    assert len(own) == 1
    assert own[0]["heap"] == HEAP
    assert own[0]["page_faults"] > 0


# ---- what is served ----


def test_each_family_is_described_once_and_each_sample_has_its_process() -> None:
    two = [Answer(5, "a", PAGE), Answer(6, 'b"\\', PAGE)]
    expected = r"""
# TYPE hakmem info
# HELP hakmem the allocator that wrote this
hakmem_info{pid="5",command="a",version="0.1.0"} 1
hakmem_info{pid="6",command="b\"\\",version="0.1.0"} 1
# TYPE hakmem_free_bytes gauge
# HELP hakmem_free_bytes blocks that are free
hakmem_free_bytes{pid="5",command="a"} 30
hakmem_free_bytes{pid="6",command="b\"\\"} 30
# TYPE hakmem_band_free_bytes gauge
hakmem_band_free_bytes{pid="5",command="a",band="C0"} 10
hakmem_band_free_bytes{pid="5",command="a",band="C1"} 20
hakmem_band_free_bytes{pid="6",command="b\"\\",band="C0"} 10
hakmem_band_free_bytes{pid="6",command="b\"\\",band="C1"} 20
# EOF
"""
    assert export.merged(two) == expected.lstrip()


def test_a_family_that_only_a_later_process_has_is_described_too() -> None:
    more = PAGE.replace("# EOF", "# TYPE hakmem_section_max gauge\nhakmem_section_max 4\n# EOF")
    said = export.merged([Answer(5, "a", PAGE), Answer(6, "b", more)])
    assert said.endswith(
        '# TYPE hakmem_section_max gauge\nhakmem_section_max{pid="6",command="b"} 4\n# EOF\n'
    )


def test_nobody_gets_other_lines_through() -> None:
    planted = 'up{job="x"} 1\n# TYPE up gauge\nhakmem_x{a="}"} 1\nhakmem_free_bytes nine\n'
    planted += 'hakmem_free_bytes 1.2.3\nhakmem_x{pid="1"} 1\nhakmem_x{a="1",command="x"} 1\n'
    planted += f"# TYPE {export.SILENT} gauge\n{export.SILENT} 0\n"
    planted += 'hakmem_x{a="1",a="2"} 1\nhakmem_x{a="\033[2J"} 1\n'
    before = export.merged([Answer(5, "a", PAGE)])
    assert export.merged([Answer(5, "a", planted + PAGE)]) == before
    twice = PAGE.replace("# HELP", "# TYPE hakmem_free_bytes counter\n# HELP")
    assert export.merged([Answer(5, "a", PAGE), Answer(5, "a", twice)]).count("# TYPE") == 3
    assert export.merged([Answer(5, "a", twice)]).count("# TYPE hakmem_free_bytes") == 1
    assert export.merged([Answer(5, "a", PAGE.replace("# EOF", planted + "# EOF"))]) == before


def test_an_answer_that_is_not_whole_is_left_out() -> None:
    assert export.whole(Answer(1, "prog", PAGE)) is not None
    assert export.whole(Answer(1, "prog", PAGE[:-3])) is None


@pytest.fixture
def served() -> Iterator[str]:
    with answering(write), export.server("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_page_is_served_and_nothing_else(served: str) -> None:
    with urllib.request.urlopen(f"{served}/metrics?x=1", timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"] == export.CONTENT_TYPE
        text = answer.read().decode()
    assert re.search(rf'^hakmem_free_bytes{{pid="{os.getpid()}",command=".*"}} 30$', text, re.M)
    assert text.endswith("# EOF\n")
    host, port = served.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"HEAD /metrics HTTP/1.0\r\n\r\n")
        assert connection.makefile("rb").read().endswith(b"\r\n\r\n")
    for path in ("/", "/metrics/x", "/../etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(served + path, timeout=PATIENCE_S)


def test_who_hangs_up_is_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with export.server("127.0.0.1", 0) as server:
        for error in (BrokenPipeError(), ValueError("planted")):
            try:
                raise error
            except Exception:
                server.handle_error(None, ("127.0.0.1", 1))
    said = capfd.readouterr().err
    assert "BrokenPipe" not in said
    assert "planted" in said


@pytest.mark.parametrize("text", ["", "9712", ":9712", "host", "host:", "h:x", "h:99999", "::1:5"])
def test_an_address_that_is_none_is_one_line(stand: Stand, text: str) -> None:
    done = stand.call("export", "--listen", text)
    refused(done, "--listen takes HOST:PORT, such as 127.0.0.1:9712")


def test_addresses() -> None:
    assert export.parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert export.parse_address("[::1]:80") == ("::1", 80)
    loopback = {host: export.is_loopback(host) for host in ("127.0.0.1", "::1", "localhost")}
    assert all(loopback.values())
    assert not any(export.is_loopback(host) for host in ("0.0.0.0", "::", "example.org"))


def test_a_port_that_is_taken_is_one_line(stand: Stand, served: str) -> None:
    address = served.removeprefix("http://")
    done = stand.call("export", "--listen", address)
    refused(done, f"--listen {address}: Address already in use")


def test_once_prints_the_page(stand: Stand) -> None:
    with answering(write):
        done = stand.run("export", "--once")
    assert f'hakmem_info{{pid="{os.getpid()}",' in done.stdout, done.stderr
    assert "# TYPE hakmem_info gauge\n# HELP hakmem_info the allocator" in done.stdout


def test_who_gave_no_answer_is_told_with_the_page(stand: Stand) -> None:
    with answering(lambda word: b""):
        done = stand.run("export", "--once")
    found = re.search(rf"^{export.SILENT} ([1-9]\d*)$", done.stdout, re.M)
    assert found, done.stdout
    assert f"hakmem: {found[1]} processes gave no answer" in done.stderr
    page = export.document(processes.Found([Answer(5, "a", PAGE)], 3))
    assert page.endswith(f"\n{export.SILENT} 3\n# EOF\n")
    assert page.count("# EOF") == 1


def test_where_nobody_answers_once_says_so(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "listening", list)
    done = stand.call("export", "--once")
    assert done.stderr == f"hakmem: {view.NOBODY}\n"
    assert f"{export.SILENT} 0\n" in done.stdout


def test_the_older_format_calls_each_family_as_its_samples() -> None:
    page = (
        "# TYPE hakmem info\n# HELP hakmem who wrote this\nhakmem_info 1\n"
        "# TYPE hakmem_purge_bytes counter\n# UNIT hakmem_purge_bytes bytes\n"
        "# HELP hakmem_purge_bytes given back\nhakmem_purge_bytes_total 3\n# EOF\n"
    )
    assert export.as_text_format(page).splitlines() == [
        "# TYPE hakmem_info gauge",
        "# HELP hakmem_info who wrote this",
        "hakmem_info 1",
        "# TYPE hakmem_purge_bytes_total counter",
        "# HELP hakmem_purge_bytes_total given back",
        "hakmem_purge_bytes_total 3",
    ]


# ---- the dashboard ----


def names_of_the_tables() -> set[str]:
    """The emitter's names for all figures of src/stats/fields.def and base/counters.def."""
    rows = "HK_(BAND|GAUGE|TOTAL|COUNTER|HEAP_COUNTER)"
    text = "".join(
        (ROOT / "src" / path).read_text() for path in ("stats/fields.def", "base/counters.def")
    ).replace("\n    ", "")
    found = re.findall(rf'^{rows}\((\w+),\s*"(\w+)"', text, re.M)
    for name in re.findall(r'^HK_BAND_BYTES\((\w+), "', text, re.M):
        found += [("BAND", name, "bytes"), ("GAUGE", name, "bytes")]
    found += [
        ("COUNTER", *row) for row in re.findall(r'^HK_CALL_KIND\(\w+, (\w+), ("")?', text, re.M)
    ]
    names = {"hakmem_info"}
    for kind, name, unit in found:
        if unit == "nanoseconds":
            name = name.removesuffix("_ns") + "_seconds"
        elif unit == "bytes" and not name.endswith("bytes"):
            name += "_bytes"
        names.add(
            f"hakmem_{'band_' * (kind == 'BAND')}{name}{'_total' * (kind not in ('BAND', 'GAUGE'))}"
        )
    return names


def test_the_dashboard_asks_for_nothing_that_is_not_in_the_tables(stand: Stand) -> None:
    board = json.loads(stand.call("export", "--dashboard").stdout)
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    assert len(asked) > 20
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    known = names_of_the_tables()
    calls = (ROOT / "src/base/counters.def").read_text()
    for kind in re.findall(r"^HK_CALL_KIND\(\w+, (\w+)", calls, re.M):
        assert any(f"hakmem_{kind}_total" in expression for expression in asked), kind
    for expression in asked:
        names = re.findall(r"hakmem_\w+", expression)
        assert names, expression
        assert not set(names) - known, expression
        counts = {name for name in names if name.endswith("_total")}
        assert not counts or "rate(" in expression or "faults" in expression, expression


@pytest.mark.built
def test_a_real_process_is_asked_and_writes_what_the_tables_say(stand: Stand) -> None:
    library = project.default_library()
    need_built(library)
    code = "import sys; b = bytearray(50 << 20); print(flush=True)"
    with waiting(code, LD_PRELOAD=str(library), HAKMEM_LIVE="1") as running:
        shown = json.loads(stand.run("top", running.pid, "--json").stdout)
        page = stand.run("export", "--once").stdout
    assert [one["pid"] for one in shown] == [running.pid]
    assert shown[0]["heap"]["allocated"] >= 50 << 20
    own = re.findall(rf'^(hakmem_\w+){{pid="{running.pid}",command="python', page, re.M)
    assert set(own) == names_of_the_tables()
    gone = stand.run("top", running.pid)
    assert "gives no statistics" in gone.stderr
