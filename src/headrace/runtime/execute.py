"""One parsed statement to its effect: a function for each class of statement, and a loud default for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.algebra.monotonic import equal_with_times
from headrace.errors import DefinitionError, HeadraceError, NotYetMaintained
from headrace.language import (
    AdvanceClock,
    Alter,
    CreateAggregate,
    CreateStream,
    CreateTable,
    CreateView,
    CreateViewDelta,
    CreateViews,
    Delete,
    Describe,
    Drop,
    Explain,
    ExplainCreate,
    Insert,
    LoadAggregates,
    Merge,
    Refresh,
    RegisterSource,
    Select,
    Show,
    Statement,
    Update,
    format_time,
)
from headrace.runtime import describe, explain, status
from headrace.runtime.aggregates import create_aggregate, drop_aggregate, load_aggregates, loaded
from headrace.runtime.changes import tagged_query
from headrace.runtime.declared_together import common_views, make_common
from headrace.runtime.declaring import named_fields, result_fields
from headrace.runtime.definitions import (
    alter,
    create_stream,
    create_table,
    doomed,
    drop,
    fields_of,
    register_source,
)
from headrace.runtime.foreign_keys import check_existing
from headrace.runtime.home import Home, query_of, written_query
from headrace.runtime.info import Info, counted
from headrace.runtime.ingest import Listeners, listener_of
from headrace.runtime.merge import merge
from headrace.runtime.mutations import delete, insert, put, update
from headrace.runtime.part_views import create_part_view
from headrace.runtime.refreshing import advance, refresh
from headrace.runtime.regulators import drop_unread_regulators, ensure_regulators
from headrace.runtime.shared_views import sharers
from headrace.runtime.sharing_choice import names_of, settle_sharing, shared_answer, shared_view
from headrace.runtime.strategy import check_strict
from headrace.runtime.synchronization import ensure_clock_stream, synchronization_stream
from headrace.runtime.translated_views import create_translated_view
from headrace.runtime.translation import is_translated
from headrace.runtime.views import as_typed, create_view, stream_over_relation
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction


def execute(home: Home, listeners: Listeners, statement: Statement) -> Any:
    """Run a statement: a DataFrame for a query, an `Info` for anything else."""
    for kind, run in _RUN.items():
        if isinstance(statement, kind):
            return run(home, listeners, statement)
    raise NotYetMaintained(statement.name_of_statement, place=statement.place)


def _select(home: Home, _listeners: Listeners, statement: Select) -> Any:
    features = statement.query.features()
    if features:
        raise NotYetMaintained(features[0], place=statement.query.place)
    relations = home.relations()
    for ref in statement.query.relations():
        if ref.sync is not None:
            synchronization_stream(home.snapshot(), ref.sync, ref.place)
    if statement.query.output == "STREAMED":
        return tagged_query(relations, statement.query)
    frame = home.engine.checked(relations.evaluate(statement.query))
    shared = shared_answer(home, relations, statement.query)
    if shared is None:
        return frame
    # The answer has the columns that the query asks for, whatever it is read from.
    columns = result_fields(frame)
    typed = as_typed(home, home.snapshot(), relations, shared.query, columns)
    return home.engine.checked(relations.evaluate(typed).toDF(*(column.name for column in columns)))


def _register(home: Home, _listeners: Listeners, statement: RegisterSource) -> Info:
    with home.transaction(statement.name_of_statement) as transaction:
        source = register_source(transaction, statement)
    return _made(statement, f"Registered source {source.name}.")


def _stream(home: Home, listeners: Listeners, statement: CreateStream) -> Info:
    if statement.if_not_exists and home.snapshot().get(statement.name) is not None:
        return _made(statement, f"Stream {statement.name} was there already.")
    over = None if statement.over is None else home.snapshot().get(statement.over)
    if over is not None and over.kind != "source":
        return _view(home, listeners, stream_over_relation(statement, over))
    if statement.query is not None:
        merged = equal_with_times(statement.query, lambda name: _time_column(home.snapshot().get(name)))
        return _view(home, listeners, replace(statement, query=merged))
    with home.transaction(statement.name_of_statement) as transaction:
        stream, source = create_stream(transaction, statement)
        # The port is opened before the commit: if that fails, nothing is declared.
        listener = None
        if source is not None and source.option("connector") == "PORT" and listeners.get(source) is None:
            listener = listener_of(source).start()
    if listener is not None and source is not None:
        listeners.adopt(source, listener)
    return _made(statement, f"Created stream {stream.name}.")


def _time_column(item: Object | None) -> str | None:
    """The column that a stream's times are in, if it shows them."""
    if item is None or item.log != "append":
        return None
    return item.time_column or ("TS" if item.option("exposes_ts") else None)


def _table(home: Home, _listeners: Listeners, statement: CreateTable) -> Info:
    if statement.if_not_exists and home.snapshot().get(statement.name) is not None:
        return _made(statement, f"Table {statement.name} was there already.")
    with home.transaction(statement.name_of_statement) as transaction:
        if statement.query is None:
            table = create_table(transaction, statement, fields_of(statement.columns))
        else:
            table = _table_of_query(home, transaction, statement)
    return _made(statement, f"Created table {table.name}.")


def _table_of_query(home: Home, transaction: Transaction, statement: CreateTable) -> Object:
    frame = home.engine.checked(home.relations(transaction).evaluate(statement.query))  # type: ignore[arg-type]
    fields = named_fields(statement.name, [column.name for column in statement.columns], result_fields(frame))
    table = create_table(transaction, statement, fields)
    rows = home.engine.arrow(frame).rename_columns([field.name for field in fields])
    put(home, transaction, table, rows, None, together=True)
    return table


def _view(home: Home, _listeners: Listeners, statement: CreateView | CreateStream) -> Info:
    return _create_view(home, statement)


def _create_view(home: Home, statement: CreateView | CreateStream, *, eager: bool = False) -> Info:
    if statement.if_not_exists and home.snapshot().get(statement.name) is not None:
        return _made(statement, f"{statement.name} was there already.")
    shared = None
    if statement.query is not None:
        ensure_clock_stream(home, statement.query)
        shared = shared_view(home, statement, eager=eager)
    try:
        if statement.query is not None:
            ensure_regulators(home, statement.query if shared is None else shared.query)
            _ready_to_be_replaced(home, statement)
        with home.transaction(statement.name_of_statement) as transaction:
            if isinstance(statement, CreateView) and is_translated(home.relations(transaction), statement):
                view, made = create_translated_view(home, transaction, statement)
                return _made(statement, f"Created view {view.name}, by the {made.strategy} strategy: {made.reason}.")
            view, made = create_view(home, transaction, statement, None if shared is None else shared.query)
    except HeadraceError:
        drop_unread_regulators(home)
        raise
    if isinstance(statement, CreateView) and statement.or_replace:
        drop_unread_regulators(home)  # those of the view that is no more
    read = "" if shared is None else f" It is read from {names_of(shared)}."
    rows = counted(made.rows_out, "row")
    return _made(statement, f"Created {view.kind} {view.name}: {rows}, by {made.strategy}.{read}")


def _views(home: Home, _listeners: Listeners, statement: CreateViews) -> Info:
    for view in statement.views:
        ensure_clock_stream(home, view.query)
    common = common_views(home, statement.views)
    made: list[str] = []
    try:
        for one in common:
            make_common(home, one)
        sharing = {name for one in common for name in one.views}
        made += [str(_create_view(home, view, eager=view.name in sharing)) for view in statement.views]
    finally:
        # Those that nobody came to read: for one view fails without the others.
        drop_unread_regulators(home)
    return _made(statement, "\n".join(made))


def _ready_to_be_replaced(home: Home, statement: CreateView | CreateStream) -> None:
    """What is only read from a view that is replaced goes back to its own query, and needs what that reads."""
    old = home.snapshot().get(statement.name)
    if isinstance(statement, CreateView) and statement.or_replace and old is not None:
        for view in sharers(home.snapshot(), [old]):
            ensure_regulators(home, written_query(view))


def _part_view(home: Home, _listeners: Listeners, statement: CreateViewDelta) -> Info:
    if statement.if_not_exists and home.snapshot().get(statement.name) is not None:
        return _made(statement, f"{statement.name} was there already.")
    with home.transaction(statement.name_of_statement) as transaction:
        view, made = create_part_view(home, transaction, statement)
    return _made(statement, f"Created view {view.name}: {made.reason}.")


def _change(
    run: Callable[[Home, Transaction, Any], int], verb: str, preposition: str
) -> Callable[[Home, Listeners, Any], Info]:
    """INSERT, UPDATE, DELETE or MERGE: a transaction around `run`, and how many rows it was."""

    def change(home: Home, _listeners: Listeners, statement: Insert | Update | Delete | Merge) -> Info:
        name = statement.target if isinstance(statement, Merge) else statement.table
        with home.transaction(f"{statement.name_of_statement} {name}") as transaction:
            count = run(home, transaction, statement)
        return _made(statement, f"{verb} {counted(count, 'row')} {preposition} {name}.")

    return change


def _refresh(home: Home, listeners: Listeners, statement: Refresh) -> Info:
    done = refresh(home, listeners, statement.view)
    landed = f"Landed {counted(done.landed, 'row')}; refreshed" if done.landed else "Refreshed"
    return _made(statement, f"{landed} {counted(len(done.views), 'view')}; the home is at snapshot {done.snapshot}.")


def _advance(home: Home, _listeners: Listeners, statement: AdvanceClock) -> Info:
    done = advance(home, statement.to)
    return _made(
        statement, f"The clock is at {format_time(statement.to)}; {counted(len(done.views), 'view')} refreshed."
    )


def _alter(home: Home, _listeners: Listeners, statement: Alter) -> Info:
    with home.transaction(statement.sql()) as transaction:
        if statement.kind in ("HOME", "CLOCK"):
            renamed = {"mode": "clock"} if statement.kind == "CLOCK" else {}
            home.set_options(transaction, {renamed.get(k, k): v for k, v in statement.settings.items()})
            return _made(statement, f"Set {', '.join(statement.settings)} of the home.")
        item = alter(transaction, statement)
        if item.option("function") and "strategy" in statement.settings:
            raise DefinitionError(
                "FIXED_OPTION",
                f"The strategy of {item.name} was settled when it was created.",
                hint="CREATE OR REPLACE VIEW with another one.",
            )
        if statement.settings.get("check_keys") and item.option("check_keys"):
            check_existing(home, transaction, item)
        if item.maintained and not item.part_wise:
            check_strict(home, transaction.base, item, query_of(item))
    if "sharing" in statement.settings:
        settle_sharing(home, item.name)
    return _made(statement, f"Set {', '.join(statement.settings)} of {item.name}.")


def _aggregate(home: Home, _listeners: Listeners, statement: CreateAggregate) -> Info:
    what = f"{'window ' if statement.window else ''}aggregate {statement.name}"
    with home.transaction(f"{statement.name_of_statement} {statement.name}") as transaction:
        new = create_aggregate(transaction, statement)
    return _made(statement, f"Created {what}." if new else f"{what.capitalize()} was there already, as it is.")


def _load(home: Home, _listeners: Listeners, statement: LoadAggregates) -> Info:
    with home.transaction(statement.sql()) as transaction:
        names = load_aggregates(transaction, statement)
    return _made(statement, loaded(names))


def _drop(home: Home, listeners: Listeners, statement: Drop) -> Info:
    if statement.kind == "AGGREGATE":
        with home.transaction(statement.sql()) as transaction:
            words = ", ".join(drop_aggregate(transaction, statement))
        return _made(statement, f"Dropped {words}." if words else f"There was no {statement.name}.")
    for view in sharers(home.snapshot(), doomed(home.snapshot(), statement)):
        ensure_regulators(home, written_query(view))
    with home.transaction(statement.sql()) as transaction:
        gone = drop(transaction, statement)
    for item in gone:
        listeners.close(item)
    names = ", ".join(item.name for item in gone if not item.system)
    return _made(statement, f"Dropped {names}." if names else f"There was no {statement.name}.")


def _show(home: Home, listeners: Listeners, statement: Show) -> Info:
    return status.show(home, listeners, statement)


def _describe(home: Home, _listeners: Listeners, statement: Describe) -> Info:
    return describe.describe(home, statement)


def _explain(home: Home, _listeners: Listeners, statement: Explain) -> Info:
    return explain.explain(home, statement)


def _explain_create(home: Home, _listeners: Listeners, statement: ExplainCreate) -> Info:
    return explain.explain_create(home, statement)


def _made(statement: Statement, message: str) -> Info:
    return Info(statement.name_of_statement, message)


_RUN: dict[type[Statement], Callable[[Home, Listeners, Any], Any]] = {
    Select: _select,
    RegisterSource: _register,
    CreateStream: _stream,
    CreateTable: _table,
    CreateView: _view,
    CreateViewDelta: _part_view,
    CreateAggregate: _aggregate,
    LoadAggregates: _load,
    CreateViews: _views,
    Insert: _change(insert, "Inserted", "into"),
    Update: _change(update, "Updated", "of"),
    Delete: _change(delete, "Deleted", "from"),
    Merge: _change(merge, "Merged", "into"),
    Refresh: _refresh,
    AdvanceClock: _advance,
    Alter: _alter,
    Drop: _drop,
    Show: _show,
    Describe: _describe,
    Explain: _explain,
    ExplainCreate: _explain_create,
}

#: The statements this version executes; the language has more, which are refused by name.
EXECUTED = tuple(kind.name_of_statement for kind in _RUN)
