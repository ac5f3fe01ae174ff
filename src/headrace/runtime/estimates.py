"""What refreshes of a view would take, for EXPLAIN: as a whole, and by changes of some sizes."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.engine import Engine
from headrace.planner.cost import Costs, estimate
from headrace.runtime.books import Book, book_of
from headrace.runtime.home import Home
from headrace.runtime.info import counted
from headrace.runtime.plans import Plan
from headrace.runtime.program_text import effort
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

_SHARES = (0.001, 0.01)


def rows_of(snapshot: Snapshot, items: Iterable[Object]) -> int:
    """The stored rows of some objects, each counted once."""
    unique = {item.id: item for item in items}
    return sum(part.rows for item in unique.values() for part in snapshot.parts(item))


def costs_at(home: Home, snapshot: Snapshot, plan: Plan, changed: int, book: Book) -> Costs:
    """Both ways, when so many rows of all that it reads have changed."""
    whole = effort(plan.program, range(len(plan.inputs)), home.engine.levels_a_job)
    return estimate(
        home.engine.kind,
        levels=whole.stages,
        jobs=whole.jobs,
        changed=changed,
        total=rows_of(snapshot, plan.inputs),
        operators=len(plan.program.operators),
        measured=book.whole,
        here=home.fits_here(changed),
        pace=book.pace,
        extra=book.extra,
    )


def plan_lines(home: Home, snapshot: Snapshot, plan: Plan, view: Object | None) -> list[str]:
    """What both ways are estimated to take."""
    total = rows_of(snapshot, plan.inputs)
    book = Book() if view is None else book_of(snapshot, view)
    found = [costs_at(home, snapshot, plan, max(1, round(total * share)), book) for share in _SHARES]
    how = "Estimated" if book.whole is None else "Measured"
    pairs = zip(_SHARES, found, strict=True)
    by_changes = ", ".join(f"{_seconds(cost.changes)} when {share * 100:g} % of them changed" for share, cost in pairs)
    return [
        f"{how} as a whole: {_seconds(found[0].whole)} for {counted(total, 'row')}. "
        f"Estimated by the changes: {by_changes}."
    ]


def whole_line(engine: Engine, snapshot: Snapshot, inputs: Iterable[Object]) -> str:
    """What computing it as a whole costs, where there is no other way."""
    total = rows_of(snapshot, inputs)
    cost = estimate(engine.kind, levels=0, jobs=1, changed=0, total=total, operators=1, measured=None)
    return f"Every refresh reads all it is made of: {counted(total, 'row')}, at least about {_seconds(cost.whole)}."


def _seconds(value: float) -> str:
    return f"{value:.2g} s"
