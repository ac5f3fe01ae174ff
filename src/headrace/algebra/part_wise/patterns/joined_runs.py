"""The helper of a pattern where no group has more than one row in a part: the paper's join of new rows and old runs.

The inner query tells by `move` what becomes of a group with a new row: 0 the row begins a run, p it takes the run to
state p, and NULL there is no run any more. Such rows go at once. The runs of groups without a new row stay.
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
    inner = [f"{NEW}.{group} AS {group}" for group in runs.groups]
    inner += [f"{NEW}.{quote_name(name)} AS {text(naming.new(name))}" for name in runs.arguments()]
    inner += [f"{PREV}.{name} AS {prefix}{name}" for name in (*(kept.name for kept in runs.kept), runs.state)]
    inner.append(f"{_move(runs)} AS {move}")
    outer = [*runs.groups, *(f"{_value(kept, naming, state, move, runs)} AS {kept.name}" for kept in runs.kept)]
    outer.append(f"CASE {move} WHEN 0 THEN 1 ELSE {move} END AS {runs.state}")
    moved = (
        f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {_new_rows(runs, index)} "
        f"LEFT OUTER JOIN {runs.previous(index)} ON {runs.same_group()}) WHERE {move} IS NOT NULL"
    )
    return f"{moved} UNION ALL {_stays(runs, index)}"


def _stays(runs: Runs, index: str) -> str:
    """The runs of groups without a new row.

    Few groups have a run, so what has come is first narrowed down to those: no step is larger than a look at all new
    rows beside the runs.
    """
    kept = [f"{PREV}.{name}" for name in (*runs.groups, *(kept.name for kept in runs.kept), runs.state)]
    still_open = runs.still_open()
    where = "" if still_open is None else f" WHERE {still_open}"
    if not runs.groups:
        came = f"NOT EXISTS (SELECT 1 FROM {_new_rows(runs, index)})"
        where = f" WHERE {came}" + ("" if still_open is None else f" AND {still_open}")
        return f"SELECT {', '.join(kept)} FROM {runs.previous(index)}{where}"
    groups = ", ".join(f"{NEW}.{group}" for group in runs.groups)
    came = f"SELECT {groups} FROM {_new_rows(runs, index)} LEFT SEMI JOIN {runs.previous(index)} ON {runs.same_group()}"
    return (
        f"SELECT {', '.join(kept)} FROM {runs.previous(index)} LEFT ANTI JOIN ({came}) AS {NEW} "
        f"ON {runs.same_group()}{where}"
    )


def _new_rows(runs: Runs, index: str) -> str:
    """The new rows; which columns are read of them is told to the engine by the rest."""
    filters = runs.filters()
    if not filters:
        return f"{runs.parts(index)} AS {NEW}"
    names = list(dict.fromkeys([*runs.groups, *map(quote_name, runs.columns_read())]))
    return f"(SELECT {', '.join(names)} FROM {runs.parts(index)} WHERE {filters}) AS {NEW}"


def _move(runs: Runs) -> str:
    cases = [(condition, state) for state, condition in runs.moves()]
    cases.append((runs.begins(), 0))
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
        return begin
    return f"CASE {move} WHEN 0 THEN {begin} ELSE {kept.step(naming, 1, state)} END"
