"""Aggregates of groups, by arithmetic where every call can be taken back exactly, else by the touched groups' rows.

`AdditiveAggregate` keeps one row a group: how many rows it has, and each sum. `GroupAggregate` keeps the rows
themselves by group, for MIN, MAX and their like, and aggregates the groups that changed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.core import Primitive
from headrace.algebra.nodes import Column
from headrace.language.types import arrow_type
from headrace.maintenance.kernels.grouping import aggregate
from headrace.maintenance.kernels.running import running
from headrace.maintenance.kernels.versions import difference, versions
from headrace.maintenance.operators.base import Input, Kept, State, bag, beside, concat, hashes_of, quote


@dataclass(frozen=True)
class NamedCall:
    """A primitive aggregate and the column it fills."""

    column: Column
    primitive: Primitive


@dataclass(frozen=True)
class AdditiveAggregate:
    """COUNT and exact SUM, by arithmetic. Without calls it is DISTINCT by counting."""

    read: Input
    keys: tuple[str, ...]
    calls: tuple[NamedCall, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._key_columns + tuple(call.column for call in self.calls)

    @property
    def _key_columns(self) -> tuple[Column, ...]:
        known = {column.name: column for column in self.read.columns}
        return tuple(known[name] for name in self.keys)

    @property
    def _measures(self) -> list[tuple[str, Primitive, str]]:
        """Name, function and type of each measure; a sum comes with the count of its values, zero when it is NULL."""
        found = [("__n", Primitive("count_rows", None), "BIGINT")]
        types = {column.name: column.type for column in self.read.columns}
        for number, call in enumerate(self.calls):
            argument = call.primitive.argument
            if argument is None:
                continue
            found.append((f"__count_{number}", Primitive("count", argument), "BIGINT"))
            if call.primitive.function == "sum":
                found.append((f"__sum_{number}", call.primitive, _sum_type(types[argument])))
        return found

    @property
    def states(self) -> tuple[State, ...]:
        keys = ", ".join(quote(name) for name in self.keys)
        shown = ", ".join([*(quote(name) for name in self.keys), *(_measure_sql(*item) for item in self._measures)])
        content = f"SELECT {shown} FROM input_" + (f" GROUP BY {keys}" if keys else " HAVING count(*) > 0")
        measures = tuple(Column(name, kind) for name, _function, kind in self._measures)
        purpose = "how often each row occurs" if not self.calls else "the count and sums of each group"
        return (State("groups", 0, self._key_columns, self.read.key, content, measures, purpose),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        moved = self.moved(changes[0])
        names = [name for name, _function, _kind in self._measures]
        old = states["groups"].lookup(hashes_of(changes[0]))
        steps = running(old, moved, list(self.keys), names)
        states["groups"].add(moved.drop_columns(["__t"]))
        return self._signed(steps)

    def moved(self, changes: pa.Table) -> pa.Table:
        """By how much changes move the measures of each group, at each time."""
        rows = self._widened(changes)
        moved = aggregate(
            rows, [*self.keys, "__h", "__t"], [(n, f.function, f.argument) for n, f, _k in self._measures]
        )
        for name, _function, kind in self._measures:
            # A sum of no values is NULL in SQL and nothing at all in arithmetic.
            at = moved.column_names.index(name)
            filled = pc.fill_null(moved.column(name).cast(arrow_type(kind)), pa.scalar(0).cast(arrow_type(kind)))
            moved = moved.set_column(at, name, filled)
        return moved

    def of_groups(self, groups: pa.Table) -> pa.Table:
        """What is given out for some groups of the state, as what has come."""
        names = {name: f"__after_{name}" for name, _function, _kind in self._measures}
        steps = groups.rename_columns([names.get(name, name) for name in groups.column_names])
        zeros = pa.array(np.zeros(groups.num_rows, dtype=np.int64))
        return self._rows(steps.append_column("__t", zeros), "__after", 1)

    def _widened(self, rows: pa.Table) -> pa.Table:
        """The changes, with BIGINTs that are summed in a wider type.

        A sum fits before and after a change, but the difference of the two need not.
        """
        for name in {call.primitive.argument for call in self.calls if call.primitive.function == "sum"}:
            at = rows.column_names.index(name)
            if pa.types.is_int64(rows.schema.field(at).type):
                rows = rows.set_column(at, name, rows.column(at).cast(pa.decimal128(19, 0)))
        return rows

    def _signed(self, steps: pa.Table) -> pa.Table:
        # A step is one group at one time, so a row is taken back by nothing but what its own step gives.
        steps = steps.filter(pc.invert(self._stays(steps)))
        gone, came = self._rows(steps, "__before", -1), self._rows(steps, "__after", 1)
        return concat([gone, came], [column.name for column in self.columns] + ["__t", "__w"])

    def _stays(self, steps: pa.Table) -> pa.ChunkedArray:
        """Whether the group's row is after a step what it was before."""

        def alike(name: str, test: Callable[[pa.ChunkedArray], pa.ChunkedArray] = lambda values: values) -> Any:
            return pc.equal(test(steps.column(f"__before_{name}")), test(steps.column(f"__after_{name}")))

        # A global aggregate has a row even over no rows.
        found = [alike("__n", lambda count: pc.greater(count, 0))] if self.keys else []
        for number, call in enumerate(self.calls):
            if call.primitive.function == "sum":
                found.append(alike(f"__count_{number}", lambda count: pc.not_equal(count, 0)))
            found.append(alike("__n" if call.primitive.argument is None else f"__{call.primitive.function}_{number}"))
        return reduce(pc.and_, found)

    def _rows(self, steps: pa.Table, side: str, weight: int) -> pa.Table:
        """The groups' rows before or after each step; a global aggregate has one even over no rows."""
        if self.keys:
            steps = steps.filter(pc.greater(steps.column(f"{side}___n"), 0))
        found = {name: steps.column(name) for name in self.keys}
        for number, call in enumerate(self.calls):
            kind = arrow_type(call.column.type)
            match call.primitive.function:
                case "count_rows":
                    values = steps.column(f"{side}___n")
                case "count":
                    values = steps.column(f"{side}___count_{number}")
                case _:
                    some = pc.not_equal(steps.column(f"{side}___count_{number}"), 0)
                    values = pc.if_else(some, steps.column(f"{side}___sum_{number}"), None)
            found[call.column.name] = _fitted(values, kind)
        found["__t"] = steps.column("__t")
        found["__w"] = pa.array(np.full(steps.num_rows, weight, dtype=np.int64))
        return pa.table(found)


@dataclass(frozen=True)
class GroupAggregate:
    """Any primitives, from the rows of the groups that changed."""

    read: Input
    keys: tuple[str, ...]
    calls: tuple[NamedCall, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def columns(self) -> tuple[Column, ...]:
        known = {column.name: column for column in self.read.columns}
        return tuple(known[name] for name in self.keys) + tuple(call.column for call in self.calls)

    @property
    def states(self) -> tuple[State, ...]:
        return (bag("rows", 0, self.read, self.read.key, "the rows of each group"),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (rows,) = changes
        old = states["rows"].lookup(hashes_of(rows))
        seen = versions(old, rows, list(self.keys))
        states["rows"].add(rows.drop_columns(["__t"]))
        calls = [(call.column.name, call.primitive.function, call.primitive.argument) for call in self.calls]
        found = aggregate(seen.rows, ["__version"], calls)
        missing = seen.spans.filter(
            pc.invert(pc.is_in(seen.spans.column("__version"), value_set=found.column("__version").combine_chunks()))
        )
        if not self.keys and missing.num_rows:
            found = _with_empty(found, missing.column("__version"), self.calls)
        for call in self.calls:
            at = found.column_names.index(call.column.name)
            found = found.set_column(
                at, call.column.name, found.column(call.column.name).cast(arrow_type(call.column.type))
            )
        keyed = beside(found, seen.spans, self.keys)
        return difference(keyed, seen.spans).select([column.name for column in self.columns] + ["__t", "__w"])


def _with_empty(found: pa.Table, empty: pa.ChunkedArray, calls: Sequence[NamedCall]) -> pa.Table:
    """The row that a global aggregate has over no rows at all: counts are zero, the rest is NULL."""
    rows: dict[str, pa.Array] = {"__version": empty.combine_chunks()}
    for call in calls:
        kind = found.schema.field(call.column.name).type
        counts = call.primitive.function in ("count", "count_rows")
        rows[call.column.name] = pa.array([0 if counts else None] * len(empty), kind)
    return pa.concat_tables([found, pa.table(rows).select(found.column_names).cast(found.schema)])


def _fitted(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise ArithmeticError(f"A sum does not fit {kind}.") from error


def _sum_type(kind: str) -> str:
    if kind.lower() in ("bigint", "long"):
        return "DECIMAL(38,0)"
    return "DECIMAL(38," + kind.split(",")[1] if kind.lower().startswith("decimal") else "BIGINT"


def _measure_sql(name: str, primitive: Primitive, kind: str) -> str:
    match primitive.function:
        case "count_rows":
            return f"count(*) AS {name}"
        case "count":
            return f"count({quote(primitive.argument or '')}) AS {name}"
        case _:
            return f"CAST(coalesce(sum({quote(primitive.argument or '')}), 0) AS {kind}) AS {name}"
