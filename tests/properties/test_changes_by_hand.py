"""INSERT, UPDATE, DELETE and MERGE against a model in plain Python, with errors that change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.errors import HeadraceError
from headrace.session import Session
from tests.properties.harness import Bag, Row, bag, changes, fresh, hold
from tests.properties.scenarios import literal

#: The table's columns: k INT, v BIGINT, x STRING.
KEYS = st.sampled_from([None, 0, 1, 2, 3])
NUMBERS = st.sampled_from([None, -1, 0, 5])
TEXTS = st.sampled_from([None, "a", "b"])
ROWS = st.tuples(KEYS, NUMBERS, TEXTS)

#: SQL and the same in Python, where None is unknown.
CONDITIONS: dict[str, Callable[[Row], bool | None]] = {
    "true": lambda row: True,
    "k = 1": lambda row: None if row[0] is None else row[0] == 1,
    "k > 0 AND v IS NOT NULL": lambda row: row[1] is not None and row[0] is not None and row[0] > 0,
    "k IS NULL OR x = 'a'": lambda row: row[0] is None or row[2] == "a",
    "NOT (v < 3)": lambda row: None if row[1] is None else row[1] >= 3,
    "x <=> NULL": lambda row: row[2] is None,
    "k IN (0, 2, NULL)": lambda row: True if row[0] in (0, 2) else None,
}
ASSIGNMENTS: dict[str, Callable[[Row], Row]] = {
    "v = v + 1": lambda row: (row[0], None if row[1] is None else row[1] + 1, row[2]),
    "x = 'c', v = k": lambda row: (row[0], row[0], "c"),
    "x = NULL": lambda row: (row[0], row[1], None),
    "k = k + 1": lambda row: (None if row[0] is None else row[0] + 1, row[1], row[2]),
    "k = 2": lambda row: (2, row[1], row[2]),
    "k = v, v = k": lambda row: (row[1], row[0], row[2]),
    "x = x": lambda row: row,
}


@dataclass(frozen=True)
class Change:
    """One statement: its kind, its rows or texts, and how much later than the last change it takes effect."""

    kind: str
    rows: tuple[Row, ...] = ()
    where: str = "true"
    assign: str = "x = x"
    clauses: tuple[str, ...] = ()
    later: int | None = 0  # None: no AT


INSERTS = st.builds(Change, st.just("insert"), st.lists(ROWS, min_size=1, max_size=3).map(tuple))
UPDATES = st.builds(
    Change, st.just("update"), where=st.sampled_from(sorted(CONDITIONS)), assign=st.sampled_from(sorted(ASSIGNMENTS))
)
DELETES = st.builds(Change, st.just("delete"), where=st.sampled_from(sorted(CONDITIONS)))
CLAUSES = (
    "MATCHED AND n.v = 5 THEN DELETE",
    "MATCHED AND t.x = 'a' THEN UPDATE SET v = n.v",
    "MATCHED THEN UPDATE SET *",
    "NOT MATCHED AND n.v IS NULL THEN INSERT (k, x) VALUES (n.k, 'new')",
    "NOT MATCHED THEN INSERT *",
    "NOT MATCHED BY SOURCE AND t.v = 0 THEN DELETE",
    "NOT MATCHED BY SOURCE THEN UPDATE SET x = 'lost'",
)
MERGES = st.builds(
    Change,
    st.just("merge"),
    st.lists(ROWS, min_size=1, max_size=3).map(tuple),
    st.sampled_from(["t.k = n.k", "t.k <=> n.k", "t.x = n.x AND t.k > 0"]),
    clauses=st.lists(st.sampled_from(range(len(CLAUSES))), min_size=1, max_size=4, unique=True).map(
        lambda chosen: tuple(CLAUSES[number] for number in sorted(chosen))
    ),
)
TIMED = st.one_of(INSERTS, INSERTS, UPDATES, DELETES, MERGES).flatmap(
    lambda change: st.sampled_from([0, 1, 2, None]).map(
        lambda later: Change(change.kind, change.rows, change.where, change.assign, change.clauses, later)
    )
)


@dataclass(frozen=True)
class HandCase:
    keyed: bool
    steps: tuple[Change, ...]


HAND_CASES = st.builds(HandCase, st.booleans(), st.lists(TIMED, max_size=7).map(tuple))


class Refused(Exception):
    """The model says that the statement must fail."""


@dataclass
class Model:
    """A bag of rows, and what it was after each time at which it changed."""

    keyed: bool
    rows: list[Row] = field(default_factory=list)
    history: dict[int, list[Row]] = field(default_factory=dict)
    touched: dict[int, set[Any]] = field(default_factory=dict)
    clock: int = 0

    def take(self, change: Change, time: int) -> None:
        gone, come = _difference(change, self.rows)
        if not gone and not come:
            return
        left = list((Counter(self.rows) - Counter(gone)).elements())
        if self.keyed and len({row[0] for row in left + come}) < len(left + come):
            raise Refused("DUPLICATE_KEY")
        self.rows = left + come
        self.clock = max(self.clock, time)
        self.history[time] = list(self.rows)
        self.touched.setdefault(time, set()).update(row[0] for row in gone + come)

    def at(self, time: int) -> Bag:
        known = [moment for moment in self.history if moment <= time]
        return Counter(self.history[max(known)]) if known else Counter()

    def changes(self) -> Bag:
        """Tagged tuples, told by comparing what the table was before and after each time."""
        found: Bag = Counter()
        before: list[Row] = []
        for time, after in sorted(self.history.items()):
            if not self.keyed:
                for row, count in (Counter(after) - Counter(before)).items():
                    found["+", *row, float(time)] += count
                for row, count in (Counter(before) - Counter(after)).items():
                    found["-", *row, float(time)] += count
            else:
                old, new = {row[0]: row for row in before}, {row[0]: row for row in after}
                for key in self.touched[time]:
                    if key in new:
                        found["u" if key in old else "+", *new[key], float(time)] += 1
                    elif key in old:
                        found["-", key, None, None, float(time)] += 1
            before = after
        return found


def _difference(change: Change, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that go and those that come."""
    if change.kind == "insert":
        return [], list(change.rows)
    if change.kind == "merge":
        return _merged(change, rows)
    chosen = [row for row in rows if CONDITIONS[change.where](row)]
    if change.kind == "delete":
        return chosen, []
    pairs = [(row, ASSIGNMENTS[change.assign](row)) for row in chosen]
    return [old for old, new in pairs if old != new], [new for old, new in pairs if old != new]


def _merged(change: Change, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    matches: dict[str, Callable[[Row, Row], bool]] = {
        "t.k = n.k": lambda t, n: t[0] is not None and t[0] == n[0],
        "t.k <=> n.k": lambda t, n: t[0] == n[0],
        "t.x = n.x AND t.k > 0": lambda t, n: t[2] is not None and t[2] == n[2] and t[0] is not None and t[0] > 0,
    }
    on = matches[change.where]
    gone: list[Row] = []
    come: list[Row] = []

    def act(kind: str, old: Row | None, new: Row | None) -> bool:
        clause = next((text for text in change.clauses if _applies(text, kind, old, new)), None)
        if clause is None:
            return False
        result = _result(clause, old, new)
        if old != result:
            gone.extend([] if old is None else [old])
            come.extend([] if result is None else [result])
        return True

    for old in rows:
        acted = [act("MATCHED", old, new) for new in change.rows if on(old, new)]
        if sum(acted) > 1:
            raise Refused("MERGE_AMBIGUOUS")
        if not acted:
            act("NOT MATCHED BY SOURCE", old, None)
    for new in change.rows:
        if not any(on(old, new) for old in rows):
            act("NOT MATCHED", None, new)
    return gone, come


def _applies(clause: str, kind: str, old: Row | None, new: Row | None) -> bool:
    words, _, _action = clause.partition(" THEN ")
    said, _, condition = words.partition(" AND ")
    if said != kind:
        return False
    return {
        "": lambda: True,
        "n.v = 5": lambda: new is not None and new[1] == 5,
        "t.x = 'a'": lambda: old is not None and old[2] == "a",
        "n.v IS NULL": lambda: new is not None and new[1] is None,
        "t.v = 0": lambda: old is not None and old[1] == 0,
    }[condition]()


def _result(clause: str, old: Row | None, new: Row | None) -> Row | None:
    action = clause.partition(" THEN ")[2]
    if action == "DELETE":
        return None
    if action in ("UPDATE SET *", "INSERT *"):
        return new
    if action == "UPDATE SET v = n.v" and old is not None and new is not None:
        return (old[0], new[1], old[2])
    if action == "UPDATE SET x = 'lost'" and old is not None:
        return (old[0], old[1], "lost")
    assert new is not None
    return (new[0], None, "new")


def _sql(change: Change, time: int) -> str:
    at = "" if change.later is None else f" AT {time}"
    rows = ", ".join(f"({', '.join(literal(value) for value in row)})" for row in change.rows)
    if change.kind == "insert":
        return f"INSERT INTO t VALUES {rows}{at}"
    if change.kind == "update":
        return f"UPDATE t SET {change.assign} WHERE {change.where}{at}"
    if change.kind == "delete":
        return f"DELETE FROM t WHERE {change.where}{at}"
    clauses = " ".join(f"WHEN {clause}" for clause in change.clauses)
    source = (
        f"SELECT CAST(a AS INT) AS k, CAST(b AS BIGINT) AS v, CAST(c AS STRING) AS x FROM VALUES {rows} AS r(a, b, c)"
    )
    return f"MERGE INTO t USING ({source}) n ON {change.where} {clauses}{at}"


def statements_equal_the_model(engine: Engine, case: HandCase) -> None:
    model = Model(case.keyed)
    with fresh(engine) as home:
        session = home.session
        session.sql(f"CREATE TABLE t (k INT{' PRIMARY KEY' if case.keyed else ''}, v BIGINT, x STRING)")
        for change in case.steps:
            time = model.clock + (change.later or 0)
            _run(session, model, change, time)
            assert bag(session.table("t")) == Counter(model.rows), change
        for time in (0, 1, *model.history):
            assert bag(session.table("t", as_of=time)) == model.at(time), f"AS OF {time}"
        assert Counter(changes(session, "t")) == model.changes()


def _run(session: Session, model: Model, change: Change, time: int) -> None:
    """Run a statement on both: they succeed together, or fail for the same reason and leave all as it was."""
    before = session._home.snapshot().id
    failed = refused = None
    try:
        session.sql(_sql(change, time))
    except HeadraceError as error:
        failed = error.condition
    try:
        model.take(change, time)
    except Refused as error:
        refused = str(error)
    assert failed == refused, change
    if failed is not None:
        assert session._home.snapshot().id == before


@pytest.mark.slow
def test_statements_equal_the_model(engine: Engine) -> None:
    hold(statements_equal_the_model, engine, HAND_CASES, 30)
