"""The states of views and tables in the catalog: objects whose parts are the runs of their buckets.

So a state is committed, seen through snapshots, cleared of orphans and dropped like everything else.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from headrace.maintenance.kept import BucketChange, Held
from headrace.maintenance.operators.base import Operator, State
from headrace.maintenance.program import Program
from headrace.storage import faults
from headrace.storage.arrangements import Run
from headrace.storage.catalog import Snapshot
from headrace.storage.files import Written
from headrace.storage.records import Field, Object
from headrace.storage.runs import LAYOUT
from headrace.storage.transactions import NewPart, Transaction

KIND = "state"


def states_of(source: Snapshot | Transaction, owner: Object) -> list[Object]:
    """The states kept for an object."""
    return [item for item in source.objects(KIND) if item.option("of") == owner.id]


def held(transaction: Transaction, owner: Object, program: Program) -> dict[tuple[int, str], Held] | None:
    """Every state of a program, as the transaction sees it; None when some are missing or of another shape."""
    kept = {(item.option("operator"), item.option("state")): item for item in states_of(transaction, owner)}
    found = {}
    for placed in program.operators:
        for state in placed.operator.states:
            item = kept.get((placed.number, state.name))
            if item is None or item.option("print") != fingerprint(placed.operator, state.name):
                return None
            found[placed.number, state.name] = _held(transaction, item, state)
    return found


def held_one(transaction: Transaction, item: Object, state: State) -> Held:
    """One state as the transaction sees it."""
    return _held(transaction, item, state)


def _held(transaction: Transaction, item: Object, state: State) -> Held:
    runs: dict[int, list[Run]] = defaultdict(list)
    for part in transaction.parts(item):
        run = Run(part.files[0], part.rows, part.bytes, part.inserts_only, part.oldest, part.newest)
        runs[part.first].append(run)
    folder = transaction.files.object_folder(item.name)
    return Held(state, item.id, folder, {bucket: tuple(all_) for bucket, all_ in runs.items()})


def create(
    transaction: Transaction, owner: Object, program: Program, options: Mapping[str, Any], *, but: str | None = None
) -> dict[tuple[int, str], Held]:
    """Fresh, empty states for a program, in place of those there were, but for one of that name."""
    for item in states_of(transaction, owner):
        if item.option("state") != but:
            transaction.end(item)
    made = {}
    for placed in program.operators:
        for state in {state.name: state for state in placed.operator.states}.values():
            print_ = fingerprint(placed.operator, state.name)
            item = transaction.create(
                Object(
                    0,
                    f"__state_{owner.id}_{placed.number}_{state.name}_{transaction.version}_{uuid.uuid4().hex[:4]}",
                    KIND,
                    "none",
                    state.purpose,
                    tuple(Field(column.name, column.type) for column in (*state.columns, *state.measures)),
                    state.key,
                    options={
                        **options,
                        "of": owner.id,
                        "operator": placed.number,
                        "state": state.name,
                        "print": print_,
                    },
                    system=True,
                )
            )
            made[placed.number, state.name] = _held(transaction, item, state)
    return made


def apply(transaction: Transaction, changes: Iterable[BucketChange]) -> int:
    """Take the runs that tasks wrote into the transaction. Returns how many rows of state were looked at."""
    looked_at = 0
    gone: dict[int, set[str]] = defaultdict(set)
    faults.reach("states written")
    for change in changes:
        looked_at += change.looked_at
        gone[change.state].update(change.gone)
        for run in change.new:
            transaction.add_part(
                NewPart(
                    change.state,
                    change.bucket,
                    change.bucket,
                    (Written(run.path, run.rows, run.bytes),),
                    run.oldest,
                    run.newest,
                    run.inserts_only,
                )
            )
    for item in transaction.objects(KIND):
        if paths := gone.get(item.id):
            transaction.remove_parts([part for part in transaction.parts(item) if part.files[0] in paths])
    return looked_at


def forget_dead(transaction: Transaction, owner: Object, now: int) -> None:
    """Drop the runs of which every row has died: the catalog alone is touched."""
    for item in states_of(transaction, owner):
        dead = [part for part in transaction.parts(item) if part.newest is not None and part.newest <= now]
        transaction.remove_parts(dead)


def drop(transaction: Transaction, owner: Object) -> None:
    for item in states_of(transaction, owner):
        transaction.end(item)


def moved_to(transaction: Transaction, item: Object, options: Mapping[str, Any]) -> None:
    """Note how far a state has come."""
    transaction.alter(replace(item, options={**item.options, **options}))


def fingerprint(operator: Operator, name: str) -> str:
    """Tells states of one shape from those of another, so that none is taken for what it is not."""
    declared = [LAYOUT, *(repr(state) for state in operator.states if state.name == name)]
    return hashlib.sha256("|".join(declared).encode()).hexdigest()[:16]
