"""The outer joins of the ViewDF paper, which have no condition.

``FROM M[j] AS New LEFT OUTER JOIN Helper[j-1] AS Prev`` joins on the columns that both have, and a number of the side
that is missing is 0: a pair that was not counted so far has a count of 0, not of NULL. A join with a condition of its
own means what it means in SQL. The paper also reads New and Prev through an unnamed ``(SELECT * FROM ...)``, which is
nothing but its FROM.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.errors import DefinitionError
from headrace.language import Query
from headrace.language.relations import find_relations

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

Columns = Sequence[tuple[str, str]]
_Known = dict[int, list[tuple[str, str]]]


def spell_out_outer_joins(query: Query, columns: Sequence[Columns]) -> Query:
    """The query with a condition for every outer join that has none; `columns` are those of its i-th relation."""
    tree = query.tree.copy()
    known = {id(table): list(found) for table, found in zip(find_relations(tree), columns, strict=True)}
    selects = list(tree.find_all(exp.Select))
    bare = [select for select in selects if any(_is_bare(join) for join in select.args.get("joins") or ())]
    if not bare:
        return query
    for select in bare:
        outer = _through(select)
        if outer is not None:
            for key in ("from_", "joins"):
                outer.set(key, select.args.get(key))
            _complete(outer, known, query)
        else:
            _complete(select, known, query)
    return Query(tree, query.output, place=query.place)


def _is_bare(join: exp.Join) -> bool:
    condition = join.args.get("on")
    told = join.args.get("using") or join.args.get("method")
    return bool(join.side) and not told and (condition is None or condition == exp.true())


def _through(select: exp.Select) -> exp.Select | None:
    """The SELECT that reads this one through an unnamed ``(SELECT * FROM ...)``, whose names it may then use."""
    subquery = select.parent
    if not isinstance(subquery, exp.Subquery) or subquery.alias or not isinstance(subquery.parent, exp.From):
        return None
    only_star = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    plain = not any(value for key, value in select.args.items() if key not in ("expressions", "from_", "joins", "kind"))
    outer = subquery.parent.parent
    return outer if only_star and plain and isinstance(outer, exp.Select) and not outer.args.get("joins") else None


def _complete(select: exp.Select, known: _Known, query: Query) -> None:
    """Give each bare join its condition, and put 0 for numbers that are missing."""
    tables = [select.args["from_"].this]
    missing: dict[str, set[str]] = {}
    #: Which relation a shared column is taken from: both where either may be missing.
    taken: dict[str, list[str]] = {}
    for join in select.args["joins"]:
        tables.append(join.this)
        if not _is_bare(join):
            continue
        shared = _shared(join, tables, known, query)
        name = join.this.alias_or_name
        pairs = [
            exp.NullSafeEQ(this=_column(column, owner), expression=_column(column, name))
            for column, owner in shared.items()
        ]
        join.set("on", exp.and_(*pairs, copy=False))
        for column, owner in shared.items():
            taken[column.lower()] = {"LEFT": [owner], "RIGHT": [name]}.get(join.side, [owner, name])
        for table in {"LEFT": tables[-1:], "RIGHT": tables[:-1]}.get(join.side, tables):
            numbers = [n.lower() for n, kind in known.get(id(table), ()) if kind.upper().startswith(_NUMBERS)]
            missing[table.alias_or_name.lower()] = set(numbers) - {column.lower() for column in shared}
    _spell_out_star(select, tables, known)
    for column in [found for item in _read_by(select) for found in item.find_all(exp.Column)]:
        made = _filled(column, missing, taken, tables, known)
        if made is not None:
            top = column.parent is select
            column.replace(exp.alias_(made, column.name) if top else made)


def _read_by(select: exp.Select) -> list[exp.Expr]:
    """What a SELECT computes from its relations."""
    clauses = [select.args.get(key) for key in ("where", "group", "having", "qualify", "order")]
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def _shared(join: exp.Join, tables: Sequence[exp.Expr], known: _Known, query: Query) -> dict[str, str]:
    """The columns a bare join is made on, each with the relation before that has it first."""
    before: dict[str, str] = {}
    for table in tables[:-1]:
        for name, _kind in known.get(id(table), ()):
            before.setdefault(name.lower(), table.alias_or_name)
    found = {name: before[name.lower()] for name, _kind in known.get(id(join.this), ()) if name.lower() in before}
    if not found:
        raise DefinitionError(
            "JOIN_WITHOUT_CONDITION",
            f"The {join.side} JOIN with {join.this.alias_or_name or 'a subquery'} has no condition, and no column is "
            "known that both sides share.",
            hint="Write ON ... after the joined relation.",
            place=query.place,
        )
    return found


def _filled(
    column: exp.Column,
    missing: dict[str, set[str]],
    taken: dict[str, list[str]],
    tables: Sequence[exp.Expr],
    known: _Known,
) -> exp.Expr | None:
    """What stands for a column where a side may be missing; None where it stands for itself."""
    name = column.name.lower()
    if isinstance(column.this, exp.Star):
        return None
    if not column.table and name in taken:
        found = [_column(column.name, owner) for owner in taken[name]]
        return found[0] if len(found) == 1 else exp.Coalesce(this=found[0], expressions=found[1:])
    owner = column.table.lower() or _owner(name, tables, known)
    if name not in missing.get(owner, ()):
        return None
    return exp.Coalesce(this=column.copy(), expressions=[exp.Literal.number(0)])


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name), exp.to_identifier(table))


def _owner(name: str, tables: Sequence[exp.Expr], known: _Known) -> str:
    """Whose a column without a qualifier is: the first relation's that has it."""
    for table in tables:
        if name in {column.lower() for column, _kind in known.get(id(table), ())}:
            return table.alias_or_name.lower()
    return ""


def _spell_out_star(select: exp.Select, tables: Sequence[exp.Expr], known: _Known) -> None:
    """A star would show what is missing as NULL, so it becomes the columns it stands for, each name once."""
    names = list({name.lower(): name for table in tables for name, _kind in known.get(id(table), ())}.values())
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [exp.column(exp.to_identifier(name)) for name in names] if isinstance(item, exp.Star) else [item]
    select.set("expressions", items)
