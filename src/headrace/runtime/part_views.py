"""Declaring views that are made part by part: by a view delta function as the user writes it (ViewDF 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.errors import DefinitionError
from headrace.language import CreateViewDelta
from headrace.maintenance.relations import Relations
from headrace.runtime.declaring import end_replaced, named_fields, replaced, result_fields
from headrace.runtime.definitions import check_new
from headrace.runtime.delta_functions import DeltaFunction, delta_function, initialize_step, inputs_of
from headrace.runtime.home import Home
from headrace.runtime.maintainer import refresh_parts
from headrace.runtime.options import checked
from headrace.storage.records import Field, Object, RefreshRecord
from headrace.storage.transactions import Transaction

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def create_part_view(home: Home, transaction: Transaction, statement: CreateViewDelta) -> tuple[Object, RefreshRecord]:
    """Declare a view by its delta function, and make the parts that can be made."""
    old = replaced(transaction.base, statement)
    if old is None:
        check_new(transaction.base, statement.name)
    else:
        end_replaced(transaction, old)
    view, function = declared(home, home.relations(transaction), statement)
    view = transaction.create(view, inputs_of(function, home.relations(transaction).source))
    record = refresh_parts(home, transaction, view)
    assert record is not None  # a new view always has its first record
    return view, record


def declared(home: Home, relations: Relations, statement: CreateViewDelta) -> tuple[Object, DeltaFunction]:
    """What a statement declares, checked and not made."""
    options = checked("view", dict(statement.options), statement.name)
    if statement.retain is not None:
        options["retain"] = statement.retain
    first = initialize_step(relations.source, statement)
    _check_told(statement, bool(first.references))
    frame = home.engine.checked(relations.evaluate(first.query.at_part(0)))
    columns = named_fields(statement.name, [], result_fields(frame))
    view = Object(
        -1, statement.name, "view", "signed", statement.sql(), columns, None,
        partition_length=statement.partition_length, options={**options, "part_wise": True},
    )  # fmt: skip
    function = delta_function(relations.source, statement, view)
    _check_told(statement, any(not ref.own for ref in function.update.references))
    pretend = replace(relations, source=_With(relations.source, view))
    later = home.engine.checked(pretend.evaluate(function.update.query.at_part(0)))
    _check_columns(statement, columns, result_fields(later))
    return view, function


class _With:
    """A source that also knows a view that is not made yet, and has no part of it."""

    def __init__(self, source: Any, view: Object) -> None:
        self._source, self._view = source, view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def find(self, name: str, *kinds: str) -> Object:
        return self._view if name.lower() == self._view.name.lower() else self._source.find(name, *kinds)

    def parts(self, item: Object) -> Any:
        return () if item is self._view else self._source.parts(item)


def _check_told(statement: CreateViewDelta, told: bool) -> None:
    if not told:
        raise DefinitionError(
            "NO_PART_REFERENCE",
            f"Nothing tells when a part of {statement.name} is due: a query of it reads no part of a stream or view.",
            hint=f"Name the part it is made of, such as FROM M[{statement.update_index}].",
            place=statement.place,
        )


def _check_columns(statement: CreateViewDelta, first: tuple[Field, ...], later: tuple[Field, ...]) -> None:
    """UPDATE gives the columns of INITIALIZE, in their order; numbers are brought into its types."""
    if len(first) != len(later):
        raise DefinitionError(
            "WRONG_COLUMN_COUNT",
            f"INITIALIZE gives {statement.name} {len(first)} columns and UPDATE {len(later)}.",
            hint=f"INITIALIZE has: {', '.join(field.name for field in first)}.",
            place=statement.update.place,
        )
    for one, other in zip(first, later, strict=True):
        numbers = one.type.startswith(_NUMBERS) and other.type.startswith(_NUMBERS)
        if one.type != other.type and not numbers:
            raise DefinitionError(
                "WRONG_COLUMN_TYPE",
                f"{one.name} of {statement.name} is {one.type} in INITIALIZE and {other.type} in UPDATE.",
                hint=f"CAST(... AS {one.type}) in UPDATE.",
                place=statement.update.place,
            )
