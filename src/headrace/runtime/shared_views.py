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
    own = replace(view, options={key: value for key, value in view.options.items() if key != SHARED})
    transaction.alter(own)
    needed = own_inputs(snapshot, own)
    transaction.rewire(own, needed)
    drop_states(transaction, own)
    kept = {item.id for item in needed}
    for item in unread(snapshot, view, kept):
        transaction.end(item)
    return own


def share(transaction: Transaction, view: Object, query: str, inputs: list[Object]) -> Object:
    """Let a view be read by another query than its own."""
    made = replace(view, options={**view.options, SHARED: query})
    transaction.alter(made)
    transaction.rewire(made, inputs)
    drop_states(transaction, made)
    return made


def unread(snapshot: Snapshot, view: Object, kept: set[int]) -> list[Object]:
    """What was made only for the view to read it, and that nobody else reads: regulators, and streams of theirs."""
    found: list[Object] = []
    readers = {view.id}
    pending = [item for item in snapshot.needs(view) if item.id not in kept]
    for item in pending:
        alone = all(other.id in readers for other in snapshot.dependents(item))
        made_for = item.option("regulator") or item.option("common")
        if made_for and alone and item not in found:
            found.append(item)
            readers.add(item.id)
            pending += snapshot.needs(item)
    return found
