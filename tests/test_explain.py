"""What a user is told: EXPLAIN in all its forms, and the table of what is maintained by its changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import HeadraceError
from headrace.engine import Engine
from headrace.maintenance import operators
from headrace.planner import support
from headrace.runtime.home import query_of
from headrace.runtime.plan_text import way_of_placed
from headrace.runtime.plans import Plan
from headrace.runtime.strategy import find_plan
from headrace.session import Session, connect

ROOT = Path(__file__).parents[1]

SETUP = """
CREATE TABLE customer (custkey INT PRIMARY KEY, name STRING);
CREATE TABLE orders (orderkey INT PRIMARY KEY, custkey INT, price DECIMAL(12,2), weight DOUBLE);
CREATE STREAM clicks (url STRING, at TIMESTAMP) ORDER BY at PARTITION LENGTH 60;
CREATE STREAM visits (url STRING, at TIMESTAMP) ORDER BY at;
CREATE STREAM rooms (room STRING, at TIMESTAMP) KEY (room) ORDER BY at;
CREATE STREAM fading (n INT, at TIMESTAMP) ORDER BY at RETAIN 1 HOUR;
CREATE NON RETROACTIVE TABLE rates (url STRING PRIMARY KEY, rate INT);
INSERT INTO customer VALUES (1, 'ann'), (2, 'ben') AT 1;
INSERT INTO orders VALUES (10, 1, 5.00, 0.5), (11, 1, 7.00, 1.5), (12, 2, 9.00, 2.5) AT 1;
"""

TOTALS = """
CREATE VIEW totals AS
SELECT c.name, sum(price * 2) AS twice FROM orders o JOIN customer c ON o.custkey = c.custkey
WHERE price > 1 GROUP BY c.name REFRESH POLICY INCREMENTAL
"""


@pytest.fixture(scope="module")
def home(sail_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One home for all tests here: they only look, and what they make has names of its own."""
    place = tmp_path_factory.mktemp("explain") / "home"
    with connect(str(place), engine="sail", spark=sail_engine.spark) as session:
        session.sql(SETUP + TOTALS)
        session.sql("UPDATE orders SET price = 6.00 WHERE orderkey = 10 AT 2")
        session.refresh()
        yield session


def told(session: Session, statement: str) -> str:
    """What an EXPLAIN says; it must change nothing."""
    before = session.sql("SHOW SNAPSHOTS").rows
    message = session.sql(statement).message
    assert session.sql("SHOW SNAPSHOTS").rows == before
    return str(message)


def test_explain_reads_like_sentences(home: Session) -> None:
    text = told(home, "EXPLAIN totals")
    assert text == home.explain("totals")
    lines = text.splitlines()
    assert lines[0] == "totals is a view with the key (name)."
    assert re.search(r"^Strategy: differential: \d changed rows?, \d+ rows? of state looked at", text, re.MULTILINE)
    assert "Policy: INCREMENTAL: by the changes wherever that can be done." in lines
    assert "It is due whenever something it reads has changed." in lines


def test_explain_shows_the_plan_in_the_users_names(home: Session) -> None:
    text = told(home, "EXPLAIN totals")
    tree = text[text.index("result (") :]
    assert "result (name, twice)  [STR, key (name)]" in tree
    assert re.search(r"aggregate SUM\(price \* 2\) by name  \[STR, key \(name\)\]", tree)
    assert re.search(r"join on (orders.custkey = customer.custkey|customer.custkey = orders.custkey)", tree)
    assert "filter price > 1" in tree
    assert re.search(r"customer \(custkey, name\)  \[STR, key \(customer.custkey\)\]", tree)
    assert not re.search(r"\b(price|custkey|name|sum|arg)_\d+", tree), "names that only the tree has"
    assert "additive groups: " in tree
    assert "bilinear join: " in tree
    assert re.search(r"keeps groups: the count and sums of each group \(by name\); \d+ rows?, [\d,]+ bytes", tree)
    assert re.search(r"keeps current: the current row of each key, for all views; \d+ rows?, [\d,]+ bytes", tree)
    assert text.endswith("STR: a row may go whenever something changes.")


def test_a_relation_that_is_read_twice_is_told_apart(home: Session) -> None:
    text = told(home, "EXPLAIN CREATE VIEW x AS SELECT a.name, b.name AS other FROM customer a, customer b "
                      "WHERE a.custkey = b.custkey")  # fmt: skip
    assert "join on customer.custkey = customer#2.custkey" in text


def test_explain_says_why_a_dearer_way_was_taken(home: Session) -> None:
    def why(query: str) -> str:
        return told(home, f"EXPLAIN CREATE VIEW x AS {query}")

    assert "because SUM(weight) over DOUBLE cannot be taken back exactly" in why("SELECT sum(weight) AS w FROM orders")
    assert "because MAX(price) cannot be taken back" in why("SELECT max(price) AS m FROM orders")
    assert "counts equal values once" in why("SELECT count(DISTINCT price) AS n, stddev(weight) AS s FROM orders")
    assert "because STDDEV(weight) is known to the engine alone" in why("SELECT stddev(weight) AS s FROM orders")
    pairs = why("SELECT orderkey, name FROM orders o JOIN customer c ON o.custkey < c.custkey")
    assert "because its condition has no equality" in pairs


def test_update_patterns_are_told(home: Session) -> None:
    text = told(home, "EXPLAIN CREATE VIEW x AS SELECT upper(url) AS url FROM clicks WHERE url LIKE 'a%'")
    assert "result (url)  [MON]" in text
    assert "MON: rows never go." in text
    window = told(home, "EXPLAIN CREATE VIEW x AS SELECT url FROM clicks [RANGE 1 MINUTE SLIDE 10 SECONDS]")
    assert "clicks [RANGE 60 SECONDS SLIDE 10 SECONDS] (url)  [WKS]" in window
    rows = told(home, "EXPLAIN CREATE VIEW x AS SELECT url FROM clicks [ROWS 10]")
    assert "clicks [ROWS 10] (url)  [STR]" in rows
    life = told(home, "EXPLAIN CREATE VIEW x AS SELECT url FROM clicks WHERE Now - 60 < at")
    assert re.search(r"clicks \(url, at\) while .*Now.*  \[WK\]", life)
    versions = told(home, "EXPLAIN CREATE VIEW x AS SELECT c.url, rate FROM clicks c JOIN rates r ON c.url = r.url")
    assert "rates (url, rate), by version  [STR]" in versions
    assert not re.search(r"__\w+", versions)
    born = told(home, "EXPLAIN CREATE VIEW x AS SELECT url FROM clicks [RANGE 1 MINUTE INTERNAL]")
    assert "result (url)  [MON]" in born
    grouped = told(home, "EXPLAIN CREATE VIEW x AS SELECT url, count(*) AS n FROM clicks GROUP BY url")
    assert "clicks (url)  [MON]" in grouped
    assert "result (url, n)  [STR, key (url)]" in grouped


def test_explain_maintenance_goes_step_by_step(home: Session) -> None:
    text = told(home, "EXPLAIN MAINTENANCE totals")
    steps = [int(number) for number in re.findall(r"^  (\d+)\. ", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert "2 operators, at most 1 job, 2 stages" in text
    assert re.search(r"Read the changes of orders; the engine .*filters price > 1", text)
    assert re.search(r"they go to stage 1 by orders.custkey", text)
    assert re.search(r"Stage 2: aggregate SUM\(price \* 2\) by name: the changes of each group are summed", text)
    assert "States: groups (the count and sums of each group)." in text
    assert "The changes are netted and added to totals" in text
    assert "Before any view, changes are made of the new rows of " in text
    assert "Up to 3,000,000 changed rows run in this process, and the engine is not asked; more" in text
    assert re.search(r"When only orders changes: 1 job, 2 stages \(steps [\d, ]+\)\.", text)
    assert re.search(r"When only customer changes: 1 job, 2 stages \(steps [\d, ]+\)\.", text)


def test_explain_maintenance_of_what_the_engine_finishes(home: Session) -> None:
    home.sql("CREATE VIEW spread AS SELECT custkey, stddev(weight) AS s FROM orders GROUP BY custkey"
             " REFRESH POLICY INCREMENTAL")  # fmt: skip
    text = told(home, "EXPLAIN MAINTENANCE spread")
    assert "Job 2:" in text
    assert "This ends the job: the engine evaluates it over these rows" in text
    assert "what was given out for these groups is taken back" in text
    assert "When only orders changes: 2 jobs, 2 stages" in text


def test_explain_maintenance_of_rows_that_carry_their_death(home: Session) -> None:
    home.sql(
        "CREATE VIEW both AS SELECT a.url FROM clicks [RANGE 1 MINUTE] a JOIN visits [RANGE 2 MINUTES] b"
        " ON a.url = b.url REFRESH POLICY INCREMENTAL"
    )
    text = told(home, "EXPLAIN MAINTENANCE both")
    assert "Read the changes of clicks [RANGE 60 SECONDS], each with its death" in text
    assert "the pairs that fell due are taken back" in text
    assert "When only the clock moves on: 1 job, 1 stage" in text
    home.sql(
        "CREATE VIEW loud AS SELECT upper(a.url) AS u FROM clicks [RANGE 1 MINUTE] a JOIN visits [RANGE 2 MINUTES] b"
        " ON a.url = b.url REFRESH POLICY INCREMENTAL"
    )
    assert "expiry of compute" in told(home, "EXPLAIN MAINTENANCE loud")


def test_explain_maintenance_without_a_plan(home: Session) -> None:
    home.sql("CREATE VIEW story AS SELECT count(*) AS n FROM CHANGES(orders)")
    home.sql("CREATE VIEW whole AS SELECT count(*) AS n FROM orders REFRESH POLICY FULL")
    text = told(home, "EXPLAIN MAINTENANCE story")
    assert text.startswith("story is computed as a whole, because CHANGES(orders) is worked out as a whole.")
    assert "1. Read all of orders." in text
    assert "REFRESH POLICY FULL asks for it" in told(home, "EXPLAIN MAINTENANCE whole")
    assert "It has no plan by its changes: CHANGES(orders)" in told(home, "EXPLAIN story")
    assert "Every refresh reads all it is made of: 4 rows" in told(home, "EXPLAIN story")
    assert "rows are put into it" in told(home, "EXPLAIN MAINTENANCE orders")


def test_explain_state(home: Session) -> None:
    info = home.sql("EXPLAIN STATE totals")
    rows = [dict(zip(info.columns, row, strict=True)) for row in info.rows]
    assert {row["of"] for row in rows} == {"totals", "orders", "customer"}
    groups = next(row for row in rows if row["state"] == "groups")
    assert (groups["key"], groups["columns"]) == ("name", "name")
    assert groups["operator"] == "aggregate SUM(price * 2) by name"
    assert all(row["bytes"] > 0 and row["runs"] > 0 for row in rows)
    current = next(row for row in rows if row["of"] == "customer")
    assert (current["keeps"], current["key"], current["columns"]) == (
        "the current row of each key", "custkey", "custkey, name",
    )  # fmt: skip
    assert info.message == f"{len(rows)} states, {sum(row['bytes'] for row in rows):,} bytes."
    assert [row[0] for row in home.sql("EXPLAIN STATE orders").rows] == ["orders"]
    assert "No state is kept for clicks" in home.sql("EXPLAIN STATE clicks").message


def test_explain_create_view_makes_nothing(home: Session) -> None:
    text = told(home, "EXPLAIN CREATE VIEW x AS SELECT custkey, sum(price) AS s FROM orders GROUP BY custkey "
                      "REFRESH POLICY INCREMENTAL")  # fmt: skip
    assert text.startswith("x would be maintained by its changes.")
    assert "It would be a view with the key (custkey), stored as its newest content." in text
    assert "would keep groups: the count and sums of each group (by custkey)" in text
    assert re.search(r"Estimated as a whole: [\d.e-]+ s for 4 rows\.", text)
    assert re.search(r"[\d.]+ s when 0\.1 % of them changed, [\d.]+ s when 1 % of them changed", text)
    assert home.sql("SHOW VIEWS").rows[0][0] == "totals"
    small = told(home, "EXPLAIN CREATE VIEW x AS SELECT count(*) AS n FROM orders")
    assert "x would be maintained by recompute as long as all it reads has fewer than 50,000 rows" in small
    full = told(home, "EXPLAIN CREATE VIEW x AS SELECT count(*) AS n FROM orders REFRESH POLICY FULL")
    assert full.startswith("x would be maintained by recompute, because that is asked for.")


def test_explain_create_view_tells_refusals(home: Session) -> None:
    query = "CREATE VIEW x AS SELECT count(*) AS n FROM CHANGES(orders) REFRESH POLICY INCREMENTAL STRICT"
    text = told(home, f"EXPLAIN {query}")
    assert text.startswith("x would be refused (NOT_INCREMENTAL): it cannot be refreshed by its changes alone: ")
    with pytest.raises(HeadraceError) as raised:
        home.sql(query)
    assert raised.value.condition == "NOT_INCREMENTAL"
    for wrong, condition in (
        ("SELECT * FROM nowhere", "UNKNOWN_OBJECT"),
        ("SELECT orderkey, uuid() AS u FROM orders", "NOT_DETERMINISTIC"),
        ("SELECT * FROM x", "UNKNOWN_OBJECT"),
    ):
        with pytest.raises(HeadraceError) as raised:
            home.sql(f"EXPLAIN CREATE VIEW x AS {wrong}")
        assert raised.value.condition == condition
    with pytest.raises(HeadraceError) as raised:
        home.sql("EXPLAIN CREATE VIEW orders AS SELECT 1 AS a")
    assert raised.value.condition == "NAME_TAKEN"


def test_describe_shows_foreign_keys_and_strategy(home: Session) -> None:
    home.sql("CREATE TABLE parcels (parcel INT PRIMARY KEY, custkey INT REFERENCES customer)")
    rows = home.sql("DESCRIBE parcels").rows
    assert ("foreign key", "(custkey) REFERENCES customer (custkey) NOT ENFORCED", "") in rows
    assert ("referred to by", "parcels (custkey)", "") in home.sql("DESCRIBE customer").rows
    facts = {row[0]: row[1] for row in home.sql("DESCRIBE EXTENDED totals").rows}
    assert facts["strategy"] == "differential"
    assert "of state looked at" in facts["reason"]
    assert int(facts["state bytes"]) > 0


# -- the table of support -------------------------------------------------------------------------------------------


def test_the_page_is_what_the_code_declares() -> None:
    page = (ROOT / "docs/support.md").read_text(encoding="utf-8")
    assert page == support.document(), "run: python tools/support.py"


def test_every_operator_is_declared() -> None:
    folder = Path(operators.__path__[0])
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py") if path.name != "base.py"]
    classes = {
        name for text in texts for name, body in re.findall(r"^class (\w+).*?:\n(.*?)(?=^\S|\Z)", text, re.M | re.S)
        if "def delta(" in body
    }  # fmt: skip
    declared = {name for way in (*support.WAYS, support.CURRENT_ROWS) for name in way.classes}
    assert declared == classes


@pytest.mark.parametrize("way", support.WAYS, ids=lambda way: way.name)
def test_every_example_is_maintained_so(home: Session, way: support.Way) -> None:
    plan = planned(home, way.example)
    assert isinstance(plan, Plan), plan
    found = {type(placed.operator).__name__ for placed in plan.program.operators}
    names = {used.name for placed in plan.program.operators if (used := way_of_placed(placed)) is not None}
    assert way.name in names if way.classes else not names
    assert set(way.classes) <= found


@pytest.mark.parametrize("fallback", support.NO_PLAN, ids=lambda fallback: fallback.what)
def test_every_fallback_tells_its_reason(home: Session, fallback: support.Fallback) -> None:
    plan = planned(home, fallback.example)
    assert isinstance(plan, str), "it is maintained by now: move it to the ways"
    assert fallback.says in plan


@pytest.mark.parametrize("refused", support.REFUSED, ids=lambda refused: refused.what)
def test_what_is_refused(home: Session, refused: support.Fallback) -> None:
    for policy in ("AUTO", "FULL", "INCREMENTAL", "INCREMENTAL STRICT"):
        with pytest.raises(HeadraceError) as raised:
            home.sql(f"CREATE VIEW x AS {refused.example} REFRESH POLICY {policy}")
        assert raised.value.condition == "NOT_DETERMINISTIC"
        assert refused.says in raised.value.message


def planned(session: Session, query: str) -> Plan | str:
    """The plan of a query, or the reason why it has none."""
    from headrace.language import Select, parse_one

    statement = parse_one(query)
    assert isinstance(statement, Select)
    snapshot = session._home.snapshot()
    view = snapshot.find("totals")
    assert query_of(view) is not None
    return find_plan(session._home, snapshot, view, statement.query)
