"""MATCH_RECOGNIZE as the SELECT ... PATTERN [...] that means the same; what no machine of ours can mean is refused.

PARTITION BY is GROUP BY, DEFINE is WHERE, a measure is an item of SELECT, and the WHERE outside is a HAVING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from sqlglot import exp

from headrace.algebra.expressions import conjuncts, rewrite, text
from headrace.algebra.part_wise.patterns.aggregates import is_one_aggregate
from headrace.algebra.part_wise.patterns.refusals import error
from headrace.language import nodes
from headrace.language.query import Query

_RICHER = (
    ("PERMUTE", "PERMUTE"), ("|", "an alternative (|)"), ("{-", "an exclusion ({- -})"), ("{", "a count ({n})"),
    ("*", "a * (none or more)"), ("?", "a ? (none or one)"), ("^", "an anchor (^)"), ("$", "an anchor ($)"),
    ("(", "a group in parentheses"),
)  # fmt: skip


def as_pattern_select(query: Query) -> tuple[exp.Select, tuple[str, ...]]:
    """The SELECT in our own spelling, and the columns of ORDER BY."""
    return _Translation(query).select()


class _Translation:
    def __init__(self, query: Query) -> None:
        self._query = query
        self._outer = query.tree
        self._match: nodes.MatchRecognize = query.tree.args["match"]
        relation = query.tree.args["from_"].this
        if not isinstance(relation, nodes.Relation):
            raise self._refused(
                "MATCH_RECOGNIZE reads one relation by its name.", "Make the subquery a view.", relation
            )
        self._relation = relation

    def _refused(self, message: str, hint: str, node: exp.Expr | None = None) -> Exception:
        return error("BAD_MATCH_RECOGNIZE", self._query, message, hint, node)

    def select(self) -> tuple[exp.Select, tuple[str, ...]]:
        self._check_clauses()
        pattern = nodes.Pattern(
            expressions=[it.copy() for it in self._match.args["pattern"].expressions],
            within=_copied(self._match.args.get("within")),
        )
        relation = self._relation.copy()
        relation.append("suffixes", pattern)
        # What else the outer SELECT has is refused by whoever reads the result.
        kept = {key: value for key, value in self._outer.args.items() if key not in ("match", "where", "expressions")}
        select = exp.Select(**{key: _copied(value) for key, value in kept.items()})
        select.set("from_", exp.From(this=relation))
        partition = [it.copy() for it in self._match.args.get("partition_by") or ()]
        if partition:
            select.set("group", exp.Group(expressions=partition))
        if predicates := list(self._predicates()):
            select.set("where", exp.Where(this=exp.and_(*predicates, copy=False, wrap=False)))
        columns = self._columns(partition)
        select.set("expressions", list(self._items(columns)))
        if (where := self._outer.args.get("where")) is not None:
            select.set("having", exp.Having(this=self._over(where.this, columns)))
        return select, tuple(self._order())

    def _check_clauses(self) -> None:
        args = self._match.args
        rows, after = args.get("rows"), args.get("after")
        if rows is not None and rows.name != "ONE ROW PER MATCH":
            raise self._refused(
                f"{rows.name} would keep all rows of all matches; the machine keeps one row a match.",
                "Write ONE ROW PER MATCH, and FIRST(...), LAST(...) and other aggregates in MEASURES.",
            )
        if after is not None and after.name.upper() != "AFTER MATCH SKIP PAST LAST ROW":
            raise self._refused(
                f"With {after.name.upper()} matches overlap, and the machine follows one run a group.",
                "Write AFTER MATCH SKIP PAST LAST ROW, which is also meant where nothing is written.",
            )
        if args.get("subset") is not None:
            raise self._refused(
                "SUBSET names several variables as one, and the machine keeps aggregates of one variable or of all.",
                "Aggregate over one variable, or over none for all rows of the match.",
            )
        pattern = args["pattern"]
        if not isinstance(pattern, nodes.RowPattern):
            told = pattern.name.upper()
            what = next((word for sign, word in _RICHER if sign in told), "more than variables")
            raise self._refused(
                f"The pattern ({pattern.name}) has {what}, and the machine knows variables one after the other.",
                "Write variables in a row, each with or without +, as in PATTERN (a b c+).",
            )
        if self._outer.args.get("group") is not None:
            raise self._refused("GROUP BY cannot stand beside MATCH_RECOGNIZE.", "Group in a view over this one.")

    # -- DEFINE ---------------------------------------------------------------------------------------------------

    def _predicates(self) -> Iterator[exp.Expr]:
        variables = {it.name.lower(): bool(it.args.get("plus")) for it in self._match.args["pattern"].expressions}
        for definition in self._match.args.get("define") or ():
            name = definition.alias
            if name.lower() not in variables:
                raise self._refused(
                    f"DEFINE tells of {name}, and the pattern has no such variable.",
                    f"The pattern has: {', '.join(variables)}.",
                    definition,
                )
            for conjunct in conjuncts(definition.this):
                predicate = rewrite(conjunct, partial(_of_variable, owner=name, own_names=self._own_names()))
                named = {column.table.lower() for column in predicate.find_all(exp.Column)}
                if name.lower() not in named:
                    raise self._refused(
                        f"{text(conjunct)} in the definition of {name} does not depend on {name}.",
                        "Move it to the variable that it is about.",
                        definition,
                    )
                if variables[name.lower()] and named != {name.lower()}:
                    raise self._refused(
                        f"{text(conjunct)} would hold for every row of {name}+, and the machine remembers only the row "
                        "before.",
                        f"Compare with the row before, PREV({name}.x), or write PATTERN [...], where such "
                        "a predicate is asked of the first row only.",
                        definition,
                    )
                yield predicate

    def _own_names(self) -> set[str]:
        return {self._relation.name.lower(), self._relation.alias_or_name.lower()}

    # -- what is selected -----------------------------------------------------------------------------------------

    def _columns(self, partition: list[exp.Expr]) -> dict[str, tuple[str, exp.Expr]]:
        """What MATCH_RECOGNIZE gives, in order: by its name in lower case the name and the expression."""
        columns = {it.name.lower(): (it.name, it) for it in partition}
        own = set(columns)
        for measure in self._match.args.get("measures") or ():
            name = measure.this.alias
            if name.lower() in columns:
                raise self._refused(f"Two columns are called {name}.", "Rename the measure.", measure)
            columns[name.lower()] = (name, rewrite(measure.this.this, lambda node: _as_last(node, own)))
        return columns

    def _items(self, columns: Mapping[str, tuple[str, exp.Expr]]) -> Iterator[exp.Expr]:
        for item in self._outer.expressions:
            if item.is_star:
                yield from (exp.alias_(value.copy(), name, quoted=True) for name, value in columns.values())
                continue
            name = item.alias_or_name
            value = self._over(item.unalias(), columns)
            yield exp.alias_(value, name, quoted=True) if name else value

    def _over(self, expression: exp.Expr, columns: Mapping[str, tuple[str, exp.Expr]]) -> exp.Expr:
        """An expression of the outer SELECT, with what its columns stand for."""

        def meaning(node: exp.Expr) -> exp.Expr | None:
            if is_one_aggregate(node):
                raise self._refused(f"{text(node)} stands outside MEASURES.", "Move it into MEASURES.", node)
            if not isinstance(node, exp.Column):
                return None
            if node.name.lower() not in columns:
                known = ", ".join(name for name, _ in columns.values())
                raise self._refused(f"MATCH_RECOGNIZE gives no column {node.name}.", f"It gives: {known}.", node)
            return columns[node.name.lower()][1].copy()

        return rewrite(expression, meaning)

    def _order(self) -> Iterator[str]:
        order = self._match.args.get("order")
        for item in order.expressions if order is not None else ():
            if item.args.get("desc") or not isinstance(item.this, exp.Column):
                raise self._refused(
                    f"Rows are taken in the order of columns, oldest first, not by {text(item)}.", "ORDER BY ts", item
                )
            yield item.this.name


def _copied(value: object) -> object:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value.copy() if isinstance(value, exp.Expr) else value


def _of_variable(node: exp.Expr, owner: str, own_names: set[str]) -> exp.Expr | None:
    """In the definition of a variable, a column without a variable is one of the row that is tried."""
    if isinstance(node, exp.Column) and (not node.table or node.table.lower() in own_names):
        return exp.Column(this=node.this.copy(), table=exp.to_identifier(owner))
    return None


def _as_last(node: exp.Expr, partition: set[str]) -> exp.Expr | None:
    """In a measure, a column by itself is that of the last row."""
    if is_one_aggregate(node):
        return node.copy()
    if isinstance(node, exp.Column) and (node.table or node.name.lower() not in partition):
        return exp.Last(this=node.copy())
    return None
