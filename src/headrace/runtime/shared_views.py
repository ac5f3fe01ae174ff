"""Views that are read from others than their text names, because those contain them (`runtime.sharing`).

Such a view keeps both: its definition, as it was written, and in its options the query it is read by. Whatever happens
to the view it is read from, it can go back to its own query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.runtime.home import own_query, written_query
from headrace.runtime.states import drop as drop_states
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction

#: The option that has the query a view is read by.
SHARED = "shared"
#: The option of a view that reads something else since its last refresh, and cannot follow changes from there.
ANEW = "anew"


def own_inputs(snapshot: Snapshot, view: Object) -> list[Object]:
    """What a view's own query reads; a regulator that is not there is left out."""
    names = [ref.name for ref in own_query(view).relations()]
    stream = view.option("sync")
    found = [snapshot.get(name) for name in [*names, *([] if stream is None else [stream])]]
    return list({item.id: item for item in found if item is not None}.values())


def dependents(snapshot: Snapshot, item: Object) -> list[Object]:
    """What reads an object because its text says so, whether it is read from another now or not."""
    found = {other.id: other for other in snapshot.dependents(item) if not _only_shares(snapshot, other, item)}
    for view in snapshot.objects("view"):
        if view.option(SHARED) is not None and item.id in _named(snapshot, view):
            found[view.id] = view
    return list(found.values())


def sharers(snapshot: Snapshot, items: Iterable[Object]) -> list[Object]:
    """The views that read some objects though their text does not say so."""
    found = {
        other.id: other for item in items for other in snapshot.dependents(item) if _only_shares(snapshot, other, item)
    }
    return list(found.values())


def _only_shares(snapshot: Snapshot, reader: Object, item: Object) -> bool:
    return reader.option(SHARED) is not None and item.id not in _named(snapshot, reader)


def _named(snapshot: Snapshot, view: Object) -> set[int]:
    """All that a view's text names."""
    names = [name for ref in written_query(view).relations() for name in (ref.name, ref.sync) if name is not None]
    found = [snapshot.get(name) for name in names]
    return {item.id for item in (*own_inputs(snapshot, view), *found) if item is not None}


def unshare(transaction: Transaction, view: Object) -> Object:
    """Let a view go back to its own query. What it keeps is for the other; its next refresh begins anew."""
    snapshot = transaction.base
    kept = {key: value for key, value in view.options.items() if key != SHARED}
    own = replace(view, options={**kept, ANEW: True})
    transaction.alter(own)
    transaction.rewire(own, own_inputs(snapshot, own))
    drop_states(transaction, own)
    for item in _unread(transaction, view):
        transaction.end(item)
    return own


def share(transaction: Transaction, view: Object, query: str, inputs: list[Object]) -> Object:
    """Let a view be read by another query than its own."""
    made = replace(view, options={**view.options, SHARED: query, ANEW: True})
    transaction.alter(made)
    transaction.rewire(made, inputs)
    drop_states(transaction, made)
    return made


def _unread(transaction: Transaction, view: Object) -> list[Object]:
    """What was made only for views to read it, and that none reads any more: regulators, streams, common views."""
    snapshot = transaction.base
    found: list[Object] = []
    pending = list(snapshot.needs(view))
    for item in pending:
        gone = {one.id for one in found}
        readers = [other for other in snapshot.dependents(item) if other.id not in gone]
        read = any(item.id in {one.id for one in transaction.needs(other)} for other in readers)
        if (item.option("regulator") or item.option("common")) and not read and item not in found:
            found.append(item)
            pending += snapshot.needs(item)
    return found
