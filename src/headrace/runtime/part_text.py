"""What EXPLAIN tells of a view that is made part by part: what it is made of, which part is next, what it waits for."""

from __future__ import annotations

from headrace.language import CreateViewDelta, format_duration, format_time
from headrace.runtime.delta_functions import DeltaFunction, Step, function_of, statement_of
from headrace.runtime.home import Home
from headrace.runtime.info import counted
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object
from headrace.storage.writer import MICROS


def part_lines(home: Home, snapshot: Snapshot, view: Object) -> list[str]:
    """How a view's parts are made, in sentences."""
    statement = statement_of(view)
    function = function_of(home.relations(snapshot).source, view)
    lines = [*made_of_lines(view, statement, function), *_progress(view), *(view.option("words") or ())]
    if view.option("helper"):
        lines.append("It is a helper of another view; parts that nothing can need any more are dropped.")
    return lines


def made_of_lines(view: Object, statement: CreateViewDelta, function: DeltaFunction) -> list[str]:
    """What the parts of a view are made of."""
    length = format_duration((view.partition_length or 1) * MICROS)
    return [
        f"It is made part by part; a part spans {length}.",
        _first(statement, function),
        _later(statement, function),
    ]


def _first(statement: CreateViewDelta, function: DeltaFunction) -> str:
    return f"Its first part {statement.initialize_index} is made of {_made_of(function.initialize, 'i')}."


def _later(statement: CreateViewDelta, function: DeltaFunction) -> str:
    many = " Many parts can be made by one query." if function.update.many is not None else ""
    again = "When one of these changes, the part is made again."
    return f"Each later part {statement.update_index} is made of {_made_of(function.update, 'j')}. {again}{many}"


def _made_of(step: Step, variable: str) -> str:
    told = [f"{ref.name}[{ref.parts.words(variable)}]" for ref in step.references]
    told += [f"all of {name}" for name in step.whole]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _progress(view: Object) -> list[str]:
    progress = view.option("parts") or {}
    if progress.get("next") is None:
        return ["It has no part yet: what its first part needs is not there."]
    first, following = progress["first"], progress["next"]
    made = counted(following - first, "part")
    begin = f"It has {made}, from {first} to {following - 1}" if following > first else "It has no part yet"
    at = format_time(following * (view.partition_length or 1) * MICROS)
    lines = [f"{begin}; part {following} ({at}) is next."]
    waits = [
        f"{name}[{a if a == b else f'{a}..{b}'}]" for name, a, b, bits in progress.get("awaited", ()) if "0" in bits
    ]
    there = [
        f"{name}[{a if a == b else f'{a}..{b}'}]" for name, a, b, bits in progress.get("awaited", ()) if "0" not in bits
    ]
    if waits:
        lines.append(f"It waits for {' and '.join(waits)}" + (f"; {' and '.join(there)} is there." if there else "."))
    return lines


def functions_of(snapshot: Snapshot, view: Object) -> list[str]:
    """The functions that make a view, those of its helpers first."""
    helpers = [item for item in snapshot.needs(view) if item.option("helper")]
    found = [function_lines(statement_of(item)) for item in (*helpers, view)]
    return [line for number, lines in enumerate(found) for line in ([""] if number else []) + lines]


def function_lines(statement: CreateViewDelta) -> list[str]:
    """A view delta function as text that could be written so."""
    return [
        f"CREATE VIEW {statement.name} AS",
        f"INITIALIZE {statement.name}[{statement.initialize_index}] AS",
        f"  {statement.initialize.sql()}",
        f"UPDATE {statement.name}[{statement.update_index}] AS",
        f"  {statement.update.sql()}",
        f"PARTITION LENGTH {statement.partition_length};",
    ]
