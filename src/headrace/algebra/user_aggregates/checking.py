"""Checking a definition when it is made: its names and types, by compiling it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.algebra.user_aggregates.builtins import builtin
from headrace.algebra.user_aggregates.classes import check_class
from headrace.algebra.user_aggregates.definition import INWINDOW, Definition, Versions
from headrace.algebra.user_aggregates.forms import Form, Way
from headrace.algebra.user_aggregates.programs import Program, program_of
from headrace.errors import DefinitionError, Place


def lookup(known: Mapping[str, Versions], name: str, types: Sequence[str]) -> Versions | None:
    """What a call of this name means: the user's own aggregate, else SQL's."""
    own = known.get(name.lower())
    if own is not None and own.base is not None:
        return own
    return builtin(name, types)


def check(definition: Definition, known: Mapping[str, Versions], place: Place | None = None) -> Program | None:
    """Refuse what cannot be compiled, saying where and why. Gives the program, where the types are known."""
    _check_names(definition, place)
    if definition.external is not None:
        check_class(definition.external, len(definition.parameters), window=definition.window, place=place)
    _check_blocks(definition, place)
    _check_types(definition, place)
    _check_versions(_with(known, definition), place)
    others = {**known, definition.name.lower(): _with(known, definition)}
    types = [column.type or "STRING" for column in definition.parameters]
    form, way = Form("rows", 2) if definition.window else Form(), _way(definition)
    try:
        return program_of(
            _with(known, definition), form, way, lambda name, given: lookup(others, name, given), types, ends=True
        )
    except DefinitionError as error:
        # Without types, what the values are is known only when it is called.
        if definition.generic and error.condition == "WRONG_TYPE":
            return None
        raise


def _way(definition: Definition) -> Way:
    return "window" if definition.window else "base"


def _with(known: Mapping[str, Versions], definition: Definition) -> Versions:
    name = definition.name.lower()
    versions = known.get(name, Versions(definition.name))
    if definition.window and versions.base is None:
        found = builtin(name, [column.type for column in definition.parameters])
        versions = Versions(definition.name, base=found.base) if found is not None else versions
    return versions.with_version(definition)


def _check_names(definition: Definition, place: Place | None) -> None:
    groups = [("parameter", definition.parameters), ("result", definition.returns)]
    groups += [(f"column of {table.name}", table.columns) for table in definition.tables]
    for what, columns in groups:
        names = [column.name.lower() for column in columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DefinitionError("DUPLICATE_COLUMN", f"{definition.name} has two of {twice} ({what}).", place=place)
    names = [table.name.lower() for table in definition.tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionError("DUPLICATE_TABLE", f"{definition.name} has two tables {twice}.", place=place)
    if "return" in names:
        raise DefinitionError("DUPLICATE_TABLE", "RETURN is where results go, and no table of one's own.", place=place)


def _check_blocks(definition: Definition, place: Place | None) -> None:
    if definition.window and definition.blocks.get("TERMINATE"):
        raise DefinitionError(
            "MISPLACED_BLOCK",
            f"{definition.name} is a window aggregate, whose input does not end: TERMINATE has no meaning there.",
            hint="INSERT INTO RETURN in ITERATE, and for rows that leave in EXPIRE.",
            place=place,
        )
    window = definition.table(INWINDOW)
    if window is not None and len(window.columns) != len(definition.parameters):
        raise DefinitionError(
            "WRONG_COLUMN_COUNT",
            f"inwindow of {definition.name} holds its rows, so it has {len(definition.parameters)} columns, not"
            f" {len(window.columns)}.",
            hint=f"A column for each of {', '.join(column.name for column in definition.parameters)}.",
            place=place,
        )


def _check_versions(versions: Versions, place: Place | None) -> None:
    """Calls do not say which version they mean; with ALGEBRAIC, results of one are arguments of the other."""
    base, window = versions.base, versions.window
    if base is None or window is None:
        return
    for what, one, two in (
        ("parameters", base.parameters, window.parameters), ("results", base.returns, window.returns),
    ):  # fmt: skip
        if len(one) != len(two):
            raise DefinitionError(
                "VERSIONS_DIFFER",
                f"The base version of {versions.name} has {len(one)} {what}, and its window version {len(two)}.",
                hint="A call means one or the other by its window alone, so both take and tell the same.",
                place=place,
            )
    if (base.algebraic or window.algebraic) and len(base.returns) != len(window.parameters):
        raise DefinitionError(
            "NOT_ALGEBRAIC",
            f"{versions.name} is ALGEBRAIC: what the base version tells of panes is what the window version takes, but"
            f" it tells {len(base.returns)} columns and takes {len(window.parameters)}.",
            hint="Let it take and tell the same columns, such as a sum and a count; or leave ALGEBRAIC out.",
            place=place,
        )


def _check_types(definition: Definition, place: Place | None) -> None:
    window = definition.table(INWINDOW)
    if window is not None:
        for column, parameter in zip(window.columns, definition.parameters, strict=True):
            if column.type and parameter.type and column.type != parameter.type:
                raise DefinitionError(
                    "WRONG_TYPE",
                    f"{column.name} of inwindow holds {parameter.name}, so it is {parameter.type}, not {column.type}.",
                    place=place,
                )
    if definition.generic:
        return
    for table in definition.tables:
        for column in table.columns:
            if not column.type and table is not window:
                raise DefinitionError(
                    "MISSING_TYPE", f"{column.name} of {table.name} has no type.", hint="Write it behind the name.",
                    place=place,
                )  # fmt: skip
    for column in definition.returns:
        if not column.type:
            raise DefinitionError("MISSING_TYPE", f"The result {column.name} has no type.", place=place)
