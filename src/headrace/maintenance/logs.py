"""What the rows in storage mean: from an object's log to its relation, and to its tagged tuples.

Four kinds of log. All but ``state`` carry `__t`, the time a change takes effect, in microseconds.

========  ==========================  ================================================================
kind      further columns             a row means
========  ==========================  ================================================================
append    `__seq`                     one row added
upsert    `__seq`, `__op`             `+`: the key now has this row; `-`: the key is gone
signed    `__w`                       the row's weight changes by `__w`
state     `__w`, and no `__t`         the relation has the row `__w` times more, or fewer
========  ==========================  ================================================================

An upsert log is tagged when it is read, not when it lands: `u` and `+` follow from the order of a key's rows in time.
So landing needs no look-up, late rows fall into their place, and no batching of arrivals can be seen in the result.
`__seq` orders the rows of one time by arrival.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from headrace.engine import Engine
from headrace.language.types import arrow_type
from headrace.maintenance.small_logs import MOST_ROWS, PART_TIMESTAMP, RecentFiles, can_resolve, resolve
from headrace.storage.files import Files
from headrace.storage.records import Field, Object, Part
from headrace.storage.writer import MICROS

TS = Field("TS", "TIMESTAMP")
#: When a row ends that has not ended.
NEVER = (1 << 63) - 1
_MOST_GIVEN = 64
_MOST_KEPT = 16

_EXTRA = {
    "append": (Field("__t", "BIGINT"), Field("__seq", "BIGINT")),
    "upsert": (Field("__t", "BIGINT"), Field("__seq", "BIGINT"), Field("__op", "STRING")),
    "signed": (Field("__t", "BIGINT"), Field("__w", "BIGINT")),
    "state": (Field("__w", "BIGINT"),),
}


def quoted(name: str) -> str:
    """An identifier in Spark SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def listed(names: Iterable[str]) -> str:
    return ", ".join(quoted(name) for name in names)


def ddl(fields: Iterable[Field]) -> str:
    return ", ".join(f"{quoted(field.name)} {field.type}" for field in fields)


def log_fields(item: Object) -> tuple[Field, ...]:
    """The columns of an object's files."""
    return item.columns + _EXTRA[item.log]


def relation_fields(item: Object) -> tuple[Field, ...]:
    """The columns a query sees."""
    return item.columns + ((TS,) if item.option("exposes_ts") else ())


def tag_names(item: Object) -> tuple[str, str]:
    """What the tag and the time of a tagged tuple are called: `op` and `ts`, unless the row has such columns itself."""
    taken = {name.lower() for name in item.names}
    return ("__op" if "op" in taken else "op"), ("__ts" if "ts" in taken else "ts")


class Logs:
    """Reads logs of one home on one engine."""

    def __init__(self, engine: Engine, files: Files) -> None:
        self.engine = engine
        self.files = files
        self.recent = RecentFiles(files)
        # Views that are refreshed together read the same relations: each is given to the engine once.
        self._given: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        #: What was worked out from logs and is worth keeping while they are the same.
        self.kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def keep(self, key: tuple[Any, ...], value: Any) -> None:
        """Keep a value until others push it out."""
        self.kept[key] = value
        while len(self.kept) > _MOST_KEPT:
            self.kept.popitem(last=False)

    def rows(self, item: Object, parts: Sequence[Part], upto: int | None, since: int | None = None) -> Any:
        """The log's rows with `since` < `__t` <= `upto`, as they are stored."""
        wanted = [part for part in parts if _touches(part, upto, since)]
        paths = [self.files.spark_path(path) for part in wanted for path in part.files]
        frame = self.engine.read(paths, ddl(log_fields(item)))
        bounds = []
        if upto is not None and any(part.newest is not None and part.newest > upto for part in wanted):
            bounds.append(f"__t <= {upto}")
        if since is not None and any(part.oldest is not None and part.oldest <= since for part in wanted):
            bounds.append(f"__t > {since}")
        return frame.where(" AND ".join(bounds)) if bounds else frame

    def relation(
        self,
        item: Object,
        parts: Sequence[Part],
        upto: int | None,
        *,
        forgotten_before: int | None = None,
        extra: Sequence[str] = (),
    ) -> Any:
        """The relation at time `upto` (None: all that is stored).

        `extra` asks for columns that a star would not show: ``__t``, the time of a row's birth, ``__seq``, its place
        among those of one time (not in a signed log), and ``PART_TIMESTAMP``.
        """
        since = None if forgotten_before is None else forgotten_before - 1
        inserts_only = all(part.inserts_only for part in parts)
        if 0 < sum(part.rows for part in parts) <= MOST_ROWS:
            small = self._small_relation(item, parts, upto, since, inserts_only, extra)
            if small is not None:
                return small
        log = self.rows(item, parts, upto, since)
        shown = listed(item.names)
        if item.option("exposes_ts"):
            shown += ", timestamp_micros(__t) AS TS"
        for column in extra:
            shown += f", {extra_column(item, column)}"
        if item.log == "append" or (item.log in ("signed", "state") and inserts_only):
            return self.engine.sql(f"SELECT {shown} FROM log_rows", {"log_rows": log})
        if item.log == "upsert":
            return self._newest(item, parts, log, upto, since, shown)
        if item.log == "state":
            return self.engine.sql(_content(item), {"log_rows": log})
        return self.engine.sql(_rows_of_positive_weight(item, shown), {"log_rows": log})

    def _newest(
        self, item: Object, parts: Sequence[Part], log: Any, upto: int | None, since: int | None, shown: str
    ) -> Any:
        """The newest row of each key. Rows of which it is known that no two have the same key need no comparing."""
        known = item.option("unique_upto")
        if known is None:
            return self.engine.sql(_latest_of_each_key(item, shown), {"log_rows": log})
        first = [part for part in parts if part.arrived_in <= known]
        later = [part for part in parts if part.arrived_in > known]
        once = self.rows(item, first, upto, since)
        if not later:
            return self.engine.sql(f"SELECT {shown} FROM log_rows WHERE __op = '+'", {"log_rows": once})
        frames = {"once_": once, "later_": self.rows(item, later, upto, since)}
        return self.engine.sql(_unless_replaced(item, shown, in_order=_follow(first, later)), frames)

    def _small_relation(
        self,
        item: Object,
        parts: Sequence[Part],
        upto: int | None,
        since: int | None,
        inserts_only: bool,
        extra: Sequence[str],
    ) -> Any | None:
        """The relation of a small log, resolved here; None where only the engine can."""
        schema = pa.schema([(field.name, arrow_type(field.type)) for field in log_fields(item)])
        if not can_resolve(item, schema, inserts_only):
            return None
        paths = tuple(path for part in parts if _touches(part, upto, since) for path in part.files)
        key = (item.id, item.options.get("exposes_ts"), paths, upto, since, tuple(extra))
        if key not in self._given:
            tables = [table.select(schema.names).cast(schema) for table in self.recent.read(paths)]
            rows = pa.concat_tables(tables) if tables else schema.empty_table()
            self._given[key] = self.engine.frame(resolve(item, rows, upto, since, inserts_only, extra))
            while len(self._given) > _MOST_GIVEN:
                self._given.popitem(last=False)
        return self._given[key]

    def table(
        self,
        item: Object,
        parts: Sequence[Part],
        upto: int | None,
        *,
        forgotten_before: int | None = None,
        extra: Sequence[str] = (),
        columns: Sequence[str] | None = None,
    ) -> pa.Table | None:
        """The relation that `relation` gives, resolved here whatever its size; None where only the engine can.

        Of the item's columns, only `columns` are needed.
        """
        since = None if forgotten_before is None else forgotten_before - 1
        touched = [part for part in parts if _touches(part, upto, since)]
        # A change in an earlier part may be taken back in a later one, but parts of a view stand for themselves.
        inserts_only = all(part.inserts_only for part in (touched if item.part_wise else parts))
        schema = pa.schema([(field.name, arrow_type(field.type)) for field in log_fields(item)])
        if not can_resolve(item, schema, inserts_only):
            return None
        if columns is not None and (item.log == "append" or inserts_only) and item.log != "upsert":
            if not any(_sticks_out(part, upto, since) for part in touched):
                upto = since = None
            timed = upto is not None or since is not None or extra or item.option("exposes_ts")
            named = {*columns, *extra, *(["__t"] if timed else [])}
            schema = pa.schema([field for field in schema if field.name in named] or [schema.field(0)])
        paths = [path for part in touched for path in part.files]
        rows = schema.empty_table()
        if paths:
            rows = self.files.read(paths, schema.names).select(schema.names).cast(schema)
        return resolve(item, rows, upto, since, inserts_only, extra)

    def versions(self, item: Object, parts: Sequence[Part], upto: int | None) -> Any:
        """Every version of every key of an upsert log, with the time it began (`__from`) and ended (`__to`)."""
        return self.engine.sql(_versions(item), {"log_rows": self.rows(item, parts, upto)})

    def changes(self, item: Object, parts: Sequence[Part], upto: int | None, since: int | None = None) -> Any:
        """The tagged tuples: `op`, the row, `ts`; in the order of time."""
        if item.log == "upsert":
            # Whether a tuple is `u` depends on what came before, so the whole log is read and cut afterwards.
            text, log = _tags_of_upserts(item, since), self.rows(item, parts, upto)
        else:
            text = _tags_of_appends(item) if item.log == "append" else tags_of_signed_rows(item)
            log = self.rows(item, parts, upto, since)
        return self.engine.sql(text, {"log_rows": log})


def _touches(part: Part, upto: int | None, since: int | None) -> bool:
    if upto is not None and part.oldest is not None and part.oldest > upto:
        return False
    return not (since is not None and part.newest is not None and part.newest <= since)


def _sticks_out(part: Part, upto: int | None, since: int | None) -> bool:
    """Whether a part may have rows beyond the times that are asked for."""
    late = upto is not None and (part.newest is None or part.newest > upto)
    return late or (since is not None and (part.oldest is None or part.oldest <= since))


def extra_column(item: Object, column: str, born: str = "__t") -> str:
    """A column beside those that are shown, as SQL over a log's rows."""
    if column == PART_TIMESTAMP:
        length = (item.partition_length or 1) * MICROS
        return f"timestamp_micros(CAST(floor({born} / {length}) AS BIGINT) * {length}) AS {PART_TIMESTAMP}"
    return column


def _latest_of_each_key(item: Object, shown: str) -> str:
    newest = f"OVER (PARTITION BY {listed(item.key or ())} ORDER BY __t DESC, __seq DESC)"
    return (
        f"SELECT {shown} FROM (SELECT *, row_number() {newest} AS __rank FROM log_rows) WHERE __rank = 1 AND __op = '+'"
    )


def _follow(first: Sequence[Part], later: Sequence[Part]) -> bool:
    """Whether no row of later parts is older than one of the first: of one time, what arrives later is newer."""
    ends = [part.newest for part in first]
    begins = [part.oldest for part in later]
    if None in ends or None in begins:
        return False
    return not ends or max(end for end in ends if end is not None) <= min(time for time in begins if time is not None)


def _unless_replaced(item: Object, shown: str, *, in_order: bool) -> str:
    """Rows of `once_`, each key once, but for those that `later_` has too: of these the newest of both.

    `in_order`: that is always one of `later_`.
    """
    keys = listed(item.key or ())
    same = " AND ".join(f"once_rows.{quoted(name)} <=> later_keys.{quoted(name)}" for name in item.key or ())
    later = f"(SELECT DISTINCT {keys} FROM later_) AS later_keys"
    columns = listed([field.name for field in log_fields(item)])
    replaced = f"SELECT {columns} FROM once_ AS once_rows LEFT SEMI JOIN {later} ON {same}"
    again = f"SELECT {columns} FROM later_" + ("" if in_order else f" UNION ALL {replaced}")
    newest = _latest_of_each_key(item, shown).replace("FROM log_rows", f"FROM ({again})")
    return (
        f"SELECT {shown} FROM once_ AS once_rows LEFT ANTI JOIN {later} ON {same} WHERE __op = '+' UNION ALL {newest}"
    )


def _versions(item: Object) -> str:
    key = item.key or ()
    return (
        f"SELECT {listed(item.names)}, __t AS __from, __to FROM (SELECT *, coalesce(lead(__t) OVER"
        f" (PARTITION BY {listed(key)} ORDER BY __t), {NEVER}) AS __to FROM (SELECT *, row_number() OVER"
        f" (PARTITION BY {listed([*key, '__t'])} ORDER BY __seq DESC) AS __rank FROM log_rows) WHERE __rank = 1)"
        f" WHERE __op = '+'"
    )


def _rows_of_positive_weight(item: Object, shown: str) -> str:
    columns = listed(item.names)
    if item.part_wise:
        # What is alike in two parts is two rows.
        return (
            f"SELECT {shown} FROM (SELECT *, explode(sequence(CAST(1 AS BIGINT), __n)) AS __i FROM"
            f" (SELECT {columns}, __t, sum(__w) AS __n FROM log_rows GROUP BY {columns}, __t) WHERE __n > 0)"
        )
    return (
        f"SELECT {shown} FROM (SELECT *, explode(sequence(CAST(1 AS BIGINT), __n)) AS __i FROM"
        f" (SELECT {columns}, max(CASE WHEN __w > 0 THEN __t END) AS __t, sum(__w) AS __n FROM log_rows"
        f" GROUP BY {columns}) WHERE __n > 0)"
    )


def _content(item: Object) -> str:
    columns = listed(item.names)
    return (
        f"SELECT {columns} FROM (SELECT *, explode(sequence(CAST(1 AS BIGINT), __n)) AS __i FROM"
        f" (SELECT {columns}, sum(__w) AS __n FROM log_rows GROUP BY {columns}) WHERE __n > 0)"
    )


def _tags_of_appends(item: Object) -> str:
    op, ts = tag_names(item)
    return f"SELECT '+' AS {op}, {listed(item.names)}, timestamp_micros(__t) AS {ts} FROM log_rows ORDER BY __t, __seq"


def _tags_of_upserts(item: Object, since: int | None) -> str:
    key = item.key or ()
    columns = ", ".join(
        quoted(name) if name in key else f"CASE WHEN __op = '+' THEN {quoted(name)} END AS {quoted(name)}"
        for name in item.names
    )
    op, ts = tag_names(item)
    after = "" if since is None else f" AND __t > {since}"
    return (
        f"SELECT CASE WHEN __op = '-' THEN '-' WHEN __before = '+' THEN 'u' ELSE '+' END AS {op}, {columns},"
        f" timestamp_micros(__t) AS {ts} FROM (SELECT *, lag(__op) OVER (PARTITION BY {listed(key)} ORDER BY __t)"
        f" AS __before FROM (SELECT *, row_number() OVER (PARTITION BY {listed([*key, '__t'])} ORDER BY __seq DESC)"
        f" AS __rank FROM log_rows) WHERE __rank = 1)"
        f" WHERE (__op = '+' OR __before = '+'){after} ORDER BY __t, __seq"
    )


def tags_of_signed_rows(item: Object) -> str:
    """SQL over `log_rows` for the tagged tuples of signed rows: `u` where a key loses a row and gains one."""
    names = listed(item.names)
    op, ts = tag_names(item)
    net = f"SELECT {names}, __t, sum(__w) AS __n FROM log_rows GROUP BY {names}, __t HAVING sum(__w) <> 0"
    if item.key is None:
        return (
            f"SELECT CASE WHEN __n > 0 THEN '+' ELSE '-' END AS {op}, {names}, timestamp_micros(__t) AS {ts} FROM"
            f" (SELECT *, explode(sequence(CAST(1 AS BIGINT), abs(__n))) AS __i FROM ({net})) ORDER BY __t, __n"
        )
    columns = ", ".join(
        quoted(name) if name in item.key else f"CASE WHEN __n > 0 THEN {quoted(name)} END AS {quoted(name)}"
        for name in item.names
    )
    group = f"OVER (PARTITION BY {listed([*item.key, '__t'])})"
    return (
        f"SELECT CASE WHEN __n < 0 THEN '-' WHEN __least < 0 THEN 'u' ELSE '+' END AS {op}, {columns},"
        f" timestamp_micros(__t) AS {ts} FROM (SELECT *, explode(sequence(CAST(1 AS BIGINT), abs(__n))) AS __i FROM"
        f" (SELECT *, min(__n) {group} AS __least, max(__n) {group} AS __most FROM ({net})))"
        f" WHERE __n > 0 OR __most < 0 ORDER BY __t, __n"
    )
