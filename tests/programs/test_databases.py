"""sqlite3 on a real file, and a redis server under load, give back the data that went in."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from finding import need_program
from preloading import HANG_SECONDS, ending, read_proof, require_served, run_under, started_under

ROWS = 150_000
SQL = f"""
PRAGMA page_size = 4096;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, amount REAL, body BLOB);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
INSERT INTO item SELECT i, 'name' || (i * 7919 % {ROWS}), i / 8.0, zeroblob(i % 64) FROM n;
COMMIT;
CREATE INDEX by_name ON item (name, amount);
DELETE FROM item WHERE id % 3 = 0;
UPDATE item SET name = upper(name) || hex(id) WHERE id % 5 = 0;
PRAGMA integrity_check;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(amount), sum(length(body)) FROM item;
SELECT group_concat(name, ' ') FROM (SELECT name FROM item ORDER BY name LIMIT 9);
SELECT count(DISTINCT substr(a.name, 1, 6)) FROM item a JOIN item b ON b.name = a.name;
.sha3sum
"""


def test_sqlite_bulk_insert_index_and_vacuum(preload: Path, tmp_path: Path) -> None:
    sqlite = need_program("sqlite3")
    result = run_under(preload, [sqlite, "-bail", tmp_path / "hakmem.db"], stdin=SQL)
    result.require_served("sqlite3")
    kept = [i for i in range(1, ROWS + 1) if i % 3]
    lines = result.stdout.splitlines()
    sums = f"{len(kept)}|{sum(kept) / 8}|{sum(i % 64 for i in kept)}"
    assert lines[:3] == ["ok", "ok", sums]
    assert len(lines) == 6
    system = run_under(None, [sqlite, "-bail", tmp_path / "system.db"], stdin=SQL)
    assert result.stdout == system.stdout


REQUESTS = 30_000  # of each kind of request
SUM_OF_COUNTERS = """
local sum = 0
for _, key in ipairs(redis.call('keys', 'counter:*')) do sum = sum + redis.call('get', key) end
return sum
"""


class Redis:
    """A running server and its command line, both on one allocator."""

    def __init__(self, lib: Path | None, folder: Path, program: subprocess.Popen[str]) -> None:
        self.lib, self.folder, self.program = lib, folder, program
        self.cli = [need_program("redis-cli"), "-s", folder / "socket"]

    def ask(self, *command: str, stdin: str = "", check: bool = True) -> str:
        return run_under(self.lib, [*self.cli, *command], stdin=stdin, check=check).stdout.strip()

    def wait(self, answer: str, *command: str) -> None:
        """Ask until the answer contains `answer`."""
        end = time.monotonic() + HANG_SECONDS
        while answer not in (last := self.ask(*command, check=False)):
            assert self.program.poll() is None, self.last_words()
            assert time.monotonic() < end, f"{command}: waited for {answer!r}, last got {last!r}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Shut down, and insist on a clean end."""
        self.ask("shutdown", "nosave")
        assert self.program.wait(HANG_SECONDS) == 0, self.last_words()

    def last_words(self) -> str:
        """How the server ended, and its log."""
        log = self.folder / "log"
        said = log.read_text()[-3000:] if log.exists() else "it logged nothing"
        return f"redis-server: {ending(self.program.wait())}\n{said}"


@contextmanager
def redis_server(lib: Path | None, folder: Path) -> Iterator[Redis]:
    """A server on a socket in `folder`, with the data stored there; shut down at the end."""
    folder.mkdir(exist_ok=True)
    # The server and this tool are one executable, which acts by its name. Installing the tool's
    # package instead of redis-server keeps Debian from starting a server of the machine's own.
    executable = need_program("redis-check-rdb").resolve()
    server = folder / "redis-server"
    if not server.exists():
        server.symlink_to(executable)
    options = "--port 0 --unixsocket socket --logfile log --io-threads 2 --enable-debug-command yes"
    argv = [server, *options.split(), "--save", ""]
    with started_under(lib, argv, cwd=folder) as (program, proof):
        redis = Redis(lib, folder, program)
        redis.wait("PONG", "ping")
        yield redis
        redis.stop()
        if lib:
            require_served(read_proof(proof), executable.name)


def fill(redis: Redis) -> None:
    """Every type of value, small and large, some of them overwritten and removed again."""
    commands = []
    for n in range(12_000):
        commands += [
            f"SET string:{n % 9000} {'v' * (n % 700)}{n}",
            f"HSET hash:{n % 300} field{n} {n * n}",
            f"RPUSH list:{n % 100} {'e' * (n % 90 + 1)}",
            f"SADD set:{n % 50} member{n}",
            f"ZADD rank:{n % 20} {n * 37 % 1000} member{n}",
            f"APPEND log:{n % 10} {n},",
        ]
        if n % 10 == 9:
            commands += [f"UNLINK hash:{(n - 150) % 300}", f"LTRIM list:{n % 100} 10 -1"]
    told = redis.ask("--pipe", stdin="\r\n".join(commands) + "\r\n")
    assert told.endswith(f"errors: 0, replies: {len(commands)}"), told


def test_redis_keeps_its_data(preload: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hakmem"
    with redis_server(preload, folder) as redis:
        fill(redis)
        digest = redis.ask("debug", "digest")
        redis.ask("flushall", "async")  # Another thread frees the main thread's blocks.
        fill(redis)
        assert redis.ask("debug", "digest") == digest
        redis.ask("bgsave")
        redis.wait("rdb_bgsave_in_progress:0", "info", "persistence")
        assert "rdb_last_bgsave_status:ok" in redis.ask("info", "persistence")
        used = next(x for x in redis.ask("info", "memory").split() if x.startswith("used_memory:"))
        assert int(used.partition(":")[2]) > 6_000_000, "redis counts less than the values' bytes"
    with redis_server(preload, folder) as redis:  # It loads the dump that the forked child wrote.
        assert redis.ask("debug", "digest") == digest
    with redis_server(None, tmp_path / "system") as redis:
        fill(redis)
        assert redis.ask("debug", "digest") == digest


def test_redis_under_load(preload: Path, tmp_path: Path) -> None:
    with redis_server(preload, tmp_path) as redis:
        load = f"-q --csv -n {REQUESTS} -c 20 -P 16 -r 5000 -d 300 --threads 2"
        kinds = "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,lrange_100,mset"
        argv = [need_program("redis-benchmark"), "-s", tmp_path / "socket", *load.split()]
        result = run_under(preload, [*argv, "-t", kinds])
        result.require_served("redis-benchmark")
        assert "rror" not in result.stdout + result.stderr
        # redis-benchmark sends whole pipelines, so it may send a few requests more.
        incremented = int(redis.ask("eval", SUM_OF_COUNTERS, "0"))
        assert REQUESTS <= incremented < REQUESTS + 1000
        assert redis.ask("strlen", "key:000000000001") == "300"
        digest = redis.ask("debug", "digest")
        assert redis.ask("debug", "reload") == "OK"
        assert redis.ask("debug", "digest") == digest
