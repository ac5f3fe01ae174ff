"""Declaring views, and streams AS SELECT: the query is checked by running it once, and that is the first refresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.algebra.determinism import check_deterministic
from headrace.algebra.keys import infer_key
from headrace.algebra.monotonic import check_monotonic
from headrace.errors import DefinitionError, NotYetMaintained
from headrace.language import CreateStream, CreateView, Query, RefreshPolicy, parse_one, quote_name
from headrace.maintenance.points import grid_of, reaches, refresh_time
from headrace.maintenance.relations import Relations
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.runtime.declaring import end_replaced, named_fields, replaced, result_fields
from headrace.runtime.definitions import check_new
from headrace.runtime.home import Home, query_of
from headrace.runtime.options import checked
from headrace.runtime.plans import rates_of, times_of
from headrace.runtime.refresh import refresh_view
from headrace.runtime.shared_views import SHARED
from headrace.runtime.starts import BEGINNING
from headrace.runtime.synchronization import synchronization_stream
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Field, Object, RefreshRecord
from headrace.storage.transactions import Transaction


def create_view(
    home: Home, transaction: Transaction, statement: CreateView | CreateStream, shared: Query | None = None
) -> tuple[Object, RefreshRecord]:
    """Declare a view and fill it; with `shared`, it is read by that query, over views that contain it."""
    relations = home.relations(transaction)
    view, query, inputs, frame = declared(home, transaction.base, relations, statement, shared)
    old = replaced(transaction.base, statement)
    if old is not None:
        end_replaced(transaction, old)
    born = _born(relations, view, query, inputs)
    # Its inputs hold nothing, so there is little to collect; Sail refuses isEmpty() of a DISTINCT.
    if born is None and home.engine.arrow(frame).num_rows:
        born = transaction.clock or 0  # a query that has rows even over nothing, such as a count
    view = transaction.create(replace(view, options={**view.options, "born": born}), inputs)
    # As later refreshes read it: printing may move a common table expression, and relations are known by their order.
    return view, refresh_view(home, transaction, view, query_of(view), inputs)


def _born(relations: Relations, view: Object, query: Query, inputs: list[Object]) -> int | None:
    """The first point of a view, at which all it then has is released."""
    found = refresh_time(relations, query, inputs, reaches(relations, inputs))
    grid = grid_of(relations, view)
    if found is None or grid is None or view.option("sync") is None:
        return found
    # A synchronized view shows nothing that came after the last point; without any, nothing at all.
    point = grid.floor(found)
    return BEGINNING if point is None else point


def declared(
    home: Home, snapshot: Snapshot, relations: Relations, statement: CreateView | CreateStream,
    shared: Query | None = None,
) -> tuple[Object, Query, list[Object], Any]:  # fmt: skip
    """What a statement declares, checked and not made: the view, its query, what it reads, its content as a frame."""
    if statement.query is None:
        raise DefinitionError("NOT_A_VIEW", f"{statement.name} has no query.")
    # Whoever only asks how the view would be kept has no regulators made for it.
    query = statement.query.through_regulators(lambda name: snapshot.get(name) is not None)
    options = _options(statement)
    if replaced(snapshot, statement) is None:
        check_new(snapshot, statement.name)
    check_query(query)
    inputs = inputs_of(snapshot, query)
    if isinstance(statement, CreateStream):
        check_monotonic(query, lambda name: snapshot.find(name).log == "append")
    if options.get("sync") is not None:
        stream = synchronization_stream(snapshot, options["sync"], statement.place)
        options["sync"] = stream.name
        inputs = [*(item for item in inputs if item.id != stream.id), stream]
    if any(item.name.lower() == statement.name.lower() for item in inputs):
        raise DefinitionError("READS_ITSELF", f"{statement.name} cannot read itself.")
    frame = home.engine.checked(relations.shaped(query))
    columns = _columns(statement, result_fields(frame))
    keys = [key_of(snapshot, ref.name) for ref in query.relations()]
    keyless = relations.asked(query).internal or calls_aggregates(relations.source, query)
    key = None if keyless else infer_key(query, keys, [column.name for column in columns])
    if shared is not None:
        shared = as_typed(home, snapshot, relations, shared, columns)
        options[SHARED] = shared.sql()
        query = shared.through_regulators(lambda name: snapshot.get(name) is not None)
        ticks = [item for item in inputs if item.name == options.get("sync")]
        inputs = [*(item for item in inputs_of(snapshot, query) if item not in ticks), *ticks]
        frame = home.engine.checked(relations.evaluate(query))
    streamed = isinstance(statement, CreateStream) or "STREAMED" in (statement.output, query.output)
    view = Object(
        0,
        statement.name,
        "stream" if isinstance(statement, CreateStream) else "view",
        "signed" if streamed or statement.partition_length else "state",
        statement.sql(),
        columns,
        key,
        partition_length=statement.partition_length,
        # The order of joins, hence what is kept, follows these: so they stay what they were at birth.
        options={**options, "rates": rates_of(snapshot, query), "spans": times_of(snapshot, query)},
    )
    return view, query, inputs, frame


def as_typed(home: Home, snapshot: Snapshot, relations: Relations, shared: Query, columns: Sequence[Field]) -> Query:
    """A query over other views, each of its columns in the type that the view's own query gives it."""
    through = shared.through_regulators(lambda name: snapshot.get(name) is not None)
    found = result_fields(home.engine.checked(relations.evaluate(through)))
    types = [None if one.type == wanted.type else wanted.type for one, wanted in zip(found, columns, strict=True)]
    return shared.with_types(types) if any(types) else shared


def _options(statement: CreateView | CreateStream) -> dict[str, Any]:
    kind = "view" if isinstance(statement, CreateView) else "stream"
    options = checked(kind, dict(statement.options), statement.name)
    if statement.retain is not None:
        options["retain"] = statement.retain
    if isinstance(statement, CreateStream):
        _check_derived(statement)
        return {**options, "derived": True}
    policy = _policy(statement.refresh)
    if statement.sync_by is not None:
        if "every" in policy or "sync" in policy:
            raise DefinitionError(
                "TWO_SYNCHRONIZATIONS",
                f"{statement.name} is told twice when it is synchronized.",
                hint="Leave out SYNC BY or the REFRESH clause.",
                place=statement.place,
            )
        policy["sync"] = statement.sync_by
    return {**options, **policy, "output": statement.output or statement.query.output}


def stream_over_relation(statement: CreateStream, item: Object) -> CreateStream:
    """CREATE STREAM ... OVER a view, stream or table: the tagged stream of its changes, whose key it has."""
    if statement.key is not None and set(statement.key) != set(item.key or ()):
        own = f"the key {', '.join(item.key)}" if item.key else "no key"
        raise DefinitionError(
            "MISPLACED_CLAUSE",
            f"{statement.name} follows {item.name}, which has {own}.",
            hint=f"Leave KEY out, or CREATE STREAM {statement.name} AS SELECT ... FROM {item.name} with another key.",
            place=statement.place,
        )
    made = parse_one(f"CREATE STREAM {quote_name(statement.name)} AS SELECT * FROM {quote_name(item.name)}")
    assert isinstance(made, CreateStream)
    return replace(statement, over=None, key=None, query=made.query)


def _check_derived(statement: CreateStream) -> None:
    """What a stream takes from its query it cannot be told."""
    given = {
        "KEY": statement.key,
        "ORDER BY": statement.order_by,
        "SLACK": statement.slack,
        "LATE": statement.late,
        "SOURCE": statement.source,
    }
    for clause, value in given.items():
        if value is not None:
            raise DefinitionError(
                "MISPLACED_CLAUSE",
                f"{statement.name} follows from its query, so {clause} has no meaning for it.",
                hint=f"Leave {clause} out; declare it on the stream the query reads.",
            )


def _policy(policy: RefreshPolicy | None) -> dict[str, Any]:
    """When a view is due: each trigger is an option of its own, and any of them suffices."""
    if policy is None:
        return {}
    found: dict[str, Any] = {} if policy.mode is None else {"policy": policy.mode.lower()}
    for trigger in policy.triggers:
        if trigger.every is not None:
            found["every"] = trigger.every
        elif trigger.rows is not None:
            found["after_rows"] = trigger.rows
        elif trigger.stream is not None:
            found["sync"] = trigger.stream
        else:
            found["on_demand"] = True
    return found


def check_query(query: Query) -> None:
    """Refuse what no view can follow."""
    features = query.features()
    if features:
        raise NotYetMaintained(features[0], place=query.place)
    if any(ref.as_of is not None for ref in query.relations()):
        raise DefinitionError(
            "AS_OF_IN_VIEW",
            "A view follows its inputs as they change, so it cannot read one AS OF a fixed time.",
            hint="Use AS OF in a SELECT, or CREATE TABLE t AS SELECT ... FROM x AS OF ... to keep that state.",
            place=query.place,
        )
    parted = next((ref for ref in query.relations() if ref.parts is not None), None)
    if parted is not None:
        raise DefinitionError(
            "PART_IN_VIEW",
            f"Which parts of {parted.name} a view reads, it must be told part by part.",
            hint="CREATE VIEW v AS INITIALIZE v[i] AS ... UPDATE v[j] AS ... PARTITION LENGTH n.",
            place=parted.place or query.place,
        )
    check_deterministic(query)


def inputs_of(snapshot: Snapshot, query: Query) -> list[Object]:
    """The objects a query reads, each once."""
    found: dict[int, Object] = {}
    for ref in query.relations():
        item = snapshot.find(ref.name)
        found[item.id] = item
    return list(found.values())


def key_of(snapshot: Snapshot, name: str) -> tuple[str, ...] | None:
    return snapshot.find(name).key


def _columns(statement: CreateView | CreateStream, found: tuple[Field, ...]) -> tuple[Field, ...]:
    """The view's columns: the query's, under the names the statement gives them."""
    given = [column if isinstance(column, str) else column.name for column in statement.columns or ()]
    return named_fields(statement.name, given, found)
