"""Queries that call aggregates over rows in their order, computed as a whole at a time.

Each SELECT with such calls is taken apart (`algebra.user_aggregates.calls`). Its rows are collected in the order of the
stream, its calls are run over them, and what they give is a relation that the rest of the query reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.user_aggregates.block_of_calls import Called, From, Taken, with_hidden
from headrace.algebra.user_aggregates.builtins import builtin
from headrace.algebra.user_aggregates.calls import TakenApart, has_blocks, taken_apart
from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import way_of
from headrace.errors import DefinitionError, Place
from headrace.language import Query, RelationRef, arrow_type, ddl_type, normalise_type
from headrace.maintenance.logs import quoted
from headrace.maintenance.user_aggregates import blocks
from headrace.maintenance.user_aggregates.known import known_aggregates
from headrace.maintenance.windows import order_of
from headrace.storage.records import Field, Object

if TYPE_CHECKING:
    from headrace.maintenance.relations import Relations

#: After all times.
ENDED = 1 << 62

_NO_ORDER = ("map", "variant", "interval")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def calls_aggregates(source: Any, query: Query) -> bool:
    """Whether a query has to be taken apart; `source` is a snapshot or anything that objects are looked up in."""
    return has_blocks(query, known_aggregates(source), lambda name: _is_stream(source.find(name)))


def apart_of(relations: Relations, query: Query) -> TakenApart | None:
    """A query taken apart; None where all of it is the engine's."""
    source = relations.source

    def shown(stars: Query) -> Sequence[str]:
        frame = relations.logs.engine.checked(relations.evaluate(stars))
        return [item.name for item in frame.schema.fields]

    return taken_apart(query, known_aggregates(source), lambda name: _is_stream(source.find(name)), shown)


def _is_stream(item: Object) -> bool:
    return item.kind == "stream"


def evaluate_apart(relations: Relations, apart: TakenApart, time: int | None, *, empty: bool = False) -> Any:
    """The result at `time` of a query that was taken apart; None means now. `empty`: as if there were no rows."""
    found = {block.name: Work(relations, block, time).results(empty=empty) for block in apart.blocks}
    given = {name: relations.logs.engine.frame(table) for name, table in found.items()}
    items = {name: _as_object(name, table) for name, table in found.items()}
    seen = replace(relations, source=_Beside(relations.source, items), given={**relations.given, **given})
    return seen.evaluate(apart.outer, time)


def _as_object(name: str, table: pa.Table) -> Object:
    fields = tuple(Field(item.name, ddl_type(item.type)) for item in table.schema)
    return Object(-1, name, "table", "given", "", fields, None)


class _Beside:
    """A source that also knows the results of blocks."""

    def __init__(self, source: Any, items: dict[str, Object]) -> None:
        self._source, self._items = source, items

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def find(self, name: str, *kinds: str) -> Object:
        return self._items.get(name) or self._source.find(name, *kinds)

    def parts(self, item: Object) -> Any:
        return () if item.log == "given" else self._source.parts(item)


@dataclass(frozen=True)
class _Timed:
    """The relation whose times are those of a block's rows."""

    source: From
    item: Object
    ref: RelationRef

    @property
    def numbered(self) -> bool:
        """Whether rows of one time have numbers of arrival."""
        return self.item.log != "signed"


class Work:
    """One block at one time."""

    def __init__(self, relations: Relations, block: Taken, time: int | None) -> None:
        self.relations, self.block, self.time = relations, block, time
        self.place: Place | None = block.inner.place
        self.asked = relations.asked(block.inner)
        self.refs = self.asked.outer.relations()
        self.nested = bool(self.asked.lifted or self.asked.internal) or apart_of(relations, block.inner) is not None
        self.items = [] if self.nested else [relations.source.find(ref.name) for ref in self.refs]
        self.timed = self._timed()

    @property
    def streaming(self) -> bool:
        """Whether rows go on coming for ever: some stream is read that nothing bounds."""
        pairs = ((ref, self.relations.source.find(ref.name)) for ref in self.block.inner.relations())
        return any(
            _is_stream(item) and item.log != "upsert" and ref.window is None and ref.parts is None and ref.as_of is None
            for ref, item in pairs
        )

    def results(self, *, empty: bool = False) -> pa.Table:
        """What the block's calls give up to the time, beside the columns that it shows."""
        if empty:
            return self._run(self.time, None, empty=True).drop_columns(["__t"])
        whole = self._only_grows()
        if whole is None:
            table = self._run(self.time, self.relations.clock if self.time is None else self.time)
        else:
            table = self.relations.logs.kept.get(whole)
            if table is None:
                table = self._run(None, self.relations.clock)
                self.relations.logs.keep(whole, table)
        if self.timed is not None and self.time is not None:
            table = table.filter(pc.less_equal(table.column("__t"), self.time))
        return table.select([name for name in table.column_names if name != "__t"])

    def _only_grows(self) -> tuple[Any, ...] | None:
        """A name for all results there ever were, where those at a time are the ones that came up to it.

        So a log that is made as a whole, point by point, runs the calls once.
        """
        if self.timed is None or len(self.refs) != 1 or self.block.inner.reads_clock:
            return None
        versions = [
            one for call in self.block.calls if call.versions for one in (call.versions.base, call.versions.window)
        ]
        if any(one is not None and one.external is not None for one in versions):
            return None  # a class may be another under the same name
        ref, item = self.timed.ref, self.timed.item
        past = self.time is not None and self.time > (self.relations.clock or 0)
        plain = ref == RelationRef(ref.name) and item.log == "append" and item.option("retain") is None
        if not plain or past:
            return None
        parts = self.relations.source.parts(item)
        files = tuple(path for part in parts for path in part.files)
        reach = self.relations.reach(item, parts)
        calls = repr((self.block.calls, self.block.passed, [one.versions for one in self.block.calls]))
        return ("block", self.block.inner.sql(), calls, item.id, files, reach, self.relations.clock)

    def _run(self, time: int | None, upto: int | None, *, empty: bool = False) -> pa.Table:
        rows, types = self._rows(time, empty=empty)
        if self.timed is None and not any(call.form.active for call in self.block.calls):
            upto = ENDED  # what has no times of its own is all there: its last slot ends too
        return blocks.run_whole(self._resolved(types), rows, upto)

    def _resolved(self, types: dict[str, str]) -> blocks.Block:
        calls = tuple(self._call(call, types) for call in self.block.calls)
        return blocks.Block(calls, self.block.passed, self.streaming, known_aggregates(self.relations.source))

    def resolved(self) -> tuple[blocks.Block, Query, dict[str, str]]:
        """The block, the inner query with the times of its rows, and the types of what that gives."""
        assert self.timed is not None
        frame, _order = self._timed_rows(self.timed, None)
        kinds = _kinds(self.relations.logs.engine.checked(frame))
        types = {name: kind if kind == "void" else normalise_type(kind) for name, kind in kinds.items()}
        hidden = ("__t", "__seq") if self.timed.numbered else ("__t",)
        inner = with_hidden(self.asked.outer, [(self.timed.source.alias, name, name) for name in hidden])
        return (
            self._resolved(types),
            inner,
            {name: types[name] for name in types if not name.startswith("__s")}
            | {name: types[name] for name in hidden},
        )

    # -- the calls ------------------------------------------------------------------------------------------------

    def _call(self, call: Called, types: dict[str, str]) -> blocks.Call:
        versions = self._versions(call, [types[name] for name in call.arguments])
        way_of(versions, call.form, streaming=self.streaming, place=self.place)
        return blocks.Call(versions, call.form, call.arguments, call.partition, call.results)

    def _versions(self, call: Called, types: Sequence[str]) -> Versions:
        known = builtin(call.name.lower(), types) if call.versions is None or call.versions.base is None else None
        if call.versions is None:
            if known is None:
                raise DefinitionError(
                    "UNKNOWN_AGGREGATE",
                    f"{call.name}({', '.join(types)}) is no aggregate that is computed over rows in the order of a "
                    "stream.",
                    hint="Put it into a subquery of its own, or CREATE AGGREGATE it.",
                    place=self.place,
                )
            return known
        # A user's window version and the built-in base version are one aggregate (ESL Example 16).
        return call.versions if known is None else replace(call.versions, base=known.base)

    # -- the rows -------------------------------------------------------------------------------------------------

    def _timed(self) -> _Timed | None:
        if self.nested:
            return None
        found = [
            _Timed(source, self.items[source.number], self.refs[source.number])
            for source in self.block.sources
            if self.refs[source.number].kind == "relation" and self.items[source.number].kind != "table"
        ]
        if self.block.alone:
            return found[0] if found and found[0].item.log in ("append", "upsert", "signed") else None
        streams = [one for one in found if one.item.log == "append"]
        return streams[0] if len(streams) == 1 else None

    def _rows(self, time: int | None, *, empty: bool = False) -> tuple[pa.Table, dict[str, str]]:
        """The block's rows in their order, with `__t`, and the types of their columns."""
        engine = self.relations.logs.engine
        if self.timed is None:
            frame = self.relations.evaluate(self.block.inner, time)
            kinds = _kinds(engine.checked(frame))
            at, order = self._time_of_order(kinds), [*self.block.order, *map(quoted, _comparable(kinds))]
        else:
            frame, order = self._timed_rows(self.timed, time)
            kinds = _kinds(engine.checked(frame))
            at = "coalesce(`__t`, CAST(0 AS BIGINT))"
        shown = [name for name in kinds if not name.startswith(("__t", "__seq", "__s"))]
        columns = ", ".join([*map(quoted, shown), f"{at} AS `__t`"])
        types = {name: kinds[name] if kinds[name] == "void" else normalise_type(kinds[name]) for name in shown}
        if empty:
            fields = [(name, pa.null() if kind == "void" else arrow_type(kind)) for name, kind in types.items()]
            return pa.schema([*fields, ("__t", pa.int64())]).empty_table(), types
        # In a subquery, so that columns that are only there for the order can be sorted by.
        by = f" ORDER BY {', '.join(order)}" if order else ""
        text = f"SELECT {columns} FROM (SELECT * FROM block_rows) AS rows_{by}"
        table = engine.arrow(engine.sql(text, {"block_rows": frame}))
        return _typed(table, {**types, "__t": "BIGINT"}), types

    def _timed_rows(self, timed: _Timed, time: int | None) -> tuple[Any, list[str]]:
        """The inner query with the times of one relation, and the order of its rows."""
        self._check_order(timed)
        hidden = ("__t", "__seq") if timed.numbered else ("__t",)
        alias = timed.source.alias
        more = [(alias, name, name) for name in hidden]
        order = [quoted(name) for name in hidden]
        if not timed.numbered:
            fields = [(field.name, field.type) for field in timed.item.columns]
            by = order_of(fields, False).removeprefix("__t").removeprefix(", ")
            names = [field.name for field in timed.item.columns if quoted(field.name) in by.split(", ")]
            more += [(alias, name, f"__s{number}") for number, name in enumerate(names)]
            order += [f"`__s{number}`" for number in range(len(names))]
        query = with_hidden(self.asked.outer, more)
        at = self.relations.now if time is None and query.reads_clock else time
        return self.relations.rows(query, at, extras={timed.source.number: hidden}), order

    def _check_order(self, timed: _Timed) -> None:
        """The rows of a stream stand in its own order, which OVER may say once more."""
        own = {"ts", (timed.item.time_column or "").lower()}
        for column, order in zip(self.block.order_by, self.block.order, strict=True):
            if column is None or column.lower() not in own or " DESC" in order:
                raise DefinitionError(
                    "ORDER_OF_STREAM",
                    f"The rows of {timed.item.name} are taken in the order of the stream, and OVER asks for another.",
                    hint="Leave ORDER BY out; a table may be read in any order.",
                    place=self.place,
                )

    def _time_of_order(self, kinds: dict[str, str]) -> str:
        """The times of rows that have none: by the ORDER BY of a window of time, else all alike."""
        if not any(call.form.kind == "range" and call.form.length is not None for call in self.block.calls):
            return f"CAST({self.relations.now if self.time is None else self.time} AS BIGINT)"
        kind = kinds.get("__o0", "").split("(")[0]
        if len(self.block.order) == 1 and " DESC" not in self.block.order[0]:
            if kind in ("timestamp", "date", "timestamp_ntz"):
                return "unix_micros(CAST(`__o0` AS TIMESTAMP))"
            if kind in _NUMBERS:
                return "CAST(`__o0` * 1000000 AS BIGINT)"
        raise DefinitionError(
            "NO_ARRIVAL_TIMES",
            "A window of RANGE goes by the times of rows, and what is read here has none.",
            hint="OVER (ORDER BY t RANGE ... PRECEDING) with a column that is a time, or read one stream alone.",
            place=self.place,
        )


def _kinds(frame: Any) -> dict[str, str]:
    return {item.name: item.dataType.simpleString() for item in frame.schema.fields}


def _comparable(kinds: dict[str, str]) -> list[str]:
    return [name for name, kind in kinds.items() if not any(word in kind for word in _NO_ORDER)]


def _typed(table: pa.Table, types: dict[str, str]) -> pa.Table:
    """Rows in the types that the engine told: Sail may answer with wider ones."""
    fields = [
        field if types[field.name] == "void" else pa.field(field.name, arrow_type(types[field.name]))
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
