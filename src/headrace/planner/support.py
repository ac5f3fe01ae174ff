"""Which operators are maintained by their changes, how, what each keeps and what a change costs; and what is not.

EXPLAIN speaks in these words, `docs/support.md` is printed from them, and a test holds every example against the plan
that it gets. In the examples, `orders` (orderkey INT, custkey INT, price DECIMAL(12,2), weight DOUBLE) and `customer`
(custkey INT, name STRING) are tables with the key that stands first, `clicks` and
`visits` (url STRING, at TIMESTAMP) are
streams without a key, `rooms` (room STRING, at TIMESTAMP) is one with a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """One way to maintain an operator. `classes` are the operators of the delta program, empty where it needs none.

    `cost`: what a change of d rows takes. `step`: what happens in a task, in a sentence for EXPLAIN MAINTENANCE.
    """

    name: str
    serves: str
    classes: tuple[str, ...]
    how: str
    state: str
    cost: str
    step: str
    example: str
    kinds: tuple[str, ...] = ()


WAYS = (
    Way(
        "row by row",
        "WHERE, SELECT expressions, UNION ALL, generators over a stored relation",
        (),
        "the engine evaluates it over the changed rows alone",
        "none",
        "d",
        "",
        "SELECT orderkey, price * 2 AS twice FROM orders WHERE price > 10",
    ),
    Way(
        "window on time",
        "`[RANGE w SLIDE s]`, INTERNAL or not, comparisons with `Now`, RETAIN of a stream",
        (),
        "rows come in as they arrive, and go out as the clock passes their end; both are found in the log itself",
        "none",
        "d, and the rows that leave",
        "",
        "SELECT url FROM clicks [RANGE 1 MINUTE]",
    ),
    Way(
        "newest rows",
        "`[ROWS n SLIDE m]` and `[PARTITION BY k ROWS n]` over a stream without a key",
        ("NewestRows",),
        "the newest rows are kept with their numbers, and arrivals push the oldest of them out",
        "the newest rows, of each partition",
        "d and the newest rows of the partitions it touches",
        "new rows are put in their place among the newest, and those that are pushed out are given out",
        "SELECT url FROM clicks [ROWS 10]",
    ),
    Way(
        "direct join",
        "JOIN on equal columns of windows on time, and of such with streams that only grow",
        ("DirectJoin",),
        "rows carry the time of their death, a pair dies with the first of its two, and nothing is ever taken back",
        "both sides, by the join's columns and by death",
        "d and its matches; what is dead is dropped in whole files",
        "each arrival looks up its living partners on the other side, and is added to its own side",
        "SELECT DISTINCT b.at FROM clicks [RANGE 1 MINUTE] a JOIN visits [RANGE 2 MINUTES] b ON a.url = b.url",
        ("inner",),
    ),
    Way(
        "expiring join",
        "a direct join right below the view, or below the first operator that has to be told which rows die",
        ("ExpiringJoin",),
        "as a direct join; its living pairs are kept in a calendar, and those that fall due are taken back",
        "both sides, by the join's columns and by death; the living pairs, by death",
        "d and its matches, and the pairs that die",
        "each arrival looks up its living partners, and is added to its side; the pairs that fell due are taken back",
        "SELECT a.url FROM clicks [RANGE 1 MINUTE] a JOIN visits [RANGE 2 MINUTES] b ON a.url = b.url",
        ("inner",),
    ),
    Way(
        "direct distinct",
        "DISTINCT over windows on time",
        ("DirectDistinct",),
        "of each value the death of its result and of its youngest row are kept; a result that dies is given out again",
        "each result with two deaths, and which die when",
        "d, and the results that die",
        "arrivals move the death of their value's youngest row; results that fell due are given out until that",
        "SELECT DISTINCT url FROM clicks [RANGE 1 MINUTE]",
    ),
    Way(
        "expiry",
        "below the first operator that has to be told which rows die, and below the view itself",
        ("Expire",),
        "living rows are kept in a calendar; as the clock passes, those that fall due are taken back",
        "the living rows, by death",
        "d, and the rows that die",
        "arrivals are put into the calendar and given out; the rows that fell due are taken back",
        "SELECT upper(a.url) AS u FROM clicks [RANGE 1 MINUTE] a JOIN visits [RANGE 2 MINUTES] b ON a.url = b.url",
    ),
    Way(
        "bilinear join",
        "JOIN on equal columns",
        ("JoinOperator",),
        "what changes on one side looks up its partners in what is kept of the other",
        "both sides, by the join's columns",
        "d and its matches",
        "each change looks up its partners on the other side, and is added to its own side",
        "SELECT o.orderkey, c.name FROM orders o JOIN customer c ON o.custkey = c.custkey",
        ("inner",),
    ),
    Way(
        "outer join",
        "LEFT, RIGHT and FULL JOIN on equal columns",
        ("JoinOperator",),
        "as a join; a row without partner stands beside NULLs until its first partner comes",
        "both sides, by the join's columns",
        "d and its matches",
        "each change looks up its partners on the other side, and whether it is the first or the last of its key there",
        "SELECT c.custkey, o.orderkey FROM customer c LEFT JOIN orders o ON o.custkey = c.custkey",
        ("left", "right", "full"),
    ),
    Way(
        "existence join",
        "EXISTS, IN, NOT EXISTS, NOT IN, SEMI and ANTI JOIN",
        ("JoinOperator",),
        "a row is let through while the other side has its key (or has it not)",
        "the left side by its key, and how often the right side has each key",
        "d, and the left rows of a key that appears or disappears",
        "a change of the right side counts its key; where that came to or from zero, the left rows of the key follow",
        "SELECT custkey FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.custkey = c.custkey)",
        ("semi", "anti"),
    ),
    Way(
        "band join by cells",
        "JOIN on a constant distance, such as `a.x BETWEEN b.x - 5 AND b.x + 5`, `abs(a.x - b.x) < 5` or "
        "`a.at < b.at + INTERVAL 5 SECONDS AND a.at >= b.at`, of whole numbers, decimals, dates or times",
        ("JoinOperator",),
        "both sides are cut into cells as wide as the band; what changes looks up its partners in its cells",
        "both sides, by cell; one of them in two cells",
        "d, and the rows of its cells: a few times its matches, if rows are spread evenly",
        "each change looks up the rows of its cell on the other side, and is added to its own side",
        "SELECT o.orderkey, c.name FROM orders o JOIN customer c ON o.custkey BETWEEN c.custkey - 5 AND c.custkey + 5",
        ("band",),
    ),
    Way(
        "join by pairs",
        "JOIN on a condition without an equality or a constant distance, or on a distance of floating-point numbers",
        ("PairsOperator",),
        "the engine joins the changes of each side with all that is kept of the other",
        "both sides, whole",
        "d times the other side, and one job more",
        "the changes are added to what is kept of their side and handed to the engine",
        "SELECT o.orderkey, c.name FROM orders o JOIN customer c ON o.custkey < c.custkey",
        ("join",),
    ),
    Way(
        "additive groups",
        "COUNT, SUM and AVG over whole numbers and decimals, COUNT_IF, FILTER; DISTINCT, UNION",
        ("AdditiveAggregate",),
        "each group's row count and sums are kept, and moved by the changes",
        "one row a group",
        "d",
        "the changes of each group are summed, added to what is kept of it, and its row before and after is given out",
        "SELECT custkey, sum(price) AS total, count(*) AS n FROM orders GROUP BY custkey",
    ),
    Way(
        "touched groups",
        "MIN, MAX, BOOL_AND, BOOL_OR, also beside additive ones",
        ("GroupAggregate",),
        "the rows of the groups that changed are aggregated again",
        "the input's rows, by group",
        "d and the rows of the groups it touches",
        "the rows of the touched groups are looked up and aggregated as they were and as they are now",
        "SELECT custkey, max(price) AS dearest FROM orders GROUP BY custkey",
    ),
    Way(
        "touched groups, by the engine",
        "all other aggregates: SUM and AVG over FLOAT and DOUBLE, STDDEV, PERCENTILE, several DISTINCT ones",
        ("RowsOfGroups", "EmittedOperator"),
        "the engine aggregates the rows of the groups that changed; results are kept as they were given out",
        "the input's rows, by group, and the results",
        "d and the rows of the groups it touches, and one job more",
        "the rows of the touched groups are looked up and handed to the engine",
        "SELECT custkey, sum(weight) AS weight FROM orders GROUP BY custkey",
        ("aggregate",),
    ),
    Way(
        "touched partitions, by the engine",
        "window functions: f(...) OVER (PARTITION BY ...)",
        ("RowsOfGroups", "EmittedOperator"),
        "the engine evaluates the partitions that changed; results are kept as they were given out",
        "the input's rows, by partition, and the results",
        "d and the rows of the partitions it touches, and one job more",
        "the rows of the touched partitions are looked up and handed to the engine",
        "SELECT orderkey, row_number() OVER (PARTITION BY custkey ORDER BY price) AS place FROM orders",
        ("over",),
    ),
    Way(
        "counted rows",
        "EXCEPT and INTERSECT, ALL and DISTINCT",
        ("SetOperator",),
        "how often each side has a row is kept, and decides how often the result has it",
        "each distinct row with two counts",
        "d",
        "each change moves its row's count on its side; what the two counts amount to before and after is given out",
        "SELECT custkey FROM customer EXCEPT SELECT custkey FROM orders",
    ),
    Way(
        "top buffer",
        "ORDER BY with LIMIT and OFFSET",
        ("TopOperator",),
        "more of the first rows than are asked for are kept in order; ties are broken by all columns",
        "a buffer of the first rows, and all others behind it",
        "d and the buffer; all rows when deletes have used the buffer up",
        "changes up to the buffer's last row are put in place there; the others go behind it",
        "SELECT orderkey, price FROM orders ORDER BY price DESC LIMIT 10",
    ),
    Way(
        "generator, by the engine",
        "LATERAL VIEW and generators above joins and aggregates",
        ("PairsOperator",),
        "the engine generates from the changed rows alone",
        "none",
        "d, and one job more",
        "the changes are handed to the engine",
        "SELECT t.custkey, tag FROM (SELECT custkey, collect_list(price) AS l FROM orders GROUP BY custkey) t "
        "LATERAL VIEW explode(l) e AS tag",
        ("generate",),
    ),
)

#: Kept once for a table or stream with a key, and shared by all views over it.
CURRENT_ROWS = Way(
    "current rows",
    "tables and streams with a key, below all views that read them",
    ("CurrentRows",),
    "a key's new row takes the one before it back",
    "the current row of each key, once for all views",
    "d, in one job for all views and all such tables of a refresh",
    "each new row of a key takes back the one before it",
    "",
)


@dataclass(frozen=True)
class Fallback:
    """What is computed as a whole, and why. `says` occurs in the reason that is told for the example."""

    what: str
    why: str
    says: str = ""
    example: str = ""


#: Queries that have no plan: computed as a whole at every refresh, refused under INCREMENTAL STRICT.
NO_PLAN = (
    Fallback(
        "windows of ROWS over a stream with a key",
        "which rows are the newest that are there is told by all rows",
        "window of ROWS",
        "SELECT count(*) AS n FROM rooms [ROWS 10]",
    ),
    Fallback(
        "INTERNAL windows beside tables, keyed streams or external windows",
        "what has been born is told by all rows",
        "INTERNAL",
        "SELECT c.url FROM clicks [RANGE 1 MINUTE INTERNAL] c JOIN rooms r ON c.url = r.room",
    ),
    Fallback(
        "windows of ROWS over a subquery, any over a subquery that joins, or over a derived stream",
        "the order of its results is worked out from all of them",
        "window over a subquery",
        "SELECT count(*) AS n FROM (SELECT url FROM clicks) [ROWS 10] AS c",
    ),
    Fallback(
        "`Now` otherwise than compared with the rows of one relation",
        "nobody can tell when it changes",
        "Now is read otherwise",
        "SELECT url, Now AS seen FROM clicks",
    ),
    Fallback(
        "`CHANGES(x)` in FROM",
        "the tagged stream of an object is worked out from its log",
        "worked out as a whole",
        "SELECT count(*) AS n FROM CHANGES(orders)",
    ),
    Fallback(
        "streams with RETAIN under a window of ROWS or INTERNAL windows",
        "rows that were forgotten still count, or their results stay",
        "forgets rows by RETAIN",
        "SELECT n FROM fading [ROWS 10]",
    ),
    Fallback(
        "WITH RECURSIVE",
        "the number of rounds is not known",
        "RECURSIVE",
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
    ),
    Fallback(
        "PIVOT and UNPIVOT",
        "they have no operator",
        "PIVOT",
        "SELECT * FROM (SELECT custkey, price FROM orders) PIVOT (sum(price) FOR custkey IN (1 AS one, 2 AS two))",
    ),
    Fallback(
        "a scalar subquery that may give several rows",
        "whether it does is an error that is told only when it runs",
        "more than one row",
        "SELECT custkey, (SELECT price FROM orders o WHERE o.custkey = c.custkey) AS price FROM customer c",
    ),
)

#: What makes one refresh of a view with a plan compute it as a whole.
NO_DELTA = (
    Fallback("the first refresh", "there is nothing yet to change"),
    Fallback(
        "under AUTO, when the query is quicker", "the estimate or the last measurement says so; the record tells both"
    ),
    Fallback("states are missing or of another shape", "after ALTER ... POLICY, or with another version of Headrace"),
    Fallback("a STREAMED view, and a change at a time already past", "its log is made again from there"),
    Fallback("the snapshot in which a view below was read is no longer kept", "what it was then cannot be told"),
    Fallback("REFRESH EVERY over another view", "that view may be ahead of the grid"),
)

#: What no view may have.
REFUSED = (
    Fallback(
        "`rand()`, `uuid()`, `current_timestamp()` and their like",
        "it gives another value each time, so there is nothing to keep (NOT_DETERMINISTIC)",
        "rand",
        "SELECT orderkey, rand() AS r FROM orders",
    ),
)


def way_of(operator: str, kind: str = "") -> Way | None:
    """The way an operator of the delta program works; `kind` tells apart what one class serves several of."""
    found = [way for way in (*WAYS, CURRENT_ROWS) if operator in way.classes]
    return next((way for way in found if kind in way.kinds), found[0] if found else None)


def document() -> str:
    """`docs/support.md`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# What is maintained by its changes"
    yield ""
    yield "Printed from `src/headrace/planner/support.py` by `tools/support.py`; a test holds every example to it."
    yield ""
    yield (
        "A view over any number of these is maintained by its changes: *differential*, in the words of EXPLAIN. "
        "`EXPLAIN v` tells it operator by operator, `EXPLAIN CREATE VIEW` before the view is made. d is the number of "
        "changed rows that reach the operator."
    )
    yield ""
    yield "| SQL | way | how | state | a change of d rows costs |"
    yield "|---|---|---|---|---|"
    for way in (*WAYS, CURRENT_ROWS):
        yield f"| {way.serves} | {way.name} | {way.how} | {way.state} | {way.cost} |"
    yield ""
    yield (
        "Subqueries become joins, AVG over exact types a sum and a count, FILTER a CASE, count(DISTINCT x) a "
        "DISTINCT and a count. An outer, semi or anti join with a condition beyond equality is a join, a filter, and a "
        "semi or anti join of whole rows."
    )
    yield ""
    yield "## What falls back"
    yield ""
    yield (
        "A query with one of these is computed as a whole at every refresh (*recompute*), with the reason in EXPLAIN, "
        "`headrace status` and SHOW REFRESHES. Under REFRESH POLICY INCREMENTAL STRICT it is refused."
    )
    yield ""
    yield from _table(NO_PLAN)
    yield ""
    yield "A query that has a plan is computed as a whole in a refresh when:"
    yield ""
    yield from _table(NO_DELTA)
    yield ""
    yield "## What is refused"
    yield ""
    yield from _table(REFUSED)
    yield ""
    yield "## Examples"
    yield ""
    yield "Each line is maintained in the way that its comment names."
    yield ""
    yield "```"
    for way in WAYS:
        yield f"-- {way.name}"
        yield f"{way.example};"
    yield "```"


def _table(found: tuple[Fallback, ...]) -> Iterator[str]:
    yield "| what | why |"
    yield "|---|---|"
    for item in found:
        yield f"| {item.what} | {item.why} |"
