"""The statements of an aggregate's blocks, parsed."""

from __future__ import annotations

import re

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError, TokenError

from headrace.algebra.user_aggregates.faults import Fault
from headrace.language.dialect import DIALECT

#: The virtual table that results are put into.
RETURN = "return"


def parsed(text: str) -> exp.Expr:
    """One statement: Insert, Update, Delete or Select."""
    try:
        tree = parse_one(_values_with_condition(text), dialect=DIALECT)
    except (ParseError, TokenError) as error:
        raise Fault("BAD_STATEMENT", f"this is no statement of an aggregate: {_first_line(error)}") from error
    if not isinstance(tree, exp.Insert | exp.Update | exp.Delete | exp.Select):
        raise Fault(
            "BAD_STATEMENT", "this is no statement of an aggregate", hint="INSERT, UPDATE, DELETE or SELECT are."
        )
    return tree


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].split(". Line")[0]


def _values_with_condition(text: str) -> str:
    """``VALUES (a, b) WHERE c`` is ESL's; SQL says ``SELECT a, b WHERE c``."""
    found = re.match(r"(?is)\s*INSERT\s+INTO\s+[^()]*?(\([^()]*\)\s*)?VALUES\s*\(", text)
    if found is None:
        return text
    depth, end, quote = 1, found.end(), ""
    while depth and end < len(text):
        sign = text[end]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        else:
            depth += (sign == "(") - (sign == ")")
        end += 1
    rest = text[end:]
    if not re.match(r"(?is)\s*WHERE\b", rest):
        return text
    # Everything stays in its place, which errors point at.
    head = re.sub(r"(?is)VALUES\s*\($", lambda word: "SELECT".ljust(len(word[0])), text[: found.end()])
    return f"{head}{text[found.end() : end - 1]} {rest}"


def target_of(tree: exp.Insert | exp.Update | exp.Delete) -> str:
    """The table a statement changes, in lower case."""
    table = tree.this
    return str((table.this if isinstance(table, exp.Schema) else table).name).lower()
