"""Declaring sources, streams and tables; altering and dropping anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.errors import DefinitionError, NotYetMaintained
from headrace.language import Alter, Column, Connector, CreateStream, CreateTable, Drop, RegisterSource, quote_name
from headrace.language.types import arrow_type
from headrace.maintenance.logs import TS
from headrace.runtime.foreign_keys import OPTION, check_altered, declare, referring, without_references
from headrace.runtime.landing import REJECTED_FIELDS
from headrace.runtime.options import checked
from headrace.runtime.shared_views import dependents, sharers, unshare
from headrace.sources.lines import check_schema
from headrace.storage.catalog import Snapshot
from headrace.storage.records import CLOCK, HELPER_SUFFIX, LATE_SUFFIX, REJECTED_SUFFIX, Field, Object
from headrace.storage.transactions import Transaction

#: The column ESL reserves for timestamps the system gives.
CURRENT_TIME = "current_time"

_ORDERING = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_LANDED = ("MEMORY", "FILES", "PORT", "RATE", "STREAMING")


def register_source(transaction: Transaction, statement: RegisterSource) -> Object:
    """Declare a source and the side stream of what it rejects."""
    check_new(transaction.base, statement.name)
    return _source(
        transaction,
        statement.name,
        fields_of(statement.columns),
        statement.connector,
        statement.options,
        statement.sql(),
    )


def _source(
    transaction: Transaction,
    name: str,
    columns: tuple[Field, ...],
    connector: Connector,
    given: Mapping[str, Any],
    definition: str,
) -> Object:
    if connector.kind not in _LANDED:
        raise NotYetMaintained(f"REGISTER SOURCE ... FROM {connector.kind}")
    options = {**checked("source", given, name), "connector": connector.kind, **connector.arguments}
    if connector.kind in ("PORT", "FILES"):
        _check_connector(name, connector, columns)
    if connector.kind == "RATE" and float(connector.arguments["rows_per_second"]) <= 0:
        raise DefinitionError("BAD_OPTION", f"RATE {connector.arguments['rows_per_second']} must be above 0.")
    if connector.kind == "STREAMING":
        options["options"] = dict(connector.arguments["options"])
    source = transaction.create(Object(0, name, "source", "none", definition, columns, None, options=options))
    rejected = Object(0, name + REJECTED_SUFFIX, "stream", "append", "", REJECTED_FIELDS, None, "internal", system=True)
    transaction.create(replace(rejected, options={"exposes_ts": True}), [source])
    return source


def _check_connector(name: str, connector: Connector, columns: Sequence[Field]) -> None:
    if connector.kind == "PORT" and not 0 <= connector.arguments["port"] <= 65535:
        raise DefinitionError(
            "BAD_PORT", f"{connector.arguments['port']} is not a port ({name}).", hint="Ports are 1 to 65535."
        )
    if connector.arguments.get("format") != "parquet":
        check_schema(pa.schema([(field.name, arrow_type(field.type)) for field in columns]))


def create_stream(transaction: Transaction, statement: CreateStream) -> tuple[Object, Object | None]:
    """Declare a stream over a source or with columns of its own. Returns it and its source."""
    snapshot = transaction.base
    check_new(snapshot, statement.name)
    given = {
        **statement.options,
        **({} if statement.slack is None else {"slack": statement.slack / 1_000_000}),
        **({} if statement.late is None else {"late": statement.late}),
        **({} if statement.retain is None else {"retain": statement.retain / 1_000_000}),
    }
    options = checked("stream", given, statement.name)
    source = _source_of(transaction, statement)
    columns = fields_of(statement.columns) if statement.columns is not None else source.columns  # type: ignore[union-attr]
    time_kind, time_column = _time(statement, columns)
    if "op" in options:
        _check_operation(statement, columns, options["op"])
        options["declared"] = [vars(field) for field in columns]
        columns = tuple(field for field in columns if field.name.lower() != options["op"].lower())
    key = _key(statement, columns)
    if statement.over is not None and TS.name.lower() not in {field.name.lower() for field in columns}:
        options["exposes_ts"] = True
    made = Object(
        0,
        statement.name,
        "stream",
        "upsert" if key else "append",
        statement.sql(),
        columns,
        key,
        time_kind,
        time_column,
        statement.partition_length,
        options,
    )
    stream = transaction.create(_with_foreign_keys(snapshot, made, statement), [] if source is None else [source])
    # Whatever the policy is now: it may be altered.
    side = Object(0, stream.name + LATE_SUFFIX, "stream", "append", "", columns, None, time_kind, system=True)
    transaction.create(replace(side, options={"exposes_ts": bool(options.get("exposes_ts"))}), [stream])
    return stream, source


def _source_of(transaction: Transaction, statement: CreateStream) -> Object | None:
    if statement.over is not None:
        return transaction.base.find(statement.over)
    if statement.source is None:
        return None
    # ESL names the port in the stream's own declaration: the source behind it is ours.
    columns = fields_of(statement.columns or ())
    columns = tuple(field for field in columns if field.name.lower() != CURRENT_TIME)
    name = f"{statement.name}__source"
    return _source(transaction, name, columns, statement.source, {}, f"-- made for {statement.name}")


def _time(statement: CreateStream, columns: Sequence[Field]) -> tuple[str, str | None]:
    """ESL's three kinds: external (a column of the row), internal (given on arrival) and latent (given when needed)."""
    if statement.order_by is None:
        return ("internal" if statement.over is not None else "latent"), None
    wanted = statement.order_by.lower()
    found = next((field for field in columns if field.name.lower() == wanted), None)
    if found is None:
        raise DefinitionError(
            "UNKNOWN_COLUMN",
            f"{statement.name} is ordered by {statement.order_by}, which is no column of it.",
            hint=f"It has: {', '.join(field.name for field in columns)}.",
        )
    if wanted == CURRENT_TIME:
        return "internal", found.name
    if not found.type.startswith(_ORDERING):
        raise DefinitionError(
            "NOT_A_TIME",
            f"{statement.name} cannot be ordered by {found.name}: {found.type} is not a time.",
            hint="Use a TIMESTAMP, a DATE, or a number of seconds since the epoch.",
        )
    return "external", found.name


def _check_operation(statement: CreateStream, columns: Sequence[Field], op: str) -> None:
    if op.lower() not in {field.name.lower() for field in columns}:
        raise DefinitionError(
            "UNKNOWN_COLUMN",
            f"op = '{op}' names no column of {statement.name}.",
            hint=f"It has: {', '.join(field.name for field in columns)}.",
        )
    if not statement.key:
        raise DefinitionError(
            "OP_NEEDS_KEY",
            f"{statement.name} has an operation column but no key: which row would a '-' delete?",
            hint="Add KEY (column, ...).",
        )


def _key(statement: CreateStream, columns: Sequence[Field]) -> tuple[str, ...] | None:
    return _named(statement.name, statement.key, columns) if statement.key else None


def _named(name: str, wanted: Sequence[str], columns: Sequence[Field]) -> tuple[str, ...]:
    known = {field.name.lower(): field.name for field in columns}
    for column in wanted:
        if column.lower() not in known:
            raise DefinitionError(
                "UNKNOWN_COLUMN",
                f"The key of {name} has {column}, which is no column of it.",
                hint=f"It has: {', '.join(known.values())}.",
            )
    return tuple(dict.fromkeys(known[column.lower()] for column in wanted))


def create_table(transaction: Transaction, statement: CreateTable, columns: tuple[Field, ...]) -> Object:
    """Declare a table with `columns`: the statement's own, or its query's."""
    check_new(transaction.base, statement.name)
    key = _named(statement.name, statement.key, columns) if statement.key else None
    if not statement.retroactive and key is None:
        raise DefinitionError(
            "NON_RETROACTIVE_NEEDS_KEY",
            f"{statement.name} is not retroactive, so it must be known which row replaces which.",
            hint="Declare a PRIMARY KEY (column, ...).",
        )
    options = checked("table", dict(statement.options), statement.name)
    if statement.retain is not None:
        options["retain"] = statement.retain
    if not statement.retroactive:
        options["non_retroactive"] = True
    made = Object(
        0,
        statement.name,
        "table",
        "upsert" if key else "signed",
        statement.sql(),
        columns,
        key,
        partition_length=statement.partition_length,
        options=options,
    )
    return transaction.create(_with_foreign_keys(transaction.base, made, statement))


def _with_foreign_keys(snapshot: Snapshot, made: Object, statement: CreateStream | CreateTable) -> Object:
    if not statement.foreign_keys:
        return made
    return replace(made, options={**made.options, OPTION: declare(snapshot, made, statement.foreign_keys)})


def alter(transaction: Transaction, statement: Alter) -> Object:
    """Set options of an object."""
    kind = statement.kind.lower()
    if kind not in ("source", "stream", "table", "view"):
        raise NotYetMaintained(f"ALTER {statement.kind}")
    item = transaction.base.find(statement.name or "", kind)
    if "op" in statement.settings:
        raise DefinitionError(
            "FIXED_OPTION",
            f"The operation column of {item.name} was settled when it was created.",
            hint=f"DROP {statement.kind} {quote_name(item.name)} and create it anew.",
        )
    changed = replace(item, options={**item.options, **checked(kind, statement.settings, item.name)})
    check_altered(transaction.base, item, changed)
    transaction.alter(changed)
    return changed


def drop(transaction: Transaction, statement: Drop) -> list[Object]:
    """Drop an object and its side streams; with CASCADE also what reads it. Returns what was dropped."""
    snapshot = transaction.base
    gone = doomed(snapshot, statement)
    referrers = {other.id: other for one in gone for other, _key in referring(snapshot, one) if other not in gone}
    for other in referrers.values():
        transaction.alter(without_references(other, gone))
    going = {other.id for other in gone}
    for view in sharers(snapshot, gone):
        if view.id not in going:
            unshare(transaction, view)
    for other in gone:
        transaction.end(other)
    return gone


def doomed(snapshot: Snapshot, statement: Drop) -> list[Object]:
    """What a statement drops: nothing is done yet, and it is refused where it must be."""
    if statement.if_exists and snapshot.get(statement.name) is None:
        return []
    kind = statement.kind.lower()
    if kind not in ("source", "stream", "table", "view"):
        raise NotYetMaintained(f"DROP {statement.kind}")
    item = snapshot.find(statement.name, kind)
    if item.system:
        owners = snapshot.dependents(item) if item.option("helper") else snapshot.needs(item)
        raise DefinitionError(
            "BELONGS_TO_ANOTHER",
            f"{item.name} belongs to {', '.join(other.name for other in owners)} and goes with it.",
        )
    readers = [other for other in dependents(snapshot, item) if not other.system]
    own_streams = {other.id for other in dependents(snapshot, item) if other.system}
    readers += [reader for side in own_streams for reader in dependents(snapshot, snapshot.by_id[side])]
    readers = list({reader.id: reader for reader in readers if not reader.system}.values())
    if readers and not statement.cascade:
        names = ", ".join(other.name for other in readers)
        raise DefinitionError(
            "STILL_NEEDED",
            f"{item.name} is read by {names}.",
            hint=f"Drop that first, or DROP {statement.kind} {quote_name(item.name)} CASCADE.",
        )
    gone = _closure(snapshot, item)
    referrers = {other.id: other for one in gone for other, _key in referring(snapshot, one) if other not in gone}
    if referrers and not statement.cascade:
        names = ", ".join(other.name for other in referrers.values())
        raise DefinitionError(
            "STILL_NEEDED",
            f"{item.name} is referred to by a foreign key of {names}.",
            hint=f"Drop that first, or DROP {statement.kind} {quote_name(item.name)} CASCADE, which takes only the "
            "foreign key along.",
        )
    # A source that was made for this stream alone goes with it, and so do the helpers of views.
    made_for = [other for other in snapshot.needs(item) if other.name == f"{item.name}__source"]
    made_for += [helper for one in gone for helper in snapshot.needs(one) if helper.option("helper")]
    made_for += _unread_regulators(snapshot, gone)
    for source in made_for:
        gone += [other for other in _closure(snapshot, source) if other not in gone]
    return gone


def _unread_regulators(snapshot: Snapshot, gone: list[Object]) -> list[Object]:
    """The regulators that nobody reads once some objects are gone."""
    readers = {item.id for item in gone}
    found: list[Object] = []
    pending = [item for one in gone for item in snapshot.needs(one)]
    for item in pending:
        made_for = item.option("regulator") or item.option("common")
        if made_for and item.id not in readers and all(other.id in readers for other in snapshot.dependents(item)):
            found.append(item)
            readers.add(item.id)
            pending += snapshot.needs(item)
    return found


def _closure(snapshot: Snapshot, item: Object) -> list[Object]:
    found = [item]
    for other in found:
        found += [reader for reader in dependents(snapshot, other) if reader not in found]
    return found


def check_new(snapshot: Snapshot, name: str, *, helper: bool = False) -> None:
    """A name that is free and not one of ours."""
    if name.lower() == CLOCK.lower():
        raise DefinitionError(
            "NAME_RESERVED",
            f"{CLOCK} is the stream of the clock, which is there as soon as it is read.",
            hint=f"CREATE STREAMED VIEW ticks AS SELECT Timepoint FROM {CLOCK} WHERE Timepoint mod 10 = 0.",
        )
    known = snapshot.get(name)
    if known is not None:
        raise DefinitionError(
            "NAME_TAKEN",
            f"There already is a {known.kind} called {known.name}.",
            hint=f"DROP {known.kind.upper()} {quote_name(known.name)} first, or choose another name.",
        )
    reserved = (LATE_SUFFIX, REJECTED_SUFFIX) if helper else (LATE_SUFFIX, REJECTED_SUFFIX, HELPER_SUFFIX)
    if name.lower().endswith(reserved) or name.startswith("__"):
        raise DefinitionError(
            "NAME_RESERVED",
            f"{name} is a name Headrace gives itself.",
            hint=f"Do not end names in {', '.join(reserved)}.",
        )


def check_column_name(name: str) -> None:
    """A name that no column of ours can have."""
    if name.startswith("__"):
        raise DefinitionError(
            "NAME_RESERVED",
            f"The column {name} cannot begin with two underscores: such names are Headrace's own.",
            hint=f"Give it another name, such as {name.strip('_') or 'a'}.",
        )


def fields_of(columns: Sequence[Column]) -> tuple[Field, ...]:
    """Declared columns as the catalog keeps them."""
    for column in columns:
        check_column_name(column.name)
    return tuple(Field(column.name, column.type, column.not_null) for column in columns)
