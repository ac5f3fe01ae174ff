"""Keys between objects: declared, described, enforced in time; many changes of a table at once; a view's options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import HeadraceError
from headrace.engine import Engine
from headrace.planner.foreign_keys import Change, Reference, joins_nothing_old
from headrace.runtime.foreign_keys import describe_foreign_keys, foreign_keys_of, references
from headrace.runtime.key_checks import distinct, locate
from headrace.session import Session
from headrace.session import connect as connect_home
from tests.conftest import rows

SETUP = """
CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, name STRING);
CREATE TABLE orders (o_orderkey BIGINT, o_custkey BIGINT, PRIMARY KEY (o_orderkey),
  FOREIGN KEY (o_custkey) REFERENCES customer (c_custkey) ENFORCED);
INSERT INTO customer VALUES (1, 'ann'), (2, 'ben'), (3, 'eve') AT 10;
INSERT INTO orders VALUES (100, 1), (101, 2), (102, NULL) AT 20
"""


@pytest.fixture
def session(sail_engine: Engine, tmp_path: Path) -> Any:
    """A session on Sail alone: nothing here depends on the engine but for the rows it reads back."""
    with connect_home(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark) as opened:
        yield opened


@pytest.fixture
def shop(session: Session) -> Session:
    session.sql(SETUP)
    return session


def refused(session: Session, statement: str) -> HeadraceError:
    before = session.sql("SHOW SNAPSHOTS").rows
    with pytest.raises(HeadraceError) as raised:
        session.sql(statement)
    assert session.sql("SHOW SNAPSHOTS").rows == before, "something was committed"
    return raised.value


# -- declaring ------------------------------------------------------------------------------------------------------


def test_stored_as_plain_data(shop: Session) -> None:
    snapshot = shop._home.snapshot()
    expected = {
        "columns": ["o_custkey"],
        "references": "customer",
        "referenced": ["c_custkey"],
        "enforced": True,
        "rely": False,
    }
    assert snapshot.find("orders").options["foreign_keys"] == [expected]
    shop.sql("CREATE STREAM visits (who BIGINT REFERENCES CUSTOMER RELY, at TIMESTAMP) ORDER BY at")
    snapshot = shop._home.snapshot()
    (visits,) = snapshot.find("visits").options["foreign_keys"]
    assert visits == {**expected, "columns": ["who"], "enforced": False, "rely": True}
    orders, customer = snapshot.find("orders"), snapshot.find("customer")
    assert describe_foreign_keys(snapshot, orders) == [
        ("foreign key", "(o_custkey) REFERENCES customer (c_custkey) ENFORCED")
    ]
    assert describe_foreign_keys(snapshot, customer) == [
        ("referred to by", "orders (o_custkey)"), ("referred to by", "visits (who)"),
    ]  # fmt: skip
    assert references(snapshot) == (
        Reference(orders.id, customer.id, ("o_custkey",), ("c_custkey",)),
        Reference(snapshot.find("visits").id, customer.id, ("who",), ("c_custkey",)),
    )


def test_not_enforced_is_not_checked_and_not_built_on(session: Session) -> None:
    session.sql(
        "CREATE TABLE p (k INT PRIMARY KEY); CREATE TABLE c (k INT REFERENCES p, j INT REFERENCES p NOT ENFORCED)"
    )
    session.sql("INSERT INTO c VALUES (7, 8)")
    assert rows(session.table("c")) == [(7, 8)]
    assert references(session._home.snapshot()) == ()
    assert [key.checked for key in foreign_keys_of(session._home.snapshot().find("c"))] == [False, False]


BAD = [
    ("CREATE TABLE x (a BIGINT REFERENCES nobody)", "UNKNOWN_OBJECT", "nobody"),
    ("CREATE TABLE x (a BIGINT REFERENCES v)", "WRONG_KIND", "v is a view"),
    ("CREATE TABLE x (a BIGINT REFERENCES keyless)", "FOREIGN_KEY_TARGET", "keyless has no key"),
    ("CREATE STREAM x (a BIGINT) FOREIGN KEY (a) REFERENCES orders__late", "UNKNOWN_OBJECT", "orders__late"),
    ("CREATE TABLE x (a BIGINT REFERENCES customer (id))", "UNKNOWN_COLUMN", "Its key is (c_custkey)"),
    ("CREATE TABLE x (a STRING REFERENCES customer (name))", "FOREIGN_KEY_TARGET", "REFERENCES customer (c_custkey)"),
    ("CREATE TABLE x (a BIGINT, b BIGINT, FOREIGN KEY (a, b) REFERENCES customer)", "FOREIGN_KEY_TARGET", "names 2"),
    ("CREATE TABLE x (a BIGINT, FOREIGN KEY (a) REFERENCES pairs)", "FOREIGN_KEY_TARGET", "names 1 columns"),
    ("CREATE TABLE x (a INT, FOREIGN KEY (a, a) REFERENCES pairs)", "DUPLICATE_COLUMN", "twice"),
    ("CREATE TABLE x (a INT REFERENCES customer)", "FOREIGN_KEY_TYPE", "Declare a BIGINT"),
    ("CREATE STREAM x (a STRING) FOREIGN KEY (a) REFERENCES customer", "FOREIGN_KEY_TYPE", "Declare a BIGINT"),
    ("CREATE STREAM x OVER src FOREIGN KEY (nothing) REFERENCES customer", "UNKNOWN_COLUMN", "It has: a"),
    ("CREATE TABLE x (FOREIGN KEY (z) REFERENCES customer) AS SELECT 1 AS a", "UNKNOWN_COLUMN", "It has: a"),
    ("CREATE TABLE x (a DOUBLE REFERENCES doubles ENFORCED)", "FOREIGN_KEY_UNCHECKABLE", "floating"),
    (
        "CREATE TABLE x (d DOUBLE PRIMARY KEY, a BIGINT REFERENCES customer ENFORCED)",
        "FOREIGN_KEY_UNCHECKABLE",
        "key of x",
    ),
    ("CREATE TABLE x (a BIGINT REFERENCES brief ENFORCED)", "FOREIGN_KEY_UNCHECKABLE", "RETAIN"),
    ("CREATE TABLE x (a BIGINT REFERENCES brief) WITH (check_keys = true)", "FOREIGN_KEY_UNCHECKABLE", "RETAIN"),
    ("CREATE TABLE x (a BIGINT REFERENCES derived ENFORCED)", "FOREIGN_KEY_UNCHECKABLE", "follows from its query"),
    ("CREATE STREAM x (a INT PRIMARY KEY, b INT REFERENCES x ENFORCED)", "FOREIGN_KEY_UNCHECKABLE", "refers to itself"),
    ("CREATE TABLE x (a BIGINT REFERENCES customer) WITH (check_keys = 'perhaps')", "BAD_OPTION", "true or false"),
    ("ALTER STREAM lasting SET (retain = '1 day')", "FOREIGN_KEY_UNCHECKABLE", "held has an enforced foreign key"),
]


def test_bad_declarations(shop: Session) -> None:
    shop.sql("""
        CREATE TABLE keyless (a BIGINT); CREATE TABLE doubles (d DOUBLE PRIMARY KEY);
        CREATE TABLE pairs (a BIGINT, b BIGINT, PRIMARY KEY (a, b)); CREATE VIEW v AS SELECT * FROM customer;
        REGISTER SOURCE src (a BIGINT) FROM MEMORY; CREATE STREAM brief (a BIGINT) KEY (a) RETAIN 10;
        CREATE STREAM derived AS SELECT c_custkey FROM customer; CREATE STREAM lasting (a BIGINT) KEY (a);
        CREATE TABLE held (a BIGINT REFERENCES lasting ENFORCED)
    """)
    for statement, condition, words in BAD:
        error = refused(shop, statement)
        assert (error.condition, words in str(error)) == (condition, True), (statement, str(error))
    # What cannot be enforced can still be declared.
    shop.sql("CREATE TABLE y (a BIGINT REFERENCES brief, d DOUBLE REFERENCES doubles RELY)")


def test_drop_cascade_takes_the_foreign_key_only(shop: Session) -> None:
    error = refused(shop, "DROP TABLE customer")
    assert (error.condition, "foreign key of orders" in str(error)) == ("STILL_NEEDED", True)
    shop.sql("DROP TABLE customer CASCADE")
    orders = shop._home.snapshot().find("orders")
    assert orders.options["foreign_keys"] == []
    assert "REFERENCES" not in orders.definition
    shop.sql("INSERT INTO orders VALUES (900, 77)")
    shop.sql("DROP TABLE orders")


# -- enforcing on tables --------------------------------------------------------------------------------------------

BREAKING = [
    ("INSERT INTO orders VALUES (1, 3), (103, 77)", "FOREIGN_KEY_MISSING", "o_orderkey = 103, o_custkey = 77"),
    ("INSERT INTO orders SELECT 200 + id, id + 2 FROM range(5)", "FOREIGN_KEY_MISSING", "There are 3 such rows"),
    ("INSERT INTO orders VALUES (103, 1) AT 5", "FOREIGN_KEY_MISSING", "only from 1970-01-01T00:00:10Z on"),
    ("UPDATE orders SET o_custkey = 9 WHERE o_orderkey = 100", "FOREIGN_KEY_MISSING", "o_custkey = 9"),
    ("DELETE FROM customer", "STILL_REFERENCED", "Delete those rows of orders first"),
    ("DELETE FROM customer WHERE c_custkey = 2", "STILL_REFERENCED", "refer to c_custkey = 2"),
    ("UPDATE customer SET c_custkey = c_custkey + 10", "STILL_REFERENCED", "c_custkey = 1"),
    (
        "MERGE INTO orders o USING (SELECT 100 AS k, 50 AS c) n ON o.o_orderkey = n.k"
        " WHEN MATCHED THEN UPDATE SET o_custkey = n.c",
        "FOREIGN_KEY_MISSING",
        "c_custkey = 50",
    ),
    (
        "MERGE INTO orders o USING (SELECT 500 AS k, 50 AS c) n ON o.o_orderkey = n.k"
        " WHEN NOT MATCHED THEN INSERT (o_orderkey, o_custkey) VALUES (n.k, n.c)",
        "FOREIGN_KEY_MISSING",
        "c_custkey = 50",
    ),
    (
        "MERGE INTO customer c USING (SELECT 1 AS k) n ON c.c_custkey = n.k WHEN MATCHED THEN DELETE",
        "STILL_REFERENCED",
        "c_custkey = 1",
    ),
]


def test_what_breaks_a_key_changes_nothing(shop: Session) -> None:
    for statement, condition, words in BREAKING:
        error = refused(shop, statement)
        assert (error.condition, words in str(error)) == (condition, True), (statement, str(error))
        assert error.hint
    assert rows(shop.table("orders")) == [(100, 1), (101, 2), (102, None)]
    assert [row[0] for row in rows(shop.table("customer"))] == [1, 2, 3]


def test_what_keeps_a_key_is_taken(shop: Session) -> None:
    shop.sql("INSERT INTO orders VALUES (103, 3), (104, NULL)")
    shop.sql("UPDATE customer SET name = upper(name)")
    shop.sql("UPDATE orders SET o_custkey = 2 WHERE o_orderkey = 100")
    shop.sql("DELETE FROM customer WHERE c_custkey = 1")
    shop.sql("DELETE FROM orders WHERE o_custkey = 2; DELETE FROM customer WHERE c_custkey = 2")
    assert rows(shop.table("customer")) == [(3, "EVE")]
    assert rows(shop.table("orders")) == [(102, None), (103, 3), (104, None)]


def test_a_merge_is_judged_by_its_end(shop: Session) -> None:
    """A key that goes and comes back in one statement was never away."""
    shop.sql("""
        MERGE INTO customer c USING (SELECT 1 AS old, 2 AS new UNION ALL SELECT 2, 1) n ON c.c_custkey = n.old
        WHEN MATCHED THEN UPDATE SET c_custkey = n.new
    """)
    assert sorted(rows(shop.table("customer")))[:2] == [(1, "ben"), (2, "ann")]


def test_times_count(shop: Session) -> None:
    shop.sql("DELETE FROM orders WHERE o_custkey = 2 AT 30")
    assert "until 1970-01-01T00:00:30Z" in str(refused(shop, "DELETE FROM customer WHERE c_custkey = 2 AT 29"))
    shop.sql("DELETE FROM customer WHERE c_custkey = 2 AT 30")
    shop.sql("INSERT INTO customer VALUES (2, 'ben again') AT 40")
    assert refused(shop, "INSERT INTO orders VALUES (105, 2) AT 35").condition == "FOREIGN_KEY_MISSING"
    shop.sql("INSERT INTO orders VALUES (105, 2) AT 40")
    joined = "SELECT count(*) FROM orders o LEFT ANTI JOIN customer c ON o.o_custkey = c.c_custkey"
    for time in (9, 10, 20, 29, 30, 35, 40, 41):
        query = joined.replace("orders o", f"orders AS OF {time} o").replace("customer c", f"customer AS OF {time} c")
        assert rows(shop.sql(f"{query} WHERE o.o_custkey IS NOT NULL")) == [(0,)], time


def test_a_table_that_refers_to_itself(session: Session) -> None:
    session.sql("CREATE TABLE staff (id INT PRIMARY KEY, boss INT REFERENCES staff (id) ENFORCED)")
    session.sql("INSERT INTO staff VALUES (1, NULL), (2, 1), (3, 3)")
    assert refused(session, "INSERT INTO staff VALUES (4, 5)").condition == "FOREIGN_KEY_MISSING"
    assert refused(session, "DELETE FROM staff WHERE id = 1").condition == "STILL_REFERENCED"
    session.sql("DELETE FROM staff WHERE id IN (1, 2)")
    session.sql("DELETE FROM staff")
    session.sql("DROP TABLE staff")


def test_keys_of_several_columns_in_another_order(session: Session) -> None:
    session.sql("""
        CREATE TABLE lines (b STRING, a DECIMAL(9,2), PRIMARY KEY (a, b));
        CREATE TABLE notes (x STRING, y DECIMAL(9,2), note STRING, FOREIGN KEY (x, y) REFERENCES lines (b, a) ENFORCED);
        INSERT INTO lines VALUES ('p', 1.5), ('q', 2.5), ('p', 2.5)
    """)
    session.sql(
        "INSERT INTO notes VALUES ('p', 1.5, 'one'), ('p', 2.5, 'two'), (NULL, 9, 'three'), ('z', NULL, 'four')"
    )
    error = refused(session, "INSERT INTO notes VALUES ('q', 1.5, 'five')")
    assert "b = 'q', a = Decimal('1.50')" in str(error)
    assert refused(session, "DELETE FROM lines WHERE b = 'p' AND a = 2.5").condition == "STILL_REFERENCED"
    session.sql("DELETE FROM notes WHERE note = 'two'")
    session.sql("DELETE FROM lines WHERE b = 'p' AND a = 2.5")
    session.sql("DELETE FROM lines WHERE b = 'q'")


def test_a_bag_holds_a_key_as_long_as_one_of_its_rows_does(shop: Session) -> None:
    shop.sql("CREATE TABLE marks (who BIGINT REFERENCES customer ENFORCED)")
    shop.sql("INSERT INTO marks VALUES (3), (3)")
    shop.sql("UPDATE marks SET who = 1")
    shop.sql("INSERT INTO marks VALUES (3)")
    assert refused(shop, "DELETE FROM customer WHERE c_custkey = 3").condition == "STILL_REFERENCED"
    shop.sql("DELETE FROM marks WHERE who = 3")
    shop.sql("DELETE FROM customer WHERE c_custkey = 3")


def test_check_keys_is_an_option(session: Session) -> None:
    session.sql("CREATE TABLE p (k INT PRIMARY KEY); CREATE TABLE c (id INT PRIMARY KEY, k INT REFERENCES p)")
    session.sql("INSERT INTO c VALUES (1, 7)")
    error = refused(session, "ALTER TABLE c SET (check_keys = true)")
    assert (error.condition, "k = 7" in str(error)) == ("FOREIGN_KEY_MISSING", True)
    session.sql("INSERT INTO p VALUES (7); ALTER TABLE c SET (check_keys = true)")
    assert refused(session, "INSERT INTO c VALUES (2, 8)").condition == "FOREIGN_KEY_MISSING"
    assert refused(session, "DELETE FROM p").condition == "STILL_REFERENCED"
    session.sql("ALTER TABLE c SET (check_keys = false); INSERT INTO c VALUES (2, 8)")
    session.sql("CREATE TABLE d (k INT REFERENCES p) WITH (check_keys = true)")
    assert refused(session, "INSERT INTO d VALUES (8)").condition == "FOREIGN_KEY_MISSING"


def test_a_table_made_by_a_query_is_checked(shop: Session) -> None:
    keys = "PRIMARY KEY (k), FOREIGN KEY (c) REFERENCES customer ENFORCED"
    text = f"CREATE TABLE x (k, c, {keys}) AS SELECT id, {{}} FROM range(3)"
    assert refused(shop, text.format("id + 2")).condition == "FOREIGN_KEY_MISSING"
    shop.sql(text.format("id + 1"))
    assert rows(shop.table("x")) == [(0, 1), (1, 2), (2, 3)]


def test_a_folded_history_still_holds(session: Session) -> None:
    """RETAIN lets go of since when a row is there; then it counts as having been there."""
    session.sql("CREATE TABLE p (k INT PRIMARY KEY, v INT) RETAIN 5; CREATE TABLE c (k INT REFERENCES p ENFORCED)")
    for time in range(1, 30, 4):
        session.feed("p", pa.table({"k": [1], "v": [time]}), at=time, ops="u")
        session.refresh()
    session.sql("INSERT INTO c VALUES (1) AT 3")
    assert refused(session, "INSERT INTO c VALUES (2) AT 3").condition == "FOREIGN_KEY_MISSING"


# -- enforcing on streams -------------------------------------------------------------------------------------------


def test_a_feed_or_insert_is_refused_whole(shop: Session) -> None:
    shop.sql(
        "CREATE STREAM visits (who BIGINT, at TIMESTAMP) ORDER BY at FOREIGN KEY (who) REFERENCES customer ENFORCED"
    )
    assert shop.feed("visits", [(1, 11), (None, 12), (3, 13)]) == 3
    with pytest.raises(HeadraceError) as raised:
        shop.feed("visits", [(1, 14), (8, 15)])
    assert raised.value.condition == "FOREIGN_KEY_MISSING"
    assert "Row 2 for visits: customer has no row with c_custkey = 8" in str(raised.value)
    assert refused(shop, "INSERT INTO visits VALUES (9, 16)").condition == "FOREIGN_KEY_MISSING"
    assert rows(shop.sql("SELECT count(*) FROM visits")) == [(3,)]
    assert refused(shop, "DELETE FROM customer WHERE c_custkey = 3").condition == "STILL_REFERENCED"


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_rows_from_files_are_rejected_one_by_one(shop: Session, tmp_path: Path, format: str) -> None:
    (tmp_path / "in").mkdir()
    if format == "csv":
        (tmp_path / "in/a.csv").write_text("1,5\n8,6\n2,7\n,8\n9,9\n")
    else:
        table = pa.table({"who": pa.array([1, 8, 2, None, 9], pa.int64()), "n": pa.array([5, 6, 7, 8, 9], pa.int32())})
        pq.write_table(table, tmp_path / "in/a.parquet")
    shop.sql(f"""
        REGISTER SOURCE files (who BIGINT, n INT) FROM FILES '{tmp_path}/in/*' FORMAT {format};
        CREATE STREAM visits OVER files FOREIGN KEY (who) REFERENCES customer ENFORCED
    """)
    assert shop.refresh().landed == 3
    assert [row[:2] for row in rows(shop.table("visits"))] == [(1, 5), (2, 7), (None, 8)]
    reasons = [row[0] for row in rows(shop.sql("SELECT reason FROM files__rejected"))]
    assert reasons == ["customer has no row with c_custkey = 8", "customer has no row with c_custkey = 9"]


def test_a_dataframe_is_checked_too(shop: Session) -> None:
    shop.sql("CREATE STREAM visits (who BIGINT) FOREIGN KEY (who) REFERENCES customer ENFORCED")
    shop.sql("REGISTER SOURCE src (who BIGINT) FROM MEMORY")
    shop.sql("CREATE STREAM calls OVER src FOREIGN KEY (who) REFERENCES customer ENFORCED")
    frame = shop.sql("SELECT c_custkey + 2 AS who FROM customer")
    assert shop.feed("src", frame) == 1
    assert [row[0] for row in rows(shop.sql("SELECT who FROM calls"))] == [3]
    assert len(rows(shop.table("src__rejected"))) == 2


def test_deletes_of_a_referred_stream_are_rejected(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    session.sql(f"""
        REGISTER SOURCE ledger (op STRING, account INT, owner STRING) FROM FILES '{tmp_path}/in/*' FORMAT csv;
        CREATE STREAM accounts OVER ledger KEY (account) WITH (op = 'op');
        CREATE STREAM moves (id INT, account INT) KEY (id) FOREIGN KEY (account) REFERENCES accounts ENFORCED
    """)
    (tmp_path / "in/1.csv").write_text("+,1,ann\n+,2,ben\n")
    session.refresh()
    session.feed("moves", [(1, 1), (2, 1)])
    (tmp_path / "in/2.csv").write_text("-,1,\n-,2,\n")
    session.refresh()
    assert rows(session.sql("SELECT account FROM accounts")) == [(1,)]
    assert rows(session.sql("SELECT reason FROM ledger__rejected")) == [("moves has rows that refer to account = 1",)]
    assert refused(session, "DELETE FROM accounts").condition == "STILL_REFERENCED"
    session.sql("DELETE FROM moves")
    session.sql("DELETE FROM accounts")
    assert rows(session.table("accounts")) == []


def test_updating_a_keyed_stream_is_checked(shop: Session) -> None:
    shop.sql("CREATE STREAM seats (seat INT, who BIGINT) KEY (seat) FOREIGN KEY (who) REFERENCES customer ENFORCED")
    shop.feed("seats", [(1, 1)])
    assert refused(shop, "UPDATE seats SET who = 9").condition == "FOREIGN_KEY_MISSING"
    shop.sql("UPDATE seats SET who = 3")
    assert refused(shop, "DELETE FROM customer WHERE c_custkey = 3").condition == "STILL_REFERENCED"


# -- looking keys up ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_locate_is_a_join(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = ["a", "b", "c"][: 1 + seed % 3]

    def table(size: int) -> pa.Table:
        columns = [pa.array([None if v == 5 else f"{v}" for v in random.integers(0, 6, size)]) for _ in names]
        return pa.table(columns, names=names)

    wanted, given = distinct(table(20)), table(60)
    expected = {tuple(row.values()): number for number, row in enumerate(wanted.to_pylist())}
    assert locate(given, wanted).tolist() == [expected.get(tuple(row.values()), -1) for row in given.to_pylist()]
    assert locate(given, wanted.slice(0, 0)).tolist() == [-1] * 60
    assert locate(given.slice(0, 0), wanted).tolist() == []


def test_a_key_may_be_null(session: Session) -> None:
    session.sql("CREATE TABLE p (k INT PRIMARY KEY)")
    session.sql("CREATE TABLE c (id INT PRIMARY KEY, k INT REFERENCES p ENFORCED)")
    session.sql("INSERT INTO p VALUES (1), (NULL); INSERT INTO c VALUES (NULL, 1), (2, NULL)")
    assert refused(session, "INSERT INTO c VALUES (NULL, 1)").condition == "DUPLICATE_KEY"
    assert refused(session, "DELETE FROM p WHERE k = 1").condition == "STILL_REFERENCED"
    session.sql("DELETE FROM p WHERE k IS NULL")
    session.sql("UPDATE c SET k = NULL; DELETE FROM p")


def test_enforced_keys_agree_with_an_oracle(session: Session) -> None:
    """Random changes of a parent and a child: taken or refused as a plain model says, and no orphan at any time."""
    session.sql("CREATE TABLE p (k INT PRIMARY KEY); CREATE TABLE c (id INT PRIMARY KEY, k INT REFERENCES p ENFORCED)")
    random = np.random.default_rng(7)
    parents: set[int] = set()
    children: dict[int, int] = {}
    taken = 0
    for time in range(1, 61):
        name, op = [("p", "+"), ("p", "-"), ("c", "u"), ("c", "-")][random.integers(0, 4)]
        key, child = int(random.integers(0, 4)), int(random.integers(0, 4))
        given = {"k": [key]} if name == "p" else {"id": [child], "k": [key]}
        data = pa.table({column: pa.array(values, pa.int32()) for column, values in given.items()})
        if (op == "u" and key not in parents) or ((name, op) == ("p", "-") and key in children.values()):
            with pytest.raises(HeadraceError):
                session.feed(name, data, at=time, ops=op)
            continue
        session.feed(name, data, at=time, ops=op)
        taken += 1
        if name == "p":
            parents = parents | {key} if op == "+" else parents - {key}
        elif op == "u":
            children[child] = key
        else:
            children.pop(child, None)
    assert taken > 30
    assert [row[0] for row in rows(session.table("p"))] == sorted(parents)
    assert rows(session.table("c")) == sorted(children.items())


# -- many changes at once -------------------------------------------------------------------------------------------


@pytest.fixture
def stock(session: Session) -> Session:
    session.sql("CREATE TABLE stock (item BIGINT PRIMARY KEY, place STRING NOT NULL, n INT)")
    session.feed("stock", pa.table({"item": [1, 2, 3], "place": ["a", "b", "c"], "n": [1, 2, 3]}), at=1)
    return session


CHANGES = {"item": [2, 9, 3, 8, 4, 4], "place": ["bb", "i", None, None, "x", "y"], "n": [22, 9, None, None, 1, 2]}
OPS = ["u", "+", "-", "d", "insert", None]


@pytest.mark.parametrize("kind", ["arrow", "pandas", "spark", "batch", "rows"])
def test_upserts_and_deletes_of_a_table(stock: Session, kind: str) -> None:
    table = pa.table(CHANGES)
    with_ops = table.append_column("op", pa.array(OPS, pa.string()))
    if kind == "arrow":
        count = stock.feed("stock", with_ops, at=5, ops="op")
    elif kind == "pandas":
        count = stock.feed("stock", pd.DataFrame(CHANGES).astype({"n": "Int64"}), at=5, ops=pd.Series(OPS))
    elif kind == "spark":
        count = stock.feed("stock", stock.spark.createDataFrame(with_ops), at=5, ops="OP")
    elif kind == "batch":
        count = stock.feed("stock", table.to_batches()[0], at=[5] * 6, ops=pa.array(OPS))
    else:
        count = stock.feed("stock", table.to_pylist(), at=5, ops=OPS)
    assert count == 6
    assert rows(stock.table("stock")) == [(1, "a", 1), (2, "bb", 22), (4, "y", 2), (9, "i", 9)]
    assert len(rows(stock.table("stock", as_of=4))) == 3
    tags = [(row["op"], row["item"]) for row in stock.changes("stock", since=4).collect()]
    assert sorted(tags) == [("+", 4), ("+", 9), ("-", 3), ("u", 2)]


def test_one_operation_for_all_rows(stock: Session) -> None:
    assert stock.feed("stock", pa.table({"item": [1, 7], "place": ["z", "z"], "n": [0, 0]}), ops="+") == 2
    assert stock.feed("stock", pa.table({"item": [2, 3], "place": [None, None], "n": [None, None]}), ops="-") == 2
    assert rows(stock.table("stock")) == [(1, "z", 0), (7, "z", 0)]
    assert stock.feed("stock", pa.table({"item": [], "place": [], "n": []}), ops="-") == 0


def test_bad_operations(stock: Session) -> None:
    stock.sql("CREATE TABLE bag (a INT); CREATE STREAM s (a INT) KEY (a)")
    one = pa.table({"item": [1], "place": ["z"], "n": [0]})
    bad: list[tuple[str, Any, Any, str, str]] = [
        ("stock", one, "explode", "BAD_OPERATION", "'explode' is no operation"),
        ("stock", one, ["+", "-"], "BAD_OPERATION", "1 rows were given and 2 operations"),
        ("stock", one, [1], "BAD_OPERATION", "not texts"),
        ("stock", one, pa.array([1]), "BAD_OPERATION", "of type int64"),
        ("stock", one, 7, "BAD_OPERATION", "not texts"),
        ("stock", pa.table({"item": [1], "place": [None], "n": [0]}), "+", "NULL_VALUE", "place is NOT NULL"),
        ("stock", pa.table({"item": [1]}), "-", "MISSING_COLUMN", "place"),
        ("stock", pa.table({"item": ["x"], "place": ["z"], "n": [0]}), "-", "BAD_VALUE", "'x' is not a BIGINT"),
        ("bag", pa.table({"a": [1]}), "-", "OP_NEEDS_KEY", "PRIMARY KEY"),
        ("s", pa.table({"a": [1]}), "-", "WRONG_KIND", "WITH (op = 'column')"),
    ]
    before = stock.sql("SHOW SNAPSHOTS").rows
    for name, given, ops, condition, words in bad:
        with pytest.raises(HeadraceError) as raised:
            stock.feed(name, given, ops=ops)
        assert (raised.value.condition, words in str(raised.value)) == (condition, True), (ops, str(raised.value))
    assert stock.sql("SHOW SNAPSHOTS").rows == before


def test_a_hundred_thousand_changes_in_one_call(session: Session) -> None:
    session.sql("CREATE TABLE big (k BIGINT PRIMARY KEY, v STRING)")
    keys = np.arange(100_000)
    session.feed("big", pa.table({"k": keys, "v": pa.repeat(pa.scalar("old"), len(keys))}), ops="+")
    ops = np.where(keys % 4 == 0, "-", "u")
    session.feed("big", pa.table({"k": keys + 50_000, "v": pa.repeat(pa.scalar("new"), len(keys))}), ops=ops.tolist())
    found = rows(session.sql("SELECT v, count(*) FROM big GROUP BY v"))
    assert found == [("new", 75_000), ("old", 50_000)]
    # Few keys are looked up in a large table, and a known one is found.
    assert refused(session, "INSERT INTO big VALUES (49999, 'x')").condition == "DUPLICATE_KEY"
    session.sql("INSERT INTO big VALUES (50000, 'back')")
    assert rows(session.sql("SELECT v FROM big WHERE k = 50000")) == [("back",)]


def test_inserts_from_queries(session: Session) -> None:
    session.sql("CREATE TABLE a AS SELECT id AS k, id * 2 AS v FROM range(1000) KEY (k)")
    session.sql("CREATE TABLE b (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO b SELECT * FROM a WHERE k < 10")
    assert refused(session, "INSERT INTO b SELECT * FROM a WHERE k > 5").condition == "DUPLICATE_KEY"
    session.sql("INSERT INTO b SELECT * FROM a WHERE k >= 10; UPDATE b SET v = 0 WHERE k % 2 = 0")
    assert rows(session.sql("SELECT count(*), sum(v) FROM b")) == [(1000, 2 * sum(range(1, 1000, 2)))]


def test_an_update_finds_what_differs(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, a ARRAY<INT>, d DOUBLE, s STRING)")
    session.sql("INSERT INTO t VALUES (1, array(1), 1.5, NULL), (2, NULL, NULL, 'x') AT 1")
    assert session.sql("UPDATE t SET a = a, d = d, s = s AT 2").message == "Updated 0 rows of t."
    assert session.sql("UPDATE t SET a = array(1), s = 'x' AT 3").message == "Updated 2 rows of t."
    assert session.sql("UPDATE t SET d = NULL AT 4").message == "Updated 1 row of t."


# -- what a plan may build on ---------------------------------------------------------------------------------------

R, S = 1, 2
KEY = [Reference(R, S, ("fk",), ("pk",))]
INSERTS = {("old", "inserted"), ("deleted", "inserted")}
DELETES = {("new", "deleted"), ("inserted", "deleted")}


@pytest.mark.parametrize(
    ("change", "expected"),
    [("inserts", INSERTS), ("deletes", DELETES), ("both", INSERTS | DELETES), ("updates", set()), (None, set())],
)
def test_terms_that_join_nothing(change: Change | None, expected: set[tuple[str, str]]) -> None:
    changes = {} if change is None else {S: change}
    assert joins_nothing_old(R, S, [("fk", "pk")], KEY, changes) == expected
    assert joins_nothing_old(R, S, [("FK", "PK"), ("a", "b")], KEY, changes) == expected
    assert joins_nothing_old(S, R, [("pk", "fk")], KEY, changes) == {(b, a) for a, b in expected}


def test_other_joins_say_nothing() -> None:
    changes: dict[int, Change] = {R: "inserts", S: "inserts"}
    assert joins_nothing_old(R, S, [("fk", "other")], KEY, changes) == frozenset()
    assert joins_nothing_old(R, S, [], KEY, changes) == frozenset()
    assert joins_nothing_old(R, 3, [("fk", "pk")], KEY, changes) == frozenset()
    assert joins_nothing_old(R, S, [("pk", "fk")], KEY, changes) == frozenset()
    two = [Reference(R, S, ("a", "b"), ("x", "y"))]
    assert joins_nothing_old(R, S, [("a", "x")], two, changes) == frozenset()
    assert joins_nothing_old(R, S, [("b", "y"), ("a", "x")], two, changes) == INSERTS
    assert joins_nothing_old(R, S, [("a", "y"), ("b", "x")], two, changes) == frozenset()


def test_a_relation_with_itself_and_keys_both_ways() -> None:
    own = [Reference(R, R, ("boss",), ("id",))]
    assert joins_nothing_old(R, R, [("boss", "id")], own, {R: "inserts"}) == INSERTS
    assert joins_nothing_old(R, R, [("id", "boss")], own, {R: "inserts"}) == {(b, a) for a, b in INSERTS}
    both = [*KEY, Reference(S, R, ("pk",), ("fk",))]
    found = joins_nothing_old(R, S, [("fk", "pk")], both, {R: "deletes", S: "inserts"})
    assert found == INSERTS | {(b, a) for a, b in DELETES}


@pytest.mark.parametrize("seed", range(20))
def test_the_terms_are_empty_where_the_key_holds(seed: int) -> None:
    """Random states of R and S between which the key holds: every term named is empty, by brute force."""
    random = np.random.default_rng(seed)
    s_old = set(random.choice(10, 6, replace=False).tolist())
    s_new = set(random.choice(10, 6, replace=False).tolist())
    r_old = {(number, int(random.choice(sorted(s_old)))) for number in range(8)}
    kept = {row for row in r_old if row[1] in s_new and random.random() < 0.7}
    r_new = kept | {(100 + number, int(random.choice(sorted(s_new)))) for number in range(4)}
    left = {"old": r_old, "new": r_new, "inserted": r_new - r_old, "deleted": r_old - r_new}
    right = {"old": s_old, "new": s_new, "inserted": s_new - s_old, "deleted": s_old - s_new}
    named = joins_nothing_old(R, S, [("fk", "pk")], KEY, {S: "both"})
    assert named
    for mine, other in named:
        assert not [row for row in left[mine] if row[1] in right[other]], (mine, other)


# -- a view's options -----------------------------------------------------------------------------------------------


def test_options_of_views(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT)")
    session.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t"
        " WITH (strategy = 'recompute', tuples = 'Negative', rewriting = 'PULL_UP', buckets = 8)"
    )
    options = session._home.snapshot().find("v").options
    assert [options[name] for name in ("strategy", "tuples", "rewriting", "buckets")] == [
        "recompute", "negative", "pull up", 8,
    ]  # fmt: skip
    for policy in ("AUTO", "INCREMENTAL", "INCREMENTAL STRICT", "FULL"):
        session.sql(f"ALTER VIEW v SET REFRESH POLICY {policy}")
        assert session._home.snapshot().find("v").options["policy"] == policy.lower()
    session.sql("REFRESH MATERIALIZED VIEW v; REFRESH VIEW v")
    assert refused(session, "ALTER VIEW t SET REFRESH POLICY AUTO").condition == "WRONG_KIND"
    assert session.sql("DROP MATERIALIZED VIEW v").message == "Dropped v."


BAD_OPTIONS = [
    ("strategy = 'differental'", "Did you mean 'differential'?"),
    ("strategy = 'magic'", "recompute: the whole query again"),
    ("tuples = 'positive'", "direct: each operator finds by itself"),
    ("rewriting = 'sideways'", "one of auto, pull up, push down"),
    ("buckets = 0", "whole number of 1 or more"),
    ("buckets = 'many'", "whole number of 1 or more"),
    ("policy = 'sometimes'", "one of auto, incremental, incremental strict, full"),
]


@pytest.mark.parametrize(("option", "words"), BAD_OPTIONS)
def test_bad_options_of_views(session: Session, option: str, words: str) -> None:
    error = refused(session, f"CREATE VIEW v AS SELECT 1 AS a WITH ({option})")
    assert (error.condition, words in str(error)) == ("BAD_OPTION", True), str(error)


def test_explain_create_view_makes_nothing(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT PRIMARY KEY)")
    before = session.sql("SHOW SNAPSHOTS").rows
    told = session.sql("EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t")
    assert "v would be maintained by" in told.message
    assert session.sql("SHOW SNAPSHOTS").rows == before
