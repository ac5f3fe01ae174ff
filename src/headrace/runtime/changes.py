"""The tagged stream of any object: stored where it is kept, worked out from its inputs' logs where it is not.

A view that keeps only its state has its change stream computed when somebody asks, at every point of its life. So
CHANGES is the same for every view, and the same for any batching of what arrived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.algebra.keys import infer_key
from headrace.errors import DefinitionError
from headrace.language import Query, normalise_type
from headrace.maintenance.differentiate import changes_at
from headrace.maintenance.logs import ddl, log_fields, tag_names, tags_of_signed_rows
from headrace.maintenance.old_rows import with_old_rows
from headrace.maintenance.points import point_at, points_between, points_of
from headrace.maintenance.relations import Relations, least
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.storage.records import Field, Object


def tagged(relations: Relations, item: Object, since: int | None, upto: int | None, *, old: bool = False) -> Any:
    """`op`, the row and `ts` of every change after `since` and up to `upto`, in the order of time.

    With `old`, also the row that was there before.
    """
    if old:
        # Which row that was, all tuples up to it tell.
        found = with_old_rows(relations.logs.engine, item, tagged(relations, item, None, upto))
        return found if since is None else found.where(f"unix_micros({tag_names(item)[1]}) > {since}")
    if item.kind == "source":
        raise DefinitionError(
            "SOURCE_IS_RAW",
            f"{item.name} is a raw source: it has no tagged stream of its own.",
            hint=f"CREATE STREAM s OVER {item.name} KEY NULL, then SELECT * FROM CHANGES(s).",
        )
    if item.log == "state":
        return _worked_out(relations, item, since, upto)
    parts = relations.source.parts(item)
    return relations.logs.changes(item, parts, least(upto, relations.reach(item, parts)), since)


def tagged_query(relations: Relations, query: Query) -> Any:
    """The tagged stream of a query that is asked once: SELECT STREAMED."""
    frame = relations.logs.engine.checked(relations.evaluate(query))
    columns = tuple(Field(item.name, normalise_type(item.dataType.simpleString())) for item in frame.schema.fields)
    items = [relations.source.find(ref.name) for ref in query.relations()]
    key = infer_key(query, [item.key for item in items], [column.name for column in columns])
    if relations.asked(query).internal or calls_aggregates(relations.source, query):
        key = None  # what never dies is never replaced
    pretend = Object(0, "query", "view", "signed", "", columns, key)
    points = points_between(relations, items, None, relations.now if query.reads_clock else None, None, query)
    return _tags(relations, pretend, changes_at(relations, pretend, query, points, None))


def _worked_out(relations: Relations, view: Object, since: int | None, upto: int | None) -> Any:
    refresh = relations.source.last_refresh(view)
    if refresh is None:
        return _tags(relations, view, None)
    seen = relations.as_refreshed(refresh)
    query = relations.query_of(view)
    born = view.option("born")
    # Rows from before its birth are released at its birth, also those that came after it.
    reached = refresh.point if None in (refresh.point, born) else max(refresh.point, born)
    points = points_of(seen, view, None if since is None else since + 1, least(upto, reached))
    previous = None
    if since is not None and (born is None or since >= born):
        previous = seen.evaluate(query, point_at(seen, view, since))
    return _tags(relations, view, changes_at(seen, view, query, points, previous))


def _tags(relations: Relations, view: Object, signed: pa.Table | None) -> Any:
    signed_view = replace(view, log="signed")
    engine = relations.logs.engine
    rows = engine.read([], ddl(log_fields(signed_view))) if signed is None else engine.frame(signed)
    return engine.sql(tags_of_signed_rows(signed_view), {"log_rows": rows})
