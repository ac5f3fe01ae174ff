"""What every declaration of a view or a table from a query needs: its columns, and the view it may replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import DefinitionError
from headrace.language import CreateStream, CreateView, CreateViewDelta
from headrace.language.types import normalise_type
from headrace.runtime.definitions import check_column_name
from headrace.runtime.shared_views import dependents, sharers, unshare
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Field, Object
from headrace.storage.transactions import Transaction


def replaced(snapshot: Snapshot, statement: CreateView | CreateStream | CreateViewDelta) -> Object | None:
    """With OR REPLACE: the view to be replaced."""
    if isinstance(statement, CreateStream) or not statement.or_replace:
        return None
    old = snapshot.get(statement.name)
    if old is None:
        return None
    if old.kind != "view":
        raise DefinitionError("WRONG_KIND", f"{old.name} is a {old.kind}, not a view.")
    readers = dependents(snapshot, old)
    if readers:
        raise DefinitionError(
            "STILL_NEEDED",
            f"{old.name} is read by {', '.join(item.name for item in readers)} and cannot be replaced under them.",
            hint="Drop those first.",
        )
    return old


def end_replaced(transaction: Transaction, old: Object) -> None:
    """Take away a view that another takes the place of; those that were only read from it go back to themselves."""
    for view in sharers(transaction.base, [old]):
        unshare(transaction, view)
    transaction.end(old)


def result_fields(frame: Any) -> tuple[Field, ...]:
    """The columns of a DataFrame."""
    return tuple(Field(item.name, _type(item)) for item in frame.schema.fields)


def _type(item: Any) -> str:
    name = item.dataType.simpleString()
    if name == "void":
        raise DefinitionError(
            "UNTYPED_COLUMN", f"The column {item.name} is always NULL and has no type.", hint="CAST(NULL AS INT)"
        )
    return normalise_type(name)


def named_fields(name: str, given: Sequence[str], found: tuple[Field, ...]) -> tuple[Field, ...]:
    """A query's columns under the names given for them, if any; each name once and not one of ours."""
    if given:
        if len(given) != len(found):
            raise DefinitionError(
                "WRONG_COLUMN_COUNT",
                f"{name} names {len(given)} columns and its query has {len(found)}.",
                hint=f"The query's are: {', '.join(field.name for field in found)}.",
            )
        found = tuple(replace(field, name=new) for field, new in zip(found, given, strict=True))
    seen: set[str] = set()
    for field in found:
        if field.name.lower() in seen:
            raise DefinitionError(
                "DUPLICATE_COLUMN",
                f"{name} would have two columns called {field.name}.",
                hint=f"Name them apart: SELECT a.{field.name}, b.{field.name} AS other_{field.name}.",
            )
        check_column_name(field.name)
        seen.add(field.name.lower())
    return found
