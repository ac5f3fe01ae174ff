"""FROM: relations, subqueries, VALUES, table functions, joins and LATERAL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.context import Context
from headrace.algebra.decorrelate import join_lateral
from headrace.algebra.expressions import conjuncts, equal, ref, text
from headrace.algebra.generators import generate, is_generator
from headrace.algebra.joins import make_join
from headrace.algebra.nodes import Constant, JoinKind, Node, Project, Scan
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Field, Relation, Scope, fields_of, resolve
from headrace.algebra.subqueries import apply_filter, attach_side, has_subquery
from headrace.algebra.trees import free_columns


def bind_from(context: Context, select: exp.Select, around: Scope) -> Relation:
    """What FROM, the joins and LATERAL VIEW give together."""
    from_ = select.args.get("from_")
    found = Relation(context.one_row(), ()) if from_ is None else _source(context, from_.this, around)
    for join in select.args.get("joins") or ():
        found = _join(context, found, join, around)
    for lateral in select.args.get("laterals") or ():
        found = _lateral_view(context, found, lateral, around)
    return found


def _source(context: Context, source: exp.Expr, around: Scope) -> Relation:
    if source.args.get("pivots"):
        raise NotBound("PIVOT and UNPIVOT have no operator")
    if source.args.get("sample"):
        raise NotBound("TABLESAMPLE has no operator: it picks other rows each time")
    match source:
        case exp.Table() if isinstance(source.this, exp.Identifier):
            found = _named(context, source, around)
        case exp.Table():
            found = _function(context, source, around)
        case exp.Subquery() if isinstance(source.this, exp.Table | exp.Subquery) and not _is_query(source.this):
            found = _source(context, source.this, around)
            found = found.called(source.alias, _alias_columns(source)) if source.alias else found
        case exp.Subquery():
            inner = context.bind_query(context, source.this, around)
            found = inner.called(source.alias, _alias_columns(source))
        case exp.Values():
            found = bind_values(context, source)
        case _:
            raise NotBound(f"{type(source).__name__} in FROM has no operator")
    for join in source.args.get("joins") or ():
        found = _join(context, found, join, around)
    return found


def _is_query(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Select | exp.SetOperation)


def _alias_columns(source: exp.Expr) -> list[str]:
    alias = source.args.get("alias")
    return [item.name for item in (alias.args.get("columns") if alias is not None else None) or ()]


def _named(context: Context, table: exp.Table, around: Scope) -> Relation:
    number = table.meta.get("relation")
    if number is None:
        cte = around.ctes.get(table.name.lower())
        if cte is None:
            raise NotBound(f"the relation {table.name} is not known")
        return _renamed(context, cte).called(table.alias or table.name, _alias_columns(table))
    name, columns = context.stored[number]
    made = tuple(context.typer.fresh(column, type_) for column, type_ in columns)
    sources = tuple(column for column, _ in columns)
    scan = Scan(number, name, made, sources)
    return Relation(scan, fields_of(sources, made)).called(table.alias or table.name, _alias_columns(table))


def _renamed(context: Context, cte: Relation) -> Relation:
    """A reader's own names for the columns of a WITH query, over the one node that all its readers share."""
    names = [item.column for item in cte.output]
    made = tuple(context.typer.fresh(item.name, context.typer.known[item.column]) for item in cte.output)
    node = Project(cte.node, made, tuple(map(ref, names)))
    return Relation(node, fields_of([item.name for item in cte.output], made))


def bind_values(context: Context, values: exp.Values) -> Relation:
    """VALUES as a constant relation."""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    if values.find(exp.Column, exp.Select):
        raise NotBound("VALUES with columns of other relations has no operator")
    width = len(rows[0])
    listed = ", ".join(f"({', '.join(text(item) for item in row)})" for row in rows)
    given = [f"col{i + 1}" for i in range(width)]
    body = f"VALUES {listed} AS v({', '.join(given)})"
    types = context.typer.ask(f"SELECT {', '.join(given)} FROM {body}")
    names = _alias_columns(values) or given
    made = tuple(context.typer.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
    shown = ", ".join(f"{old} AS {new.name}" for old, new in zip(given, made, strict=True))
    return Relation(Constant(f"SELECT {shown} FROM {body}", made), fields_of(names, made, values.alias or ""))


def _function(context: Context, table: exp.Table, around: Scope) -> Relation:
    function = table.this
    if is_generator(function):
        made = generate(context, context.one_row(), resolve(function, Scope((), around, around.ctes)), table, False)
        return Relation(made.node, made.fields)
    if function.name.lower() != "range" or function.find(exp.Column):
        raise NotBound(f"the table function {function.name or type(function).__name__} has no operator")
    column = context.typer.fresh("id", "bigint")
    constant = Constant(f"SELECT id AS {column.name} FROM {text(function)}", (column,))
    return Relation(constant, fields_of(["id"], [column])).called(table.alias or "range", _alias_columns(table))


def _lateral_view(context: Context, left: Relation, lateral: exp.Lateral, around: Scope) -> Relation:
    generator = resolve(lateral.this, Scope(left.fields, around, around.ctes))
    made = generate(context, left.node, generator, lateral, bool(lateral.args.get("outer")))
    return Relation(made.node, left.fields + made.fields)


def _kind(join: exp.Join) -> JoinKind:
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    if kind in ("SEMI", "ANTI"):
        if side == "RIGHT":
            raise NotBound(f"RIGHT {kind} JOIN has no operator")
        return "semi" if kind == "SEMI" else "anti"
    return {"LEFT": "left", "RIGHT": "right", "FULL": "full"}.get(side, "inner")  # type: ignore[return-value]


def _join(context: Context, left: Relation, join: exp.Join, around: Scope) -> Relation:
    kind = _kind(join)
    if isinstance(join.this, exp.Lateral):
        return _lateral_join(context, left, join, kind, around)
    right = _source(context, join.this, around)
    using = [item.name for item in join.args.get("using") or ()]
    if str(join.args.get("method") or "").upper() == "NATURAL":
        theirs = {item.name.lower() for item in right.output}
        using = list(dict.fromkeys(item.name for item in left.output if item.name.lower() in theirs))
    if using:
        return _using(context, kind, left, right, using)
    fields = left.fields + right.fields
    scope = Scope(fields, around, around.ctes)
    on = join.args.get("on")
    conditions = [] if on is None else [resolve(part, scope) for part in conjuncts(on)]
    kept = left.fields if kind in ("semi", "anti") else fields
    if not any(map(has_subquery, conditions)):
        return Relation(make_join(context.typer, kind, left.node, right.node, conditions), kept)
    if kind == "inner":
        node: Node = make_join(context.typer, kind, left.node, right.node, [])
        return Relation(apply_filter(context, node, conditions, scope), kept)
    sides, conditions = attach_side(context, (left.node, right.node), conditions, scope)
    return Relation(make_join(context.typer, kind, sides[0], sides[1], conditions), kept)


def _using(context: Context, kind: JoinKind, left: Relation, right: Relation, using: Sequence[str]) -> Relation:
    """USING shows each named column once, first: the side's that is always there, or the one that is not NULL."""
    pairs = [(_shown(left, name), _shown(right, name)) for name in using]
    conditions = [equal(ref(a.column), ref(b.column)) for a, b in pairs]
    node: Node = make_join(context.typer, kind, left.node, right.node, conditions)
    merged: list[Field] = []
    if kind == "full":
        values = [exp.Coalesce(this=ref(a.column), expressions=[ref(b.column)]) for a, b in pairs]
        node, names = context.typer.extend(node, values, using[0])
        merged = [Field(a.name, name) for (a, _), name in zip(pairs, names, strict=True)]
    else:
        picked = [(b if kind == "right" else a) for a, b in pairs]
        merged = [Field(a.name, item.column) for (a, _), item in zip(pairs, picked, strict=True)]
    hidden = {item for pair in pairs for item in pair}
    sides = left.fields if kind in ("semi", "anti") else left.fields + right.fields
    rest = tuple(replace(item, shown=False) if item in hidden else item for item in sides)
    return Relation(node, (*merged, *rest))


def _shown(relation: Relation, name: str) -> Field:
    hits = [item for item in relation.output if item.name.lower() == name.lower()]
    if len(hits) != 1:
        raise NotBound(f"the column {name} of USING is {'ambiguous' if hits else 'not found'}")
    return hits[0]


def _lateral_join(context: Context, left: Relation, join: exp.Join, kind: JoinKind, around: Scope) -> Relation:
    lateral = join.this
    scope = Scope(left.fields, around, around.ctes)
    if kind not in ("inner", "left"):
        raise NotBound(f"LATERAL in a {kind} join has no operator")
    on = conjuncts(join.args.get("on"))
    if is_generator(lateral.this):
        if on:
            raise NotBound("LATERAL with a table function and a condition has no operator")
        made = generate(context, left.node, resolve(lateral.this, scope), lateral, kind == "left")
        return Relation(made.node, left.fields + made.fields)
    inner = context.bind_query(context, lateral.this, scope)
    inner = inner.called(lateral.alias, _alias_columns(lateral))
    conditions = [resolve(part, Scope(left.fields + inner.fields, around, around.ctes)) for part in on]
    if any(map(has_subquery, conditions)):
        raise NotBound("a subquery in the condition of a LATERAL join has no operator")
    if not free_columns(inner.node) & set(left.node.names):
        joined: Node = make_join(context.typer, kind, left.node, inner.node, conditions)
        return Relation(joined, left.fields + inner.fields)
    columns = [item.column for item in inner.output]
    node, names = join_lateral(context.typer, kind, left.node, inner.node, columns, conditions)
    renamed = dict(zip(columns, names, strict=True))
    fields = tuple(replace(item, column=renamed.get(item.column, item.column)) for item in inner.fields)
    return Relation(node, left.fields + fields)
