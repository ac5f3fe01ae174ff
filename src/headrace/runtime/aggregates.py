"""CREATE, DROP, SHOW, DESCRIBE and LOAD of user-defined aggregates.

An aggregate may bear the name of a built-in one. From then on calls mean the user's, so a version cannot be made,
replaced or dropped under views, streams or other aggregates that call that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from headrace.algebra.user_aggregates.called import called_in, called_in_body, can_be_called
from headrace.algebra.user_aggregates.checking import check
from headrace.algebra.user_aggregates.classes import speaks_of_windows
from headrace.algebra.user_aggregates.declared import declared_texts
from headrace.algebra.user_aggregates.definition import Definition, Versions, definition_of
from headrace.errors import DefinitionError, Place
from headrace.language import (
    Column,
    CreateAggregate,
    Describe,
    Drop,
    LoadAggregates,
    Query,
    parse,
    parse_one,
    quote_name,
)
from headrace.maintenance.user_aggregates.known import KIND, definition_in, known_aggregates, stored_name
from headrace.runtime.home import written_query
from headrace.runtime.info import Info, counted
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction

#: The package whose `.sql` files are the library: `avg.sql` has the versions of `avg`.
LIBRARY = "headrace.aggregates"


def create_aggregate(transaction: Transaction, statement: CreateAggregate) -> bool:
    """Define a version of an aggregate; False where it is already there as it is."""
    if statement.external is not None and not statement.window and speaks_of_windows(statement.external):
        # Said in the text, so that the class need not be there for it to be known.
        statement = replace(statement, window=True)
    definition = definition_of(statement)
    text = replace(statement, or_replace=False).sql()
    old = _stored(transaction, definition.name, window=definition.window)
    if old is not None and not statement.or_replace:
        raise _taken(old, statement.place)
    if old is not None and old.definition == text:
        return False
    if not can_be_called(definition.name, len(definition.parameters)):
        raise DefinitionError(
            "NAME_RESERVED",
            f"{definition.name} with {counted(len(definition.parameters), 'argument')} is another function's call.",
            hint=f"Give it another name, such as my_{definition.name}.",
            place=statement.place,
        )
    _check_free(transaction.base, definition, old, statement.place)
    known = known_aggregates(transaction)
    if old is not None:
        known = _without(known, definition_in(old))
        transaction.end(old)
    check(definition, known, statement.place)
    name = stored_name(definition.name, window=definition.window)
    transaction.create(Object(0, name, KIND, "none", text, (), None, system=True))
    return True


def _stored(source: Snapshot | Transaction, name: str, *, window: bool) -> Object | None:
    wanted = stored_name(name, window=window)
    return next((item for item in source.objects(KIND) if item.name == wanted), None)


def _without(known: dict[str, Versions], old: Definition) -> dict[str, Versions]:
    """What is known but for one version: a new body does not call the one that it replaces."""
    versions = known[old.name.lower()]
    left = replace(versions, window=None) if old.window else replace(versions, base=None)
    rest = {name: other for name, other in known.items() if name != old.name.lower()}
    return rest if left.base is None and left.window is None else {**rest, old.name.lower(): left}


def _taken(old: Object, place: Place | None) -> DefinitionError:
    definition = definition_in(old)
    words = "CREATE OR REPLACE WINDOW AGGREGATE" if definition.window else "CREATE OR REPLACE AGGREGATE"
    return DefinitionError(
        "NAME_TAKEN",
        f"There already is a{'' if definition.window else 'n'} {kind_of(definition)} called {definition.name}.",
        hint=f"{words} {quote_name(definition.name)} puts another in its place.",
        place=place,
    )


def _check_free(snapshot: Snapshot, definition: Definition, old: Object | None, place: Place | None) -> None:
    """Nothing may come to mean something else by a definition."""
    users = users_of(snapshot, definition.name, window=definition.window, base=not definition.window)
    if not users:
        return
    what = f"this {kind_of(definition)} cannot be replaced" if old is not None else "they would come to mean another"
    raise DefinitionError(
        "STILL_NEEDED",
        f"{definition.name} is called by {', '.join(users)}, and {what} under them.",
        hint="Drop those first, or choose another name.",
        place=place,
    )


def users_of(snapshot: Snapshot, name: str, *, window: bool = True, base: bool = True) -> list[str]:
    """What calls an aggregate: its window version, which only calls OVER windows reach, or its base version."""
    found = []
    for item in snapshot.objects("view", "stream"):
        calls = [call for query in _queries(item) for call in called_in(query)] if item.maintained else []
        # A base version also computes windows, where there is no version for these.
        if any(called == name.lower() and (base or over) for called, over in calls):
            found.append(item.name)
    for item in snapshot.objects(KIND) if base else []:
        definition = definition_in(item)
        own = definition.name.lower() == name.lower()
        if name.lower() in called_in_body(definition) and not (own and (window or not definition.window)):
            found.append(f"the body of {kind_of(definition)} {definition.name}")
    return found


def _queries(item: Object) -> list[Query]:
    if not item.part_wise:
        return [written_query(item)]
    statement = parse_one(item.definition)
    steps = (getattr(statement, step, None) for step in ("initialize", "update", "query"))
    return [query for query in steps if isinstance(query, Query)]


def kind_of(definition: Definition) -> str:
    """What a version is, in words."""
    return f"{'algebraic ' if definition.algebraic else ''}{'window ' if definition.window else ''}aggregate"


def drop_aggregate(transaction: Transaction, statement: Drop) -> list[str]:
    """Drop both versions of an aggregate. Returns what is gone, in words."""
    snapshot = transaction.base
    versions = [
        item for window in (False, True) if (item := _stored(snapshot, statement.name, window=window)) is not None
    ]
    if not versions:
        if statement.if_exists:
            return []
        raise _unknown(snapshot, statement.name, statement.place)
    users = users_of(snapshot, statement.name)
    if users:
        raise DefinitionError(
            "STILL_NEEDED",
            f"{definition_in(versions[0]).name} is called by {', '.join(users)}.",
            hint="Drop those first.",
            place=statement.place,
        )
    for item in versions:
        transaction.end(item)
    return [f"{kind_of(definition_in(item))} {definition_in(item).name}" for item in versions]


def _unknown(snapshot: Snapshot, name: str, place: Place | None) -> DefinitionError:
    known = ", ".join(versions.name for versions in known_aggregates(snapshot).values())
    return DefinitionError(
        "UNKNOWN_AGGREGATE",
        f"There is no aggregate called {name}.",
        hint=f"There are: {known}." if known else "CREATE AGGREGATE defines one, LOAD AGGREGATES loads the library.",
        place=place,
    )


def show_aggregates(snapshot: Snapshot) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Every version of every aggregate, in the order of their making."""
    rows: list[tuple[Any, ...]] = []
    for item in snapshot.objects(KIND):
        definition = definition_in(item)
        users = users_of(snapshot, definition.name, window=definition.window, base=not definition.window)
        told = (definition.external or "SQL", ", ".join(users))
        rows.append(
            (definition.name, kind_of(definition), _listed(definition.parameters), _listed(definition.returns), *told)
        )
    return ("name", "kind", "parameters", "returns", "body", "called_by"), rows


def _listed(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type or 'any'}" for column in columns)


def describe_aggregate(snapshot: Snapshot, statement: Describe) -> Info | None:
    """The parameters and results of an aggregate, its text with EXTENDED; None if there is none of that name."""
    rows: list[tuple[Any, ...]] = []
    found = [item for window in (False, True) if (item := _stored(snapshot, statement.name, window=window))]
    for item in found:
        definition = definition_in(item)
        note = kind_of(definition)
        rows += [(column.name, column.type or "any", f"parameter of the {note}") for column in definition.parameters]
        rows += [(column.name, column.type or "any", f"result of the {note}") for column in definition.returns]
        for table in definition.tables:
            rows += [(f"{table.name}.{column.name}", column.type or "any", "state") for column in table.columns]
        rows += [("", "", note) for note in _notes(definition, known_aggregates(snapshot))]
        if statement.extended:
            rows += [("called by", ", ".join(users_of(snapshot, definition.name)) or "nothing", "")]
            rows += [("definition", item.definition, "")]
    if not found:
        return None
    return Info("DESCRIBE", definition_in(found[0]).name, ("column", "type", "note"), rows)


def _notes(definition: Definition, known: Mapping[str, Versions]) -> list[str]:
    """What else there is to tell of a version."""
    try:
        notes = ["blocking: it tells its result when its input has ended"] if definition.blocking else []
        program = check(definition, known)
        if program is not None:
            slow = "; ".join(program.slow)
            notes.append(f"compiled to Python, because {slow}" if slow else "compiled to machine code")
        elif definition.external is None:
            notes.append("compiled for the types that it is called with")
        return notes
    except DefinitionError as error:  # its class is not here
        return [error.message]


def library() -> dict[str, str]:
    """The aggregates that come with Headrace: their names, and the text of the file that defines each."""
    texts = {
        entry.name.removesuffix(".sql"): entry for entry in files(LIBRARY).iterdir() if entry.name.endswith(".sql")
    }
    return {name: texts[name].read_text(encoding="utf-8") for name in sorted(texts)}


def load_aggregates(transaction: Transaction, statement: LoadAggregates) -> list[str]:
    """Define aggregates of the library, and those that they call. Returns the names of the new ones.

    By their names, classes are loaded too that were declared in this process; they come before the library.
    """
    asked = [name.lower() for name in statement.names]
    texts = library()
    wanted = asked or list(texts)
    texts = {**texts, **{name: text for name, text in declared_texts().items() if name in asked}}
    for name in statement.names:
        if name.lower() not in texts:
            raise DefinitionError(
                "UNKNOWN_AGGREGATE",
                f"The library has no aggregate called {name}, and none was declared by @headrace.aggregate.",
                hint=f"It has: {', '.join(texts)}." if texts else "It is empty.",
                place=statement.place,
            )
    made: dict[str, bool] = {}
    for name in wanted:
        _load(transaction, name, texts, made)
    return [name for name, new in made.items() if new]


def _load(transaction: Transaction, name: str, texts: dict[str, str], made: dict[str, bool]) -> None:
    """Load one aggregate, after those of the library that it calls."""
    if name in made:
        return
    made[name] = False
    statements = [one for one in parse(texts[name]) if isinstance(one, CreateAggregate)]
    for called in sorted({one for it in statements for one in called_in_body(definition_of(it))} & set(texts)):
        _load(transaction, called, texts, made)
    for one in statements:
        definition = definition_of(one)
        old = _stored(transaction, definition.name, window=definition.window)
        if old is not None and old.definition == replace(one, or_replace=False).sql():
            continue
        if old is not None:
            raise DefinitionError(
                "NAME_TAKEN",
                f"There already is another {kind_of(definition)} called {definition.name} than the one to load.",
                hint=f"DROP AGGREGATE {quote_name(definition.name)}, then LOAD AGGREGATES {quote_name(name)}.",
            )
        create_aggregate(transaction, one)
        made[name] = True


def loaded(names: list[str]) -> str:
    """What LOAD AGGREGATES tells."""
    return f"Loaded {counted(len(names), 'aggregate')}: {', '.join(names)}." if names else "They were there already."
