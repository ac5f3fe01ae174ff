"""CREATE VIEWS: views that are declared together share what they have in common (SyncSQL 5.2).

Those over the same relations, and those that join the same ones with others, are read from one view that contains what
they ask of them, at the finest of their synchronizations: the greatest common divisor of periods, or the points of any
of their streams. It belongs to them and goes with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from math import gcd

from headrace.algebra.matching.blocks import Block
from headrace.algebra.matching.common import common_query, part_of, shared_relations
from headrace.algebra.synchronization.moments import contains
from headrace.algebra.synchronization.skinned import AT_ONCE, Clocked
from headrace.language import CreateView, Query, RefreshPolicy, Trigger, quote_name
from headrace.language.synchronized import union_name
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.planner.sharing import Work, is_worth
from headrace.runtime.home import Home
from headrace.runtime.regulators import ensure_union_stream
from headrace.runtime.sharing import block_of_form, form_of, times_of, work_of
from headrace.runtime.sharing_choice import reader_of
from headrace.runtime.synchronization import ensure_clock_stream
from headrace.runtime.views import create_view
from headrace.storage.catalog import Snapshot

#: What the name of a view ends in that others were found to have in common.
COMMON_SUFFIX = "__common"


@dataclass(frozen=True)
class Common:
    """A view that some others are read from, and the streams whose points together are its own."""

    statement: CreateView
    views: tuple[str, ...]
    streams: tuple[str, ...]


@dataclass(frozen=True)
class _Wanted:
    statement: CreateView
    block: Block
    by: Clocked
    timed: bool
    sharing: str


def common_views(home: Home, statements: Sequence[CreateView]) -> list[Common]:
    """What views that are declared together have in common, where it is worth making it a view."""
    snapshot = home.snapshot()
    left = [wanted for one in statements if (wanted := _wanted(home, snapshot, one)) is not None]
    found: list[Common] = []
    for relations in shared_relations([wanted.block for wanted in left]):
        parts = [(wanted, part_of(wanted.block, relations)) for wanted in left]
        group = [replace(wanted, block=part) for wanted, part in parts if part is not None]
        common = _common(home, snapshot, group) if len(group) > 1 else None
        if common is not None:
            found.append(common)
            left = [wanted for wanted in left if wanted.statement.name not in common.views]
    return found


def _wanted(home: Home, snapshot: Snapshot, statement: CreateView) -> _Wanted | None:
    reader = reader_of(home, statement)
    if reader is None or reader.sharing == "never" or statement.query.features():
        return None
    if statement.if_not_exists and snapshot.get(statement.name) is not None:
        return None
    if any(snapshot.get(ref.name) is None for ref in statement.query.relations()):
        return None  # it reads another of the views: it is theirs already
    if calls_aggregates(snapshot, statement.query):
        return None
    form = form_of(snapshot, statement.query, reader.by)
    block = block_of_form(snapshot, form)
    if block is None or any(snapshot.find(ref.name).option("non_retroactive") for ref in form.data.relations()):
        return None
    # What all of its relations are synchronized by, it is as a whole; where they differ, nothing is left out.
    by = reader.by if not form.inner else (form.uniform or AT_ONCE)
    timed = reader.timed or by != AT_ONCE or bool(form.inner)
    return _Wanted(statement, block, by, timed, reader.sharing)


def _common(home: Home, snapshot: Snapshot, group: list[_Wanted]) -> Common | None:
    query = common_query([wanted.block for wanted in group])
    if query is None:
        return None
    names = tuple(wanted.statement.name for wanted in group)
    clock, streams = _finest(snapshot, [wanted.by for wanted in group])
    refresh = None
    if clock.every is not None:
        refresh = RefreshPolicy((Trigger("every", every=clock.every),))
    statement = CreateView(
        name=_free_name(snapshot, f"{names[0]}{COMMON_SUFFIX}"),
        query=query,
        output="STREAMED" if any(wanted.timed for wanted in group) else None,
        sync_by=clock.stream,
        refresh=refresh,
    )
    if all(wanted.sharing == "auto" for wanted in group) and not _is_worth(home, snapshot, query, group):
        return None
    return Common(statement, names, streams)


def _free_name(snapshot: Snapshot, wanted: str) -> str:
    """A name that none has: those that a view was declared with before may still read what bears the first."""
    return next(name for n in count(1) if snapshot.get(name := wanted if n == 1 else f"{wanted}_{n}") is None)


def _is_worth(home: Home, snapshot: Snapshot, query: Query, group: list[_Wanted]) -> bool:
    """Whether one view less of work for each is worth a view more."""
    own = [work_of(snapshot, wanted.statement.query) for wanted in group]
    base = work_of(snapshot, query)
    if not is_worth(Work(sum(work.cost for work in own), 0), base):
        return False
    shown = home.engine.arrow(home.relations().evaluate(query)).num_rows
    # What else a view joins it reads as before.
    rest = [Work(shown + max(0, work.rows - base.rows), work.operators) for work in own]
    then = base.cost + sum(work.cost for work in rest)
    return is_worth(Work(sum(work.cost for work in own), 0), Work(then, 0))


def _finest(snapshot: Snapshot, clocks: Sequence[Clocked]) -> tuple[Clocked, tuple[str, ...]]:
    """The coarsest synchronization that has all points of some, and the streams it is made of, if of several."""
    unique = list(dict.fromkeys(clocks))
    for clock in unique:
        if clock == AT_ONCE:
            return AT_ONCE, ()
        if all(contains(times_of(snapshot, clock), times_of(snapshot, other)) for other in unique):
            return clock, ()
    periods = [clock.every for clock in unique if clock.every is not None and clock.stream is None]
    if len(periods) == len(unique):
        return Clocked(every=reduce(gcd, periods)), ()
    streams = tuple(sorted(clock.stream for clock in unique if clock.stream is not None and clock.every is None))
    if len(streams) == len(unique):
        return Clocked(union_name(streams)), streams
    return AT_ONCE, ()


def make_common(home: Home, common: Common) -> None:
    """Make a view that others will be read from."""
    ensure_clock_stream(home, common.statement.query)
    if common.streams:
        ensure_union_stream(home, common.streams)
    with home.transaction(f"what {', '.join(map(quote_name, common.views))} have in common") as transaction:
        view, _made = create_view(home, transaction, common.statement)
        transaction.alter(replace(view, system=True, options={**view.options, "common": True}))
