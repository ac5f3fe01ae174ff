"""A pattern query as plain data: which variables, which predicates, what is selected of a match.

Both spellings come to the same description: ``SELECT ... FROM M PATTERN [a, b+] WHERE ... GROUP BY ...`` is read here,
and MATCH_RECOGNIZE is first brought to that shape (`match_recognize`). Columns are normal afterwards: those of a
variable are written ``a.loss`` with the variable's own spelling, all others without a qualifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates
from headrace.algebra.determinism import nondeterministic
from headrace.algebra.expressions import conjuncts, rewrite, text, unparen
from headrace.algebra.part_wise.patterns.aggregates import is_one_aggregate, read_aggregate
from headrace.algebra.part_wise.patterns.match_recognize import as_pattern_select
from headrace.algebra.part_wise.patterns.refusals import error
from headrace.errors import Place
from headrace.language import nodes, parse_duration
from headrace.language.query import Query, Scalar

_READ = frozenset({"expressions", "from_", "where", "group", "having"})
_SHAPE = "Write SELECT k, count(*) AS n FROM s PATTERN [a, b+] WHERE a.x > 1 AND b.x > 1 GROUP BY k."


@dataclass(frozen=True)
class Variable:
    """A variable of the pattern; `plus` stands for one or more rows."""

    name: str
    plus: bool = False


@dataclass(frozen=True)
class Item:
    """An output column: an expression over group columns and aggregates. Without a name, its aggregate names it."""

    name: str | None
    expression: Scalar


@dataclass(frozen=True)
class PatternQuery:
    """What a pattern query says.

    `predicates` name variables and `filters` name none: those choose the rows that the machine sees. `within` is in
    microseconds. `order_by` are the columns of MATCH_RECOGNIZE's ORDER BY.
    """

    source: str
    groups: tuple[str, ...]
    variables: tuple[Variable, ...]
    predicates: tuple[Scalar, ...]
    filters: tuple[Scalar, ...]
    items: tuple[Item, ...]
    having: Scalar | None = None
    within: int | None = None
    order_by: tuple[str, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)


def is_pattern_query(query: Query) -> bool:
    """Whether a query looks for a pattern, in either spelling."""
    return query.tree.find(nodes.Pattern, exp.MatchRecognize) is not None


def describe_pattern(query: Query) -> PatternQuery:
    """The description of a pattern query; what no state machine can mean is refused with its cause.

    Examples
    --------
    >>> from headrace.language import parse_one
    >>> found = describe_pattern(parse_one("SELECT count(*) AS n FROM M PATTERN [a, b+] WHERE b.x > a.x").query)
    >>> found.source, [variable.name for variable in found.variables], found.predicates
    ('M', ['a', 'b'], (Scalar('b.x > a.x'),))
    """
    tree = query.tree
    order_by: tuple[str, ...] = ()
    if isinstance(tree, exp.Select) and tree.args.get("match") is not None:
        tree, order_by = as_pattern_select(query)
    if (call := nondeterministic(query)) is not None:
        raise error(
            "BAD_PATTERN",
            query,
            f"A match would depend on {call}, which gives another value each time.",
            "Use columns of the input only.",
        )
    return _Reader(query, _checked(query, tree)).described(order_by)


def _checked(query: Query, tree: exp.Expr) -> exp.Select:
    """The tree, if it is a SELECT from one relation with a PATTERN and nothing that a machine cannot mean."""
    if not isinstance(tree, exp.Select):
        raise error("BAD_PATTERN", query, "A pattern is looked for by a single SELECT.", _SHAPE)
    for key, value in tree.args.items():
        if value and key not in _READ:
            word = {"with_": "WITH", "joins": "a join", "order": "ORDER BY", "laterals": "LATERAL"}.get(
                key, key.upper()
            )
            raise error(
                "BAD_PATTERN",
                query,
                f"A pattern query has no {word}: it reads one relation as it is.",
                "Make the rest a view: before it, whose rows the pattern reads, or after it.",
                value[0] if isinstance(value, list) else value if isinstance(value, exp.Expr) else None,
            )
    from_ = tree.args.get("from_")
    relation = from_.this if from_ is not None else None
    suffixes = relation.args.get("suffixes") or [] if isinstance(relation, nodes.Relation) else []
    if [type(suffix) for suffix in suffixes] != [nodes.Pattern]:
        raise error(
            "BAD_PATTERN",
            query,
            "A pattern query reads one relation, named in FROM with its PATTERN.",
            f"{_SHAPE} A window, a part or AS OF cannot stand beside PATTERN, and a subquery must be a view first.",
            relation,
        )
    if relation is not None and any(relation.args.get(key) for key in ("changes_of", "sample", "pivots", "joins")):
        raise error("BAD_PATTERN", query, "A pattern is looked for in all rows of a relation.", _SHAPE, relation)
    return tree


class _Reader:
    """Reads one SELECT whose shape is checked."""

    def __init__(self, query: Query, select: exp.Select) -> None:
        self._query = query
        self._select = select
        self._relation: nodes.Relation = select.args["from_"].this
        self._pattern: nodes.Pattern = self._relation.args["suffixes"][0]
        self._own_names = {self._relation.name.lower(), self._relation.alias_or_name.lower()}

    def described(self, order_by: tuple[str, ...]) -> PatternQuery:
        within = self._pattern.args.get("within")
        predicates: list[exp.Expr] = []
        filters: list[exp.Expr] = []
        for conjunct in self._conjuncts():
            named = {bool(column.table) for column in conjunct.find_all(exp.Column)}
            if named == {True, False}:
                raise self.error(
                    "BAD_PATTERN_PREDICATE",
                    f"In {text(conjunct)} some columns belong to a variable of the pattern and some to none.",
                    "Say of which row each column is, as in a.loss > 10; a predicate with no variable at all chooses "
                    "the rows that the pattern sees.",
                    conjunct,
                )
            (predicates if True in named else filters).append(conjunct)
        items = tuple(self._items())
        having = self._select.args.get("having")
        return PatternQuery(
            source=self._relation.name,
            groups=self._groups,
            variables=tuple(self._variables.values()),
            predicates=tuple(map(Scalar, predicates)),
            filters=tuple(map(Scalar, filters)),
            items=items,
            having=None if having is None else Scalar(self._having(having.this, items)),
            within=None if within is None else parse_duration(text(within)),
            order_by=order_by,
            place=self._query.place,
        )

    def error(self, condition: str, message: str, hint: str, node: exp.Expr | None = None) -> Exception:
        return error(condition, self._query, message, hint, node)

    @cached_property
    def _variables(self) -> dict[str, Variable]:
        found: dict[str, Variable] = {}
        for node in self._pattern.expressions:
            if node.name.lower() in found:
                raise self.error(
                    "BAD_PATTERN",
                    f"The pattern has two variables called {node.name}.",
                    "Give each place of the pattern a name of its own; one or more rows are b+.",
                    node,
                )
            found[node.name.lower()] = Variable(node.name, bool(node.args.get("plus")))
        return found

    @cached_property
    def _groups(self) -> tuple[str, ...]:
        group = self._select.args.get("group")
        if group is None:
            return ()
        found: dict[str, str] = {}
        for item in group.expressions:
            if (
                isinstance(item, exp.Literal)
                and item.name.isdigit()
                and int(item.name) <= len(self._select.expressions)
            ):
                item = self._select.expressions[int(item.name) - 1].unalias()
            column = self._normal(item)
            if not isinstance(column, exp.Column) or column.table or isinstance(column.this, exp.Star):
                raise self.error(
                    "BAD_PATTERN",
                    f"{text(item)} is no column of {self._relation.name}: sequences of rows are told apart by columns.",
                    "Compute it in a view, and GROUP BY its column.",
                    item,
                )
            found.setdefault(column.name.lower(), column.name)
        if not found or any(value for key, value in group.args.items() if key != "expressions"):
            raise self.error("BAD_PATTERN", "A pattern query groups by columns only.", "GROUP BY k, l", group)
        return tuple(found.values())

    def _conjuncts(self) -> Iterator[exp.Expr]:
        where = self._select.args.get("where")
        for conjunct in conjuncts(where.this if where is not None else None):
            bad = conjunct.find(exp.Query, exp.Window, nodes.Now) or next(
                find_aggregates(_without_last(conjunct)), None
            )
            if bad is not None:
                raise self.error(
                    "BAD_PATTERN_PREDICATE",
                    f"{text(conjunct)} is more than a comparison of rows: it has a subquery, an aggregate or the time.",
                    "Compare columns of a variable with values, or with columns of the variable before it.",
                    conjunct,
                )
            yield self._normal(_without_last(conjunct))

    # -- what is selected -----------------------------------------------------------------------------------------

    def _items(self) -> Iterator[Item]:
        names: set[str] = set()
        shown: set[str] = set()
        for item in self._select.expressions:
            expression = self._selected(item.unalias())
            inner = unparen(expression)
            name = item.alias or (inner.name if isinstance(inner, exp.Column) else None)
            if isinstance(inner, exp.Column):
                shown.add(inner.name.lower())
            if name is not None and name.lower() in names:
                raise self.error("BAD_PATTERN_ITEM", f"Two columns are called {name}.", "Name one with AS.", item)
            names.add((name or "").lower())
            yield Item(name, Scalar(expression))
        for group in self._groups:
            if group.lower() not in shown:
                raise self.error(
                    "BAD_PATTERN_ITEM",
                    f"{group} is in GROUP BY and not in SELECT: whose match is a row then?",
                    f"Add {group} to the SELECT list.",
                )

    def _selected(self, written: exp.Expr) -> exp.Expr:
        """An expression of SELECT or HAVING in normal form; all its columns are group columns or in aggregates."""
        if written.is_star or written.find(exp.Query, exp.Window, nodes.Now):
            raise self.error(
                "BAD_PATTERN_ITEM",
                f"{text(written)} is not a value of a match.",
                "Select GROUP BY columns and COUNT, SUM, MIN, MAX, AVG, FIRST and LAST of columns.",
                written,
            )
        expression = self._normal(written)
        for call in find_aggregates(expression):
            read_aggregate(self._query, call, tuple(self._variables))
        groups = {group.lower(): group for group in self._groups}

        def group_column(node: exp.Expr) -> exp.Expr | None:
            if is_one_aggregate(node):
                return node.copy()
            if not isinstance(node, exp.Column):
                return None
            if node.name.lower() not in groups:
                raise self.error(
                    "BAD_PATTERN_ITEM",
                    f"{text(node)} has many values in a match, one for each row.",
                    f"Say which: LAST({text(node)}), FIRST, MIN, MAX, SUM or AVG; or GROUP BY it.",
                    written,
                )
            return exp.column(exp.to_identifier(groups[node.name.lower()], quoted=node.this.args.get("quoted")))

        return rewrite(expression, group_column)

    def _having(self, condition: exp.Expr, items: Iterable[Item]) -> exp.Expr:
        """HAVING may use the names that SELECT gives."""
        named = {item.name.lower(): item.expression.tree for item in items if item.name is not None}
        own = {group.lower() for group in self._groups}

        def by_name(node: exp.Expr) -> exp.Expr | None:
            if is_one_aggregate(node):
                return node.copy()
            if isinstance(node, exp.Column) and not node.table and node.name.lower() not in own:
                found = named.get(node.name.lower())
                return None if found is None else found.copy()
            return None

        return self._selected(rewrite(condition, by_name))

    # -- columns --------------------------------------------------------------------------------------------------

    def _normal(self, expression: exp.Expr) -> exp.Expr:
        """The expression with its columns in normal form."""
        return rewrite(expression, self._normal_column)

    def _normal_column(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Count) and _is_bare(node.this) and node.this.name.lower() in self._variables:
            name = self._variables[node.this.name.lower()].name
            return exp.Count(this=exp.Column(this=exp.Star(), table=exp.to_identifier(name)))
        if not isinstance(node, exp.Column):
            return None
        first, *rest = node.parts
        if not rest:
            return node.copy()
        variable = self._variables.get(first.name.lower())
        if variable is None and first.name.lower() not in self._own_names:
            known = ", ".join(variable.name for variable in self._variables.values())
            raise self.error(
                "UNKNOWN_PATTERN_VARIABLE",
                f"{first.name} in {text(node)} is no variable of the pattern.",
                f"The pattern has: {known}. A field of a column is written a.column.field.",
                node,
            )
        found: exp.Expr = exp.Column(this=rest[0].copy())
        if variable is not None:
            found.set("table", exp.to_identifier(variable.name))
        for inner in rest[1:]:
            found = exp.Dot(this=found, expression=inner.copy())
        return found


def _is_bare(node: object) -> bool:
    return isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier)


def _without_last(expression: exp.Expr) -> exp.Expr:
    """In a predicate, LAST(a.loss) is the standard's long way to write a.loss."""

    def plain(node: exp.Expr) -> exp.Expr | None:
        return node.this.copy() if isinstance(node, exp.Last) and isinstance(node.this, exp.Column) else None

    return rewrite(expression, plain)
