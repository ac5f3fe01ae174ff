"""GROUP BY: its keys in all spellings, grouping sets, and the aggregates.

Grouping sets are plain groups over more rows: each row is repeated for every set, with the keys that are not in the
set made NULL and the set's number as one more key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates, plain_calls
from headrace.algebra.context import Context
from headrace.algebra.expressions import cast, columns_of, ref, text, unparen
from headrace.algebra.limits import ordinal
from headrace.algebra.nodes import Aggregate, Generate, Node
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Scope, find, resolve
from headrace.algebra.subqueries import attach


@dataclass
class Grouped:
    """The node of the groups, and for the text of each key and aggregate what stands for it there."""

    node: Node
    told: dict[str, exp.Expr]


@dataclass
class _Keys:
    """The grouping expressions, each once, and the sets of them; None for the plain one."""

    items: list[exp.Expr]
    sets: list[tuple[int, ...]] | None = None


def bind_group(
    context: Context,
    node: Node,
    group: exp.Group | None,
    items: Sequence[exp.Expr],
    aliases: Mapping[str, exp.Expr],
    exprs: Sequence[exp.Expr],
    scope: Scope,
) -> Grouped:
    """Group `node`; `items` is the SELECT list, `exprs` all expressions that may hold aggregates."""
    keys = _Keys([]) if group is None else _read(group, items, aliases, scope)
    found = list({text(call): call for item in exprs for call in find_aggregates(item)}.values())
    # Subqueries inside keys and aggregates are asked of the rows, before they are grouped.
    node, settled = attach(context, node, [*keys.items, *found], scope)
    node, names = context.typer.extend(node, settled[: len(keys.items)], "key")
    node, plain_of = plain_calls(context, node, settled[len(keys.items) :])
    calls = {text(call): plain_of[text(plain)] for call, plain in zip(found, settled[len(keys.items) :], strict=True)}
    told: dict[str, exp.Expr] = {}
    # A constant stays what it is: as a text it could be anywhere.
    named = [(item, name) for item, name in zip(keys.items, names, strict=True) if columns_of(item)]
    if keys.sets is None:
        told |= {text(item): ref(name) for item, name in named}
        grouped: Node = Aggregate(node, tuple(dict.fromkeys(names)), tuple(plain_of.values()))
    else:
        node, told, made = _repeated(context, node, keys, names)
        grouped = Aggregate(node, made, tuple(plain_of.values()))
        told |= _grouping_calls(exprs, keys, ref(made[len(keys.items)]))
    told |= {key: ref(call.column.name) for key, call in calls.items()}
    return Grouped(grouped, told)


# -- the keys -----------------------------------------------------------------------------------------------------


def _read(group: exp.Group, items: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr], scope: Scope) -> _Keys:
    if group.args.get("all"):
        chosen = [item for item in items if next(find_aggregates(item), None) is None]
        return _Keys(_distinct(chosen))
    reader = _Reader(items, aliases, scope)
    parts: list[list[tuple[int, ...]]] = []
    plain = [reader.one(item) for item in group.expressions if not isinstance(item, _SETS)]
    written = [item for item in group.expressions if isinstance(item, _SETS)]
    # `GROUP BY a, b WITH CUBE` is the cube of what is written before it.
    trailing = [item for key in ("cube", "rollup", "grouping_sets") for item in group.args.get(key) or ()]
    if not written and not trailing:
        return _Keys(reader.items)
    for item in [*written, *trailing]:
        if not item.expressions:
            columns = [(position,) for position in plain]
            plain = []
            parts.append(_cube(columns) if isinstance(item, exp.Cube) else _rollup(columns))
        elif isinstance(item, exp.GroupingSets) and item in trailing:
            # `GROUP BY a, b GROUPING SETS (...)`: the list only says which columns there are.
            plain = []
            parts.append(reader.sets(item))
        else:
            parts.append(reader.sets(item))
    base = tuple(plain)
    sets = [base + tuple(p for chosen in choice for p in chosen) for choice in itertools.product(*parts)]
    return _Keys(reader.items, [tuple(dict.fromkeys(chosen)) for chosen in sets])


_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


class _Reader:
    def __init__(self, items: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr], scope: Scope) -> None:
        self.listed = items
        self.aliases = aliases
        self.scope = scope
        self.items: list[exp.Expr] = []

    def one(self, written: exp.Expr) -> int:
        """The position of a key among all keys."""
        place = ordinal(written, len(self.listed))
        if place is not None:
            bound = self.listed[place]
        elif isinstance(written, exp.Column):
            found = find(written, self.scope, self.aliases)
            if found is None:
                raise NotBound(f"the column {written.name} of GROUP BY is not found")
            bound = found
        else:
            bound = resolve(written, self.scope, self.aliases)
        bound = unparen(bound)
        if next(find_aggregates(bound), None) is not None:
            raise NotBound("GROUP BY an aggregate has no meaning")
        for position, known in enumerate(self.items):
            if text(known) == text(bound):
                return position
        self.items.append(bound)
        return len(self.items) - 1

    def group(self, written: exp.Expr) -> tuple[int, ...]:
        """The keys of ``a``, ``(a, b)`` or ``()``."""
        inner = unparen(written)
        if isinstance(inner, exp.Tuple):
            return tuple(self.one(item) for item in inner.expressions)
        return (self.one(inner),)

    def sets(self, written: exp.Expr) -> list[tuple[int, ...]]:
        if isinstance(written, exp.GroupingSets):
            found: list[tuple[int, ...]] = []
            for item in written.expressions:
                found += self.sets(item) if isinstance(item, _SETS) else [self.group(item)]
            return found
        columns = [self.group(item) for item in written.expressions]
        return _cube(columns) if isinstance(written, exp.Cube) else _rollup(columns)


def _distinct(items: Sequence[exp.Expr]) -> list[exp.Expr]:
    return list({text(unparen(item)): unparen(item) for item in items}.values())


def _rollup(columns: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(p for part in columns[:end] for p in part) for end in range(len(columns), -1, -1)]


def _cube(columns: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for size in range(len(columns), -1, -1):
        found += [tuple(p for part in chosen for p in part) for chosen in itertools.combinations(columns, size)]
    return found


# -- grouping sets --------------------------------------------------------------------------------------------------


def _repeated(
    context: Context, node: Node, keys: _Keys, names: Sequence[str]
) -> tuple[Node, dict[str, exp.Expr], tuple[str, ...]]:
    """The rows once for each set, with new key columns, the set's grouping id and, for twins, its number."""
    typer = context.typer
    assert keys.sets is not None
    made = [typer.fresh(name, typer.known[name]) for name in names]
    made.append(typer.fresh("grouping_id", "bigint"))
    twins = len({frozenset(chosen) for chosen in keys.sets}) < len(keys.sets)
    if twins:
        made.append(typer.fresh("grouping_set", "int"))
    rows: list[exp.Expr] = []
    for number, chosen in enumerate(keys.sets):
        values: list[exp.Expr] = []
        for position, name in enumerate(names):
            values.append(ref(name) if position in chosen else cast(exp.Null(), typer.known[name]))
        last = len(names) - 1
        bits = sum(1 << (last - position) for position in range(len(names)) if position not in chosen)
        values.append(cast(exp.Literal.number(bits), "bigint"))
        if twins:
            values.append(exp.Literal.number(number))
        pairs = [x for c, v in zip(made, values, strict=True) for x in (exp.Literal.string(c.name), v)]
        rows.append(exp.Anonymous(this="named_struct", expressions=pairs))
    generator = exp.Anonymous(this="inline", expressions=[exp.Array(expressions=rows)])
    repeated = Generate(node, (*node.columns, *made), generator, tuple(made))
    told = {text(item): ref(c.name) for item, c in zip(keys.items, made, strict=False) if columns_of(item)}
    return repeated, told, tuple(column.name for column in made)


def _grouping_calls(exprs: Sequence[exp.Expr], keys: _Keys, identity: exp.Expr) -> dict[str, exp.Expr]:
    """GROUPING(a) and GROUPING_ID(a, b) as bits of the set's grouping id."""
    positions = {text(item): position for position, item in enumerate(keys.items)}
    told: dict[str, exp.Expr] = {}
    for item in exprs:
        for call in item.find_all(exp.Grouping, exp.GroupingId):
            asked = [text(unparen(argument)) for argument in call.expressions]
            if any(one not in positions for one in asked):
                raise NotBound("GROUPING asks for a column that is not grouped by")
            if isinstance(call, exp.Grouping):
                told[text(call)] = cast(_bit(identity, positions[asked[0]], len(keys.items)), "tinyint")
            elif not asked:
                told[text(call)] = identity
            else:
                value: exp.Expr | None = None
                for one in asked:
                    bit = _bit(identity, positions[one], len(keys.items))
                    value = bit if value is None else exp.Add(this=_doubled(value), expression=bit)
                assert value is not None
                told[text(call)] = exp.Paren(this=value)
    return told


def _bit(identity: exp.Expr, position: int, width: int) -> exp.Expr:
    shifted = exp.Anonymous(this="shiftright", expressions=[identity.copy(), exp.Literal.number(width - 1 - position)])
    return exp.Paren(this=exp.BitwiseAnd(this=shifted, expression=exp.Literal.number(1)))


def _doubled(value: exp.Expr) -> exp.Expr:
    return exp.Mul(this=exp.Paren(this=value), expression=exp.Literal.number(2))
