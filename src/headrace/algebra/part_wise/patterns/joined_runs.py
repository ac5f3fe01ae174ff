"""The helper of a pattern where no group has more than one row in a part: the paper's join of new rows and old runs.

The inner query tells by `move` what becomes of each group: -1 there is no new row and the run stays, 0 the row begins
a run, p it takes the run to state p, and NULL there is no run any more. Such rows go at once.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.patterns.accumulators import Accumulator, Naming
from headrace.algebra.part_wise.patterns.pattern_columns import identifier
from headrace.algebra.part_wise.patterns.runs import JOINED, Runs, unlike
from headrace.algebra.part_wise.patterns.state_machine import NEW, PREV
from headrace.language import quote_name


def joined_initialize(runs: Runs, index: str) -> str:
    """The runs that rows of the first part begin."""
    items = [f"{NEW}.{group} AS {group}" for group in runs.groups]
    items += [f"{kept.begin(JOINED)} AS {kept.name}" for kept in runs.kept]
    items.append(f"1 AS {runs.state}")
    conditions = [it for it in (runs.filters(), runs.begins()) if it not in ("", "TRUE")]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(items)} FROM {runs.parts(index)} AS {NEW}{where}"


def joined_update(runs: Runs, index: str) -> str:
    """The runs after part `index`, from those before it."""
    prefix = unlike("prev_", runs.groups)
    new_prefix = unlike("new_", runs.groups)
    move = unlike("move", runs.groups)
    naming = Naming(
        lambda name: exp.Column(this=identifier(new_prefix + name)),
        lambda name: exp.Column(this=identifier(prefix + name)),
    )
    state = prefix + runs.state
    inner = runs.either_group()
    inner += [f"{NEW}.{quote_name(name)} AS {text(naming.new(name))}" for name in runs.arguments()]
    inner += [f"{PREV}.{name} AS {prefix}{name}" for name in (*(kept.name for kept in runs.kept), runs.state)]
    inner.append(f"{_move(runs)} AS {move}")
    outer = [*runs.groups, *(f"{_value(kept, naming, state, move, runs)} AS {kept.name}" for kept in runs.kept)]
    outer.append(f"CASE {move} WHEN -1 THEN {state} WHEN 0 THEN 1 ELSE {move} END AS {runs.state}")
    return (
        f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {_new_rows(runs, index)} "
        f"FULL OUTER JOIN {runs.previous(index)} ON {runs.same_group()}) WHERE {move} IS NOT NULL"
    )


def _new_rows(runs: Runs, index: str) -> str:
    """The new rows; which columns are read of them is told to the engine by the rest."""
    filters = runs.filters()
    if not filters:
        return f"{runs.parts(index)} AS {NEW}"
    names = list(dict.fromkeys([*runs.groups, *map(quote_name, runs.columns_read())]))
    if _arrived(runs) not in names:
        names.append(f"PART_TIMESTAMP AS {_arrived(runs)}")
    return f"(SELECT {', '.join(names)} FROM {runs.parts(index)} WHERE {filters}) AS {NEW}"


def _arrived(runs: Runs) -> str:
    """A column that no new row has NULL in: one that is read anyway, if there is such a column."""
    read = [*runs.groups, *map(quote_name, runs.columns_read())]
    known = {quote_name(name) for name in runs.bound.source.not_null}
    if found := [name for name in read if name in known]:
        return found[0]
    if not runs.filters():
        return "PART_TIMESTAMP"
    return unlike("arrived", read)


def _move(runs: Runs) -> str:
    stays = f"{NEW}.{_arrived(runs)} IS NULL"
    if (still_open := runs.still_open()) is not None:
        # A run that WITHIN has ended goes: with no new row, none of the cases below holds.
        stays += f" AND {still_open}"
    cases = [(stays, -1), *((condition, state) for state, condition in runs.moves())]
    begins = runs.begins()
    if still_open is not None or begins == "TRUE":
        begins = f"{NEW}.{_arrived(runs)} IS NOT NULL" + ("" if begins == "TRUE" else f" AND {begins}")
    cases.append((begins, 0))
    return f"CASE {' '.join(f'WHEN {condition} THEN {move}' for condition, move in cases)} END"


def _value(kept: Accumulator, naming: Naming, state: str, move: str, runs: Runs) -> str:
    """An accumulator's value after the move."""
    before, begin = text(naming.prev(kept.name)), kept.begin(naming)
    if kept.state is not None:
        repeats = kept.state > 1 or runs.machine.variables[0].plus
        steps = f" WHEN {kept.state} THEN {kept.step(naming, kept.state, state)}" if repeats else ""
        return f"CASE {move} WHEN 0 THEN {begin}{steps} ELSE {before} END"
    if kept.kind == "first":
        return f"CASE {move} WHEN 0 THEN {begin} ELSE {before} END"
    if kept.kind == "last":
        return f"CASE {move} WHEN -1 THEN {before} ELSE {begin} END"
    return f"CASE {move} WHEN -1 THEN {before} WHEN 0 THEN {begin} ELSE {kept.step(naming, 1, state)} END"
