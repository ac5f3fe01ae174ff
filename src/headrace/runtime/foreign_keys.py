"""Foreign keys of tables and streams: declared, described, given to the planner, and checked where they are enforced.

They are kept in an object's options as plain data::

    {"columns": [...], "references": "customer", "referenced": [...], "enforced": bool, "rely": bool}

`referenced` are the key columns of the object `references`, each beside its column in `columns`. A key is checked when
it is `enforced` or its object has the option ``check_keys``; a plan may build on it when it is checked or `rely`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DefinitionError, InputError
from headrace.language import CreateStream, CreateTable, ForeignKey, parse_one, quote_name
from headrace.language.printing import names_sql
from headrace.maintenance.logs import listed, quoted
from headrace.planner.foreign_keys import Reference
from headrace.runtime.home import Home
from headrace.runtime.key_checks import (
    Check,
    Fault,
    ReferredBy,
    RefersTo,
    can_look_up,
    shown,
    stored_log,
)
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Field, Object
from headrace.storage.transactions import Transaction

OPTION = "foreign_keys"


@dataclass(frozen=True)
class Declared:
    """A foreign key as the catalog has it. `checked`: rows that break it are refused. `trusted`: plans build on it."""

    columns: tuple[str, ...]
    references: str
    referenced: tuple[str, ...]
    checked: bool
    trusted: bool

    def sql(self) -> str:
        """What it says, with how far it is kept."""
        kept = "ENFORCED" if self.checked else "RELY" if self.trusted else "NOT ENFORCED"
        names = f"{names_sql(self.columns)} REFERENCES {quote_name(self.references)} {names_sql(self.referenced)}"
        return f"{names} {kept}"


def foreign_keys_of(item: Object) -> list[Declared]:
    """The foreign keys an object has."""
    return [
        Declared(
            tuple(found["columns"]),
            found["references"],
            tuple(found["referenced"]),
            bool(found["enforced"] or item.option("check_keys")),
            bool(found["enforced"] or item.option("check_keys") or found.get("rely")),
        )
        for found in item.option(OPTION, ())
    ]


def referring(snapshot: Snapshot, item: Object) -> list[tuple[Object, Declared]]:
    """The foreign keys of all objects that refer to `item`."""
    return [
        (other, found)
        for other in snapshot.objects("table", "stream")
        for found in foreign_keys_of(other)
        if found.references.lower() == item.name.lower()
    ]


def describe_foreign_keys(snapshot: Snapshot, item: Object) -> list[tuple[str, str]]:
    """Lines for DESCRIBE: what the object refers to, and what refers to it."""
    lines = [("foreign key", found.sql()) for found in foreign_keys_of(item)]
    for other, found in referring(snapshot, item):
        lines.append(("referred to by", f"{other.name} {names_sql(found.columns)}"))
    return lines


def references(snapshot: Snapshot) -> tuple[Reference, ...]:
    """The foreign keys that a plan may build on."""
    return tuple(
        Reference(item.id, parent.id, found.columns, found.referenced)
        for item in snapshot.objects("table", "stream")
        for found in foreign_keys_of(item)
        if found.trusted and (parent := snapshot.get(found.references)) is not None
    )


# -- declaring ------------------------------------------------------------------------------------------------------


def declare(snapshot: Snapshot, item: Object, given: Sequence[ForeignKey]) -> list[dict[str, Any]]:
    """Check the foreign keys given for a new object; as they are stored."""
    found = []
    for foreign in given:
        own = foreign.table.lower() == item.name.lower()
        parent = item if own else snapshot.find(foreign.table, "table", "stream")
        columns = _columns(item, foreign.columns)
        referenced = _referenced(item, parent, foreign)
        for mine, other in zip(columns, referenced, strict=True):
            if mine.type != other.type:
                raise DefinitionError(
                    "FOREIGN_KEY_TYPE",
                    f"{item.name}.{mine.name} is {mine.type}, and {parent.name}.{other.name}, to which it refers, is "
                    f"{other.type}.",
                    hint=f"Declare {mine.name} {other.type}.",
                )
        enforced = foreign.enforcement == "ENFORCED"
        if enforced or item.option("check_keys"):
            _check_checkable(item, parent, columns)
        found.append(
            {
                "columns": [field.name for field in columns],
                "references": parent.name,
                "referenced": [field.name for field in referenced],
                "enforced": enforced,
                "rely": foreign.enforcement == "RELY",
            }
        )
    return found


def _columns(item: Object, names: Sequence[str]) -> list[Field]:
    known = {field.name.lower(): field for field in item.columns}
    for number, name in enumerate(names):
        if name.lower() not in known:
            raise DefinitionError(
                "UNKNOWN_COLUMN",
                f"A foreign key of {item.name} has {name}, which is no column of it.",
                hint=f"It has: {', '.join(item.names)}.",
            )
        if name.lower() in {other.lower() for other in names[:number]}:
            raise DefinitionError("DUPLICATE_COLUMN", f"A foreign key of {item.name} has the column {name} twice.")
    return [known[name.lower()] for name in names]


def _referenced(item: Object, parent: Object, foreign: ForeignKey) -> list[Field]:
    """The columns referred to, which must be the key of their object."""
    if not parent.key:
        raise DefinitionError(
            "FOREIGN_KEY_TARGET",
            f"{parent.name} has no key, so {item.name} cannot refer to its rows.",
            hint="Refer to a table with a PRIMARY KEY, or to a stream with a KEY.",
        )
    known = {field.name.lower(): field for field in parent.columns}
    names = foreign.references or parent.key
    for name in names:
        if name.lower() not in known:
            raise DefinitionError(
                "UNKNOWN_COLUMN",
                f"{parent.name}, to which {item.name} refers, has no column {name}.",
                hint=f"Its key is {names_sql(parent.key)}.",
            )
    if sorted(name.lower() for name in names) != sorted(name.lower() for name in parent.key):
        raise DefinitionError(
            "FOREIGN_KEY_TARGET",
            f"{item.name} refers to {names_sql(names)} of {parent.name}, whose key is {names_sql(parent.key)}.",
            hint=f"Write REFERENCES {quote_name(parent.name)} {names_sql(parent.key)}.",
        )
    if len(names) != len(foreign.columns):
        raise DefinitionError(
            "FOREIGN_KEY_TARGET",
            f"{item.name} names {len(foreign.columns)} columns for the key of {parent.name}, which has {len(names)}.",
            hint=f"The key is {names_sql(parent.key)}.",
        )
    return [known[name.lower()] for name in names]


def _check_checkable(item: Object, parent: Object, columns: Sequence[Field]) -> None:
    """Refuse to enforce what would not hold, or could not be looked up."""
    why = None
    if parent.maintained:
        why = f"{parent.name} follows from its query, and loses rows whether somebody refers to them or not"
    elif parent.forgets_rows and parent.option("retain") is not None:
        why = f"{parent.name} forgets rows by RETAIN, whether somebody refers to them or not"
    elif parent is item and item.kind == "stream":
        why = "a stream that refers to itself would have to be checked against rows that arrive with it"
    elif not can_look_up(columns):
        why = "keys of nested and floating types are not looked up"
    elif item.key and not can_look_up([field for field in item.columns if field.name in item.key]):
        why = f"the key of {item.name} has a nested or floating type"
    if why is not None:
        raise DefinitionError(
            "FOREIGN_KEY_UNCHECKABLE",
            f"The foreign key of {item.name} to {parent.name} cannot be enforced: {why}.",
            hint="Leave ENFORCED and check_keys out, or write RELY if you see to it yourself.",
        )


def check_altered(snapshot: Snapshot, before: Object, item: Object) -> None:
    """Refuse options under which an enforced foreign key would no longer hold."""
    if item.option("check_keys") and not before.option("check_keys"):
        for found in foreign_keys_of(item):
            parent = item if found.references.lower() == item.name.lower() else snapshot.find(found.references)
            _check_checkable(item, parent, _columns(item, found.columns))
    if item.forgets_rows and item.option("retain") is not None:
        holders = [other.name for other, found in referring(snapshot, item) if found.checked and other.id != item.id]
        if holders:
            raise DefinitionError(
                "FOREIGN_KEY_UNCHECKABLE",
                f"{', '.join(holders)} has an enforced foreign key to {item.name}, which so cannot forget rows.",
                hint=f"Leave retain out, or drop {holders[0]} first.",
            )


def without_references(item: Object, gone: Sequence[Object]) -> Object:
    """`item` without its foreign keys to objects that are dropped."""
    names = {other.name.lower() for other in gone}
    kept = [found for found in item.option(OPTION, ()) if found["references"].lower() not in names]
    statement = parse_one(item.definition)
    assert isinstance(statement, CreateTable | CreateStream)
    left = tuple(foreign for foreign in statement.foreign_keys if foreign.table.lower() not in names)
    return replace(item, options={**item.options, OPTION: kept}, definition=replace(statement, foreign_keys=left).sql())


# -- checking -------------------------------------------------------------------------------------------------------


def checks_of(transaction: Transaction, item: Object, *, written: bool = False) -> tuple[Check, ...]:
    """What rows that go into `item` must satisfy. `written`: the rows are in the transaction already."""
    found: list[Check] = []
    for key in foreign_keys_of(item):
        if key.checked:
            own = key.references.lower() == item.name.lower()
            parent = item if own else transaction.base.find(key.references)
            found.append(RefersTo(key.columns, stored_log(transaction, parent), key.referenced))
    for other, key in referring(transaction.base, item):
        if key.checked:
            child, own_log = stored_log(transaction, other), stored_log(transaction, item) if written else None
            found.append(ReferredBy(key.referenced, child, key.columns, own_log))
    return tuple(found)


def check_written(transaction: Transaction, item: Object) -> None:
    """Check the rows this transaction has added to a table's or keyed stream's log; all of them, or none, may stay."""
    checks = checks_of(transaction, item, written=True)
    added = [written.path for part in transaction.added(item) for written in part.files]
    if not checks or not added:
        return
    rows = transaction.files.read(added)
    tag = rows.column("__op") if item.log == "upsert" else rows.column("__w")
    gone = pc.equal(tag, "-") if item.log == "upsert" else pc.less(tag, 0)
    deletes = np.asarray(gone.to_numpy(), dtype=bool)
    times = rows.column("__t").to_numpy()
    for check in checks:
        faults = check.faults(rows, times, deletes)
        if faults:
            raise _refusal(item, check, rows, faults)


def _refusal(item: Object, check: Check, rows: pa.Table, faults: Sequence[Fault]) -> InputError:
    fault = faults[0]
    names = list(item.key or item.names)
    if isinstance(check, RefersTo):
        names += [name for name in check.columns if name not in names]
    row = shown(names, rows.select(names), fault.row)
    more = f" There are {len(faults):,} such rows." if len(faults) > 1 else ""
    if isinstance(check, ReferredBy):
        return InputError(
            "STILL_REFERENCED",
            f"The row {row} of {item.name} cannot go: {fault.reason}.",
            detail=f"None of the rows was changed.{more}",
            hint=f"Delete those rows of {check.child.name} first, or let them refer to another row.",
        )
    return InputError(
        "FOREIGN_KEY_MISSING",
        f"{item.name} cannot have the row {row}: {fault.reason}.",
        detail=f"None of the rows was taken in.{more}",
        hint=f"Put that row into {check.parent.name} first, or set {', '.join(check.columns)} to NULL.",
    )


def check_existing(home: Home, transaction: Transaction, item: Object) -> None:
    """Refuse to begin with checks while rows are there that would not pass them."""
    for key in foreign_keys_of(item):
        parent = transaction.base.find(key.references)
        pairs = zip(key.columns, key.referenced, strict=True)
        same = " AND ".join(f"c.{quoted(mine)} = p.{quoted(other)}" for mine, other in pairs)
        present = " AND ".join(f"c.{quoted(name)} IS NOT NULL" for name in key.columns)
        frames = {
            name: home.logs.relation(other, transaction.parts(other), None)
            for name, other in (("child_rows", item), ("parent_rows", parent))
        }
        text = (
            f"SELECT {listed(key.columns)} FROM child_rows AS c LEFT ANTI JOIN parent_rows AS p ON {same}"
            f" WHERE {present} LIMIT 1"
        )
        found = home.engine.arrow(home.engine.sql(text, frames))
        if found.num_rows:
            raise InputError(
                "FOREIGN_KEY_MISSING",
                f"{item.name} has a row with {shown(key.columns, found, 0)}, and {parent.name} has no such row.",
                detail="Nothing was changed.",
                hint=f"Put that row into {parent.name} first, or delete the row of {item.name}.",
            )
