"""The helper of a pattern where a group may have many rows in a part: they are put in order and taken one by one.

The rows of a group are an array of structs, ordered by time and then by all else that the machine reads, so that the
result does not depend on their arrival. ``aggregate`` folds them into the run, a struct of the helper's columns.
"""

from __future__ import annotations

from headrace.algebra.part_wise.patterns.runs import JOINED, Runs, unlike
from headrace.algebra.part_wise.patterns.state_machine import NEW, PREV
from headrace.language import quote_name


def folded_initialize(runs: Runs, index: str) -> str:
    """The runs at the end of the first part."""
    rows, run = unlike("arrived", runs.groups), unlike("run", runs.groups)
    folded = f"AGGREGATE({rows}, {_struct(runs, '0', _nothing(runs))}, {_fold(runs)})"
    inner = ", ".join([*runs.groups, f"{folded} AS {run}"])
    ordered = _in_order(runs, index, rows)
    return f"SELECT {_columns(runs, run)} FROM (SELECT {inner} FROM ({ordered})) WHERE {run}.{runs.state} > 0"


def folded_update(runs: Runs, index: str) -> str:
    """The runs at the end of part `index`, from those before it."""
    rows, run = unlike("arrived", runs.groups), unlike("run", runs.groups)
    before = _struct(runs, f"COALESCE({PREV}.{runs.state}, 0)", [f"{PREV}.{kept.name}" for kept in runs.kept])
    folded = f"CASE WHEN {NEW}.{rows} IS NULL THEN {before} ELSE AGGREGATE({NEW}.{rows}, {before}, {_fold(runs)}) END"
    inner = ", ".join([*runs.either_group(), f"{folded} AS {run}"])
    still_open = runs.still_open()
    where = f" WHERE {NEW}.{rows} IS NOT NULL OR {still_open}" if still_open is not None else ""
    return (
        f"SELECT {_columns(runs, run)} FROM (SELECT {inner} FROM ({_in_order(runs, index, rows)}) AS {NEW} "
        f"FULL OUTER JOIN {runs.previous(index)} ON {runs.same_group()}{where}) WHERE {run}.{runs.state} > 0"
    )


def _in_order(runs: Runs, index: str, rows: str) -> str:
    """Each group with its new rows."""
    names = runs.columns_read()
    for name in names:
        if "MAP<" in runs.bound.types[name]:
            raise runs.bound.error(
                "BAD_PATTERN",
                f"Column {name} is a map, and maps have no order in which rows of the same time could be taken.",
                "Take what the pattern needs out of the map in a view, and read that.",
            )
    fields = ", ".join(map(quote_name, names)) or "1 AS one"
    selected = ", ".join([*runs.groups, f"ARRAY_SORT(COLLECT_LIST(STRUCT({fields}))) AS {rows}"])
    filters = runs.filters()
    # Without GROUP BY there is a row even for no rows, which would look like news of the only group.
    grouped = f" GROUP BY {', '.join(runs.groups)}" if runs.groups else " HAVING COUNT(*) > 0"
    return f"SELECT {selected} FROM {runs.parts(index)}" + (f" WHERE {filters}" if filters else "") + grouped


def _fold(runs: Runs) -> str:
    """What becomes of a run with one more row."""
    cases = [
        (condition, _struct(runs, str(state), [it.step(JOINED, state, f"{PREV}.{runs.state}") for it in runs.kept]))
        for state, condition in runs.moves()
    ]
    begun = _struct(runs, "1", [it.begin(JOINED) for it in runs.kept])
    begins = runs.begins()
    last = f" ELSE {_struct(runs, '0', _nothing(runs))}"
    if begins == "TRUE":
        last = f" ELSE {begun}"
    else:
        cases.append((begins, begun))
    if not cases:
        return f"({PREV}, {NEW}) -> {begun}"
    whens = " ".join(f"WHEN {condition} THEN {run}" for condition, run in cases)
    return f"({PREV}, {NEW}) -> CASE {whens}{last} END"


def _nothing(runs: Runs) -> list[str]:
    """The columns of no run: all NULL, so that the struct's fields may be NULL from the start."""
    return [f"CAST(NULL AS {it.type})" for it in runs.kept]


def _struct(runs: Runs, state: str, values: list[str]) -> str:
    fields = [f"{value} AS {kept.name}" for kept, value in zip(runs.kept, values, strict=True)]
    return f"STRUCT({', '.join([*fields, f'{state} AS {runs.state}'])})"


def _columns(runs: Runs, run: str) -> str:
    names = [*(it.name for it in runs.kept), runs.state]
    return ", ".join([*runs.groups, *(f"{run}.{name} AS {name}" for name in names)])
