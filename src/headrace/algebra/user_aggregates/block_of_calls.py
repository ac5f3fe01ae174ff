"""One SELECT with calls of aggregates, taken apart: rows with arguments, the calls, and a SELECT over their results.

The inner query names what it gives: ``__a0`` an argument, ``__p0`` what rows are partitioned by, ``__c0`` a column that
is shown beside the results, ``__o0`` what an ORDER BY of OVER says. The results of the first call are ``__r0_0``, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.aggregates import is_aggregate
from headrace.algebra.user_aggregates.called import arguments_of, names_of
from headrace.algebra.user_aggregates.definition import Definition, Versions
from headrace.algebra.user_aggregates.forms import Form, way_of
from headrace.algebra.user_aggregates.windows_of_calls import form_of, resolved
from headrace.errors import DefinitionError, NotYetMaintained, Place
from headrace.language import Query, nodes
from headrace.language.dialect import headrace_sql
from headrace.language.relations import direct_tables, find_relations


@dataclass(frozen=True)
class Called:
    """One call; `versions` is None of a built-in aggregate, which follows from the types of its arguments."""

    name: str
    versions: Versions | None
    form: Form
    arguments: tuple[str, ...]
    partition: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class From:
    """A relation that a block reads directly: its number among those of the inner query, and what it is called."""

    number: int
    alias: str


@dataclass(frozen=True)
class Taken:
    """A block. `order` are columns of the inner query with ASC or DESC, `order_by` the plain columns they are.

    `sources` are the relations of its FROM; `alone`: it is one relation, and nothing else.
    """

    name: str
    inner: Query
    calls: tuple[Called, ...]
    passed: tuple[str, ...]
    order: tuple[str, ...]
    order_by: tuple[str | None, ...]
    sources: tuple[From, ...]
    alone: bool

    @property
    def base(self) -> bool:
        """Whether its calls are of base versions, over groups."""
        return all(call.form.kind == "base" for call in self.calls)


_INNER = ("from_", "joins", "laterals", "where")
_OUTER = ("distinct", "limit", "offset")
_READ = {*_INNER, *_OUTER, "expressions", "group", "having", "qualify", "order", "windows", "with_", "hint", "kind",
         "operation_modifiers"}  # fmt: skip


def take_apart(
    select: exp.Select,
    name: str,
    visible: Sequence[exp.CTE],
    known: Mapping[str, Versions],
    shown: Callable[[Query], Sequence[str]],
    place: Place | None,
) -> tuple[Taken, exp.Select]:
    """A block, and the SELECT over its results that stands in its place; `visible` are the WITH it may read."""
    left = [key for key, value in select.args.items() if value and key not in _READ]
    if left:
        raise NotYetMaintained(f"{left[0].strip('_').upper()} beside calls of aggregates over streams", place=place)
    return _Block(select, name, visible, known, shown, place).taken()


class _Block:
    def __init__(
        self, select: exp.Select, name: str, visible: Sequence[exp.CTE], known: Mapping[str, Versions],
        shown: Callable[[Query], Sequence[str]], place: Place | None,
    ) -> None:  # fmt: skip
        self.select, self.name, self.visible = select, name, visible
        self.known, self.shown, self.place = known, shown, place
        self.columns: dict[str, exp.Expr] = {}
        self.generated: dict[tuple[str, str], str] = {}
        self.calls: dict[str, Called] = {}
        self.definitions: dict[str, Definition | None] = {}
        self.orders: list[exp.Order | None] = []
        self.groups: list[exp.Expr] = []

    def taken(self) -> tuple[Taken, exp.Select]:
        items = self._items()
        self.groups = self._group(items)
        partition = [self._column("p", group) for group in self.groups]
        self._check_places()
        outer = exp.Select(expressions=[shown for item in items for shown in self._item(item)])
        outer = outer.from_(nodes.Relation(this=exp.to_identifier(self.name)), copy=False)
        for clause in ("having", "qualify"):
            condition = self.select.args.get(clause)
            if condition is not None:
                outer = outer.where(self._outside(self._unaliased(condition.this, items)), copy=False)
        if (order := self.select.args.get("order")) is not None:
            outer.set("order", self._order(order, items))
        for key in _OUTER:
            if self.select.args.get(key):
                outer.set(key, self.select.args[key].copy())
        forms = {call.form.kind == "base" for call in self.calls.values()}
        if len(forms) > 1:
            raise DefinitionError(
                "MIXED_CALLS",
                "Some aggregates of this SELECT are called over a window and others without: one answers each row, "
                "the other each group.",
                hint="Give each call its OVER, or put the others into a subquery.",
                place=self.place,
            )
        if forms == {False} and (self.select.args.get("group") or self.select.args.get("having")):
            raise DefinitionError(
                "GROUPED_WINDOW",
                "Aggregates are called OVER windows here, and rows that a GROUP BY makes have no order of a stream.",
                hint="OVER (PARTITION BY ...) makes groups; or put the GROUP BY into a subquery.",
                place=self.place,
            )
        order = self._order_of_rows()
        order_columns = [self._column("o", one.this) for one in (order.expressions if order is not None else ())]
        passed = partition if forms == {True} else [name for name in self.columns if name.startswith("__c")]
        inner = self._query([exp.alias_(value.copy(), name, quoted=True) for name, value in self.columns.items()])
        numbers = {id(table): number for number, table in enumerate(find_relations(inner.tree))}
        direct = [table for table in direct_tables(inner.tree) if id(table) in numbers]
        from_ = self.select.args.get("from_")
        alone = (
            len(direct) == 1
            and isinstance(from_.this, exp.Table)
            and not (self.select.args.get("joins") or self.select.args.get("laterals") or from_.this.args.get("joins"))
        )
        ordered = order.expressions if order is not None else []
        return Taken(
            self.name,
            inner,
            tuple(self.calls.values()),
            tuple(dict.fromkeys(passed)),
            tuple(f"`{column}`{_direction(one)}" for column, one in zip(order_columns, ordered, strict=True)),
            tuple(one.this.name if isinstance(one.this, exp.Column) else None for one in ordered),
            tuple(From(numbers[id(table)], table.alias_or_name) for table in direct),
            alone,
        ), outer

    # -- the inner query ------------------------------------------------------------------------------------------

    def _query(self, items: list[exp.Expr]) -> Query:
        made = exp.Select(expressions=items or [exp.alias_(exp.Literal.number(1), "__c", quoted=True)])
        for key in _INNER:
            value = self.select.args.get(key)
            if value:
                made.set(key, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        if self.visible:
            made.set("with_", exp.With(expressions=[cte.copy() for cte in self.visible]))
        return Query(made, place=self.place)

    def _column(self, kind: str, value: exp.Expr) -> str:
        """The name under which the inner query gives a value."""
        text = headrace_sql(value)
        if (kind, text) not in self.generated:
            name = f"__{kind}{sum(1 for known, _ in self.generated if known == kind)}"
            self.generated[kind, text] = name
            self.columns[name] = value.copy()
        return self.generated[kind, text]

    def _items(self) -> list[exp.Expr]:
        """The SELECT list, its stars spelled out."""
        found: list[exp.Expr] = []
        for item in self.select.expressions:
            if not item.is_star:
                found.append(item)
                continue
            qualifier = item.args.get("table") if isinstance(item, exp.Column) else None
            for name in self.shown(self._query([item.copy()])):
                column = exp.column(exp.to_identifier(name, quoted=True), qualifier.copy() if qualifier else None)
                found.append(column)
        return found

    def _group(self, items: list[exp.Expr]) -> list[exp.Expr]:
        group = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("rollup") or group.args.get("cube") or group.args.get("grouping_sets"):
            raise NotYetMaintained("ROLLUP, CUBE or GROUPING SETS of a user-defined aggregate", place=self.place)
        if group.args.get("all"):
            return [item.unalias() for item in items if not self._calls_in(item)]
        return [self._grouped(one, items) for one in group.expressions]

    def _grouped(self, one: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
        """What one item of GROUP BY stands for: a number or an alias is an item of the SELECT list."""
        if isinstance(one, exp.Literal) and not one.is_string and 0 < int(one.name) <= len(items):
            return items[int(one.name) - 1].unalias()
        if isinstance(one, exp.Column) and not one.table:
            aliased = [it.this for it in items if isinstance(it, exp.Alias) and it.alias.lower() == one.name.lower()]
            if aliased and not isinstance(aliased[0], exp.Column):
                columns = {name.lower() for name in self.shown(self._query([exp.Star()]))}
                return one if one.name.lower() in columns else aliased[0]
        return one

    def _order_of_rows(self) -> exp.Order | None:
        """The ORDER BY of all OVERs; the rows of a block stand in one order."""
        texts = {headrace_sql(order) if order is not None else "" for order in self.orders}
        if len(texts) > 1:
            raise DefinitionError(
                "DIFFERENT_ORDERS",
                f"The windows of one SELECT are ordered in different ways: {', '.join(sorted(filter(None, texts)))}.",
                hint="Give all OVERs the same ORDER BY, or take two SELECTs.",
                place=self.place,
            )
        return self.orders[0] if self.orders else None

    # -- the calls ------------------------------------------------------------------------------------------------

    def _calls_in(self, node: exp.Expr) -> bool:
        return any(self._is_call(one) for one in node.walk())

    def _is_call(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Window | exp.Filter):
            return True
        return any(name in self.known for name in names_of(node)) or is_aggregate(node)

    def _check_places(self) -> None:
        for key in ("where", "group"):
            clause = self.select.args.get(key)
            for node in clause.walk() if clause is not None else ():
                if any(name in self.known for name in names_of(node)) and node.find_ancestor(exp.Select) is self.select:
                    raise DefinitionError(
                        "MISPLACED_CALL",
                        f"{names_of(node)[0]} is called in {'WHERE' if key == 'where' else 'GROUP BY'}, before there "
                        "are results of aggregates.",
                        hint="HAVING (or QUALIFY, of calls OVER windows) chooses among results.",
                        place=self.place,
                    )

    def _call(self, node: exp.Expr) -> tuple[Called, Definition | None]:
        """Take note of a call, with its OVER if it has one."""
        text = headrace_sql(node)
        if text not in self.calls:
            self.calls[text], self.definitions[text] = self._new_call(node)
        return self.calls[text], self.definitions[text]

    def _new_call(self, node: exp.Expr) -> tuple[Called, Definition | None]:
        window = resolved(node, self.select, self.place) if isinstance(node, exp.Window) else None
        inner = node.this if isinstance(node, exp.Window) else node
        if isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
            raise DefinitionError(
                "BAD_CALL",
                f"{headrace_sql(inner)}: an aggregate over rows in their order is called with arguments alone.",
                hint="Choose rows in WHERE, or by CASE in the argument.",
                place=self.place,
            )
        names = names_of(inner)
        versions = next((self.known[name] for name in names if name in self.known), None)
        form = form_of(window, self.place)
        if versions is not None and versions.base is None and window is None and not isinstance(inner, exp.Anonymous):
            versions = None  # the user's is for windows alone, so the built-in one answers
        name = versions.name if versions is not None else (names or (headrace_sql(inner),))[0]
        definition = None
        if versions is not None:
            windowed = form.kind != "base" and versions.window is not None
            definition = versions.window if windowed else versions.base or versions.window
        arguments = self._arguments(name, inner, definition)
        partition = self.groups if window is None else window.args.get("partition_by") or []
        if window is not None:
            self.orders.append(window.args.get("order"))
        number = len(self.calls)
        count = 1 if definition is None else len(definition.returns)
        return Called(
            name,
            versions,
            form,
            arguments,
            tuple(self._column("p", one) for one in partition),
            tuple(f"__r{number}_{one}" for one in range(count)),
        ), definition

    def _arguments(self, name: str, call: exp.Expr, definition: Definition | None) -> tuple[str, ...]:
        given = [one for one in arguments_of(call) if not isinstance(one, exp.Star)]
        if any(isinstance(one, exp.Distinct) for one in given):
            raise DefinitionError(
                "BAD_CALL",
                f"{name} is called with DISTINCT, and takes every row in its order.",
                hint="SELECT DISTINCT in a subquery, and call it over that.",
                place=self.place,
            )
        nested = next((one for it in given for one in it.walk() if self._is_call(one)), None)
        if nested is not None:
            raise DefinitionError(
                "NESTED_CALL",
                f"{name} is called with the result of another aggregate: {headrace_sql(nested)}.",
                hint="Compute that in a subquery, and call the other over it.",
                place=self.place,
            )
        if definition is None:
            return tuple(self._column("a", one) for one in given)
        if len(given) != len(definition.parameters):
            signature = ", ".join(f"{one.name} {one.type}".strip() for one in definition.parameters)
            raise DefinitionError(
                "WRONG_ARGUMENTS",
                f"{name}({signature}) is called with {len(given)} arguments.",
                hint=f"Call it with {len(definition.parameters)}.",
                place=self.place,
            )
        typed = zip(given, definition.parameters, strict=True)
        return tuple(self._column("a", _cast(one, parameter.type)) for one, parameter in typed)

    # -- the outer query ------------------------------------------------------------------------------------------

    def _item(self, item: exp.Expr) -> list[exp.Expr]:
        """One item of the SELECT list over the results; a call that returns several columns is all of them."""
        value = item.unalias()
        if not isinstance(value, exp.Dot) and self._is_call(value):
            call, definition = self._call(value)
            if definition is not None and len(call.results) > 1 and not isinstance(item, exp.Alias):
                columns = zip(call.results, definition.returns, strict=True)
                return [exp.alias_(_ref(result), one.name, quoted=True) for result, one in columns]
        made = self._outside(value)
        return [exp.alias_(made, self._name(item, value), quoted=True)]

    def _name(self, item: exp.Expr, value: exp.Expr) -> str:
        if isinstance(item, exp.Alias):
            return item.alias
        if isinstance(value, exp.Column):
            return value.name
        if isinstance(value, exp.Dot):
            return value.expression.name
        return self._call(value)[0].name if self._is_call(value) else headrace_sql(value)

    def _outside(self, node: exp.Expr) -> exp.Expr:
        """An expression over the block's results."""

        def put(one: exp.Expr) -> exp.Expr:
            if isinstance(one, exp.Query):
                raise DefinitionError(
                    "SUBQUERY_BESIDE_CALL",
                    "A subquery stands in the SELECT list beside calls of aggregates over a stream.",
                    hint="Join what it reads in FROM, or put the calls into a subquery of their own.",
                    place=self.place,
                )
            for group in self.groups:
                if _same(one, group):
                    return _ref(self._column("p", group))
            if isinstance(one, exp.Dot) and self._is_call(one.this):
                return _ref(self._part(one))
            if self._is_call(one):
                return _ref(self._single(one))
            if isinstance(one, exp.Column):
                return _ref(self._shown_beside(one))
            return one

        return node.copy().transform(put, copy=False)

    def _part(self, dot: exp.Dot) -> str:
        call, definition = self._call(dot.this)
        wanted = dot.expression.name
        names = [one.name for one in definition.returns] if definition is not None else []
        for result, name in zip(call.results, names, strict=False):
            if name.lower() == wanted.lower():
                return result
        raise DefinitionError(
            "UNKNOWN_COLUMN",
            f"{call.name} returns no column {wanted}.",
            hint=f"It returns: {', '.join(names) or 'one value'}.",
            place=self.place,
        )

    def _single(self, node: exp.Expr) -> str:
        call, definition = self._call(node)
        if len(call.results) > 1:
            names = [one.name for one in definition.returns] if definition is not None else []
            raise DefinitionError(
                "SEVERAL_COLUMNS",
                f"{call.name} returns several columns, and one value is needed here.",
                hint=f"Take one: {call.name}(...).{names[0]}. It returns: {', '.join(names)}.",
                place=self.place,
            )
        return call.results[0]

    def _shown_beside(self, column: exp.Column) -> str:
        grouped = self.select.args.get("group") is not None or not self._has_windows()
        if grouped:
            self._check_windows()
            raise DefinitionError(
                "NOT_GROUPED",
                f"{headrace_sql(column)} stands beside aggregates of groups, and is no column of GROUP BY.",
                hint=f"GROUP BY {headrace_sql(column)}, or call the aggregates OVER a window.",
                place=self.place,
            )
        return self._column("c", column)

    def _check_windows(self) -> None:
        """Refuse a call without a window of what is defined for windows alone: that is what is wrong then."""
        for node in (one for item in self.select.expressions for one in item.find_all(exp.Anonymous)):
            versions = next((self.known[name] for name in names_of(node) if name in self.known), None)
            if versions is not None:
                way_of(versions, Form("base"), streaming=False, place=self.place)

    def _has_windows(self) -> bool:
        places = [*self.select.expressions, self.select.args.get("qualify"), self.select.args.get("order")]
        return any(one is not None and one.find(exp.Window) is not None for one in places)

    def _unaliased(self, condition: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
        """HAVING and QUALIFY may speak of items by their aliases; over the results they stand before those."""
        aliased = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}

        def put(node: exp.Expr) -> exp.Expr:
            known = isinstance(node, exp.Column) and not node.table and not any(_same(node, it) for it in self.groups)
            if known and node.name.lower() in aliased:
                value = aliased[node.name.lower()]
                return value.copy() if isinstance(value, exp.Column) else exp.paren(value.copy(), copy=False)
            return node

        return condition.copy().transform(put, copy=False)

    def _order(self, order: exp.Order, items: list[exp.Expr]) -> exp.Order:
        """The ORDER BY of the block over its results: items by name or number, or anything else as they."""
        named = {self._name(item, item.unalias()).lower() for item in items}
        made = order.copy()
        for one in made.expressions:
            value = one.this
            by_name = isinstance(value, exp.Column) and not value.table and value.name.lower() in named
            if not by_name and not isinstance(value, exp.Literal):
                one.set("this", self._outside(value))
        return made


def with_hidden(query: Query, columns: Sequence[tuple[str, str, str]]) -> Query:
    """An inner query with more columns: (relation, column, the name it is given)."""
    tree = query.tree.copy()
    for alias, column, name in columns:
        tree.append("expressions", exp.alias_(exp.column(_quoted(column), _quoted(alias)), name, quoted=True))
    return replace(query, tree=tree)


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _ref(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _cast(value: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=exp.DataType.build(kind, dialect="spark")) if kind else value


def _same(one: exp.Expr, group: exp.Expr) -> bool:
    if isinstance(one, exp.Column) and isinstance(group, exp.Column):
        qualifiers = {one.table.lower(), group.table.lower()} - {""}
        return one.name.lower() == group.name.lower() and len(qualifiers) < 2
    return type(one) is type(group) and headrace_sql(one) == headrace_sql(group)


def _direction(one: exp.Expr) -> str:
    if not isinstance(one, exp.Ordered):
        return ""
    words = " DESC" if one.args.get("desc") else " ASC"
    nulls = one.args.get("nulls_first")
    return words + ("" if nulls is None else f" NULLS {'FIRST' if nulls else 'LAST'}")


def column_texts(inner: Query) -> dict[str, str]:
    """What stands behind each name that an inner query gives."""
    return {item.alias: headrace_sql(_uncast(item.this)) for item in inner.tree.expressions if item.alias}


def _uncast(value: exp.Expr) -> exp.Expr:
    # An argument is cast to the type of its parameter, which is not what was written.
    return value.this if isinstance(value, exp.Cast) else value
