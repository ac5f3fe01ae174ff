"""The regulator of a relation by a synchronization stream (SyncSQL 6.1): what `S SYNC y` reads in a view.

It is a streamed view of its own, `SELECT * FROM S SYNC BY y`: its changes are those of S, netted between the points of
y and released at them, with the time of arrival in a column beside. All views that read S through y share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.errors import DefinitionError
from headrace.language import CreateView, Query, parse_one, quote_name
from headrace.language.synchronized import joint_name, regulator_name, union_name
from headrace.runtime.home import Home
from headrace.runtime.views import create_view
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction


def ensure_regulators(home: Home, query: Query) -> None:
    """Make the regulators that a view's query reads and that are not there yet."""
    for ref in query.relations():
        if ref.sync is None:
            continue
        snapshot = home.snapshot()
        if ref.window is not None or ref.parts is not None or ref.as_of is not None or ref.kind != "relation":
            raise DefinitionError(
                "SYNC_AND_MORE",
                f"{ref.name} is read through {ref.sync}, and by a window, parts or a time besides.",
                hint=f"Make a view of one: CREATE STREAMED VIEW v AS SELECT * FROM {ref.name} SYNC BY {ref.sync}.",
                place=ref.place,
            )
        relation, stream = snapshot.find(ref.name), snapshot.find(ref.sync)
        name = regulator_name(relation.name, stream.name)
        if snapshot.get(name) is None:
            with home.transaction(f"regulate {relation.name} by {stream.name}") as transaction:
                _create(home, transaction, name, relation, stream)


def drop_unread_regulators(home: Home) -> None:
    """Take away the regulators and common views that nobody reads: what they were made for could not be made."""
    while True:
        snapshot = home.snapshot()
        made = [item for item in snapshot.objects("view") if item.option("regulator") or item.option("common")]
        found = [item for item in made if not snapshot.dependents(item)]
        if not found:
            return
        with home.transaction("regulators that nobody reads") as transaction:
            for item in found:
                transaction.end(item)


def ensure_joint_stream(home: Home, streams: Sequence[str]) -> None:
    """Make the stream of the points that some synchronization streams have in common."""
    _combine(home, streams, joint_name(streams), " INTERSECT ")


def ensure_union_stream(home: Home, streams: Sequence[str]) -> None:
    """Make the stream of the points that any of some synchronization streams has."""
    _combine(home, streams, union_name(streams), " UNION ")


def _combine(home: Home, streams: Sequence[str], name: str, operator: str) -> None:
    snapshot = home.snapshot()
    if snapshot.get(name) is not None:
        return
    text = operator.join(f"SELECT * FROM {quote_name(snapshot.find(stream).name)}" for stream in streams)
    with home.transaction(f"the stream {name}") as transaction:
        _make(home, transaction, f"CREATE STREAMED VIEW {quote_name(name)} AS {text}")


def _create(home: Home, transaction: Transaction, name: str, relation: Object, stream: Object) -> None:
    text = (
        f"CREATE STREAMED VIEW {quote_name(name)} AS SELECT * FROM {quote_name(relation.name)} "
        f"SYNC BY {quote_name(stream.name)}"
    )
    _make(home, transaction, text)


def _make(home: Home, transaction: Transaction, text: str) -> None:
    statement = parse_one(text)
    assert isinstance(statement, CreateView)
    view, _made = create_view(home, transaction, statement)
    transaction.alter(replace(view, system=True, options={**view.options, "regulator": True}))
