"""From a query to its operator tree.

`bind` resolves every name, gives every column one name and its Spark type, and brings the query to the normal form of
`nodes`. What it cannot bind raises `NotBound`.

A WITH query that is read twice is bound once: both readers see the same `Node` object under a renaming `Project`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.context import Context, Stored
from headrace.algebra.expressions import ref, unparen
from headrace.algebra.limits import limited
from headrace.algebra.nodes import Aggregate, Node, Project, SetOperation, Union
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Relation, Scope, fields_of
from headrace.algebra.selects import bind_select
from headrace.algebra.session_windows import spell_out_sessions
from headrace.algebra.sources import bind_values
from headrace.algebra.time_windows import spell_out_windows
from headrace.algebra.trees import free_columns, narrow
from headrace.algebra.typed import Describe, Typer
from headrace.language.query import Query
from headrace.language.relations import find_relations
from headrace.language.spark_text import hide_and_convert_part_timestamps

__all__ = ["Bound", "Describe", "NotBound", "Stored", "bind"]


@dataclass(frozen=True, eq=False)
class Bound:
    """A query's operator tree, and the name of each of its output columns.

    An expression without an alias is named by its text, which need not be the name that Spark would make up.
    """

    root: Node
    output: tuple[str, ...]


def bind(query: Query, relations: Sequence[Stored], describe: Describe) -> Bound:
    """Bind `query`, whose i-th relation is `relations[i]`: its name, and each column's name and Spark type.

    `describe` gives the column types of a Spark SQL text, which is analysed and never run.
    """
    if features := query.features():
        raise NotBound(f"{features[0]} has no operator")
    if any(ref.parts is not None for ref in query.relations()):
        raise NotBound("parts are read one by one")
    tree = query.tree.copy()
    hide_and_convert_part_timestamps(tree)
    spell_out_windows(tree)
    spell_out_sessions(tree)
    tables = find_relations(tree)
    if len(tables) != len(relations):
        raise ValueError(f"The query reads {len(tables)} relations, and {len(relations)} were given.")
    for number, table in enumerate(tables):
        table.meta["relation"] = number
    context = Context(Typer(describe), relations, bind_query)
    found = bind_query(context, tree, Scope())
    if free := free_columns(found.node):
        raise NotBound(f"the column {min(free)} is used where it is not given")
    columns = [field.column for field in found.output]
    if len(set(columns)) < len(columns):
        # A column that is shown twice needs two names.
        known = {column.name: column for column in found.node.columns}
        twins = tuple(context.typer.fresh(field.name, known[field.column].type) for field in found.output)
        return Bound(Project(found.node, twins, tuple(map(ref, columns))), tuple(f.name for f in found.output))
    return Bound(narrow(found.node, columns), tuple(field.name for field in found.output))


def bind_query(context: Context, tree: exp.Expr, around: Scope) -> Relation:
    """Bind a whole query: WITH, then what it says, then ORDER BY and LIMIT."""
    if isinstance(with_ := tree.args.get("with_"), exp.With):
        around = _with(context, with_, around)
    match tree:
        case exp.Subquery():
            inner = bind_query(context, tree.this, around)
            return limited(context, tree, inner, around)
        case exp.SetOperation():
            return limited(context, tree, _set_operation(context, tree, around), around)
        case exp.Select():
            return bind_select(context, tree, around)
        case exp.Values():
            return bind_values(context, tree)
        case exp.Table() | exp.Paren():
            raise NotBound("a bare TABLE query has no operator")
    raise NotBound(f"the query form {type(tree).__name__} has no operator")


def _with(context: Context, with_: exp.With, around: Scope) -> Scope:
    if with_.args.get("recursive"):
        raise NotBound("WITH RECURSIVE has no operator: its number of rounds is not known")
    ctes = dict(around.ctes)
    for cte in with_.expressions:
        inner = bind_query(context, cte.this, replace(around, ctes=ctes))
        columns = [identifier.name for identifier in cte.args["alias"].args.get("columns") or ()]
        ctes[cte.alias.lower()] = inner.called(cte.alias, columns)
    return replace(around, ctes=ctes)


def _set_operation(context: Context, tree: exp.SetOperation, around: Scope) -> Relation:
    # A chain of UNION ALL nests to the left; it is one node.
    inputs = [bind_query(context, part, around) for part in _inputs(tree)]
    if tree.args.get("by_name"):
        inputs = [inputs[0], *(_by_name(inputs[0], other) for other in inputs[1:])]
    widths = {len(part.output) for part in inputs}
    if len(widths) > 1:
        raise NotBound("the inputs of a set operation have different numbers of columns")
    nodes, types = _coerced(context, inputs)
    names = [field.name for field in inputs[0].output]
    made = tuple(context.typer.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
    all_ = not tree.args.get("distinct")
    node: Node
    if isinstance(tree, exp.Union):
        node = Union(tuple(nodes), made)
        if not all_:
            node = Aggregate(node, node.names)
    else:
        kind = "except" if isinstance(tree, exp.Except) else "intersect"
        node = SetOperation(kind, all_, nodes[0], nodes[1], made)  # type: ignore[arg-type]
    return Relation(node, fields_of(names, made))


def _inputs(tree: exp.SetOperation) -> list[exp.Expr]:
    left = tree.this
    plain = not any(left.args.get(key) for key in ("with_", "order", "limit", "offset", "by_name"))
    mergeable = isinstance(tree, exp.Union) and isinstance(left, exp.Union) and not tree.args.get("by_name")
    # UNION removes all duplicates at the end, so what is below it need not; UNION ALL over UNION must.
    if mergeable and plain and (tree.args.get("distinct") or not left.args.get("distinct")):
        return [*_inputs(left), tree.expression]
    return [tree.this, tree.expression]


def _by_name(first: Relation, other: Relation) -> Relation:
    known = {field.name.lower(): field for field in other.output}
    wanted = [field.name.lower() for field in first.output]
    if set(wanted) != set(known):
        raise NotBound("UNION BY NAME of relations with different column names has no operator")
    return replace(other, fields=tuple(known[name] for name in wanted))


def _coerced(context: Context, inputs: Sequence[Relation]) -> tuple[list[Node], list[str]]:
    """The inputs' shown columns, each brought to one type over all inputs."""
    typer = context.typer
    rows = [[field.column for field in part.output] for part in inputs]
    types = [typer.known[name] for name in rows[0]]
    for row in rows[1:]:
        types = [typer.common(type_, typer.known[name]) for type_, name in zip(types, row, strict=True)]
    nodes: list[Node] = []
    for part, row in zip(inputs, rows, strict=True):
        items = tuple(typer.as_type(name, type_) for name, type_ in zip(row, types, strict=True))
        # A column shown twice, or cast, needs a new name.
        if len(set(row)) < len(row) or any(unparen(item) != ref(name) for item, name in zip(items, row, strict=True)):
            made = tuple(typer.fresh(name, type_) for name, type_ in zip(row, types, strict=True))
            nodes.append(Project(part.node, made, items))
        else:
            nodes.append(narrow(part.node, row))
    return nodes, types
