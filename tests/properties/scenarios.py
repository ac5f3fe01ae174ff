"""Random scenarios over one stream and two tables: queries, views over views, changes, and when they are refreshed."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

#: `{S}` is a stream (k, g, v, at), `{T}` a table with primary key k (k, g, w), `{U}` a table without a key (k, x).
#: `{V}` is the view before this one, of which the first column is called `a`.
BASE_QUERIES: dict[str, str] = {
    "filter": "SELECT k AS a, v + 1 AS b FROM {S} WHERE v > 0 OR g IS NULL",
    "project": "SELECT g AS a, CASE WHEN v > 1 THEN 'big' ELSE g END AS b FROM {S}",
    "table": "SELECT k AS a, w, g FROM {T}",
    "group": "SELECT g AS a, count(*) AS n, sum(v) AS s, min(v) AS lo, max(v) AS hi FROM {S} GROUP BY g",
    "count_distinct": "SELECT g AS a, count(DISTINCT k) AS d FROM {S} GROUP BY g",
    "having": "SELECT g AS a, k, count(v) AS n FROM {S} GROUP BY g, k HAVING count(*) > 1",
    "average": "SELECT w AS a, avg(k) AS m FROM {T} GROUP BY w",
    "global": "SELECT count(*) AS a, sum(v) AS s, max(g) AS m FROM {S}",
    "global_having": "SELECT count(*) AS a FROM {U} HAVING count(*) > 2",
    "inner": "SELECT s.k AS a, s.v, t.w FROM {S} s JOIN {T} t ON s.k = t.k",
    "inner_three": "SELECT s.k AS a, t.k AS tk, u.x FROM {S} s JOIN {T} t ON s.g = t.g JOIN {U} u ON u.k = t.k",
    "left": "SELECT t.k AS a, u.x, u.k AS uk FROM {T} t LEFT JOIN {U} u ON t.k = u.k",
    "left_keys": "SELECT s.k AS a, t.k AS tk, s.v, t.w FROM {S} s LEFT JOIN {T} t ON s.g = t.g",
    "right": "SELECT t.k AS a, u.x FROM {U} u RIGHT JOIN {T} t ON t.k = u.k AND u.x <> 'b'",
    "full": "SELECT s.k AS a, s.v, t.w FROM {S} s FULL OUTER JOIN {T} t ON s.k = t.k",
    "semi": "SELECT s.k AS a, s.v FROM {S} s LEFT SEMI JOIN {T} t ON s.k = t.k",
    "anti": "SELECT t.k AS a, t.g FROM {T} t LEFT ANTI JOIN {U} u ON t.k = u.k",
    "theta": "SELECT s.k AS a, t.w FROM {S} s JOIN {T} t ON s.v < t.w",
    "self": "SELECT x.k AS a, y.k AS b FROM {T} x JOIN {T} y ON x.w = y.w AND x.k < y.k",
    "distinct": "SELECT DISTINCT g AS a, v FROM {S}",
    "union_all": "SELECT k AS a, g FROM {S} UNION ALL SELECT k, x FROM {U}",
    "union": "SELECT k AS a, g FROM {T} UNION SELECT k, x FROM {U}",
    "except": "SELECT k AS a FROM {U} EXCEPT SELECT k FROM {S}",
    "except_all": "SELECT k AS a FROM {U} EXCEPT ALL SELECT k FROM {T}",
    "intersect": "SELECT k AS a FROM {U} INTERSECT SELECT k FROM {S}",
    "intersect_all": "SELECT k AS a FROM {U} INTERSECT ALL SELECT k FROM {S}",
    "exists": "SELECT k AS a, w FROM {T} t WHERE EXISTS (SELECT 1 FROM {U} u WHERE u.k = t.k AND u.x IS NOT NULL)",
    "in": "SELECT k AS a, v FROM {S} WHERE k IN (SELECT k FROM {T} WHERE w > 0)",
    "not_in": "SELECT k AS a, v FROM {S} WHERE k NOT IN (SELECT k FROM {U})",
    "scalar": "SELECT k AS a, v, (SELECT max(w) FROM {T}) AS m FROM {S}",
    "scalar_correlated": "SELECT k AS a, (SELECT count(*) FROM {U} u WHERE u.k = t.k) AS n FROM {T} t",
    "window": "SELECT k AS a, v, row_number() OVER (PARTITION BY g ORDER BY v, k, at) AS n FROM {S}",
    "window_sum": "SELECT k AS a, sum(v) OVER (PARTITION BY g) AS s, count(*) OVER () AS n FROM {S}",
    "rank": "SELECT k AS a, w, rank() OVER (ORDER BY w) AS r, lag(w) OVER (ORDER BY w, k) AS before FROM {T}",
    "top": "SELECT k AS a, w FROM {T} ORDER BY w DESC NULLS LAST, k LIMIT 2",
    "cte": "WITH c AS (SELECT g, count(*) AS n FROM {S} GROUP BY g) SELECT k AS a, c.n FROM {T} t JOIN c ON t.g = c.g",
    "derived": "SELECT d.a, d.n FROM (SELECT k AS a, count(*) AS n FROM {U} GROUP BY k) d WHERE d.n > 1",
    "explode": "SELECT k AS a, explode(array(x, 'z', NULL)) AS item FROM {U}",
    "split": "SELECT k AS a, explode(split(concat_ws('', x, 'z'), '')) AS letter FROM {U}",
    "lateral": "SELECT k AS a, n FROM {T} LATERAL VIEW explode(sequence(1, abs(w))) l AS n WHERE w <> 0",
    "grouping_sets": "SELECT g AS a, k, count(*) AS n FROM {S} GROUP BY GROUPING SETS ((g), (k), ())",
    "rollup": "SELECT g AS a, w, count(*) AS n FROM {T} GROUP BY ROLLUP (g, w)",
    "constant": "SELECT 1 AS a, 'x' AS b",
}

#: What Sail 0.7 answers otherwise than Apache Spark. The views still equal their queries, as Sail runs them.
SAIL_GAPS = frozenset(
    {
        "intersect_all",  # keeps every row on the left that has a match, not as many as there are matches
        "grouping_sets",  # over no rows it has the grand total () with a count of 0; Spark has no row
        "rollup",  # the same
        "split",  # split('ab', '') begins and ends with an empty text
    }
)

#: Over the view before.
UPPER_QUERIES: dict[str, str] = {
    "filter": "SELECT * FROM {V} WHERE a IS NOT NULL",
    "count": "SELECT a, count(*) AS n FROM {V} GROUP BY a",
    "total": "SELECT count(*) AS a, count(a) AS n FROM {V}",
    "distinct": "SELECT DISTINCT a FROM {V}",
    "join": "SELECT p.a, u.x FROM {V} p LEFT JOIN {U} u ON string(p.a) = string(u.k)",
    "self": "SELECT p.a, q.a AS b FROM {V} p JOIN {V} q ON p.a <=> q.a",
    "anti": "SELECT k AS a FROM {T} t WHERE NOT EXISTS (SELECT 1 FROM {V} p WHERE string(p.a) = string(t.k))",
    "union": "SELECT CAST(a AS STRING) AS a FROM {V} UNION ALL SELECT x FROM {U}",
}

POLICIES = (
    "",
    " REFRESH EVERY 3 SECONDS",
    " REFRESH AFTER 2 ROWS",
    " REFRESH ON DEMAND",
    " REFRESH EVERY 4 OR AFTER 3 ROWS",
)


@dataclass(frozen=True)
class View:
    """A view to be made; `query` has the relations in braces."""

    name: str
    query: str
    output: str  # STREAMED, COMPLETE or nothing
    policy: str = ""
    over: str = ""

    def text(self, at: float | None = None) -> str:
        """The query, over its relations now or AS OF a time."""
        as_of = "" if at is None else f" AS OF {at:g}"
        names = {"S": "s", "T": "t", "U": "u", "V": self.over}
        return self.query.format(**{brace: name + as_of for brace, name in names.items()})

    def create(self) -> str:
        return f"CREATE {self.output} VIEW {self.name} AS {self.text()}{self.policy}"

    @property
    def every(self) -> int | None:
        words = self.policy.split()
        return int(words[2]) if "EVERY" in words else None

    @property
    def eager(self) -> bool:
        """Whether every refresh of the home brings it up to date."""
        return not self.policy


@dataclass(frozen=True)
class Step:
    """Something that happens: rows for the stream, or a statement."""

    rows: tuple[tuple[int | None, str | None, int | None, int], ...] = ()
    sql: str = ""


@dataclass(frozen=True)
class Scenario:
    """Declarations, what happens, and after which steps the home is refreshed or opened anew."""

    stream: str
    views: tuple[View, ...]
    created_after: int
    steps: tuple[Step, ...]
    refreshed: frozenset[int] = frozenset()
    reopened: frozenset[int] = frozenset()
    home: str = ""
    tables: str = ""  # how both tables are stored


INTS = st.sampled_from([None, 0, 1, 1, 2, 2, 3])
TEXTS = st.sampled_from([None, "a", "b", "b"])
NUMBERS = st.sampled_from([None, -1, 0, 1, 2, 5])


def literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@st.composite
def steps(draw: st.DrawFn, most: int = 8) -> tuple[Step, ...]:
    """Changes of the stream and the tables. Rows of a table change at growing times; inserts may come late."""
    found: list[Step] = []
    newest = {"t": 0, "u": 0}
    for _ in range(draw(st.integers(0, most))):
        kind = draw(st.sampled_from(["rows", "rows", "insert t", "insert u", "update", "delete", "merge", "empty"]))
        if kind == "rows":
            row = st.tuples(INTS, TEXTS, NUMBERS, st.integers(0, 12))
            found.append(Step(rows=tuple(draw(st.lists(row, min_size=1, max_size=4)))))
        elif kind == "empty":
            found.append(Step())
        elif kind == "insert u":
            rows = draw(st.lists(st.tuples(INTS, TEXTS, st.integers(0, 12)), min_size=1, max_size=3))
            values = ", ".join(f"({literal(k)}, {literal(x)}) AT {at}" for k, x, at in rows)
            newest["u"] = max(newest["u"], *(at for _k, _x, at in rows))
            found.append(Step(sql=f"INSERT INTO u VALUES {values}"))
        else:
            table = "t" if kind in ("insert t", "merge") else draw(st.sampled_from("tu"))
            newest[table] += draw(st.integers(0, 3))
            found.append(Step(sql=f"{_change(draw, kind, table)} AT {newest[table]}"))
    return tuple(found)


def _change(draw: st.DrawFn, kind: str, table: str) -> str:
    condition = draw(st.sampled_from(["k = 1", "k > 1", "k IS NULL", "true", "k IN (0, 3)"]))
    if kind == "delete":
        return f"DELETE FROM {table} WHERE {condition}"
    if kind == "update":
        values = {"t": ["w = coalesce(w, 0) + 1", "g = 'a'", "w = NULL, g = NULL"], "u": ["x = 'a'", "x = NULL"]}
        return f"UPDATE {table} SET {draw(st.sampled_from(values[table]))} WHERE {condition}"
    keys = draw(st.lists(INTS, min_size=1, max_size=2, unique=True))
    rows = ", ".join(f"({literal(k)}, {literal(draw(TEXTS))}, {literal(draw(NUMBERS))})" for k in keys)
    matched = draw(st.sampled_from(["UPDATE SET *", "DELETE", "UPDATE SET w = n.w"]))
    return (
        f"MERGE INTO t USING (SELECT CAST(c1 AS INT) AS k, CAST(c2 AS STRING) AS g, CAST(c3 AS INT) AS w FROM"
        f" VALUES {rows} AS n(c1, c2, c3)) n ON t.k <=> n.k WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
    )


@st.composite
def views(
    draw: st.DrawFn, left_out: frozenset[str], policies: tuple[str, ...], depths: tuple[int, ...]
) -> tuple[View, ...]:
    """Views, each over the one before it."""
    name = draw(st.sampled_from(sorted(set(BASE_QUERIES) - left_out)))
    found = [View("v1", BASE_QUERIES[name], draw(OUTPUTS), draw(st.sampled_from(policies)))]
    for depth in range(2, 1 + draw(st.sampled_from(depths))):
        upper = UPPER_QUERIES[draw(st.sampled_from(sorted(UPPER_QUERIES)))]
        found.append(View(f"v{depth}", upper, draw(OUTPUTS), draw(st.sampled_from(policies)), over=f"v{depth - 1}"))
    return tuple(found)


OUTPUTS = st.sampled_from(["STREAMED", "COMPLETE", ""])


@st.composite
def scenarios(
    draw: st.DrawFn,
    left_out: frozenset[str] = frozenset(),
    policies: tuple[str, ...] = ("",),
    depths: tuple[int, ...] = (1, 1, 2, 3),
) -> Scenario:
    """A stream with random key, slack and policy for late rows, one to three views, changes, and their batching."""
    key = draw(st.sampled_from(["KEY NULL", "KEY (k)", "KEY (k, g)"]))
    slack = draw(st.sampled_from(["", "", " SLACK 3"]))
    late = draw(st.sampled_from([" LATE MERGE", " LATE MERGE", "", " LATE DROP"]))
    happens = draw(steps())
    numbers = st.frozensets(st.integers(0, len(happens)), max_size=len(happens) + 1)
    return Scenario(
        f"CREATE STREAM s (k INT, g STRING, v BIGINT, at BIGINT) {key} ORDER BY at{slack}{late}",
        draw(views(left_out, policies, depths)),
        draw(st.sampled_from([0, 0, len(happens) // 2])),
        happens,
        draw(numbers),
        draw(st.frozensets(st.integers(0, len(happens)), max_size=2)),
        draw(st.sampled_from(["", "", "ALTER HOME SET (rollup_parts = 2)"])),
    )
