"""The columns of a helper view, and how each aggregate of the query comes out of them.

A helper has a row for each group of the query, with *partials*: aggregates over the source's rows that can be merged.
Aggregates that need to see values, such as COUNT(DISTINCT x) and percentiles, make x one more column to group by, a
*value*: then a row is a group and a value with the number of its rows, and every partial stays right, only split finer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.windows.calls import Call, NoForm, read_call
from headrace.algebra.part_wise.windows.window_aggregate import WindowAggregate, same_key
from headrace.algebra.part_wise.windows.window_query import WindowQuery, WindowSource
from headrace.algebra.snippets import select_of
from headrace.language import quote_name

#: Names of hidden columns and of columns that helpers may have beside partials.
_TAKEN = ("part_timestamp", "since", "last")
#: So much of an argument's text is in the name of its column.
_LONG = 32


@dataclass(frozen=True)
class Partial:
    """One column of a helper: made from the source's rows by `made`, and from several of itself by `merge`."""

    name: str
    made: str
    merge: str


@dataclass(frozen=True)
class Read:
    """Where a form reads a helper's columns: an alias, and whether its rows are being grouped there."""

    relation: str
    grouped: bool

    def column(self, name: str) -> str:
        return f"{self.relation}.{quote_name(name)}"

    def merged(self, partial: Partial) -> str:
        return f"{partial.merge}({self.column(partial.name)})" if self.grouped else self.column(partial.name)


Form = Callable[[Read], str]
"""The text of an aggregate's result over the columns of a helper."""


@dataclass
class Layout:
    """A helper's columns while they are being found: each once, under names that do not clash."""

    aggregate: WindowAggregate
    source: WindowSource
    keys: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    partials: dict[str, Partial] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)
    #: Columns that a form needs beside the helper's own, computed over all rows of a group.
    over_group: dict[str, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=lambda: set(_TAKEN))

    def __post_init__(self) -> None:
        #: From the name of each of the query's keys to the helper's column.
        self.key_columns = {key.name: self.fresh(key.name) for key in self.aggregate.keys}
        self.keys = {self.key_columns[key.name]: text(key.expression) for key in self.aggregate.keys}

    def fresh(self, base: str) -> str:
        """A name that begins like `base` and that no other column of the helper has."""
        plain = "_".join(filter(None, (word.strip("_") for word in re.split(r"\W+", base)))) or "column"
        plain = plain if plain[0].isalpha() else f"c_{plain}"
        name, number = plain, 1
        while name.lower() in self._names:
            number += 1
            name = f"{plain}_{number}"
        self._names.add(name.lower())
        return name

    def partial(self, base: str, made: str, merge: str = "SUM") -> Partial:
        """The column that `made` fills; the same one for the same text."""
        if made not in self.partials:
            self.partials[made] = Partial(self.fresh(base[:_LONG]), made, merge)
        return self.partials[made]

    def value(self, made: str, argument: str) -> str:
        """The name of the column to group by that holds a value."""
        for name, text_ in self.values.items():
            if text_ == made:
                return name
        name = self.fresh(f"value_{argument}"[:_LONG])
        self.values[name] = made
        return name

    def row_count(self) -> Partial:
        """How many rows of the source a row of the helper stands for."""
        return self.partial("n", "COUNT(*)")

    def grouping(self) -> list[str]:
        """The texts that a helper groups the source's rows by."""
        return [*self.keys.values(), *self.values.values()]

    def columns(self) -> list[str]:
        """The helper's columns: keys, values, partials."""
        return [*self.keys, *self.values, *(partial.name for partial in self.partials.values())]


def lay_out(query: WindowQuery, form_of: Callable[[Layout, Call], Form]) -> Layout:
    """The helper's columns for all aggregates of the query; NoForm if one of them has no form."""
    if query.aggregate is None:
        raise NoForm(query.unfit or "the query does not aggregate")
    layout = Layout(query.aggregate, query.source)
    for node in query.aggregate.calls:
        call = read_call(node)
        layout.forms[same_key(node)] = _value_form(layout, call) or form_of(layout, call)
    return layout


def _value_form(layout: Layout, call: Call) -> Form | None:
    """DISTINCT and percentiles, from each value once with the number of its rows."""
    if call.distinct and call.name not in ("count", "sum", "avg"):
        raise NoForm(f"{call.shown} has to see all rows of the window")
    if not call.distinct and call.name != "percentile":
        return None
    names = []
    for argument in call.arguments:
        made = text(argument)
        if call.condition is not None:
            # A value that FILTER leaves out is NULL, which these aggregates do not see.
            made = f"CASE WHEN {text(call.condition)} THEN {made} END"
        names.append(layout.value(made, text(argument)))
    if call.distinct:
        return lambda read: f"{call.name.upper()}(DISTINCT {', '.join(map(read.column, names))})"
    rows = layout.row_count()
    return lambda read: f"percentile({read.column(names[0])}, {call.fraction}, {read.column(rows.name)})"


def counted(layout: Layout, call: Call) -> Partial:
    """The column of a COUNT or COUNT_IF."""
    made = call.over(call.name.upper())
    return layout.row_count() if made == "COUNT(*)" else layout.partial(f"count_{text(call.argument)}", made)


def outputs_text(layout: Layout, read: Read) -> str:
    """The query's SELECT list over the helper's columns."""
    made = (_put(layout, read, output.expression) for output in layout.aggregate.outputs)
    names = (quote_name(output.name) for output in layout.aggregate.outputs)
    return ", ".join(f"{item} AS {name}" for item, name in zip(made, names, strict=True))


def having_text(layout: Layout, read: Read) -> str | None:
    """The query's HAVING over the helper's columns."""
    having = layout.aggregate.having
    return None if having is None else _put(layout, read, having)


def _put(layout: Layout, read: Read, expression: exp.Expr) -> str:
    return layout.aggregate.put(
        expression,
        lambda key: _tree(read.column(layout.key_columns[key])),
        lambda call: _tree(layout.forms[same_key(call)](read)),
    )


def _tree(written: str) -> exp.Expr:
    return select_of(f"SELECT {written}").expressions[0]
