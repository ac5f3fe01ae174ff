"""Views beside their queries: as bags, every value exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.session import Session

Bag = Counter[tuple[object, ...]]


def bag(session: Session, frame: object) -> Bag:
    """The rows of a DataFrame, however often each is there."""
    table = session.arrow(frame)
    return Counter(zip(*[column.to_pylist() for column in table.columns], strict=True))


def check(session: Session, queries: Mapping[str, str]) -> dict[str, Bag]:
    """Every view equals its query, run in batch now. Returns what they hold."""
    found: dict[str, Bag] = {}
    wrong: dict[str, str] = {}
    # The query itself is asked, not the view that has its answer.
    session.sql("ALTER HOME SET (sharing = 'never')")
    for name, query in queries.items():
        kept, wanted = bag(session, session.table(name)), bag(session, session.sql(query))
        if kept != wanted:
            wrong[name] = f"too much: {_few(kept - wanted)}, missing: {_few(wanted - kept)}"
        found[name] = kept
    assert not wrong
    return found


def _few(rows: Bag) -> str:
    return f"{rows.total()} rows, such as {list(rows)[:3]}"


def create(session: Session, queries: Mapping[str, str], *, by_changes: bool) -> None:
    """Make a view of every query; maintained by its changes, or as the planner likes: for tiny data by recompute."""
    how = " WITH (strategy = 'differential')" if by_changes else ""
    for name, query in queries.items():
        session.sql(f"CREATE VIEW {name} AS {query}{how}")


def strategies(session: Session, names: Iterable[str]) -> dict[str, str | None]:
    """By which strategy each view was last refreshed."""
    wanted = set(names)
    return {item.name: item.strategy for item in session.status() if item.name in wanted}
