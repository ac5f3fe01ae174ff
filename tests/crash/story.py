"""What the child does until it is killed: a fixed list of operations, and what each must leave behind.

Every operation says what it does to a home and, in plain Python, to a `State` of the relations that rows are put into.
So after a crash the home must be in the state of all operations that had returned, or of one more: the one in flight,
whole or not at all. Views are not modelled; they must follow from those relations.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.session import Session

Rows = list[tuple[Any, ...]]

DECLARED = """
REGISTER SOURCE sensed (room STRING, degrees INT) FROM MEMORY;
CREATE STREAM temps OVER sensed KEY (room);
CREATE STREAM all_temps OVER sensed KEY NULL;
CREATE STREAM events (id INT, kind STRING, at INT) ORDER BY at PARTITION LENGTH 5 RETAIN 20 SECONDS;
CREATE TABLE names (room STRING PRIMARY KEY, name STRING);
CREATE TABLE notes (id INT, note STRING);
CREATE STREAMED VIEW hot AS SELECT room, degrees FROM temps WHERE degrees > 80;
CREATE VIEW named_hot AS SELECT h.room, n.name, h.degrees FROM hot h JOIN names n ON h.room = n.room;
CREATE STREAMED VIEW hot_count AS SELECT count(*) AS n FROM hot;
CREATE VIEW sums AS SELECT room, count(*) AS n, sum(degrees) AS degrees FROM all_temps GROUP BY room;
CREATE VIEW busy AS SELECT room, n FROM sums WHERE n > 1;
CREATE VIEW kinds AS SELECT kind, count(*) AS n FROM events GROUP BY kind;
CREATE STREAMED VIEW noted AS SELECT id, note FROM notes WHERE id > 1;
CREATE VIEW followed AS SELECT n.name, count(*) AS n, max(t.degrees) AS most FROM temps t LEFT JOIN names n
  ON t.room = n.room GROUP BY n.name REFRESH POLICY INCREMENTAL;
CREATE STREAMED VIEW followed_hot AS SELECT f.name, h.degrees FROM hot h JOIN names f ON h.room = f.room
  REFRESH POLICY INCREMENTAL;
"""

#: The relations rows are put into, and the columns the model has of them.
BASE = {
    "temps": "room, degrees",
    "all_temps": "room, degrees",
    "events": "id, kind, at",
    "events__late": "id, kind, at",
    "names": "room, name",
    "notes": "id, note",
    "orders": "id, room, amount",
    "orders_in__rejected": "line",
    "stock": "item, amount",
}


@dataclass
class State:
    """The relations after some operations. `waiting` are files dropped and not landed yet."""

    temps: dict[str, int] = field(default_factory=dict)
    all_temps: Rows = field(default_factory=list)
    events: Rows = field(default_factory=list)
    late: Rows = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    notes: Rows = field(default_factory=list)
    orders: Rows | None = None
    rejected: Rows | None = None
    stock: dict[str, int] | None = None
    waiting: list[tuple[str, Rows, Rows]] = field(default_factory=list)
    dynamic: set[str] = field(default_factory=set)

    def land(self) -> None:
        for target, rows, rejected in self.waiting:
            if target == "stock" and self.stock is not None:
                self.stock.update(dict(rows))
            elif target == "orders" and self.orders is not None:
                self.orders += rows
                self.rejected = (self.rejected or []) + rejected
        self.waiting.clear()

    def relations(self) -> dict[str, Rows]:
        """Every relation's rows, in one order."""
        newest = max((row[2] for row in self.events), default=0)
        kept = [row for row in self.events if row[2] >= (newest - 20) // 5 * 5]
        found: dict[str, Rows | None] = {
            "temps": list(self.temps.items()),
            "all_temps": self.all_temps,
            "events": kept,
            "events__late": self.late,
            "names": list(self.names.items()),
            "notes": self.notes,
            "orders": self.orders,
            "orders_in__rejected": self.rejected,
            "stock": None if self.stock is None else list(self.stock.items()),
        }
        return {name: sorted(rows, key=repr) for name, rows in found.items() if rows is not None}


@dataclass(frozen=True)
class Operation:
    """One call that is accepted when it returns: on a session (and the folder of files to land), and on the state."""

    name: str
    run: Callable[[Session, Path], Any]
    effect: Callable[[State], Any]


def _sql(text: str, effect: Callable[[State], Any] = lambda state: None) -> Operation:
    return Operation(text, lambda session, incoming: session.sql(text.format(incoming=incoming)), effect)


def _refresh() -> Operation:
    return Operation("refresh", lambda session, incoming: session.refresh(), State.land)


def _sense(time: int, *rows: tuple[str, int]) -> Operation:
    def effect(state: State) -> None:
        state.temps.update(dict(rows))
        state.all_temps += rows

    return Operation(f"feed sensed at {time}", lambda session, _: session.feed("sensed", rows, at=time), effect)


def _events(*rows: tuple[int, str, int]) -> Operation:
    def effect(state: State) -> None:
        for row in rows:
            newest = max((other[2] for other in state.events), default=-1)
            (state.events if row[2] >= newest else state.late).append(row)

    return Operation(f"feed events {rows}", lambda session, _: session.feed("events", rows), effect)


def _orders(name: str, rows: Rows, at: int, *bad: str) -> Operation:
    text = "".join(f"{number},{room},{amount},{at}\n" for number, room, amount in rows)
    text += "".join(f"{line}\n" for line in bad)

    def run(_session: Session, incoming: Path) -> None:
        (incoming / f"_{name}").write_text(text)
        _drop(incoming, name, at)

    return Operation(f"drop {name}", run, lambda s: s.waiting.append(("orders", rows, [(line,) for line in bad])))


def _stock(name: str, rows: list[tuple[str, int]], at: int) -> Operation:
    def run(_session: Session, incoming: Path) -> None:
        items, amounts = (list(column) for column in zip(*rows, strict=True))
        columns = {"item": items, "amount": pa.array(amounts, pa.int32()), "at": pa.array([at] * len(rows), pa.int32())}
        pq.write_table(pa.table(columns), incoming / f"_{name}")
        _drop(incoming, name, at)

    return Operation(f"drop {name}", run, lambda state: state.waiting.append(("stock", list(rows), [])))


def _drop(incoming: Path, name: str, time: int) -> None:
    """Make a finished file visible under its name; files land in the order of their times."""
    os.utime(incoming / f"_{name}", (time, time))
    os.rename(incoming / f"_{name}", incoming / name)


def _set(state: State, name: str, value: Any) -> None:
    setattr(state, name, value)


OPERATIONS: tuple[Operation, ...] = (
    _sql(
        "REGISTER SOURCE orders_in (id INT, room STRING, amount INT, at INT) FROM FILES '{incoming}/*.csv' FORMAT csv",
        lambda state: _set(state, "rejected", []),
    ),
    _sql("CREATE STREAM orders OVER orders_in KEY NULL ORDER BY at", lambda state: _set(state, "orders", [])),
    _sql(
        "REGISTER SOURCE stock_in (item STRING, amount INT, at INT) FROM FILES '{incoming}/*.parquet' FORMAT parquet",
        lambda state: state.dynamic.add("stock_in"),
    ),
    _sql("CREATE STREAM stock OVER stock_in KEY (item) ORDER BY at", lambda state: _set(state, "stock", {})),
    _sql(
        "CREATE STREAMED VIEW order_sums AS SELECT room, count(*) AS n, sum(amount) AS sum FROM orders GROUP BY room",
        lambda state: state.dynamic.add("order_sums"),
    ),
    _sense(1, ("a", 100), ("b", 70)),
    _sql(
        "INSERT INTO names VALUES ('a', 'attic') AT 1, ('b', 'bath') AT 1",
        lambda state: state.names.update(a="attic", b="bath"),
    ),
    _orders("1.csv", [(1, "a", 10), (2, "b", 20)], 1),
    _refresh(),
    _sql("ALTER HOME SET (rollup_parts = 2)"),
    _sql("ALTER HOME SET (keep_snapshots = 1)"),
    _sql("ALTER HOME SET (keep_seconds = 0)"),
    _sense(3, ("b", 90), ("c", 85)),
    _events((1, "x", 1), (2, "y", 3), (3, "x", 2)),
    _sql(
        "INSERT INTO notes VALUES (1, 'one') AT 3, (2, 'two') AT 3, (2, 'two') AT 3",
        lambda state: state.notes.extend([(1, "one"), (2, "two"), (2, "two")]),
    ),
    _orders("2.csv", [(3, "a", 5)], 4),
    _stock("1.parquet", [("pen", 3), ("cup", 1)], 4),
    _refresh(),
    _sql("UPDATE names SET name = 'bathroom' WHERE room = 'b' AT 5", lambda state: state.names.update(b="bathroom")),
    _sql("DELETE FROM notes WHERE id = 1 AT 5", lambda state: state.notes.remove((1, "one"))),
    _sense(6, ("a", 60)),
    _events((4, "y", 11), (5, "z", 17)),
    _orders("3.csv", [(4, "c", 7), (5, "c", 8)], 8, "not,a,row"),
    _refresh(),
    _sql(
        "MERGE INTO names USING (SELECT 'b' AS room, 'den' AS name UNION ALL SELECT 'c', 'cellar') AS n"
        " ON names.room = n.room WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * AT 9",
        lambda state: state.names.update(b="den", c="cellar"),
    ),
    _sql("CREATE VIEW passing AS SELECT count(*) AS n FROM orders", lambda state: state.dynamic.add("passing")),
    _sense(10, ("a", 95), ("c", 40)),
    _stock("2.parquet", [("pen", 2)], 10),
    _orders("4.csv", [(6, "a", 1)], 12),
    _events((6, "x", 31)),
    _refresh(),
    _sql("DROP VIEW passing", lambda state: state.dynamic.discard("passing")),
    _sense(14, ("b", 91)),
    _sql("DELETE FROM names WHERE room = 'a' AT 15", lambda state: state.names.pop("a")),
    _orders("5.csv", [(7, "b", 2)], 16),
    _refresh(),
)


def states() -> list[State]:
    """The state before any operation, after the first, after the second, ..."""
    found = [State()]
    for operation in OPERATIONS:
        state = copy.deepcopy(found[-1])
        operation.effect(state)
        found.append(state)
    return found


def observed(session: Session) -> dict[str, Rows]:
    """The relations as the home has them."""
    snapshot = session._home.snapshot()
    found = {}
    for name, columns in BASE.items():
        if snapshot.get(name) is not None:
            table = session.sql(f"SELECT {columns} FROM {name}").toArrow()
            found[name] = sorted(zip(*[column.to_pylist() for column in table.columns], strict=True), key=repr)
    return found


def position(session: Session, accepted: int) -> int:
    """How many operations the home has seen: those that returned, or one more that was in flight. Else an error."""
    found = observed(session)
    known = {item.name for item in session._home.snapshot().objects()}
    all_states = states()
    dynamic = {name for state in all_states for name in state.dynamic}
    for number in (accepted, accepted + 1):
        if number < len(all_states):
            state = all_states[number]
            if (state.relations(), state.dynamic) == (found, known & dynamic):
                return number
    expected = all_states[accepted].relations()
    differing = {name: (expected.get(name), found.get(name)) for name in BASE if expected.get(name) != found.get(name)}
    raise AssertionError(f"after {accepted} accepted operations, expected and found differ: {differing}")


def accepted(journal: Path) -> int:
    """How many operations had returned when the journal was last written."""
    return len(journal.read_text().splitlines()) if journal.exists() else 0


def go_on(session: Session, incoming: Path, journal: Path | None, start: int) -> None:
    """Run the operations from number `start` on, noting each in the journal once it has returned."""
    for operation in OPERATIONS[start:]:
        operation.run(session, incoming)
        if journal is not None:
            with journal.open("a") as log:
                log.write(f"{operation.name!r}\n")
                log.flush()
                os.fsync(log.fileno())
