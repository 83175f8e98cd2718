"""A database in memory: rows, indices, updates, joins; prints what it holds in the end."""

import random
import sqlite3
import sys

rng = random.Random(1)
base = sqlite3.connect(":memory:")
base.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, owner INTEGER, body BLOB)")
base.execute("CREATE TABLE owner (id INTEGER PRIMARY KEY, name TEXT)")
base.executemany("INSERT INTO owner VALUES (?, ?)", ((n, f"owner {n}") for n in range(2000)))
base.executemany(
    "INSERT INTO item VALUES (?, ?, ?, ?)",
    (
        (n, f"name {rng.getrandbits(30):x}", rng.randrange(2000), bytes(rng.randrange(200)))
        for n in range(int(sys.argv[1]))
    ),
)
base.execute("CREATE INDEX by_name ON item (name)")
base.execute("CREATE INDEX by_owner ON item (owner, name)")
base.execute("UPDATE item SET body = randomblob(length(body) + 20) WHERE id % 3 = 0")
base.execute("UPDATE item SET name = upper(name) WHERE id % 5 = 0")
base.execute("DELETE FROM item WHERE id % 7 = 0")
print(*base.execute("SELECT count(*), sum(length(body)), min(name), max(name) FROM item"))
joined = """SELECT owner.name, count(*), group_concat(substr(item.name, 6), ',')
            FROM item JOIN owner ON owner.id = item.owner GROUP BY owner.id ORDER BY 1"""
rows = base.execute(joined).fetchall()
print(len(rows), sum(len(row[2]) for row in rows), rows[7][:2])
for number in range(8000):
    base.execute("SELECT name, length(body) FROM item WHERE id = ?", (number,)).fetchall()
base.commit()
base.execute("VACUUM")
print(*base.execute("PRAGMA integrity_check"))
