"""The regulator of a relation by a synchronization stream (SyncSQL 6.1): what `S SYNC y` reads in a view.

It is a streamed view of its own, `SELECT * FROM S SYNC BY y`: its changes are those of S, netted between the points of
y and released at them, with the time of arrival in a column beside. All views that read S through y share it.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import DefinitionError
from headrace.language import CreateView, Query, parse_one, quote_name
from headrace.language.synchronized import regulator_name
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


def _create(home: Home, transaction: Transaction, name: str, relation: Object, stream: Object) -> None:
    text = (
        f"CREATE STREAMED VIEW {quote_name(name)} AS SELECT * FROM {quote_name(relation.name)} "
        f"SYNC BY {quote_name(stream.name)}"
    )
    statement = parse_one(text)
    assert isinstance(statement, CreateView)
    view, _made = create_view(home, transaction, statement)
    transaction.alter(replace(view, system=True, options={**view.options, "regulator": True}))
