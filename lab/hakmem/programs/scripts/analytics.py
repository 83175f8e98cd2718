"""Tables in memory, joined, grouped and sorted on two threads; prints the answers."""

import duckdb

base = duckdb.connect()
base.execute("SET threads = 2; SET memory_limit = '2GB'")
base.execute(
    """CREATE TABLE sale AS SELECT i AS id, (i * 7919) % 50021 AS client, (i * 31) % 977 AS article,
       (i % 1000) * 25 AS cents, 'note ' || ((i * 104729) % 200003) AS note
       FROM range(600000) t(i)"""
)
base.execute(
    "CREATE TABLE client AS SELECT i AS id, 'client ' || i AS name, i % 97 AS region "
    "FROM range(50021) t(i)"
)
for query in (
    "SELECT count(*), sum(cents), count(DISTINCT note) FROM sale",
    """SELECT region, count(*), sum(cents), max(note), count(DISTINCT article)
       FROM sale JOIN client ON sale.client = client.id GROUP BY region ORDER BY region LIMIT 20""",
    "SELECT note, count(*) FROM sale GROUP BY note ORDER BY 2 DESC, 1 LIMIT 5",
    """SELECT id, note FROM (SELECT *, row_number() OVER (PARTITION BY article ORDER BY note, id) n
       FROM sale) WHERE n = 1 ORDER BY id LIMIT 7""",
    "SELECT length(string_agg(name, ',' ORDER BY name)), min(name) FROM client",
):
    print(base.execute(query).fetchall())
