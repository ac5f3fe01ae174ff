"""Declaring views whose delta functions follow from a pattern query or a window aggregate, and choosing anew."""

from __future__ import annotations

from dataclasses import replace

from headrace.algebra.determinism import check_deterministic
from headrace.algebra.part_wise.windows.window_query import windowed_relation
from headrace.errors import DefinitionError
from headrace.language import CreateView, CreateViewDelta, parse_one
from headrace.runtime.declaring import named_fields, replaced
from headrace.runtime.definitions import check_new
from headrace.runtime.delta_functions import DeltaFunction, inputs_of, sync_in_parts
from headrace.runtime.home import Home
from headrace.runtime.maintainer import refresh_parts
from headrace.runtime.options import checked
from headrace.runtime.part_views import declared
from headrace.runtime.translation import Translation, translate
from headrace.storage.records import Object, RefreshRecord
from headrace.storage.transactions import Transaction

#: Sizes are measured once so many parts are there.
FEWEST_PARTS = 3


def create_translated_view(home: Home, transaction: Transaction, statement: CreateView) -> tuple[Object, RefreshRecord]:
    """Declare a view and its helpers, and make the parts that can be made."""
    old = replaced(transaction.base, statement)
    if old is None:
        check_new(transaction.base, statement.name)
    else:
        end_with_helpers(transaction, old)
    found = translated(home, transaction, statement)
    helpers = [_create_helper(home, transaction, one, found) for one in found.statements[:-1]]
    view, function = described(home, transaction, statement, found)
    view = transaction.create(view, inputs_of(function, home.relations(transaction).source))
    for helper in helpers:
        refresh_parts(home, transaction, helper)
    record = refresh_parts(home, transaction, view)
    assert record is not None  # a new view always has its first record
    return view, record


def translated(home: Home, transaction: Transaction, statement: CreateView) -> Translation:
    """A statement's functions, what it says besides them checked."""
    if statement.sync_by is not None:
        raise DefinitionError(
            "MISPLACED_CLAUSE",
            f"{statement.name} is made part by part, and its parts are when it is synchronized.",
            hint="Leave out SYNC BY.",
            place=statement.place,
        )
    for ref in statement.query.relations():
        if ref.sync is not None:
            raise sync_in_parts(statement.name, ref)
    check_deterministic(statement.query)
    return translate(home, home.relations(transaction), statement)


def described(
    home: Home, transaction: Transaction, statement: CreateView, found: Translation
) -> tuple[Object, DeltaFunction]:
    """The view that a translated statement declares, not made."""
    final = found.statements[-1]
    made, function = declared(home, home.relations(transaction), final)
    options = checked("view", dict(statement.options), statement.name)
    if statement.retain is not None:
        options["retain"] = statement.retain
    options |= {"part_wise": True, "function": final.sql(), "strategy_taken": found.strategy, "words": found.words}
    if found.guessed:
        options["guessed"] = True
    if found.panes is not None:
        options["panes"] = found.panes
    columns = named_fields(statement.name, statement.columns or (), made.columns)
    return replace(made, definition=statement.sql(), columns=columns, options=options), function


def _create_helper(home: Home, transaction: Transaction, statement: CreateViewDelta, found: Translation) -> Object:
    known = transaction.base.get(statement.name)
    if known is None or not known.option("helper"):  # the helper of another strategy makes room for this one
        check_new(transaction.base, statement.name, helper=True)
    helper, function = declared(home, home.relations(transaction), statement)
    options = {**helper.options, "helper": True, "function": statement.sql(), "strategy_taken": found.strategy}
    if found.plain is not None:
        options |= {"plain_function": found.plain, "groups": list(found.groups), "sequence": list(found.sequence)}
    made = replace(helper, system=True, options=options)
    return transaction.create(made, inputs_of(function, home.relations(transaction).source))


def choose_anew(home: Home, transaction: Transaction, view: Object) -> None:
    """Take the cheapest strategy of a view whose sizes were guessed, now that there are parts to be measured.

    Its parts stay, whatever made them: all strategies make the same. A new helper begins with the oldest rows.
    """
    statement = parse_one(view.definition)
    assert isinstance(statement, CreateView)
    relations = home.relations(transaction)
    source = relations.source.find(windowed_relation(statement.query).name)
    parts = relations.source.parts(source)
    if not parts or max(part.last for part in parts) - min(part.first for part in parts) < FEWEST_PARTS - 1:
        return
    found = translate(home, relations, statement)
    options = {name: value for name, value in view.options.items() if name not in ("guessed", "panes")}
    if found.panes is not None:
        options["panes"] = found.panes
    options |= {
        "function": found.statements[-1].sql(), "strategy_taken": found.strategy, "words": list(found.words),
    }  # fmt: skip
    transaction.alter(replace(view, options=options))
    if found.strategy == view.option("strategy_taken"):
        return
    for helper in helpers_of(transaction, view):
        transaction.end(helper)
    helpers = [_create_helper(home, transaction, one, found) for one in found.statements[:-1]]
    transaction.rewire(view, helpers or [source])
    for helper in helpers:
        refresh_parts(home, transaction, helper)


def helpers_of(transaction: Transaction, view: Object) -> list[Object]:
    """The helper views that were made for a view."""
    return [item for item in transaction.needs(view) if item.option("helper")]


def end_with_helpers(transaction: Transaction, view: Object) -> None:
    """Drop a view and what was made for it alone."""
    for helper in helpers_of(transaction, view):
        transaction.end(helper)
    transaction.end(view)
