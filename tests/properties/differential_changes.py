"""The relations of `differential_queries` in a home, random changes of them, and views held against their queries."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError
from headrace.session import Session
from headrace.storage.records import RefreshRecord
from tests.properties.harness import Bag, Row, bag

DECLARED = """
CREATE TABLE t (k INT PRIMARY KEY, g STRING, d DECIMAL(10,2), x DOUBLE, day DATE);
CREATE TABLE u (k INT, g STRING, d DECIMAL(12,3), x DOUBLE, a ARRAY<INT>);
CREATE STREAM s (k INT, g STRING, v BIGINT, at BIGINT) KEY NULL ORDER BY at LATE MERGE;
REGISTER SOURCE r_in (op STRING, k INT, g STRING, v BIGINT, at BIGINT) FROM MEMORY;
CREATE STREAM r OVER r_in KEY (k) ORDER BY at LATE MERGE WITH (op = 'op');
"""

#: Why a view that was asked to follow its changes may be computed as a whole all the same.
REASONS = (
    "it was computed for the first time",
    # A keyed relation's current rows are of the newest refresh of all; a view made in between stands elsewhere.
    "are not kept as this view last read them",
    # A view's log is made anew from where rows fell into its past.
    "changed at a time that was already past",
)

INTS = st.sampled_from([None, 0, 1, 1, 2, 2, 3])
KEYS = st.sampled_from([None, 0, 1, 2, 3, 4])
TEXTS = st.sampled_from([None, "a", "b", "b", "bb"])
WHOLE = st.sampled_from([None, -1, 0, 1, 2, 5])
DECIMALS = st.sampled_from([None, "-1.50", "0.00", "1.25", "1.50", "7.10"])
FLOATS = st.sampled_from([None, "0", "0.1", "0.25", "0.7", "3.3", "1e9"])
#: Sums of these are exact in whatever order they are added.
DYADIC = st.sampled_from([None, "0", "0.25", "0.5", "3.75", "1024"])
DAYS = st.sampled_from([None, "2024-01-01", "2024-01-03", "2023-12-31"])
ARRAYS = st.sampled_from(
    ["NULL", "CAST(array() AS ARRAY<INT>)", "array(1)", "array(1, 1, 2)", "array(CAST(NULL AS INT), 3)"]
)
WHICH = st.sampled_from(["k = 1", "k > 1", "k IS NULL", "true", "k IN (0, 3)", "g = 'b'"])


@dataclass(frozen=True)
class Change:
    """A statement, or rows fed to a stream or source."""

    sql: str = ""
    into: str = ""
    rows: tuple[Row, ...] = ()

    def take(self, session: Session) -> None:
        if self.sql:
            session.sql(self.sql)
        elif self.rows:
            session.feed(self.into, self.rows)


def literal(value: object, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    return f"CAST('{value}' AS {kind})"


_T = ("INT", "STRING", "DECIMAL(10,2)", "DOUBLE", "DATE")
_U = ("INT", "STRING", "DECIMAL(12,3)", "DOUBLE")


def _values(draw: st.DrawFn, kinds: Sequence[str], columns: Sequence[st.SearchStrategy[Any]]) -> str:
    return ", ".join(literal(draw(column), kind) for column, kind in zip(columns, kinds, strict=True))


@st.composite
def changes(draw: st.DrawFn, time: int | None = None) -> Change:
    """One change of one relation: at a time, or whenever the home's clock and the rows say."""
    floats = FLOATS if time is None else DYADIC
    times = st.integers(0, 20) if time is None else st.just(time)
    at = "" if time is None else f" AT {time}"
    kind = draw(st.sampled_from(["u", "u", "s", "s", "r", "r", "merge", "merge", "update", "delete", "wipe"]))
    if kind == "u":
        columns = [INTS, TEXTS, DECIMALS, floats]
        rows = [f"({_values(draw, _U, columns)}, {draw(ARRAYS)})" for _ in range(draw(st.integers(1, 4)))]
        return Change(sql=f"INSERT INTO u VALUES {', '.join(rows)}{at}")
    if kind == "s":
        added = st.tuples(INTS, TEXTS, WHOLE, times)
        return Change(into="s", rows=tuple(draw(st.lists(added, min_size=1, max_size=5))))
    if kind == "r":
        upserts = st.tuples(st.sampled_from("+++-"), KEYS, TEXTS, WHOLE, times)
        return Change(into="r_in", rows=tuple(draw(st.lists(upserts, min_size=1, max_size=5))))
    if kind == "merge":
        return Change(sql=_merge(draw, floats) + at)
    table = draw(st.sampled_from(["t", "u"]))
    if kind == "wipe":
        return Change(sql=f"DELETE FROM {table}{at}") if draw(st.integers(0, 2)) == 0 else Change()
    if kind == "delete":
        return Change(sql=f"DELETE FROM {table} WHERE {draw(WHICH)}{at}")
    values = ["d = d + 1", "g = 'a'", "g = NULL", "x = coalesce(x, 0) + 0.5", "d = NULL, x = NULL"]
    values += ["k = 2"] if table == "u" else []
    return Change(sql=f"UPDATE {table} SET {draw(st.sampled_from(values))} WHERE {draw(WHICH)}{at}")


def _merge(draw: st.DrawFn, floats: st.SearchStrategy[Any]) -> str:
    keys = draw(st.lists(KEYS, min_size=1, max_size=3, unique=True))
    columns = [TEXTS, DECIMALS, floats, DAYS]
    rows = [f"SELECT {literal(key, 'INT')}, {_values(draw, _T[1:], columns)}" for key in keys]
    matched = draw(st.sampled_from(["UPDATE SET *", "UPDATE SET *", "DELETE", "UPDATE SET d = n.d"]))
    return (
        f"MERGE INTO t USING (SELECT * FROM ({' UNION ALL '.join(rows)}) AS n(k, g, d, x, day)) n"
        f" ON t.k <=> n.k WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
    )


def batches(least: int, most: int) -> st.SearchStrategy[tuple[tuple[Change, ...], ...]]:
    """Some batches, each of a few changes or none."""
    some = st.lists(changes(), min_size=4, max_size=8).map(tuple)
    return st.lists(st.one_of(some, some, some, some, st.just(())), min_size=least, max_size=most).map(tuple)


@st.composite
def in_time(draw: st.DrawFn, most: int) -> tuple[Change, ...]:
    """Changes one after another, each at the time of the one before it or later."""
    time, found = 0, []
    for _ in range(draw(st.integers(2, most))):
        time += draw(st.integers(0, 2))
        found.append(draw(changes(time)))
    return tuple(found)


def last_refresh(session: Session, name: str) -> RefreshRecord:
    snapshot = session._home.snapshot()
    found = snapshot.last_refresh(snapshot.find(name))
    assert found is not None
    return found


def check_strategy(session: Session, name: str, *reasons: str) -> str:
    """The view followed its changes, or there is a good reason why not; which strategy it was."""
    found = last_refresh(session, name)
    if found.strategy != "differential":
        assert any(reason in found.reason for reason in (*REASONS, *reasons)), f"{name}: {found.reason}"
    return found.strategy


def check_view(session: Session, name: str, query: str) -> None:
    """The view equals its query in batch: floating-point numbers nearly, all else exactly."""
    wanted = in_batch(session, query)
    if wanted is None:
        return
    got = bag(session.table(name))
    assert alike(got, wanted), f"{name}: {query}\n too many {dict(got - wanted)}\n missing {dict(wanted - got)}"


def in_batch(session: Session, query: str) -> Bag | None:
    """What a query gives in batch; None where the engine itself cannot run it (Sail has gaps in its planner)."""
    try:
        return bag(session.sql(query))
    except (HeadraceError, PySparkException):
        return None


def alike(got: Bag, wanted: Bag, tolerance: float = 1e-9) -> bool:
    """Whether two bags are the same up to rounding of floating-point numbers (and of averages of decimals)."""
    mine, theirs = _apart((got - wanted).elements()), _apart((wanted - got).elements())
    if mine.keys() != theirs.keys():
        return False
    return all(_paired(mine[exact], theirs[exact], tolerance) for exact in mine)


def _apart(rows: Iterable[Row]) -> dict[Row, list[tuple[float, ...]]]:
    """The rows by all but their floating-point values."""
    found: dict[Row, list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        floats = tuple(value for value in row if isinstance(value, float))
        found[tuple(None if isinstance(value, float) else value for value in row)].append(floats)
    return found


def _paired(mine: list[tuple[float, ...]], theirs: list[tuple[float, ...]], tolerance: float) -> bool:
    if len(mine) != len(theirs):
        return False
    return all(
        math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
        for left, right in zip(sorted(mine), sorted(theirs), strict=True)
        for one, other in zip(left, right, strict=True)
    )


def lose_states(session: Session) -> None:
    """As if nothing had been kept but the relations and the views themselves."""
    home = session._home
    with home.transaction("lose states") as transaction:
        for item in transaction.objects("state"):
            transaction.end(item)


def check_no_orphans(session: Session) -> None:
    """Every state is kept for an object that is there, and the home has the files that its catalog names."""
    snapshot = session._home.snapshot()
    owners = {item.id for item in snapshot.objects()}
    orphans = [item.name for item in snapshot.objects("state") if item.option("of") not in owners]
    assert not orphans, f"kept for nobody: {orphans}"
    assert set(session._home.files.all()) == session._home.catalog.named_files()
