"""Inputs of the programs, made from a seed: the same bytes each time, on any machine.

A maker fills a folder that is empty but for the scripts that the program's row names.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from hakmem.errors import LabError

SEED = 1
SCRIPTS = Path(__file__).parent / "scripts"

_LETTERS = "etaoinshrdlucmfwypvbgk"


def source() -> str:
    """A digest of all that inputs are made from: this file, the scripts and the seed."""
    digest = hashlib.sha256(str(SEED).encode())
    for file in (Path(__file__), *sorted(SCRIPTS.iterdir())):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def words(rng: random.Random, count: int) -> list[str]:
    """Different words of two to twelve letters."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices(_LETTERS, k=rng.randint(2, 12)))] = None
    return list(found)


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    """A size between the two; each doubling as likely as any other."""
    return min(high, int(low * (high / low) ** rng.random()))


def text(folder: Path, rng: random.Random) -> None:
    """Prose of common and rare words, a line each ten of them."""
    known = words(rng, 60_000)
    with (folder / "text").open("w", encoding="ascii") as out:
        for _ in range(60_000):
            line = [known[int(len(known) * rng.random() ** 3)] for _ in range(10)]
            out.write(" ".join(line) + "\n")


def lines(folder: Path, rng: random.Random) -> None:
    """Short lines in no order."""
    with (folder / "lines").open("w", encoding="ascii") as out:
        for _ in range(1_800_000):
            out.write(f"{rng.getrandbits(64):016x} {rng.getrandbits(20):x}\n")


def _records(rng: random.Random, count: int) -> Iterator[dict[str, object]]:
    known = words(rng, 3000)
    for number in range(count):
        yield {
            "id": number,
            "name": " ".join(rng.choices(known, k=2)),
            "group": known[rng.randrange(200)],
            "score": rng.randrange(10_000) / 8,
            "tags": rng.sample(known, rng.randint(0, 6)),
            "at": {"x": rng.randrange(1000), "y": rng.randrange(1000)},
            "note": " ".join(rng.choices(known, k=rng.randint(0, 12))) or None,
        }


def records(folder: Path, rng: random.Random) -> None:
    """A JSON array of small objects."""
    made = list(_records(rng, 24_000))
    (folder / "records.json").write_text(json.dumps(made), encoding="ascii")


def document(folder: Path, rng: random.Random) -> None:
    """An XML document of many small elements."""
    with (folder / "document.xml").open("w", encoding="ascii") as out:
        out.write('<?xml version="1.0"?>\n<records>')
        for row in _records(rng, 100_000):
            out.write(f'<record id="{row["id"]}" group="{row["group"]}"><name>{row["name"]}</name>')
            tags = row["tags"]
            assert isinstance(tags, list)
            out.write("".join(f'<tag kind="t">{tag}</tag>' for tag in tags))
            out.write(f"<score>{row['score']}</score><note>{row['note']}</note></record>")
        out.write("</records>\n")


def c_file(folder: Path, rng: random.Random) -> None:
    """C functions over structs, loops and switches."""
    with (folder / "many.c").open("w", encoding="ascii") as out:
        out.write("typedef struct { int a; long b; double c; char d[16]; } item;\n")
        for n in range(110):
            out.write(f"static int f{n}(item *p, int n) {{\n  int s = {rng.randrange(99)};\n")
            out.write("  for (int i = 0; i < n; i++) {\n    switch ((p[i].a + s) % 9) {\n")
            for case in range(rng.randint(3, 8)):
                kind = rng.randrange(4)
                what = (
                    f"s += p[i].a * {rng.randrange(1, 99)}",
                    f"p[i].b ^= s + {rng.randrange(999)}",
                    f"p[i].c = p[i].c * {rng.randrange(1, 9)}.5 + s",
                    f"p[i].d[s & 15] += (char)(i * {rng.randrange(1, 9)})",
                )[kind]
                out.write(f"    case {case}: {what}; break;\n")
            out.write(f"    default: s -= i{f' + f{rng.randrange(n)}(p, n - 1)' if n else ''};\n")
            out.write("    }\n  }\n  return s;\n}\n")
        calls = " + ".join(f"f{n}(p, n)" for n in range(110))
        out.write(f"int all(item *p, int n) {{ return {calls}; }}\n")


def cxx_file(folder: Path, rng: random.Random) -> None:
    """C++ that instantiates containers and algorithms over types of its own, and recursion."""
    headers = ("algorithm", "functional", "map", "memory", "string", "tuple", "unordered_map")
    with (folder / "templates.cpp").open("w", encoding="ascii") as out:
        out.write("".join(f"#include <{name}>\n" for name in (*headers, "variant", "vector")))
        out.write(
            "template <int N> struct fold {\n"
            "  static constexpr long value = fold<N - 1>::value * 31 % 65521 + N;\n};\n"
            "template <> struct fold<0> { static constexpr long value = 1; };\n"
        )
        count = 2
        for n in range(count):
            member = rng.choice(("int", "long", "double", "std::string", "short"))
            out.write(
                f"struct k{n} {{ {member} v; int n; bool operator<(const k{n} &o) const "
                f"{{ return n < o.n; }} }};\n"
                f"long use{n}(int i) {{\n  std::map<k{n}, std::vector<k{n}>> m;\n"
                f"  std::unordered_map<int, std::shared_ptr<k{n}>> u;\n"
                f"  std::vector<std::tuple<k{n}, int, std::string>> t;\n"
                f"  std::variant<k{n}, std::vector<k{n}>, std::string> x;\n"
                f"  k{n} k{{}}; k.n = i; m[k].push_back(k); u[i] = std::make_shared<k{n}>(k);\n"
                f"  x = m[k]; t.emplace_back(k, i, std::to_string(i));\n"
                "  std::sort(t.begin(), t.end(), [](const auto &a, const auto &b) "
                "{ return std::get<1>(a) < std::get<1>(b); });\n"
                "  std::function<int(int)> f = [&m](int n) { return n + (int)m.size(); };\n"
                f"  return f(i) + (long)(t.size() + u.size() + x.index()) + "
                f"fold<{rng.randrange(300, 800)}>::value;\n}}\n"
            )
        calls = " + ".join(f"use{n}(i)" for n in range(count))
        out.write(f"long all(int i) {{ return {calls}; }}\n")


def formula(folder: Path, rng: random.Random) -> None:
    """Equalities between terms over functions that nothing is known of: satisfiable."""
    constants = 200

    def term(depth: int) -> str:
        if depth == 0:
            return f"c{rng.randrange(constants)}"
        inner = term(depth - 1)
        return f"(f {inner} {term(depth - 1)})" if rng.random() < 0.6 else f"(g {inner})"

    with (folder / "formula.smt2").open("w", encoding="ascii") as out:
        out.write("(declare-sort U)\n(declare-fun f (U U) U)\n(declare-fun g (U) U)\n")
        out.writelines(f"(declare-const c{n} U)\n" for n in range(constants))
        for _ in range(800):
            one, two = (f"(= {term(depth)} {term(depth)})" for depth in (4, 3))
            out.write(f"(assert (or {one} {two} (not (= {term(2)} {term(2)}))))\n")
        out.write("(check-sat)\n")


def drawing(folder: Path, rng: random.Random) -> None:
    """PostScript pages of text in several fonts, curves and shaded shapes."""
    known = words(rng, 2000)
    fonts = ("Times-Roman", "Helvetica", "Courier-Bold", "Palatino-Italic")
    with (folder / "pages.ps").open("w", encoding="ascii") as out:
        out.write("%!PS-Adobe-3.0\n")
        for page in range(24):
            for line in range(55):
                size = rng.choice((8, 9, 10, 12))
                out.write(f"/{fonts[(page + line) % 4]} findfont {size} scalefont setfont\n")
                out.write(
                    f"40 {770 - 13 * line} moveto ({' '.join(rng.choices(known, k=9))}) show\n"
                )
            for _ in range(300):
                points = " ".join(str(rng.randrange(20, 580)) for _ in range(6))
                at = f"{rng.randrange(600)} {rng.randrange(800)}"
                out.write(f"{rng.random():.2f} {rng.random():.2f} 0.7 setrgbcolor newpath ")
                out.write(f"{at} moveto {points} curveto {rng.choice(('fill', 'stroke'))}\n")
            out.write("0 setgray showpage\n")


def graph(folder: Path, rng: random.Random) -> None:
    """A graph of layers, to be drawn."""
    with (folder / "graph.dot").open("w", encoding="ascii") as out:
        out.write("digraph g {\n")
        for node in range(1, 500):
            for _ in range(rng.choice((1, 1, 2))):
                out.write(
                    f'  n{rng.randrange(max(0, node - 40), node)} -> n{node} [label="{node}"];\n'
                )
        out.write("}\n")


def repository(folder: Path, rng: random.Random) -> None:
    """A git repository of a few hundred commits on text files that grow and change."""
    known = words(rng, 5000)
    files: dict[str, list[str]] = {}
    stream = []
    for commit in range(700):
        stream.append(f"commit refs/heads/main\nmark :{commit + 1}\n")
        stream.append(f"committer A <a@b> {10**9 + commit} +0000\n")
        stream.append(f"data 7\nc{commit:06}" + (f"\nfrom :{commit}\n" if commit else "\n"))
        for _ in range(5):
            name = f"d{rng.randrange(12)}/f{rng.randrange(25)}"
            content = files.setdefault(name, [])
            for _ in range(rng.randint(5, 60)):
                line = " ".join(rng.choices(known, k=8))
                content.insert(rng.randint(0, len(content)), line)
            body = "\n".join(content)
            stream.append(f"M 100644 inline {name}\ndata {len(body)}\n{body}\n")
    where = folder / "repository"
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    environment = {**plain, "PATH": os.environ.get("PATH", os.defpath)}
    command = ("git", "-c", "init.defaultBranch=main", "init", "-q", "--bare", str(where))
    _run(command, environment)
    git = ("git", "--git-dir", str(where), "-c", "fastimport.unpackLimit=0")
    _run((*git, "fast-import", "--quiet"), environment, "".join(stream))


def _run(command: Sequence[str], environment: dict[str, str], stdin: str = "") -> None:
    done = subprocess.run(
        command, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LabError(f"{command[0]} could not make inputs: {done.stderr.strip()[-200:]}")


def _request(*parts: object) -> bytes:
    """One command as redis reads it."""
    made = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        made.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(made)


def redis_server(folder: Path) -> None:
    """The server by its own name: the one executable of redis-tools is what it is called."""
    found = shutil.which("redis-check-rdb")
    if found is None:
        raise LabError("redis-check-rdb is not installed")
    (folder / "redis-server").symlink_to(Path(found).resolve())


def mixed_requests(folder: Path, rng: random.Random) -> None:
    """Requests of all the common types, small and large, each with one possible answer."""
    redis_server(folder)
    value = rng.randbytes(4096)
    with (folder / "requests").open("wb") as out:
        for n in range(500_000):
            size = log_uniform(rng, 8, 2048)
            key = rng.randrange(20_000)
            out.write(
                (
                    lambda k=key, s=size: _request("SET", f"s:{k}", value[:s]),
                    lambda k=key: _request("GET", f"s:{k}"),
                    lambda k=key, n=n: _request("HSET", f"h:{k % 900}", f"f{n % 400}", n),
                    lambda k=key, n=n: _request("HGET", f"h:{k % 900}", f"f{n % 400}"),
                    lambda k=key, s=size: _request("LPUSH", f"l:{k % 500}", value[: s // 8]),
                    lambda k=key: _request("LTRIM", f"l:{k % 500}", 0, 60),
                    lambda k=key, n=n: _request("ZADD", f"z:{k % 300}", n % 1000, f"m{n % 700}"),
                    lambda k=key: _request("ZRANGE", f"z:{k % 300}", 0, 9),
                    lambda k=key: _request("APPEND", f"s:{k}", value[:20]),
                    lambda k=key: _request("DEL", f"s:{k}"),
                )[rng.choices(range(10), (25, 15, 12, 6, 12, 4, 12, 3, 5, 6))[0]]()
            )
        out.write(_request("DBSIZE"))


KEYS = 300_000


def fill_and_delete(folder: Path, rng: random.Random) -> None:
    """300 000 keys of mixed sizes; then nine in ten of them go, in no order."""
    redis_server(folder)
    value = rng.randbytes(4096)
    keys = list(range(KEYS))
    rng.shuffle(keys)
    with (folder / "requests").open("wb") as out:
        out.writelines(
            _request("SET", f"key:{n}", value[: log_uniform(rng, 16, 1024)]) for n in keys
        )
        rng.shuffle(keys)
        gone = keys[: KEYS * 9 // 10]
        out.writelines(
            _request("DEL", *(f"key:{n}" for n in gone[i : i + 10]))
            for i in range(0, len(gone), 10)
        )
        out.write(_request("DBSIZE"))
